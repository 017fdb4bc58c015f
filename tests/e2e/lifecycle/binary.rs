//! The program's commands: what each prints and the exit code that it ends with.

use std::net::TcpListener;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;

use super::program::{Ended, Program};
use crate::harness::{Agent, Reply, agent, call, config_of, get, post, send};

pub async fn run(arguments: &[&str]) -> Ended {
    Program::gateway(arguments).end().await
}

pub fn file(folder: &TempDir, text: &str) -> PathBuf {
    let path = folder.path().join("gateway.yaml");
    std::fs::write(&path, text).unwrap();
    path
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[tokio::test]
async fn the_version() {
    let ended = run(&["--version"]).await;
    assert_eq!(ended.code, Some(0));
    assert_eq!(ended.stdout, concat!("a2a-gateway ", env!("CARGO_PKG_VERSION"), "\n"));
}

#[tokio::test]
async fn help_shows_examples_and_exit_codes() {
    let ended = run(&["--help"]).await;
    assert_eq!(ended.code, Some(0));
    for part in [
        "a2a-gateway run --config gateway.yaml",
        "a2a-gateway demo",
        "SIGHUP",
        "64 invalid configuration",
    ] {
        assert!(ended.stdout.contains(part), "{part} is missing:\n{}", ended.stdout);
    }
}

#[tokio::test]
async fn every_command_has_help() {
    for command in [
        "run",
        "check",
        "explain",
        "schema",
        "demo",
        "health",
        "key",
        "key new",
        "key hash",
        "key list",
        "audit",
        "audit verify",
    ] {
        let arguments: Vec<_> = command.split(' ').chain(["--help"]).collect();
        let ended = run(&arguments).await;
        assert_eq!(ended.code, Some(0), "{command}");
        assert!(ended.stdout.contains("Usage: a2a-gateway "), "{}", ended.stdout);
    }
}

#[tokio::test]
async fn wrong_arguments_end_with_2() {
    for arguments in [
        &["serve"][..],
        &["run"],
        &["run", "--listen", "127.0.0.1:0"],
        &["run", "--config", "a", "--agent", "http://a"],
        &["check"],
    ] {
        let ended = run(arguments).await;
        assert_eq!(ended.code, Some(2), "{arguments:?}: {}", ended.stderr);
        assert!(ended.stderr.contains("Usage:"), "{arguments:?}: {}", ended.stderr);
    }
}

#[tokio::test]
async fn check_says_that_a_good_file_is_good_and_binds_nothing() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let yaml = config_of(&[taken.local_addr().unwrap()], "", "")
        .replace("127.0.0.1:0", &taken.local_addr().unwrap().to_string())
        .replace("admin: {", "admin: { enabled: false, ");
    let path = file(&folder, &yaml);
    let ended = run(&["check", "--config", text(&path)]).await;
    assert_eq!(
        (ended.code, ended.stdout.as_str()),
        (Some(0), "the configuration is valid\n"),
        "{}",
        ended.stderr
    );
}

#[tokio::test]
async fn check_lists_every_fault_in_one_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(
        &folder,
        "public_url: nowhere\n\
         drain: 5\n\
         listeners: [ { name: public, adress: \"127.0.0.1:0\" } ]\n\
         agents: [ { name: a, path: a, upstream: { endpoints: [] } } ]\n",
    );
    let ended = run(&["check", "--config", text(&path)]).await;
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(64), ""));
    for fault in [
        "public_url (line 1): ",
        "drain (line 2): `5` has no unit",
        "listeners[0].adress (line 3): unknown key; did you mean `address`?",
        "agents[0].path (line 4): ",
        "agents[0].upstream.endpoints (line 4): ",
    ] {
        assert!(ended.stderr.contains(fault), "{fault} is missing:\n{}", ended.stderr);
    }
}

