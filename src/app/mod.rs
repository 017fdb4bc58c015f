//! Builds everything from the checked configuration, in two steps: `prepare` does all that can fail before a socket is
//! bound and reports every problem at once; `Prepared::bind` asks for endpoints, opens the store and the sockets. `reload` does both again for
//! every configuration that follows.

mod agents;
mod assemble;
mod attending;
pub mod cards;
mod course;
mod discovering;
mod examine;
pub mod explain;
mod leaving;
mod listen;
mod reload;
mod rules;
mod site;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::admin::{self, Admin};
use crate::affinity;
use crate::affinity::Affinity;
use crate::audit::{self, Event, Trail};
use crate::clock::Clock;
use crate::config::{AuditEvent, Config, Environment, Problem};
use crate::discover::{self, Names};
use crate::drain::Drain;
use crate::export::Exporter;
use crate::http::hops::Hops;
use crate::listener::{self, Connections};
use crate::observe::Metrics;
use crate::observe::access::AccessLog;
use crate::ratelimit::Ledger;
use crate::tls;
use crate::{config, shared};

use assemble::{Ground, Keep, Next};
use reload::{Listener, Origin, Reloading};
use site::Common;

pub use examine::{check, load};
pub use reload::{Reloader, Step};

/// After the drain deadline, for the broken ends that it makes bodies send and for services to stop.
const GRACE: Duration = Duration::from_secs(2);

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the configuration is invalid")]
    Config(Vec<Problem>),
    #[error("cannot open the task store")]
    Store(#[source] affinity::Error),
    #[error("cannot begin the audit trail")]
    Audit(#[source] audit::Error),
    #[error("cannot listen")]
    Listen(#[source] listener::Error),
    #[error("metrics cannot be registered")]
    Metrics(#[source] prometheus::Error),
}

/// A configuration whose files were read and found good; nothing is bound and no agent was asked.
pub struct Prepared {
    config: Config,
    ground: Ground,
    access: Option<AccessLog>,
    next: Next,
    origin: Origin,
    listener: Option<Arc<Listener>>,
    recover: bool,
}

/// Reads the files that the configuration names. Blocking.
pub fn prepare(mut config: Config, clock: Clock, access: Option<AccessLog>) -> Result<Prepared, Error> {
    tls::install_provider();
    let metrics = Metrics::new().map_err(Error::Metrics)?;
    let shared = match &config.state.store {
        config::Store::Redis(redis) => Some(shared::Store::new(
            redis,
            config.state.retention,
            clock.clone(),
            &metrics,
        )),
        config::Store::Memory | config::Store::Embedded { .. } => None,
    };
    let ledger = shared.clone().map(|store| Ledger::new(store, config.state.retention));
    let audit = Trail::new(clock.clone());
    let ground = Ground {
        exporter: Exporter::new(&audit),
        audit,
        clock,
        drain: Drain::new(),
        hops: Arc::new(Hops::new(fastrand::u64(..))),
        names: Arc::new(Names::new(&metrics)),
        metrics,
        shared,
        ledger,
    };
    discover::stand_in(&mut config);
    let next = loop {
        let problems = match assemble::assemble(&config, &ground, None, &Keep::Nothing) {
            Ok(next) => break next,
            Err(problems) => problems,
        };
        leave_out(&mut config, &ground, problems)?;
    };
    Ok(Prepared {
        config,
        ground,
        access,
        next,
        origin: Origin::Fixed,
        listener: None,
        recover: false,
    })
}

/// Goes without the files of agents to which the problems belong; where there are none, the configuration is refused.
fn leave_out(config: &mut Config, ground: &Ground, mut problems: Vec<Problem>) -> Result<(), Error> {
    let gone = config.leave_out(&problems);
    for name in &gone {
        ground.metrics.agent_refused(name);
    }
    if gone.is_empty() {
        config.places.locate(&mut problems);
        return Err(Error::Config(problems));
    }
    Ok(())
}

impl Prepared {
    /// Asks for the endpoints that stand in no configuration. Must run inside the runtime.
    async fn discovering(mut self) -> Result<Self, Error> {
        if !discover::is_needed(&self.config) {
            return Ok(self);
        }
        loop {
            let mut problems = self.ground.names.settle(&mut self.config).await;
            if problems.is_empty() {
                let (config, ground) = (self.config.clone(), self.ground.clone());
                let assembling = move || assemble::assemble(&config, &ground, None, &Keep::Nothing);
                match tokio::task::spawn_blocking(assembling).await {
                    Ok(Ok(next)) => {
                        self.next = next;
                        return Ok(self);
                    }
                    Ok(Err(found)) => problems = found,
                    Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
                }
            }
            leave_out(&mut self.config, &self.ground, problems)?;
        }
    }

    /// A damaged task store is opened all the same, with every record that is whole.
    #[must_use]
    pub fn recovering(mut self, recover: bool) -> Self {
        self.recover = recover;
        self
    }

    /// A reload reads this file, with this environment over it. Without one it reads the files that the configuration names.
    #[must_use]
    pub fn from_file(mut self, path: PathBuf, environment: Environment) -> Self {
        self.origin = Origin::File { path, environment };
        self
    }

    /// Whom reloads tell what they do.
    #[must_use]
    pub fn telling(mut self, listener: impl Fn(Step<'_>) + Send + Sync + 'static) -> Self {
        self.listener = Some(Arc::new(listener));
        self
    }

    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Opens the store, binds every socket and starts every service. Must run inside the runtime.
    pub async fn bind(self) -> Result<Bound, Error> {
        let Self {
            config,
            ground,
            access,
            next,
            origin,
            listener,
            recover,
        } = Box::pin(self.discovering()).await?;
        let state = config.state.clone();
        let store_clock = ground.clock.clone();
        // Replaying a large journal takes seconds: not on a worker.
        let open = if recover {
            Affinity::open_recovering
        } else {
            Affinity::open
        };
        let opened = tokio::task::spawn_blocking(move || open(&state, store_clock)).await;
        let affinity = match opened {
            Ok(opened) => opened.map_err(Error::Store)?,
            Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
        };
        let drain = ground.drain.clone();
        let trail = ground.audit.clone();
        // Before the first line is written.
        ground.exporter.turn(next.collector.clone());
        let (opening, wanted) = (trail.clone(), config.audit.clone());
        let opened = tokio::task::spawn_blocking(move || {
            let opened = opening.open(wanted.as_ref())?;
            opening.turn(opened);
            Ok(())
        });
        match opened.await {
            Ok(opened) => opened.map_err(Error::Audit)?,
            Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
        }
        if let Some(ledger) = &ground.ledger {
            affinity.open_tasks().share(ledger);
            ledger.start(&drain);
        }
        let affinity = match (&config.state.store, ground.shared.clone()) {
            (config::Store::Redis(redis), Some(store)) => {
                store.start(&drain);
                // Calls know from the start what others know; but they do not wait long for a store that is away.
                let _away = tokio::time::timeout(redis.connect_timeout, store.attempted()).await;
                affinity.sharing(store, redis.cache_ttl)
            }
            _ => affinity,
        };
        let common = Arc::new(Common::new(ground, affinity, access.clone(), &config, &next));
        let sockets: Result<Vec<_>, _> = common.bind(&config, None).collect();
        let sockets = sockets.map_err(Error::Listen)?;
        let admin_socket = match &config.admin {
            Some(admin) => {
                let own = Connections::with_limits(admin::CONNECTIONS, admin::CONNECTIONS);
                Some(listener::bind_address("admin", admin.address, own).map_err(Error::Listen)?)
            }
            None => None,
        };
        let admin_address = admin_socket.as_ref().map(listener::Bound::local_address);

        trail.start(&drain);
        common.ground.exporter.start(&drain);
        trail.record(&Event {
            detail: Some(concat!("version ", env!("CARGO_PKG_VERSION"))),
            ..Event::new(AuditEvent::GatewayStarted, "ok")
        });
        let (listeners, agents) = (config.listeners.len(), config.agents.len());
        trail.record(&Event {
            detail: Some(&format!("{listeners} listeners, {agents} agents")),
            ..Event::new(AuditEvent::ConfigurationLoaded, "ok")
        });
        common.affinity.start(&drain);
        drain.service(common.clone().follow_transfers());
        common.tell_fragments(&config.fragments);
        let site = common.enter(config, next, sockets, None);
        let addresses = common.listening.load().iter().map(|(_, address)| *address).collect();
        let reloading = Reloading {
            common: common.clone(),
            site: Arc::new(site),
            origin: Arc::new(origin),
            listener,
            is_good: true,
        };
        let reloader = reloading.start();
        if let Some(socket) = admin_socket {
            let admin = Admin {
                current: common.current.clone(),
                config: common.config.clone(),
                fragments: common.fragments.clone(),
                drain: drain.clone(),
            };
            drain.service(admin::serve(Arc::new(admin), socket));
        }
        Ok(Bound {
            addresses,
            admin: admin_address,
            reloader,
            access,
            common,
        })
    }
}

/// A running gateway.
pub struct Bound {
    /// As it began: in the order of the configuration, with the ports that were really taken.
    pub addresses: Vec<SocketAddr>,
    pub admin: Option<SocketAddr>,
    pub reloader: Reloader,
    access: Option<AccessLog>,
    common: Arc<Common>,
}

impl Bound {
    /// The agents that can be called at this moment, and all of them.
    pub fn agents_ready(&self) -> (usize, usize) {
        let pipeline = self.common.current.load();
        let ready = pipeline.agents.iter().filter(|agent| agent.is_ready()).count();
        (ready, pipeline.agents.len())
    }

    /// Where the listeners of the configuration in force are, by name and in its order.
    pub fn listening(&self) -> Vec<(String, SocketAddr)> {
        self.common.listening.load().to_vec()
    }

    /// Background jobs of the gateway itself that have not ended.
    pub fn services(&self) -> usize {
        self.common.ground.drain.services()
    }

    /// Takes nothing new, finishes what runs within the drain deadline, then ends the rest so that callers can tell.
    /// Returns whether everything finished by itself.
    pub async fn shutdown(self) -> bool {
        let patience = self.common.config.load().drain;
        let clean = self.common.ground.drain.run(patience, GRACE).await;
        let (affinity, access) = (self.common.affinity.clone(), self.access);
        let trail = self.common.ground.audit.clone();
        trail.record(&Event {
            detail: (!clean).then_some("what was still open at the drain deadline was ended"),
            ..Event::new(AuditEvent::GatewayStopped, "ok")
        });
        affinity.last_words().await;
        if let Some(ledger) = &self.common.ground.ledger {
            ledger.last_words().await;
        }
        let closing = trail.clone();
        let _panicked = tokio::task::spawn_blocking(move || {
            affinity.close();
            closing.close();
            if let Some(access) = access {
                access.flush();
            }
        })
        .await;
        self.common.ground.exporter.last_words().await;
        clean
    }
}
