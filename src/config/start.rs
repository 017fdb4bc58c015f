//! A configuration without a file: one or more agents on this machine, for trying things out.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use super::check::{self, url::Url};
use super::fragments::Spares;
use super::model::Config;
use super::places::Places;
use super::raw::Raw;
use super::{Problem, place};

/// Loopback: what has no security of its own is not put on a network by default.
const DEFAULT_LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);

/// What the command line says instead of a file.
#[derive(Clone, Debug, Default)]
pub struct Arguments {
    pub agents: Vec<String>,
    pub listen: Option<SocketAddr>,
    /// By default made of `listen`.
    pub public_url: Option<String>,
    pub admin: Option<SocketAddr>,
}

/// One agent is served at the root, several under `/agents/<name>`, named by host and port. Records are kept in memory;
/// what callers must show is what each agent's own card says.
pub fn from_arguments(arguments: &Arguments) -> Result<Config, Vec<Problem>> {
    let Arguments {
        agents,
        listen,
        public_url,
        admin,
    } = arguments;
    let listen = listen.unwrap_or(DEFAULT_LISTEN);
    let mut problems = Vec::new();
    let mut urls = Vec::new();
    for (index, text) in agents.iter().enumerate() {
        match Url::parse(text) {
            Ok(url) => urls.push(url),
            Err(faults) => problems.extend(
                faults
                    .into_iter()
                    .map(|fault| Problem::new(place("--agent", index), fault)),
            ),
        }
    }
    if agents.is_empty() {
        problems.push(Problem::new("--agent", "needs at least one URL"));
    }
    if listen.ip().is_unspecified() && public_url.is_none() {
        problems.push(Problem::new(
            "--public-url",
            format!(
                "is required with `--listen {listen}`: cards name the address that callers use, and this is none; \
                 write e.g. `--public-url http://agents.example.com:{}`",
                listen.port()
            ),
        ));
    }
    if urls.is_empty() {
        // Stands in for those that are wrong, so that the other arguments are looked at.
        urls.extend(Url::parse("http://localhost/"));
    }
    let mut taken = BTreeSet::new();
    let names: Vec<String> = urls.iter().map(|url| check::unused(&mut taken, &name(url))).collect();
    let listed: Vec<serde_json::Value> = urls
        .iter()
        .zip(&names)
        .map(|(url, name)| {
            let path = match urls.len() {
                1 => "/".to_owned(),
                _ => format!("/agents/{name}"),
            };
            serde_json::json!({
                "name": name,
                "path": path,
                "upstream": { "endpoints": [{ "url": url.text() }] },
            })
        })
        .collect();
    let admin = match admin {
        Some(address) => serde_json::json!({ "address": address.to_string() }),
        None => serde_json::json!({}),
    };
    let raw = serde_json::json!({
        "admin": admin,
        "public_url": public_url.clone().unwrap_or_else(|| format!("http://{listen}")),
        "listeners": [{ "name": "default", "address": listen.to_string() }],
        "state": { "store": "memory" },
        "agents": listed,
    });
    let checked = match serde_json::from_value::<Raw>(raw) {
        Ok(raw) => check::check(&raw, Path::new(""), Places::default(), Vec::new(), &Spares::default()),
        Err(error) => return Err(vec![Problem::new("--agent", error.to_string())]),
    };
    match checked {
        Ok(config) if problems.is_empty() => Ok(config),
        Ok(_) => Err(problems),
        Err(invalid) => {
            problems.extend(in_arguments(invalid.problems));
            Err(problems)
        }
    }
}

/// Nobody wrote a file: what is wrong with its keys was said with arguments.
fn in_arguments(mut problems: Vec<Problem>) -> Vec<Problem> {
    for problem in &mut problems {
        if problem.key.starts_with("listeners") {
            problem.key = "--listen".to_owned();
        } else if problem.key == "public_url" {
            problem.key = "--public-url".to_owned();
        }
        problem.cause = problem.cause.replace("admin.address", "--admin");
    }
    problems
}

/// `localhost-9999`; the characters of an IPv6 address that a path would not show well are left out.
fn name(url: &Url) -> String {
    let host = url.host.trim_start_matches('[').trim_end_matches(']');
    let host = host.trim_start_matches(':').replace(':', "-");
    match url.port {
        Some(port) => format!("{host}-{port}"),
        None => host,
    }
}
