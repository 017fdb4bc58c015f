//! What of a request stands in the audit trail: at its end what its record tells, and the task that it makes as soon as that is
//! learned, whether its caller still waits or not.

use std::net::IpAddr;
use std::sync::Arc;

use http::HeaderMap;

use super::outcome::{Outcome, Reason};
use super::record::{Record, RequestId};
use crate::a2a::{ContextId, Dialect, Operation, TaskId};
use crate::audit::{Blocked, Event, Trail};
use crate::config::{AuditEvent, shown_url};

/// The label of `Owners::why_not_found` for what is somebody else's.
const FOREIGN: &str = "foreign";

impl Record {
    /// To be asked before the call goes to an agent.
    pub fn admit(&mut self, operation: Operation) -> Result<(), Blocked> {
        let events = leaves(operation, self.webhook);
        if let Some(room) = self.trail().admit(events)? {
            self.room = Some(room);
        }
        Ok(())
    }

    /// For who learns of a task that the call makes, if that is recorded.
    pub fn witness(&self) -> Option<Arc<Witness>> {
        let trail = self.trail();
        trail.wants(AuditEvent::TaskCreated).then(|| {
            Arc::new(Witness {
                trail: trail.clone(),
                id: self.id,
                trace: self.trace,
                client: self.address,
                listener: self.listener.clone(),
                operation: self.operation,
                dialect: self.dialect,
                principal: self.principal.clone(),
                has_room: self.room.is_some(),
            })
        })
    }

    /// At the end of the request.
    pub(super) fn audit(&self) {
        let trail = self.trail();
        if !trail.is_on() {
            return;
        }
        let refused = match self.outcome {
            Outcome::Rejected(reason) => Some(reason),
            // A caller who leaves before the refusal was told is refused all the same.
            Outcome::Ok
            | Outcome::AgentError
            | Outcome::Served
            | Outcome::Delivered
            | Outcome::DownstreamGone
            | Outcome::StreamBroken
            | Outcome::Drained
            | Outcome::Revoked => self.refused,
        };
        let outcome = refused.map_or(self.outcome, Outcome::Rejected);
        let Some(kind) = self.kind(outcome).filter(|kind| trail.wants(*kind)) else {
            return;
        };
        let endpoint = self.endpoint.as_deref().map(shown_url);
        let event = Event {
            reason: refused.map(Reason::as_str),
            detail: self.detail,
            principal: self.principal.as_deref(),
            client: Some(self.address),
            listener: Some(&self.listener),
            agent: self.agent.as_deref().map(|agent| &*agent.name),
            operation: self.operation.map(Operation::as_str),
            binding: self.dialect.map(|dialect| dialect.binding.as_str()),
            generation: self.dialect.map(|dialect| dialect.generation.as_str()),
            endpoint: endpoint.as_deref(),
            task: self.task.as_ref().map(TaskId::as_str),
            context: self.context.as_ref().map(ContextId::as_str),
            rule: self.rule.as_deref(),
            request_id: Some(self.id.as_str()),
            trace_id: self.trace.as_ref().map(TraceId::as_str),
            ..Event::new(kind, if refused.is_some() { "refused" } else { outcome.as_str() })
        };
        match self.room {
            Some(_) => trail.record_in_room(&event),
            None => trail.record(&event),
        }
    }

    fn kind(&self, outcome: Outcome) -> Option<AuditEvent> {
        match outcome {
            Outcome::Rejected(reason) => refusal(reason, self.detail).or_else(|| self.done()),
            Outcome::Revoked => Some(AuditEvent::Denied),
            Outcome::Ok
            | Outcome::AgentError
            | Outcome::Served
            | Outcome::Delivered
            | Outcome::DownstreamGone
            | Outcome::StreamBroken
            | Outcome::Drained => self.done(),
        }
    }

    /// What a call that went to an endpoint has done there, or tried to.
    fn done(&self) -> Option<AuditEvent> {
        self.endpoint.as_ref()?;
        match self.operation? {
            Operation::Cancel => Some(AuditEvent::TaskCancel),
            Operation::PushCreate => Some(AuditEvent::PushSet),
            Operation::PushDelete => Some(AuditEvent::PushDelete),
            Operation::Send | Operation::Stream => self.webhook.then_some(AuditEvent::PushSet),
            Operation::Get
            | Operation::List
            | Operation::Subscribe
            | Operation::PushGet
            | Operation::PushList
            | Operation::ExtendedCard => None,
        }
    }
}

/// The lines that a call leaves which is permitted.
fn leaves(operation: Operation, webhook: bool) -> &'static [AuditEvent] {
    match operation {
        Operation::Send | Operation::Stream if webhook => &[AuditEvent::TaskCreated, AuditEvent::PushSet],
        Operation::Send | Operation::Stream => &[AuditEvent::TaskCreated],
        Operation::Cancel => &[AuditEvent::TaskCancel],
        Operation::PushCreate => &[AuditEvent::PushSet],
        Operation::PushDelete => &[AuditEvent::PushDelete],
        Operation::Get
        | Operation::List
        | Operation::Subscribe
        | Operation::PushGet
        | Operation::PushList
        | Operation::ExtendedCard => &[],
    }
}

