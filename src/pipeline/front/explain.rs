//! What would become of a call at the front door: which agent it goes to and why, and what becomes of it there.
//!
//! Which agent has a task or a context, only a running gateway knows.

use http::request;
use http_body_util::Full;

use super::choose::{Chosen, How};
use super::{Came, FrontDoor};
use crate::a2a::Addressed;
use crate::authenticate;
use crate::authorize;
use crate::http::hygiene;
use crate::parse;
use crate::pipeline::Pipeline;
use crate::pipeline::explain::{Asks, Ending, Lines, called, limited, required, told_principal};
use crate::respond::Reject;
use crate::respond::body::Held;
use crate::route::RouteMatch;

impl Pipeline {
    pub(in crate::pipeline) async fn explain_front(
        &self,
        front: &FrontDoor,
        lines: &mut Lines,
        asks: Asks<'_>,
        (route, addressed): (RouteMatch, Addressed),
        parts: &request::Parts,
        held: &mut Held,
    ) -> Result<Ending, Reject> {
        lines.say("route", "the front door");
        let (downstream, client) = (asks.downstream, asks.client);
        let scene = front.scene(&self.verifiers)?;
        scene.serves(&addressed)?;
        lines.say("requirement", required(&scene.publication.enforced));
        let identified = authenticate::identify(&scene.requirement, &downstream.peer, client, parts).await;
        let principal = identified
            .inspect_err(|error| held.record.detail = Some(error.as_str()))
            .map_err(|error| Reject::from(&error))?;
        told_principal(lines, &principal);
        for limit in &front.section.rate_limits {
            lines.say("limit", limited(limit));
        }
        let version = hygiene::asked_version(parts)?;
        let (admitted, asked) = self.admitted_at_front(route, &principal, downstream, client)?;
        let bounds = self.bounds_at_front(&scene);
        let read = parse::read(&admitted, parts, &addressed, Full::new(asks.body.clone()), bounds).await;
        let (call, bytes) = read.map_err(|error| {
            held.record.detail = error.as_str();
            Reject::from(&error)
        })?;
        lines.say("call", called(&call));
        authorize::call(admitted, call.clone(), &scene.served, version.as_ref())
            .map_err(|(error, _)| Reject::from(error))?;
        if call.task.is_some() {
            lines.say(
                "choice",
                "the agent that has the task, which only a running gateway knows",
            );
            return Ok(Ending::Elsewhere);
        }
        if call.context.is_some() {
            lines.say(
                "choice",
                "the agent that has the context, which only a running gateway knows; or else",
            );
        }
        let mut came = Came {
            front,
            scene: &scene,
            client,
            downstream,
            principal,
            call,
            addressed,
            bytes,
            asked,
            id: held.record.id,
            trace: None,
        };
        let told = came.tenant(self.json);
        let (how, member) = match self.said(&came, told.as_deref()) {
            Ok(Chosen::One(how, member)) => (how, member),
            // It may be known.
            Err(_) if came.call.context.is_some() => {
                lines.say("choice", "none");
                return Ok(Ending::Elsewhere);
            }
            Err(refused) => return Err(refused),
            Ok(Chosen::All) => {
                lines.say("choice", "all agents, each as at its own address");
                return Ok(Ending::Elsewhere);
            }
        };
        let how = match how {
            How::Named => "as the call says".to_owned(),
            How::Rule(place) => format!("by front_door.rules[{place}]"),
            How::Default | How::Affinity => "by default".to_owned(),
        };
        lines.say("choice", format!("agent {}, {how}", member.agent.metrics.name));
        let (mut place, mut parts) = (route.place, parts.clone());
        let body = self.turn(&mut came, member, told.as_deref(), &mut place, &mut parts)?;
        let route = RouteMatch {
            agent: member.index,
            place,
        };
        let asks = Asks { body, ..asks };
        self.explain_agent(lines, asks, (route, came.addressed), &parts, held)
            .await
    }
}