#[tokio::test]
async fn check_lists_every_bad_file_in_one_run() {
    let folder = tempfile::tempdir().unwrap();
    let yaml = config_of(&[([127, 0, 0, 1], 1).into()], "", "").replace(
        "address: \"127.0.0.1:0\" } ]",
        "address: \"127.0.0.1:0\", tls: { certificate: no.crt, private_key: no.key } } ]",
    );
    let schemes = "security_schemes:\n  people: { type: http, scheme: basic, users_file: no.yaml }\n";
    let path = file(&folder, &yaml.replace("security_schemes:\n", schemes));
    let ended = run(&["check", "--config", text(&path)]).await;
    assert_eq!(ended.code, Some(64), "{}", ended.stderr);
    for file in ["no.crt", "no.key", "no.yaml"] {
        assert!(ended.stderr.contains(file), "{file} is missing:\n{}", ended.stderr);
    }
}

#[tokio::test]
async fn run_refuses_an_invalid_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder, "agents: []\n");
    let ended = run(&["run", "--config", text(&path)]).await;
    assert_eq!(ended.code, Some(64), "{}", ended.stderr);
    assert!(ended.stderr.contains("public_url: "), "{}", ended.stderr);
}

#[tokio::test]
async fn run_refuses_a_file_that_is_not_there() {
    let ended = run(&["run", "--config", "/nonexistent/gateway.yaml"]).await;
    assert_eq!(ended.code, Some(64));
    assert!(
        ended.stderr.contains("cannot read /nonexistent/gateway.yaml"),
        "{}",
        ended.stderr
    );
}

#[tokio::test]
async fn the_schema_is_a_json_schema() {
    let ended = run(&["schema"]).await;
    assert_eq!(ended.code, Some(0));
    let schema: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert!(
        schema["$schema"]
            .as_str()
            .unwrap()
            .starts_with("https://json-schema.org/")
    );
    assert!(schema["properties"]["listeners"].is_object());
}

#[tokio::test]
async fn an_address_in_use_ends_with_69() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let folder = tempfile::tempdir().unwrap();
    for place in ["listeners: [ { name: public, address: \"", "admin: { address: \""] {
        let yaml = config_of(&[([127, 0, 0, 1], 1).into()], "", "")
            .replace(&format!("{place}127.0.0.1:0"), &format!("{place}{address}"));
        let path = file(&folder, &yaml);
        let ended = run(&["run", "--config", text(&path)]).await;
        assert_eq!(ended.code, Some(69), "{}", ended.stderr);
        assert!(
            ended.stderr.contains(&address) && ended.stderr.contains("another process or listener holds the port"),
            "{}",
            ended.stderr
        );
    }
}

#[tokio::test]
async fn a_store_in_use_ends_with_74_and_the_first_gateway_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let yaml =
        config_of(&[([127, 0, 0, 1], 1).into()], "", "").replace("store: memory", "store: embedded, path: state");
    let path = file(&folder, &yaml);
    let mut first = Program::gateway(["run", "--config", text(&path)]);
    let (_, admin) = first.addresses().await;
    let ended = run(&["run", "--config", text(&path)]).await;
    assert_eq!(ended.code, Some(74), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("another process uses the state folder"),
        "{}",
        ended.stderr
    );
    assert_eq!(get(admin, "/health").await.status, 200);
    assert_eq!(first.terminate().await.code, Some(0));
    let mut next = Program::gateway(["run", "--config", text(&path)]);
    next.addresses().await;
    assert_eq!(next.terminate().await.code, Some(0), "the store is free again");
}

#[tokio::test]
async fn a_damaged_store_ends_with_74_and_opens_with_recover() {
    let agent = Agent::start(agent::tasks(|| format!("task-{:064}", 1))).await;
    let folder = tempfile::tempdir().unwrap();
    let yaml = config_of(&[agent.address], "", "").replace("store: memory", "store: embedded, path: state");
    let path = file(&folder, &yaml);
    let mut first = Program::gateway(["run", "--config", text(&path)]);
    let (public, admin) = first.addresses().await;
    ready(admin).await;
    assert_eq!(post(public, "/agent", &send("1", "x")).await.status, 200);
    assert_eq!(first.terminate().await.code, Some(0));
    damage(&folder.path().join("state"));
    let ended = run(&["run", "--config", text(&path)]).await;
    assert_eq!(ended.code, Some(74), "{}", ended.stderr);
    assert!(ended.stderr.contains("--recover"), "{}", ended.stderr);
    let mut again = Program::gateway(["run", "--config", text(&path), "--recover"]);
    again.addresses().await;
    assert_eq!(again.terminate().await.code, Some(0));
    let mut next = Program::gateway(["run", "--config", text(&path)]);
    next.addresses().await;
    assert_eq!(next.terminate().await.code, Some(0), "what was recovered is whole");
}

