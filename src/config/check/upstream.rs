//! Upstreams: endpoints in one normal form, credentials read from where they are, timeouts that make sense.

use std::time::Duration;

use super::super::model::{Endpoint, Probe, Upstream, UpstreamCredential, UpstreamHttp, UpstreamTls};
use super::super::raw::{
    RawBasicCredential, RawBearerCredential, RawBinding, RawCredential, RawGeneration, RawHeaderCredential,
    RawUpstream, RawUpstreamHttp, RawUpstreamTls,
};
use super::super::redact::shown_url;
use super::super::units::{SecretText, Size, Time, Wait};
use super::super::{Secret, join, place};
use super::limits::{LEAST_HEADER, MOST_BODY, MOST_HEADER};
use super::names::Unique;
use super::{Check, DAY, HOUR, MILLISECOND, listeners, url, watch};
use crate::a2a::{Binding, Generation};

/// Headers that belong to the connection or to the gateway.
const NO_CREDENTIAL: [&str; 11] = [
    "host",
    "connection",
    "content-length",
    "content-type",
    "transfer-encoding",
    "te",
    "trailer",
    "upgrade",
    "keep-alive",
    "proxy-connection",
    "a2a-version",
];

pub fn upstream(check: &mut Check<'_>, key: &str, raw: &RawUpstream) -> Option<Upstream> {
    let endpoints = endpoints(check, key, raw);
    if let (RawBinding::Grpc, RawUpstreamHttp::Http1) = (raw.protocol.binding, raw.http) {
        let cause = "cannot be `http1`: `protocol.binding` is `grpc`, which needs HTTP/2";
        check.problem(&join(key, "http"), cause);
    }
    let balancing = watch::balancing(check, key, raw);
    let retry_budget = watch::percent(check, &join(key, "retry_budget"), raw.retry_budget, 0);
    let encrypts = endpoints
        .as_ref()
        .is_none_or(|all| all.iter().any(|endpoint| endpoint.url.starts_with("https:")));
    let tls = tls(check, &join(key, "tls"), &raw.tls, encrypts);
    let credential = match &raw.credential {
        Some(raw) => credential(check, &join(key, "credential"), raw).map(Some),
        None => Some(None),
    };
    let mut time = |name, value| check.time(&join(key, name), value, MILLISECOND, DAY);
    let connect_timeout = time("connect_timeout", raw.connect_timeout);
    let first_byte_timeout = time("first_byte_timeout", raw.first_byte_timeout);
    let idle_timeout = time("idle_timeout", raw.idle_timeout);
    let mut wait = |name, value: Wait| value.0.map(|value| time(name, Time(value)));
    let send_timeout = wait("send_timeout", raw.send_timeout);
    let stream_idle_timeout = wait("stream_idle_timeout", raw.stream_idle_timeout);
    let pool_idle = check.time(&join(key, "pool_idle"), raw.pool_idle, Duration::ZERO, HOUR);
    let dns_refresh = check.time(&join(key, "dns_refresh"), raw.dns_refresh, MILLISECOND * 100, DAY);
    let max_connections = check.count(&join(key, "max_connections"), raw.max_connections, 1, 65_535);
    let mut size = |name, value, least, most| check.size(&join(key, name), value, least, most);
    let answer_header_bytes = size(
        "answer_header_bytes",
        raw.answer_header_bytes,
        LEAST_HEADER,
        MOST_HEADER,
    );
    let answer_bytes = size("answer_bytes", raw.answer_bytes, Size(1), MOST_BODY);
    let event_bytes = size("event_bytes", raw.event_bytes, Size(1), MOST_BODY);
    let probe = Probe {
        timeout: check.time(&join(key, "probe.timeout"), raw.probe.timeout, MILLISECOND, HOUR),
        concurrent: check.count(&join(key, "probe.concurrent"), raw.probe.concurrent, 1, 10_000),
    };
    Some(Upstream {
        generation: match raw.protocol.generation {
            RawGeneration::Auto => None,
            RawGeneration::V0_1 => Some(Generation::V0_1),
            RawGeneration::V0_3 => Some(Generation::V0_3),
            RawGeneration::V1_0 => Some(Generation::V1_0),
        },
        binding: match raw.protocol.binding {
            RawBinding::Auto | RawBinding::Envelope => None,
            RawBinding::Jsonrpc => Some(Binding::JsonRpc),
            RawBinding::HttpJson => Some(Binding::HttpJson),
            RawBinding::Grpc => Some(Binding::Grpc),
        },
        endpoints: endpoints?,
        balancing: balancing?,
        retry_budget,
        http: match raw.http {
            RawUpstreamHttp::Auto => UpstreamHttp::Auto,
            RawUpstreamHttp::Http1 => UpstreamHttp::Http1,
            RawUpstreamHttp::Http2 => UpstreamHttp::Http2,
        },
        tls: tls?,
        credential: credential?,
        connect_timeout,
        first_byte_timeout,
        send_timeout,
        idle_timeout,
        stream_idle_timeout,
        pool_idle,
        dns_refresh,
        max_connections,
        answer_header_bytes,
        answer_bytes,
        event_bytes,
        list_partial: raw.list.partial,
        probe,
    })
}

