//! Which reason each error of a stage is; what a reason is answered stands in `reject`.

use http::header;

use super::learn::Withheld;
use super::reject::Reject;
use crate::a2a::grpc::{CallError, FrameError};
use crate::a2a::{envelope, jsonrpc, translate};
use crate::observe::Reason;
use crate::{
    audit, authenticate, authorize, balance, http::body, http::hops, http::hygiene, parse, ratelimit, route, upstream,
};

impl From<hygiene::Error> for Reject {
    fn from(error: hygiene::Error) -> Self {
        match error {
            hygiene::Error::Method => Self::new(Reason::MethodNotAllowed).allowing("GET, HEAD, POST, DELETE, OPTIONS"),
            hygiene::Error::Host | hygiene::Error::Target | hygiene::Error::Field | hygiene::Error::Version => {
                Self::new(Reason::BadHead)
            }
            hygiene::Error::TargetTooLong => Self::new(Reason::TargetTooLong),
            hygiene::Error::TooManyFields => Self::new(Reason::HeaderTooLarge),
        }
    }
}

impl From<hops::Loop> for Reject {
    fn from(error: hops::Loop) -> Self {
        match error {
            hops::Loop::Again | hops::Loop::TooMany => Self::new(Reason::LoopDetected),
        }
    }
}

impl From<route::Error> for Reject {
    fn from(error: route::Error) -> Self {
        match error {
            route::Error::NoAgent | route::Error::NoPlace => Self::new(Reason::NoRoute),
        }
    }
}

impl From<&authenticate::Error> for Reject {
    fn from(error: &authenticate::Error) -> Self {
        let reason = match error {
            authenticate::Error::Missing { .. } | authenticate::Error::Invalid { .. } => Reason::Unauthenticated,
            authenticate::Error::MissingScope { .. } => Reason::Forbidden,
            authenticate::Error::Unavailable { .. } => Reason::AuthenticationUnavailable,
        };
        let mut reject = Self::new(reason);
        for challenge in error.challenges() {
            reject.headers_mut().append(header::WWW_AUTHENTICATE, challenge.clone());
        }
        reject
    }
}

impl From<&ratelimit::Limited> for Reject {
    fn from(limited: &ratelimit::Limited) -> Self {
        let mut reject = Self::new(Reason::RateLimited);
        limited.headers(reject.headers_mut());
        reject
    }
}

impl From<&parse::Error> for Reject {
    fn from(error: &parse::Error) -> Self {
        match error {
            parse::Error::MediaType => Self::new(Reason::UnsupportedMediaType),
            parse::Error::Body(body::Error::TooLarge(_)) => Self::new(Reason::BodyTooLarge),
            parse::Error::Body(body::Error::Stalled) => Self::new(Reason::BodyTimeout),
            parse::Error::Body(body::Error::Broken(_)) => Self::new(Reason::BodyMalformed),
            parse::Error::Frame(FrameError::TooLarge) => Self::new(Reason::BodyTooLarge),
            parse::Error::Frame(error @ FrameError::Compressed) => {
                Self::new(Reason::UnsupportedMediaType).because(error.message())
            }
            parse::Error::Frame(error @ (FrameError::Flag | FrameError::NotOne)) => {
                Self::new(Reason::BodyMalformed).because(error.message())
            }
            parse::Error::Message(error) => {
                let reason = match error {
                    CallError::Wire(_) => Reason::BodyMalformed,
                    CallError::MissingTaskId
                    | CallError::BadName
                    | CallError::ConflictingNames
                    | CallError::IdTooLong
                    | CallError::TooManyReferences => Reason::InvalidParams,
                };
                Self::new(reason).because(error.message())
            }
            parse::Error::Request(error) => {
                let reason = match error.kind {
                    jsonrpc::RequestErrorKind::Json(_) => Reason::ParseError,
                    jsonrpc::RequestErrorKind::Batch => Reason::Batch,
                    jsonrpc::RequestErrorKind::Notification => Reason::Notification,
                    jsonrpc::RequestErrorKind::InvalidRequest | jsonrpc::RequestErrorKind::LookAlikeMember => {
                        Reason::InvalidRequest
                    }
                    jsonrpc::RequestErrorKind::UnknownMethod => Reason::UnknownMethod,
                    jsonrpc::RequestErrorKind::InvalidParams
                    | jsonrpc::RequestErrorKind::MissingTaskId
                    | jsonrpc::RequestErrorKind::IdTooLong
                    | jsonrpc::RequestErrorKind::TooManyReferences
                    | jsonrpc::RequestErrorKind::ConflictingSpellings
                    | jsonrpc::RequestErrorKind::LookAlikeParam
                    | jsonrpc::RequestErrorKind::ConflictingPlaces
                    | jsonrpc::RequestErrorKind::RepeatedParam => Reason::InvalidParams,
                };
                let rejected = Self::new(reason).because(error.kind.message());
                match &error.id {
                    Some(id) => rejected.with_id(id.clone()),
                    None => rejected,
                }
            }
        }
    }
}

