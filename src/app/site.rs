//! The configuration in force and what works for it, and how another one takes its place.
//!
//! Everything that can fail has happened before: files were read, sockets are bound. What requests see is swapped as one
//! value (`Current`); listeners and jobs that are not needed any more are told to end after that.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use http::HeaderName;

use super::agents;
use super::assemble::{Ground, Next};
use super::listen::Door;
use super::rules::{self, resource};
use crate::a2a::json;
use crate::affinity::Affinity;
use crate::assertion::Signer;
use crate::audit::Event;
use crate::authenticate::Verifiers;
use crate::authorize::{Points, Rules};
use crate::card::{Cors, Published};
use crate::config::{self, AuditEvent, Config, Fragments, Problem};
use crate::envelope::{Desk, Limiters, Memory};
use crate::export::Collector;
use crate::gather::token::Tokens;
use crate::http::hygiene;
use crate::listener::{self, Bound, Connections};
use crate::observe::access::AccessLog;
use crate::observe::record::Observer;
use crate::pipeline::{
    Agent, Behind, Budget, Catalogue, Current, FrontDoor, FrontGround, ListenerRule, ListenerRules, Pipeline,
};
use crate::push;
use crate::route::{AgentIndex, Routes};
use crate::signing::CardSigner;
use crate::tls::ExpiryKind;

/// Between two times at which every open stream is asked, which costs some microseconds a stream: who gives away thousands of
/// tasks must leave the gateway to its calls.
const BETWEEN_TRANSFERS: Duration = Duration::from_millis(100);

/// What outlives every configuration.
pub struct Common {
    pub ground: Ground,
    pub affinity: Arc<Affinity>,
    pub memory: Arc<Memory>,
    pub connections: Arc<Connections>,
    pub current: Arc<Current>,
    pub config: Arc<ArcSwap<Config>>,
    /// The files of agents as they were read last.
    pub fragments: Arc<ArcSwap<Fragments>>,
    /// Where the listeners are bound, in the order of the configuration.
    pub listening: ArcSwap<Vec<(String, SocketAddr)>>,
    access: Option<AccessLog>,
    logging: AtomicBool,
}

/// The configuration in force.
pub struct Site {
    pub config: Arc<Config>,
    pub verifiers: Arc<Verifiers>,
    pub points: Points,
    pub tokens: Arc<Tokens>,
    pub push: Option<Arc<push::Common>>,
    pub signer: Option<Arc<Signer>>,
    pub card_signer: Option<Arc<CardSigner>>,
    pub collector: Option<Arc<Collector>>,
    envelope: Option<Arc<Desk>>,
    front: Option<Arc<FrontDoor>>,
    catalogue: Option<Arc<Catalogue>>,
    listeners: Vec<Listening>,
    agents: Vec<agents::Running>,
}

#[derive(Clone)]
pub struct Listening {
    section: config::Listener,
    address: SocketAddr,
    pub door: Arc<Door>,
}

impl Site {
    /// The listener whose socket this one would take over. Port 0 is a new port each time, so there the name tells.
    pub fn listener(&self, like: &config::Listener) -> Option<&Listening> {
        self.listeners.iter().find(|known| {
            let named = known.section.name == like.name || like.address.port() != 0;
            known.section.address == like.address && named
        })
    }

    pub fn agent(&self, name: &str) -> Option<&agents::Running> {
        self.agents.iter().find(|known| *known.agent.metrics.name == *name)
    }
}

impl Common {
    /// A gateway that serves nothing yet.
    pub fn new(ground: Ground, affinity: Affinity, access: Option<AccessLog>, config: &Config, next: &Next) -> Self {
        let affinity = Arc::new(affinity);
        let tokens = next.tokens.clone();
        let nothing = pipeline(config, &ground, &affinity, None, Vec::new(), Arc::default(), tokens);
        Self {
            memory: Arc::new(Memory::new(&ground.metrics)),
            ground,
            affinity,
            connections: Connections::new(&config.limits),
            current: Arc::new(Current::new(Pipeline {
                routes: Routes::default(),
                ..nothing
            })),
            config: Arc::new(ArcSwap::from_pointee(config.clone())),
            fragments: Arc::default(),
            listening: ArcSwap::default(),
            access,
            logging: AtomicBool::new(false),
        }
    }

