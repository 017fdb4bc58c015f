//! What would become of a request, and why: the stages of `Pipeline::call` up to the agent, each told in a line.
//!
//! The stages themselves are those of a real request; nothing is sent to an agent, no decision point is asked, no budget is
//! spent, and what only a running gateway knows (task records, how endpoints stand) is as at its start.

use std::fmt::Write as _;
use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::request;
use http_body_util::Full;

use super::catalogue::Document;
use super::extended;
use super::judging::{Shown, not_allowed};
use super::{Downstream, Entry, Pipeline, naming};
use crate::a2a::security::Security;
use crate::a2a::{Addressed, Call, Operation};
use crate::authenticate::{self, Principal};
use crate::authorize::{self, Decision, Judged, Policies};
use crate::balance::Ask;
use crate::config::{self, DecisionKind, Direction, LimitBound, LimitKey, RateOf};
use crate::http::hygiene;
use crate::observe::Record;
use crate::owners::Named;
use crate::parse;
use crate::respond::body::Held;
use crate::respond::{Reject, reject};
use crate::route::RouteMatch;

/// What was found out, line by line.
pub struct Explanation {
    pub text: String,
    pub allowed: bool,
}

/// A request that is to be explained, but for its head.
pub(super) struct Asks<'a> {
    pub downstream: &'a Arc<Downstream>,
    pub client: IpAddr,
    pub body: Bytes,
    /// Finds what the configuration says of an agent.
    pub section: &'a (dyn Fn(&str) -> Option<config::Agent> + Sync),
}

/// How a request ends that is not refused.
pub(super) enum Ending {
    Allowed,
    /// What decides does not stand in its head, and is none of the configuration.
    Elsewhere,
}

/// A line has its subject in so many characters.
const SUBJECT: usize = 13;

#[derive(Default)]
pub(super) struct Lines {
    text: String,
    /// There are decision points that would be asked.
    asks: bool,
}

impl Lines {
    pub(super) fn say(&mut self, subject: &str, what: impl AsRef<str>) {
        // Nothing that a caller composed may look like another line.
        let what = what.as_ref().replace(char::is_control, "?");
        let _always = writeln!(self.text, "{subject:SUBJECT$}{what}");
    }
}

impl Pipeline {
    /// `section` finds what the configuration says of an agent.
    pub async fn explain(
        &self,
        downstream: &Arc<Downstream>,
        client: IpAddr,
        parts: &request::Parts,
        body: Bytes,
        section: impl Fn(&str) -> Option<config::Agent> + Sync,
    ) -> Explanation {
        let mut lines = Lines::default();
        let record = Record::begin(&self.observer, &downstream.listener, client, parts.method.clone());
        let mut held = Held { record, slot: None };
        let scheme = if downstream.peer.secure { "https" } else { "http" };
        let (method, path, listener) = (&parts.method, parts.uri.path(), &downstream.listener);
        lines.say(
            "request",
            format!("{method} {path} from {client} at listener {listener} ({scheme})"),
        );
        let ended = self
            .explain_stages(&mut lines, downstream, client, parts, body, section, &mut held)
            .await;
        // The record of a request that was none.
        held.record.outcome = crate::observe::Outcome::Served;
        let allowed = ended.is_ok();
        match ended {
            Ok(Ending::Allowed) if lines.asks => lines.say("decision", "allowed, unless a decision point refuses it"),
            Ok(Ending::Allowed) => lines.say("decision", "allowed"),
            Ok(Ending::Elsewhere) => lines.say("decision", "only a running gateway can tell"),
            Err(refused) => {
                let reason = refused.reason;
                let detail = held
                    .record
                    .detail
                    .map_or_else(String::new, |detail| format!(" ({detail})"));
                let status = reject::status(reason).as_u16();
                lines.say(
                    "decision",
                    format!(
                        "refused: {}{detail}, status {status}: {}",
                        reason.as_str(),
                        reject::text(reason)
                    ),
                );
            }
        }
        Explanation {
            text: lines.text,
            allowed,
        }
    }

