//! Another configuration for a running gateway: on SIGHUP, and when the file or one that it names changes.
//!
//! The file is read again with the environment of the start, and checked as at the start. It takes the place of the one in
//! force as a whole, or nothing changes and the log has every problem. One reload at a time. A gateway without a file reads
//! the files that its configuration names.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};

use super::assemble::{self, Keep, Next};
use super::discovering::{self, Signals};
use super::examine;
use super::site::{self, Common, Site};
use crate::audit::{self, Event};
use crate::config::{AuditEvent, Blame, Config, Environment, Problem, Standing};
use crate::export::Collector;
use crate::tls::FileWatch;

/// A file that names other files each time it is read is taken as it is after so many readings.
const READINGS: usize = 3;
/// When files of agents that cannot be taken are looked at again, although nothing has changed that is watched: what they name may be there
/// by now, or the DNS know a name. Doubled as long as nothing comes of it.
const AGAIN: Duration = Duration::from_secs(5);
const AGAIN_AT_MOST: Duration = Duration::from_secs(60);

/// Asks for reloads. Cheap to clone.
#[derive(Clone)]
pub struct Reloader(mpsc::Sender<oneshot::Sender<bool>>);

impl Reloader {
    /// Reads everything again. Returns whether all of it was good, once it is in force.
    pub async fn reload(&self) -> bool {
        let (answer, answered) = oneshot::channel();
        // Nobody answers once the gateway stops.
        self.0.send(answer).await.is_ok() && answered.await.unwrap_or(false)
    }
}

/// Where configurations come from.
pub enum Origin {
    File {
        path: PathBuf,
        environment: Environment,
    },
    /// It is always the same; only files that it names change.
    Fixed,
}

impl Origin {
    /// Blocking.
    fn read(&self, in_force: &Config, standing: &Standing) -> Result<Config, Vec<Problem>> {
        match self {
            Self::File { path, environment } => examine::load_again(path, environment, standing),
            Self::Fixed => in_force.with_secrets_read_again(),
        }
    }

    fn path(&self) -> Option<&Path> {
        match self {
            Self::File { path, .. } => Some(path),
            Self::Fixed => None,
        }
    }
}

/// What a reload does, told to whoever runs the gateway.
pub enum Step<'a> {
    Begins,
    /// This configuration is in force.
    Applied(&'a Config),
    /// What was in force stays.
    Refused,
}

pub type Listener = dyn Fn(Step<'_>) + Send + Sync;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Cause {
    /// Right after the start: usually nothing is different, which is no reload to count.
    Start,
    /// Time has passed: as at the start.
    Again,
    /// A file changed. Perhaps what is in force was read after that.
    File,
    /// The DNS names other endpoints. The file is not read again, which may be a bad one by now.
    Names,
    Asked,
}

/// The job that reloads.
pub struct Reloading {
    pub common: Arc<Common>,
    pub site: Arc<Site>,
    pub origin: Arc<Origin>,
    pub listener: Option<Arc<Listener>>,
    /// The files were good when they were read last.
    pub is_good: bool,
}

impl Reloading {
    pub fn start(self) -> Reloader {
        let (sender, asked) = mpsc::channel(1);
        let drain = self.common.ground.drain.clone();
        self.common.note_applied();
        let signals = Arc::new(Signals::default());
        drain.service(discovering::follow(self.common.clone(), signals.clone()));
        drain.service(self.run(asked, signals));
        Reloader(sender)
    }

    async fn run(mut self, mut asked: mpsc::Receiver<oneshot::Sender<bool>>, signals: Arc<Signals>) {
        let mut watched = self.files(&self.site.config);
        let Some(mut watch) = watch(&watched).await else { return };
        // Opening the store can take seconds: what changed since the first reading is no change to the watch.
        self.reload(Cause::Start, &mut watched, &mut watch).await;
        let (mut patience, mut again) = (AGAIN, Instant::now() + AGAIN);
        loop {
            let waits = self.is_good && !self.common.fragments.load().refused.is_empty();
            tokio::select! {
                () = sleep_until(again), if waits => {
                    let before = self.site.clone();
                    self.reload(Cause::Again, &mut watched, &mut watch).await;
                    patience = match Arc::ptr_eq(&before, &self.site) {
                        true => (patience * 2).min(AGAIN_AT_MOST),
                        false => AGAIN,
                    };
                    again = Instant::now() + patience;
                }
                () = watch.changed() => {
                    self.reload(Cause::File, &mut watched, &mut watch).await;
                    (patience, again) = (AGAIN, Instant::now() + AGAIN);
                }
                () = signals.differs.notified() => {
                    self.reload(Cause::Names, &mut watched, &mut watch).await;
                }
                Some(answer) = asked.recv() => {
                    // What has changed up to now is read now.
                    watch.look_now().await;
                    let good = self.reload(Cause::Asked, &mut watched, &mut watch).await;
                    (patience, again) = (AGAIN, Instant::now() + AGAIN);
                    // Who asked may have left.
                    let _gone = answer.send(good);
                }
            }
            self.common.ground.names.keep(&self.site.config);
            signals.entered.notify_one();
        }
    }

