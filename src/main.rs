//! Arguments, logging, runtime, exit code; no logic.

mod arguments;

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use a2a_gateway::app::{self, Bound, Prepared, Step, cards, explain};
use a2a_gateway::audit;
use a2a_gateway::authenticate::keys;
use a2a_gateway::clock::Clock;
use a2a_gateway::config::{self, Config, Environment, LogFormat, Problem};
use a2a_gateway::observe::access::AccessLog;
use a2a_gateway::{catalogue, demo, listener};

use clap::{CommandFactory as _, Parser as _};
use tokio::signal::unix::{Signal, SignalKind, signal};

use self::arguments::{Arguments, AuditCommand, CardCommand, Command, KeyCommand};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Where the configuration file is, if no argument says it.
const CONFIG_VARIABLE: &str = "A2A_GATEWAY_CONFIG";

/// As for what is not healthy.
const BROKEN: u8 = 1;

/// Likewise.
const NO_ANSWER: u8 = 1;

/// Where the admin listener of a running gateway is, if nobody says it.
const ADMIN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9901);
/// How an answer begins that is one.
const GOOD: &[u8] = b"HTTP/1.1 200";
/// Of a list of agents: some ten thousand.
const MOST_LISTED: u64 = 64 * 1024 * 1024;

/// Of standard input: more than any key has.
const MOST_READ: u64 = 64 * 1024;

/// It cannot be told whether a card is as it was approved: 1 says that it is not.
const UNTOLD: u8 = 2;

const USAGE: u8 = 2;
const INVALID: u8 = 64;
const UNAVAILABLE: u8 = 69;
const INTERNAL: u8 = 70;
const STORE: u8 = 74;

fn main() -> ExitCode {
    match Arguments::parse().command {
        Command::Run {
            config,
            agent,
            listen,
            public_url,
            admin,
            recover,
        } => {
            let environment = Environment::process();
            let config = config.or_else(|| {
                let named = environment.variable(CONFIG_VARIABLE).filter(|path| !path.is_empty());
                named.filter(|_| agent.is_empty()).map(PathBuf::from)
            });
            if config.is_none() && agent.is_empty() {
                let missing = "give a configuration file with --config FILE, or an agent with --agent URL";
                return usage("run", missing);
            }
            let file = config.clone();
            let loaded = match (config, listen.map(listener::settled).transpose()) {
                (Some(path), _) => app::load(&path, &environment),
                (None, Ok(listen)) => config::from_arguments(&config::Arguments {
                    agents: agent,
                    listen,
                    public_url,
                    admin,
                }),
                (None, Err(error)) => return fail(UNAVAILABLE, &format!("no port to listen on: {error}")),
            };
            match loaded {
                Ok(config) => {
                    let origin = file.map(|file| (file, environment));
                    with_runtime(config.workers, serve(config, origin, None, recover))
                }
                Err(problems) => invalid(&problems),
            }
        }
        Command::Check { config } => match app::check(&config, &Environment::process()) {
            Ok(()) => {
                say("the configuration is valid\n");
                ExitCode::SUCCESS
            }
            Err(app::Error::Config(problems)) => invalid(&problems),
            Err(error) => fail(INTERNAL, &chain(&error)),
        },
        Command::Explain {
            config,
            request,
            listener,
            from,
            certificate,
            at,
        } => explained(&config, &request, listener, from, certificate.as_deref(), at),
        Command::Schema => {
            say(&format!("{:#}\n", config::schema()));
            ExitCode::SUCCESS
        }
        Command::Demo { listen, admin } => with_runtime(None, async move {
            let (listen, admin) =
                match listener::settled(listen).and_then(|listen| Ok((listen, listener::settled(admin)?))) {
                    Ok(addresses) => addresses,
                    Err(error) => return fail(UNAVAILABLE, &format!("no port to listen on: {error}")),
                };
            let agents = match demo::Agents::start().await {
                Ok(agents) => agents,
                Err(error) => return fail(UNAVAILABLE, &format!("the demo agents cannot listen: {error}")),
            };
            let text = demo::config(listen, &admin.to_string(), &agents);
            let config = match config::parse(&text, std::path::Path::new("."), &Environment::default()) {
                Ok(config) => config,
                Err(problems) => return invalid(&problems),
            };
            let guide = demo::guide(&format!("http://{listen}"), &admin.to_string());
            let code = Box::pin(serve(config, None, Some(guide), false)).await;
            agents.stop().await;
            code
        }),
        Command::Key(command) => key(command),
        Command::Card(command) => card(command),
        Command::Audit(AuditCommand::Verify { files, key_file }) => verify(&files, key_file),
        Command::Agents { admin, config, json } => agents(admin, config, json),
        Command::Health { admin, ready } => health(admin, if ready { "/ready" } else { "/health" }),
    }
}

