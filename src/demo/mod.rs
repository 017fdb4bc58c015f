//! Two small agents for `a2a-gateway demo`: one echoes, one counts in a stream. A2A 1.0 over JSON-RPC, loopback only.
//!
//! They exist so that a newcomer sees the gateway work before there is an agent to put it in front of. Not for anything else:
//! tasks are kept in memory, the oldest forgotten.
#![expect(
    clippy::indexing_slicing,
    reason = "an index into a JSON value gives null for what is not there"
)]

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use uuid::Uuid;

use crate::drain::Drain;
use crate::http::body::{Bounds, read_whole};

/// The key of the demo: worthless, because it is printed and stands here.
pub const KEY: &str = "demo-key";
const KEPT: usize = 1000;
const MAX_BODY: usize = 1024 * 1024;
const COUNT_TO: u32 = 5;
const PAUSE: Duration = Duration::from_millis(400);

/// Running demo agents.
pub struct Agents {
    pub echo: SocketAddr,
    pub counter: SocketAddr,
    drain: Drain,
}

impl Agents {
    pub async fn start() -> std::io::Result<Self> {
        let drain = Drain::new();
        let echo = start(Kind::Echo, &drain).await?;
        let counter = start(Kind::Counter, &drain).await?;
        Ok(Self { echo, counter, drain })
    }

    pub async fn stop(self) {
        self.drain.run(Duration::ZERO, Duration::from_millis(100)).await;
    }
}

/// The configuration of the demo gateway, in the words that a user would write.
pub fn config(listen: SocketAddr, admin: &str, agents: &Agents) -> String {
    let hash = hex(aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, KEY.as_bytes()).as_ref());
    let Agents { echo, counter, .. } = agents;
    format!(
        r#"public_url: http://{listen}
listeners:
  - {{ name: public, address: "{listen}" }}
admin: {{ address: "{admin}" }}
state: {{ store: memory }}
security_schemes:
  demo-key: {{ type: apiKey, in: header, name: X-API-Key, keys: [ {{ id: demo, hash: "sha256:{hash}" }} ] }}
security: [ {{ demo-key: [] }} ]
agents:
  - name: echo
    path: /agents/echo
    upstream: {{ endpoints: [ {{ url: "http://{echo}/" }} ] }}
    limits: [ {{ per: principal, rate: 60/min, burst: 20 }} ]
  - name: counter
    path: /agents/counter
    upstream: {{ endpoints: [ {{ url: "http://{counter}/" }} ] }}
    limits: [ {{ per: principal, open_streams: 10 }} ]
"#
    )
}

/// What the demo prints: lines to copy.
pub fn guide(base: &str, admin: &str) -> String {
    let send = |method: &str, text: &str| {
        json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": { "message": {
            "messageId": "m1", "role": "ROLE_USER", "parts": [ { "text": text } ] } } })
    };
    let curl = format!("curl -sN -H 'X-API-Key: {KEY}' -H 'Content-Type: application/json' -H 'A2A-Version: 1.0'");
    format!(
        "a2a-gateway demo: two agents behind {base}\n\n\
         # the published card\n\
         curl -s {base}/agents/echo/.well-known/agent-card.json\n\n\
         # a call without a credential is refused\n\
         curl -s -X POST {base}/agents/echo\n\n\
         # a call\n\
         {curl} -d '{}' {base}/agents/echo\n\n\
         # a stream\n\
         {curl} -d '{}' {base}/agents/counter\n\n\
         # what the operator sees\n\
         curl -s http://{admin}/ready\n\
         curl -s http://{admin}/metrics | grep calls_total\n\n\
         Stop with Ctrl-C.\n",
        send("SendMessage", "hello"),
        send("SendStreamingMessage", "count"),
    )
}

#[derive(Clone, Copy)]
enum Kind {
    Echo,
    Counter,
}

struct Agent {
    kind: Kind,
    address: SocketAddr,
    tasks: Mutex<VecDeque<Value>>,
}