    #[expect(clippy::too_many_arguments, reason = "what a request is made of, once")]
    async fn explain_stages(
        &self,
        lines: &mut Lines,
        downstream: &Arc<Downstream>,
        client: IpAddr,
        parts: &request::Parts,
        body: Bytes,
        section: impl Fn(&str) -> Option<config::Agent> + Sync,
        held: &mut Held,
    ) -> Result<Ending, Reject> {
        let (route, addressed) = match self.enter(downstream, parts, held)? {
            Entry::Call(route, addressed) => (route, addressed),
            Entry::Card(_) => {
                lines.say("route", "the card of an agent, which is everybody's");
                return Ok(Ending::Allowed);
            }
            Entry::Metadata(_) => {
                lines.say("route", "how to get a token for an agent, which is everybody's");
                return Ok(Ending::Allowed);
            }
            Entry::Preflight => {
                lines.say(
                    "route",
                    "a browser's question about what is published, which is everybody's",
                );
                return Ok(Ending::Allowed);
            }
            Entry::Published(_) => {
                lines.say("route", "what the gateway publishes of itself, which is everybody's");
                return Ok(Ending::Allowed);
            }
            Entry::Catalogue(_, Document::Api | Document::Ai) => {
                lines.say("route", "a list of the agents that are public, which is everybody's");
                return Ok(Ending::Allowed);
            }
            Entry::Catalogue(_, Document::List) => {
                lines.say(
                    "route",
                    "the list of agents, of which everybody sees those that it may call",
                );
                return Ok(Ending::Elsewhere);
            }
            Entry::Notification(..) => {
                lines.say("route", "a webhook of the gateway, whose address stands for itself");
                return Ok(Ending::Elsewhere);
            }
            Entry::Message => {
                lines.say("route", "the envelope protocol, of which the message tells the rest");
                return Ok(Ending::Elsewhere);
            }
        };
        let asks = Asks {
            downstream,
            client,
            body,
            section: &section,
        };
        match &self.front {
            Some(front) if front.index == route.agent => {
                let explained = self.explain_front(front, lines, asks, (route, addressed), parts, held);
                Box::pin(explained).await
            }
            _ => Box::pin(self.explain_agent(lines, asks, (route, addressed), parts, held)).await,
        }
    }

    /// A call of an agent, from its requirement on.
    pub(super) async fn explain_agent(
        &self,
        lines: &mut Lines,
        asks: Asks<'_>,
        (route, addressed): (RouteMatch, Addressed),
        parts: &request::Parts,
        held: &mut Held,
    ) -> Result<Ending, Reject> {
        let Asks {
            downstream,
            client,
            body,
            section,
        } = asks;
        let agent = self.agent(route)?;
        let name = &*agent.metrics.name;
        lines.say("route", format!("agent {name}"));
        let section = section(name);
        let enforced = agent.in_service()?;
        enforced.serves(&addressed)?;
        let configured = section.as_ref().and_then(|section| section.security.clone());
        let of_card = || Some(agent.card.current()?.publication.enforced.clone());
        if let Some(security) = configured.or_else(of_card) {
            lines.say("requirement", required(&security));
        }
        let identified = authenticate::identify(&enforced.requirement, &downstream.peer, client, parts).await;
        let principal = identified
            .inspect_err(|error| held.record.detail = Some(error.as_str()))
            .map_err(|error| Reject::from(&error))?;
        told_principal(lines, &principal);
        for limit in section.iter().flat_map(|section| &section.rate_limits) {
            lines.say("limit", limited(limit));
        }
        let policies = self.policies(downstream, agent);
        let asked = self.asked(downstream, agent, client);
        // The rules are told whole, those too that would refuse before the body is read.
        let later = Policies {
            listener: &self.open,
            agent: &self.open,
        };
        let admitted = authorize::route(route, principal.clone(), &enforced.ownership, later, &asked)
            .inspect_err(|error| held.record.detail = Some(error.as_str()))?;
        lines.say("owner", &**admitted.owner());
        let version = hygiene::asked_version(parts)?;
        let bounds = self.bounds(agent, &enforced);
        let read = parse::read(&admitted, parts, &addressed, Full::new(body), bounds).await;
        // What is refused before the body is read is refused for that.
        let early = authorize::route(route, principal.clone(), &enforced.ownership, policies, &asked).err();
        let (call, bytes) = read.map_err(|error| {
            held.record.detail = early.map_or(error.as_str(), |early| Some(early.as_str()));
            early.map_or_else(|| Reject::from(&error), Reject::from)
        })?;
        lines.say("call", called(&call));
        let shown = Shown {
            downstream,
            client,
            parts,
            delegated: None,
        };
        let stated = self
            .about(agent, &enforced, admitted.principal(), (&call, &bytes), shown)
            .await
            .map_err(|reject| early.map_or(reject, Reject::from))?;
        if let Some(skill) = stated.skill() {
            lines.say("skill", skill);
        }
        // What other names stand for, only a running gateway knows.
        let begins = matches!(call.operation, Operation::Send | Operation::Stream);
        let call = match begins && naming::may_name(agent, &enforced, &call) {
            true => {
                Box::pin(self.read_name(agent, &enforced, &admitted, call, &mut held.record))
                    .await?
                    .0
            }
            false => call,
        };
        let checked = authorize::call(admitted, call, &enforced.served, version.as_ref())
            .map_err(|(error, _)| Reject::from(error))?;
        let call = checked.call().clone();
        let named = Named {
            affinity: &self.affinity,
            agent: name,
            call: &call,
        };
        if call.task.is_some() && enforced.ownership.is_enforced() {
            lines.say(
                "task",
                "whose it is, only a running gateway knows; taken for the caller's",
            );
        }
        if !policies.is_open() {
            let asking = stated.asking(asked, call.clone(), &named.owners(), None);
            let decision = policies.decide(&principal, &asking);
            told_rules(lines, &decision);
            if !decision.allows() {
                return Err(not_allowed(&decision, &mut held.record));
            }
            told_points(lines, policies);
        }
        extended::known(agent, &enforced, &principal, call.operation)?;
        let ask = Ask {
            context: call.context.as_ref().map(|context| context.as_str()),
            principal: (!principal.is_anonymous()).then_some(&*principal.id),
        };
        let count = agent.endpoints.configured().len();
        match agent.endpoints.choose(ask, &[]) {
            Ok(endpoint) => {
                let balance = section.map_or("", |section| balanced(&section.upstream.balancing.balance));
                lines.say(
                    "endpoint",
                    format!(
                        "{}, for new work, of {count} by {balance}",
                        config::shown_url(&endpoint.url)
                    ),
                );
            }
            Err(error) => lines.say("endpoint", format!("none of {count}: {error}")),
        }
        Ok(Ending::Allowed)
    }
}

