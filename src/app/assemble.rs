//! A configuration whose files were read and found good, with everything that it needs built; nothing of it is at work.
//!
//! The same for the first configuration and for each that takes the place of another: what would be the same is taken
//! over from the one in force. Every problem is found at once.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use super::agents;
use super::site::Site;
use crate::assertion::Signer;
use crate::audit::Trail;
use crate::authenticate::{Renewed, Requirement, Resource, Revoked, Verifiers};
use crate::authorize::{NextPoints, Points, Rules};
use crate::clock::Clock;
use crate::config::{Config, Problem, Store};
use crate::discover::Names;
use crate::drain::Drain;
use crate::export::{Collector, Exporter};
use crate::gather::token::Tokens;
use crate::http::hops::Hops;
use crate::observe::Metrics;
use crate::push;
use crate::ratelimit::Ledger;
use crate::shared;
use crate::signing::{CardSigner, key_set};
use crate::tls::{self, Acceptor};

/// What every configuration of the process is built with.
#[derive(Clone)]
pub struct Ground {
    pub clock: Clock,
    pub drain: Drain,
    pub hops: Arc<Hops>,
    pub metrics: Metrics,
    pub audit: Trail,
    pub names: Arc<Names>,
    pub exporter: Exporter,
    /// What gateways share; for the whole life of the process.
    pub shared: Option<shared::Store>,
    /// What of limits is theirs together.
    pub ledger: Option<Arc<Ledger>>,
}

/// The next configuration.
pub struct Next {
    /// In the order of the listeners.
    pub acceptors: Vec<Option<Arc<Acceptor>>>,
    pub verifiers: Renewed,
    pub points: NextPoints,
    /// In the order of the listeners.
    pub rules: Vec<Rules>,
    pub agents: Vec<agents::Built>,
    pub tokens: Arc<Tokens>,
    pub push: Option<Arc<push::Common>>,
    pub signer: Option<Arc<Signer>>,
    pub card_signer: Option<Arc<CardSigner>>,
    /// The set of all public keys, where there are any.
    pub keys: Option<Bytes>,
    pub collector: Option<Arc<Collector>>,
    /// What senders of envelopes must show, where there are any.
    pub envelope: Option<Requirement>,
    /// Nothing that was read is different.
    pub same: bool,
    /// What is wrong with files of agents that are kept.
    pub kept: Vec<Problem>,
}

/// What goes on as it is in force where a file that it names is bad by now.
pub enum Keep {
    Nothing,
    /// No file is read that is known: only endpoints are others.
    All,
    /// Agents at these places.
    Agents(Vec<Range<usize>>),
}

impl Keep {
    fn has(&self, index: usize) -> bool {
        match self {
            Self::Nothing => false,
            Self::All => true,
            Self::Agents(places) => places.iter().any(|places| places.contains(&index)),
        }
    }
}

