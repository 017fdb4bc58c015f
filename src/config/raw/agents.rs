//! Agents, their upstreams, cards and rate limits as users write them.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::super::units::{ByteRate, Percent, Rate, Size, Time, Wait};
use super::{
    List, Names, RawAgentEnvelope, RawAgentPush, RawCredential, RawEjection, RawHealth, RawListed, RawPolicy, RawQueue,
    RawSecurity, RawUpstreamAssertion,
};
use crate::a2a::Operation;

/// One agent: where callers find it, and where it is.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Agent", extend("required" = ["name", "upstream"]))]
pub struct RawAgent {
    /// The agent's name in logs and metrics, and in the keys of its task records: keep it. Unique.
    pub name: Option<String>,
    /// The agent's path, e.g. `/agents/maps`, or `/`: calls go there, its card is at `.well-known/agent-card.json` under it.
    /// Either this or `host`; neither with `binding: envelope`.
    pub path: Option<String>,
    /// The host name that belongs to the agent alone, without a port: calls go to its `/`. Either this or `path`.
    pub host: Option<String>,
    /// Where the agent is and how it is called.
    pub upstream: Option<RawUpstream>,
    /// Where the agent's card comes from and what is changed in it.
    pub card: RawCard,
    /// What callers must show, instead of the general `security`. `[]` opens the agent to everybody.
    pub security: Option<RawSecurity>,
    /// Rate limits of this agent, asked after the general `rate_limits`.
    pub limits: List<RawRateLimit>,
    /// Who may make which calls, and who may use which tasks of the agent.
    pub policy: RawPolicy,
    /// Passes the caller's own credential on to the agent. Off, because an agent could use it elsewhere in the caller's name.
    pub forward_credentials: bool,
    /// Serves callers of the A2A generations and bindings that the agent does not speak too, by translating their calls. On by
    /// default: a caller can hardly choose what its library speaks, and what cannot be carried is refused or documented.
    pub translate: Option<bool>,
    /// Serves callers of A2A 0.1 too, by translating their calls. `.well-known/agent.json` is the card in the form of 0.1
    /// then, and another place, `.well-known/agent-card.json`, that of the other versions. In 0.1 callers name their tasks
    /// themselves, so it needs tasks that have owners (`policy.task_owner`), and callers who are not anonymous. Not served by
    /// default: it keeps one more record for each of their tasks, changes that card, and few callers of it are left. An agent of 0.1
    /// serves them anyway, untouched, whoever they are.
    pub v0_1: bool,
    /// Takes `sendTask` and `sendTaskSubscribe` for `tasks/send` and `tasks/sendSubscribe` of A2A 0.1: early texts use these names.
    /// No specification has them, so only on request, and only where 0.1 is served.
    pub lenient_methods: bool,
    /// Webhooks of this agent's callers.
    pub push: RawAgentPush,
    /// The agent in the envelope protocol.
    pub envelope: RawAgentEnvelope,
    /// Who sees the agent in the `catalogue` and in the card of the `front_door`: `public` everybody, `callers` those that may call it, `never` nobody. By default `public`:
    /// its card is there for everybody anyway.
    pub listed: Option<RawListed>,
    /// Largest request body for this agent; `limits.body_bytes` by default. Raise it for agents that take files inline.
    pub body_bytes: Option<Size>,
}

