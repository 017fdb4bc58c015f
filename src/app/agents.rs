//! One agent from its configuration: endpoints, limits, card, and what its card makes the gateway enforce.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use http::StatusCode;
use rustls_pki_types::ServerName;

use crate::a2a::card::{OriginCard, Publication, SchemeForm};
use crate::a2a::security::{SchemeName, Security};
use crate::affinity::Reservations;
use crate::authenticate::Verifiers;
use crate::authorize::Ownership;
use crate::balance::Endpoints;
use crate::card::{self, CardStore, FetchError, OutOfService};
use crate::config::{self, AgentRoute, Config, Policy, Problem};
use crate::drain::Drain;
use crate::gather::probe::Probes;
use crate::http::fetch;
use crate::observe::{AgentMetrics, Metrics};
use crate::pipeline::{Agent, Enforced};
use crate::ratelimit::RateLimiter;
use crate::tls;
use crate::upstream::Upstream;

/// For one attempt at one address.
const CARD_TIMEOUT: Duration = Duration::from_secs(10);

pub struct Parts<'a> {
    pub config: &'a Config,
    pub drain: &'a Drain,
    pub metrics: &'a Metrics,
}

pub struct Built {
    pub agent: Arc<Agent>,
    source: Source,
    places: Vec<card::Place>,
    refresh: Duration,
    rules: Rules,
}

/// `verifiers` is absent when they could not be built; then only problems are looked for.
pub fn build(
    config: &config::Agent,
    key: &str,
    parts: &Parts<'_>,
    verifiers: Option<&Verifiers>,
) -> Result<Built, Vec<Problem>> {
    let mut problems = Vec::new();
    let metrics = parts.metrics.agent(&config.name);
    let endpoints = Endpoints::build(&config.upstream.endpoints, config.upstream.balance)
        .map_err(|error| vec![Problem::new(format!("{key}.upstream.endpoints"), error.to_string())])?;
    let upstream_key = format!("{key}.upstream");
    let upstream = Upstream::build(&config.upstream, &endpoints, &upstream_key, parts.drain, &metrics)
        .map_err(|found| problems.extend(found))
        .ok();
    let enforced = match (&config.security, verifiers) {
        (Some(security), Some(verifiers)) => match verifiers.resolve(security) {
            Ok(requirement) => {
                let served = config.upstream.generation.into_iter().collect();
                let ownership = Ownership::new(&config.policy, requirement.is_open());
                Some(Arc::new(Enforced {
                    requirement,
                    served,
                    ownership,
                }))
            }
            Err(unknown) => {
                problems.push(Problem::new(format!("{key}.security"), unknown.to_string()));
                None
            }
        },
        _ => None,
    };
    let (Some(upstream), []) = (upstream, problems.as_slice()) else {
        return Err(problems);
    };
    let agent = Arc::new(Agent {
        limiter: RateLimiter::build(&config.rate_limits, parts.config.limits.rate_limit_keys),
        endpoints,
        reservations: Arc::new(Reservations::default()),
        card: Arc::new(CardStore::new(&config.name, config.card.max_age)),
        enforced: ArcSwapOption::new(enforced),
        probes: Arc::new(Probes::new(&config.upstream.probe)),
        list_partial: config.upstream.list_partial,
        forward_credentials: config.forward_credentials,
        body_bytes: config.body_bytes,
        event_bytes: config.upstream.event_bytes,
        stream_idle: config.upstream.stream_idle_timeout,
        metrics,
        upstream: Arc::new(upstream),
    });
    Ok(Built {
        source: Source {
            upstream: agent.upstream.clone(),
            own: config.card.url.is_none(),
            options: fetch::Options {
                headers: http::HeaderMap::new(),
                max_bytes: config.card.max_bytes,
                timeout: CARD_TIMEOUT,
                max_header_bytes: config.upstream.answer_header_bytes,
                server_name: server_name(config),
            },
        },
        places: card::places(&config.upstream.endpoints, config.card.url.as_deref()),
        refresh: config.card.refresh,
        rules: Rules {
            public_url: public_url(&parts.config.public_url, &config.route),
            security: config.security.clone(),
            policy: config.policy.clone(),
            generation: config.upstream.generation,
            schemes: parts
                .config
                .security_schemes
                .iter()
                .map(|(name, scheme)| (name.clone(), card::scheme_form(scheme)))
                .collect(),
            upstream: (config.upstream.endpoints.iter().map(|endpoint| &endpoint.url))
                .chain(&config.card.url)
                .cloned()
                .collect(),
            overrides: config.card.overrides.clone(),
        },
        agent,
    })
}

