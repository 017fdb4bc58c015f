//! One agent from its configuration: endpoints, limits, card, and what its card makes the gateway enforce.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use rustls_pki_types::ServerName;
use tokio_util::sync::DropGuard;

use super::attending::attend;
use super::course::{Course, Source, Target};
use super::leaving;
use super::rules::{Rules, bindings, is_rooted, public_url, resource, served};
use crate::a2a::Binding;
use crate::assertion::Signer;
use crate::audit::Trail;
use crate::authenticate::Verifiers;
use crate::authorize::{Ownership, Points, Rules as CallRules};
use crate::balance::Endpoints;
use crate::card::{self, CardStore, Published, Verifier};
use crate::clock::Clock;
use crate::config::{self, Config, Problem};
use crate::drain::Drain;
use crate::gather::probe::Probes;
use crate::http::fetch;
use crate::observe::Metrics;
use crate::pipeline::{Agent, CallPolicy, Enforced, Spoken};
use crate::push::{self, Relay};
use crate::ratelimit::{Ledger, RateLimiter};
use crate::signing::CardSigner;
use crate::tls;
use crate::upstream::{Renewal, Upstream};

/// For one attempt at one address.
const CARD_TIMEOUT: Duration = Duration::from_secs(10);

pub struct Parts<'a> {
    pub config: &'a Config,
    pub clock: &'a Clock,
    pub drain: &'a Drain,
    pub metrics: &'a Metrics,
    pub audit: &'a Trail,
    /// Absent when they could not be built; then only problems are looked for.
    pub verifiers: Option<&'a Verifiers>,
    /// Absent for the same reason.
    pub points: Option<&'a Points>,
    /// What gateways share.
    pub ledger: Option<&'a Arc<Ledger>>,
    /// Absent where webhooks are not relayed.
    pub push: Option<&'a Arc<push::Common>>,
    /// What is known of the agent's files stays where they are bad.
    pub keeps: bool,
}

/// One agent of the configuration in force, with the jobs that work for it. They end with it, unless it hands them on.
pub struct Running {
    pub agent: Arc<Agent>,
    section: config::Agent,
    rate_limit_keys: usize,
    upstream_jobs: Arc<DropGuard>,
    limiter_jobs: Arc<DropGuard>,
    card_jobs: Arc<DropGuard>,
    course: Arc<Course>,
}

/// One agent of a configuration that is not in force yet.
pub struct Built {
    agent: Arc<Agent>,
    section: config::Agent,
    rate_limit_keys: usize,
    rules: Arc<Rules>,
    /// What is trusted and shown from then on towards the agent that stays.
    renewal: Option<Renewal>,
    same: bool,
    /// The endpoints that those of the agent follow.
    follows: Option<Arc<Endpoints>>,
    upstream_jobs: Option<Arc<DropGuard>>,
    limiter_jobs: Option<Arc<DropGuard>>,
    card: CardJob,
    /// What is wrong with files of which the former content stays.
    pub kept: Vec<Problem>,
}

enum CardJob {
    /// The same that fetches already.
    Kept(Arc<Course>, Arc<DropGuard>),
    New {
        source: Box<Source>,
        places: Vec<card::Place>,
        refresh: Duration,
        /// What was approved before still is.
        approved: Option<Arc<CardStore>>,
        /// Whose card is good until there is a fresh one.
        before: Option<Arc<CardStore>>,
    },
}

/// What fetches the card of one agent.
pub struct Fetching {
    pub source: Box<Source>,
    pub places: Vec<card::Place>,
    /// They end with it.
    _jobs: DropGuard,
}

