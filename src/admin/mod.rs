//! The admin listener: health, readiness, metrics, the running configuration, records of tasks and
//! contexts, the agents, their endpoints and their cards.
//!
//! It has no authentication of its own: keep it on loopback or on a network of operators. What changes something is a POST
//! of `application/json`, which no page in an operator's browser can send here unasked. It answers until the very end of a
//! drain, so that an orchestrator sees why the gateway is not ready.

mod agents;
mod cards;
mod endpoints;
mod fragments;
mod records;

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::{Value, json};

use self::records::Place;
use crate::card::CardState;
use crate::config::{self, Config, Fragments};
use crate::drain::Drain;
use crate::http::body::{Bounds, read_whole};
use crate::listener::Bound;
use crate::parse;
use crate::pipeline::{Agent, Current};

/// A few probes and one scraper; the bound keeps a loop in a dashboard from taking the gateway's descriptors.
pub const CONNECTIONS: usize = 64;
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
const NOT_JSON: &str = "the content type must be application/json";
/// A change is one name.
const MAX_BODY: usize = 16 * 1024;

pub struct Admin {
    pub current: Arc<Current>,
    pub config: Arc<ArcSwap<Config>>,
    pub fragments: Arc<ArcSwap<Fragments>>,
    pub drain: Drain,
}

/// Serves until dropped.
pub async fn serve(admin: Arc<Admin>, mut socket: Bound) {
    loop {
        let Ok(accepted) = socket.accept().await else { continue };
        let (admin, drain) = (admin.clone(), admin.drain.clone());
        let client = accepted.address.ip();
        drain.service(async move {
            let service = service_fn(move |request| {
                let admin = admin.clone();
                async move { Ok::<_, Infallible>(admin.answer(client, request).await) }
            });
            let mut builder = hyper::server::conn::http1::Builder::new();
            builder.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
            // What breaks here is the operator's connection; the next probe makes a new one.
            let _ended = builder.serve_connection(TokioIo::new(accepted.stream), service).await;
            drop(accepted.slot);
        });
    }
}

impl Admin {
    async fn answer(&self, client: IpAddr, request: Request<Incoming>) -> Response<Full<Bytes>> {
        match *request.method() {
            Method::GET | Method::HEAD => self.show(request.uri().path()).await,
            Method::POST if endpoints::is_place(request.uri().path()) => {
                let (parts, _) = request.into_parts();
                endpoints::change(&self.current.load(), client, &parts)
            }
            Method::POST if cards::is_place(request.uri().path()) => {
                let (parts, _) = request.into_parts();
                cards::change(&self.current.load(), client, &parts)
            }
            Method::POST => match body(request).await {
                Ok((path, body)) => self.change(client, &path, &body).await,
                Err((status, cause)) => json_answer(status, &json!({ "error": cause })),
            },
            _ => json_answer(
                StatusCode::METHOD_NOT_ALLOWED,
                &json!({ "error": "only GET, and POST for what changes something" }),
            ),
        }
    }

    async fn show(&self, path: &str) -> Response<Full<Bytes>> {
        match path {
            "/health" => json_answer(StatusCode::OK, &json!({ "status": "ok" })),
            "/ready" => self.ready(),
            "/metrics" => self.metrics(),
            "/config" => json_answer(StatusCode::OK, &config::redacted(&self.config.load())),
            fragments::PATH => fragments::show(&self.fragments.load(), &self.config.load()),
            agents::PATH => agents::list(&self.current.load(), &self.config.load()),
            path if endpoints::is_place(path) => endpoints::show(&self.current.load().agents, path),
            path if cards::is_place(path) => cards::show(&self.current.load().agents, path),
            path => match Place::of(path) {
                Some(place) => records::show(&self.current.load().affinity.clone(), &place).await,
                None => no_such_place(),
            },
        }
    }

    async fn change(&self, client: IpAddr, path: &str, body: &Value) -> Response<Full<Bytes>> {
        match path.strip_suffix("/owner").and_then(Place::of) {
            Some(place) => records::transfer(&self.current.load(), client, &place, body).await,
            None => no_such_place(),
        }
    }

    /// Ready once every agent was asked for its card and at least one answered: one dead agent must not take the others
    /// out of a load balancer. Not ready while draining, or while no key can be verified.
    fn ready(&self) -> Response<Full<Bytes>> {
        let pipeline = self.current.load();
        let agents = &pipeline.agents;
        let asked = agents.iter().all(|agent| {
            agent.speaks_envelope || !matches!(*agent.card.state(), CardState::NotFetched { last_error: None })
        });
        let waiting = pipeline.verifiers.waiting_for();
        let draining = self.drain.is_draining();
        let ready = asked && waiting.is_empty() && !draining && agents.iter().any(|agent| agent.is_ready());
        let status = if ready {
            StatusCode::OK
        } else {
            StatusCode::SERVICE_UNAVAILABLE
        };
        let stats = pipeline.affinity.stats();
        let states: serde_json::Map<String, Value> = agents
            .iter()
            .map(|agent| (agent.metrics.name.to_string(), agent_state(agent)))
            .collect();
        json_answer(
            status,
            &json!({
                "ready": ready,
                "draining": draining,
                "schemes_without_keys": waiting,
                "store_degraded": stats.degraded,
                "store_recovering": stats.recovering,
                "store_outage": pipeline.affinity.outage(),
                "audit_degraded": pipeline.observer.audit.stats().failing,
                "fragments_refused": self.fragments.load().refused.len(),
                "agents": states,
            }),
        )
    }

