//! A configuration without a file: one or more agents on this machine, for trying things out.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use super::check::{self, url::Url};
use super::model::Config;
use super::places::Places;
use super::raw::Raw;
use super::{Problem, place};

/// Loopback: what has no security of its own is not put on a network by default.
const DEFAULT_LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);

/// One agent is served at the root, several under `/agents/<name>`, named by host and port. Records are kept in memory;
/// what callers must show is what each agent's own card says.
pub fn from_agents(
    agents: &[String],
    listen: Option<SocketAddr>,
    admin: Option<SocketAddr>,
) -> Result<Config, Vec<Problem>> {
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
        "public_url": format!("http://{listen}"),
        "listeners": [{ "name": "default", "address": listen.to_string() }],
        "state": { "store": "memory" },
        "agents": listed,
    });
    let checked = match serde_json::from_value::<Raw>(raw) {
        Ok(raw) => check::check(&raw, Path::new(""), Places::default(), Vec::new()),
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

/// Nobody wrote a file: what is wrong with its only listener was said with `--listen`.
fn in_arguments(mut problems: Vec<Problem>) -> Vec<Problem> {
    for problem in &mut problems {
        if problem.key.starts_with("listeners") || problem.key == "public_url" {
            problem.key = "--listen".to_owned();
        }
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