    /// The sockets of the listeners that have none yet, in the order of the configuration. Must run inside the runtime.
    pub fn bind(
        &self,
        config: &Config,
        before: Option<&Site>,
    ) -> impl Iterator<Item = Result<Option<Bound>, listener::Error>> {
        config.listeners.iter().map(move |listener| {
            let known = before.and_then(|before| before.listener(listener));
            match known {
                Some(_) => Ok(None),
                None => listener::bind(listener, self.connections.clone()).map(Some),
            }
        })
    }

    /// Puts the next configuration in force, and what only the one before needed out of work.
    pub fn enter(&self, config: Config, next: Next, sockets: Vec<Option<Bound>>, before: Option<&Site>) -> Site {
        let config = Arc::new(config);
        let Ground { drain, metrics, .. } = &self.ground;
        if let Some(access) = self.access.as_ref().filter(|_| config.log.access)
            && !self.logging.swap(true, Ordering::Relaxed)
        {
            access.start(drain);
        }
        let (tokens, push, keys) = (next.tokens, next.push, next.keys);
        let (signer, card_signer) = (next.signer, next.card_signer);
        let (collector, rules) = (next.collector, next.rules);
        let envelope = next.envelope.zip(config.envelope.as_ref());
        let envelope = envelope.map(|(requirement, section)| {
            let limiters = self.limiters(&config, section, before);
            let memory = self.memory.clone();
            Arc::new(Desk::build(&config, section, requirement, limiters, memory))
        });
        let catalogue = config.catalogue.as_ref().map(|section| {
            let metadata = config
                .agents
                .iter()
                .map(|agent| resource(&config.public_url, &agent.route).metadata_url());
            let budget = self.budget(&config, section, before);
            Arc::new(Catalogue::build(&config, section, metadata, budget))
        });
        let verifiers = Arc::new(next.verifiers.take());
        verifiers.count(metrics);
        verifiers.tell(&self.ground.audit);
        verifiers.start(drain);
        let points = next.points.take();
        points.count(metrics);
        let agents = next
            .agents
            .into_iter()
            .map(|agent| agent.start(drain, &verifiers, signer.as_ref(), card_signer.as_ref()));
        let agents: Vec<agents::Running> = agents.collect();
        self.connections.set_limits(&config.limits);
        let mut listeners = Vec::new();
        let mut opened = Vec::new();
        for ((listener, acceptor), socket) in config.listeners.iter().zip(next.acceptors).zip(sockets) {
            let known = before
                .and_then(|before| before.listener(listener))
                .filter(|_| socket.is_none());
            if let Some(known) = known {
                known.door.change(listener, acceptor, &config.limits);
                listeners.push(Listening {
                    section: listener.clone(),
                    ..known.clone()
                });
            } else if let Some(socket) = socket {
                let door = Door::new(listener, acceptor, &config.limits, &self.current, metrics, drain);
                listeners.push(Listening {
                    section: listener.clone(),
                    address: socket.local_address(),
                    door: door.clone(),
                });
                opened.push((door, socket));
            }
        }
        let running = agents.iter().map(|agent| agent.agent.clone()).collect();
        let access = self.access.as_ref();
        let next = pipeline(
            &config,
            &self.ground,
            &self.affinity,
            access,
            running,
            verifiers.clone(),
            tokens.clone(),
        );
        let front = self.front(&config, &next.agents, card_signer.as_ref(), before);
        self.current.replace(Pipeline {
            envelope: envelope.clone(),
            front: front.clone(),
            catalogue: catalogue.clone(),
            listeners: listener_rules(&config, &listeners, rules),
            keys: keys.map(|keys| Arc::new(Published::new(keys, config.assertions.max_age))),
            ..next
        });
        for (door, socket) in opened {
            door.open(socket);
        }
        self.config.store(config.clone());
        let addresses = listeners
            .iter()
            .map(|known| (known.section.name.clone(), known.address));
        self.listening.store(Arc::new(addresses.collect()));
        let site = Site {
            config,
            verifiers,
            points,
            tokens,
            push,
            signer,
            card_signer,
            collector,
            envelope,
            front,
            catalogue,
            listeners,
            agents,
        };
        if let Some(before) = before {
            self.retire(before, &site);
        }
        self.note_expiry(&site);
        site
    }