fn verify(files: &[PathBuf], key_files: Vec<PathBuf>) -> ExitCode {
    let keys: Result<Vec<_>, _> = key_files.into_iter().map(config::Secret::read).collect();
    let keys = match keys {
        Ok(keys) => keys,
        Err(error) => return fail(BROKEN, &chain(&error)),
    };
    let keys: Vec<&str> = keys.iter().map(|key| key.expose().as_str()).collect();
    match audit::verify(files, &keys) {
        Ok(verified) => {
            let audit::Verified {
                lines,
                after,
                last,
                unfinished,
            } = verified;
            say(&format!("the chain holds: {lines} lines\n"));
            if after.sequence > 0 {
                say(&format!("it follows line {}, hash {}\n", after.sequence, after.hash));
            }
            if lines > 0 {
                say(&format!("last line: sequence {}, hash {}\n", last.sequence, last.hash));
            }
            if unfinished > 0 {
                complain(&format!(
                    "the end is an unfinished line of {unfinished} bytes, as a crash leaves it; the gateway cuts it off when it \
                     starts"
                ));
            }
            ExitCode::SUCCESS
        }
        Err(broken) => fail(BROKEN, &broken.to_string()),
    }
}

fn key(command: KeyCommand) -> ExitCode {
    match command {
        KeyCommand::New {
            id,
            label,
            expires,
            scope,
            attribute,
        } => {
            let about = keys::About {
                id,
                label,
                expires,
                scopes: scope,
                attributes: attribute,
            };
            match keys::make(&about) {
                Ok(made) => {
                    complain(&format!("the key, shown this once: {}", *made.key));
                    say(&format!("{}\n", made.entry));
                    ExitCode::SUCCESS
                }
                Err(error) => usage("key new", &error.to_string()),
            }
        }
        KeyCommand::Hash => {
            let mut key = zeroize::Zeroizing::new(Vec::new());
            if let Err(error) = std::io::stdin().lock().take(MOST_READ).read_to_end(&mut key) {
                return fail(INTERNAL, &format!("standard input cannot be read: {error}"));
            }
            // What a shell or an editor puts behind it.
            let key = key.strip_suffix(b"\n").unwrap_or(&key);
            match keys::hash(key) {
                Ok(hash) => {
                    say(&format!("{hash}\n"));
                    ExitCode::SUCCESS
                }
                Err(error) => usage("key hash", &error.to_string()),
            }
        }
        KeyCommand::List { config } => {
            let listed =
                app::load(&config, &Environment::process()).and_then(|config| keys::list(&config, &Clock::system()));
            match listed {
                Ok(lines) => {
                    say(&lines);
                    ExitCode::SUCCESS
                }
                Err(problems) => invalid(&problems),
            }
        }
    }
}

fn card(command: CardCommand) -> ExitCode {
    let (CardCommand::Fetch { config: file, .. } | CardCommand::Diff { config: file, .. }) = &command;
    let config = match app::load(file, &Environment::process()) {
        Ok(config) => config,
        Err(problems) => return failed_as(UNTOLD, invalid(&problems)),
    };
    with_runtime(config.workers, async move {
        let ended = match command {
            CardCommand::Fetch { agent, .. } => Box::pin(cards::fetch(config, &agent)).await.map(|fetched| {
                complain(&format!("found at {}", fetched.place));
                say(&format!("{:#}\n", fetched.value));
                ExitCode::SUCCESS
            }),
            CardCommand::Diff { agent, against, .. } => {
                Box::pin(cards::diff(config, &agent, against)).await.map(|differences| {
                    say(&differences.to_string());
                    ExitCode::from(u8::from(!differences.is_empty()))
                })
            }
        };
        match ended {
            Ok(code) => code,
            Err(cards::Failed::Gateway(app::Error::Config(problems))) => failed_as(UNTOLD, invalid(&problems)),
            Err(error) => fail(UNTOLD, &chain(&error)),
        }
    })
}

/// Said already; the code is another one.
fn failed_as(code: u8, _said: ExitCode) -> ExitCode {
    ExitCode::from(code)
}

fn with_runtime(workers: Option<usize>, work: impl Future<Output = ExitCode>) -> ExitCode {
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    let mut builder = match workers.unwrap_or_else(cores) {
        // Nobody to share the work with: this thread does it all, without the cost of sharing.
        0 | 1 => tokio::runtime::Builder::new_current_thread(),
        workers => {
            let mut builder = tokio::runtime::Builder::new_multi_thread();
            builder.worker_threads(workers);
            builder
        }
    };
    match builder.enable_all().build() {
        Ok(runtime) => {
            let code = runtime.block_on(work);
            runtime.shutdown_timeout(Duration::from_secs(1));
            code
        }
        Err(error) => fail(INTERNAL, &format!("the runtime cannot start: {error}")),
    }
}

