//! The checked configuration: what the rest of the program is built from.
//!
//! Every value here has been validated as a whole by `check`; durations, sizes and addresses are typed. Stages take the
//! narrow part that they need.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;

use super::{AgentEnvelope, Envelope, Places, Secret};
use crate::a2a::security::{SchemeName, Security};
use crate::a2a::{Binding, Generation, Operation, v0_1};

#[derive(Clone, Debug)]
pub struct Config {
    /// Scheme, host and optional path that cards advertise; without a trailing slash.
    pub public_url: String,
    pub listeners: Vec<Listener>,
    pub admin: Option<Admin>,
    pub state: State,
    pub page_tokens: PageTokens,
    pub push: Push,
    /// `None`: off.
    pub envelope: Option<Envelope>,
    pub limits: Limits,
    pub security_schemes: BTreeMap<SchemeName, Scheme>,
    pub agents: Vec<Agent>,
    pub log: Log,
    /// How long streams and calls may go on after SIGTERM, and tasks of an endpoint that was removed.
    pub drain: Duration,
    /// Worker threads; `None` is one per core.
    pub workers: Option<usize>,
    /// Where its keys stand, for what is found out about it later.
    pub places: Places,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Listener {
    pub name: String,
    pub address: SocketAddr,
    pub tls: Option<ListenerTls>,
    /// Peers whose `X-Forwarded-For` / `Forwarded` is believed.
    pub trusted_proxies: Vec<IpNet>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ListenerTls {
    /// At least one; chosen by SNI, the first serves unknown or absent names.
    pub certificates: Vec<CertificateFiles>,
    pub client_certificates: ClientCertificates,
    /// CA bundle for client certificates; present unless `client_certificates` is `Off`.
    pub client_ca: Option<PathBuf>,
    pub client_crls: Vec<PathBuf>,
    pub min_version: TlsVersion,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    pub certificate: PathBuf,
    pub private_key: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientCertificates {
    Off,
    Optional,
    Required,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsVersion {
    Tls12,
    Tls13,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Admin {
    pub address: SocketAddr,
}

#[derive(Clone, Debug, PartialEq)]
pub struct State {
    pub store: Store,
    /// Most task records kept; finished tasks go first, then the longest unseen.
    pub max_tasks: usize,
    /// A record that was not seen for this long is forgotten.
    pub retention: Duration,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Store {
    Memory,
    /// Journal in this folder; written before the answer leaves, synced to disk at this interval.
    Embedded {
        path: PathBuf,
        sync_interval: Duration,
    },
    /// Shared with other gateways.
    Redis(Box<Redis>),
}

/// A Redis or Valkey, and how it is used.
#[derive(Clone, Debug, PartialEq)]
pub struct Redis {
    pub servers: RedisServers,
    /// Over TLS, to all of them.
    pub secure: bool,
    pub database: u32,
    pub login: RedisLogin,
    /// Without a name of its own: certificates carry the hosts of the addresses.
    pub tls: UpstreamTls,
    pub timeout: Duration,
    pub connect_timeout: Duration,
    pub cache_ttl: Duration,
    /// Printable, without braces: they would gather every key in one slot of a cluster.
    pub key_prefix: String,
}

/// At least one address each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RedisServers {
    Standalone(RedisAddress),
    Sentinel {
        sentinels: Vec<RedisAddress>,
        master: String,
        login: RedisLogin,
    },
    Cluster(Vec<RedisAddress>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisAddress {
    /// An IPv6 address without brackets.
    pub host: String,
    pub port: u16,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RedisLogin {
    pub username: Option<String>,
    pub password: Option<Secret<String>>,
}

/// Tokens of lists that are gathered from several endpoints.
#[derive(Clone, Debug, PartialEq)]
pub struct PageTokens {
    /// The first makes tokens, all of them read; none: one is made.
    pub keys: Vec<Secret<String>>,
    pub lifetime: Duration,
}

/// Webhooks of callers whose generation their agent does not speak.
#[derive(Clone, Debug, PartialEq)]
pub struct Push {
    /// The first seals, all of them open; none: such webhooks are refused.
    pub keys: Vec<Secret<String>>,
    /// Where agents reach the gateway, without a trailing slash; `None`: at `public_url`.
    pub url: Option<String>,
    /// Patterns in lower case; empty: every host.
    pub hosts: Vec<String>,
    /// Where webhooks may be besides public addresses.
    pub networks: Vec<IpNet>,
    pub http: bool,
    /// Whom to believe at a webhook.
    pub tls: UpstreamTls,
    pub lifetime: Duration,
    pub timeout: Duration,
    pub body_bytes: usize,
    /// Most notifications of one agent under way.
    pub concurrent: usize,
    /// Most notifications of one agent, in such a period.
    pub rate: (u32, Duration),
}

/// Bounds on what a caller can make the gateway hold (`hardening`: every one has a metric).
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    pub tls_handshake: Duration,
    /// From accept, or from the end of the last answer on an HTTP/1.1 connection that has begun a request. Over HTTP/2 from
    /// accept to the first request.
    pub request_header: Duration,
    pub request_body_idle: Duration,
    pub request_body: Duration,
    pub response_idle: Duration,
    pub keep_alive: Duration,
    pub http2_ping: Duration,
    pub header_bytes: usize,
    pub header_fields: usize,
    pub target_bytes: usize,
    pub body_bytes: usize,
    pub json_depth: usize,
    pub number_digits: usize,
    pub http2_streams: u32,
    pub http2_stream_window: u32,
    pub http2_connection_window: u32,
    pub stream_buffer_bytes: usize,
    pub connections: usize,
    pub connections_per_address: usize,
    /// Most distinct keys that one rate-limit rule remembers.
    pub rate_limit_keys: usize,
}

/// How a scheme that cards publish is verified.
#[derive(Clone, Debug, PartialEq)]
pub struct Scheme {
    pub description: Option<String>,
    pub kind: SchemeKind,
}

#[derive(Clone, Debug, PartialEq)]
pub enum SchemeKind {
    ApiKey {
        place: ApiKeyPlace,
        name: String,
        keys: KeySource,
    },
    /// `http` scheme `bearer`.
    Bearer {
        bearer_format: Option<String>,
        jwt: Jwt,
    },
    /// `http` scheme `basic`.
    Basic {
        users_file: PathBuf,
    },
    /// Published with its flows (an object, passed as is); tokens verified as JWT.
    OAuth2 {
        flows: serde_json::Value,
        metadata_url: Option<String>,
        jwt: Jwt,
    },
    OpenIdConnect {
        url: String,
        jwt: Jwt,
    },
    MutualTls {
        allow: Vec<CertificateRule>,
    },
}

impl SchemeKind {
    pub fn jwt_mut(&mut self) -> Option<&mut Jwt> {
        match self {
            Self::Bearer { jwt, .. } | Self::OAuth2 { jwt, .. } | Self::OpenIdConnect { jwt, .. } => Some(jwt),
            Self::ApiKey { .. } | Self::Basic { .. } | Self::MutualTls { .. } => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApiKeyPlace {
    Header,
    Query,
    Cookie,
}

/// API keys, only as hashes (`sha256:<64 hex digits>` or `sha256:<salt>:<hex>`, see `config/README.md`).
#[derive(Clone, Debug, PartialEq)]
pub enum KeySource {
    File(PathBuf),
    /// Given in the configuration itself (also what `demo` and tests use).
    Inline(Vec<ApiKey>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiKey {
    /// The principal's name: `key:<id>` becomes its stable id.
    pub id: String,
    /// SHA-256 over salt then key.
    pub sha256: [u8; 32],
    pub salt: Vec<u8>,
    pub scopes: Vec<String>,
    pub attributes: Vec<Attribute>,
    /// From then on it is refused, in Unix seconds.
    pub expires: Option<u64>,
    /// For people.
    pub label: String,
}

/// What is known of a caller beside its id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute {
    pub name: String,
    pub value: String,
}

impl Attribute {
    /// In bytes. Ids of tenants and groups have some 40.
    pub const MAX_VALUE: usize = 255;
    pub const EXPECTED: &'static str = "must be `name=value` with 1 to 255 bytes each, e.g. `tenant=acme`";

    pub fn parse(text: &str) -> Option<Self> {
        let (name, value) = text.split_once('=')?;
        let sound = |part: &str| (1..=Self::MAX_VALUE).contains(&part.len());
        (sound(name) && sound(value)).then(|| Self {
            name: name.to_owned(),
            value: value.to_owned(),
        })
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Jwt {
    pub issuer: String,
    /// Any of these must be in `aud`.
    pub audience: Vec<String>,
    pub keys: JwksSource,
    /// Clock skew allowed for `exp` and `nbf`.
    pub leeway: Duration,
    /// The claim that names the principal; `sub` by default.
    pub principal_claim: String,
    /// The claims that become attributes of the principal: those that a policy asks for.
    pub claims: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum JwksSource {
    File(PathBuf),
    Url {
        url: String,
        ca: Option<PathBuf>,
        refresh: Duration,
        cooldown: Duration,
    },
}

/// One rule that admits a client certificate; `*` matches any run of characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CertificateRule {
    /// `spiffe://…` or another URI SAN.
    Uri(String),
    Dns(String),
    Email(String),
    /// The whole subject in RFC 4514 form.
    Subject(String),
}

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
    /// Largest request body for this agent; defaults to `limits.body_bytes`.
    pub body_bytes: usize,
}

/// Who may do what with the tasks of an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// `None`: `Principal` where the agent requires authentication, else `Nobody`.
    pub task_owner: Option<TaskOwner>,
    pub task_sharing: Vec<TaskSharing>,
}

/// To whom a task and a context belong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskOwner {
    /// The principal whose call made them.
    Principal,
    /// Everybody who has the same value of this claim or attribute.
    Claim(String),
    /// To nobody in particular: whoever may call the agent may use all of them.
    Nobody,
}

/// Lets some callers use tasks of others. Patterns: `*` stands for any run of characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskSharing {
    /// Any of these.
    pub with: Vec<CallerPattern>,
    /// The owners whose tasks they may use.
    pub owners: Vec<String>,
    pub access: TaskAccess,
}

/// Names callers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallerPattern {
    Id(String),
    /// `name=value`.
    Attribute(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskAccess {
    /// What only reads: get, list, subscribe, push configurations read.
    Read,
    Full,
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
    pub endpoints: Vec<Endpoint>,
    pub balancing: Balancing,
    /// Retries, in percent of calls.
    pub retry_budget: u32,
    pub http: UpstreamHttp,
    pub tls: UpstreamTls,
    pub credential: Option<UpstreamCredential>,
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

/// What the agent is shown instead of the caller's credential.
#[derive(Clone, Debug, PartialEq)]
pub enum UpstreamCredential {
    Header {
        name: http::HeaderName,
        value: Secret<String>,
    },
    Bearer(Secret<String>),
    Basic {
        username: String,
        password: Secret<String>,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub struct Card {
    /// Where to fetch the card; `None`: `/.well-known/agent-card.json` under each endpoint's base, then the old path.
    pub url: Option<String>,
    pub refresh: Duration,
    pub max_bytes: usize,
    /// `Cache-Control: max-age` of the published card.
    pub max_age: Duration,
    /// Top-level members that replace what the agent says.
    pub overrides: serde_json::Map<String, serde_json::Value>,
    pub form: CardForm,
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
        /// Over all gateways that share a store, if there is one.
        shared: bool,
    },
    /// Calls under way, streams included, until their last byte.
    Concurrent(u32),
    OpenStreams(u32),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Log {
    pub format: LogFormat,
    /// A `tracing` filter directive, e.g. `info`.
    pub level: String,
    pub access: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    Text,
    Json,
}
