//! The running configuration as operators may see it: every value in force, in the words of the file, no secret.
//!
//! Built from the checked configuration, so that defaults show. Secrets are never read here, only named; hashes of keys
//! are blanked too, because short keys can be found from them.

mod limits;
mod policy;
mod security;

use std::fmt;
use std::path::Path;
use std::time::Duration;

use serde_json::{Map, Value, json};

use self::limits::rate_limit;
use self::security::{assertion, assertions, card_signatures, credential, scheme};
use super::Envelope;
use super::model::*;

use super::units::{Percent, Rate, Size, Time, Wait};
use crate::a2a::card::SkillPattern;
use crate::a2a::security::Security;
use crate::a2a::{Binding, v0_1};

const BLANK: &str = "[redacted]";
/// The same where brackets would not be a URL.
const HIDDEN: &str = "redacted";

/// URLs may hold secrets, too.
impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Config {}", redacted(self))
    }
}

pub fn redacted(config: &Config) -> Value {
    let schemes: Map<String, Value> = config
        .security_schemes
        .iter()
        .map(|(name, one)| (name.clone(), scheme(one)))
        .collect();
    let points: Map<String, Value> = (config.decision_points.iter())
        .map(|(name, one)| (name.clone(), policy::point(one)))
        .collect();
    let mut shown = json!({
        "public_url": config.public_url,
        "listeners": config.listeners.iter().map(listener).collect::<Vec<_>>(),
        "admin": match &config.admin {
            Some(admin) => json!({ "enabled": true, "address": admin.address.to_string() }),
            None => json!({ "enabled": false }),
        },
        "state": state(&config.state),
        "page_tokens": {
            "keys": config.page_tokens.keys.iter().map(|_| json!({ "value": BLANK })).collect::<Vec<_>>(),
            "lifetime": time(config.page_tokens.lifetime),
        },
        "push": push(&config.push),
        "envelope": config.envelope.as_ref().map(envelope),
        "assertions": assertions(&config.assertions),
        "card_signatures": card_signatures(&config.card_signatures),
        "cors": config.cors.as_ref().map(cors),
        "front_door": config.front_door.as_ref().map(front_door),
        "catalogue": config.catalogue.as_ref().map(catalogue),
        "revocations_file": config.revocations.as_deref().map(path),
        "limits": limits(&config.limits),
        "security_schemes": schemes,
        "decision_points": points,
        "agents": config.agents.iter().map(agent).collect::<Vec<_>>(),
        "agents_directory": config.agents_directory.as_deref().map(path),
        "log": {
            "format": match config.log.format {
                LogFormat::Text => "text",
                LogFormat::Json => "json",
            },
            "level": config.log.level,
            "access": config.log.access,
        },
        "audit": config.audit.as_ref().map(audit),
        "drain": time(config.drain),
        "workers": config.workers,
    });
    tidy(&mut shown);
    shown
}

fn front_door(front: &FrontDoor) -> Value {
    let rule = |rule: &FrontRule| json!({ "when": rule.when.source(), "agent": rule.agent });
    let mut shown = json!({
        "agents": front.agents,
        "card": front.card,
        "max_age": time(front.max_age),
        "metadata_key": front.metadata_key,
        "rules": front.rules.iter().map(rule).collect::<Vec<_>>(),
        "default": front.default,
        "limits": front.rate_limits.iter().map(rate_limit).collect::<Vec<_>>(),
    });
    route(&mut shown, &front.route);
    shown
}

fn cors(cors: &Cors) -> Value {
    let everybody = vec!["*".to_owned()];
    json!({
        "origins": if cors.origins.is_empty() { &everybody } else { &cors.origins },
        "max_age": time(cors.max_age),
    })
}

fn catalogue(catalogue: &Catalogue) -> Value {
    let (count, period) = catalogue.rate;
    json!({
        "path": catalogue.path,
        "page_size": catalogue.page_size,
        "max_page_size": catalogue.max_page_size,
        "max_age": time(catalogue.max_age),
        "rate": Rate { count, period }.to_string(),
    })
}

