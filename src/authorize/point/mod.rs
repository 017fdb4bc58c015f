//! Decision points: services that are asked whether a call is allowed, when the rules have allowed it.
//!
//! Only a clear yes in time allows a call; a no, no answer, one that says nothing and no place among the questions under way all
//! refuse it. What was said is remembered only where `cache_ttl` is set, yes and no alike, under a digest of all that was
//! sent but the time and the id of the call; calls that ask the same at once share one question then. An answer that says
//! nothing is not remembered. Nothing that the caller has shown as a credential is sent.

mod ext_authz;
mod opa;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use quick_cache::sync::Cache;
use tokio::time::Instant;
use zeroize::Zeroizing;

use super::policy::Asking;
use crate::authenticate::Principal;
use crate::config::{DecisionKind, DecisionPoint, Problem};
use crate::http::asking::{Believed, Joined, News, Place, Request, Service, sha256};
use crate::http::fetch::{self, Fetched};
use crate::observe::metrics::{Metrics, Questions};

/// Answers that are remembered, of each some 100 bytes; the least used one makes room.
const MAX_KNOWN: usize = 10_000;
/// How long an open stream waits for a place among the questions: after a reload all of them may have to ask.
const PATIENCE: Duration = Duration::from_secs(10);
/// Between two looks for a place, in milliseconds at least; at most twice that.
const PAUSE: u64 = 50;

/// Why a decision point does not allow a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    Denied,
    /// None in time, or none that says yes or no.
    NoAnswer,
    /// It was not asked: too many questions are under way.
    TooMany,
}

impl Why {
    /// The label in logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Denied => "decision_point",
            Self::NoAnswer => "no_answer",
            Self::TooMany => "too_many_questions",
        }
    }
}

/// A decision point did not allow a call.
#[derive(Clone, Debug)]
pub struct Refused {
    /// What records call it.
    pub point: Arc<str>,
    pub why: Why,
}

type Verdict = Result<(), Why>;

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Fetch(#[from] fetch::Error),
    #[error("the answer has status {0}")]
    Status(StatusCode),
    #[error("the answer cannot be used: {0}")]
    Answer(&'static str),
}

/// One decision point.
pub struct Point {
    name: Arc<str>,
    /// What records call it.
    label: Arc<str>,
    section: DecisionPoint,
    /// What every question shows.
    headers: HeaderMap,
    service: Service,
    known: Cache<[u8; 32], Known>,
    joined: Arc<Joined<Verdict>>,
    counters: OnceLock<Questions>,
}

#[derive(Clone)]
struct Known {
    allowed: bool,
    until: Instant,
}

impl fmt::Debug for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.label)
    }
}

impl Point {
    /// Blocking.
    pub fn load(name: &str, section: &DecisionPoint) -> Result<Arc<Self>, Problem> {
        let service = Service::load(&section.url, section.ca.as_deref(), section.timeout, section.concurrent);
        let service = service.map_err(|cause| Problem::new(ca_key(name), cause))?;
        let mut headers = HeaderMap::new();
        if let Some(token) = &section.token {
            let value = Zeroizing::new(format!("Bearer {}", token.expose()));
            let mut value = HeaderValue::from_str(&value)
                .map_err(|_| Problem::new(format!("decision_points.{name}.token"), "does not fit into a header"))?;
            value.set_sensitive(true);
            headers.insert(header::AUTHORIZATION, value);
        }
        match section.kind {
            DecisionKind::Opa => opa::dress(&mut headers),
            DecisionKind::ExtAuthz => ext_authz::dress(&mut headers),
        }
        // One that remembers nothing takes no room for it.
        let most_known = if section.cache_ttl.is_zero() { 1 } else { MAX_KNOWN };
        Ok(Arc::new(Self {
            name: Arc::from(name),
            label: Arc::from(format!("decision_point:{name}")),
            section: section.clone(),
            headers,
            service,
            known: Cache::new(most_known),
            joined: Joined::new(),
            counters: OnceLock::new(),
        }))
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// What records call it.
    pub fn label(&self) -> &Arc<str> {
        &self.label
    }

    pub fn section(&self) -> &DecisionPoint {
        &self.section
    }

    /// It would be told of a message's metadata.
    pub(super) fn reads_metadata(&self) -> bool {
        match self.section.kind {
            DecisionKind::Opa => true,
            DecisionKind::ExtAuthz => false,
        }
    }

    /// The same service is asked the same, whatever else differs.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let (one, another) = (&self.section, &other.section);
        self.name == other.name && one.kind == another.kind && one.url == another.url && one.claims == another.claims
    }

