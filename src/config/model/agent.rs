//! Agents, their upstreams, cards and limits.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{CertificateFiles, Policy, UpstreamAssertion, UpstreamCredential};
use crate::a2a::card::{Edits, OriginCard};
use crate::a2a::security::Security;
use crate::a2a::{Binding, Generation, Operation, v0_1};
use crate::config::AgentEnvelope;
use crate::config::url::{self, Url};

#[derive(Clone, Debug, PartialEq)]
pub struct Agent {
    pub name: String,
    pub route: AgentRoute,
    pub upstream: Upstream,
    pub card: Card,
    /// Overrides the card's requirement; `None`: what the upstream card says is enforced.
    pub security: Option<Security>,
    pub rate_limits: Vec<RateLimit>,
    pub policy: Policy,
    pub forward_credentials: bool,
    /// Callers of generations that the agent does not speak are served too.
    pub translate: bool,
    /// Callers of A2A 0.1 are served, by these methods.
    pub v0_1: Option<v0_1::Methods>,
    /// Where the agent reaches the gateway's address of itself, without a trailing slash; `None`: what its route makes of
    /// `push.url` or `public_url`.
    pub push_url: Option<String>,
    /// `None`: no message reaches it.
    pub envelope: Option<AgentEnvelope>,
    pub listed: Listed,
    /// Largest request body for this agent; defaults to `limits.body_bytes`.
    pub body_bytes: usize,
}

/// Who sees that there is an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listed {
    Public,
    /// Those that may call it.
    Callers,
    Never,
}

impl Listed {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Callers => "callers",
            Self::Never => "never",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentRoute {
    /// `/agents/maps`: no trailing slash; the empty string is the root.
    Path(String),
    /// A host name in lower case, without a port.
    Host(String),
    /// By messages of the envelope protocol alone.
    Envelope,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Upstream {
    /// `None`: from the agent's own card.
    pub generation: Option<Generation>,
    /// The same.
    pub binding: Option<Binding>,
    /// With `srv` those that were found last.
    pub endpoints: Vec<Endpoint>,
    /// Where endpoints come from; `None`: from the configuration.
    pub srv: Option<Srv>,
    pub balancing: Balancing,
    /// Retries, in percent of calls.
    pub retry_budget: u32,
    pub http: UpstreamHttp,
    pub tls: UpstreamTls,
    pub credential: Option<UpstreamCredential>,
    pub assertion: Option<UpstreamAssertion>,
    pub connect_timeout: Duration,
    /// To the head of the answer for reads, cancels and push calls.
    pub first_byte_timeout: Duration,
    /// The same for sends and streams; `None` waits as long as the caller does.
    pub send_timeout: Option<Duration>,
    /// Longest silence inside an answer that is not a stream.
    pub idle_timeout: Duration,
    /// Longest silence on a stream; `None`: no bound.
    pub stream_idle_timeout: Option<Duration>,
    pub pool_idle: Duration,
    pub dns_refresh: Duration,
    /// Most connections to one endpoint.
    pub max_connections: usize,
    pub answer_header_bytes: usize,
    pub answer_bytes: usize,
    pub event_bytes: usize,
    /// Endpoints that do not answer are left out of lists.
    pub list_partial: bool,
    pub probe: Probe,
}

/// How a task without a record is looked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Probe {
    pub timeout: Duration,
    /// Most at once.
    pub concurrent: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The agent's JSON-RPC URL, normalised (`http://host:port/path`). Its text is the endpoint's stable identity.
    pub url: String,
    /// Takes no new work.
    pub drain: bool,
}

/// Endpoints that the DNS knows.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Srv {
    /// In lower case, without the dot at its end.
    pub name: String,
    pub secure: bool,
    /// Begins with `/`.
    pub path: String,
    /// `None`: those of the system.
    pub dns_server: Option<SocketAddr>,
}

impl Srv {
    /// The endpoint at this host, unless the name is none that a URL can have.
    pub fn endpoint(&self, host: &str, port: u16) -> Option<Endpoint> {
        let implied = if self.secure { 443 } else { 80 };
        let url = Url {
            secure: self.secure,
            host: url::host(host)?,
            port: Some(port).filter(|port| *port != implied),
            path: self.path.clone(),
        };
        Some(Endpoint {
            url: url.text(),
            drain: false,
        })
    }
}

