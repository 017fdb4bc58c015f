//! From what the configuration and the agent's card say to what is enforced, served and published: all from one place, so
//! that the card cannot promise something else.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::a2a::card::{CardError, Edits, Flaws, OriginCard, Publication, SchemeForm, flaws};
use crate::a2a::security::{SchemeName, Security};
use crate::a2a::{Binding, Generation};
use crate::authenticate::{Resource, Verifiers};
use crate::authorize::Ownership;
use crate::card::{self, OutOfService, Published};
use crate::config::{self, AgentRoute, CardFile, CardForm, Config, Policy, UpstreamHttp};
use crate::pipeline::{Agent, Enforced, SkillDemand, Spoken};

/// What the configuration says about the card of one agent.
#[derive(PartialEq)]
pub(super) struct Rules {
    public_url: String,
    resource: Resource,
    security: Option<Security>,
    policy: Policy,
    generation: Option<Generation>,
    binding: Option<Binding>,
    http: UpstreamHttp,
    translate: bool,
    /// Nothing stands before the paths of calls.
    rooted: bool,
    schemes: BTreeMap<SchemeName, SchemeForm>,
    /// The URLs of the agent's own servers.
    upstream: Vec<String>,
    edits: Edits,
    by_version: bool,
    verifies: bool,
    original: bool,
    v0_1: bool,
    managed: Option<CardFile>,
}

impl Rules {
    pub(super) fn of(agent: &config::Agent, config: &Config) -> Self {
        let schemes = config.security_schemes.iter();
        Self {
            public_url: public_url(&config.public_url, &agent.route),
            resource: resource(&config.public_url, &agent.route),
            security: agent.security.clone(),
            policy: agent.policy.clone(),
            generation: agent.upstream.generation,
            binding: agent.upstream.binding,
            http: agent.upstream.http,
            translate: agent.translate,
            rooted: is_rooted(&agent.route),
            schemes: schemes
                .map(|(name, scheme)| (name.clone(), card::scheme_form(scheme)))
                .collect(),
            upstream: (agent.upstream.endpoints.iter().map(|endpoint| &endpoint.url))
                .chain(&agent.card.url)
                .cloned()
                .collect(),
            edits: agent.card.edits.clone(),
            by_version: agent.card.form == CardForm::ByVersion,
            verifies: agent.card.verify.is_some(),
            original: agent.card.original,
            v0_1: agent.v0_1.is_some(),
            managed: agent.card.file.clone(),
        }
    }

    /// The card that is not fetched.
    pub(super) fn managed(&self) -> Option<&CardFile> {
        self.managed.as_ref()
    }

    /// What callers of an agent with this card have to show.
    pub(super) fn demands<'a>(&'a self, origin: &'a OriginCard) -> Result<&'a Security, CardError> {
        match &self.security {
            Some(configured) => Ok(configured),
            None => origin.security.as_ref().map_err(|error| *error),
        }
    }

    /// What readers would refuse in the published card.
    pub(super) fn flaws(&self, origin: &OriginCard) -> Flaws {
        flaws(origin, &self.edits, origin.written(self.generation))
    }

    /// From the card that was read to what is enforced and published; both from one place, so that they cannot differ.
    pub(super) fn decide(
        &self,
        origin: &OriginCard,
        agent: &Agent,
        verifiers: &Verifiers,
    ) -> Result<Publication, OutOfService> {
        let security = self.demands(origin)?.clone();
        if self.verifies && self.security.is_none() && security.is_open() {
            return Err(OutOfService(
                "the card is signed but demands nothing of callers, and a signature may hold without the requirement that \
                 somebody took out; set `security` for this agent, to `[]` if it is open on purpose"
                    .to_owned(),
            ));
        }
        let requirement = verifiers
            .resolve(&security, &self.resource)
            .map_err(|unknown| OutOfService(format!("{unknown}, or set `security` for this agent")))?;
        let binding = match self.generation {
            // It has no other binding, whatever the card seems to say.
            Some(Generation::V0_1) => Binding::JsonRpc,
            Some(Generation::V0_3 | Generation::V1_0) | None => {
                self.binding.or_else(|| origin.binding()).unwrap_or(Binding::JsonRpc)
            }
        };
        if binding == Binding::Grpc && self.http == UpstreamHttp::Http1 {
            return Err(OutOfService(
                "the card offers gRPC alone, which needs HTTP/2; set upstream.http to `auto` or `http2`".to_owned(),
            ));
        }
        let bindings = bindings(binding, self.translate, self.rooted);
        if bindings.is_empty() {
            return Err(OutOfService(
                "the agent is called over gRPC, whose paths nothing can stand before; give it a `host` or `path: /`, or \
                 set `translate: true`"
                    .to_owned(),
            ));
        }
        let generations = match self.generation {
            Some(generation) => vec![generation],
            None => origin.generations(binding),
        };
        let tenant = |generation| {
            origin
                .interface(generation, binding)
                .and_then(|interface| interface.tenant.as_deref())
        };
        let spoken: Vec<_> = (generations.into_iter())
            .map(|generation| Spoken {
                generation,
                binding,
                tenant: tenant(generation).map(Arc::from),
            })
            .collect();
        let is_of_0_1 = spoken.iter().any(|spoken| spoken.generation == Generation::V0_1);
        if is_of_0_1 && !self.translate {
            return Err(OutOfService(
                "the agent speaks A2A 0.1, of which later versions are served by translation alone; set `translate: true`"
                    .to_owned(),
            ));
        }
        let served = served(&spoken, self.translate);
        if served.is_empty() {
            let name = self
                .binding
                .map_or("JSON-RPC, HTTP+JSON or gRPC", |binding| match binding {
                    Binding::JsonRpc => "JSON-RPC",
                    Binding::HttpJson => "HTTP+JSON",
                    Binding::Grpc => "gRPC",
                });
            return Err(OutOfService(format!(
                "the card offers no {name} interface of A2A 0.1, 0.3 or 1.0; set upstream.protocol.generation if it has one"
            )));
        }
        agent.upstream.speak(binding);
        let ownership = Ownership::new(&self.policy, requirement.is_open());
        // Callers of 0.1 are refused where tasks have no owners.
        let v0_1 = is_of_0_1 || (self.v0_1 && ownership.is_enforced());
        agent.enforced.store(Some(Arc::new(Enforced {
            ownership,
            requirement,
            served: served.clone(),
            bindings: bindings.clone(),
            spoken,
            // Over HTTP+JSON there has always been a call for it.
            extended_is_fetched: binding == Binding::JsonRpc && !is_of_0_1 && origin.is_extended_fetched(),
            metadata: (verifiers.describe(&security, &self.resource, self.name(origin)))
                .map(|body| Published::new(body, agent.card.max_age())),
            skills: Some(skills(origin, agent, verifiers, &self.resource)),
        })));
        Ok(Publication {
            public_url: self.public_url.clone(),
            served,
            by_version: self.by_version,
            original: self.original,
            v0_1,
            written: origin.written(self.generation),
            bindings,
            spoken: binding,
            enforced: security,
            schemes: self.schemes.clone(),
            streaming: true,
            // 0.1 tells webhooks in its own form, and has no extended card.
            push: !is_of_0_1 || agent.relay.is_some(),
            // No later agent does.
            push_v0_1: is_of_0_1 || agent.relay.is_some(),
            extended: !is_of_0_1,
            upstream: self.upstream.clone(),
            edits: self.edits.clone(),
        })
    }