    /// For a call, whose caller waits.
    pub(super) async fn ask(self: &Arc<Self>, principal: &Principal, asking: &Asking) -> Verdict {
        let verdict = self.ask_once(principal, asking).await;
        self.count_refused(verdict)
    }

    /// For an open stream: waits for a place, too.
    pub(super) async fn ask_in_turn(self: &Arc<Self>, principal: &Principal, asking: &Asking) -> Verdict {
        let until = Instant::now() + PATIENCE;
        loop {
            match self.ask_once(principal, asking).await {
                Err(Why::TooMany) if Instant::now() < until => {
                    let pause = Duration::from_millis(fastrand::u64(PAUSE..2 * PAUSE));
                    tokio::time::sleep(pause).await;
                }
                verdict => return self.count_refused(verdict),
            }
        }
    }

    fn count_refused(&self, verdict: Verdict) -> Verdict {
        if verdict == Err(Why::TooMany) {
            self.counted(|counters| counters.refused.inc());
        }
        verdict
    }

    async fn ask_once(self: &Arc<Self>, principal: &Principal, asking: &Asking) -> Verdict {
        let client = asking.asked.address;
        let enter = || self.service.enter(client).ok_or(Why::TooMany);
        if self.section.cache_ttl.is_zero() {
            let place = enter()?;
            let (_, request) = self.question(principal, asking);
            return Box::pin(Arc::clone(self).decide(None, request, place)).await;
        }
        let (digest, request) = self.question(principal, asking);
        if let Some(known) = self.remembered(&digest) {
            return known;
        }
        let decide = || match enter() {
            Ok(place) => Ok(Arc::clone(self).decide(Some(digest), request, place)),
            Err(why) => Err(Err(why)),
        };
        match self.joined.join(digest, || self.remembered(&digest), decide) {
            Ok(joined) => joined.await,
            Err(known) => known,
        }
    }

    /// What is sent, and a digest of all of it that makes a difference.
    fn question(&self, principal: &Principal, asking: &Asking) -> ([u8; 32], Request) {
        let mut headers = self.headers.clone();
        match self.section.kind {
            DecisionKind::Opa => {
                let input = opa::input(principal, asking, &self.section.claims);
                let digest = sha256(&[input.as_bytes()]);
                (digest, Request::Post(headers, opa::body(&input, asking.asked.now)))
            }
            DecisionKind::ExtAuthz => {
                let told = ext_authz::told(principal, asking);
                let digest = ext_authz::digest(&told);
                headers.extend(told);
                (digest, Request::Post(headers, Bytes::new()))
            }
        }
    }

    async fn decide(self: Arc<Self>, digest: Option<[u8; 32]>, request: Request, place: Place) -> Verdict {
        let answer = self.service.send(request).await;
        drop(place);
        let said = answer.map_err(Error::from).and_then(|answer| self.read(&answer));
        self.tell(said.as_ref().err());
        let Ok(allowed) = said else {
            self.counted(|counters| counters.failed.inc());
            return Err(Why::NoAnswer);
        };
        if let Some(digest) = digest {
            let until = Instant::now() + self.section.cache_ttl;
            self.known.insert(digest, Known { allowed, until });
        }
        self.counted(|counters| if allowed { &counters.yes } else { &counters.no }.inc());
        verdict(allowed)
    }