    /// Whether all of it was good.
    async fn reload(&mut self, cause: Cause, watched: &mut Vec<PathBuf>, watch: &mut FileWatch) -> bool {
        if self.common.ground.drain.is_draining() {
            return false;
        }
        let is_quiet = matches!(cause, Cause::Start | Cause::Again);
        if !is_quiet {
            self.tell(Step::Begins);
        }
        let reloads = self.common.ground.metrics.reloads.clone();
        let attempted = self.attempt(cause, watched, watch).await;
        if cause != Cause::Names {
            self.is_good = attempted.is_ok();
        }
        match attempted {
            Ok(changed) => {
                if changed || cause == Cause::Asked {
                    reloads.with_label_values(&["ok"]).inc();
                }
                self.common.note_applied();
                // What is different, `say` has recorded.
                if !changed && cause == Cause::Asked {
                    self.common.ground.audit.record(&Event {
                        detail: Some("nothing is different"),
                        ..Event::new(AuditEvent::ConfigurationReloaded, "ok")
                    });
                }
                if changed || !is_quiet {
                    self.tell(Step::Applied(&self.site.config));
                }
                true
            }
            Err(problems) => {
                for problem in &problems {
                    tracing::error!(%problem, "the configuration is refused");
                }
                let keys: Vec<&str> = problems.iter().map(|problem| &*problem.key).collect();
                self.common.ground.audit.record(&Event {
                    detail: Some(&keys.join(", ")),
                    ..Event::new(AuditEvent::ConfigurationRefused, "refused")
                });
                let problems = problems.len();
                tracing::error!(problems, "reload refused; what was loaded before stays in use");
                reloads.with_label_values(&["refused"]).inc();
                self.tell(Step::Refused);
                false
            }
        }
    }

    /// Whether anything is different.
    async fn attempt(
        &mut self,
        cause: Cause,
        watched: &mut Vec<PathBuf>,
        watch: &mut FileWatch,
    ) -> Result<bool, Vec<Problem>> {
        let mut standing = Standing::keeping(&self.site.config);
        let (mut config, assembled) = loop {
            let mut config = self.read(cause, watched, watch, &standing).await?;
            let unanswered = self.common.ground.names.settle(&mut config).await;
            let (ground, site) = (self.common.ground.clone(), self.site.clone());
            let keep = match cause {
                Cause::Names => Keep::All,
                Cause::Start | Cause::Again | Cause::File | Cause::Asked => {
                    Keep::Agents(config.fragments.unchanged(&site.config.fragments).collect())
                }
            };
            let assembling = move || {
                let assembled = match unanswered.is_empty() {
                    true => assemble::assemble(&config, &ground, Some(&site), &keep),
                    false => Err(unanswered),
                };
                (config, assembled)
            };
            let (config, assembled) = blocking(assembling).await;
            let blame = match &assembled {
                Ok(_) => Blame::Nobody,
                Err(found) => standing.refuse(found, &config.fragments, &config.places),
            };
            match blame {
                Blame::Nobody => break (config, assembled),
                Blame::Newer => self.forget(&config),
                Blame::InForce(problems) => {
                    self.forget(&config);
                    return Err(problems);
                }
            }
        };
        let mut problems = self.site.config.needs_restart(&config);
        let next = match assembled {
            Ok(next) if problems.is_empty() => next,
            Ok(_) => return Err(self.refuse(&config, problems)),
            Err(found) => {
                problems.extend(found);
                return Err(self.refuse(&config, problems));
            }
        };
        config.fragments.note(&next.kept, &config.places);
        // Also where nothing is different: the file may have been renamed.
        let (trail, wanted) = (self.common.ground.audit.clone(), config.audit.clone());
        let opened = blocking(move || trail.open(wanted.as_ref())).await;
        let opened = opened.map_err(|error| self.refuse(&config, vec![unopened(&error)]))?;
        if next.same {
            self.common.tell_fragments(&config.fragments);
            self.turn(opened, next.collector.clone()).await;
            return Ok(false);
        }
        let (mut sockets, mut unbound) = (Vec::new(), Vec::new());
        for bound in self.common.bind(&config, Some(&self.site)) {
            match bound {
                Ok(socket) => sockets.push(socket),
                Err(error) => unbound.push(site::unbound(&config, &error)),
            }
        }
        if !unbound.is_empty() {
            return Err(self.refuse(&config, unbound));
        }
        self.turn(opened, next.collector.clone()).await;
        self.say(&config, &next);
        self.common.tell_fragments(&config.fragments);
        let site = self.common.enter(config, next, sockets, Some(&self.site));
        self.site = Arc::new(site);
        Ok(true)
    }

    /// What is recorded from now on stands where the configuration says.
    async fn turn(&self, opened: audit::Opened, collector: Option<Arc<Collector>>) {
        let trail = self.common.ground.audit.clone();
        self.common.ground.exporter.turn(collector);
        blocking(move || trail.turn(opened)).await;
    }

