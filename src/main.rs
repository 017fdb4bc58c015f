//! Arguments, logging, runtime, exit code; no logic.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use a2a_gateway::app::{self, Bound, Prepared, Step, explain};
use a2a_gateway::audit;
use a2a_gateway::authenticate::keys;
use a2a_gateway::clock::Clock;
use a2a_gateway::config::{self, Config, Environment, LogFormat, Problem};
use a2a_gateway::observe::access::AccessLog;
use a2a_gateway::{demo, listener};
use clap::{CommandFactory as _, Parser, Subcommand};
use tokio::signal::unix::{Signal, SignalKind, signal};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// A gateway in front of Agent2Agent (A2A) agents.
#[derive(Parser)]
#[command(version, about, after_help = EXAMPLES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const EXPLAIN: &str = "\
Example:
  a2a-gateway explain --config gateway.yaml --request call.http --from 203.0.113.7

Prints the route, the requirement and the principal, the limits that count, the rule that decides and the endpoint. Fetches keys and
cards as a running gateway would. Exit code 1 if the request would be refused.";

const EXAMPLES: &str = "\
Examples:
  a2a-gateway demo                                    gateway and two agents, to try it
  a2a-gateway run --agent http://localhost:9999       front one agent, without a file
  a2a-gateway check --config gateway.yaml             is the file good?
  a2a-gateway run --config gateway.yaml               run it
  a2a-gateway explain --config gateway.yaml --request call.http
                                                      what would become of a request, and why
  a2a-gateway key new --id partner-7                  an API key for a caller
  a2a-gateway audit verify audit.log                  does the audit trail hold?
  a2a-gateway schema > gateway.schema.json            for your editor

Signals: SIGTERM and SIGINT drain and end; SIGHUP reads the configuration and every file that it names again.
Exit codes: 0 ended as asked, 1 not healthy or an audit trail that does not hold, 2 wrong arguments, 64 invalid configuration,
69 an address cannot be bound, 70 internal error, 74 the task store or the audit trail cannot be opened.";

#[derive(Subcommand)]
enum Command {
    /// Run the gateway.
    #[command(
        after_help = "Examples:\n  a2a-gateway run --config gateway.yaml\n  a2a-gateway run --agent http://localhost:9999 --listen 127.0.0.1:8080\n  a2a-gateway run --agent http://localhost:9999 --listen 0.0.0.0:8080 \\\n    --public-url http://agents.example.com:8080"
    )]
    Run {
        /// The configuration file (YAML) [env: A2A_GATEWAY_CONFIG, unless --agent is given].
        // Not clap's own `env`, to which a variable conflicts with --agent like an argument.
        #[arg(long, value_name = "FILE", conflicts_with_all = ["agent", "listen", "public_url", "admin"])]
        config: Option<PathBuf>,
        /// An agent's JSON-RPC URL, instead of a file; may be repeated.
        #[arg(long, value_name = "URL")]
        agent: Vec<String>,
        /// Where to listen with --agent [default: 127.0.0.1:8080].
        #[arg(long, value_name = "ADDR", requires = "agent")]
        listen: Option<SocketAddr>,
        /// Where callers find the gateway, as cards say it; needed when --listen takes every address [default: that of --listen].
        #[arg(long, value_name = "URL", requires = "agent")]
        public_url: Option<String>,
        /// Where health and metrics are served with --agent [default: 127.0.0.1:9901].
        #[arg(long, value_name = "ADDR", requires = "agent")]
        admin: Option<SocketAddr>,
        /// Open a damaged task store all the same, with every record that is whole; the damaged files are kept beside it.
        #[arg(long)]
        recover: bool,
    },
    /// Check a configuration file and everything that it names; report every problem.
    #[command(after_help = "Example:\n  a2a-gateway check --config gateway.yaml")]
    Check {
        #[arg(long)]
        config: PathBuf,
    },
    /// Print the JSON Schema of the configuration file.
    Schema,
    /// Run the gateway with two built-in agents and print calls to try.
    #[command(after_help = "Example:\n  a2a-gateway demo --listen 127.0.0.1:8080")]
    Demo {
        #[arg(long, default_value = "127.0.0.1:8080", value_name = "ADDR")]
        listen: SocketAddr,
        #[arg(long, default_value = "127.0.0.1:9901", value_name = "ADDR")]
        admin: SocketAddr,
    },
    /// Make, hash and list API keys.
    #[command(subcommand)]
    Key(KeyCommand),
    /// Explain what would become of a request, and why; nothing is sent to an agent.
    #[command(after_help = EXPLAIN)]
    Explain {
        #[arg(long)]
        config: PathBuf,
        /// A file with the request as HTTP/1.1 writes it: request line, fields, an empty line, body.
        #[arg(long, value_name = "FILE")]
        request: PathBuf,
        /// The listener that it comes in by [default: the first one].
        #[arg(long, value_name = "NAME")]
        listener: Option<String>,
        /// The address that it comes from.
        #[arg(long, default_value = "127.0.0.1", value_name = "IP")]
        from: IpAddr,
        /// A PEM file with the client certificate of the connection; taken as verified.
        #[arg(long, value_name = "FILE")]
        certificate: Option<PathBuf>,
        /// When it comes (RFC 3339) [default: now].
        #[arg(long, value_name = "TIME", value_parser = config::Moment::parse)]
        at: Option<config::Moment>,
    },
    /// Look into the audit trail.
    #[command(subcommand)]
    Audit(AuditCommand),
    /// Ask a running gateway whether it is healthy; for container health checks.
    #[command(after_help = "Example:\n  a2a-gateway health --admin 127.0.0.1:9901")]
    Health {
        #[arg(long, default_value = "127.0.0.1:9901", value_name = "ADDR")]
        admin: SocketAddr,
        /// Ask for readiness instead.
        #[arg(long)]
        ready: bool,
    },
}