pub(super) fn required(security: &Security) -> String {
    if security.alternatives.is_empty() {
        return "nothing".to_owned();
    }
    let alternatives = security.alternatives.iter().map(|uses| {
        let uses = uses.iter().map(|one| match one.scopes.as_slice() {
            [] => one.scheme.clone(),
            scopes => format!("{} with {}", one.scheme, scopes.join(" ")),
        });
        let uses: Vec<String> = uses.collect();
        if uses.is_empty() {
            "nothing".to_owned()
        } else {
            uses.join(" and ")
        }
    });
    alternatives.collect::<Vec<_>>().join(", or ")
}

pub(super) fn told_principal(lines: &mut Lines, principal: &Principal) {
    if principal.is_anonymous() {
        lines.say("principal", "anonymous");
        return;
    }
    lines.say("principal", &*principal.id);
    lines.say("  met by", principal.schemes.join(" and "));
    for (subject, texts) in [("  scopes", principal.scopes()), ("  groups", principal.groups())] {
        if !texts.is_empty() {
            lines.say(subject, texts.join(", "));
        }
    }
    for attribute in &principal.attributes {
        lines.say("  claim", &**attribute);
    }
}

pub(super) fn limited(limit: &config::RateLimit) -> String {
    let per = match limit.per {
        LimitKey::Principal => "principal",
        LimitKey::Address => "address",
        LimitKey::Agent => "agent",
    };
    let bound = match limit.bound {
        LimitBound::Rate {
            count,
            period,
            burst,
            of,
            ..
        } => {
            let of = match of {
                RateOf::Calls => "calls",
                RateOf::TaskCreations => "sends that begin a task",
                RateOf::Polls => "polls",
            };
            format!("{count} {of} in {period:?}, {burst} at once")
        }
        LimitBound::Concurrent(count) => format!("{count} calls under way"),
        LimitBound::OpenStreams(count) => format!("{count} open streams"),
        LimitBound::OpenTasks(count) => format!("{count} open tasks"),
        LimitBound::Bytes {
            bytes,
            period,
            direction,
        } => {
            let of = match direction {
                Direction::In => "requests",
                Direction::Out => "answers",
            };
            format!("{bytes} bytes of {of} in {period:?}")
        }
    };
    let operations: Vec<_> = limit.operations.iter().map(|operation| operation.as_str()).collect();
    let of = if operations.is_empty() {
        String::new()
    } else {
        format!(", of {}", operations.join(", "))
    };
    format!("{}: {bound} per {per}{of}", limit.name)
}

pub(super) fn called(call: &Call) -> String {
    let mut text = format!(
        "{} of A2A {} over {}",
        call.operation.as_str(),
        call.generation,
        call.binding.as_str()
    );
    if let Some(task) = &call.task {
        let _always = write!(text, ", task {}", task.as_str());
    }
    if let Some(context) = &call.context {
        let _always = write!(text, ", context {}", context.as_str());
    }
    text
}

fn told_rules(lines: &mut Lines, decision: &Decision) {
    for (place, judged) in [("the listener", &decision.listener), ("the agent", &decision.agent)] {
        match judged {
            Judged::Open => {}
            Judged::Allowed(rule) => lines.say("rule", format!("{rule} of {place} allows it")),
            Judged::Denied { failed: None } => lines.say("rule", format!("none of {place} allows it")),
            Judged::Denied {
                failed: Some((rule, why)),
            } => lines.say(
                "rule",
                format!("none of {place} allows it, and {rule} cannot be evaluated: {why}"),
            ),
        }
    }
}

fn told_points(lines: &mut Lines, policies: Policies<'_>) {
    for point in policies.points() {
        let section = point.section();
        let kind = match section.kind {
            DecisionKind::Opa => "opa",
            DecisionKind::ExtAuthz => "ext_authz",
        };
        let url = config::shown_url(&section.url);
        lines.say("would ask", format!("decision point {}, {kind} at {url}", point.name()));
        lines.asks = true;
    }
}

fn balanced(balance: &config::Balance) -> &'static str {
    match balance {
        config::Balance::LeastRequest => "least_request",
        config::Balance::RoundRobin => "round_robin",
        config::Balance::ConsistentHash(_) => "consistent_hash",
    }
}
