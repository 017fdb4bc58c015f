//! Certificates, keys and credentials read again, on SIGHUP and when their files change. All of a part is valid, or the old part stays.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use crate::authenticate::Verifiers;
use crate::config::{Config, Problem, render};
use crate::drain::Drain;
use crate::observe::Metrics;
use crate::pipeline::Agent;
use crate::tls::{Acceptor, ExpiryKind, FileWatch};

#[derive(Clone)]
pub struct Reloader(Arc<Inner>);

struct Inner {
    /// With the listener's name.
    acceptors: Vec<(String, Arc<Acceptor>)>,
    verifiers: Arc<Verifiers>,
    agents: Vec<Arc<Agent>>,
    metrics: Metrics,
    files: Vec<PathBuf>,
    /// One reload at a time.
    busy: Mutex<()>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Cause {
    /// A file changed, or somebody asked.
    Change,
    /// Right after the start: usually nothing is different, which is no reload to count.
    Start,
}

impl Reloader {
    pub(super) fn new(
        config: &Config,
        acceptors: &[Option<Arc<Acceptor>>],
        verifiers: &Arc<Verifiers>,
        agents: &[Arc<Agent>],
        metrics: &Metrics,
    ) -> Self {
        let acceptors: Vec<_> = config
            .listeners
            .iter()
            .zip(acceptors)
            .filter_map(|(listener, acceptor)| Some((listener.name.clone(), acceptor.clone()?)))
            .collect();
        let mut files = verifiers.files();
        for tls in config.listeners.iter().filter_map(|listener| listener.tls.as_ref()) {
            files.extend(Acceptor::files(tls));
        }
        files.extend(agents.iter().flat_map(|agent| agent.upstream.files()));
        let made = Inner {
            acceptors,
            verifiers: verifiers.clone(),
            agents: agents.to_vec(),
            metrics: metrics.clone(),
            files,
            busy: Mutex::new(()),
        };
        let reloader = Self(Arc::new(made));
        reloader.note_expiry();
        reloader
    }

    /// Watches the files.
    pub(super) fn start(&self, drain: &Drain) {
        if self.0.files.is_empty() {
            return;
        }
        let reloader = self.clone();
        let mut watch = FileWatch::new(self.0.files.clone());
        drain.service(async move {
            // Opening the store can take seconds: what changed since the first reading is no change to the watch.
            reloader.run(Cause::Start).await;
            loop {
                watch.changed().await;
                reloader.reload().await;
            }
        });
    }

    /// Reads everything again. Returns whether all of it was good.
    pub async fn reload(&self) -> bool {
        self.run(Cause::Change).await
    }

    async fn run(&self, cause: Cause) -> bool {
        let inner = self.clone();
        tokio::task::spawn_blocking(move || inner.read_again(cause))
            .await
            .unwrap_or(false)
    }

    fn read_again(&self, cause: Cause) -> bool {
        let inner = &self.0;
        let _turn = inner.busy.lock().unwrap_or_else(PoisonError::into_inner);
        let mut good = true;
        let mut changed = cause == Cause::Change;
        for (listener, acceptor) in &inner.acceptors {
            match acceptor.reload() {
                Ok(true) => {
                    changed = true;
                    tracing::info!(listener, "certificates reloaded");
                }
                Ok(false) => {}
                Err(problems) => good = refuse(&problems, listener),
            }
        }
        match inner.verifiers.reload() {
            Ok(schemes) if schemes.is_empty() => {}
            Ok(schemes) => {
                changed = true;
                tracing::info!(schemes = schemes.join(","), "keys reloaded");
            }
            Err(problems) => good = refuse(&problems, "security_schemes"),
        }
        for agent in &inner.agents {
            match agent.upstream.reload() {
                Ok(true) => {
                    changed = true;
                    tracing::info!(
                        agent = &*agent.metrics.name,
                        "certificates and credentials towards the agent reloaded"
                    );
                }
                Ok(false) => {}
                Err(problems) => good = refuse(&problems, &agent.metrics.name),
            }
        }
        let result = if good { "ok" } else { "refused" };
        if changed || !good {
            inner.metrics.reloads.with_label_values(&[result]).inc();
        }
        self.note_expiry();
        good
    }

    fn note_expiry(&self) {
        for (listener, acceptor) in &self.0.acceptors {
            let certificates = acceptor.expires_at();
            let first = certificates
                .iter()
                .filter(|expiry| expiry.kind == ExpiryKind::Certificate)
                .map(|expiry| expiry.not_after)
                .min();
            if let Some(first) = first {
                #[expect(
                    clippy::cast_precision_loss,
                    reason = "seconds since 1970 are exact in a double for 285 million years"
                )]
                let first = first as f64;
                self.0
                    .metrics
                    .certificate_expiry
                    .with_label_values(&[listener.as_str()])
                    .set(first);
            }
        }
    }
}

fn refuse(problems: &[Problem], part: &str) -> bool {
    tracing::error!(
        part,
        problems = render(problems),
        "reload refused; what was loaded before stays in use"
    );
    false
}