    /// Whether the answer allows the call.
    fn read(&self, answer: &Fetched) -> Result<bool, Error> {
        match self.section.kind {
            DecisionKind::Opa => opa::read(answer),
            DecisionKind::ExtAuthz => ext_authz::read(answer),
        }
    }

    fn remembered(&self, digest: &[u8; 32]) -> Option<Verdict> {
        let known = self.known.get(digest)?;
        if Instant::now() < known.until {
            return Some(verdict(known.allowed));
        }
        self.known.remove(digest);
        None
    }

    /// Tells the log how the last question ended.
    fn tell(&self, error: Option<&Error>) {
        match (self.service.note(error.is_some()), error) {
            (Some(News::WorksAgain), _) => {
                tracing::info!(decision_point = &*self.name, "questions about calls are answered again");
            }
            (Some(News::Fails), Some(error)) => {
                tracing::warn!(
                    decision_point = &*self.name,
                    error = error as &dyn std::error::Error,
                    "a question whether a call is allowed has no answer; the call is refused"
                );
            }
            (Some(News::Fails), None) | (None, _) => {}
        }
    }

    fn counted(&self, count: impl FnOnce(&Questions)) {
        if let Some(counters) = self.counters.get() {
            count(counters);
        }
    }
}

fn verdict(allowed: bool) -> Verdict {
    if allowed { Ok(()) } else { Err(Why::Denied) }
}

/// The decision points of a configuration, by their names. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Points(Arc<BTreeMap<String, Arc<Point>>>);

/// Those of the next configuration, not yet in force.
pub struct NextPoints {
    points: Points,
    /// What is trusted from then on by those that stay.
    trusts: Vec<(Arc<Point>, Believed)>,
}

impl Points {
    /// The very same, whatever their files hold by now.
    pub fn kept(&self) -> NextPoints {
        NextPoints {
            points: self.clone(),
            trusts: Vec::new(),
        }
    }

    /// Those of another configuration, or of the same one and what its files hold by now. Those that would be the same are
    /// the same, with what they remember. Blocking.
    pub fn renewed(&self, sections: &BTreeMap<String, DecisionPoint>) -> Result<NextPoints, Vec<Problem>> {
        let (mut points, mut trusts, mut problems) = (BTreeMap::new(), Vec::new(), Vec::new());
        for (name, section) in sections {
            let point = match self.0.get(name).filter(|known| known.section == *section) {
                Some(known) => match known.service.trust().changed() {
                    Ok(changed) => {
                        trusts.extend(changed.map(|believed| (Arc::clone(known), believed)));
                        Ok(Arc::clone(known))
                    }
                    Err(cause) => Err(Problem::new(ca_key(name), cause)),
                },
                None => Point::load(name, section),
            };
            match point {
                Ok(point) => {
                    points.insert(name.clone(), point);
                }
                Err(problem) => problems.push(problem),
            }
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        Ok(NextPoints {
            points: Self(Arc::new(points)),
            trusts,
        })
    }

    /// The one that a policy names at `key`. One that is not there leaves no call unasked.
    pub fn named(&self, key: &str, name: Option<&str>) -> Result<Option<Arc<Point>>, Problem> {
        let Some(name) = name else { return Ok(None) };
        match self.0.get(name) {
            Some(point) => Ok(Some(Arc::clone(point))),
            None => Err(Problem::new(key, format!("there is no `decision_points.{name}`"))),
        }
    }

    /// Questions are counted from then on.
    pub fn count(&self, metrics: &Metrics) {
        for point in self.0.values() {
            point.counters.get_or_init(|| metrics.decisions(&point.name));
        }
    }
}

impl NextPoints {
    pub fn points(&self) -> &Points {
        &self.points
    }

    /// Nothing that is trusted is new.
    pub fn trusts_the_same(&self) -> bool {
        self.trusts.is_empty()
    }

    pub fn take(self) -> Points {
        for (point, believed) in self.trusts {
            point.service.trust().believe(believed);
        }
        self.points
    }
}

fn ca_key(name: &str) -> String {
    format!("decision_points.{name}.ca")
}