fn audit(audit: &Audit) -> Value {
    json!({
        "file": path(&audit.file),
        "key": audit.key.as_ref().map(|_| BLANK),
        "max_bytes": size(usize::try_from(audit.max_bytes).unwrap_or(usize::MAX)),
        "keep": audit.keep,
        "on_full": match audit.on_full {
            OnFull::Block => "block",
            OnFull::Drop => "drop",
        },
        "events": audit.events.iter().map(|event| event.as_str()).collect::<Vec<_>>(),
        "queue": audit.queue,
        "sync_interval": time(audit.sync_interval),
        "otlp": audit.otlp.as_ref().map(|collector| json!({
            "url": collector.url,
            "ca": collector.ca.as_deref().map(path),
            "header": collector.header.as_ref().map(|(name, _)| json!({ "name": name.as_str(), "value": BLANK })),
            "timeout": time(collector.timeout),
            "queue": collector.queue,
        })),
    })
}

fn listener(listener: &Listener) -> Value {
    json!({
        "name": listener.name,
        "address": listener.address.to_string(),
        "tls": listener.tls.as_ref().map(|tls| json!({
            "certificates": tls.certificates.iter().map(certificate).collect::<Vec<_>>(),
            "client_ca": tls.client_ca.as_deref().map(path),
            "client_crls": tls.client_crls.iter().map(|file| path(file)).collect::<Vec<_>>(),
            "client_certificates": match tls.client_certificates {
                ClientCertificates::Off => "off",
                ClientCertificates::Optional => "optional",
                ClientCertificates::Required => "required",
            },
            "min_version": match tls.min_version {
                TlsVersion::Tls12 => "1.2",
                TlsVersion::Tls13 => "1.3",
            },
        })),
        "trusted_proxies": listener.trusted_proxies.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "policy": { "allow": policy::rules(&listener.allow), "decision_point": listener.decision_point },
    })
}

fn certificate(files: &CertificateFiles) -> Value {
    json!({ "certificate": path(&files.certificate), "private_key": path(&files.private_key) })
}

fn state(state: &State) -> Value {
    let mut shown = match &state.store {
        Store::Memory => json!({ "store": "memory" }),
        Store::Embedded {
            path: folder,
            sync_interval,
        } => json!({
            "store": "embedded",
            "path": path(folder),
            "sync_interval": time(*sync_interval),
        }),
        Store::Redis(redis) => json!({ "store": "redis", "redis": shared(redis) }),
    };
    add(&mut shown, "max_tasks", state.max_tasks);
    add(&mut shown, "retention", time(state.retention));
    shown
}

fn shared(redis: &Redis) -> Value {
    let scheme = if redis.secure { "rediss" } else { "redis" };
    let url = |address: &RedisAddress| {
        if address.host.contains(':') {
            format!("{scheme}://[{}]:{}", address.host, address.port)
        } else {
            format!("{scheme}://{}:{}", address.host, address.port)
        }
    };
    let urls = |addresses: &[RedisAddress]| addresses.iter().map(url).collect::<Vec<_>>();
    let blank = |login: &RedisLogin| login.password.as_ref().map(|_| BLANK);
    let mut shown = json!({
        "database": redis.database,
        "username": redis.login.username,
        "password": blank(&redis.login),
        "tls": {
            "ca": redis.tls.ca.as_deref().map(path),
            "client_certificate": redis.tls.client.as_ref().map(|pair| path(&pair.certificate)),
            "client_private_key": redis.tls.client.as_ref().map(|pair| path(&pair.private_key)),
        },
        "timeout": time(redis.timeout),
        "connect_timeout": time(redis.connect_timeout),
        "cache_ttl": time(redis.cache_ttl),
        "key_prefix": redis.key_prefix,
    });
    match &redis.servers {
        RedisServers::Standalone(address) => add(&mut shown, "url", url(address)),
        RedisServers::Sentinel {
            sentinels,
            master,
            login,
        } => add(
            &mut shown,
            "sentinel",
            json!({
                "urls": urls(sentinels),
                "master": master,
                "username": login.username,
                "password": blank(login),
            }),
        ),
        RedisServers::Cluster(nodes) => add(&mut shown, "cluster", urls(nodes)),
    }
    shown
}

