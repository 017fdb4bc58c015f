//! How a request ended: the closed set of outcomes and reasons that metrics, logs and documents share.

/// Whose fault a refusal is. A metric label; sets the log level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    Downstream,
    Upstream,
    Internal,
}

impl Fault {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Downstream => "downstream",
            Self::Upstream => "upstream",
            Self::Internal => "internal",
        }
    }
}

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident = $label:literal, $fault:ident;)*) => {
        /// Why the gateway answered by itself.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Reason {
            $($(#[$doc])* $name,)*
        }

        impl Reason {
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $label,)*
                }
            }

            pub fn fault(self) -> Fault {
                match self {
                    $(Self::$name => Fault::$fault,)*
                }
            }
        }
    };
}

reasons! {
    /// The request head breaks RFC 9112 or the stricter rules of `http::framing` and `http::hygiene`.
    BadHead = "bad_head", Downstream;
    /// The request target is longer than `limits.target_bytes`.
    TargetTooLong = "target_too_long", Downstream;
    /// The header section is larger than `limits.header_bytes` or has more than `limits.header_fields` fields.
    HeaderTooLarge = "header_too_large", Downstream;
    /// The head did not arrive within `limits.request_header`.
    HeaderTimeout = "header_timeout", Downstream;
    MethodNotAllowed = "method_not_allowed", Downstream;
    NoRoute = "no_route", Downstream;
    Unauthenticated = "unauthenticated", Downstream;
    /// Authenticated, but a scope is missing, or the claim that owns the agent's tasks.
    Forbidden = "forbidden", Downstream;
    /// No rule of the listener or of the agent allows the call, or a decision point denies it.
    NotAllowed = "not_allowed", Downstream;
    /// The keys to verify a credential with are not known yet.
    AuthenticationUnavailable = "authentication_unavailable", Upstream;
    /// A decision point did not say whether the call is allowed.
    DecisionUnavailable = "decision_unavailable", Upstream;
    RateLimited = "rate_limited", Downstream;
    BodyTooLarge = "body_too_large", Downstream;
    BodyTimeout = "body_timeout", Downstream;
    /// The body ended early or its chunked coding is broken.
    BodyMalformed = "body_malformed", Downstream;
    UnsupportedMediaType = "unsupported_media_type", Downstream;
    /// Not JSON, not UTF-8, duplicate names, too deep or numbers too long.
    ParseError = "parse_error", Downstream;
    Batch = "batch", Downstream;
    Notification = "notification", Downstream;
    InvalidRequest = "invalid_request", Downstream;
    UnknownMethod = "unknown_method", Downstream;
    InvalidParams = "invalid_params", Downstream;
    VersionNotSupported = "version_not_supported", Downstream;
    /// A task that the call names does not exist, as far as is known, or belongs to somebody else.
    TaskNotFound = "task_not_found", Downstream;
    /// Another call of the owner begins a task of A2A 0.1 under the same name at this moment.
    TaskBeginning = "task_beginning", Downstream;
    /// The task and the context of one call belong to different endpoints.
    OwnersDiffer = "owners_differ", Downstream;
    /// A call at the front door goes to no agent: it names none, and no rule sends it anywhere.
    AgentNotNamed = "agent_not_named", Downstream;
    /// The agent's generation has no such operation, and what it has cannot stand in for it.
    UnsupportedOperation = "unsupported_operation", Downstream;
    /// Push notifications of an agent of another generation would reach the caller in that one's form.
    PushNotSupported = "push_not_supported", Downstream;
    /// No webhook is behind the address to which an agent posts: it was never given, has expired, or was given to another agent.
    PushUnknown = "push_unknown", Downstream;
    /// A notification about a task that is not the one of its webhook, or belongs to somebody else.
    PushForeign = "push_foreign", Downstream;
    /// What came for a webhook is no notification of A2A.
    PushUnreadable = "push_unreadable", Downstream;
    /// As many notifications of the agent as `push.concurrent` allows are under way.
    PushBusy = "push_busy", Upstream;
    /// A notification of a task without a record, which no call under way here makes.
    PushEarly = "push_early", Upstream;
    /// The caller's webhook did not take a notification.
    PushFailed = "push_failed", Upstream;
    /// A message of the envelope protocol comes from somebody else than its `sender`.
    SenderForeign = "sender_foreign", Downstream;
    /// A message names a session that is not there, as far as is known, or is somebody else's.
    SessionUnknown = "session_unknown", Downstream;
    /// The same caller has sent a message of this id.
    MessageDuplicate = "message_duplicate", Downstream;
    /// The extended card was asked for by somebody who did not authenticate, or the agent has none.
    ExtendedCardNotConfigured = "extended_card_not_configured", Downstream;
    /// No card yet, or the agent is out of service.
    AgentNotReady = "agent_not_ready", Upstream;
    /// The call has passed this gateway before, or too many gateways (`Via`).
    LoopDetected = "loop_detected", Upstream;
    /// The endpoint that owns the task cannot be reached, or is not configured any more.
    OwnerUnavailable = "owner_unavailable", Upstream;
    /// An endpoint did not answer what all endpoints were asked: a list, or who knows a task.
    EndpointUnavailable = "endpoint_unavailable", Upstream;
    UpstreamConnect = "upstream_connect", Upstream;
    /// Every connection that `max_connections` allows is in use.
    UpstreamBusy = "upstream_busy", Upstream;
    UpstreamTimeout = "upstream_timeout", Upstream;
    /// The caller of gRPC gave the call less time than it took (`grpc-timeout`).
    DeadlineExceeded = "deadline_exceeded", Downstream;
    /// The agent closed the connection before its answer was whole.
    UpstreamClosed = "upstream_closed", Upstream;
    /// The agent's answer is not JSON-RPC, has another id, or is broken.
    UpstreamBadAnswer = "upstream_bad_answer", Upstream;
    UpstreamAnswerTooLarge = "upstream_answer_too_large", Upstream;
    /// The agent refused the gateway's own credential.
    UpstreamRefused = "upstream_refused", Upstream;
    /// What the call does cannot be recorded in the audit trail, which has to be (`audit.on_full: block`).
    AuditUnavailable = "audit_unavailable", Internal;
    /// There is no token to show the agent: the token server is away, refuses the gateway, or too many are asked for.
    CredentialUnavailable = "credential_unavailable", Upstream;
    /// The agent is called with a token for the caller's own, and the caller showed no bearer token.
    CallerTokenMissing = "caller_token_missing", Downstream;
    /// The token server does not give a token for the caller's.
    CallerTokenRefused = "caller_token_refused", Downstream;
    Internal = "internal", Internal;
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The agent's answer was passed on whole.
    Ok,
    /// The agent answered with an A2A error, passed on whole.
    AgentError,
    /// A card or a 304, from the gateway's own store, or a message that the gateway answers for an agent.
    Served,
    /// A caller's webhook took a notification.
    Delivered,
    /// The caller left before the end. Not an error.
    DownstreamGone,
    /// The agent's stream broke off; the caller saw a broken end.
    StreamBroken,
    /// The stream was ended at the drain deadline.
    Drained,
    /// The stream was ended because a new configuration does not permit it.
    Revoked,
    /// The gateway answered by itself.
    Rejected(Reason),
}