/// The group of endpoints that serve one agent.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Upstream")]
pub struct RawUpstream {
    /// What the agent speaks.
    pub protocol: RawProtocol,
    /// The replicas of the agent. At least one, unless `srv` finds them.
    pub endpoints: List<RawEndpoint>,
    /// Finds the replicas in the DNS, instead of `endpoints`.
    pub srv: Option<RawSrv>,
    /// How an endpoint is chosen for calls that belong to no known task. `least_request` picks the less busy of two, which
    /// suits calls of very different length; `round_robin` takes turns; `consistent_hash` keeps what `hash_on` names at one
    /// endpoint, and moves only a new endpoint's share, or a lost one's, when the list changes.
    pub balance: RawBalance,
    /// With `balance: consistent_hash`: what stays together. `context`, the conversation that a call names, else its
    /// principal; or `principal`. By default `context`. Anonymous callers without a context are spread as by `least_request`.
    pub hash_on: Option<RawHashOn>,
    /// Checks that the gateway makes of each endpoint by itself. None by default: they are requests that the agent's server
    /// must expect, and what calls show of an endpoint is watched anyway.
    pub health: Option<RawHealth>,
    /// Endpoints that fail calls are left out for a while.
    pub ejection: RawEjection,
    /// When fewer endpoints than this share of them are healthy, all get new work again, but for those that no connection
    /// can be made to. `0%` never. Half: the rest would break under the load of all.
    pub panic_threshold: Percent,
    /// How long the share of an endpoint that has become healthy, or that a reload brings, grows from a tenth to the whole.
    /// `none`, because most agents have nothing to warm up; e.g. `30s` for those that fill caches.
    pub slow_start: Wait,
    /// Most calls under way at one endpoint, streams included, each until its last byte. As many as `max_connections`, of
    /// which a call over HTTP/1.1 takes one: far more than an agent works on at once.
    pub max_in_flight: u32,
    /// Where calls wait while an endpoint has `max_in_flight` under way.
    pub queue: RawQueue,
    /// Calls may be tried again as often as this share of the calls of the last ten seconds, and three times a second. A
    /// fifth: enough for an endpoint that goes, too little to double the load of an agent that is down. Reads that broke off,
    /// which a caller may cause, take at most half of it, those that the gateway makes of all endpoints included.
    pub retry_budget: Percent,
    /// HTTP version towards the agent. `auto` is HTTP/2 where TLS negotiates it or gRPC is spoken, else HTTP/1.1; `http2` on a
    /// plain `http` URL means prior knowledge.
    pub http: RawUpstreamHttp,
    /// TLS towards `https` endpoints. The system's root certificates by default.
    pub tls: RawUpstreamTls,
    /// What the gateway shows the agent, instead of the caller's credential. Nothing by default.
    pub credential: Option<RawCredential>,
    /// Tells the agent who calls, by a token that the gateway signs (`assertions.keys`). None by default.
    pub assertion: Option<RawUpstreamAssertion>,
    /// To an established connection, TLS included. A living endpoint in reach takes milliseconds.
    pub connect_timeout: Time,
    /// To the head of the answer of calls that only read or cancel. A connection of HTTP/2 on which it passes, or
    /// `send_timeout`, gets no further calls.
    pub first_byte_timeout: Time,
    /// The same for sends and streams. `none` waits as long as the caller does, because a blocking send takes as long as
    /// the agent works.
    pub send_timeout: Wait,
    /// Longest silence inside an answer that is not a stream.
    pub idle_timeout: Time,
    /// Longest silence on a stream. `none`, because agents may think for long and need not send heartbeats.
    pub stream_idle_timeout: Wait,
    /// How long an unused connection is kept. Below the 5 s after which agents on uvicorn and Node close theirs: a call that
    /// meets the close may not be sent again.
    pub pool_idle: Time,
    /// How often the name of an endpoint is looked up for its open connections: those to addresses that it does not have any
    /// more take no new call. As often `srv` is asked. Half a minute, what names of orchestrators live. New connections look the name up each time.
    pub dns_refresh: Time,
    /// Most connections to one endpoint.
    pub max_connections: u32,
    /// Largest header section of an answer.
    pub answer_header_bytes: Size,
    /// Largest answer that is not a stream. Larger than a request: artifacts come this way.
    pub answer_bytes: Size,
    /// Largest event of a stream, as large as a request; all its lines count, with their ends. The first event beyond it ends
    /// the stream, broken; where tasks have owners any does, because what was not read may tell of somebody else's task.
    /// Elsewhere later ones pass unread, but for messages of gRPC. While an event is unfinished, one stream holds at most twice
    /// this.
    pub event_bytes: Size,
    /// How the tasks of several endpoints are listed.
    pub list: RawGather,
    /// How a task without a record is looked for among several endpoints.
    pub probe: RawProbe,
}

