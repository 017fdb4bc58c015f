//! From what the file says to what the program is built from: every rule that types cannot express, all problems at once.
//!
//! Each part gives `None` when something in it cannot be built, and goes on with the rest. What `shape` has reported is
//! not reported again in other words: a problem at, above or below a key that already has one is dropped, and nothing is
//! concluded from a default that only stands in for a value that was given up. The parts that name files are kept apart
//! (`Sound`), so that the files can be looked into although something else is wrong.

mod agents;
mod audit;
mod card;
mod catalogue;
mod cors;
mod credential;
mod decisions;
mod envelope;
mod front_door;
mod invalid;
mod limits;
mod listeners;
mod names;
mod pages;
mod policy;
mod push;
mod redis;
mod schemes;
mod security;
mod tokens;
mod upstream;
pub mod url;
mod watch;

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::fragments::Spares;
use super::model::{Admin, Config, Log, LogFormat, State, Store};
use super::places::Places;
use super::raw::{Raw, RawAdmin, RawLog, RawLogFormat, RawState, RawStore};
use super::units::{SecretText, Size, Time};
use super::{Fragments, Problem, Secret, join, with_causes};
use crate::expression::{Expression, Scope, Type};

pub use invalid::{Invalid, Sound};
pub use limits::unused;

/// Where the embedded store is when the file does not say.
pub const DEFAULT_STATE_PATH: &str = "/var/lib/a2a-gateway";
const DEFAULT_SYNC_INTERVAL: Duration = Duration::from_secs(1);

pub const MILLISECOND: Duration = Duration::from_millis(1);
pub const SECOND: Duration = Duration::from_secs(1);
pub const HOUR: Duration = Duration::from_secs(60 * 60);
pub const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// `earlier` are the problems that `shape` and its forerunners have found. Agents in which something is wrong are left as `spares` has
/// them; `Fragments::kept` says what.
pub fn check(
    raw: &Raw,
    base: &Path,
    places: Places,
    earlier: Vec<Problem>,
    spares: &Spares,
) -> Result<Config, Box<Invalid>> {
    let mut check = Check {
        base,
        places: &places,
        reported: earlier
            .iter()
            .map(|problem| &problem.key)
            .chain(places.given_up())
            .cloned()
            .collect(),
        problems: earlier,
        sound: Sound::default(),
        named: Vec::new(),
        spares,
        kept: Vec::new(),
    };
    let config = build(&mut check, raw);
    let Check {
        mut problems,
        sound,
        named,
        kept,
        ..
    } = check;
    let fragments = Fragments {
        kept,
        ..Fragments::default()
    };
    match config {
        Some(config) if problems.is_empty() => Ok(Config {
            places,
            fragments,
            ..config
        }),
        Some(_) | None => {
            if problems.is_empty() {
                problems.push(Problem::new("configuration", "is incomplete"));
            }
            places.sort(&mut problems);
            Err(Box::new(Invalid {
                problems,
                sound,
                places,
                named,
            }))
        }
    }
}

fn build(check: &mut Check<'_>, raw: &Raw) -> Option<Config> {
    let public_url = raw.public_url.as_deref().and_then(|text| {
        let url = check.url("public_url", text)?;
        Some(url.text().trim_end_matches('/').to_owned())
    });
    let admin = admin(check, &raw.admin);
    let listeners = listeners::listeners(check, raw, admin.as_ref());
    let state = state(check, &raw.state);
    let page_tokens = pages::page_tokens(check, &raw.page_tokens);
    let push = push::push(check, &raw.push);
    let revocations = check.optional_path("revocations_file", raw.revocations_file.as_ref());
    let assertions = credential::assertions(check, &raw.assertions, public_url.as_ref());
    let card_signatures = credential::card_signatures(check, &raw.card_signatures);
    let limits = limits::limits(check, &raw.limits);
    let mut security_schemes = schemes::schemes(check, &raw.security_schemes);
    let decision_points = decisions::points(check, raw);
    let cors = cors::cors(check, raw.cors.as_ref());
    let agents_directory = raw.agents_directory.as_ref();
    let agents_directory = agents_directory.and_then(|folder| check.folder("agents_directory", folder));
    let mut routes = Vec::new();
    let agents = agents::agents(check, raw, &mut routes);
    let front_door = front_door::front_door(check, raw, &routes);
    routes.extend(front_door.iter().flatten().map(|front| Some(front.route.clone())));
    let envelope = envelope::envelope(check, raw, &routes);
    let catalogue = catalogue::catalogue(check, raw, &routes);
    if let (Some(schemes), Some(agents)) = (&mut security_schemes, &agents) {
        let senders = envelope.iter().flatten().flat_map(|envelope| &envelope.senders);
        let senders = senders.flat_map(|sender| &sender.callers);
        let rules = listeners.iter().flatten().flat_map(|listener| &listener.allow);
        let choices = front_door.iter().flatten().flat_map(|front| &front.rules);
        let choices = choices.map(|rule| &rule.when);
        let mut claims = policy::claims(agents.iter().map(|agent| &agent.policy), rules, senders, choices);
        let told = agents.iter().filter_map(|agent| agent.upstream.assertion.as_ref());
        let told = told.flat_map(|assertion| &assertion.claims).map(String::as_str);
        let decided = decision_points.iter().flat_map(decisions::claims);
        for name in told.chain(decided) {
            if !claims.iter().any(|known| known == name) {
                claims.push(name.to_owned());
            }
        }
        for wanted in schemes.values_mut().filter_map(|scheme| scheme.kind.claims_mut()) {
            wanted.clone_from(&claims);
        }
    }
    security::certificates_are_asked_for(check, raw);
    let log = log(check, &raw.log);
    let audit = audit::audit(check, raw.audit.as_ref());
    let drain = check.time("drain", raw.drain, Duration::ZERO, HOUR);
    Some(Config {
        public_url: public_url?,
        listeners: listeners?,
        admin,
        state: state?,
        page_tokens: page_tokens?,
        push: push?,
        envelope: envelope?,
        assertions: assertions?,
        card_signatures: card_signatures?,
        revocations,
        limits,
        security_schemes: security_schemes?,
        decision_points: decision_points?,
        cors: cors?,
        front_door: front_door?,
        catalogue: catalogue?,
        agents: agents?,
        agents_directory,
        fragments: Fragments::default(),
        log,
        audit: audit?,
        drain,
        workers: raw.workers.and_then(|count| usize::try_from(count).ok()),
        places: Places::default(),
    })
}