/// `origin` is the file that a reload reads again, with what lies over it.
async fn serve(
    config: Config,
    origin: Option<(PathBuf, Environment)>,
    guide: Option<String>,
    recover: bool,
) -> ExitCode {
    let log = start_log(&config);
    if let Err(error) = listener::raise_descriptor_limit() {
        tracing::warn!(%error, "the limit on open files cannot be raised");
    }
    let prepared =
        tokio::task::spawn_blocking(move || app::prepare(config, Clock::system(), Some(AccessLog::stdout())));
    let prepared = prepared.await;
    // Before anybody can see that the gateway runs: from there on a signal must not kill it.
    let Ok(signals) = Signals::new() else {
        return fail(INTERNAL, "signals cannot be received");
    };
    let bound = match prepared {
        Ok(Ok(prepared)) => {
            let prepared = match origin {
                Some((path, environment)) => prepared.from_file(path, environment),
                None => prepared,
            };
            let prepared = prepared.recovering(recover).telling(move |step| follow(&step, &log));
            bind(prepared).await
        }
        Ok(Err(error)) => Err(error),
        Err(panicked) => return fail(INTERNAL, &panicked.to_string()),
    };
    let bound = match bound {
        Ok(bound) => bound,
        Err(app::Error::Config(problems)) => return invalid(&problems),
        Err(error) => {
            let code = match &error {
                app::Error::Store(_) | app::Error::Audit(_) => STORE,
                app::Error::Listen(_) => UNAVAILABLE,
                app::Error::Metrics(_) | app::Error::Config(_) => INTERNAL,
            };
            return fail(code, &chain(&error));
        }
    };
    if let Some(guide) = guide {
        say(&guide);
    }
    until_told(bound, signals).await
}

async fn bind(prepared: Prepared) -> Result<Bound, app::Error> {
    let bound = prepared.bind().await?;
    for address in &bound.addresses {
        tracing::info!(%address, "listening");
    }
    if let Some(address) = bound.admin {
        tracing::info!(%address, "admin listening");
    }
    notify(&[sd_notify::NotifyState::Ready]);
    Ok(bound)
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
    /// A limit on the size of files is an error of a write, which is dealt with there. Not caught, it ends the process.
    _file_size: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
            _file_size: signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()))?,
        })
    }
}

async fn until_told(bound: Bound, mut signals: Signals) -> ExitCode {
    loop {
        tokio::select! {
            _ = signals.hangup.recv() => {
                // What came of it, the log and the metrics say.
                bound.reloader.reload().await;
            }
            _ = signals.terminate.recv() => break,
            _ = signals.interrupt.recv() => break,
        }
    }
    notify(&[sd_notify::NotifyState::Stopping]);
    tracing::info!("draining");
    if bound.shutdown().await {
        tracing::info!("drained; every call finished");
    } else {
        tracing::warn!("the drain deadline passed; what was still open was ended");
    }
    ExitCode::SUCCESS
}

/// Tells the service manager of a reload, and the log which level it has by now.
fn follow(step: &Step<'_>, log: &SetLevel) {
    match step {
        Step::Begins => {
            if let Ok(now) = sd_notify::NotifyState::monotonic_usec_now() {
                notify(&[sd_notify::NotifyState::Reloading, now]);
            }
        }
        Step::Applied(config) => {
            log(&config.log.level);
            notify(&[sd_notify::NotifyState::Ready]);
        }
        Step::Refused => notify(&[sd_notify::NotifyState::Ready]),
    }
}

fn notify(states: &[sd_notify::NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!(%error, "the service manager cannot be told");
    }
}

/// Changes what is logged from then on.
type SetLevel = dyn Fn(&str) + Send + Sync;

/// Diagnostics go to standard error, access records to standard output.
fn start_log(config: &Config) -> Box<SetLevel> {
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter(&config.log.level))
        .with_writer(std::io::stderr);
    let (started, set): (_, Box<SetLevel>) = match config.log.format {
        LogFormat::Json => {
            let builder = builder.json().flatten_event(true).with_filter_reloading();
            let handle = builder.reload_handle();
            let set = move |level: &str| told(handle.reload(filter(level)));
            (builder.try_init(), Box::new(set))
        }
        LogFormat::Text => {
            let builder = builder.with_ansi(false).with_filter_reloading();
            let handle = builder.reload_handle();
            let set = move |level: &str| told(handle.reload(filter(level)));
            (builder.try_init(), Box::new(set))
        }
    };
    if let Err(error) = started {
        complain(&format!("no log: {error}"));
    }
    set
}

fn filter(level: &str) -> tracing_subscriber::EnvFilter {
    tracing_subscriber::EnvFilter::builder()
        .parse(level)
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"))
}

