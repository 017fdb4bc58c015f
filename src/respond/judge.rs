//! What every event of a stream goes through, whatever it came in: read, learned from, and for a caller of another dialect
//! translated.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;

use super::learn::{self, Learner};
use crate::a2a::answer::{self, Told, Whole};
use crate::a2a::grpc::Status;
use crate::a2a::jsonrpc::Answer;
use crate::a2a::translate::{self, Pair};
use crate::a2a::{Binding, Dialect, Operation, Revealed, RpcId, json, v0_1};
use crate::affinity::Confirming;
use crate::observe::Record;

pub(super) struct Judge {
    pub operation: Operation,
    pub id: RpcId,
    pub learner: Learner,
    pub limits: json::Limits,
    /// What the agent speaks.
    pub speaks: Dialect,
    pub pair: Option<Arc<Pair>>,
    /// For a caller of 0.1.
    pub progress: v0_1::Progress,
    /// What was learned and other gateways do not know yet.
    pub confirming: Vec<(Confirming, Vec<Revealed>)>,
    pub saw_error: bool,
    /// The agent's error, in the form of gRPC: the last that it said.
    pub failed: Option<Box<Status>>,
    /// The caller has no head yet.
    pub head_waits: bool,
    /// The agent's error with which the stream began and ended before there was a head.
    pub instead: Option<Whole>,
}

/// The stream ends, broken, and an event does not go on; what the record says of it.
pub(super) struct Stop(pub Option<&'static str>);

impl Stop {
    pub const TOO_LARGE: Self = Self(Some("event_too_large"));
    pub const UNREADABLE: Self = Self(Some("event_unreadable"));
    const UNTRANSLATABLE: Self = Self(Some("event_untranslatable"));
    const WITHHELD: Self = Self(None);
}

impl Judge {
    /// Each event must be known to tell of nothing that is somebody else's.
    pub fn judges(&self) -> bool {
        self.learner.ownership.is_enforced() || self.pair.is_some()
    }

    /// Takes an event in; without one it is too large. Gives what it is to a caller of another dialect.
    pub fn take(&mut self, told: Option<Told<'_>>, is_first: bool, record: &mut Record) -> Result<Option<Bytes>, Stop> {
        let judges = self.judges();
        let Some(told) = told else {
            if is_first || judges {
                return Err(Stop::TOO_LARGE);
            }
            record.event_passed();
            return Ok(None);
        };
        let read = answer::read(self.speaks, told, self.operation, self.limits)
            .inspect_err(|error| {
                tracing::debug!(endpoint = &*self.learner.endpoint, %error, "an event cannot be read");
            })
            .ok()
            .filter(|answer| !judges || says_all(answer));
        let mut answer = match read {
            Some(answer) if !is_first || answer::belongs(self.speaks, &answer, &self.id) => answer,
            None if judges && self.may_tell(told.body) => return Err(Stop::UNREADABLE),
            // What could not be learned from must not reveal a task; later events have revealed theirs before.
            Some(_) | None if is_first => return Err(Stop::WITHHELD),
            Some(_) | None => {
                record.event_passed();
                return Ok(None);
            }
        };
        if let Some(pair) = &self.pair {
            pair.complete(&mut answer).map_err(|_| Stop::UNTRANSLATABLE)?;
        }
        record.event_passed();
        self.saw_error |= answer.error.is_some();
        learn::note(record, &answer.revealed);
        let revealed = if is_first {
            self.learner.begun(&answer.revealed, answer.error.is_some())
        } else {
            Cow::Borrowed(&*answer.revealed)
        };
        match self.learner.learn_at_once(&revealed) {
            Ok(None) => {}
            Ok(Some(confirming)) => self.confirming.push((confirming, revealed.into_owned())),
            Err(_withheld) => return Err(Stop::WITHHELD),
        }
        let Some(pair) = &self.pair else {
            return Ok(None);
        };
        if is_first && self.head_waits && answer.error.is_some() && pair.caller.binding == Binding::HttpJson {
            self.instead = Some(told.into_whole());
            return Ok(Some(Bytes::new()));
        }
        // A body may say by itself that it is an error.
        let told = match told.failed {
            Some(_) => told,
            None => Told::event(told.body, answer.error.is_some()),
        };
        let judged = &answer.revealed;
        let event = pair.event(self.operation, &self.id, told, judged, is_first, &mut self.progress);
        let event = event.map_err(|_| Stop::UNTRANSLATABLE)?;
        self.failed = event.ends.map(Box::new);
        Ok(Some(event.bytes))
    }

    /// What a caller of 0.1 must still be told of a stream that has ended well.
    pub fn end(&mut self) -> Option<Bytes> {
        translate::end_of_0_1(&self.id, &mut self.progress)
    }

    /// Nobody can read a task in JSON without an object: some agents end with a word such as `[DONE]`.
    fn may_tell(&self, data: &[u8]) -> bool {
        self.speaks.binding == Binding::Grpc || memchr::memchr(b'{', data).is_some()
    }
}

/// What was read is all that the answer tells of.
fn says_all(answer: &Answer<'_>) -> bool {
    !answer.is_strange && (answer.has_result || answer.error.is_some())
}
