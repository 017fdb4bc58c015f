//! The file as users write it: what serde fills and the JSON Schema is made from.
//!
//! The doc comments are the users' reference: they become the descriptions in the schema. Everything is optional for
//! serde, because `shape` has already reported what is missing, unknown or of the wrong type, and `check` must be able
//! to go on with the rest; `required` therefore stands in the schema only. Defaults are in the `Default` impls.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::units::{Rate, SecretText, Size, Time, Wait};
use crate::a2a::Operation;

/// A list whose elements may have been given up by `shape`; the places of the others stay as in the file.
#[derive(Clone, Debug, Deserialize)]
#[serde(transparent)]
pub struct List<T>(Vec<Option<T>>);

impl<T> List<T> {
    /// The elements that could be read, with their places.
    pub fn items(&self) -> impl Iterator<Item = (usize, &T)> {
        self.0
            .iter()
            .enumerate()
            .filter_map(|(index, item)| Some((index, item.as_ref()?)))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<T> Default for List<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: JsonSchema> JsonSchema for List<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        Vec::<T>::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Vec::<T>::json_schema(generator)
    }
}

/// A map by names that the user chooses; a name whose content was given up is still there.
#[derive(Clone, Debug, Deserialize)]
#[serde(transparent)]
pub struct Names<T>(BTreeMap<String, Option<T>>);

impl<T> Names<T> {
    pub fn items(&self) -> impl Iterator<Item = (&String, Option<&T>)> {
        self.0.iter().map(|(name, item)| (name, item.as_ref()))
    }

    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    pub fn item(&self, name: &str) -> Option<&T> {
        self.0.get(name)?.as_ref()
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

impl<T> Default for Names<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T: JsonSchema> JsonSchema for Names<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        BTreeMap::<String, T>::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        BTreeMap::<String, T>::json_schema(generator)
    }
}

/// Alternatives (any one suffices) of schemes that are needed together, as in an agent card.
pub type RawSecurity = List<Names<List<String>>>;

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
    /// Bounds on what callers can make the gateway hold or wait for.
    pub limits: RawLimits,
    /// How each security scheme that cards name is verified, by the name that cards use.
    pub security_schemes: Names<RawScheme>,
    /// What callers must show, for every agent that does not say it itself: alternatives of schemes that are needed
    /// together, as in a card. `[]` opens the agents to everybody and must be said. Without it the requirement of the
    /// agent's own card is enforced.
    pub security: Option<RawSecurity>,
    /// The agents behind the gateway. At least one.
    pub agents: List<RawAgent>,
    /// Rate limits of every agent, asked before the agent's own `limits`. None by default: the right number is yours.
    pub rate_limits: List<RawRateLimit>,
    /// What is logged and how.
    pub log: RawLog,
    /// How long calls and streams may go on after SIGTERM. 25 s stays below the usual 30 s after which orchestrators kill.
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
            limits: RawLimits::default(),
            security_schemes: Names::default(),
            security: None,
            agents: List::default(),
            rate_limits: List::default(),
            log: RawLog::default(),
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
    /// Addresses and networks (CIDR) of proxies in front whose `Forwarded` and `X-Forwarded-For` are believed. None by
    /// default: anybody could claim to be anybody.
    pub trusted_proxies: List<String>,
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
    /// `embedded` keeps records in a journal on disk and survives restarts; `memory` forgets them. `embedded`, because a
    /// task whose owner is forgotten is refused.
    pub store: RawStore,
    /// Folder of the embedded store; created at start. The usual place for a service's state on Linux.
    #[schemars(extend("default" = super::check::DEFAULT_STATE_PATH))]
    pub path: Option<String>,
    /// How often the embedded store syncs to disk. What a power cut may lose; a crash of the process loses nothing.
    /// One second costs nothing measurable, less wears the disk.
    #[schemars(extend("default" = "1s"))]
    pub sync_interval: Option<Time>,
    /// Most task records kept: finished tasks go first, then the longest unseen. A million takes about 200 MB.
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
}

