//! The running program and its signals: SIGTERM and SIGINT drain, SIGHUP reads files again.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;

use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;
use tokio::net::UnixDatagram;
use tokio::sync::mpsc;

use super::binary::{file, ready};
use super::drain::request;
use super::program::Program;
use crate::faults::{CREDENTIAL, JSON};
use crate::harness::agent::{Agent, Reply, task_event};
use crate::harness::client::{PATIENCE, open, read};
use crate::harness::{KEY_HASH, agent, call, config_of, eventually, get, post, send};

fn run(path: &Path) -> Program {
    Program::gateway(["run", "--config", path.to_str().unwrap()])
}

/// What a test has to keep: the agent, and the folder of the configuration.
type Site = (Agent, TempDir);

/// A program before an agent whose first call is a stream that the test feeds.
async fn streaming(top: &str) -> (Site, Program, SocketAddr, SocketAddr, mpsc::Sender<Option<String>>) {
    let (events, chunks) = mpsc::channel(16);
    let chunks = Mutex::new(Some(chunks));
    let agent = Agent::start(move |_| match chunks.lock().unwrap().take() {
        Some(chunks) => Reply::Stream(chunks),
        None => Reply::Silence,
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let mut gateway = run(&file(&folder, &config_of(&[agent.address], "", top)));
    let (public, admin) = gateway.addresses().await;
    ready(admin).await;
    ((agent, folder), gateway, public, admin, events)
}

#[tokio::test]
async fn sigterm_and_sigint_end_an_idle_gateway_with_0() {
    for signal in [Signal::TERM, Signal::INT] {
        let agent = Agent::start(agent::tasks(|| "t".to_owned())).await;
        let folder = tempfile::tempdir().unwrap();
        let mut gateway = run(&file(&folder, &config_of(&[agent.address], "", "")));
        let (public, admin) = gateway.addresses().await;
        ready(admin).await;
        assert_eq!(post(public, "/agent", &send("1", "x")).await.status, 200);
        gateway.signal(signal);
        let ended = gateway.end().await;
        assert_eq!(ended.code, Some(0), "{signal:?}: {}", ended.stderr);
        assert!(
            ended.stderr.contains("drained; every call finished"),
            "{}",
            ended.stderr
        );
        let records: Vec<Value> = ended
            .stdout
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(records.len(), 1, "the access record is written before the end");
        assert_eq!(records[0]["outcome"], "ok");
    }
}

#[tokio::test]
async fn sigterm_waits_for_a_stream_that_ends_in_time() {
    let (_site, gateway, public, admin, events) = streaming("").await;
    events.send(Some(task_event("1", "t"))).await.unwrap();
    let response = open(public, "POST", "/agent", &[JSON, CREDENTIAL], &request()).await;
    gateway.signal(Signal::TERM);
    eventually("it drains", || async {
        get(admin, "/ready").await.json()["draining"] == true
    })
    .await;
    events.send(Some(task_event("1", "t"))).await.unwrap();
    drop(events);
    assert_eq!(read(response).await, (task_event("1", "t").repeat(2), true));
    let ended = gateway.end().await;
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("drained; every call finished"),
        "{}",
        ended.stderr
    );
}

#[tokio::test]
async fn sigterm_ends_a_stream_at_the_deadline_and_says_so() {
    let (_site, gateway, public, _, events) = streaming("drain: 300ms").await;
    events.send(Some(task_event("1", "t"))).await.unwrap();
    let response = open(public, "POST", "/agent", &[JSON, CREDENTIAL], &request()).await;
    gateway.signal(Signal::TERM);
    assert_eq!(read(response).await, (task_event("1", "t"), false));
    let ended = gateway.end().await;
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("the drain deadline passed"), "{}", ended.stderr);
    let record: Value = serde_json::from_str(ended.stdout.lines().next().unwrap()).unwrap();
    assert_eq!(record["outcome"], "drained");
}

/// Reloads by their result, as the metrics have them.
async fn reloads(admin: SocketAddr, result: &str) -> f64 {
    let line = format!("a2a_gateway_reloads_total{{result=\"{result}\"}} ");
    let text = get(admin, "/metrics").await.text();
    let found = text.lines().find_map(|known| known.strip_prefix(&line)?.parse().ok());
    found.unwrap_or_default()
}

