//! The file as users write it: what serde fills and the JSON Schema is made from.
//!
//! The doc comments are the users' reference: they become the descriptions in the schema. Everything is optional for
//! serde, because `shape` has already reported what is missing, unknown or of the wrong type, and `check` must be able
//! to go on with the rest; `required` therefore stands in the schema only. Defaults are in the `Default` impls.

mod agents;
mod audit;
mod catalogue;
mod collections;
mod cors;
mod credential;
mod decision;
mod envelope;
mod front_door;
mod policy;
mod push;
mod redis;
mod security;
mod watch;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::units::{SecretText, Size, Time};

pub use agents::*;
pub use audit::*;
pub use catalogue::*;
pub use collections::{List, Names};
pub use cors::*;
pub use credential::*;
pub use decision::*;
pub use envelope::*;
pub use front_door::*;
pub use policy::*;
pub use push::*;
pub use redis::*;
pub use security::*;
pub use watch::*;

/// Configuration of a2a-gateway.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Configuration", extend("required" = ["public_url", "listeners", "agents"]))]
pub struct Raw {
    /// Scheme, host and optional path that published cards advertise. Required: a gateway that guesses its address from
    /// a request publishes whatever a caller makes it publish.
    pub public_url: Option<String>,
    /// Addresses that take calls. At least one.
    pub listeners: List<RawListener>,
    /// The listener for operators: health, readiness, metrics, running configuration. Loopback by default, because it
    /// asks nobody who they are.
    pub admin: RawAdmin,
    /// Where the gateway remembers which endpoint and which caller own a task.
    pub state: RawState,
    /// The tokens of lists of tasks that the gateway gathers from several endpoints.
    pub page_tokens: RawPageTokens,
    /// Webhooks of callers whose A2A generation the agent does not speak. The agent is given an address of the gateway, which
    /// sends what comes there on to the caller's webhook, in the caller's generation. Off without `keys`.
    pub push: RawPush,
    /// The envelope protocol of early, unreleased A2A texts, as one more way in. Off without this section.
    pub envelope: Option<RawEnvelope>,
    /// How the gateway signs what it tells agents of callers.
    pub assertions: RawAssertions,
    /// How the gateway signs the cards that it publishes.
    pub card_signatures: RawCardSignatures,
    /// YAML file that lists who and what is not accepted any more, although its credential is good: `principals` (ids, `*` stands for any run
    /// of characters), `tokens` (the `jti` of tokens) and `certificates` (SHA-256 of the DER). Read again when it changes; open streams of what is
    /// added end within a second. None by default.
    pub revocations_file: Option<String>,
    /// Bounds on what callers can make the gateway hold or wait for.
    pub limits: RawLimits,
    /// How each security scheme that cards name is verified, by the name that cards use.
    pub security_schemes: Names<RawScheme>,
    /// What callers must show, for every agent that does not say it itself: alternatives of schemes that are needed
    /// together, as in a card. `[]` opens the agents to everybody and must be said. Without it the requirement of the
    /// agent's own card is enforced.
    pub security: Option<RawSecurity>,
    /// Services that are asked whether calls are allowed, by names that policies use. None by default.
    pub decision_points: Names<RawDecisionPoint>,
    /// Whose pages may read what is published.
    pub cors: Option<RawCors>,
    /// One agent in front of all.
    pub front_door: Option<RawFrontDoor>,
    /// Lists the agents for callers.
    pub catalogue: Option<RawCatalogue>,
    /// The agents behind the gateway. At least one.
    pub agents: List<RawAgent>,
    /// A folder with further agents: each of its `*.yaml` files holds one agent, or a list of agents. Read again when a file comes, goes or
    /// changes. A file that is wrong is left out, and what is in force of it stays. None by default.
    pub agents_directory: Option<String>,
    /// Rate limits of every agent, asked before the agent's own `limits`. None by default: the right number is yours.
    pub rate_limits: List<RawRateLimit>,
    /// What is logged and how.
    pub log: RawLog,
    /// A file with one line for each event that matters to security, chained by hashes. Off without this section.
    pub audit: Option<RawAudit>,
    /// How long calls and streams may go on after SIGTERM, and how long the tasks of an endpoint that a reload removes are
    /// followed. 25 s stays below the usual 30 s after which orchestrators kill.
    pub drain: Time,
    /// Worker threads. One per core by default.
    #[schemars(range(min = 1, max = 1024))]
    pub workers: Option<u32>,
}

impl Default for Raw {
    fn default() -> Self {
        Self {
            public_url: None,
            listeners: List::default(),
            admin: RawAdmin::default(),
            state: RawState::default(),
            page_tokens: RawPageTokens::default(),
            push: RawPush::default(),
            envelope: None,
            assertions: RawAssertions::default(),
            card_signatures: RawCardSignatures::default(),
            revocations_file: None,
            limits: RawLimits::default(),
            security_schemes: Names::default(),
            security: None,
            decision_points: Names::default(),
            cors: None,
            front_door: None,
            catalogue: None,
            agents: List::default(),
            agents_directory: None,
            rate_limits: List::default(),
            log: RawLog::default(),
            audit: None,
            drain: Time::seconds(25),
            workers: None,
        }
    }
}