fn admin(check: &mut Check<'_>, raw: &RawAdmin) -> Option<Admin> {
    let address = listeners::address(check, "admin.address", &raw.address)?;
    // No listener collides with a default that nobody asked for.
    let known = !check.was_given_up("admin.address") && !check.was_given_up("admin.enabled");
    (raw.enabled && known).then_some(Admin { address })
}

fn state(check: &mut Check<'_>, raw: &RawState) -> Option<State> {
    let (store, name) = match raw.store {
        RawStore::Memory => (Some(Store::Memory), "memory"),
        RawStore::Embedded => (embedded(check, raw), "embedded"),
        RawStore::Redis => (redis::redis(check, raw.redis.as_ref()), "redis"),
    };
    if !check.was_given_up("state.store") {
        for (key, given, of) in [
            ("state.path", raw.path.is_some(), "embedded"),
            ("state.sync_interval", raw.sync_interval.is_some(), "embedded"),
            ("state.redis", raw.redis.is_some(), "redis"),
        ] {
            if given && of != name {
                check.problem(key, format!("belongs to `store: {of}`; the {name} store has none"));
            }
        }
    }
    let max_tasks = check.count("state.max_tasks", raw.max_tasks, 1, 100_000_000);
    let retention = check.time("state.retention", raw.retention, SECOND, DAY * 3650);
    Some(State {
        store: store?,
        max_tasks,
        retention,
    })
}

fn embedded(check: &mut Check<'_>, raw: &RawState) -> Option<Store> {
    let path = raw.path.as_deref().unwrap_or(DEFAULT_STATE_PATH);
    let sync_interval = raw.sync_interval.map_or(DEFAULT_SYNC_INTERVAL, |interval| {
        check.time("state.sync_interval", interval, MILLISECOND, HOUR)
    });
    let path = check.folder("state.path", path);
    if !check.was_given_up("state.path") && !check.was_given_up("state.store") {
        check.sound.state.clone_from(&path);
    }
    path.map(|path| Store::Embedded { path, sync_interval })
}

fn log(check: &mut Check<'_>, raw: &RawLog) -> Log {
    // A filter may be the bare name of a module, which is all that is logged then: here it is a level misspelt.
    let misspelt = raw.level.split(',').map(str::trim).find(|part| {
        let plain = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric());
        plain && part.parse::<tracing_subscriber::filter::LevelFilter>().is_err()
    });
    if let Some(part) = misspelt {
        check.problem(
            "log.level",
            format!("`{part}` is no level; write `error`, `warn`, `info`, `debug`, `trace` or `off`"),
        );
    } else if let Err(error) = tracing_subscriber::EnvFilter::builder().parse(&raw.level) {
        check.problem(
            "log.level",
            format!(
                "`{}` is no filter ({error}); write e.g. `info` or `info,a2a_gateway=debug`",
                raw.level
            ),
        );
    }
    Log {
        format: match raw.format {
            RawLogFormat::Text => LogFormat::Text,
            RawLogFormat::Json => LogFormat::Json,
        },
        level: raw.level.clone(),
        access: raw.access,
    }
}

/// What every part of the check needs: where problems go, where files are.
pub struct Check<'a> {
    base: &'a Path,
    places: &'a Places,
    reported: Vec<String>,
    problems: Vec<Problem>,
    pub sound: Sound,
    /// Every file that a key names, whatever else is wrong with its section.
    named: Vec<(String, PathBuf)>,
    spares: &'a Spares,
    /// What is wrong with agents that spares stand in for.
    kept: Vec<Problem>,
}