fn push(push: &Push) -> Value {
    let (count, period) = push.rate;
    json!({
        "keys": push.keys.iter().map(|_| json!({ "value": BLANK })).collect::<Vec<_>>(),
        "url": push.url,
        "hosts": push.hosts,
        "networks": push.networks.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "http": push.http,
        "ca": push.tls.ca.as_deref().map(path),
        "lifetime": time(push.lifetime),
        "timeout": time(push.timeout),
        "body_bytes": size(push.body_bytes),
        "concurrent": push.concurrent,
        "rate": Rate { count, period }.to_string(),
    })
}

fn limits(limits: &Limits) -> Value {
    let window = |bytes: u32| size(usize::try_from(bytes).unwrap_or(usize::MAX));
    json!({
        "tls_handshake": time(limits.tls_handshake),
        "request_header": time(limits.request_header),
        "request_body_idle": time(limits.request_body_idle),
        "request_body": time(limits.request_body),
        "response_idle": time(limits.response_idle),
        "keep_alive": time(limits.keep_alive),
        "http2_ping": time(limits.http2_ping),
        "header_bytes": size(limits.header_bytes),
        "header_fields": limits.header_fields,
        "target_bytes": size(limits.target_bytes),
        "body_bytes": size(limits.body_bytes),
        "json_depth": limits.json_depth,
        "number_digits": limits.number_digits,
        "http2_streams": limits.http2_streams,
        "http2_stream_window": window(limits.http2_stream_window),
        "http2_connection_window": window(limits.http2_connection_window),
        "stream_buffer_bytes": size(limits.stream_buffer_bytes),
        "connections": limits.connections,
        "connections_per_address": limits.connections_per_address,
        "rate_limit_keys": limits.rate_limit_keys,
    })
}

fn envelope(envelope: &Envelope) -> Value {
    let caller = |caller: &CallerPattern| match caller {
        CallerPattern::Id(pattern) | CallerPattern::Attribute(pattern) => pattern.clone(),
    };
    let (count, period) = envelope.authentication_rate;
    json!({
        "path": envelope.path,
        "security": security(&envelope.security),
        "senders": envelope.senders.iter().map(|sender| json!({
            "agent_id": sender.agent_id,
            "callers": sender.callers.iter().map(caller).collect::<Vec<_>>(),
        })).collect::<Vec<_>>(),
        "session_timeout": time(envelope.session_timeout),
        "max_sessions": envelope.max_sessions,
        "duplicate_window": time(envelope.duplicate_window),
        "max_messages": envelope.max_messages,
        "authentication": {
            "lifetime": time(envelope.authentication_lifetime),
            "most": envelope.max_authentications,
            "body_bytes": size(envelope.authentication_bytes),
            "rate": Rate { count, period }.to_string(),
        },
    })
}

fn route(shown: &mut Value, route: &AgentRoute) {
    match route {
        AgentRoute::Path(path) if path.is_empty() => add(shown, "path", "/"),
        AgentRoute::Path(path) => add(shown, "path", path.clone()),
        AgentRoute::Host(host) => add(shown, "host", host.clone()),
        AgentRoute::Envelope => {}
    }
}