/// One address that takes calls.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Listener", extend("required" = ["name", "address"]))]
pub struct RawListener {
    /// The listener's name in logs and metrics; unique.
    pub name: Option<String>,
    /// IP address and port, e.g. `0.0.0.0:8443` or `[::]:8443`.
    pub address: Option<String>,
    /// TLS of this listener. Without it the listener speaks plain HTTP, for use behind something that terminates TLS.
    pub tls: Option<RawListenerTls>,
    /// Addresses and networks (CIDR) of proxies in front whose `X-Forwarded-For` is believed (`Forwarded` is dropped). None by
    /// default: anybody could claim to be anybody.
    pub trusted_proxies: List<String>,
    /// Which calls that come in here are allowed.
    pub policy: RawListenerPolicy,
}

/// TLS of a listener.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "ListenerTls")]
pub struct RawListenerTls {
    /// PEM file with the certificate chain, for a listener with one certificate.
    pub certificate: Option<String>,
    /// PEM file with the private key of `certificate`.
    pub private_key: Option<String>,
    /// Several certificates, chosen by the name that the caller asks for (SNI); the first serves unknown names.
    /// Instead of `certificate` and `private_key`.
    pub certificates: List<RawCertificate>,
    /// PEM file with the CA certificates that client certificates must chain to. Needed unless `client_certificates` is `off`.
    pub client_ca: Option<String>,
    /// PEM files with certificate revocation lists for client certificates.
    pub client_crls: List<String>,
    /// Whether callers are asked for a certificate: `off`, `optional` (those with other credentials may come without)
    /// or `required` (the handshake fails without). `off`, because asking makes browsers and some clients prompt or fail.
    pub client_certificates: RawClientCertificates,
    /// The lowest TLS version. 1.2, because its modern suites are sound and some clients have nothing newer.
    pub min_version: RawTlsVersion,
}

impl Default for RawListenerTls {
    fn default() -> Self {
        Self {
            certificate: None,
            private_key: None,
            certificates: List::default(),
            client_ca: None,
            client_crls: List::default(),
            client_certificates: RawClientCertificates::Off,
            min_version: RawTlsVersion::Tls12,
        }
    }
}

/// One certificate with its key.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Certificate", extend("required" = ["certificate", "private_key"]))]
pub struct RawCertificate {
    /// PEM file with the certificate chain.
    pub certificate: Option<String>,
    /// PEM file with its private key.
    pub private_key: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum RawClientCertificates {
    Off,
    Optional,
    Required,
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema)]
#[schemars(inline)]
pub enum RawTlsVersion {
    #[serde(rename = "1.2")]
    Tls12,
    #[serde(rename = "1.3")]
    Tls13,
}

/// The listener for operators.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Admin")]
pub struct RawAdmin {
    /// `false` switches the admin listener off. On, because probes and metrics are wanted everywhere.
    pub enabled: bool,
    /// IP address and port. Loopback, because the admin listener has no authentication.
    pub address: String,
}

impl Default for RawAdmin {
    fn default() -> Self {
        Self {
            enabled: true,
            address: "127.0.0.1:9901".to_owned(),
        }
    }
}

/// The memory of task owners.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "State")]
pub struct RawState {
    /// `embedded` keeps records in a journal on disk and survives restarts; `memory` forgets them; `redis` shares them
    /// among gateways. `embedded`, because a task whose owner is forgotten is refused, and one gateway needs no server.
    pub store: RawStore,
    /// Folder of the embedded store; created at start. The usual place for a service's state on Linux.
    #[schemars(extend("default" = super::check::DEFAULT_STATE_PATH))]
    pub path: Option<String>,
    /// How often the embedded store syncs to disk. What a power cut may lose; a crash of the process loses nothing.
    /// One second keeps the number of flushes small however many calls there are.
    #[schemars(extend("default" = "1s"))]
    pub sync_interval: Option<Time>,
    /// The Redis or Valkey that the gateways of `store: redis` share.
    pub redis: Option<RawRedis>,
    /// Most task records kept: finished tasks go first, then the longest unseen; an owner who holds more than a tenth of
    /// them makes room among its own. A million
    /// needs a few hundred MB of memory.
    pub max_tasks: u32,
    /// A record that was not seen for this long is forgotten. A week outlives any task that waits for a person over a weekend.
    pub retention: Time,
}