    fn metrics(&self) -> Response<Full<Bytes>> {
        let pipeline = self.current.load();
        let metrics = &pipeline.observer.metrics;
        for agent in &pipeline.agents {
            agent.metrics.ready.set(i64::from(agent.is_ready()));
            let differs = agent.card.approval().differing().is_some();
            agent.metrics.card_unapproved.set(i64::from(differs));
        }
        let stats = pipeline.affinity.stats();
        metrics.tasks.set(signed(stats.tasks));
        metrics.contexts.set(signed(stats.contexts));
        metrics.aliases.set(signed(stats.aliases));
        metrics.journal_bytes.set(signed(stats.journal_bytes));
        metrics.evicted_finished.set(signed(stats.evicted_finished));
        metrics.evicted_live.set(signed(stats.evicted_live));
        metrics.evicted_aliases.set(signed(stats.evicted_aliases));
        metrics.store_write_errors.set(signed(stats.write_errors));
        metrics.store_unwritten.set(signed(stats.unwritten));
        metrics.store_dropped.set(signed(stats.dropped));
        let audit = pipeline.observer.audit.stats();
        metrics.audit_sequence.set(signed(audit.sequence));
        metrics.audit_queued.set(signed(audit.waiting));
        metrics.audit_lost.set(signed(audit.lost));
        metrics.audit_degraded.set(i64::from(audit.failing));
        let exported = pipeline.observer.audit.outbox().stats();
        metrics.audit_exported.set(signed(exported.sent));
        metrics.audit_export_queued.set(signed(exported.waiting));
        metrics.audit_export_lost.set(signed(exported.lost));
        metrics.store_degraded.set(i64::from(stats.degraded));
        metrics.store_recovering.set(i64::from(stats.recovering));
        endpoints::measure(&self.current.load().agents);
        match metrics.render() {
            Ok(text) => answer(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", text),
            Err(error) => {
                tracing::error!(%error, "metrics cannot be rendered");
                json_answer(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    &json!({ "error": "metrics cannot be rendered" }),
                )
            }
        }
    }
}

fn agent_state(agent: &Agent) -> Value {
    match &*agent.card.state() {
        _ if agent.speaks_envelope => json!({ "ready": agent.is_ready() }),
        CardState::Ready { last_error, card } => json!({
            "ready": agent.is_ready(),
            "card": card.place,
            "last_error": last_error.as_deref(),
        }),
        CardState::NotFetched { last_error } => json!({ "ready": false, "last_error": last_error.as_deref() }),
        CardState::OutOfService { reason } => json!({ "ready": false, "out_of_service": &**reason }),
    }
}

/// What cannot be recorded is not changed.
fn unrecorded() -> Response<Full<Bytes>> {
    json_answer(
        StatusCode::SERVICE_UNAVAILABLE,
        &json!({ "error": "the audit trail cannot be written, and `audit.on_full` is `block`" }),
    )
}

fn no_such_place() -> Response<Full<Bytes>> {
    json_answer(
        StatusCode::NOT_FOUND,
        &json!({ "error": "not found", "paths": [
            "/health", "/ready", "/metrics", "/config", "/fragments",
            "/cards", "/cards/{agent}/diff", "POST /cards/{agent}/approve",
            "/tasks/{agent}/{id}", "/contexts/{agent}/{id}", "/agents", "/agents/{agent}/endpoints",
            "POST /tasks/{agent}/{id}/owner", "POST /contexts/{agent}/{id}/owner",
            "POST /agents/{agent}/endpoints/drain?url={url}", "POST /agents/{agent}/endpoints/undrain?url={url}",
        ] }),
    )
}

/// The path and the JSON of a change.
async fn body(request: Request<Incoming>) -> Result<(String, Value), (StatusCode, &'static str)> {
    let (parts, body) = request.into_parts();
    if !parse::is_json(&parts) {
        return Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, NOT_JSON));
    }
    let bounds = Bounds {
        bytes: MAX_BODY,
        idle: Some(HEAD_TIMEOUT),
        whole: Some(HEAD_TIMEOUT),
    };
    let bytes = read_whole(body, bounds)
        .await
        .map_err(|_| (StatusCode::BAD_REQUEST, "the body is too large, or did not come"))?;
    let body = serde_json::from_slice(&bytes).map_err(|_| (StatusCode::BAD_REQUEST, "the body is not JSON"))?;
    Ok((parts.uri.path().to_owned(), body))
}

fn json_answer(status: StatusCode, value: &Value) -> Response<Full<Bytes>> {
    answer(status, "application/json", format!("{value:#}\n"))
}

fn answer(status: StatusCode, media_type: &'static str, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn signed(count: impl TryInto<i64>) -> i64 {
    count.try_into().unwrap_or(i64::MAX)
}