fn agent(agent: &Agent) -> Value {
    let mut shown = json!({ "name": agent.name });
    route(&mut shown, &agent.route);
    add(&mut shown, "upstream", upstream(&agent.upstream));
    if let Some(envelope) = &agent.envelope {
        add(&mut shown, "envelope", json!({ "agent_id": envelope.agent_id }));
    }
    if agent.speaks_envelope()
        && let Some(binding) = shown.pointer_mut("/upstream/protocol/binding")
    {
        *binding = "envelope".into();
    }
    add(&mut shown, "card", card(&agent.card));
    add(&mut shown, "security", agent.security.as_ref().map(security));
    add(&mut shown, "policy", policy::policy(&agent.policy));
    let rules: Vec<Value> = agent.rate_limits.iter().map(rate_limit).collect();
    add(&mut shown, "limits", rules);
    add(&mut shown, "forward_credentials", agent.forward_credentials);
    add(&mut shown, "translate", agent.translate);
    add(&mut shown, "v0_1", agent.v0_1.is_some());
    add(
        &mut shown,
        "lenient_methods",
        agent.v0_1 == Some(v0_1::Methods::Lenient),
    );
    if let Some(url) = &agent.push_url {
        add(&mut shown, "push", json!({ "url": url }));
    }
    add(&mut shown, "listed", agent.listed.as_str());
    add(&mut shown, "body_bytes", size(agent.body_bytes));
    shown
}

fn upstream(upstream: &Upstream) -> Value {
    let balancing = &upstream.balancing;
    let mut shown = json!({
        "protocol": {
            "generation": upstream.generation.map_or("auto", crate::a2a::Generation::as_str),
            "binding": match upstream.binding {
                None => "auto",
                Some(Binding::JsonRpc) => "jsonrpc",
                Some(Binding::HttpJson) => "http_json",
                Some(Binding::Grpc) => "grpc",
            },
        },
        "endpoints": upstream.endpoints.iter().map(|endpoint| json!({ "url": endpoint.url, "drain": endpoint.drain })).collect::<Vec<_>>(),
        "srv": upstream.srv.as_ref().map(|srv| json!({
            "name": srv.name,
            "scheme": if srv.secure { "https" } else { "http" },
            "path": srv.path,
            "dns_server": srv.dns_server,
        })),
        "balance": match balancing.balance {
            Balance::LeastRequest => "least_request",
            Balance::RoundRobin => "round_robin",
            Balance::ConsistentHash(_) => "consistent_hash",
        },
        "health": balancing.health.as_ref().map(|health| json!({
            "path": health.path.as_deref().unwrap_or("card"),
            "interval": time(health.interval),
            "timeout": time(health.timeout),
            "healthy_after": health.healthy_after,
            "unhealthy_after": health.unhealthy_after,
        })),
        "ejection": match &balancing.ejection {
            Some(ejection) => json!({
                "enabled": true,
                "consecutive_failures": ejection.consecutive_failures,
                "base": time(ejection.base),
                "max": time(ejection.max),
                "most": Percent(ejection.most),
            }),
            None => json!({ "enabled": false }),
        },
        "panic_threshold": Percent(balancing.panic_threshold),
        "slow_start": wait(balancing.slow_start),
        "max_in_flight": balancing.max_in_flight,
        "queue": { "length": balancing.queue_length, "timeout": time(balancing.queue_timeout) },
        "retry_budget": Percent(upstream.retry_budget),
        "http": match upstream.http {
            UpstreamHttp::Auto => "auto",
            UpstreamHttp::Http1 => "http1",
            UpstreamHttp::Http2 => "http2",
        },
        "tls": {
            "ca": upstream.tls.ca.as_deref().map(path),
            "client_certificate": upstream.tls.client.as_ref().map(|files| path(&files.certificate)),
            "client_private_key": upstream.tls.client.as_ref().map(|files| path(&files.private_key)),
            "server_name": upstream.tls.server_name,
        },
        "credential": upstream.credential.as_ref().map(credential),
        "assertion": upstream.assertion.as_ref().map(assertion),
        "connect_timeout": time(upstream.connect_timeout),
        "first_byte_timeout": time(upstream.first_byte_timeout),
        "send_timeout": wait(upstream.send_timeout),
        "idle_timeout": time(upstream.idle_timeout),
        "stream_idle_timeout": wait(upstream.stream_idle_timeout),
        "pool_idle": time(upstream.pool_idle),
        "dns_refresh": time(upstream.dns_refresh),
        "max_connections": upstream.max_connections,
        "answer_header_bytes": size(upstream.answer_header_bytes),
        "answer_bytes": size(upstream.answer_bytes),
        "event_bytes": size(upstream.event_bytes),
        "list": { "partial": upstream.list_partial },
        "probe": { "timeout": time(upstream.probe.timeout), "concurrent": upstream.probe.concurrent },
    });
    if let Balance::ConsistentHash(on) = balancing.balance {
        let on = match on {
            HashOn::Context => "context",
            HashOn::Principal => "principal",
        };
        add(&mut shown, "hash_on", on);
    }
    shown
}