impl Check<'_> {
    pub fn problem(&mut self, key: &str, cause: impl Into<String>) {
        if self.reported.iter().any(|other| is_related(other, key)) {
            return;
        }
        let problem = self.places.problem(key, cause);
        // What is general is looked at once for every agent.
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }

    pub fn problems(&mut self, key: &str, causes: impl IntoIterator<Item = impl Into<String>>) {
        for cause in causes {
            self.problem(key, cause);
        }
    }

    /// The value at `key` was written, and is not what `raw` says: a default stands in for it.
    pub fn was_given_up(&self, key: &str) -> bool {
        self.reported.iter().any(|other| is_related(other, key))
    }

    /// The same for a section: of what is wrong inside it, nothing follows for the rest.
    pub fn was_given_up_whole(&self, key: &str) -> bool {
        self.reported.iter().any(|other| is_inside(other, key))
    }

    /// A file, from the folder of the configuration.
    pub fn path(&mut self, key: &str, text: &str) -> Option<PathBuf> {
        let path = self.folder(key, text)?;
        let named = (key.to_owned(), path.clone());
        if !self.named.contains(&named) {
            self.named.push(named);
        }
        Some(path)
    }

    pub fn folder(&mut self, key: &str, text: &str) -> Option<PathBuf> {
        if text.is_empty() {
            self.problem(key, "is empty; name a file");
            return None;
        }
        Some(self.base.join(text))
    }

    pub fn optional_path(&mut self, key: &str, text: Option<&String>) -> Option<PathBuf> {
        text.and_then(|text| self.path(key, text))
    }

    /// An absolute http(s) URL without query.
    pub fn url(&mut self, key: &str, text: &str) -> Option<url::Url> {
        match url::Url::parse(text) {
            Ok(url) => Some(url),
            Err(faults) => {
                self.problems(key, faults);
                None
            }
        }
    }

    /// A URL that is only passed on or fetched as it stands: a query is fine.
    pub fn plain_url(&mut self, key: &str, text: &str) -> Option<url::Url> {
        match url::verify(text) {
            Ok(url) => Some(url),
            Err(faults) => {
                self.problems(key, faults);
                None
            }
        }
    }

    /// Text that may not be empty.
    pub fn text(&mut self, key: &str, text: Option<&String>) -> Option<String> {
        let text = text?;
        if text.trim().is_empty() {
            self.problem(key, "is empty");
            return None;
        }
        Some(text.clone())
    }

    /// An expression in CEL that gives `wanted`.
    pub fn expression(&mut self, key: &str, source: &str, scope: &Scope, wanted: &Type) -> Option<Expression> {
        match Expression::compile(source, scope, wanted) {
            Ok(expression) => Some(expression),
            Err(error) => {
                self.problem(key, error.to_string());
                None
            }
        }
    }

    /// A secret given as it is or in the file that `<name>_file` names, with the key that it stands at. Never part of a
    /// message.
    pub fn secret(
        &mut self,
        key: &str,
        name: &str,
        value: Option<&SecretText>,
        file: Option<&String>,
    ) -> Option<(String, Secret<String>)> {
        let file_key = join(key, &format!("{name}_file"));
        let (key, secret) = match (value, file) {
            (Some(value), None) => (join(key, name), Secret::new(value.0.clone())),
            (None, Some(file)) => match Secret::read(self.path(&file_key, file)?) {
                Ok(secret) => (file_key, secret),
                Err(error) => {
                    self.problem(&file_key, with_causes(&error));
                    return None;
                }
            },
            (Some(_), Some(_)) => {
                self.problem(key, format!("has both `{name}` and `{name}_file`; keep one of them"));
                return None;
            }
            (None, None) => {
                self.problem(key, format!("needs `{name}` or `{name}_file`"));
                return None;
            }
        };
        if secret.expose().is_empty() {
            self.problem(&key, "is empty");
            return None;
        }
        Some((key, secret))
    }

    pub fn time(&mut self, key: &str, value: Time, least: Duration, most: Duration) -> Duration {
        self.within(key, value.0, least, most, Time);
        value.0
    }

    pub fn size(&mut self, key: &str, value: Size, least: Size, most: Size) -> usize {
        self.within(key, value.0, least.0, most.0, Size);
        value.0
    }

    pub fn count(&mut self, key: &str, value: u32, least: u32, most: u32) -> usize {
        self.within(key, value, least, most, |count| count);
        usize::try_from(value).unwrap_or(usize::MAX)
    }

    fn within<T: PartialOrd + Copy, D: Display>(
        &mut self,
        key: &str,
        value: T,
        least: T,
        most: T,
        show: impl Fn(T) -> D,
    ) {
        if value < least || value > most {
            let (value, least, most) = (show(value), show(least), show(most));
            self.problem(key, format!("must be from {least} to {most}, found {value}"));
        }
    }
}

/// The same key, or one inside the other.
fn is_related(one: &str, other: &str) -> bool {
    is_inside(one, other) || is_inside(other, one)
}

fn is_inside(outer: &str, inner: &str) -> bool {
    inner
        .strip_prefix(outer)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}
