//! An agent's event stream on its way to the caller: bytes untouched, event by event, learned from as they pass. For a caller
//! of another dialect each event is translated when it is whole, and comments are the gateway's own. Events are those of SSE or
//! the messages of gRPC; what each goes through stands in `judge`.
//!
//! Nothing that could reveal a task leaves before its owner is recorded: until the first event is whole, and its task
//! learned, the bytes of an unfinished event wait here (bounded by `event_bytes`). Where tasks have owners those of later
//! events wait as well, because any event may tell of somebody else's task, and one that is too large, or that cannot be
//! read, ends the stream; elsewhere every byte goes on as it came. What comes whole is not copied, and what is ready at once
//! goes on as one chunk. Messages of gRPC always wait until they are whole, and the first that is too large ends the stream. Where gateways share their records, the bytes of an event that reveals a new task also wait until the others can
//! find its owner, which takes a round trip and is bounded there.
//!
//! Of some streams even the head waits for what they begin with (`begin`): to callers of HTTP+JSON an error is its status, and
//! an agent of gRPC says only behind its head that it refuses the gateway.
//!
//! The end is as clean as the agent's: a connection that breaks, a stream that stops inside an event, silence past the
//! idle timeout, the drain deadline and a permission that holds no more (`standing`) all end as `Broken`, and so does a stream
//! of gRPC that ends without a status. A status that is an error is the agent's last event. A caller who leaves drops this, and with it the agent's
//! stream; the task goes on (A2A 1.0 §3.1.6).

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body::Body as _;
use tokio::time::{Instant, Sleep};

use super::answer;
use super::judge::{Judge, Stop};
use super::learn::Learner;
use super::standing::{Leave, Touched};
use crate::a2a::answer::{Told, Whole};
use crate::a2a::grpc::{FrameError, Frames, Status, frame};
use crate::a2a::sse::{Content, Name, Scanner};
use crate::a2a::translate::Pair;
use crate::a2a::{Binding, Call, Dialect, json, v0_1};
use crate::affinity::Reservation;
use crate::balance::{Fault, Selected};
use crate::http::grpc;
use crate::observe::{Outcome, Reason, Record};
use crate::push::UnderWay;
use crate::ratelimit::Place;
use crate::upstream;

/// What is collected of a burst before it goes on: enough that a write costs little per event, little enough to hold.
const BURST_BYTES: usize = 32 * 1024;
/// Most that goes on at once, so that a caller who takes a large event slowly is seen to take it.
const PIECE: usize = 64 * 1024;

/// An event stream's comment.
const COMMENT: Bytes = Bytes::from_static(b":\n\n");

pub struct EventStream {
    /// Until it has ended, or the stream for another reason.
    body: Option<upstream::Body>,
    selected: Selected,
    judge: Judge,
    until_learned: Option<UntilLearned>,
    source: Source,
    /// The event that is not whole yet, as far as it came; the scanner bounds it.
    held: BytesMut,
    first_seen: bool,
    /// The bytes that wait until other gateways know what was learned from them.
    unconfirmed: Option<Bytes>,
    ended: Option<Result<(), Outcome>>,
    /// What is left of a large burst.
    left: Bytes,
    /// The caller's connection took bytes and may not have sent them yet.
    unsent: bool,
    idle: Option<Idle>,
    leave: Pin<Box<Leave>>,
}

/// What events come in.
enum Source {
    Sse(Scanner),
    Grpc(Frames),
}

/// What a call holds until it was learned from its answer, of a stream from its first event, what it makes.
pub struct UntilLearned {
    /// Of a conversation that the caller begins.
    pub reservation: Option<Reservation>,
    /// Of a webhook for the task.
    pub under_way: Option<UnderWay>,
    /// Among the caller's open tasks.
    pub place: Option<Arc<Place>>,
}

struct Idle {
    most: Duration,
    sleep: Pin<Box<Sleep>>,
}

pub struct Settings {
    pub event_bytes: usize,
    pub idle: Option<Duration>,
    pub limits: json::Limits,
    pub leave: Leave,
    /// What the agent speaks.
    pub speaks: Dialect,
    pub translation: Option<Translation>,
}

/// For a caller of another dialect than the agent's.
pub struct Translation {
    pub pair: Arc<Pair>,
    /// An event that comes before the agent's own.
    pub first: Option<Bytes>,
}