    /// Says which files of agents cannot be taken, each once.
    pub fn tell_fragments(&self, fragments: &Fragments) {
        let known = self.fragments.swap(Arc::new(fragments.clone()));
        let count = i64::try_from(fragments.refused.len()).unwrap_or(i64::MAX);
        self.ground.metrics.fragments_refused.set(count);
        for refused in fragments
            .refused
            .iter()
            .filter(|refused| !known.refused.contains(refused))
        {
            for problem in &refused.problems {
                tracing::error!(%problem, "a file of agents is refused; what is in force of it stays");
            }
            let keys: Vec<&str> = refused.problems.iter().map(|problem| &*problem.key).collect();
            self.ground.audit.record(&Event {
                detail: Some(&keys.join(", ")),
                ..Event::new(AuditEvent::ConfigurationRefused, "refused")
            });
        }
        let repaired = known.refused.iter().filter(|before| {
            let mut refused = fragments.refused.iter();
            !refused.any(|refused| refused.file == before.file)
        });
        for before in repaired {
            tracing::info!(file = before.file, "nothing is wrong with the file of agents any more");
        }
    }

    /// Behind all agents, whose places are those of the configuration.
    fn front(
        &self,
        config: &Config,
        agents: &[Arc<Agent>],
        card_signer: Option<&Arc<CardSigner>>,
        before: Option<&Site>,
    ) -> Option<Arc<FrontDoor>> {
        let section = config.front_door.as_ref()?;
        let named = section
            .agents
            .iter()
            .chain(section.rules.iter().map(|rule| &rule.agent));
        let named: BTreeSet<&String> = named.chain(&section.default).collect();
        for name in named {
            if !config.agents.iter().any(|agent| agent.name == *name) {
                tracing::warn!(agent = name, "the front door names an agent that is not there");
            }
        }
        let behind = agents.iter().zip(&config.agents).enumerate();
        let behind = behind.filter(|(_, (_, agent))| section.agents.contains(&agent.name));
        let behind = behind.map(|(index, (agent, section))| Behind {
            index: AgentIndex(index),
            agent: agent.clone(),
            translates: section.translate,
            listed: section.listed,
        });
        let ground = FrontGround {
            drain: &self.ground.drain,
            ledger: self.ground.ledger.as_ref(),
            rate_limit_keys: config.limits.rate_limit_keys,
            card_signer,
            public_url: rules::public_url(&config.public_url, &section.route),
            resource: rules::resource(&config.public_url, &section.route),
            rooted: rules::is_rooted(&section.route),
            index: AgentIndex(config.agents.len()),
        };
        let before = before.and_then(|before| before.front.as_deref());
        Some(Arc::new(FrontDoor::build(section, behind.collect(), ground, before)))
    }

    /// Those of the configuration in force, with what is spent of them, where they would be the same.
    fn limiters(&self, config: &Config, section: &config::Envelope, before: Option<&Site>) -> Arc<Limiters> {
        let same = before.and_then(|before| {
            let known = before.config.envelope.as_ref()?;
            let same = known.rate_limits == section.rate_limits
                && known.authentication_rate == section.authentication_rate
                && before.config.limits.rate_limit_keys == config.limits.rate_limit_keys;
            before.envelope.as_ref().filter(|_| same)
        });
        match same {
            Some(desk) => desk.limiters.clone(),
            None => {
                let keys = config.limits.rate_limit_keys;
                Arc::new(Limiters::start(section, keys, &self.ground.drain))
            }
        }
    }

    /// That of the configuration in force, with what is spent of it, where it would be the same.
    fn budget(&self, config: &Config, section: &config::Catalogue, before: Option<&Site>) -> Arc<Budget> {
        let same = before.and_then(|before| {
            let known = before.config.catalogue.as_ref()?;
            let same = known.rate_limits == section.rate_limits
                && known.rate == section.rate
                && before.config.limits.rate_limit_keys == config.limits.rate_limit_keys;
            before.catalogue.as_ref().filter(|_| same)
        });
        match same {
            Some(catalogue) => catalogue.budget().clone(),
            None => {
                let keys = config.limits.rate_limit_keys;
                Arc::new(Budget::start(section, keys, &self.ground.drain))
            }
        }
    }

    /// Ends open streams whose task is somebody else's from now on: at once after a first transfer, together after those that
    /// follow closely.
    pub async fn follow_transfers(self: Arc<Self>) {
        loop {
            self.affinity.transferred().await;
            self.current.ask_again();
            tokio::time::sleep(BETWEEN_TRANSFERS).await;
        }
    }

