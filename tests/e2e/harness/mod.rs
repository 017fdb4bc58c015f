//! The real gateway in this process, on port 0, with fake agents around it and plain HTTP clients.

pub mod agent;
pub mod authority;
pub mod caller;
pub mod client;
pub mod grpc;
pub mod redis;
pub mod tasks;

use std::future::Future;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use a2a_gateway::app::{self, Bound};
use a2a_gateway::clock::Clock;
use a2a_gateway::config::{self, Environment};
use a2a_gateway::observe::access::AccessLog;

pub use agent::{Agent, Reply};
pub use client::{Answer, call, get, post};

/// The credential that `Gateway::of` asks for, and its hash.
pub const KEY: &str = "test-key";
pub const KEY_HASH: &str = "sha256:62af8704764faf8ea82fc61ce9c4c3908b6cb97d463a634e9e587d7c885db0ef";

/// For an agent whose tasks are everybody's.
pub const OPEN: &str = "policy: { task_owner: none }";

pub struct Gateway {
    pub address: SocketAddr,
    pub admin: SocketAddr,
    bound: Option<Bound>,
    log: Log,
}

pub struct Prepared {
    gateway: app::Prepared,
    log: Log,
}

impl Prepared {
    pub async fn start(self) -> Gateway {
        let bound = self.gateway.bind().await.unwrap_or_else(|error| panic!("{error:?}"));
        Gateway {
            address: bound.addresses[0],
            admin: bound.admin.expect("an admin listener"),
            bound: Some(bound),
            log: self.log,
        }
    }
}

/// What the access log holds.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    pub fn records(&self) -> Vec<serde_json::Value> {
        let log = self.0.lock().expect("log");
        String::from_utf8_lossy(&log)
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {line}")))
            .collect()
    }
}

impl Gateway {
    /// From configuration text; `listeners` and `admin` should have port 0.
    pub async fn start(yaml: &str) -> Self {
        Self::start_in(yaml, Path::new("/")).await
    }

    /// Relative paths of the text are below `base`.
    pub async fn start_in(yaml: &str, base: &Path) -> Self {
        Self::prepare(yaml, base).start().await
    }

    /// From a file, which a reload reads again.
    pub async fn from_file(path: &Path) -> Self {
        let environment = Environment::default();
        let config =
            config::load(path, &environment).unwrap_or_else(|problems| panic!("{}", config::render(&problems)));
        let mut prepared = Self::prepare_config(config);
        prepared.gateway = prepared.gateway.from_file(path.to_owned(), environment);
        prepared.start().await
    }

    /// Files are read, nothing runs.
    pub fn prepare(yaml: &str, base: &Path) -> Prepared {
        let config = config::parse(yaml, base, &Environment::default())
            .unwrap_or_else(|problems| panic!("{}\n{yaml}", config::render(&problems)));
        Self::prepare_config(config)
    }

    fn prepare_config(config: config::Config) -> Prepared {
        let log = Log::default();
        let sink = log.clone();
        let access = AccessLog::to(move |bytes| sink.0.lock().expect("log").extend_from_slice(bytes));
        let gateway = app::prepare(config, Clock::system(), Some(access)).unwrap_or_else(|error| panic!("{error:?}"));
        Prepared { gateway, log }
    }

    /// One agent at `/agent`, asking for `KEY`, ready. `more` is appended to the agent's keys (indent 4), `top` to the file.
    pub async fn of(endpoints: &[SocketAddr], more: &str, top: &str) -> Self {
        let gateway = Self::start(&config_of(endpoints, more, top)).await;
        gateway.ready().await;
        gateway
    }

    pub async fn ready(&self) {
        eventually("the gateway is ready", || async {
            get(self.admin, "/ready").await.status == 200
        })
        .await;
    }

    pub async fn metric(&self, line: &str) -> f64 {
        let text = get(self.admin, "/metrics").await.text();
        text.lines()
            .filter(|known| known.starts_with(line))
            .filter_map(|known| known.rsplit(' ').next()?.parse::<f64>().ok())
            .sum()
    }

    /// Access records so far, once there are at least `count`.
    pub async fn access(&self, count: usize) -> Vec<serde_json::Value> {
        eventually("the access records are written", || async {
            self.log.records().len() >= count
        })
        .await;
        self.log.records()
    }

    /// The access log, to be read after the gateway has ended.
    pub fn log(&self) -> Log {
        self.log.clone()
    }

    /// Reads everything again; whether it is in force.
    pub async fn reload(&self) -> bool {
        self.bound().reloader.reload().await
    }

    /// Where a listener is.
    pub fn listener(&self, name: &str) -> Option<SocketAddr> {
        let listening = self.bound().listening();
        listening
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, address)| *address)
    }

    /// Background jobs of the gateway.
    pub fn services(&self) -> usize {
        self.bound().services()
    }

    fn bound(&self) -> &Bound {
        self.bound.as_ref().expect("running")
    }

    /// Drains and ends. Returns whether everything finished by itself.
    pub async fn shutdown(mut self) -> bool {
        self.bound.take().expect("running").shutdown().await
    }
}

pub fn config_of(endpoints: &[SocketAddr], more: &str, top: &str) -> String {
    let endpoints: Vec<String> = endpoints
        .iter()
        .map(|address| format!("{{ url: \"http://{address}/\" }}"))
        .collect();
    format!(
        r#"
public_url: https://gateway.example
listeners: [ {{ name: public, address: "127.0.0.1:0" }} ]
admin: {{ address: "127.0.0.1:0" }}
state: {{ store: memory }}
log: {{ format: json }}
security_schemes:
  key: {{ type: apiKey, in: header, name: X-API-Key, keys: [ {{ id: tester, hash: "{KEY_HASH}" }} ] }}
security: [ {{ key: [] }} ]
agents:
  - name: agent
    path: /agent
    upstream: {{ endpoints: [ {} ] }}
    {more}
{top}
"#,
        endpoints.join(", ")
    )
}

/// The same text with more keys of the agent's upstream.
pub fn with_upstream(yaml: &str, settings: &str) -> String {
    yaml.replace("/\" } ] }\n", &format!("/\" }} ], {settings} }}\n"))
}

/// Waits, bounded, for a state that holds.
pub async fn eventually<F, W>(what: &str, mut holds: W)
where
    W: FnMut() -> F,
    F: Future<Output = bool>,
{
    for _ in 0..500 {
        if holds().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("not within 10 s: {what}");
}

/// A `SendMessage` of 1.0 with this JSON-RPC id and text.
pub fn send(id: &str, text: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"SendMessage","params":{{"message":{{"messageId":"m","role":"ROLE_USER","parts":[{{"text":"{text}"}}]}}}}}}"#
    )
}

/// A call of 1.0 that names a task.
pub fn of_task(method: &str, task: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":"c","method":"{method}","params":{{"id":"{task}"}}}}"#)
}