impl EventStream {
    pub fn new(
        body: upstream::Body,
        selected: Selected,
        call: &Call,
        learner: Learner,
        until_learned: UntilLearned,
        settings: Settings,
    ) -> Self {
        let (pair, first) = match settings.translation {
            Some(Translation { pair, first }) => (Some(pair), first),
            None => (None, None),
        };
        Self {
            body: Some(body),
            selected,
            source: match settings.speaks.binding {
                Binding::JsonRpc | Binding::HttpJson => Source::Sse(Scanner::new(settings.event_bytes)),
                Binding::Grpc => Source::Grpc(Frames::new(settings.event_bytes)),
            },
            judge: Judge {
                operation: call.operation,
                id: call.id.clone(),
                learner,
                limits: settings.limits,
                speaks: settings.speaks,
                pair,
                progress: v0_1::Progress::default(),
                confirming: Vec::new(),
                saw_error: false,
                failed: None,
                head_waits: false,
                instead: None,
            },
            until_learned: Some(until_learned),
            held: BytesMut::new(),
            first_seen: false,
            unconfirmed: None,
            ended: None,
            left: first.unwrap_or_default(),
            // The head.
            unsent: true,
            idle: settings.idle.map(|most| Idle {
                most,
                sleep: Box::pin(tokio::time::sleep(most)),
            }),
            leave: Box::pin(settings.leave),
        }
    }

    /// Waits for what the stream begins with, where the head depends on it. An error that is all there is is given instead of
    /// the stream; so is the reason why there is none.
    pub async fn begin(&mut self, record: &mut Record) -> Result<Option<Whole>, Reason> {
        let by_status = |pair: &Arc<Pair>| pair.caller.binding == Binding::HttpJson;
        let waits = self.judge.speaks.binding == Binding::Grpc || self.judge.pair.as_ref().is_some_and(by_status);
        if !waits || !self.left.is_empty() {
            return Ok(None);
        }
        self.judge.head_waits = true;
        let next = poll_fn(|cx| self.poll_next(cx, record)).await;
        self.judge.head_waits = false;
        match next {
            Some(Ok(bytes)) => self.left = bytes,
            Some(Err(Outcome::Rejected(reason))) => return Err(reason),
            Some(Err(outcome)) => self.ended = Some(Err(outcome)),
            None => {}
        }
        Ok(self.judge.instead.take())
    }

    /// How a cleanly ended stream is recorded.
    pub fn outcome(&self) -> Outcome {
        if self.judge.saw_error {
            Outcome::AgentError
        } else {
            Outcome::Ok
        }
    }

    /// The caller reads messages of gRPC.
    pub fn is_grpc(&self) -> bool {
        let speaks = self.judge.pair.as_ref().map_or(self.judge.speaks, |pair| pair.caller);
        speaks.binding == Binding::Grpc
    }

    /// How a cleanly ended stream ends over gRPC.
    pub fn status(&self) -> Option<Status> {
        let status = || self.judge.failed.as_deref().cloned().unwrap_or_default();
        self.is_grpc().then(status)
    }

    /// The next bytes for the caller; an error is an end that must not look like one.
    pub fn poll_chunk(&mut self, cx: &mut Context<'_>, record: &mut Record) -> Poll<Option<Result<Bytes, Outcome>>> {
        if !self.left.is_empty() {
            return Poll::Ready(Some(Ok(self.piece())));
        }
        let mut next = self.poll_next(cx, record);
        if let Poll::Ready(Some(Ok(bytes))) = &mut next
            && bytes.len() > PIECE
        {
            self.left = std::mem::take(bytes);
            *bytes = self.piece();
        }
        let unsent = std::mem::replace(&mut self.unsent, matches!(next, Poll::Ready(Some(Ok(_)))));
        if unsent && let Poll::Ready(Some(Err(outcome))) = next {
            // hyper drops what it has not sent when a body fails; asked to come back, it sends first.
            self.ended = Some(Err(outcome));
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        next
    }

    fn piece(&mut self) -> Bytes {
        self.left.split_to(self.left.len().min(PIECE))
    }

    fn poll_next(&mut self, cx: &mut Context<'_>, record: &mut Record) -> Poll<Option<Result<Bytes, Outcome>>> {
        // A stream that always has more would not come to ask below.
        if self.ended.is_none() && self.leave.is_outdated() {
            let asked = self.poll_leave(cx, record);
            if asked.is_pending() && self.leave.is_held() {
                return Poll::Pending;
            }
        }
        ready!(self.poll_confirming(cx));
        if let Some(bytes) = self.unconfirmed.take() {
            return Poll::Ready(Some(Ok(bytes)));
        }
        let mut ready = Burst::default();
        while self.ended.is_none() && ready.size < BURST_BYTES && self.judge.confirming.is_empty() {
            let Some(body) = &mut self.body else { break };
            match Pin::new(body).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => {
                    let pass = match frame.into_data() {
                        Ok(data) => {
                            self.touch();
                            self.follow(data, record)
                        }
                        // Trailers of an agent stay here, but for what gRPC says in them.
                        Err(frame) => frame
                            .into_trailers()
                            .ok()
                            .and_then(|mut trailers| self.conclude(grpc::take_status(&mut trailers), record)),
                    };
                    if let Some(pass) = pass {
                        ready.push(pass);
                    }
                }
                Poll::Ready(Some(Err(error))) => {
                    tracing::debug!(endpoint = &*self.judge.learner.endpoint, %error, "the agent's stream broke off");
                    let principal = &self.judge.learner.permit.principal().id;
                    self.selected.endpoint().failed(Fault::Stream, principal);
                    self.ended = Some(Err(Outcome::StreamBroken));
                }
                Poll::Ready(None) => self.end(),
                Poll::Pending => break,
            }
        }
        if let Some(bytes) = ready.take() {
            self.unconfirmed = Some(bytes);
            ready!(self.poll_confirming(cx));
            // Unless it was withheld.
            if let Some(bytes) = self.unconfirmed.take() {
                return Poll::Ready(Some(Ok(bytes)));
            }
        }
        match self.ended {
            Some(Ok(())) => return Poll::Ready(self.judge.end().map(Ok)),
            Some(Err(outcome)) => {
                self.body = None;
                return Poll::Ready(Some(Err(outcome)));
            }
            None => {}
        }
        if let Poll::Ready(outcome) = self.poll_leave(cx, record) {
            return Poll::Ready(Some(Err(outcome)));
        }
        if let Some(idle) = &mut self.idle
            && idle.sleep.as_mut().poll(cx).is_ready()
        {
            tracing::debug!(
                endpoint = &*self.judge.learner.endpoint,
                "the agent's stream was silent for too long"
            );
            return Poll::Ready(Some(Err(Outcome::StreamBroken)));
        }
        Poll::Pending
    }