/// How endpoints are chosen, watched and bounded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Balancing {
    pub balance: Balance,
    /// `None`: no checks.
    pub health: Option<Health>,
    /// `None`: off.
    pub ejection: Option<Ejection>,
    /// In percent; `0`: never.
    pub panic_threshold: u32,
    pub slow_start: Option<Duration>,
    /// Most calls under way at one endpoint.
    pub max_in_flight: usize,
    /// Most calls that wait for one endpoint, and how long.
    pub queue_length: usize,
    pub queue_timeout: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// `None`: the agent's card.
    pub path: Option<String>,
    pub interval: Duration,
    pub timeout: Duration,
    pub healthy_after: u32,
    pub unhealthy_after: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ejection {
    pub consecutive_failures: u32,
    pub base: Duration,
    pub max: Duration,
    /// In percent of the endpoints.
    pub most: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Balance {
    LeastRequest,
    RoundRobin,
    ConsistentHash(HashOn),
}

/// What a consistent hash keeps together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashOn {
    /// The call's context, else its principal.
    Context,
    Principal,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpstreamHttp {
    /// HTTP/2 when TLS negotiates it, else HTTP/1.1.
    Auto,
    Http1,
    Http2,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct UpstreamTls {
    /// Instead of the system's roots.
    pub ca: Option<PathBuf>,
    pub client: Option<CertificateFiles>,
    /// Name to verify and to send as SNI instead of the URL's host.
    pub server_name: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Card {
    /// Where to fetch the card; `None`: `/.well-known/agent-card.json` under each endpoint's base, then the old path.
    pub url: Option<String>,
    /// The card itself, which is not fetched then.
    pub file: Option<CardFile>,
    /// What fetched cards are compared with; `None`: the first one.
    pub approved: Option<CardFile>,
    pub on_change: OnChange,
    pub refresh: Duration,
    pub max_bytes: usize,
    /// `Cache-Control: max-age` of the published card.
    pub max_age: Duration,
    pub edits: Edits,
    pub form: CardForm,
    /// `None`: signatures are not looked at.
    pub verify: Option<CardVerify>,
    /// Published as the agent wrote it, too.
    pub original: bool,
}

/// Whose signatures of a card are believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CardVerify {
    pub keys: Option<CardKeys>,
    /// What `jku` may say.
    pub jku: Vec<String>,
    /// For the URLs.
    pub ca: Option<PathBuf>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CardKeys {
    File(PathBuf),
    Url(String),
}

/// A card that an operator keeps.
#[derive(Clone, Debug, PartialEq)]
pub struct CardFile {
    pub path: PathBuf,
    pub card: OriginCard,
}

/// What becomes of a fetched card that differs from the approved one in what matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnChange {
    Publish,
    Hold,
    Alert,
}

/// What callers of different generations get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CardForm {
    /// One document for all.
    Hybrid,
    /// Each its own, by `A2A-Version`.
    ByVersion,
}

#[derive(Clone, Debug, PartialEq)]
pub struct RateLimit {
    /// The name in the `RateLimit-Policy` header.
    pub name: String,
    pub per: LimitKey,
    /// Empty: every operation.
    pub operations: Vec<Operation>,
    pub bound: LimitBound,
    /// Over all gateways that share a store, if there is one.
    pub shared: bool,
}

impl RateLimit {
    /// So many calls each period from an address, at once or one by one.
    pub fn of_addresses(name: &str, (count, period): (u32, Duration)) -> Self {
        Self {
            name: name.to_owned(),
            per: LimitKey::Address,
            operations: Vec::new(),
            bound: LimitBound::Rate {
                count,
                period,
                burst: count,
                of: RateOf::Calls,
            },
            shared: false,
        }
    }
}

/// Whose budget a rule is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitKey {
    Principal,
    Address,
    /// One budget for the whole agent.
    Agent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitBound {
    /// `count` calls each `period`, at most `burst` at once.
    Rate {
        count: u32,
        period: Duration,
        burst: u32,
        of: RateOf,
    },
    /// Calls under way, streams included, until their last byte.
    Concurrent(u32),
    OpenStreams(u32),
    /// Tasks that have not ended, of an owner or of all.
    OpenTasks(u32),
    /// Bytes of bodies each `period`. What is under way is never cut off.
    Bytes {
        bytes: u64,
        period: Duration,
        direction: Direction,
    },
}

/// What a rate counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateOf {
    Calls,
    /// Sends that begin a task.
    TaskCreations,
    /// Gets and lists of tasks.
    Polls,
}

/// As the gateway sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From callers.
    In,
    /// To callers.
    Out,
}

impl CardVerify {
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        let keys = self.keys.as_ref().and_then(|keys| match keys {
            CardKeys::File(file) => Some(file.as_path()),
            CardKeys::Url(_) => None,
        });
        keys.into_iter().chain(self.ca.as_deref())
    }
}