impl Default for RawUpstream {
    fn default() -> Self {
        Self {
            protocol: RawProtocol::default(),
            endpoints: List::default(),
            srv: None,
            balance: RawBalance::LeastRequest,
            hash_on: None,
            health: None,
            ejection: RawEjection::default(),
            panic_threshold: Percent(50),
            slow_start: Wait(None),
            max_in_flight: 1024,
            queue: RawQueue::default(),
            retry_budget: Percent(20),
            http: RawUpstreamHttp::Auto,
            tls: RawUpstreamTls::default(),
            credential: None,
            assertion: None,
            connect_timeout: Time::seconds(5),
            first_byte_timeout: Time::seconds(60),
            send_timeout: Wait(None),
            idle_timeout: Time::seconds(60),
            stream_idle_timeout: Wait(None),
            pool_idle: Time::seconds(4),
            dns_refresh: Time::seconds(30),
            max_connections: 1024,
            answer_header_bytes: Size::kib(64),
            answer_bytes: Size::mib(16),
            event_bytes: Size::mib(4),
            list: RawGather::default(),
            probe: RawProbe::default(),
        }
    }
}

/// Endpoints from SRV records (RFC 2782): those of the lowest priority, at most 64. Asked at start and every `dns_refresh`; an answer
/// that fails or names none changes nothing. Weights are not looked at.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Srv", extend("required" = ["name"]))]
pub struct RawSrv {
    /// The name of the records, e.g. `_a2a._tcp.maps.internal`. Absolute: no search domain is tried.
    pub name: Option<String>,
    /// The scheme of the endpoints' URLs. Encrypted unless said otherwise.
    pub scheme: RawSrvScheme,
    /// The path of the endpoints' URLs.
    pub path: String,
    /// Address and port of the name server that is asked, over UDP, and over TCP where an answer is cut off. By default those of
    /// `/etc/resolv.conf`.
    pub dns_server: Option<String>,
}