impl Default for RawState {
    fn default() -> Self {
        Self {
            store: RawStore::Embedded,
            path: None,
            sync_interval: None,
            redis: None,
            max_tasks: 1_000_000,
            retention: Time::seconds(7 * 24 * 60 * 60),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum RawStore {
    Memory,
    Embedded,
    Redis,
}

/// The tokens of lists of tasks that the gateway gathers from several endpoints. They hold the endpoints' own cursors,
/// encrypted, for one caller and one question.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "PageTokens")]
pub struct RawPageTokens {
    /// Keys that several gateways, or the same one after a restart, share: the first makes tokens, all of them read. To
    /// change a key, put the new one behind the old one everywhere, then before it, then take the old one away after
    /// `lifetime`. Without one a key is made at each start, and a list that was begun before must begin anew.
    pub keys: List<RawPageTokenKey>,
    /// How long a token holds. An hour outlasts a person who reads page by page; the cursors in it are not for ever either.
    pub lifetime: Time,
}

impl Default for RawPageTokens {
    fn default() -> Self {
        Self {
            keys: List::default(),
            lifetime: Time::seconds(60 * 60),
        }
    }
}

/// One key that seals what others carry.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "PageTokenKey")]
pub struct RawPageTokenKey {
    /// At least 32 characters that nobody can guess; from the environment with `${NAME}`. Either this or `value_file`.
    pub value: Option<SecretText>,
    /// File with the key; one newline at the end is dropped. Read at start.
    pub value_file: Option<String>,
}

/// Bounds on what callers can make the gateway hold or wait for.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Limits")]
pub struct RawLimits {
    /// From accept to the end of the TLS handshake. A handshake takes three round trips; 10 s forgives a bad network.
    pub tls_handshake: Time,
    /// To the end of the request header, counted from accept or from the end of the last answer. The same reason. Over
    /// HTTP/2 to the first request, counted from accept.
    pub request_header: Time,
    /// Longest silence inside a request body. Above any retransmission of a living caller.
    pub request_body_idle: Time,
    /// To the end of the request body. 4 MiB in 30 s needs about 1 Mbit/s.
    pub request_body: Time,
    /// Longest time in which a caller takes nothing of what is ready for it; then its connection ends, over HTTP/2
    /// perhaps only the stream. A reader who is there takes something within seconds; half a minute forgives a phone
    /// that changes networks.
    pub response_idle: Time,
    /// How long a connection without a call is kept. What nginx ships.
    pub keep_alive: Time,
    /// How often a quiet HTTP/2 connection is asked for a sign of life, and how long the answer may take. Finds dead
    /// callers within a minute.
    pub http2_ping: Time,
    /// Largest request header section. Room for several large tokens; what common proxies take. Also the most that may
    /// follow a call on an HTTP/1.1 connection while its answer, a stream, is under way; a caller who sends more is cut off.
    pub header_bytes: Size,
    /// Most request header fields. Several times what clients and proxies add.
    pub header_fields: u32,
    /// Longest request target (path and query). What common servers take.
    pub target_bytes: Size,
    /// Largest request body, refused before it is read where its length is given. Fits messages with small inline files;
    /// an agent that takes larger ones says so in its own `body_bytes`.
    pub body_bytes: Size,
    /// Deepest nesting of a request's JSON. Far above what messages need, and far below where
    /// agents' parsers give up (about 1000 in Python).
    pub json_depth: u32,
    /// Most digits of one number in a request's JSON. About the digits of the largest double.
    pub number_digits: u32,
    /// Most concurrent streams on one HTTP/2 connection. What RFC 9113 recommends as the least.
    pub http2_streams: u32,
    /// HTTP/2 flow-control window of a stream: what one call can make the gateway buffer before it reads.
    pub http2_stream_window: Size,
    /// HTTP/2 flow-control window of a connection: the same for all its streams together.
    pub http2_connection_window: Size,
    /// Most bytes buffered for one answer or stream in each direction; then the agent waits for the slow caller.
    pub stream_buffer_bytes: Size,
    /// Most connections on all listeners together.
    pub connections: u32,
    /// Most connections from one address, a tenth of all by default, so that one caller cannot take them all.
    pub connections_per_address: u32,
    /// Most distinct callers that one rate limit remembers; the longest unseen is forgotten first.
    pub rate_limit_keys: u32,
}

impl Default for RawLimits {
    fn default() -> Self {
        Self {
            tls_handshake: Time::seconds(10),
            request_header: Time::seconds(10),
            request_body_idle: Time::seconds(15),
            request_body: Time::seconds(30),
            response_idle: Time::seconds(30),
            keep_alive: Time::seconds(75),
            http2_ping: Time::seconds(20),
            header_bytes: Size::kib(64),
            header_fields: 100,
            target_bytes: Size::kib(8),
            body_bytes: Size::mib(4),
            json_depth: 128,
            number_digits: 308,
            http2_streams: 100,
            http2_stream_window: Size::kib(64),
            http2_connection_window: Size::mib(1),
            stream_buffer_bytes: Size::kib(256),
            connections: 10_000,
            connections_per_address: 1_000,
            rate_limit_keys: 100_000,
        }
    }
}

/// What is logged and how.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Log")]
pub struct RawLog {
    /// `text` for people, `json` for log collectors.
    pub format: RawLogFormat,
    /// Least severity, or a filter by module: `info`, `warn`, `info,a2a_gateway::upstream=debug`.
    pub level: String,
    /// One line a call. On, because it is what incidents are explained with.
    pub access: bool,
}

impl Default for RawLog {
    fn default() -> Self {
        Self {
            format: RawLogFormat::Text,
            level: "info".to_owned(),
            access: true,
        }
    }
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum RawLogFormat {
    Text,
    Json,
}