    /// Whether the caller has to go, with the connection to the agent.
    fn poll_leave(&mut self, cx: &mut Context<'_>, record: &mut Record) -> Poll<Outcome> {
        let touched = Touched {
            operation: self.judge.operation,
            task: record.task.as_ref(),
        };
        let leave = self.leave.as_mut();
        let (outcome, detail) = ready!(leave.poll(&self.judge.learner.metrics.name, touched, cx));
        record.detail = detail.or(record.detail);
        self.ended = Some(Err(outcome));
        self.body = None;
        Poll::Ready(outcome)
    }

    fn poll_confirming(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while let Some((next, revealed)) = self.judge.confirming.last_mut() {
            let confirmed = ready!(next.as_mut().poll(cx));
            if self.judge.learner.confirmed(confirmed, revealed).is_err() {
                self.unconfirmed = None;
                self.break_off();
                self.judge.confirming.clear();
                break;
            }
            self.judge.confirming.pop();
        }
        Poll::Ready(())
    }

    fn end(&mut self) {
        let is_whole = match &self.source {
            Source::Sse(scanner) => !scanner.has_partial() && self.held.is_empty(),
            // Whole ones end with a status.
            Source::Grpc(_) => false,
        };
        self.ended = Some(if is_whole { Ok(()) } else { Err(Outcome::StreamBroken) });
    }

    /// The end of a stream of gRPC; gives what is to be said of it.
    fn conclude(&mut self, status: Option<Status>, record: &mut Record) -> Option<Bytes> {
        let Source::Grpc(frames) = &self.source else {
            return None;
        };
        let Some(status) = status.filter(|_| !frames.has_partial()) else {
            self.end();
            return None;
        };
        if answer::refuses(&status) {
            // The gateway, not the caller.
            self.judge.learner.metrics.upstream_failed(Reason::UpstreamRefused);
            self.ended = Some(Err(Outcome::Rejected(Reason::UpstreamRefused)));
            return None;
        }
        self.ended = Some(Ok(()));
        if status.code == 0 {
            return None;
        }
        let said = match self.judge.take(Some(Told::ended(&status)), !self.first_seen, record) {
            Ok(said) => said,
            Err(stop) => return self.stop(stop, record),
        };
        if self.judge.pair.is_none() {
            self.judge.failed = Some(Box::new(status));
        }
        said.filter(|said| !said.is_empty())
    }

    /// Scans a chunk; gives what may go on now.
    fn follow(&mut self, chunk: Bytes, record: &mut Record) -> Option<Bytes> {
        match &self.source {
            Source::Sse(_) => self.follow_events(chunk, record),
            Source::Grpc(_) => self.follow_messages(chunk, record),
        }
    }