#[derive(Subcommand)]
enum AuditCommand {
    /// Verify a chain: prints how many lines it has and the last one's number and hash, or the first place where it breaks.
    ///
    /// Lines that are missing at the end cannot be told from the files: compare the number with the metric
    /// a2a_gateway_audit_sequence, or with the log. Exit code 1: the chain does not hold.
    #[command(
        after_help = "Example:\n  a2a-gateway audit verify --key-file audit.key audit.log.2 audit.log.1 audit.log"
    )]
    Verify {
        /// The files, from the oldest to the newest.
        #[arg(value_name = "FILE", required = true)]
        files: Vec<PathBuf>,
        /// A file with a key that the chain was made with; may be repeated. Without one, the chain must have none.
        #[arg(long, value_name = "FILE")]
        key_file: Vec<PathBuf>,
    },
}

#[derive(Subcommand)]
enum KeyCommand {
    /// Make a key: the key goes to standard error, its entry for a list of `keys` to standard output.
    #[command(
        after_help = "Example:\n  a2a-gateway key new --id partner-7 --expires 2027-01-31T00:00:00Z --attribute tenant=acme >> keys.yaml"
    )]
    New {
        /// Names the caller: `key:<id>` in logs and as owner of tasks.
        #[arg(long)]
        id: String,
        /// For people, who see it in `key list`.
        #[arg(long)]
        label: Option<String>,
        /// When it stops to be accepted (RFC 3339) [default: never].
        #[arg(long, value_name = "TIME", value_parser = config::Moment::parse)]
        expires: Option<config::Moment>,
        /// A scope that it carries; may be repeated.
        #[arg(long, value_name = "SCOPE")]
        scope: Vec<String>,
        /// What a policy may ask for, as name=value; may be repeated.
        #[arg(long, value_name = "NAME=VALUE")]
        attribute: Vec<String>,
    },
    /// Read a key from standard input and print what a configuration keeps of it.
    #[command(after_help = "Example:\n  printf %s \"$KEY\" | a2a-gateway key hash")]
    Hash,
    /// List the keys of a configuration and of the files that it names, without the keys themselves.
    #[command(after_help = "Example:\n  a2a-gateway key list --config gateway.yaml")]
    List {
        #[arg(long)]
        config: PathBuf,
    },
}

/// Where the configuration file is, if no argument says it.
const CONFIG_VARIABLE: &str = "A2A_GATEWAY_CONFIG";

/// As for what is not healthy.
const BROKEN: u8 = 1;

/// Of standard input: more than any key has.
const MOST_READ: u64 = 64 * 1024;

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
            let code = serve(config, None, Some(guide), false).await;
            agents.stop().await;
            code
        }),
        Command::Key(command) => key(command),
        Command::Audit(AuditCommand::Verify { files, key_file }) => verify(&files, key_file),
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

fn health(admin: SocketAddr, path: &str) -> ExitCode {
    use std::io::Read as _;
    let ask = || -> std::io::Result<bool> {
        let patience = Duration::from_secs(3);
        let mut stream = std::net::TcpStream::connect_timeout(&admin, patience)?;
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: {admin}\r\nConnection: close\r\n\r\n"
        )?;
        let mut head = [0_u8; 12];
        stream.read_exact(&mut head)?;
        Ok(&head == b"HTTP/1.1 200")
    };
    match ask() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => fail(1, "not healthy"),
        Err(error) => fail(1, &format!("no answer from {admin}: {error}")),
    }
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