#[tokio::test]
async fn sighup_reads_files_again_and_the_gateway_goes_on() {
    let (_site, gateway, public, admin, events) = streaming("").await;
    events.send(Some(task_event("1", "t"))).await.unwrap();
    let response = open(public, "POST", "/agent", &[JSON, CREDENTIAL], &request()).await;
    for count in 1..=3 {
        gateway.signal(Signal::HUP);
        eventually("files are read again", || async {
            reloads(admin, "ok").await == f64::from(count)
        })
        .await;
    }
    events.send(Some(task_event("1", "t"))).await.unwrap();
    drop(events);
    assert_eq!(
        read(response).await,
        (task_event("1", "t").repeat(2), true),
        "the stream was not touched"
    );
    assert_eq!(gateway.terminate().await.code, Some(0));
}

#[tokio::test]
async fn sighup_with_a_broken_file_keeps_the_old_keys_and_the_log_says_why() {
    let agent = Agent::start(agent::tasks(|| "t".to_owned())).await;
    let folder = tempfile::tempdir().unwrap();
    let keys = folder.path().join("keys.yaml");
    std::fs::write(&keys, format!("keys: [ {{ id: tester, hash: \"{KEY_HASH}\" }} ]\n")).unwrap();
    let yaml = config_of(&[agent.address], "", "").replace(
        &format!("keys: [ {{ id: tester, hash: \"{KEY_HASH}\" }} ]"),
        "keys_file: keys.yaml",
    );
    let mut gateway = run(&file(&folder, &yaml));
    let (public, admin) = gateway.addresses().await;
    ready(admin).await;
    std::fs::write(&keys, "keys: [ { id: tester, hash: \"sha256:very-secret\" } ]\n").unwrap();
    gateway.signal(Signal::HUP);
    eventually("the file is refused", || async {
        reloads(admin, "refused").await >= 1.0
    })
    .await;
    assert_eq!(
        post(public, "/agent", &send("1", "x")).await.status,
        200,
        "the old key is good"
    );
    let other = call(
        public,
        "POST",
        "/agent",
        &[JSON, ("x-api-key", "other")],
        &send("1", "x"),
    )
    .await;
    assert_eq!(other.status, 401);
    let ended = gateway.terminate().await;
    assert_eq!(ended.code, Some(0));
    let mut lines = ended.stderr.lines();
    let line = lines.find(|line| line.contains("problem")).expect("a line");
    assert!(lines.any(|line| line.contains("reload refused")), "{}", ended.stderr);
    let line: Value = serde_json::from_str(line).unwrap();
    let problem = line["problem"].as_str().unwrap();
    assert!(
        problem.starts_with("security_schemes.key.keys_file (line "),
        "{problem}"
    );
    assert!(!ended.stderr.contains("very-secret"), "{}", ended.stderr);
}

#[tokio::test]
async fn the_service_manager_hears_of_the_start_of_reloads_and_of_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder, &config_of(&[([127, 0, 0, 1], 1).into()], "", ""));
    let socket = folder.path().join("notify");
    let manager = UnixDatagram::bind(&socket).unwrap();
    let heard = async || {
        let mut text = [0; 256];
        let length = tokio::time::timeout(PATIENCE, manager.recv(&mut text))
            .await
            .expect("in time")
            .unwrap();
        String::from_utf8_lossy(&text[..length]).into_owned()
    };
    let mut command = Command::new(env!("CARGO_BIN_EXE_a2a-gateway"));
    command
        .args(["run", "--config"])
        .arg(&path)
        .env("NOTIFY_SOCKET", &socket);
    let mut gateway = Program::start(command);
    assert_eq!(heard().await.trim_end(), "READY=1");
    // From here on a signal is the gateway's own business.
    gateway.signal(Signal::HUP);
    let reloading = heard().await;
    assert!(
        reloading.starts_with("RELOADING=1\n") && reloading.contains("MONOTONIC_USEC="),
        "{reloading}"
    );
    assert_eq!(heard().await.trim_end(), "READY=1");
    gateway.addresses().await;
    gateway.signal(Signal::TERM);
    assert_eq!(heard().await.trim_end(), "STOPPING=1");
    assert_eq!(gateway.end().await.code, Some(0));
}