/// `before` is the agent of this name in the configuration in force: what would be the same is taken over. Nothing of it
/// changes before `start`. Blocking: reads files.
pub fn build(
    config: &config::Agent,
    key: &str,
    parts: &Parts<'_>,
    before: Option<&Running>,
) -> Result<Built, Vec<Problem>> {
    let (mut problems, mut kept) = (Vec::new(), Vec::new());
    let metrics = match before {
        Some(before) => before.agent.metrics.clone(),
        None => parts.metrics.agent(&config.name),
    };
    let upstream_key = format!("{key}.upstream");
    let reached = before.filter(|before| before.section.upstream.differs_in_secret_at_most(&config.upstream));
    let mut renewal = None;
    let (endpoints, upstream) = match reached {
        Some(before) => {
            let renewed = before.agent.upstream.renewed(&config.upstream, &upstream_key);
            let told = if parts.keeps { &mut kept } else { &mut problems };
            renewal = renewed.map_err(|found| told.extend(found)).ok();
            (before.agent.endpoints.clone(), Some(before.agent.upstream.clone()))
        }
        None => {
            let config::Upstream {
                endpoints,
                balancing,
                retry_budget,
                ..
            } = &config.upstream;
            let endpoints = match before {
                Some(before) => {
                    let known = &before.agent.endpoints;
                    known.next(endpoints, balancing, *retry_budget, parts.config.drain)
                }
                None => Endpoints::build(endpoints, balancing, *retry_budget, &metrics),
            };
            let endpoints = endpoints
                .map_err(|error| vec![Problem::new(format!("{upstream_key}.endpoints"), error.to_string())])?;
            // Tokens that are there go on.
            let heir =
                before.filter(
                    |before| match (&before.section.upstream.credential, &config.upstream.credential) {
                        (Some(before), Some(credential)) => before.is_shown_like(credential),
                        (None, _) | (_, None) => false,
                    },
                );
            let heir = heir.map(|before| &*before.agent.upstream);
            let upstream = Upstream::build(&config.upstream, &endpoints, &upstream_key, heir, parts.drain, &metrics)
                .map_err(|found| problems.extend(found));
            (Arc::new(endpoints), upstream.ok().map(Arc::new))
        }
    };
    // Until the card tells, and if it does not.
    let binding = config.upstream.binding.unwrap_or(Binding::JsonRpc);
    let at = resource(&parts.config.public_url, &config.route);
    let enforced = match (&config.security, parts.verifiers) {
        (Some(security), Some(verifiers)) => match verifiers.resolve(security, &at) {
            // How paths are called is known with the generation alone.
            Ok(_) if binding != Binding::JsonRpc && config.upstream.generation.is_none() => None,
            // Nothing of A2A.
            Ok(requirement) if config.speaks_envelope() => Some(Arc::new(Enforced {
                ownership: Ownership::new(&config.policy, requirement.is_open()),
                requirement,
                bindings: Vec::new(),
                served: Vec::new(),
                spoken: Vec::new(),
                extended_is_fetched: false,
                metadata: None,
                skills: None,
            })),
            Ok(requirement) => {
                let spoken: Vec<_> = (config.upstream.generation.into_iter())
                    .map(|generation| Spoken {
                        generation,
                        binding,
                        tenant: None,
                    })
                    .collect();
                let served = served(&spoken, config.translate);
                let ownership = Ownership::new(&config.policy, requirement.is_open());
                Some(Arc::new(Enforced {
                    requirement,
                    bindings: bindings(binding, config.translate, is_rooted(&config.route)),
                    served,
                    spoken,
                    extended_is_fetched: false,
                    ownership,
                    metadata: (verifiers.describe(security, &at, None))
                        .map(|body| Published::new(body, config.card.max_age)),
                    skills: None,
                }))
            }
            Err(unknown) => {
                problems.push(Problem::new(format!("{key}.security"), unknown.to_string()));
                None
            }
        },
        _ => None,
    };
    let calls = match parts.points {
        Some(points) => call_rules(&config.policy, key, points),
        None => Ok(CallRules::default()),
    };
    let calls = calls.map_err(|problem| problems.push(problem)).ok();
    let verify = config.card.verify.as_ref();
    let verifier = verify.map(|verify| Verifier::build(verify, &format!("{key}.card.verify"), parts.clock));
    let verifier = verifier.transpose().unwrap_or_else(|found| {
        // Whoever fetches the card goes on with what it has.
        let goes_on = reached.filter(|before| before.section.card == config.card);
        let goes_on = goes_on.is_some_and(|before| before.section.speaks_envelope() == config.speaks_envelope());
        match parts.keeps && goes_on {
            true => kept.extend(found),
            false => problems.extend(found),
        }
        None
    });
    let (Some(upstream), Some(calls), []) = (upstream, calls, problems.as_slice()) else {
        return Err(problems);
    };
    let verifier = verifier.map(Arc::new);
    // Where keys cannot be read, those that are known go on.
    let believing = verifier.clone().or_else(|| {
        let known = before.and_then(|before| before.agent.card.verifier());
        known.filter(|_| config.card.verify.is_some()).cloned()
    });
    let rules = Arc::new(Rules::of(config, parts.config));
    let rate_limit_keys = parts.config.limits.rate_limit_keys;
    let relay = relay(config, parts, &metrics.name);
    let relayed = before.filter(|before| match (&before.agent.relay, &relay) {
        (Some(before), Some(relay)) => before.is_like(relay),
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    });
    let limited = before
        .filter(|before| before.section.rate_limits == config.rate_limits && before.rate_limit_keys == rate_limit_keys);
    let unchanged = before.filter(|before| {
        let upstream = before.section.upstream.clone();
        let section = config::Agent {
            upstream,
            ..config.clone()
        };
        let enforced = before.agent.enforced.load();
        let asks_the_same = match (before.agent.policy.rules.point(), calls.point()) {
            (Some(known), Some(point)) => Arc::ptr_eq(known, point),
            (known, point) => known.is_none() && point.is_none(),
        };
        reached.is_some()
            && limited.is_some()
            && asks_the_same
            && relayed.is_some()
            && section == before.section
            && *before.course.target.load().rules == *rules
            && enforced
                .as_ref()
                .zip(parts.verifiers)
                .is_none_or(|(known, all)| known.is_of(all))
    });
    let agent = match unchanged {
        Some(before) => before.agent.clone(),
        None => Arc::new(Agent {
            limiter: match limited {
                Some(before) => before.agent.limiter.clone(),
                None => {
                    let limiter = RateLimiter::build(&config.rate_limits, rate_limit_keys);
                    match parts.ledger {
                        Some(ledger) => limiter.sharing(ledger, &config.name),
                        None => limiter,
                    }
                }
            },
            endpoints,
            reservations: before.map_or_else(Arc::default, |before| before.agent.reservations.clone()),
            beginnings: before.map_or_else(Arc::default, |before| before.agent.beginnings.clone()),
            v0_1: config.v0_1,
            card: Arc::new(card_store(config, parts.audit).believing(believing)),
            card_options: fetch::Options {
                headers: http::HeaderMap::new(),
                max_bytes: config.card.max_bytes,
                timeout: CARD_TIMEOUT,
                max_header_bytes: config.upstream.answer_header_bytes,
                server_name: server_name(config),
            },
            enforced: ArcSwapOption::new(enforced),
            policy: CallPolicy {
                rules: calls,
                skill: config.policy.skill.clone(),
            },
            probes: match reached {
                Some(before) => before.agent.probes.clone(),
                None => Arc::new(Probes::new(&config.upstream.probe)),
            },
            list_partial: config.upstream.list_partial,
            relay: relayed.map_or(relay, |before| before.agent.relay.clone()),
            speaks_envelope: config.speaks_envelope(),
            forward_credentials: config.forward_credentials,
            body_bytes: config.body_bytes,
            event_bytes: config.upstream.event_bytes,
            stream_idle: config.upstream.stream_idle_timeout,
            metrics,
            upstream,
        }),
    };
    Ok(Built {
        section: config.clone(),
        rate_limit_keys,
        rules,
        renewal,
        same: unchanged.is_some(),
        follows: before
            .filter(|_| reached.is_none())
            .map(|before| before.agent.endpoints.clone()),
        upstream_jobs: reached.map(|before| before.upstream_jobs.clone()),
        limiter_jobs: limited.map(|before| before.limiter_jobs.clone()),
        card: card_job(config, &agent, before, reached.is_some(), verifier),
        kept,
        agent,
    })
}