/// Turns the first bytes of every file of the store around.
fn damage(folder: &std::path::Path) {
    let mut damaged = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "log") {
            let mut bytes = std::fs::read(&path).unwrap();
            bytes.iter_mut().take(4).for_each(|byte| *byte ^= 0xFF);
            std::fs::write(&path, bytes).unwrap();
            damaged += 1;
        }
    }
    assert!(damaged > 0, "the store has no files");
}

#[tokio::test]
async fn an_agent_is_served_without_a_file() {
    let agent = Agent::start(agent::tasks(|| "t".to_owned())).await;
    let url = format!("http://{}/", agent.address);
    let arguments = ["--agent", &url, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
    let mut gateway = Program::gateway(["run"].iter().chain(&arguments));
    let (public, admin) = gateway.addresses().await;
    ready(admin).await;
    // The fake agent's card asks for nothing.
    let got = call(
        public,
        "POST",
        "/",
        &[("content-type", "application/json")],
        &send("1", "x"),
    )
    .await;
    assert_eq!(
        (got.status, got.json()["result"]["task"]["id"].as_str()),
        (200, Some("t")),
        "{}",
        got.text()
    );
    let card = get(public, "/.well-known/agent-card.json").await.json();
    let url = &card["supportedInterfaces"][0]["url"];
    assert_eq!(*url, format!("http://{public}/"), "where it really listens");
    assert_eq!(gateway.terminate().await.code, Some(0));
}

#[tokio::test]
async fn the_environment_names_the_file_unless_an_argument_does() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder, "agents: []\n");
    let from_file = |ended: &Ended| ended.code == Some(64) && ended.stderr.contains("agents (line 1): needs at least");
    let ended = Program::with_variable(text(&path), ["run"]).end().await;
    assert!(from_file(&ended), "{}", ended.stderr);
    let ended = Program::with_variable("/nonexistent", ["run", "--config", text(&path)]);
    let ended = ended.end().await;
    assert!(from_file(&ended), "{}", ended.stderr);
    let ended = Program::with_variable("", ["run"]).end().await;
    assert_eq!(ended.code, Some(2), "an empty variable names nothing: {}", ended.stderr);

    let agent = Agent::start(agent::tasks(|| "t".to_owned())).await;
    let url = format!("http://{}/", agent.address);
    let arguments = [
        "run",
        "--agent",
        &url,
        "--listen",
        "127.0.0.1:0",
        "--admin",
        "127.0.0.1:0",
    ];
    let mut gateway = Program::with_variable(text(&path), arguments);
    let (public, admin) = gateway.addresses().await;
    ready(admin).await;
    assert_eq!(get(public, "/.well-known/agent-card.json").await.status, 200);
    assert_eq!(gateway.terminate().await.code, Some(0));
}

#[tokio::test]
async fn cards_of_a_gateway_on_every_address_say_the_public_url() {
    let agent = Agent::start(agent::tasks(|| "t".to_owned())).await;
    let url = format!("http://{}/", agent.address);
    let arguments = [
        "run",
        "--agent",
        &url,
        "--listen",
        "0.0.0.0:0",
        "--admin",
        "127.0.0.1:0",
    ];
    let ended = run(&arguments).await;
    assert_eq!(ended.code, Some(64), "{}", ended.stderr);
    assert!(
        ended
            .stderr
            .contains("write e.g. `--public-url http://agents.example.com:"),
        "{}",
        ended.stderr
    );
    let public_url = ["--public-url", "https://agents.example.com"];
    let mut gateway = Program::gateway(arguments.iter().chain(&public_url));
    let (public, admin) = gateway.addresses().await;
    ready(admin).await;
    let card = get(([127, 0, 0, 1], public.port()).into(), "/.well-known/agent-card.json").await;
    assert_eq!(
        card.json()["supportedInterfaces"][0]["url"],
        "https://agents.example.com/"
    );
    assert_eq!(gateway.terminate().await.code, Some(0));
}

