//! The arguments of the program, and its help.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use a2a_gateway::config;
use clap::{Parser, Subcommand};

/// A gateway in front of Agent2Agent (A2A) agents.
#[derive(Parser)]
#[command(version, about, after_help = EXAMPLES)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

const EXPLAIN: &str = "\
Example:
  a2a-gateway explain --config gateway.yaml --request call.http --from 203.0.113.7

Prints the route, the requirement and the principal, the limits that count, the rule that decides and the endpoint. Fetches keys and
cards as a running gateway would. Exit code 1 if the request would be refused.";

const AGENTS: &str = "\
Examples:
  a2a-gateway agents
  a2a-gateway agents --config gateway.yaml --json";

const EXAMPLES: &str = "\
Examples:
  a2a-gateway demo                                    gateway and two agents, to try it
  a2a-gateway run --agent http://localhost:9999       front one agent, without a file
  a2a-gateway check --config gateway.yaml             is the file good?
  a2a-gateway run --config gateway.yaml               run it
  a2a-gateway explain --config gateway.yaml --request call.http
                                                      what would become of a request, and why
  a2a-gateway agents                                  the agents of a running gateway
  a2a-gateway key new --id partner-7                  an API key for a caller
  a2a-gateway card diff --config gateway.yaml --agent maps
                                                      what of its card is not as it was approved?
  a2a-gateway audit verify audit.log                  does the audit trail hold?
  a2a-gateway schema > gateway.schema.json            for your editor

Signals: SIGTERM and SIGINT drain and end; SIGHUP reads the configuration and every file that it names again.
Exit codes: 0 ended as asked, 1 not healthy, no answer, or an audit trail that does not hold, 2 wrong arguments, 64 invalid configuration,
69 an address cannot be bound, 70 internal error, 74 the task store or the audit trail cannot be opened.";

#[derive(Subcommand)]
pub enum Command {
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
    /// Fetch the agents' own cards, and compare them with approved ones.
    #[command(subcommand)]
    Card(CardCommand),
    /// Look into the audit trail.
    #[command(subcommand)]
    Audit(AuditCommand),
    /// List the agents of a running gateway: whether they can be called, who sees them in the catalogue, what their cards say.
    #[command(after_help = AGENTS)]
    Agents {
        /// Its admin listener [default: 127.0.0.1:9901].
        #[arg(long, value_name = "ADDR", conflicts_with = "config")]
        admin: Option<SocketAddr>,
        /// Its configuration file, which says where the admin listener is.
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
        /// As the admin listener tells it, instead of a table.
        #[arg(long)]
        json: bool,
    },
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
pub enum AuditCommand {
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
pub enum CardCommand {
    /// Print an agent's own card, to be saved as the file of `card.approved`.
    #[command(after_help = "Example:\n  a2a-gateway card fetch --config gateway.yaml --agent maps > maps-card.json")]
    Fetch {
        #[arg(long)]
        config: PathBuf,
        /// The agent's name in the configuration.
        #[arg(long, value_name = "NAME")]
        agent: String,
    },
    /// Print what of an agent's own card is not as it was approved. Exit code 0: there is no difference; 1: there is one; 2: it
    /// cannot be told.
    #[command(after_help = "Example:\n  a2a-gateway card diff --config gateway.yaml --agent maps")]
    Diff {
        #[arg(long)]
        config: PathBuf,
        /// The agent's name in the configuration.
        #[arg(long, value_name = "NAME")]
        agent: String,
        /// The card to compare with [default: the file of `card.approved`].
        #[arg(long, value_name = "FILE")]
        against: Option<PathBuf>,
    },
}

#[derive(Subcommand)]
pub enum KeyCommand {
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