    fn follow_messages(&mut self, piece: Bytes, record: &mut Record) -> Option<Bytes> {
        let Source::Grpc(frames) = &mut self.source else {
            return None;
        };
        frames.push(piece);
        let mut passes = BytesMut::new();
        let stopped = loop {
            let message = match frames.take() {
                Ok(Some(message)) => message,
                Ok(None) => break None,
                Err(FrameError::TooLarge) => break Some(Stop::TOO_LARGE),
                Err(_) => break Some(Stop::UNREADABLE),
            };
            let is_first = !std::mem::replace(&mut self.first_seen, true);
            let framed = match self.judge.take(Some(Told::event(&message, false)), is_first, record) {
                Ok(Some(translated)) => translated,
                // Its length was read from as many bytes.
                Ok(None) => frame(&message).unwrap_or_default(),
                Err(stop) => break Some(stop),
            };
            passes.extend_from_slice(&framed);
        };
        if self.first_seen {
            self.until_learned = None;
        }
        if let Some(stop) = stopped {
            self.stop(stop, record);
        }
        Some(passes.freeze()).filter(|passes| !passes.is_empty())
    }

    fn follow_events(&mut self, mut chunk: Bytes, record: &mut Record) -> Option<Bytes> {
        let Source::Sse(scanner) = &mut self.source else {
            return None;
        };
        let mut at = 0;
        // The end of the last event that ends here.
        let mut whole = 0;
        let mut translated = BytesMut::new();
        while let Some(event) = scanner.next(&chunk, &mut at) {
            let is_first = !self.first_seen && whole == 0;
            whole = event.end;
            let told = match event.content {
                Content::Data { name, data } => Some(Told::event(data, name == Name::Error)),
                Content::TooLarge => None,
            };
            match self.judge.take(told, is_first, record) {
                Ok(Some(event)) => translated.extend_from_slice(&event),
                Ok(None) => {}
                Err(stop) => return self.stop(stop, record),
            }
            if self.judge.failed.is_some() || self.judge.instead.is_some() {
                self.ended = Some(Ok(()));
                self.body = None;
                break;
            }
        }
        let partial = scanner.partial_len();
        self.first_seen |= whole > 0;
        if self.first_seen {
            self.until_learned = None;
        }
        if self.judge.pair.is_some() {
            // Between events there are only comments, which say that the agent is still there: so does one of ours, which
            // stands whole where theirs may come in pieces.
            // Over gRPC the connection's own pings say it.
            let idle = whole == 0 && partial == 0 && !self.is_grpc();
            let passes = if idle { COMMENT } else { translated.freeze() };
            return Some(passes).filter(|passes| !passes.is_empty());
        }
        let waits = !self.first_seen || self.judge.judges();
        // However it was cut: what stands before an event waits for nothing, and does not count.
        let unfinished = if waits { partial } else { 0 };
        let unfinished = chunk.split_off(chunk.len().saturating_sub(unfinished));
        let passes = if chunk.is_empty() || self.held.is_empty() {
            Some(chunk).filter(|chunk| !chunk.is_empty())
        } else {
            self.held.extend_from_slice(&chunk);
            Some(std::mem::take(&mut self.held).freeze())
        };
        self.held.extend_from_slice(&unfinished);
        passes
    }

    /// At an event that is too large (`event_bytes`), cannot be read or is somebody else's.
    fn stop(&mut self, Stop(detail): Stop, record: &mut Record) -> Option<Bytes> {
        if let Some(detail) = detail {
            tracing::warn!(
                endpoint = &*self.judge.learner.endpoint,
                detail,
                "an agent's stream ends at an event that cannot be judged"
            );
            record.detail = Some(detail);
        }
        self.break_off()
    }

    fn break_off(&mut self) -> Option<Bytes> {
        self.ended = Some(Err(Outcome::StreamBroken));
        self.held = BytesMut::new();
        None
    }

    fn touch(&mut self) {
        if let Some(idle) = &mut self.idle {
            idle.sleep.as_mut().reset(Instant::now() + idle.most);
        }
    }
}

/// One chunk as it came, or several joined.
#[derive(Default)]
struct Burst {
    first: Option<Bytes>,
    joined: Option<BytesMut>,
    size: usize,
}

impl Burst {
    fn push(&mut self, bytes: Bytes) {
        self.size += bytes.len();
        match (&mut self.first, &mut self.joined) {
            (None, None) => self.first = Some(bytes),
            (Some(first), None) => {
                let mut joined = BytesMut::with_capacity(first.len() + bytes.len());
                joined.extend_from_slice(first);
                joined.extend_from_slice(&bytes);
                self.joined = Some(joined);
            }
            (_, Some(joined)) => joined.extend_from_slice(&bytes),
        }
    }

    fn take(self) -> Option<Bytes> {
        self.joined.map(BytesMut::freeze).or(self.first)
    }
}