/// Blocking: reads files. The lines of the problems are not known here.
pub fn assemble(config: &Config, ground: &Ground, before: Option<&Site>, keep: &Keep) -> Result<Next, Vec<Problem>> {
    let keeps_all = matches!(keep, Keep::All);
    let mut problems = Vec::new();
    let mut same = before.is_some_and(|before| before.config.says_the_same(config));
    let mut acceptors = Vec::new();
    for (index, listener) in config.listeners.iter().enumerate() {
        let key = format!("listeners[{index}].tls");
        let known = before.and_then(|before| before.listener(listener)?.door.acceptor());
        let acceptor = match (&listener.tls, known) {
            (None, _) => Ok(None),
            (Some(_), Some(known)) if keeps_all => Ok(Some(known)),
            (Some(tls), None) => Acceptor::build(tls, &key).map(|acceptor| Some(Arc::new(acceptor))),
            (Some(tls), Some(known)) => known.renewed(tls, &key).map(|renewed| {
                same &= renewed.is_none();
                Some(renewed.map_or(known, Arc::new))
            }),
        };
        match acceptor {
            Ok(acceptor) => acceptors.push(acceptor),
            Err(found) => problems.extend(found),
        }
    }
    let none = Arc::default();
    let known = before.map_or(&none, |before| &before.verifiers);
    let revocations = config.revocations.as_deref().filter(|_| !keeps_all);
    let revoked = match revocations.map(Revoked::load).transpose() {
        Ok(_) if keeps_all => known.revoked().clone(),
        Ok(revoked) => {
            let revoked = revoked.unwrap_or_default();
            match known.revoked().differs(&revoked) {
                true => {
                    same = false;
                    Arc::new(revoked)
                }
                false => known.revoked().clone(),
            }
        }
        Err(found) => {
            problems.extend(found);
            Arc::default()
        }
    };
    let renewed = match keeps_all {
        true => Ok(known.kept()),
        false => Verifiers::renewed(known, &config.security_schemes, &ground.clock),
    };
    let verifiers = match renewed {
        Ok(verifiers) => {
            let verifiers = verifiers.revoking(&revoked);
            same &= verifiers.changed().is_empty();
            Some(verifiers)
        }
        Err(found) => {
            problems.extend(found);
            None
        }
    };
    let known = before.map_or_else(Points::default, |before| before.points.clone());
    let renewed = match keeps_all {
        true => Ok(known.kept()),
        false => known.renewed(&config.decision_points),
    };
    let points = match renewed {
        Ok(points) => {
            same &= points.trusts_the_same();
            Some(points)
        }
        Err(found) => {
            problems.extend(found);
            None
        }
    };
    let rules = points.as_ref().map(|points| listener_rules(config, points.points()));
    let rules = rules.unwrap_or_else(|| Ok(Vec::new())).unwrap_or_else(|found| {
        problems.extend(found);
        Vec::new()
    });
    if let Store::Redis(redis) = &config.state.store
        && redis.secure
        && !keeps_all
    {
        let tls = tls::client::client_config(&redis.tls, &[], "state.redis.tls");
        problems.extend(tls.err().into_iter().flatten());
    }
    let known = before.filter(|before| {
        before.config.push == config.push && (keeps_all || before.push.as_ref().is_none_or(|push| push.is_fresh()))
    });
    same &= before.is_none() || known.is_some();
    let push = match known {
        Some(before) => before.push.clone(),
        None => match push::Common::build(&config.push) {
            Ok(push) => push.map(Arc::new),
            Err(found) => {
                problems.extend(found);
                None
            }
        },
    };
    let known = before.and_then(|before| before.signer.as_ref());
    let known = known
        .filter(|known| keeps_all || known.is_of(&config.assertions))
        .cloned();
    let signer = match known {
        Some(known) => Some(known),
        None => match Signer::build(&config.assertions, &ground.clock) {
            Ok(signer) => {
                same &= signer.is_none();
                signer.map(Arc::new)
            }
            Err(found) => {
                problems.extend(found);
                None
            }
        },
    };
    let known = before.and_then(|before| before.card_signer.as_ref());
    let known = known.filter(|known| keeps_all || known.is_of(&config.card_signatures, &config.public_url));
    let card_signer = match known {
        Some(known) => Some(known.clone()),
        None => match CardSigner::build(&config.card_signatures, &config.public_url) {
            Ok(signer) => {
                same &= signer.is_none();
                signer.map(Arc::new)
            }
            Err(found) => {
                problems.extend(found);
                None
            }
        },
    };
    let own = [
        signer.as_ref().map(|signer| signer.keys()),
        card_signer.as_ref().map(|signer| signer.keys()),
    ];
    let own: Vec<_> = own.into_iter().flatten().collect();
    let keys = match key_set(&own) {
        Ok(keys) => (!own.is_empty()).then_some(keys),
        Err(found) => {
            problems.extend(found);
            None
        }
    };
    let wanted = config.audit.as_ref().and_then(|audit| audit.otlp.as_ref());
    let known = before.and_then(|before| before.collector.as_ref());
    let known = known
        .filter(|known| wanted.is_some_and(|wanted| keeps_all || known.is_of(wanted)))
        .cloned();
    let collector = match (known, wanted) {
        (Some(known), _) => Some(known),
        (None, None) => None,
        (None, Some(wanted)) => {
            same = false;
            let built = Collector::build(wanted).map_err(|found| problems.extend(found));
            built.ok().map(Arc::new)
        }
    };
    let resolved = verifiers.as_ref().zip(config.envelope.as_ref());
    let resolved = resolved.map(|(verifiers, envelope)| {
        // Its messages come to one path of the gateway, which is no agent's.
        let at = Resource::unnamed(&config.public_url);
        verifiers.verifiers().resolve(&envelope.security, &at)
    });
    let envelope = resolved.transpose().unwrap_or_else(|unknown| {
        problems.push(Problem::new("envelope.security", unknown.to_string()));
        None
    });
    let (mut built, mut kept) = (Vec::new(), Vec::new());
    for (index, agent) in config.agents.iter().enumerate() {
        let parts = agents::Parts {
            config,
            clock: &ground.clock,
            drain: &ground.drain,
            metrics: &ground.metrics,
            audit: &ground.audit,
            ledger: ground.ledger.as_ref(),
            push: push.as_ref(),
            verifiers: verifiers.as_ref().map(Renewed::verifiers),
            points: points.as_ref().map(NextPoints::points),
            keeps: keep.has(index),
        };
        let known = before.and_then(|before| before.agent(&agent.name));
        match agents::build(agent, &format!("agents[{index}]"), &parts, known) {
            Ok(mut agent) => {
                same &= agent.is_unchanged();
                kept.append(&mut agent.kept);
                built.push(agent);
            }
            Err(found) => problems.extend(found),
        }
    }
    // Lists that are being read go on by the key that was made for them.
    let known = before.filter(|before| before.config.page_tokens == config.page_tokens);
    let tokens = match known {
        Some(before) => Ok(before.tokens.clone()),
        None => Tokens::build(&config.page_tokens).map(Arc::new),
    };
    let tokens = tokens.map_err(|error| problems.push(Problem::new("page_tokens", error.to_string())));
    match (verifiers, points, tokens) {
        (Some(verifiers), Some(points), Ok(tokens)) if problems.is_empty() => Ok(Next {
            acceptors,
            verifiers,
            points,
            rules,
            agents: built,
            tokens,
            push,
            signer,
            card_signer,
            keys,
            collector,
            envelope,
            same,
            kept,
        }),
        (Some(_) | None, _, _) => Err(problems),
    }
}

fn listener_rules(config: &Config, points: &Points) -> Result<Vec<Rules>, Vec<Problem>> {
    let (mut rules, mut problems) = (Vec::new(), Vec::new());
    for (index, listener) in config.listeners.iter().enumerate() {
        let key = format!("listeners[{index}].policy.decision_point");
        match points.named(&key, listener.decision_point.as_deref()) {
            Ok(point) => rules.push(Rules::new(&listener.allow).asking(point)),
            Err(problem) => problems.push(problem),
        }
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    Ok(rules)
}