    /// Listeners that are gone finish what they serve. The jobs of agents end as their last owner is dropped.
    fn retire(&self, before: &Site, now: &Site) {
        let metrics = &self.ground.metrics;
        for known in &before.listeners {
            if !now.listeners.iter().any(|kept| Arc::ptr_eq(&kept.door, &known.door)) {
                tracing::info!(listener = known.section.name, address = %known.address, "listening no more");
                known.door.leave();
            }
        }
        let gone = |name: &str| {
            !now.config
                .listeners
                .iter()
                .any(|kept| kept.name == name && kept.tls.is_some())
        };
        for name in before.config.listeners.iter().map(|listener| &listener.name) {
            if gone(name) {
                metrics.no_certificates(name);
            }
        }
        for agent in &before.config.agents {
            if now.agent(&agent.name).is_none() {
                metrics.agent_gone(&agent.name);
            }
        }
    }

    fn note_expiry(&self, site: &Site) {
        for known in &site.listeners {
            let expires = known.door.acceptor().map(|acceptor| acceptor.expires_at());
            let first = expires
                .iter()
                .flatten()
                .filter(|expiry| expiry.kind == ExpiryKind::Certificate)
                .map(|expiry| expiry.not_after)
                .min();
            if let Some(first) = first {
                #[expect(
                    clippy::cast_precision_loss,
                    reason = "seconds since 1970 are exact in a double for 285 million years"
                )]
                let first = first as f64;
                let expiry = &self.ground.metrics.certificate_expiry;
                expiry.with_label_values(&[known.section.name.as_str()]).set(first);
            }
        }
    }
}

/// A socket that cannot be bound, as a problem of the configuration.
pub fn unbound(config: &Config, error: &listener::Error) -> Problem {
    let listener::Error::Bind { name, source, .. } = error;
    let index = config.listeners.iter().position(|listener| listener.name == *name);
    let key = index.map_or_else(|| "listeners".to_owned(), |index| format!("listeners[{index}].address"));
    Problem::new(key, format!("{error}: {source}"))
}

fn pipeline(
    config: &Config,
    ground: &Ground,
    affinity: &Arc<Affinity>,
    access: Option<&AccessLog>,
    agents: Vec<Arc<Agent>>,
    verifiers: Arc<Verifiers>,
    tokens: Arc<Tokens>,
) -> Pipeline {
    let access = access.filter(|_| config.log.access);
    // The front door stands behind all agents.
    let front = config.front_door.as_ref().map(|front| &front.route);
    let routes = config.agents.iter().map(|agent| &agent.route).chain(front);
    Pipeline {
        version: 0,
        until: ground.drain.until_deadline(),
        routes: Routes::build(routes, &config.public_url),
        agents,
        listeners: ListenerRules::default(),
        open: Rules::default(),
        verifiers,
        affinity: affinity.clone(),
        observer: Arc::new(Observer {
            metrics: ground.metrics.clone(),
            access: access.map(|log| (log.clone(), config.log.format)),
            audit: ground.audit.clone(),
            clock: ground.clock.clone(),
        }),
        drain: ground.drain.clone(),
        own_headers: own_headers(config),
        hops: ground.hops.clone(),
        head: hygiene::Bounds {
            fields: config.limits.header_fields,
            target_bytes: config.limits.target_bytes,
        },
        tokens,
        envelope: None,
        front: None,
        keys: None,
        cors: config.cors.as_ref().map(Cors::new),
        catalogue: None,
        json: json::Limits {
            depth: config.limits.json_depth,
            digits: config.limits.number_digits,
        },
        body_idle: config.limits.request_body_idle,
        body_whole: config.limits.request_body,
    }
}

/// Of every listener, those included that nothing is bound for.
fn listener_rules(config: &Config, listening: &[Listening], rules: Vec<Rules>) -> ListenerRules {
    let rules = config.listeners.iter().zip(rules).map(|(listener, rules)| {
        let known = listening.iter().find(|known| known.section.name == listener.name);
        ListenerRule {
            door: known.map(|known| known.door.id()),
            name: Arc::from(listener.name.as_str()),
            rules,
        }
    });
    ListenerRules(rules.collect())
}

/// Also where it is another agent that is told so: what one gateway writes must not come from a caller anywhere.
fn own_headers(config: &Config) -> Arc<[HeaderName]> {
    let assertions = config
        .agents
        .iter()
        .filter_map(|agent| agent.upstream.assertion.as_ref());
    let mut names: Vec<HeaderName> = assertions.map(|assertion| assertion.header.clone()).collect();
    names.push(hygiene::A2A_GATEWAY_ASSERTION);
    names.dedup();
    names.into()
}
