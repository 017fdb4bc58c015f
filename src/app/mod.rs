//! Builds everything from the checked configuration, in two steps: `prepare` does all that can fail before a socket is
//! bound and reports every problem at once; `Prepared::bind` opens the store and the sockets.

mod agents;
mod examine;
mod listen;
mod reload;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::a2a::json;
use crate::admin::{self, Admin};
use crate::affinity::Affinity;
use crate::authenticate::Verifiers;
use crate::clock::Clock;
use crate::config::{Config, Problem};
use crate::drain::Drain;
use crate::gather::token::{self, Tokens};
use crate::http::{hygiene, serve};
use crate::listener::{self, Connections};
use crate::observe::Metrics;
use crate::observe::access::AccessLog;
use crate::observe::record::Observer;
use crate::pipeline::Pipeline;
use crate::route::Routes;
use crate::tls;
use crate::{affinity, config};

pub use examine::{check, load};
pub use reload::Reloader;

/// After the drain deadline, for the broken ends that it makes bodies send and for services to stop.
const GRACE: Duration = Duration::from_secs(2);

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the configuration is invalid")]
    Config(Vec<Problem>),
    #[error("cannot open the task store")]
    Store(#[source] affinity::Error),
    #[error("cannot listen")]
    Listen(#[source] listener::Error),
    #[error("metrics cannot be registered")]
    Metrics(#[source] prometheus::Error),
    #[error("cannot make the key of page tokens")]
    PageTokens(#[source] token::Error),
}

/// A configuration whose files were read and found good; nothing is bound and no agent was asked.
pub struct Prepared {
    config: Config,
    clock: Clock,
    drain: Drain,
    observer: Arc<Observer>,
    access: Option<AccessLog>,
    verifiers: Verifiers,
    tokens: Tokens,
    acceptors: Vec<Option<Arc<tls::Acceptor>>>,
    agents: Vec<agents::Built>,
    recover: bool,
}

/// Reads the files that the configuration names. Blocking.
pub fn prepare(config: Config, clock: Clock, access: Option<AccessLog>) -> Result<Prepared, Error> {
    tls::install_provider();
    let drain = Drain::new();
    let metrics = Metrics::new().map_err(Error::Metrics)?;
    let tokens = Tokens::build(&config.page_tokens).map_err(Error::PageTokens)?;
    let access = access.filter(|_| config.log.access);
    let observer = Arc::new(Observer {
        metrics: metrics.clone(),
        access: access.clone().map(|log| (log, config.log.format)),
        clock: clock.clone(),
    });
    let mut problems = Vec::new();
    let acceptors = config
        .listeners
        .iter()
        .enumerate()
        .map(|(index, listener)| {
            let tls = listener.tls.as_ref()?;
            let built = tls::Acceptor::build(tls, &format!("listeners[{index}].tls"));
            built.map(Arc::new).map_err(|found| problems.extend(found)).ok()
        })
        .collect();
    let verifiers = match Verifiers::build(&config.security_schemes, &clock) {
        Ok(verifiers) => Some(verifiers),
        Err(found) => {
            problems.extend(found);
            None
        }
    };
    let mut built = Vec::new();
    for (index, agent) in config.agents.iter().enumerate() {
        let parts = agents::Parts {
            config: &config,
            drain: &drain,
            metrics: &metrics,
        };
        match agents::build(agent, &format!("agents[{index}]"), &parts, verifiers.as_ref()) {
            Ok(agent) => built.push(agent),
            Err(found) => problems.extend(found),
        }
    }
    match verifiers {
        Some(verifiers) if problems.is_empty() => Ok(Prepared {
            config,
            clock,
            drain,
            observer,
            access,
            verifiers,
            tokens,
            acceptors,
            agents: built,
            recover: false,
        }),
        _ => {
            config.places.locate(&mut problems);
            Err(Error::Config(problems))
        }
    }
}

impl Prepared {
    /// A damaged task store is opened all the same, with every record that is whole.
    #[must_use]
    pub fn recovering(mut self, recover: bool) -> Self {
        self.recover = recover;
        self
    }

    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Opens the store, binds every socket and starts every service. Must run inside the runtime.
    pub async fn bind(self) -> Result<Bound, Error> {
        let Self {
            config,
            clock,
            drain,
            observer,
            access,
            verifiers,
            tokens,
            acceptors,
            agents,
            recover,
        } = self;
        let state = config.state.clone();
        let store_clock = clock.clone();
        // Replaying a large journal takes seconds: not on a worker.
        let open = if recover {
            Affinity::open_recovering
        } else {
            Affinity::open
        };
        let opened = tokio::task::spawn_blocking(move || open(&state, store_clock)).await;
        let affinity = match opened {
            Ok(opened) => Arc::new(opened.map_err(Error::Store)?),
            Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
        };
        let connections = Connections::new(&config.limits);
        let mut listeners = Vec::new();
        for listener in &config.listeners {
            listeners.push(listener::bind(listener, connections.clone()).map_err(Error::Listen)?);
        }
        let addresses = listeners.iter().map(listener::Bound::local_address).collect();
        let admin_socket = match &config.admin {
            Some(admin) => {
                let own = Connections::with_limits(admin::CONNECTIONS, admin::CONNECTIONS);
                Some(listener::bind_address("admin", admin.address, own).map_err(Error::Listen)?)
            }
            None => None,
        };
        let admin_address = admin_socket.as_ref().map(listener::Bound::local_address);

        if let Some(access) = &access {
            access.start(&drain);
        }
        affinity.start(&drain);
        verifiers.start(&drain);
        let verifiers = Arc::new(verifiers);
        let running: Vec<_> = agents.iter().map(|built| built.agent.clone()).collect();
        for built in agents {
            built.start(&drain, &verifiers);
        }
        let pipeline = Arc::new(Pipeline {
            routes: Routes::build(&config.agents),
            agents: running,
            verifiers: verifiers.clone(),
            affinity: affinity.clone(),
            observer: observer.clone(),
            drain: drain.clone(),
            head: hygiene::Bounds {
                fields: config.limits.header_fields,
                target_bytes: config.limits.target_bytes,
            },
            tokens,
            json: json::Limits {
                depth: config.limits.json_depth,
                digits: config.limits.number_digits,
            },
            body_idle: config.limits.request_body_idle,
            body_whole: config.limits.request_body,
        });
        let reloader = Reloader::new(&config, &acceptors, &verifiers, &pipeline.agents, &observer.metrics);
        reloader.start(&drain);
        let settings = Arc::new(serve::Settings::new(&config.limits, &drain, &observer.metrics));
        for ((socket, acceptor), listener) in listeners.into_iter().zip(acceptors).zip(&config.listeners) {
            let door = listen::Door::new(listener, acceptor, &config.limits, &pipeline, &settings);
            let stop = drain.clone();
            drain.job(async move { door.accept(socket, &stop).await });
        }
        if let Some(socket) = admin_socket {
            let admin = Admin {
                pipeline: pipeline.clone(),
                config: config::redacted(&config),
                drain: drain.clone(),
            };
            drain.service(admin::serve(Arc::new(admin), socket));
        }
        Ok(Bound {
            addresses,
            admin: admin_address,
            reloader,
            patience: config.drain,
            drain,
            affinity,
            access,
            pipeline,
        })
    }
}

/// A running gateway.
pub struct Bound {
    /// In the order of the configuration, with the ports that were really taken.
    pub addresses: Vec<SocketAddr>,
    pub admin: Option<SocketAddr>,
    pub reloader: Reloader,
    patience: Duration,
    drain: Drain,
    affinity: Arc<Affinity>,
    access: Option<AccessLog>,
    pipeline: Arc<Pipeline>,
}

impl Bound {
    /// The agents that can be called at this moment, and all of them.
    pub fn agents_ready(&self) -> (usize, usize) {
        let ready = self.pipeline.agents.iter().filter(|agent| agent.is_ready()).count();
        (ready, self.pipeline.agents.len())
    }

    /// Takes nothing new, finishes what runs within the drain deadline, then ends the rest so that callers can tell.
    /// Returns whether everything finished by itself.
    pub async fn shutdown(self) -> bool {
        let clean = self.drain.run(self.patience, GRACE).await;
        let (affinity, access) = (self.affinity, self.access);
        let _panicked = tokio::task::spawn_blocking(move || {
            affinity.close();
            if let Some(access) = access {
                access.flush();
            }
        })
        .await;
        clean
    }
}