impl Outcome {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::AgentError => "agent_error",
            Self::Served => "served",
            Self::Delivered => "delivered",
            Self::DownstreamGone => "downstream_gone",
            Self::StreamBroken => "stream_broken",
            Self::Drained => "drained",
            Self::Revoked => "revoked",
            Self::Rejected(reason) => reason.as_str(),
        }
    }
}

/// What became of a list that the gateway gathered from several endpoints. A metric label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Gathering {
    Whole,
    /// A bound ended the page before it was full.
    Short,
    /// An endpoint was left out.
    Partial,
    Failed,
}

impl Gathering {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Whole => "whole",
            Self::Short => "short",
            Self::Partial => "partial",
            Self::Failed => "failed",
        }
    }
}

/// What a search for a task among the endpoints found. A metric label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Probed {
    Found,
    Unknown,
    Failed,
    /// Not begun: too many were under way.
    Refused,
}

impl Probed {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Found => "found",
            Self::Unknown => "unknown",
            Self::Failed => "failed",
            Self::Refused => "refused",
        }
    }
}

/// What came of asking a token server for a token to show an agent. A metric label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Obtained {
    Token,
    /// The server refused it.
    Refused,
    Failed,
    /// Not asked for: too many were.
    Busy,
}

impl Obtained {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Token => "token",
            Self::Refused => "refused",
            Self::Failed => "failed",
            Self::Busy => "busy",
        }
    }
}