async fn start(kind: Kind, drain: &Drain) -> std::io::Result<SocketAddr> {
    let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = socket.local_addr()?;
    let agent = Arc::new(Agent {
        kind,
        address,
        tasks: Mutex::default(),
    });
    let connections = drain.clone();
    drain.service(async move {
        while let Ok((stream, _)) = socket.accept().await {
            let agent = agent.clone();
            connections.service(async move {
                let service = service_fn(move |request| {
                    let agent = agent.clone();
                    async move { Ok::<_, Infallible>(agent.answer(request).await) }
                });
                let mut builder = hyper::server::conn::http1::Builder::new();
                builder.timer(TokioTimer::new());
                let _ended = builder.serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
    Ok(address)
}

impl Agent {
    async fn answer(&self, request: Request<Incoming>) -> Response<UnsyncBoxBody<Bytes, Infallible>> {
        if request.method() == Method::GET && request.uri().path() == "/.well-known/agent-card.json" {
            return whole(StatusCode::OK, &self.card());
        }
        if request.method() != Method::POST {
            return whole(StatusCode::NOT_FOUND, &json!({ "error": "not found" }));
        }
        let bounds = Bounds {
            bytes: MAX_BODY,
            idle: Some(Duration::from_secs(5)),
            whole: None,
        };
        let call = read_whole(request.into_body(), bounds)
            .await
            .ok()
            .and_then(|body| serde_json::from_slice::<Value>(&body).ok())
            .unwrap_or_default();
        let answer = |result: Value| json!({ "jsonrpc": "2.0", "id": call["id"], "result": result });
        let failure = |code: i64, message: &str| json!({ "jsonrpc": "2.0", "id": call["id"], "error": { "code": code, "message": message } });
        let text = call["params"]["message"]["parts"][0]["text"]
            .as_str()
            .unwrap_or_default();
        match (self.kind, call["method"].as_str().unwrap_or_default()) {
            (_, "SendMessage") => {
                let done = self.keep(task("TASK_STATE_COMPLETED", &format!("you said: {text}")));
                whole(StatusCode::OK, &answer(json!({ "task": done })))
            }
            (Kind::Counter, "SendStreamingMessage") => {
                let task = self.keep(task("TASK_STATE_WORKING", ""));
                let (id, context) = (task["id"].clone(), task["contextId"].clone());
                let mut events = vec![answer(json!({ "task": task }))];
                events.extend((1..=COUNT_TO).map(|count| {
                    answer(
                        json!({ "artifactUpdate": { "taskId": id, "contextId": context, "append": count > 1,
                        "artifact": { "artifactId": "count", "parts": [ { "text": count.to_string() } ] } } }),
                    )
                }));
                events.push(answer(json!({ "statusUpdate": { "taskId": id, "contextId": context,
                    "status": { "state": "TASK_STATE_COMPLETED" } } })));
                self.finish(&id);
                streamed(events)
            }
            (_, "GetTask") => {
                let kept = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
                match kept.iter().find(|task| task["id"] == call["params"]["id"]) {
                    Some(task) => whole(StatusCode::OK, &answer(task.clone())),
                    None => whole(StatusCode::OK, &failure(-32001, "Task not found")),
                }
            }
            _ => whole(StatusCode::OK, &failure(-32004, "This operation is not supported")),
        }
    }

    fn keep(&self, task: Value) -> Value {
        let mut kept = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() == KEPT {
            kept.pop_front();
        }
        kept.push_back(task.clone());
        task
    }

    fn finish(&self, id: &Value) {
        let mut kept = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(task) = kept.iter_mut().find(|task| task["id"] == *id) {
            task["status"]["state"] = json!("TASK_STATE_COMPLETED");
        }
    }

    fn card(&self) -> Value {
        let (name, description, skill) = match self.kind {
            Kind::Echo => ("Echo", "Repeats what it is told.", "echo"),
            Kind::Counter => ("Counter", "Counts to five, in a stream.", "count"),
        };
        json!({
            "name": name,
            "description": description,
            "version": env!("CARGO_PKG_VERSION"),
            "supportedInterfaces": [
                { "url": format!("http://{}/", self.address), "protocolBinding": "JSONRPC", "protocolVersion": "1.0" },
            ],
            "capabilities": { "streaming": matches!(self.kind, Kind::Counter) },
            "defaultInputModes": ["text/plain"],
            "defaultOutputModes": ["text/plain"],
            "skills": [ { "id": skill, "name": name, "description": description, "tags": ["demo"] } ],
        })
    }
}

fn task(state: &str, text: &str) -> Value {
    json!({
        "id": Uuid::new_v4().to_string(),
        "contextId": Uuid::new_v4().to_string(),
        "status": { "state": state },
        "artifacts": [ { "artifactId": "answer", "parts": [ { "text": text } ] } ],
    })
}

fn whole(status: StatusCode, value: &Value) -> Response<UnsyncBoxBody<Bytes, Infallible>> {
    let mut response = Response::new(Full::new(Bytes::from(value.to_string())).boxed_unsync());
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn streamed(events: Vec<Value>) -> Response<UnsyncBoxBody<Bytes, Infallible>> {
    let events = stream::unfold(events.into_iter().enumerate(), |mut left| async move {
        let (place, event) = left.next()?;
        if place > 0 {
            tokio::time::sleep(PAUSE).await;
        }
        Some((Ok(Frame::data(Bytes::from(format!("data: {event}\n\n")))), left))
    });
    let mut response = Response::new(StreamBody::new(events).boxed_unsync());
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    response
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
