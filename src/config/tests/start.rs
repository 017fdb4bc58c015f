//! A configuration without a file.

use std::path::Path;

use super::super::{AgentRoute, Environment, Store, from_agents, load, render};

#[test]
fn one_agent_without_a_file_is_at_the_root() {
    let config = from_agents(&["http://localhost:9999".to_owned()], None, None).unwrap();
    assert_eq!(config.public_url, "http://127.0.0.1:8080");
    assert_eq!(config.listeners[0].address.to_string(), "127.0.0.1:8080");
    assert!(matches!(config.state.store, Store::Memory));
    let agent = &config.agents[0];
    assert_eq!(
        (agent.name.as_str(), &agent.route),
        ("localhost-9999", &AgentRoute::Path(String::new()))
    );
    assert_eq!(agent.upstream.endpoints[0].url, "http://localhost:9999/");
    assert_eq!(agent.security, None, "the card decides");
    assert_eq!(config.admin.unwrap().address.to_string(), "127.0.0.1:9901");
}

#[test]
fn the_admin_listener_without_a_file_can_be_elsewhere() {
    let admin = "127.0.0.1:9902".parse().unwrap();
    let config = from_agents(&["http://localhost:9999".to_owned()], None, Some(admin)).unwrap();
    assert_eq!(config.admin.unwrap().address, admin);
}

#[test]
fn several_agents_without_a_file_have_names() {
    let agents: Vec<String> = [
        "http://localhost:1",
        "http://localhost:1/other",
        "https://a.example.com",
        "http://[::1]:2",
        "http://[2001:db8::1]",
    ]
    .map(str::to_owned)
    .into();
    let config = from_agents(&agents, Some("0.0.0.0:9000".parse().unwrap()), None).unwrap();
    assert_eq!(config.listeners[0].address.to_string(), "0.0.0.0:9000");
    let routes: Vec<String> = config
        .agents
        .iter()
        .map(|agent| match &agent.route {
            AgentRoute::Path(path) => path.clone(),
            AgentRoute::Host(host) => panic!("{host}"),
        })
        .collect();
    assert_eq!(
        routes,
        [
            "/agents/localhost-1",
            "/agents/localhost-1-2",
            "/agents/a.example.com",
            "/agents/1-2",
            "/agents/2001-db8--1",
        ]
    );
}

#[test]
fn bad_agents_without_a_file() {
    let check = |agents: &[&str], listen: Option<&str>, expected: &str| {
        let agents: Vec<String> = agents.iter().map(|text| (*text).to_owned()).collect();
        let problems = from_agents(&agents, listen.map(|text| text.parse().unwrap()), None).unwrap_err();
        assert_eq!(render(&problems), expected);
    };
    check(&[], None, "--agent: needs at least one URL\n");
    check(
        &["localhost:1", "http://u:hunter2@a"],
        None,
        "--agent[0]: must be an absolute URL with `http://` or `https://`\n\
         --agent[1]: must not contain user information (`user:password@`); credentials have their own keys\n",
    );
    check(
        &["http://a"],
        Some("127.0.0.1:9901"),
        "--listen: `127.0.0.1:9901` cannot be bound beside admin.address\n",
    );
}

#[test]
fn a_file_that_is_not_there() {
    let problems = load(Path::new("/nonexistent/gateway.yaml"), &Environment::default()).unwrap_err();
    assert_eq!(
        render(&problems),
        "configuration: cannot read /nonexistent/gateway.yaml: No such file or directory (os error 2)\n"
    );
}