/// What of the refusals matters to security.
fn refusal(reason: Reason, detail: Option<&str>) -> Option<AuditEvent> {
    match reason {
        // An agent's credential is the address that it was given.
        Reason::Unauthenticated | Reason::AuthenticationUnavailable | Reason::PushUnknown => {
            Some(AuditEvent::AuthenticationFailed)
        }
        Reason::Forbidden
        | Reason::NotAllowed
        | Reason::DecisionUnavailable
        | Reason::CallerTokenMissing
        | Reason::CallerTokenRefused
        | Reason::SenderForeign
        | Reason::PushForeign => Some(AuditEvent::Denied),
        Reason::TaskNotFound => (detail == Some(FOREIGN)).then_some(AuditEvent::Denied),
        Reason::RateLimited => Some(AuditEvent::RateLimited),
        Reason::BadHead
        | Reason::TargetTooLong
        | Reason::HeaderTooLarge
        | Reason::HeaderTimeout
        | Reason::MethodNotAllowed
        | Reason::NoRoute
        | Reason::BodyTooLarge
        | Reason::BodyTimeout
        | Reason::BodyMalformed
        | Reason::UnsupportedMediaType
        | Reason::ParseError
        | Reason::Batch
        | Reason::Notification
        | Reason::InvalidRequest
        | Reason::UnknownMethod
        | Reason::InvalidParams
        | Reason::VersionNotSupported
        | Reason::TaskBeginning
        | Reason::OwnersDiffer
        | Reason::AgentNotNamed
        | Reason::UnsupportedOperation
        | Reason::PushNotSupported
        | Reason::PushUnreadable
        | Reason::PushBusy
        | Reason::PushEarly
        | Reason::PushFailed
        | Reason::SessionUnknown
        | Reason::MessageDuplicate
        | Reason::ExtendedCardNotConfigured
        | Reason::AgentNotReady
        | Reason::LoopDetected
        | Reason::OwnerUnavailable
        | Reason::EndpointUnavailable
        | Reason::UpstreamConnect
        | Reason::UpstreamBusy
        | Reason::UpstreamTimeout
        | Reason::DeadlineExceeded
        | Reason::UpstreamClosed
        | Reason::UpstreamBadAnswer
        | Reason::UpstreamAnswerTooLarge
        | Reason::UpstreamRefused
        | Reason::CredentialUnavailable
        | Reason::AuditUnavailable
        | Reason::Internal => None,
    }
}

/// What the line of a task tells that a call makes.
pub struct Witness {
    trail: Trail,
    id: RequestId,
    trace: Option<TraceId>,
    client: IpAddr,
    listener: Arc<str>,
    operation: Option<Operation>,
    dialect: Option<Dialect>,
    principal: Option<Arc<str>>,
    has_room: bool,
}

impl Witness {
    pub fn created(&self, agent: &str, endpoint: &str, owner: &str, task: &TaskId, context: Option<&ContextId>) {
        let event = Event {
            principal: self.principal.as_deref(),
            client: Some(self.client),
            listener: Some(&self.listener),
            agent: Some(agent),
            operation: self.operation.map(Operation::as_str),
            binding: self.dialect.map(|dialect| dialect.binding.as_str()),
            generation: self.dialect.map(|dialect| dialect.generation.as_str()),
            endpoint: Some(&shown_url(endpoint)),
            task: Some(task.as_str()),
            context: context.map(ContextId::as_str),
            owner: Some(owner),
            request_id: Some(self.id.as_str()),
            trace_id: self.trace.as_ref().map(TraceId::as_str),
            ..Event::new(AuditEvent::TaskCreated, "ok")
        };
        match self.has_room {
            true => self.trail.record_in_room(&event),
            false => self.trail.record(&event),
        }
    }
}

/// The trace that the caller says the request belongs to (W3C Trace Context, `traceparent`). An id and nothing else: no
/// decision rests on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceId([u8; 32]);

impl TraceId {
    /// `None` where the field is not there once, and well-formed (W3C Trace Context §3.2).
    pub fn of(headers: &HeaderMap) -> Option<Self> {
        let mut fields = headers.get_all("traceparent").iter();
        let (Some(field), None) = (fields.next(), fields.next()) else {
            return None;
        };
        let mut parts = field.as_bytes().split(|byte| *byte == b'-');
        let (version, trace, parent, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let is_hex = |part: &[u8], length: usize| {
            part.len() == length && part.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        };
        let is_zero = |part: &[u8]| part.iter().all(|byte| *byte == b'0');
        let sound = is_hex(version, 2) && version != b"ff" && is_hex(trace, 32) && !is_zero(trace);
        let sound = sound && is_hex(parent, 16) && !is_zero(parent) && is_hex(flags, 2);
        // Later versions may have more.
        let sound = sound && (version != b"00" || parts.next().is_none());
        Some(Self(trace.try_into().ok().filter(|_| sound)?))
    }

    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}
