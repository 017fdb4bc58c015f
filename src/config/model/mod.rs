//! The checked configuration: what the rest of the program is built from.
//!
//! Every value here has been validated as a whole by `check`; durations, sizes and addresses are typed. Stages take the
//! narrow part that they need.

mod agent;
mod audit;
mod credential;
mod front_door;
mod policy;
mod security;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;

use super::{Envelope, Fragments, Places, Secret};
use crate::a2a::security::SchemeName;

pub use self::agent::*;
pub use self::audit::*;
pub use self::credential::*;
pub use self::front_door::*;
pub use self::policy::*;
pub use self::security::*;

#[derive(Clone)]
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
    pub assertions: Assertions,
    pub card_signatures: CardSignatures,
    /// Who and what is not accepted any more.
    pub revocations: Option<PathBuf>,
    pub limits: Limits,
    pub security_schemes: BTreeMap<SchemeName, Scheme>,
    pub decision_points: BTreeMap<String, DecisionPoint>,
    /// `None`: no page may read anything.
    pub cors: Option<Cors>,
    /// `None`: off.
    pub front_door: Option<FrontDoor>,
    /// `None`: agents are not listed.
    pub catalogue: Option<Catalogue>,
    /// Those of the file, then those of the folder.
    pub agents: Vec<Agent>,
    /// A folder with files of further agents.
    pub agents_directory: Option<PathBuf>,
    /// The files of that folder.
    pub fragments: Fragments,
    pub log: Log,
    /// `None`: off.
    pub audit: Option<Audit>,
    /// How long streams and calls may go on after SIGTERM, and tasks of an endpoint that was removed.
    pub drain: Duration,
    /// Worker threads; `None` is one per core.
    pub workers: Option<usize>,
    /// Where its keys stand, for what is found out about it later.
    pub places: Places,
}

/// Whose pages may read what is published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cors {
    /// Empty: those of everybody.
    pub origins: Vec<String>,
    pub max_age: Duration,
}

/// The list of agents for callers.
#[derive(Clone, Debug, PartialEq)]
pub struct Catalogue {
    pub path: String,
    /// Agents of a page when nobody says it.
    pub page_size: usize,
    /// Most agents of a page.
    pub max_page_size: usize,
    /// How long callers may keep what is public.
    pub max_age: Duration,
    /// Most requests of one address, in such a period.
    pub rate: (u32, Duration),
    /// The general ones.
    pub rate_limits: Vec<RateLimit>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Listener {
    pub name: String,
    pub address: SocketAddr,
    pub tls: Option<ListenerTls>,
    /// Peers whose `X-Forwarded-For` / `Forwarded` is believed.
    pub trusted_proxies: Vec<IpNet>,
    /// Empty: every call.
    pub allow: Vec<Allow>,
    /// The name of the decision point that must allow calls, too.
    pub decision_point: Option<String>,
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