#[tokio::test]
async fn several_agents_are_served_without_a_file() {
    let one = Agent::start(agent::tasks(|| "one".to_owned())).await;
    let two = Agent::start(agent::tasks(|| "two".to_owned())).await;
    let urls = [one.address, two.address].map(|address| format!("http://{address}/"));
    let arguments = [
        "--listen",
        "127.0.0.1:0",
        "--admin",
        "127.0.0.1:0",
        "--agent",
        &urls[0],
        "--agent",
        &urls[1],
    ];
    let mut gateway = Program::gateway(["run"].iter().chain(&arguments));
    let (public, admin) = gateway.addresses().await;
    ready(admin).await;
    for (agent, task) in [(&one, "one"), (&two, "two")] {
        let path = format!("/agents/127.0.0.1-{}", agent.address.port());
        crate::harness::eventually("the agent is in service", || async {
            post(public, &path, &send("1", "x")).await.status == 200
        })
        .await;
        let got = post(public, &path, &send("1", "x")).await;
        assert_eq!(got.json()["result"]["task"]["id"], task, "{}", got.text());
    }
    assert_eq!(gateway.terminate().await.code, Some(0));
}

/// The lines that the demo prints to be copied: those that call.
fn printed(guide: &str, about: &str) -> String {
    let mut lines = guide.lines().skip_while(|line| *line != format!("# {about}")).skip(1);
    let line = lines.next().unwrap_or_else(|| panic!("{about} is missing:\n{guide}"));
    assert!(line.starts_with("curl "), "{line}");
    line.to_owned()
}

#[tokio::test]
async fn the_demo_prints_calls_that_work() {
    let mut demo = Program::gateway(["demo", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
    let (_, admin) = demo.addresses().await;
    ready(admin).await;
    crate::harness::eventually("the guide is printed", || {
        let whole = demo.stdout().contains("Stop with Ctrl-C.\n");
        async move { whole }
    })
    .await;
    let guide = demo.stdout();

    let card = Program::shell(&printed(&guide, "the published card")).end().await;
    let card: Value = serde_json::from_str(&card.stdout).unwrap();
    assert_eq!(card["name"], "Echo");
    assert!(
        guide.contains(card["supportedInterfaces"][0]["url"].as_str().unwrap()),
        "the card names the gateway: {card}"
    );

    let refused = Program::shell(&printed(&guide, "a call without a credential is refused"));
    let refused: Value = serde_json::from_str(&refused.end().await.stdout).unwrap();
    assert_eq!(refused["error"]["code"], -31401);

    let answer = Program::shell(&printed(&guide, "a call")).end().await;
    let answer: Value = serde_json::from_str(&answer.stdout).unwrap();
    let text = &answer["result"]["task"]["artifacts"][0]["parts"][0]["text"];
    assert_eq!(text, "you said: hello", "{answer}");

    let stream = Program::shell(&printed(&guide, "a stream")).end().await;
    assert_eq!(stream.code, Some(0), "curl saw a clean end: {}", stream.stderr);
    let events: Vec<&str> = stream
        .stdout
        .lines()
        .filter(|line| line.starts_with("data: "))
        .collect();
    assert_eq!(events.len(), 7, "a task, five counts, the end: {}", stream.stdout);
    assert!(events[6].contains("TASK_STATE_COMPLETED"), "{}", events[6]);

    let seen = Program::shell(&printed(&guide, "what the operator sees")).end().await;
    let seen: Value = serde_json::from_str(&seen.stdout).unwrap();
    assert_eq!(seen["ready"], true);

    demo.signal(rustix::process::Signal::INT);
    assert_eq!(demo.end().await.code, Some(0), "Ctrl-C");
}

#[tokio::test]
async fn health_asks_a_running_gateway() {
    let folder = tempfile::tempdir().unwrap();
    let agent = Agent::start(|_| Reply::Silence).await;
    let path = file(&folder, &config_of(&[agent.address], "", ""));
    let mut gateway = Program::gateway(["run", "--config", text(&path)]);
    let (_, admin) = gateway.addresses().await;
    ready(admin).await;
    let admin = admin.to_string();
    assert_eq!(run(&["health", "--admin", &admin]).await.code, Some(0));
    assert_eq!(run(&["health", "--ready", "--admin", &admin]).await.code, Some(0));
    assert_eq!(gateway.terminate().await.code, Some(0));
    let ended = run(&["health", "--admin", &admin]).await;
    assert_eq!(ended.code, Some(1), "nobody listens any more");
    assert!(ended.stderr.contains(&admin), "{}", ended.stderr);
}

#[tokio::test]
async fn health_tells_alive_from_ready() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder, &config_of(&[([127, 0, 0, 1], 1).into()], "", ""));
    let mut gateway = Program::gateway(["run", "--config", text(&path)]);
    let (_, admin) = gateway.addresses().await;
    let admin = admin.to_string();
    assert_eq!(run(&["health", "--admin", &admin]).await.code, Some(0));
    let ended = run(&["health", "--ready", "--admin", &admin]).await;
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(1), "not healthy\n"));
    assert_eq!(gateway.terminate().await.code, Some(0));
}