impl From<envelope::ErrorKind> for Reject {
    fn from(error: envelope::ErrorKind) -> Self {
        let reason = match error.is_of_json() {
            true => Reason::ParseError,
            false => Reason::InvalidRequest,
        };
        Self::new(reason).because(error.message())
    }
}

impl From<translate::Error> for Reject {
    fn from(error: translate::Error) -> Self {
        match error {
            translate::Error::Malformed => {
                Self::new(Reason::InvalidParams).because("they are none of this method in the caller's A2A version")
            }
            translate::Error::Unsupported => Self::new(Reason::UnsupportedOperation),
            translate::Error::Push => Self::new(Reason::PushNotSupported),
            translate::Error::Webhook(cause) => Self::new(Reason::InvalidParams).because(cause),
        }
    }
}

impl From<audit::Blocked> for Reject {
    fn from(_: audit::Blocked) -> Self {
        Self::new(Reason::AuditUnavailable)
    }
}

impl From<Withheld> for Reject {
    fn from(withheld: Withheld) -> Self {
        Self::new(match withheld {
            Withheld::Foreign => Reason::UpstreamBadAnswer,
            Withheld::Late => Reason::TaskBeginning,
        })
    }
}

impl From<authorize::Error> for Reject {
    fn from(error: authorize::Error) -> Self {
        match error {
            authorize::Error::NotAllowed => Self::new(Reason::NotAllowed),
            authorize::Error::Ownerless => Self::new(Reason::Forbidden),
            authorize::Error::Version => Self::new(Reason::VersionNotSupported),
            authorize::Error::TaskNotFound => Self::new(Reason::TaskNotFound),
            authorize::Error::Unrecorded => Self::new(Reason::PushEarly),
        }
    }
}

impl From<balance::Error> for Reject {
    fn from(error: balance::Error) -> Self {
        match error {
            balance::Error::OwnerGone | balance::Error::OwnerAway => Self::new(Reason::OwnerUnavailable),
            balance::Error::NoneLeft | balance::Error::NoneHealthy => Self::new(Reason::UpstreamConnect),
            balance::Error::Drained => Self::new(Reason::AgentNotReady),
            balance::Error::Busy => Self::new(Reason::UpstreamBusy),
        }
    }
}

impl From<&upstream::Error> for Reject {
    fn from(error: &upstream::Error) -> Self {
        Self::new(match error {
            upstream::Error::Connect { .. } => Reason::UpstreamConnect,
            upstream::Error::Busy { .. } => Reason::UpstreamBusy,
            upstream::Error::FirstByte { .. } => Reason::UpstreamTimeout,
            upstream::Error::Closed { .. } => Reason::UpstreamClosed,
            upstream::Error::Broken { .. } => Reason::UpstreamBadAnswer,
            upstream::Error::Body { source, .. } => match source {
                body::Error::TooLarge(_) => Reason::UpstreamAnswerTooLarge,
                body::Error::Stalled => Reason::UpstreamTimeout,
                body::Error::Broken(_) => Reason::UpstreamClosed,
            },
            upstream::Error::Credential(source) => return Self::from(source),
        })
    }
}

impl From<&upstream::NoCredential> for Reject {
    fn from(error: &upstream::NoCredential) -> Self {
        Self::new(match error {
            upstream::NoCredential::Unavailable => Reason::CredentialUnavailable,
            upstream::NoCredential::NoSubject => Reason::CallerTokenMissing,
            upstream::NoCredential::Refused => Reason::CallerTokenRefused,
        })
    }
}
