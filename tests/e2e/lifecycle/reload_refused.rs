//! Configurations that a running gateway refuses: nothing of them counts, and all that is wrong is said.

use std::net::TcpListener;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::process::Signal;
use serde_json::Value;

use super::binary::{file, ready};
use super::program::Program;
use super::reload::replace;
use super::reload_agents::{Desk, yaml};
use crate::harness::redis::Server;
use crate::harness::{Agent, KEY_HASH, agent, eventually, get, of_task, post, send};

#[tokio::test]
async fn a_file_with_a_mistake_changes_nothing() {
    let (a, b) = (
        Agent::start(agent::tasks(|| "t".to_owned())).await,
        Agent::start(agent::tasks(|| "t".to_owned())).await,
    );
    let good = yaml(&[("a", &[a.address], "")], "");
    let desk = Desk::of(&good).await;
    // Each has another agent, too.
    let next = yaml(&[("b", &[b.address], "")], "");
    let broken = [
        String::new(),
        next.replace("agents:", "agents: ["),
        next.replace("agents:", "agnets:"),
        next.replace("state: { store: memory }", "state: { store: memory, path: /x }"),
        next.replace("security: [ { key: [] } ]", "security: [ { other: [] } ]"),
        next.replace(
            "address: \"127.0.0.1:0\" } ]\nadmin",
            "address: \"127.0.0.1:0\", tls: { certificate: no.crt, private_key: no.key } } ]\nadmin",
        ),
        next.replace("keys: [", "keys_file: no.yaml, keys: ["),
        yaml(&[("b", &[b.address], "body_bytes: much")], ""),
        yaml(&[("b", &[b.address], ""), ("b", &[a.address], "")], ""),
        yaml(&[("b", &[b.address], "card: { url: \"nowhere\" }")], ""),
    ];
    for text in &broken {
        desk.refuse(text).await;
        assert_eq!((desk.status("/a").await, desk.status("/b").await), (200, 404), "{text}");
    }
    let metrics = get(desk.gateway.admin, "/metrics").await.text();
    assert!(
        !metrics.contains("agent=\"b\""),
        "what was refused leaves no trace: {metrics}"
    );
    desk.apply(&next).await;
    desk.answers("/b").await;
}

#[tokio::test]
async fn a_refused_configuration_counts_once_the_file_that_it_lacks_is_there() {
    let (a, b) = (
        Agent::start(agent::tasks(|| "t".to_owned())).await,
        Agent::start(agent::tasks(|| "t".to_owned())).await,
    );
    let desk = Desk::of(&yaml(&[("a", &[a.address], "")], "")).await;
    let inline = format!("keys: [ {{ id: tester, hash: \"{KEY_HASH}\" }} ]");
    let next = yaml(&[("b", &[b.address], "")], "").replace(&inline, "keys_file: keys.yaml");
    desk.refuse(&next).await;
    replace(desk.folder.path(), "keys.yaml", &format!("{inline}\n"));
    desk.answers("/b").await;
    assert_eq!(desk.status("/a").await, 404);
}

#[tokio::test]
async fn a_file_that_is_gone_changes_nothing() {
    let a = Agent::start(agent::tasks(|| "t".to_owned())).await;
    let desk = Desk::of(&yaml(&[("a", &[a.address], "")], "")).await;
    std::fs::remove_file(desk.path()).unwrap();
    assert!(!desk.gateway.reload().await);
    assert_eq!(desk.status("/a").await, 200);
}

#[tokio::test]
async fn an_address_that_cannot_be_bound_refuses_everything() {
    let (a, b) = (
        Agent::start(agent::tasks(|| "t".to_owned())).await,
        Agent::start(agent::tasks(|| "t".to_owned())).await,
    );
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let desk = Desk::of(&yaml(&[("a", &[a.address], "")], "")).await;
    let next = yaml(&[("b", &[b.address], "")], "").replace(
        "\"127.0.0.1:0\" } ]\nadmin",
        &format!(
            "\"127.0.0.1:0\" }}, {{ name: second, address: \"127.0.0.1:0\" }}, {{ name: taken, address: \"{}\" }} ]\nadmin",
            taken.local_addr().unwrap()
        ),
    );
    desk.refuse(&next).await;
    assert_eq!((desk.status("/a").await, desk.status("/b").await), (200, 404));
    assert_eq!(desk.gateway.listener("second"), None);
    drop(taken);
    desk.apply(&next).await;
    desk.answers("/b").await;
    assert!(desk.gateway.listener("taken").is_some());
}

/// Asks the program to take this text, which it refuses because of this key.
async fn refuses(gateway: &Program, path: &Path, text: &str, key: &str) {
    std::fs::write(path, text).unwrap();
    gateway.signal(Signal::HUP);
    let said = format!("\"problem\":\"{key} (line ");
    let line = || {
        gateway
            .stderr()
            .lines()
            .find(|line| line.contains(&said))
            .map(str::to_owned)
    };
    eventually(&format!("a reload is refused because of {key}"), || {
        let refused = line().is_some();
        async move { refused }
    })
    .await;
    let line: Value = serde_json::from_str(&line().expect("it was there")).unwrap();
    let problem = line["problem"].as_str().unwrap();
    assert!(
        problem.ends_with("cannot change while the gateway runs: restart it, or put the old value back"),
        "{problem}"
    );
}