#[tokio::test]
async fn agents_lists_those_of_a_running_gateway() {
    let folder = tempfile::tempdir().unwrap();
    let agent = Agent::start(|_| Reply::Silence).await;
    let yaml = config_of(&[agent.address], "listed: callers", "catalogue: {}");
    let path = file(&folder, &yaml);
    let mut gateway = Program::gateway(["run", "--config", text(&path)]);
    let (_, admin) = gateway.addresses().await;
    ready(admin).await;
    let admin = admin.to_string();
    let listed = run(&["agents", "--admin", &admin]).await;
    assert_eq!(listed.code, Some(0), "{}", listed.stderr);
    let lines: Vec<Vec<&str>> = listed
        .stdout
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(
        lines[0],
        ["AGENT", "STATE", "LISTED", "NAME", "VERSIONS", "BINDINGS", "URL"]
    );
    let url = "https://gateway.example/agent";
    assert_eq!(
        lines[1..],
        [vec![
            "agent",
            "ready",
            "callers",
            "Fake",
            "0.3,1.0",
            "JSONRPC,HTTP+JSON",
            url
        ]]
    );

    // The file says where the admin listener is.
    let named = file(
        &folder,
        &yaml.replace(
            "admin: { address: \"127.0.0.1:0\" }",
            &format!("admin: {{ address: \"{admin}\" }}"),
        ),
    );
    let json = run(&["agents", "--config", text(&named), "--json"]).await;
    assert_eq!(json.code, Some(0), "{}", json.stderr);
    let list: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(list["agents"][0]["entry"]["url"], url);

    assert_eq!(gateway.terminate().await.code, Some(0));
    let ended = run(&["agents", "--admin", &admin]).await;
    assert_eq!(ended.code, Some(1), "nobody listens any more");
    assert!(ended.stderr.contains(&admin), "{}", ended.stderr);
    let none = file(
        &folder,
        &yaml.replace("admin: { address: \"127.0.0.1:0\" }", "admin: { enabled: false }"),
    );
    let ended = run(&["agents", "--config", text(&none)]).await;
    assert_eq!(
        (ended.code, ended.stderr.as_str()),
        (Some(64), "the configuration has no admin listener, which would tell\n")
    );
    let both = run(&["agents", "--config", text(&none), "--admin", &admin]).await;
    assert_eq!(both.code, Some(2));
}

pub async fn ready(admin: std::net::SocketAddr) {
    crate::harness::eventually("the gateway is ready", || async {
        get(admin, "/ready").await.status == 200
    })
    .await;
}
