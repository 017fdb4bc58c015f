//! `kill -9` of the program in the middle of a storm of calls: what a caller was told of stays, whatever the moment.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::process::Signal;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::binary::{file, ready};
use super::program::Program;
use crate::harness::{Agent, KEY, agent, config_of, of_task, post, send};

const ROUNDS: usize = 6;
/// A longer storm: `A2A_GATEWAY_TEST_STORM_ROUNDS=200 cargo test --test e2e storm`.
const LONGER: &str = "A2A_GATEWAY_TEST_STORM_ROUNDS";
const CALLERS: usize = 8;

/// The task that a call was answered with; `None` once the gateway is gone.
async fn made(address: SocketAddr) -> Option<String> {
    let mut stream = TcpStream::connect(address).await.ok()?;
    let body = send("1", "x");
    let request = format!(
        "POST /agent HTTP/1.1\r\nhost: a\r\nx-api-key: {KEY}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.ok()?;
    let text = String::from_utf8(answer).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    // Told is what has come whole.
    let length: usize = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: ")?.parse().ok())?;
    let json: serde_json::Value = serde_json::from_str(body.get(..length)?).ok()?;
    Some(json["result"]["task"]["id"].as_str().expect("a task").to_owned())
}

#[tokio::test]
async fn every_task_that_a_caller_was_told_of_is_found_after_kill() {
    let rounds = std::env::var_os(LONGER).map_or(ROUNDS, |text| {
        let number = text.to_str().and_then(|text| text.parse().ok());
        number.expect("a number of rounds")
    });
    let replica = |name: &'static str| {
        let count = AtomicUsize::new(0);
        agent::tasks(move || format!("{name}-{}", count.fetch_add(1, Ordering::SeqCst)))
    };
    let (a, b) = (Agent::start(replica("a")).await, Agent::start(replica("b")).await);
    let folder = tempfile::tempdir().unwrap();
    let state = format!(
        "state: {{ store: embedded, path: \"{}/state\" }}",
        folder.path().display()
    );
    let yaml = config_of(&[a.address, b.address], "", "").replace("state: { store: memory }", &state);
    let config = file(&folder, &yaml);
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let mut looked_at = 0;
    for round in 0..=rounds {
        let mut gateway = Program::gateway(["run", "--config", config.to_str().unwrap()]);
        let (public, admin) = gateway.addresses().await;
        ready(admin).await;
        // What was told just before the end, and some of what was told long ago.
        let all = told.lock().unwrap().clone();
        let old = (0..10)
            .filter(|_| looked_at > 0)
            .map(|_| all[fastrand::usize(..looked_at)].clone());
        for task in all[looked_at..].iter().cloned().chain(old) {
            let home = if task.starts_with('a') { &a } else { &b };
            let before = home.received().len();
            let got = post(public, "/agent", &of_task("GetTask", &task)).await;
            assert_eq!(
                got.json()["result"]["id"],
                task.as_str(),
                "round {round}: {}",
                got.text()
            );
            assert_eq!(
                home.received().len(),
                before + 1,
                "round {round}: {task} is at home there"
            );
        }
        looked_at = all.len();
        if round == rounds {
            break;
        }
        let over = Arc::new(AtomicBool::new(false));
        let callers: Vec<_> = (0..CALLERS)
            .map(|_| {
                let (told, over) = (told.clone(), over.clone());
                tokio::spawn(async move {
                    while !over.load(Ordering::SeqCst) {
                        match made(public).await {
                            Some(task) => told.lock().unwrap().push(task),
                            None => break,
                        }
                    }
                })
            })
            .collect();
        // Any moment of the storm will do; none is waited for.
        tokio::time::sleep(Duration::from_micros(fastrand::u64(..200_000))).await;
        gateway.signal(Signal::KILL);
        assert_eq!(gateway.end().await.code, None, "round {round}: it was killed");
        over.store(true, Ordering::SeqCst);
        for caller in callers {
            caller.await.expect("a caller");
        }
    }
    assert!(looked_at > 0, "somebody was told of something");
}