impl Built {
    pub fn start(self, drain: &Drain, verifiers: &Arc<Verifiers>) {
        let Self {
            agent,
            source,
            places,
            refresh,
            rules,
        } = self;
        agent.upstream.start(drain);
        agent.limiter.start(drain);
        let verifiers = verifiers.clone();
        let store = agent.card.clone();
        drain.service(readiness(agent.clone()));
        drain.service(async move {
            let decide = |origin: &OriginCard| rules.decide(origin, &agent, &verifiers);
            card::refresh_loop(store, source, places, refresh, decide).await;
        });
    }
}

/// What the configuration says about the card of one agent.
struct Rules {
    public_url: String,
    security: Option<Security>,
    policy: Policy,
    generation: Option<crate::a2a::Generation>,
    schemes: BTreeMap<SchemeName, SchemeForm>,
    /// The URLs of the agent's own servers.
    upstream: Vec<String>,
    overrides: serde_json::Map<String, serde_json::Value>,
}

impl Rules {
    /// From the card that was read to what is enforced and published; both from one place, so that they cannot differ.
    fn decide(&self, origin: &OriginCard, agent: &Agent, verifiers: &Verifiers) -> Result<Publication, OutOfService> {
        let security = match &self.security {
            Some(configured) => configured.clone(),
            None => origin.security.clone()?,
        };
        let requirement = verifiers
            .resolve(&security)
            .map_err(|unknown| OutOfService(format!("{unknown}, or set `security` for this agent")))?;
        let served = match self.generation {
            Some(generation) => vec![generation],
            None => origin.generations(),
        };
        if served.is_empty() {
            return Err(OutOfService(
                "the card offers no JSON-RPC interface of A2A 0.3 or 1.0; set upstream.protocol.generation if it has one"
                    .to_owned(),
            ));
        }
        agent.enforced.store(Some(Arc::new(Enforced {
            ownership: Ownership::new(&self.policy, requirement.is_open()),
            requirement,
            served: served.clone(),
        })));
        Ok(Publication {
            public_url: self.public_url.clone(),
            served,
            enforced: security,
            schemes: self.schemes.clone(),
            streaming: true,
            push: true,
            extended: true,
            upstream: self.upstream.clone(),
            overrides: self.overrides.clone(),
        })
    }
}

/// The name that the agent's own servers carry, if it is not the host of their URLs; it is none of a card from elsewhere.
fn server_name(config: &config::Agent) -> Option<ServerName<'static>> {
    let name = config.upstream.tls.server_name.as_ref()?;
    let own = config.card.url.is_none();
    own.then(|| tls::client::server_name(&config.upstream.tls, name).ok())?
}

/// Where callers find the agent, as its card says.
fn public_url(base: &str, route: &AgentRoute) -> String {
    match route {
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

/// Keeps the readiness metric true; scraped far less often than this.
async fn readiness(agent: Arc<Agent>) {
    const EVERY: Duration = Duration::from_secs(1);
    let metrics: &AgentMetrics = &agent.metrics;
    loop {
        metrics.ready.set(i64::from(agent.is_ready()));
        tokio::time::sleep(EVERY).await;
    }
}

struct Source {
    upstream: Arc<Upstream>,
    /// The card comes from the agent's own servers.
    own: bool,
    options: fetch::Options,
}

impl card::Source for Source {
    async fn fetch(&self, url: &str) -> Result<Bytes, FetchError> {
        let mut options = self.options.clone();
        // The credential is for the agent's own servers; a card from elsewhere is fetched without it.
        if self.own
            && let Some((name, value)) = self.upstream.credential()
        {
            options.headers.insert(name, value);
        }
        // Made anew by a reload.
        let fetcher = self.upstream.fetcher();
        let fetched = fetcher.get(url, &options).await.map_err(|error| {
            let cause = std::error::Error::source(&error)
                .map(|cause| format!(": {cause}"))
                .unwrap_or_default();
            FetchError::Failed(format!("{error}{cause}"))
        })?;
        match fetched.status {
            StatusCode::OK => Ok(fetched.body),
            StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED | StatusCode::GONE => Err(FetchError::Absent),
            status => Err(FetchError::Failed(format!("answered {status}"))),
        }
    }
}