    /// Reads the configuration, with every file that it names being watched from before.
    async fn read(
        &self,
        cause: Cause,
        watched: &mut Vec<PathBuf>,
        watch: &mut FileWatch,
        standing: &Standing,
    ) -> Result<Config, Vec<Problem>> {
        let read = || {
            let (origin, in_force) = (self.origin.clone(), self.site.config.clone());
            let standing = standing.clone();
            blocking(move || match cause {
                Cause::Names => Ok((*in_force).clone()),
                Cause::Start | Cause::Again | Cause::File | Cause::Asked => origin.read(&in_force, &standing),
            })
        };
        let mut config = read().await?;
        for _ in 1..READINGS {
            // Those of the configuration in force too: this one may be refused.
            let mut files = self.files(&config);
            files.extend(self.files(&self.site.config));
            files.sort();
            files.dedup();
            if files == *watched {
                break;
            }
            if let Some(other) = self::watch(&files).await {
                (*watched, *watch) = (files, other);
            }
            config = read().await?;
        }
        Ok(config)
    }

    fn files(&self, config: &Config) -> Vec<PathBuf> {
        let mut files = config.files();
        files.extend(self.origin.path().map(Path::to_owned));
        files.sort();
        files.dedup();
        files
    }

    /// The problems as they stand in the file.
    fn refuse(&self, config: &Config, mut problems: Vec<Problem>) -> Vec<Problem> {
        config.places.locate(&mut problems);
        self.forget(config);
        problems
    }

    /// Agents that do not come leave no trace in the metrics.
    fn forget(&self, config: &Config) {
        let new = config
            .agents
            .iter()
            .filter(|agent| self.site.agent(&agent.name).is_none());
        for agent in new {
            self.common.ground.metrics.agent_refused(&agent.name);
        }
    }

    fn say(&self, config: &Config, next: &Next) {
        let before = self.site.config.agents.iter().map(|agent| agent.name.as_str());
        let after: Vec<&str> = config.agents.iter().map(|agent| agent.name.as_str()).collect();
        let removed: Vec<&str> = before.filter(|name| !after.contains(name)).collect();
        let (mut added, mut changed) = (Vec::new(), Vec::new());
        for (name, built) in after.iter().zip(&next.agents) {
            if self.site.agent(name).is_none() {
                added.push(*name);
            } else if !built.is_unchanged() {
                changed.push(*name);
            }
        }
        let (added, changed, removed) = (added.join(","), changed.join(","), removed.join(","));
        let schemes = next.verifiers.changed().join(",");
        let audit = &self.common.ground.audit;
        let detail =
            format!("agents added: {added}; changed: {changed}; removed: {removed}; schemes changed: {schemes}");
        audit.record(&Event {
            detail: Some(&detail),
            ..Event::new(AuditEvent::ConfigurationReloaded, "ok")
        });
        let mut keys = next.verifiers.changed().to_vec();
        let revoked = next.verifiers.verifiers().revoked();
        if !Arc::ptr_eq(revoked, self.site.verifiers.revoked()) {
            keys.push("(revocations_file)".to_owned());
        }
        if !is_same(next.signer.as_ref(), self.site.signer.as_ref()) {
            keys.push("(assertions)".to_owned());
        }
        if !is_same(next.card_signer.as_ref(), self.site.card_signer.as_ref()) {
            keys.push("(card_signatures)".to_owned());
        }
        if !keys.is_empty() {
            audit.record(&Event {
                detail: Some(&keys.join(",")),
                ..Event::new(AuditEvent::KeysChanged, "ok")
            });
        }
        tracing::info!(
            agents_added = added,
            agents_changed = changed,
            agents_removed = removed,
            schemes_changed = schemes,
            "configuration applied"
        );
    }

    fn tell(&self, step: Step<'_>) {
        if let Some(listener) = &self.listener {
            listener(step);
        }
    }
}

impl Common {
    fn note_applied(&self) {
        #[expect(
            clippy::cast_precision_loss,
            reason = "seconds since 1970 are exact in a double for 285 million years"
        )]
        let now = self.ground.clock.unix_seconds() as f64;
        self.ground.metrics.config_applied.set(now);
    }
}

fn is_same<T>(one: Option<&Arc<T>>, other: Option<&Arc<T>>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => Arc::ptr_eq(one, other),
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    }
}

/// The file of the audit trail, as a problem of the configuration.
fn unopened(error: &audit::Error) -> Problem {
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}"));
    Problem::new("audit.file", format!("{error}{}", cause.unwrap_or_default()))
}

/// `None` while the runtime stops.
async fn watch(files: &[PathBuf]) -> Option<FileWatch> {
    let files = files.to_vec();
    tokio::task::spawn_blocking(move || FileWatch::new(files)).await.ok()
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime stops, and this job with it.
            Err(_) => std::future::pending().await,
        },
    }
}