#[tokio::test]
async fn what_is_read_at_the_start_only_refuses_a_reload_and_is_named() {
    let a = Agent::start(agent::tasks(|| "t".to_owned())).await;
    let folder = tempfile::tempdir().unwrap();
    let good = yaml(&[("a", &[a.address], "")], "workers: 2");
    let path = file(&folder, &good);
    let mut gateway = Program::gateway(["run", "--config", path.to_str().unwrap()]);
    let (public, admin) = gateway.addresses().await;
    ready(admin).await;
    let changes = [
        ("workers", "workers: 2", "workers: 1"),
        (
            "admin.address",
            "admin: { address: \"127.0.0.1:0\" }",
            "admin: { address: \"127.0.0.2:0\" }",
        ),
        ("admin.enabled", "admin: { address", "admin: { enabled: false, address"),
        ("log.format", "log: { format: json }", "log: { format: text }"),
        (
            "state.store",
            "state: { store: memory }",
            "state: { store: embedded, path: state }",
        ),
        ("state.max_tasks", "store: memory }", "store: memory, max_tasks: 7 }"),
        ("state.retention", "store: memory }", "store: memory, retention: 1h }"),
    ];
    for (key, before, after) in changes {
        let text = good.replace(before, after).replace("path: /a", "path: /other");
        refuses(&gateway, &path, &text, key).await;
        assert_eq!(post(public, "/a", &send("1", "x")).await.status, 200, "{key}");
    }
    std::fs::write(
        &path,
        good.replace("log: { format: json }", "log: { format: json, level: error }")
            .replace("path: /a", "path: /other"),
    )
    .unwrap();
    gateway.signal(Signal::HUP);
    eventually("what can change does", || async {
        post(public, "/other", &send("1", "x")).await.status == 200
    })
    .await;
    let ended = gateway.terminate().await;
    assert_eq!(ended.code, Some(0));
    assert!(ended.stderr.contains("configuration applied"), "{}", ended.stderr);
    assert!(
        !ended.stderr.contains("drained;"),
        "the level of the log is another one: {}",
        ended.stderr
    );
}

#[tokio::test]
async fn another_shared_store_refuses_a_reload_and_the_one_of_the_start_is_used_on() {
    let count = AtomicUsize::new(0);
    let a = Agent::start(agent::tasks(move || {
        format!("t{}", count.fetch_add(1, Ordering::SeqCst))
    }))
    .await;
    let (server, other) = (Server::start(), Server::start());
    let _set: String = server.ask(&["ACL", "SETUSER", "gateway", "on", ">first", "~*", "&*", "+@all"]);
    let folder = tempfile::tempdir().unwrap();
    replace(folder.path(), "password", "first\n");
    let url = format!("url: \"{}\"", server.url());
    let shared = format!("store: redis, redis: {{ {url}, username: gateway, password_file: password, timeout: 5s }}");
    let good = yaml(&[("a", &[a.address], "")], "").replace("store: memory", &shared);
    let path = file(&folder, &good);
    let mut gateway = Program::gateway(["run", "--config", path.to_str().unwrap()]);
    let (public, admin) = gateway.addresses().await;
    ready(admin).await;
    let another = format!("url: \"{}\"", other.url());
    let cluster = format!("cluster: [ \"{}\" ]", server.url());
    let changes = [
        ("state.store", shared.as_str(), "store: memory"),
        ("state.redis", &url, &cluster),
        ("state.redis.url", &url, &another),
        ("state.redis.timeout", "timeout: 5s", "timeout: 6s"),
        ("state.redis.cache_ttl", "timeout: 5s", "timeout: 5s, cache_ttl: 7s"),
        (
            "state.redis.key_prefix",
            "timeout: 5s",
            "timeout: 5s, key_prefix: \"b2b:\"",
        ),
        ("state.redis.username", "username: gateway, ", ""),
    ];
    for (round, (key, before, after)) in changes.into_iter().enumerate() {
        let text = good.replace(before, after).replace("path: /a", "path: /other");
        refuses(&gateway, &path, &text, key).await;
        let task = post(public, "/a", &send("1", "x")).await.json();
        assert_eq!(task["result"]["task"]["id"], format!("t{round}"), "{key}: {task}");
        let written = format!("a2a:t:a:t{round}");
        assert!(server.records().contains(&written), "{key}: {:?}", server.records());
    }
    let nothing: Vec<String> = other.ask(&["KEYS", "*"]);
    assert!(nothing.is_empty(), "the other one was not asked: {nothing:?}");

    // A password's file may hold another one: it is read for each new connection.
    replace(folder.path(), "password", "second\n");
    std::fs::write(&path, good.replace("path: /a", "path: /other")).unwrap();
    gateway.signal(Signal::HUP);
    eventually("what can change does", || async {
        post(public, "/other", &send("1", "x")).await.status == 200
    })
    .await;
    let got = post(public, "/other", &of_task("GetTask", "t0")).await.json();
    assert_eq!(got["result"]["id"], "t0", "{got}");
    assert_eq!(gateway.terminate().await.code, Some(0));
}

#[tokio::test]
async fn without_a_file_the_configuration_stays() {
    let a = Agent::start(agent::tasks(|| "t".to_owned())).await;
    let url = format!("http://{}/", a.address);
    let arguments = [
        "run",
        "--agent",
        &url,
        "--listen",
        "127.0.0.1:0",
        "--admin",
        "127.0.0.1:0",
    ];
    let mut gateway = Program::gateway(arguments);
    let (public, admin) = gateway.addresses().await;
    ready(admin).await;
    gateway.signal(Signal::HUP);
    eventually("it was asked", || async {
        get(admin, "/metrics")
            .await
            .text()
            .contains("a2a_gateway_reloads_total{result=\"ok\"} 1")
    })
    .await;
    assert_eq!(post(public, "/", &send("1", "x")).await.status, 200);
    assert_eq!(gateway.terminate().await.code, Some(0));
}