    /// The agent's name in its published card.
    fn name<'a>(&'a self, origin: &'a OriginCard) -> Option<&'a str> {
        let overridden = self.edits.overrides.get("name").and_then(serde_json::Value::as_str);
        overridden.or_else(|| origin.name())
    }
}

/// What skills demand, where calls can name one.
fn skills(origin: &OriginCard, agent: &Agent, verifiers: &Verifiers, at: &Resource) -> BTreeMap<String, SkillDemand> {
    if agent.policy.skill.is_none() {
        return BTreeMap::new();
    }
    let demands = origin.skill_security().map(|(id, security)| {
        let requirement = security.map_err(|error| error.to_string()).and_then(|security| {
            let resolved = verifiers.resolve(&security, at);
            resolved.map_err(|error| error.to_string())
        });
        let demand = match requirement {
            Ok(requirement) => SkillDemand::Met(requirement),
            Err(cause) => {
                let name = &*agent.metrics.name;
                tracing::warn!(
                    agent = name,
                    skill = id,
                    cause,
                    "nobody may ask for a skill, because its requirement cannot be met"
                );
                SkillDemand::Unmet
            }
        };
        (id.to_owned(), demand)
    });
    demands.collect()
}

/// The generations that callers may use. What an agent does not speak is translated, once it is known what it speaks.
pub(super) fn served(spoken: &[Spoken], translate: bool) -> Vec<Generation> {
    if translate && !spoken.is_empty() {
        return Generation::SPOKEN.to_vec();
    }
    spoken.iter().map(|spoken| spoken.generation).collect()
}

/// The bindings that callers may use: first the one that the agent is called in, which loses nothing; the others are translated.
/// The paths of gRPC are whole, so that only an agent with a host of its own, or without a prefix, can be meant by them.
pub(super) fn bindings(spoken: Binding, translate: bool, rooted: bool) -> Vec<Binding> {
    let others = Binding::ALL
        .into_iter()
        .filter(|binding| translate && *binding != spoken);
    let all = [spoken].into_iter().chain(others);
    all.filter(|binding| *binding != Binding::Grpc || rooted).collect()
}

pub(super) fn is_rooted(route: &AgentRoute) -> bool {
    match route {
        AgentRoute::Host(_) => true,
        AgentRoute::Path(base) => base.is_empty(),
        AgentRoute::Envelope => false,
    }
}

/// What callers are told of the agent's place when they show tokens.
pub(super) fn resource(base: &str, route: &AgentRoute) -> Resource {
    let url = public_url(base, route);
    match route {
        AgentRoute::Envelope => Resource::unnamed(base),
        AgentRoute::Path(_) => Resource::named(base, &url),
        // What stands before its paths is its host alone.
        AgentRoute::Host(_) => Resource::named(&url, &url),
    }
}

/// Where callers find the agent, as its card says.
pub(super) fn public_url(base: &str, route: &AgentRoute) -> String {
    match route {
        // It has no address of its own.
        AgentRoute::Envelope => base.to_owned(),
        AgentRoute::Path(path) if path.is_empty() => format!("{base}/"),
        AgentRoute::Path(path) => format!("{base}{path}"),
        AgentRoute::Host(host) => {
            let (scheme, rest) = base.split_once("://").unwrap_or(("https", base));
            let authority = rest.split('/').next().unwrap_or_default();
            let port = authority.rsplit_once(':').map(|(_, port)| port);
            match port.filter(|port| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit())) {
                Some(port) => format!("{scheme}://{host}:{port}/"),
                None => format!("{scheme}://{host}/"),
            }
        }
    }
}