fn endpoints(check: &mut Check<'_>, key: &str, raw: &RawUpstream) -> Option<Vec<Endpoint>> {
    let key = join(key, "endpoints");
    if raw.endpoints.is_empty() {
        check.problem(&key, "needs at least one endpoint");
    }
    let mut unique = Unique::default();
    let mut endpoints = Vec::new();
    let mut complete = true;
    for (index, raw) in raw.endpoints.items() {
        let key = join(&place(&key, index), "url");
        match raw.url.as_deref().and_then(|text| check.url(&key, text)) {
            Some(url) => {
                let url = url.text();
                unique.claim(check, &key, &url);
                endpoints.push(Endpoint { url, drain: raw.drain });
            }
            None => {
                complete = false;
                if let Some(text) = &raw.url {
                    unique.claim(check, &key, &shown_url(text));
                }
            }
        }
    }
    complete.then_some(endpoints)
}

fn tls(check: &mut Check<'_>, key: &str, raw: &RawUpstreamTls, encrypts: bool) -> Option<UpstreamTls> {
    let is_given = raw.ca.is_some()
        || raw.client_certificate.is_some()
        || raw.client_private_key.is_some()
        || raw.server_name.is_some();
    if is_given && !encrypts {
        check.problem(key, "has no effect: every endpoint is http");
        return None;
    }
    let ca = check.optional_path(&join(key, "ca"), raw.ca.as_ref());
    let client = (raw.client_certificate.is_some() || raw.client_private_key.is_some()).then(|| {
        listeners::pair(
            check,
            (&join(key, "client_certificate"), raw.client_certificate.as_ref()),
            (&join(key, "client_private_key"), raw.client_private_key.as_ref()),
        )
    });
    let server_name = raw.server_name.as_ref().map(|text| {
        let name = url::host(text);
        if name.is_none() {
            let cause = format!("`{}` is not a host name", shown_url(text));
            check.problem(&join(key, "server_name"), cause);
        }
        name
    });
    check.sound.upstreams.push((
        key.to_owned(),
        UpstreamTls {
            ca: ca.clone(),
            client: client.clone().flatten(),
            server_name: server_name.clone().flatten(),
        },
    ));
    Some(UpstreamTls {
        ca,
        client: match client {
            Some(files) => Some(files?),
            None => None,
        },
        server_name: match server_name {
            Some(name) => Some(name?),
            None => None,
        },
    })
}

fn credential(check: &mut Check<'_>, key: &str, raw: &RawCredential) -> Option<UpstreamCredential> {
    match (&raw.header, &raw.bearer, &raw.basic) {
        (Some(raw), None, None) => header(check, &join(key, "header"), raw),
        (None, Some(raw), None) => bearer(check, &join(key, "bearer"), raw),
        (None, None, Some(raw)) => basic(check, &join(key, "basic"), raw),
        _ => {
            check.problem(key, "needs exactly one of `header`, `bearer` and `basic`");
            None
        }
    }
}

fn header(check: &mut Check<'_>, key: &str, raw: &RawHeaderCredential) -> Option<UpstreamCredential> {
    let name = raw
        .name
        .as_ref()
        .and_then(|text| match http::HeaderName::from_bytes(text.as_bytes()) {
            Ok(name) if NO_CREDENTIAL.contains(&name.as_str()) => {
                check.problem(
                    &join(key, "name"),
                    format!("`{name}` is written by the gateway and cannot be a credential"),
                );
                None
            }
            Ok(name) => Some(name),
            Err(_) => {
                check.problem(&join(key, "name"), format!("`{text}` cannot be the name of a header"));
                None
            }
        });
    let value = secret(check, key, "value", raw.value.as_ref(), raw.value_file.as_ref());
    Some(UpstreamCredential::Header {
        name: name?,
        value: value?,
    })
}

fn bearer(check: &mut Check<'_>, key: &str, raw: &RawBearerCredential) -> Option<UpstreamCredential> {
    let token = secret(check, key, "token", raw.token.as_ref(), raw.token_file.as_ref());
    token.map(UpstreamCredential::Bearer)
}

fn basic(check: &mut Check<'_>, key: &str, raw: &RawBasicCredential) -> Option<UpstreamCredential> {
    let username_key = join(key, "username");
    let username = check.text(&username_key, raw.username.as_ref());
    let password = secret(
        check,
        key,
        "password",
        raw.password.as_ref(),
        raw.password_file.as_ref(),
    );
    let username = username?;
    // RFC 7617 §2: the first colon ends the user name.
    if username.contains(':') || username.chars().any(char::is_control) {
        check.problem(&username_key, "must not contain a colon or control characters");
    }
    Some(UpstreamCredential::Basic {
        username,
        password: password?,
    })
}

/// A secret given as it is or in the file that `<name>_file` names, fit for a header. Never part of a message.
pub fn secret(
    check: &mut Check<'_>,
    key: &str,
    name: &str,
    value: Option<&SecretText>,
    file: Option<&String>,
) -> Option<Secret<String>> {
    let (key, secret) = check.secret(key, name, value, file)?;
    if http::HeaderValue::from_str(secret.expose()).is_err() {
        check.problem(
            &key,
            "contains a character that a header cannot carry, such as a line break",
        );
        return None;
    }
    Some(secret)
}