/// What its policy says of calls, and whom it asks about them.
fn call_rules(policy: &config::Policy, key: &str, points: &Points) -> Result<CallRules, Problem> {
    let point = points.named(
        &format!("{key}.policy.decision_point"),
        policy.decision_point.as_deref(),
    )?;
    Ok(CallRules::new(&policy.allow).asking(point))
}

/// Where the agent reaches the gateway, and what comes there is relayed.
fn relay(config: &config::Agent, parts: &Parts<'_>, name: &Arc<str>) -> Option<Arc<Relay>> {
    let common = parts.push?;
    let push = &parts.config.push;
    let base = match &config.push_url {
        Some(url) => url.clone(),
        None => public_url(push.url.as_ref().unwrap_or(&parts.config.public_url), &config.route),
    };
    let relay = Relay::new(common, push, name, &base, parts.config.limits.target_bytes);
    Some(Arc::new(relay))
}

fn card_store(config: &config::Agent, audit: &Trail) -> CardStore {
    let store = CardStore::new(&config.name, config.card.max_age);
    store.approving(&config.card).telling(audit)
}

/// It has a card of its own that is asked for.
fn fetches(config: &config::Agent) -> bool {
    !config.speaks_envelope() && config.card.file.is_none()
}

/// The job goes on where it would ask the same servers the same way.
fn card_job(
    config: &config::Agent,
    agent: &Agent,
    before: Option<&Running>,
    reached: bool,
    verifier: Option<Arc<Verifier>>,
) -> CardJob {
    let asked_like = |other: &config::Card| {
        let config::Card {
            url,
            file: _,
            approved: _,
            on_change: _,
            refresh,
            max_bytes,
            max_age: _,
            edits: _,
            form: _,
            verify,
            original: _,
        } = &config.card;
        (url, refresh, max_bytes, verify) == (&other.url, &other.refresh, &other.max_bytes, &other.verify)
    };
    let kept = before
        .filter(|before| reached && fetches(config) == fetches(&before.section) && asked_like(&before.section.card));
    if let Some(before) = kept {
        return CardJob::Kept(before.course.clone(), before.card_jobs.clone());
    }
    let places = card::places(&config.upstream.endpoints, config.card.url.as_deref());
    let store = before.map(|before| before.agent.card.clone());
    let approved = before.filter(|before| {
        // What was not verified in this way is not believed.
        let verify = &before.section.card.verify;
        fetches(config) && fetches(&before.section) && (verifier.is_none() || *verify == config.card.verify)
    });
    CardJob::New {
        approved: approved.map(|before| before.agent.card.clone()),
        // A card from a server that is not asked any more tells nothing of the agent, and one that was not verified in this way
        // is not believed.
        before: store.filter(|store| {
            let current = store.current().filter(|_| verifier.is_none());
            current.is_some_and(|current| places.iter().any(|place| place.shows(&current.place)))
        }),
        source: Box::new(Source {
            upstream: agent.upstream.clone(),
            own: config.card.url.is_none(),
            verifier,
            last: Mutex::default(),
            options: fetch::Options {
                // A card from elsewhere has none of their names.
                server_name: agent
                    .card_options
                    .server_name
                    .clone()
                    .filter(|_| config.card.url.is_none()),
                ..agent.card_options.clone()
            },
        }),
        places,
        refresh: config.card.refresh,
    }
}