fn told(changed: Result<(), impl std::fmt::Display>) {
    if let Err(error) = changed {
        tracing::warn!(%error, "the level of the log cannot be changed");
    }
}

fn explained(
    config: &Path,
    request: &Path,
    listener: Option<String>,
    address: IpAddr,
    certificate: Option<&Path>,
    at: Option<config::Moment>,
) -> ExitCode {
    let config = match app::load(config, &Environment::process()) {
        Ok(config) => config,
        Err(problems) => return invalid(&problems),
    };
    let asked = explain::Asked::read(request);
    let asked = asked.and_then(|asked| Ok((asked, certificate.map(explain::certificate).transpose()?)));
    let (asked, certificate) = match asked {
        Ok(found) => found,
        Err(refused) => return fail(INVALID, &chain(&refused)),
    };
    let from = explain::From {
        listener,
        address,
        certificate,
    };
    let clock = at.map_or_else(Clock::system, |at| Clock::at(at.0));
    with_runtime(config.workers, async move {
        match explain::explain(config, clock, &asked, &from).await {
            Ok(explanation) => {
                say(&explanation.text);
                ExitCode::from(u8::from(!explanation.allowed))
            }
            Err(explain::Refused::Gateway(app::Error::Config(problems))) => invalid(&problems),
            Err(error) => fail(INVALID, &chain(&error)),
        }
    })
}

fn agents(admin: Option<SocketAddr>, config: Option<PathBuf>, json: bool) -> ExitCode {
    let admin = match config
        .map(|config| app::load(&config, &Environment::process()))
        .transpose()
    {
        Ok(None) => admin.unwrap_or(ADMIN),
        Ok(Some(config)) => match config.admin {
            Some(admin) => admin.address,
            None => return fail(INVALID, "the configuration has no admin listener, which would tell"),
        },
        Err(problems) => return invalid(&problems),
    };
    match ask(admin, "/agents", MOST_LISTED) {
        Ok(answer) => match answer.strip_prefix(GOOD).and_then(body) {
            Some(body) if json => {
                say(&String::from_utf8_lossy(body));
                ExitCode::SUCCESS
            }
            Some(body) => match serde_json::from_slice(body) {
                Ok(list) => {
                    say(&catalogue::table::table(&list));
                    ExitCode::SUCCESS
                }
                Err(_) => fail(NO_ANSWER, &format!("what {admin} answers is no list of agents")),
            },
            None => fail(NO_ANSWER, &format!("what {admin} answers is no list of agents")),
        },
        Err(error) => fail(NO_ANSWER, &format!("no answer from {admin}: {error}")),
    }
}

fn body(answer: &[u8]) -> Option<&[u8]> {
    const END: &[u8] = b"\r\n\r\n";
    let at = answer.windows(END.len()).position(|window| window == END)?;
    answer.get(at + END.len()..)
}

fn health(admin: SocketAddr, path: &str) -> ExitCode {
    match ask(admin, path, GOOD.len() as u64) {
        Ok(answer) if answer == GOOD => ExitCode::SUCCESS,
        Ok(_) => fail(NO_ANSWER, "not healthy"),
        Err(error) => fail(NO_ANSWER, &format!("no answer from {admin}: {error}")),
    }
}

/// What the admin listener of a running gateway answers, head and all, up to so many bytes.
fn ask(admin: SocketAddr, path: &str, most: u64) -> std::io::Result<Vec<u8>> {
    let patience = Duration::from_secs(3);
    let mut stream = std::net::TcpStream::connect_timeout(&admin, patience)?;
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(patience))?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: {admin}\r\nConnection: close\r\n\r\n"
    )?;
    let mut answer = Vec::new();
    stream.take(most).read_to_end(&mut answer)?;
    Ok(answer)
}

fn invalid(problems: &[Problem]) -> ExitCode {
    complain(config::render(problems).trim_end());
    ExitCode::from(INVALID)
}

fn usage(command: &str, text: &str) -> ExitCode {
    let mut all = Arguments::command();
    all.build();
    let named = command
        .split(' ')
        .try_fold(&mut all, |at, name| at.find_subcommand_mut(name));
    if let Some(command) = named {
        let error = command.error(clap::error::ErrorKind::MissingRequiredArgument, text);
        complain(error.to_string().trim_end());
    }
    ExitCode::from(USAGE)
}

fn fail(code: u8, text: &str) -> ExitCode {
    complain(text);
    ExitCode::from(code)
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}

fn say(text: &str) {
    // Nobody reads: nothing to do about it.
    let _closed = std::io::stdout().write_all(text.as_bytes());
}

fn complain(text: &str) {
    let _closed = writeln!(std::io::stderr(), "{text}");
}