/// Bounds on what callers can make the gateway hold or wait for.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Limits")]
pub struct RawLimits {
    /// From accept to the end of the TLS handshake. A handshake takes three round trips; 10 s forgives a bad network.
    pub tls_handshake: Time,
    /// To the end of the request header, counted from accept or from the end of the last answer. The same reason.
    pub request_header: Time,
    /// Longest silence inside a request body. Above any retransmission of a living caller.
    pub request_body_idle: Time,
    /// To the end of the request body. 4 MiB in 30 s needs about 1 Mbit/s.
    pub request_body: Time,
    /// How long a connection without a call is kept. Above the 60 s after which common clients let go first.
    pub keep_alive: Time,
    /// How often a quiet HTTP/2 connection is asked for a sign of life, and how long the answer may take. Finds dead
    /// callers within a minute.
    pub http2_ping: Time,
    /// Largest request header section. Room for several large tokens; what common proxies take.
    pub header_bytes: Size,
    /// Most request header fields. Real calls have 10 to 30.
    pub header_fields: u32,
    /// Longest request target (path and query). What common servers take.
    pub target_bytes: Size,
    /// Largest request body, refused before it is read where its length is given. Fits messages with small inline files;
    /// an agent that takes larger ones says so in its own `body_bytes`.
    pub body_bytes: Size,
    /// Deepest nesting of a request's JSON. Real messages stay under 20; agents' parsers overflow somewhere above 1000.
    pub json_depth: u32,
    /// Most digits of one number in a request's JSON. All that a double can need written out.
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

/// One security scheme: what cards publish of it, and how the gateway verifies it. Which keys belong to it follows from `type`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "SecurityScheme", extend("required" = ["type"]))]
pub struct RawScheme {
    /// The kind of scheme, as cards name it.
    #[serde(rename = "type")]
    pub kind: Option<RawSchemeType>,
    /// Text for people that published cards carry.
    pub description: Option<String>,
    /// `apiKey`: where the key is sent.
    #[serde(rename = "in")]
    pub place: Option<RawKeyPlace>,
    /// `apiKey`: name of the header, query parameter or cookie.
    pub name: Option<String>,
    /// `apiKey`: the accepted keys, as hashes. Either this or `keys_file`.
    pub keys: Option<List<RawKey>>,
    /// `apiKey`: file with the accepted keys (`keys: [ { id, hash, scopes } ]`), read again when it changes.
    pub keys_file: Option<String>,
    /// `http`: the HTTP authentication scheme.
    pub scheme: Option<RawHttpScheme>,
    /// `http` with `bearer`: a hint for callers that published cards carry.
    #[serde(rename = "bearerFormat")]
    pub bearer_format: Option<String>,
    /// `http` with `basic`: file with users and password hashes (`users: [ { name, password_hash, scopes } ]`), read again
    /// when it changes.
    pub users_file: Option<String>,
    /// `oauth2`: the flows as cards publish them, passed as they are.
    pub flows: Option<serde_json::Map<String, serde_json::Value>>,
    /// `oauth2`: URL of the authorisation server's metadata (RFC 8414), for cards.
    #[serde(rename = "oauth2MetadataUrl")]
    pub oauth2_metadata_url: Option<String>,
    /// `openIdConnect`: URL of the provider's discovery document, for cards; the gateway does not fetch it.
    #[serde(rename = "openIdConnectUrl")]
    pub open_id_connect_url: Option<String>,
    /// Tokens: the only accepted `iss`. Required with `http`/`bearer`, `oauth2` and `openIdConnect`.
    pub issuer: Option<String>,
    /// Tokens: any of these must be in `aud`. Required, so that a token for another service does not open this one.
    pub audience: Option<List<String>>,
    /// Tokens: file with the issuer's keys (JWKS), read again when it changes. Either this or `jwks_url`.
    pub jwks_file: Option<String>,
    /// Tokens: URL of the issuer's keys (JWKS); `https`, or `http` on a loopback address.
    pub jwks_url: Option<String>,
    /// Tokens: PEM file with the CA certificates for `jwks_url`, instead of the system's.
    pub jwks_ca: Option<String>,
    /// Tokens: how often the keys are fetched again. A withdrawn key is refused at most this much later.
    #[schemars(extend("default" = "15m"))]
    pub jwks_refresh: Option<Time>,
    /// Tokens: least time between two fetches, so that made-up key ids cannot load the issuer. A new key is seen after
    /// at most this time.
    #[schemars(extend("default" = "60s"))]
    pub jwks_cooldown: Option<Time>,
    /// Tokens: clock skew allowed for `exp` and `nbf`. 30 s covers machines that keep time with NTP.
    #[schemars(extend("default" = "30s"))]
    pub leeway: Option<Time>,
    /// Tokens: the claim that names the caller. `sub`, because it is the one that issuers keep stable.
    #[schemars(extend("default" = "sub"))]
    pub principal_claim: Option<String>,
    /// `mutualTLS`: which verified client certificates are admitted; `*` stands for any run of characters. Forms:
    /// `spiffe://…` or another URI, `dns:…`, `email:…`, `subject:…`.
    pub allow: Option<List<String>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum RawSchemeType {
    #[serde(rename = "apiKey")]
    ApiKey,
    #[serde(rename = "http")]
    Http,
    #[serde(rename = "oauth2")]
    OAuth2,
    #[serde(rename = "openIdConnect")]
    OpenIdConnect,
    #[serde(rename = "mutualTLS")]
    MutualTls,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum RawHttpScheme {
    Bearer,
    Basic,
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum RawKeyPlace {
    Header,
    Query,
    Cookie,
}

/// One accepted API key.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "ApiKey", extend("required" = ["id", "hash"]))]
pub struct RawKey {
    /// Names the caller: `key:<id>` in logs and as owner of tasks. Keep it when the key is exchanged.
    pub id: Option<String>,
    /// `sha256:<64 hex digits>` over the key, or `sha256:<salt in hex>:<64 hex digits>` over salt and key. The key itself
    /// never stands in a file of the gateway.
    pub hash: Option<String>,
    /// Scopes that the key carries. None by default.
    pub scopes: List<String>,
}

/// One agent: where callers find it, and where it is.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Agent", extend("required" = ["name", "upstream"]))]
pub struct RawAgent {
    /// The agent's name in logs and metrics, and in the keys of its task records: keep it. Unique.
    pub name: Option<String>,
    /// The path under `public_url` that belongs to the agent, e.g. `/agents/maps`, or `/`; the longest match wins. Either
    /// this or `host`.
    pub path: Option<String>,
    /// The host name that belongs to the agent. Either this or `path`.
    pub host: Option<String>,
    /// Where the agent is and how it is called.
    pub upstream: Option<RawUpstream>,
    /// Where the agent's card comes from and what is changed in it.
    pub card: RawCard,
    /// What callers must show, instead of the general `security`. `[]` opens the agent to everybody.
    pub security: Option<RawSecurity>,
    /// Rate limits of this agent, asked after the general `rate_limits`.
    pub limits: List<RawRateLimit>,
    /// Passes the caller's own credential on to the agent. Off, because an agent could use it elsewhere in the caller's name.
    pub forward_credentials: bool,
    /// Largest request body for this agent; `limits.body_bytes` by default. Raise it for agents that take files inline.
    pub body_bytes: Option<Size>,
}

/// The group of endpoints that serve one agent.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Upstream", extend("required" = ["endpoints"]))]
pub struct RawUpstream {
    /// What the agent speaks.
    pub protocol: RawProtocol,
    /// The replicas of the agent. At least one.
    pub endpoints: List<RawEndpoint>,
    /// How an endpoint is chosen for calls that belong to no known task. `least_request` picks the less busy of two, which
    /// suits calls of very different length; `round_robin` takes turns.
    pub balance: RawBalance,
    /// HTTP version towards the agent. `auto` is HTTP/2 where TLS negotiates it, else HTTP/1.1; `http2` on a plain
    /// `http` URL means prior knowledge.
    pub http: RawUpstreamHttp,
    /// TLS towards `https` endpoints. The system's root certificates by default.
    pub tls: RawUpstreamTls,
    /// What the gateway shows the agent, instead of the caller's credential. Nothing by default.
    pub credential: Option<RawCredential>,
    /// To an established connection, TLS included. A living endpoint in reach takes milliseconds.
    pub connect_timeout: Time,
    /// To the head of the answer of calls that only read or cancel.
    pub first_byte_timeout: Time,
    /// The same for sends and streams. `none` waits as long as the caller does, because a blocking send takes as long as
    /// the agent works.
    pub send_timeout: Wait,
    /// Longest silence inside an answer that is not a stream.
    pub idle_timeout: Time,
    /// Longest silence on a stream. `none`, because agents may think for long and need not send heartbeats.
    pub stream_idle_timeout: Wait,
    /// How long an unused connection is kept. Below the 5 s after which agents on uvicorn and Node close theirs: a call
    /// that meets the close may not be sent again.
    pub pool_idle: Time,
    /// Most connections to one endpoint.
    pub max_connections: u32,
    /// Largest header section of an answer.
    pub answer_header_bytes: Size,
    /// Largest answer that is not a stream. Larger than a request: artifacts come this way.
    pub answer_bytes: Size,
    /// Largest event of a stream.
    pub event_bytes: Size,
}

impl Default for RawUpstream {
    fn default() -> Self {
        Self {
            protocol: RawProtocol::default(),
            endpoints: List::default(),
            balance: RawBalance::LeastRequest,
            http: RawUpstreamHttp::Auto,
            tls: RawUpstreamTls::default(),
            credential: None,
            connect_timeout: Time::seconds(5),
            first_byte_timeout: Time::seconds(60),
            send_timeout: Wait(None),
            idle_timeout: Time::seconds(60),
            stream_idle_timeout: Wait(None),
            pool_idle: Time::seconds(4),
            max_connections: 1024,
            answer_header_bytes: Size::kib(64),
            answer_bytes: Size::mib(16),
            event_bytes: Size::mib(4),
        }
    }
}

/// What the agent speaks.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Protocol")]
pub struct RawProtocol {
    /// The A2A generation. `auto` reads it from the agent's own card; say it for an agent whose card is wrong.
    pub generation: RawGeneration,
    /// The A2A binding. `auto` reads it from the agent's own card.
    pub binding: RawBinding,
}

impl Default for RawProtocol {
    fn default() -> Self {
        Self {
            generation: RawGeneration::Auto,
            binding: RawBinding::Auto,
        }
    }
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema)]
#[schemars(inline)]
pub enum RawGeneration {
    #[serde(rename = "auto")]
    Auto,
    #[serde(rename = "0.3")]
    V0_3,
    #[serde(rename = "1.0")]
    V1_0,
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum RawBinding {
    Auto,
    Jsonrpc,
}

/// One replica of an agent.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Endpoint", extend("required" = ["url"]))]
pub struct RawEndpoint {
    /// The agent's JSON-RPC URL. Its text identifies the endpoint in task records: keep it.
    pub url: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum RawBalance {
    LeastRequest,
    RoundRobin,
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum RawUpstreamHttp {
    Auto,
    Http1,
    Http2,
}

/// TLS towards an agent.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "UpstreamTls")]
pub struct RawUpstreamTls {
    /// PEM file with the CA certificates that the agent's certificate must chain to, instead of the system's.
    pub ca: Option<String>,
    /// PEM file with the certificate that the gateway shows the agent.
    pub client_certificate: Option<String>,
    /// PEM file with the private key of `client_certificate`.
    pub client_private_key: Option<String>,
    /// Name that the agent's certificate must carry and that is sent as SNI, instead of the URL's host. For endpoints
    /// given by IP address.
    pub server_name: Option<String>,
}

/// What the gateway shows the agent; exactly one of the three.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Credential")]
pub struct RawCredential {
    /// A header with a fixed value.
    pub header: Option<RawHeaderCredential>,
    /// `Authorization: Bearer`.
    pub bearer: Option<RawBearerCredential>,
    /// `Authorization: Basic`.
    pub basic: Option<RawBasicCredential>,
}

/// A header with a fixed value.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "HeaderCredential", extend("required" = ["name"]))]
pub struct RawHeaderCredential {
    /// Name of the header.
    pub name: Option<String>,
    /// Its value; from the environment with `${NAME}`. Either this or `value_file`.
    pub value: Option<SecretText>,
    /// File with its value; one newline at the end is dropped.
    pub value_file: Option<String>,
}

/// A bearer token.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "BearerCredential")]
pub struct RawBearerCredential {
    /// The token; from the environment with `${NAME}`. Either this or `token_file`.
    pub token: Option<SecretText>,
    /// File with the token; one newline at the end is dropped.
    pub token_file: Option<String>,
}

/// A user name and password.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "BasicCredential", extend("required" = ["username"]))]
pub struct RawBasicCredential {
    /// The user name; without a colon.
    pub username: Option<String>,
    /// The password; from the environment with `${NAME}`. Either this or `password_file`.
    pub password: Option<SecretText>,
    /// File with the password; one newline at the end is dropped.
    pub password_file: Option<String>,
}

/// Where an agent's card comes from and what is changed in it.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Card")]
pub struct RawCard {
    /// URL of the agent's own card. By default `/.well-known/agent-card.json` at an endpoint, then `/.well-known/agent.json`.
    pub url: Option<String>,
    /// How often the card is fetched again.
    pub refresh: Time,
    /// Largest card that is read. Real cards have a few KiB.
    pub max_bytes: Size,
    /// How long callers may keep the published card (`Cache-Control: max-age`).
    pub max_age: Time,
    /// Members of the published card that replace what the agent says. Not for what the gateway writes itself: addresses,
    /// security, signatures.
    pub overrides: serde_json::Map<String, serde_json::Value>,
}

impl Default for RawCard {
    fn default() -> Self {
        Self {
            url: None,
            refresh: Time::seconds(5 * 60),
            max_bytes: Size::mib(1),
            max_age: Time::seconds(5 * 60),
            overrides: serde_json::Map::new(),
        }
    }
}

/// One rate limit: whose budget, for which operations, and exactly one of `rate`, `concurrent` and `open_streams`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "RateLimit", extend("required" = ["per"]))]
pub struct RawRateLimit {
    /// The name in metrics and in the `RateLimit-Policy` header. By default made of `per` and the kind of bound, e.g.
    /// `principal-rate`.
    pub name: Option<String>,
    /// Whose budget: of each `principal` (all anonymous callers are one), of each caller's `address`, or one of the whole `agent`.
    pub per: Option<RawLimitKey>,
    /// The operations that count. All by default.
    pub operations: List<OperationName>,
    /// So many calls in a period, e.g. `60/min`.
    pub rate: Option<Rate>,
    /// With `rate`: so many at once. By default the count of `rate`.
    pub burst: Option<u32>,
    /// So many calls under way, streams included, each until its last byte.
    pub concurrent: Option<u32>,
    /// So many open streams.
    pub open_streams: Option<u32>,
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum RawLimitKey {
    Principal,
    Address,
    Agent,
}

/// The label of an operation, e.g. `push-create`.
#[derive(Clone, Debug, Deserialize)]
#[serde(transparent)]
pub struct OperationName(pub String);

impl JsonSchema for OperationName {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Operation".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "enum": Operation::ALL.map(Operation::as_str) })
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