impl Default for RawSrv {
    fn default() -> Self {
        Self {
            name: None,
            scheme: RawSrvScheme::Https,
            path: "/".to_owned(),
            dns_server: None,
        }
    }
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum RawSrvScheme {
    Http,
    Https,
}

/// How the tasks of several endpoints are listed.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "List")]
pub struct RawGather {
    /// Leaves endpoints out that do not answer, and says how many in the header `A2A-Gateway-Partial`. Off: a caller who
    /// does not know the header would take what it gets for all there is.
    pub partial: bool,
}

/// How a task without a record is looked for among several endpoints.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Probe")]
pub struct RawProbe {
    /// How long all endpoints together have for their word. The caller waits meanwhile; a living agent looks a task up in
    /// milliseconds.
    pub timeout: Time,
    /// Most searches under way. One costs a call to every endpoint, and callers can ask for tasks that are nobody's; a
    /// call beyond goes to one endpoint, whichever is chosen. One caller, if anonymous one address, has at most half of them,
    /// rounded up: the rest is for the others.
    pub concurrent: u32,
}

impl Default for RawProbe {
    fn default() -> Self {
        Self {
            timeout: Time::seconds(2),
            concurrent: 32,
        }
    }
}

/// What the agent speaks.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Protocol")]
pub struct RawProtocol {
    /// The A2A generation. `auto` reads it from the agent's own card; say it for an agent whose card is wrong, and `"0.1"` for an
    /// agent of A2A 0.1 whose card has no `authentication`, because it looks like one of 0.2 then. Agents of 0.1 speak JSON-RPC
    /// alone, and need `translate`.
    pub generation: RawGeneration,
    /// The A2A binding that the gateway speaks to the endpoints. `auto` reads it from the agent's own card: JSON-RPC if the card
    /// offers it, because it carries everything that any caller can say, else HTTP+JSON, else gRPC; JSON-RPC while no card is
    /// known. Say it for an agent of several bindings whose endpoints' URLs are those of another one, and for an agent whose card
    /// is wrong. `grpc` needs HTTP/2, so `http` cannot be `http1`; an agent that serves nothing else needs `card.url` to have a
    /// card. `envelope` for an agent that speaks the envelope protocol instead of A2A, and has no card: messages are posted to the
    /// endpoints' URLs.
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
    #[serde(rename = "0.1")]
    V0_1,
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
    HttpJson,
    Grpc,
    Envelope,
}

/// One replica of an agent.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Endpoint", extend("required" = ["url"]))]
pub struct RawEndpoint {
    /// The agent's URL in the binding that it is called in (`protocol.binding`): where JSON-RPC is posted to, or what the paths of
    /// HTTP+JSON (`/message:send`, in 0.3 `/v1/message:send`) are appended to; of gRPC `http://host:port`, or `https://` where the
    /// server has TLS. Its text identifies the endpoint in task records: keep it.
    pub url: Option<String>,
    /// Gives it no new work; what belongs to its tasks and contexts still goes to it. Can be changed while the gateway runs,
    /// on the admin listener.
    pub drain: bool,
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum RawBalance {
    LeastRequest,
    RoundRobin,
    ConsistentHash,
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum RawHashOn {
    Context,
    Principal,
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
    /// PEM file with the CA certificates that the agent's certificate must chain to, instead of the system's. Read again
    /// when it changes, like the other files of this section.
    pub ca: Option<String>,
    /// PEM file with the certificate that the gateway shows the agent.
    pub client_certificate: Option<String>,
    /// PEM file with the private key of `client_certificate`.
    pub client_private_key: Option<String>,
    /// Name that the agent's certificate must carry and that is sent as SNI, instead of the URL's host. For endpoints
    /// given by IP address.
    pub server_name: Option<String>,
}

/// Where an agent's card comes from and what is changed in it.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Card")]
pub struct RawCard {
    /// URL of the agent's own card. By default `/.well-known/agent-card.json` at an endpoint, then `/.well-known/agent.json`.
    pub url: Option<String>,
    /// File with the agent's card, instead of one that is fetched. For an agent that has none, or whose own is not to be believed.
    /// Read again when it changes. Not with `url`.
    pub file: Option<String>,
    /// File with the agent's own card as an operator approved it, which fetched ones are compared with (`on_change`); `a2a-gateway
    /// card fetch` prints one to save. Read again when it changes. By default the first card in service since the start.
    pub approved: Option<String>,
    /// What becomes of a fetched card whose interfaces, security or skills differ from the approved one. `publish`: it is published,
    /// and the log and the audit trail tell the differences. `alert`: the same, with a warning and the metric
    /// `a2a_gateway_card_unapproved` until it is approved. `hold`: what is in service stays, or at a start the approved card comes,
    /// until the new one is approved. Other members hold nothing. `publish`, because agents change with each of their releases, and
    /// not everybody has somebody who approves.
    pub on_change: RawOnChange,
    /// How often the card is fetched again.
    pub refresh: Time,
    /// Largest card that is read. Real cards have a few KiB.
    pub max_bytes: Size,
    /// How long callers may keep the published card (`Cache-Control: max-age`).
    pub max_age: Time,
    /// Members of the published card that replace what the agent says. Not for what the gateway writes itself: addresses,
    /// security, signatures. `null` removes a member that readers can do without, e.g. `iconUrl`.
    pub overrides: serde_json::Map<String, serde_json::Value>,
    /// Ids of skills that are published in no card, the extended one included; `*` stands for any text. Calls may name them all the
    /// same: what may be called is said by `policy`.
    pub hide_skills: List<String>,
    /// Texts of skills, by their ids, that replace what the agent says.
    pub skills: Names<RawCardSkill>,
    /// What callers of A2A 0.3 and of 1.0 get, where both are served. `hybrid`: one card with the members of both. `by_version`:
    /// the card of their version alone, by the `A2A-Version` that they send with the request; none means 0.3. `hybrid` by
    /// default, because libraries leave out members that they do not know, but not all that speak 1.0 say so when they fetch a
    /// card.
    pub form: RawCardForm,
    /// Whose signatures of the card are believed; the agent is out of service with a card that nobody of these signed. By default
    /// signatures are not looked at.
    pub verify: Option<RawCardVerify>,
    /// Publishes the card as the agent wrote it, with its own signatures, at `.well-known/agent-card.original.json` beside the
    /// published one. Off by default: it tells where the agent is.
    pub original: bool,
}

/// Whose signatures of a card are believed (A2A 1.0 §8.4). At least one of `jwks_file`, `jwks_url` and `jku`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "CardVerify")]
pub struct RawCardVerify {
    /// File with the public keys of whoever signs the card (JWKS), read again with each card.
    pub jwks_file: Option<String>,
    /// URL of the public keys, which are fetched with the card when they are older than five minutes or lack a key. https, or
    /// http on a loopback address.
    pub jwks_url: Option<String>,
    /// URLs of public keys that a signature may name itself (`jku`), to the letter. No other is ever fetched. None by default.
    pub jku: List<String>,
    /// PEM file with the CA certificates for these URLs, instead of the system's; read again with each fetch.
    pub jwks_ca: Option<String>,
}

impl Default for RawCard {
    fn default() -> Self {
        Self {
            url: None,
            file: None,
            approved: None,
            on_change: RawOnChange::Publish,
            refresh: Time::seconds(5 * 60),
            max_bytes: Size::mib(1),
            max_age: Time::seconds(5 * 60),
            overrides: serde_json::Map::new(),
            hide_skills: List::default(),
            skills: Names::default(),
            form: RawCardForm::Hybrid,
            verify: None,
            original: false,
        }
    }
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum RawOnChange {
    Publish,
    Hold,
    Alert,
}

/// What a card says of one skill, in the operator's words.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "CardSkill")]
pub struct RawCardSkill {
    /// The skill's name. The agent's by default, like the other members.
    pub name: Option<String>,
    /// What the skill does.
    pub description: Option<String>,
    /// Words that it is found by.
    pub tags: List<String>,
    /// What it may be asked.
    pub examples: List<String>,
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum RawCardForm {
    Hybrid,
    ByVersion,
}

/// One rate limit: whose budget, for which operations, and exactly one bound: `rate`, `task_creations`, `polls`, `concurrent`,
/// `open_streams`, `open_tasks`, `bytes_in` or `bytes_out`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "RateLimit", extend("required" = ["per"]))]
pub struct RawRateLimit {
    /// The name in the `RateLimit-Policy` header. By default made of `per` and the kind of bound, e.g.
    /// `principal-rate`.
    pub name: Option<String>,
    /// Whose budget: of each `principal` (anonymous callers by their address), of each caller's `address`, or one of the whole `agent`.
    pub per: Option<RawLimitKey>,
    /// The operations that count. All by default. Not with `task_creations`, `polls`, `open_tasks` and `bytes_in`, which say it
    /// themselves or are asked before the operation is known.
    pub operations: List<OperationName>,
    /// So many calls in a period, e.g. `60/min`.
    pub rate: Option<Rate>,
    /// So many sends in a period that begin a task, which is those that name none, e.g. `20/h`. They cost an agent most, and are
    /// few where other calls are many.
    pub task_creations: Option<Rate>,
    /// So many calls in a period that ask how tasks stand, which is `get` and `list`, e.g. `60/min`. For callers who poll where a
    /// stream or a webhook would tell them.
    pub polls: Option<Rate>,
    /// With `rate`, `task_creations` and `polls`: so many at once. By default their count.
    pub burst: Option<u32>,
    /// With `store: redis`: one limit over all gateways, at a round trip to the store for each call that asks it. On, because a limit means what it says, and with several gateways it would be several times that. While the store is
    /// away each gateway holds the limit by itself, as with `false`.
    #[schemars(extend("default" = true))]
    pub shared: Option<bool>,
    /// So many calls under way, streams included, each until its last byte; also one whose caller left, while the agent's
    /// answer is read to its end.
    pub concurrent: Option<u32>,
    /// So many open streams.
    pub open_streams: Option<u32>,
    /// So many tasks that have not ended, as far as this gateway has heard: a send that would begin one more is refused. Of each
    /// owner with `per: principal`, of all with `per: agent`. A task counts from its first answer until an answer, event or
    /// notification tells that it has ended, it is forgotten after `state.retention`, or has to go for newer ones; from a send that begins one until its answer
    /// its place is kept.
    pub open_tasks: Option<u32>,
    /// So many bytes of requests' bodies in a period, e.g. `100MiB/h`. Counted as they are read, so what is under way may go past
    /// it; the next call is refused until enough of the period has passed.
    pub bytes_in: Option<ByteRate>,
    /// So many bytes of answers' bodies in a period, events of streams included, e.g. `1GiB/h`. Counted as they leave: a stream
    /// that runs goes on, and the next call is refused until enough of the period has passed.
    pub bytes_out: Option<ByteRate>,
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
