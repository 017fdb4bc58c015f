//! A configuration without a file.

use std::path::Path;

use super::super::{AgentRoute, Arguments, Environment, Store, from_arguments, load, render};

fn of(agents: &[&str]) -> Arguments {
    Arguments {
        agents: agents.iter().map(|text| (*text).to_owned()).collect(),
        ..Arguments::default()
    }
}

fn address(text: &str) -> Option<std::net::SocketAddr> {
    Some(text.parse().unwrap())
}

#[test]
fn one_agent_without_a_file_is_at_the_root() {
    let config = from_arguments(&of(&["http://localhost:9999"])).unwrap();
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
    let config = from_arguments(&Arguments {
        admin: address("127.0.0.1:9902"),
        ..of(&["http://localhost:9999"])
    });
    assert_eq!(config.unwrap().admin.unwrap().address.to_string(), "127.0.0.1:9902");
}

#[test]
fn several_agents_without_a_file_have_names() {
    let agents = [
        "http://localhost:1",
        "http://localhost:1/other",
        "https://a.example.com",
        "http://[::1]:2",
        "http://[2001:db8::1]",
    ];
    let config = from_arguments(&Arguments {
        listen: address("127.0.0.1:9000"),
        ..of(&agents)
    })
    .unwrap();
    assert_eq!(config.listeners[0].address.to_string(), "127.0.0.1:9000");
    let routes: Vec<String> = config
        .agents
        .iter()
        .map(|agent| match &agent.route {
            AgentRoute::Path(path) => path.clone(),
            AgentRoute::Host(_) | AgentRoute::Envelope => panic!("{:?}", agent.route),
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
fn cards_without_a_file_say_the_public_url() {
    let config = from_arguments(&Arguments {
        listen: address("0.0.0.0:9000"),
        public_url: Some("https://Agents.example.com/base/".to_owned()),
        ..of(&["http://localhost:1"])
    })
    .unwrap();
    assert_eq!(config.listeners[0].address.to_string(), "0.0.0.0:9000");
    assert_eq!(config.public_url, "https://agents.example.com/base");
}

#[test]
fn bad_arguments_without_a_file() {
    let check = |arguments: &Arguments, expected: &str| {
        let problems = from_arguments(arguments).unwrap_err();
        assert_eq!(render(&problems), expected);
    };
    check(&of(&[]), "--agent: needs at least one URL\n");
    check(
        &of(&["localhost:1", "http://u:hunter2@a/?b"]),
        "--agent[0]: must be an absolute URL with `http://` or `https://`\n\
         --agent[1]: must not contain user information (`user:password@`); credentials have their own keys\n\
         --agent[1]: must not have a query\n",
    );
    check(
        &Arguments {
            listen: address("127.0.0.1:9901"),
            public_url: Some("agents.example.com".to_owned()),
            ..of(&["localhost:1", "http://a"])
        },
        "--agent[0]: must be an absolute URL with `http://` or `https://`\n\
         --public-url: must be an absolute URL with `http://` or `https://`\n\
         --listen: `127.0.0.1:9901` cannot be bound beside --admin\n",
    );
    for (listen, shown) in [
        ("0.0.0.0:80", "http://agents.example.com:80"),
        ("[::]:8080", "http://agents.example.com:8080"),
    ] {
        check(
            &Arguments {
                listen: address(listen),
                ..of(&["http://a"])
            },
            &format!(
                "--public-url: is required with `--listen {listen}`: cards name the address that callers use, and this is none; \
                 write e.g. `--public-url {shown}`\n"
            ),
        );
    }
}

#[test]
fn a_file_that_is_not_there() {
    let problems = load(Path::new("/nonexistent/gateway.yaml"), &Environment::default()).unwrap_err();
    assert_eq!(
        render(&problems),
        "configuration: cannot read /nonexistent/gateway.yaml: No such file or directory (os error 2)\n"
    );
}