fn card(card: &Card) -> Value {
    json!({
        "url": card.url,
        "file": card.file.as_ref().map(|file| &file.path),
        "approved": card.approved.as_ref().map(|file| &file.path),
        "on_change": match card.on_change {
            OnChange::Publish => "publish",
            OnChange::Hold => "hold",
            OnChange::Alert => "alert",
        },
        "refresh": time(card.refresh),
        "max_bytes": size(card.max_bytes),
        "max_age": time(card.max_age),
        "overrides": card.edits.overrides,
        "hide_skills": card.edits.hidden_skills.iter().map(SkillPattern::as_str).collect::<Vec<_>>(),
        "skills": card.edits.skill_texts,
        "form": match card.form {
            CardForm::Hybrid => "hybrid",
            CardForm::ByVersion => "by_version",
        },
        "verify": card.verify.as_ref().map(|verify| {
            let (file, url) = match &verify.keys {
                Some(CardKeys::File(file)) => (Some(path(file)), None),
                Some(CardKeys::Url(url)) => (None, Some(url)),
                None => (None, None),
            };
            json!({
                "jwks_file": file,
                "jwks_url": url,
                "jku": verify.jku,
                "jwks_ca": verify.ca.as_deref().map(path),
            })
        }),
        "original": card.original,
    })
}

fn security(security: &Security) -> Vec<Value> {
    security
        .alternatives
        .iter()
        .map(|alternative| {
            let schemes: Map<String, Value> = alternative
                .iter()
                .map(|one| (one.scheme.clone(), one.scopes.clone().into()))
                .collect();
            Value::Object(schemes)
        })
        .collect()
}

fn add(shown: &mut Value, key: &str, value: impl Into<Value>) {
    if let Some(object) = shown.as_object_mut() {
        object.insert(key.to_owned(), value.into());
    }
}

fn time(time: Duration) -> String {
    Time(time).to_string()
}

fn wait(wait: Option<Duration>) -> String {
    Wait(wait).to_string()
}

fn size(bytes: usize) -> String {
    Size(bytes).to_string()
}

fn path(path: &Path) -> String {
    path.display().to_string()
}

/// Leaves out what is not set, and the secrets of every URL, wherever a user may have put one.
fn tidy(value: &mut Value) {
    match value {
        Value::Object(object) => {
            object.retain(|_, value| !value.is_null());
            object.values_mut().for_each(tidy);
        }
        Value::Array(items) => items.iter_mut().for_each(tidy),
        Value::String(text) if text.contains("://") => {
            *text = text.split_inclusive(char::is_whitespace).map(shown_url).collect();
        }
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// A URL for people: without user information, and without what its query says; either may be a secret.
pub fn shown_url(url: &str) -> String {
    let (scheme, rest) = match url.split_once("://") {
        Some((scheme, rest)) => (format!("{scheme}://"), rest),
        None => (String::new(), url),
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let authority = rest.get(..end).unwrap_or(rest);
    // A password with one of these characters in it ends at the last `@`, as whoever wrote it meant it.
    let is_cut = !authority.contains('@')
        && authority
            .rsplit_once(':')
            .is_some_and(|(_, port)| !port.ends_with(']') && port.parse::<u16>().is_err());
    let within = if is_cut { rest } else { authority };
    let last = within.rfind('@').map_or(0, |at| at + 1);
    let rest = rest.get(last..).unwrap_or(rest);
    match rest.split_once('?') {
        None => format!("{scheme}{rest}"),
        Some((before, query)) => {
            let after = query.find('#').and_then(|at| query.get(at..)).unwrap_or_default();
            format!("{scheme}{before}?{HIDDEN}{after}")
        }
    }
}