impl Built {
    /// How its card is fetched, and where, by who does not run it; `None`: it is not.
    pub fn fetching(self, drain: &Drain) -> Option<Fetching> {
        let CardJob::New { source, places, .. } = self.card else {
            return None;
        };
        // Tokens to be shown.
        let (scope, jobs) = drain.scope();
        self.agent.upstream.serve(&scope);
        Some(Fetching {
            source,
            places,
            _jobs: jobs,
        })
        .filter(|_| fetches(&self.section))
    }

    /// The very agent of the configuration in force, and nothing that it trusts or shows is new.
    pub fn is_unchanged(&self) -> bool {
        self.same && self.renewal.as_ref().is_none_or(Renewal::is_empty)
    }

    pub fn start(
        self,
        drain: &Drain,
        verifiers: &Arc<Verifiers>,
        signer: Option<&Arc<Signer>>,
        card_signer: Option<&Arc<CardSigner>>,
    ) -> Running {
        let Self {
            agent,
            section,
            rate_limit_keys,
            rules,
            renewal,
            same: _,
            follows,
            upstream_jobs,
            limiter_jobs,
            card,
            kept: _,
        } = self;
        if let Some(renewal) = renewal {
            agent.upstream.take(renewal);
        }
        agent.upstream.sign_with(signer);
        agent.card.sign_with(card_signer);
        if let Some(before) = follows {
            agent.endpoints.take_over(&before);
        }
        let upstream_jobs = upstream_jobs.unwrap_or_else(|| {
            let (scope, jobs) = drain.scope();
            agent.upstream.serve(&scope);
            for endpoint in agent.endpoints.configured() {
                attend(&section, &agent, endpoint, &scope);
            }
            leaving::see_off(&agent, &scope, |endpoint, scope| {
                attend(&section, &agent, endpoint, scope)
            });
            Arc::new(jobs)
        });
        let limiter_jobs = limiter_jobs.unwrap_or_else(|| {
            let (scope, jobs) = drain.scope();
            agent.limiter.start(&scope);
            Arc::new(jobs)
        });
        let target = Arc::new(Target {
            agent: agent.clone(),
            rules,
            verifiers: verifiers.clone(),
        });
        let (course, card_jobs) = match card {
            CardJob::Kept(course, jobs) => {
                course.turn_to(target);
                (course, jobs)
            }
            CardJob::New {
                source,
                places,
                refresh,
                approved,
                before,
            } => {
                if let Some(approved) = approved {
                    agent.card.approval().take_over(&approved);
                }
                if let Some(before) = before {
                    target.carry(&before);
                }
                let course = Arc::new(Course {
                    target: ArcSwap::new(target),
                    at_once: Arc::default(),
                });
                let (scope, jobs) = drain.scope();
                let (keeper, at_once) = (course.clone(), course.at_once.clone());
                if fetches(&section) {
                    scope.service(async move {
                        let keeper = move || keeper.target.load_full();
                        card::refresh_loop(*source, places, refresh, at_once, keeper).await;
                    });
                }
                (course, Arc::new(jobs))
            }
        };
        course.begin();
        Running {
            agent,
            section,
            rate_limit_keys,
            upstream_jobs,
            limiter_jobs,
            card_jobs,
            course,
        }
    }
}

/// The name that the agent's own servers carry, if it is not the host of their URLs.
fn server_name(config: &config::Agent) -> Option<ServerName<'static>> {
    let name = config.upstream.tls.server_name.as_ref()?;
    tls::client::server_name(&config.upstream.tls, name).ok()
}
