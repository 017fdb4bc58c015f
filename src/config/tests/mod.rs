//! What is read arrives: units, URLs, environment, defaults, inheritance, redaction. Mistakes are in `tests/config.rs`.

mod environment;
mod fragments;
mod generated;
mod running;
mod secrets;
mod start;
mod units;
mod values;

use std::path::Path;

use super::{Agent, Config, parse, render};

const BASE: &str = "
public_url: https://Agents.Example.com:443/base/
listeners: [ { name: public, address: 127.0.0.1:0, trusted_proxies: [ 10.0.0.5, 10.1.2.3/16 ] } ]
";

fn good(text: &str, variables: &[(&str, &str)]) -> Config {
    let environment = variables.iter().copied().collect();
    let text = format!("{BASE}{text}");
    parse(&text, Path::new("/etc/gateway"), &environment)
        .unwrap_or_else(|problems| panic!("{}\n{text}", render(&problems)))
}

fn one_agent(keys: &str) -> Agent {
    let text = format!("agents: [ {{ name: maps, upstream: {{ endpoints: [ {{ url: http://a }} ] }}, {keys} }} ]");
    good(&text, &[]).agents.remove(0)
}
