//! Upstreams: endpoints in one normal form, timeouts that make sense.

use std::net::SocketAddr;
use std::time::Duration;

use super::super::model::{Endpoint, Probe, Srv, Upstream, UpstreamHttp, UpstreamTls};
use super::super::raw::{
    RawBinding, RawGeneration, RawSrv, RawSrvScheme, RawUpstream, RawUpstreamHttp, RawUpstreamTls,
};
use super::super::redact::shown_url;
use super::super::units::{Size, Time, Wait};
use super::super::{join, place};
use super::limits::{LEAST_HEADER, MOST_BODY, MOST_HEADER};
use super::names::Unique;
use super::{Check, DAY, HOUR, MILLISECOND, credential, listeners, url, watch};
use crate::a2a::{Binding, Generation};

pub fn upstream(check: &mut Check<'_>, key: &str, raw: &RawUpstream) -> Option<Upstream> {
    let srv = raw.srv.as_ref().map(|raw| srv(check, &join(key, "srv"), raw));
    let endpoints = match &srv {
        Some(_) if raw.endpoints.is_empty() => Some(Vec::new()),
        Some(_) => {
            check.problem(key, "has both `endpoints` and `srv`; keep one of them");
            None
        }
        None => endpoints(check, key, raw),
    };
    if let (RawBinding::Grpc, RawUpstreamHttp::Http1) = (raw.protocol.binding, raw.http) {
        let cause = "cannot be `http1`: `protocol.binding` is `grpc`, which needs HTTP/2";
        check.problem(&join(key, "http"), cause);
    }
    let balancing = watch::balancing(check, key, raw);
    let retry_budget = watch::percent(check, &join(key, "retry_budget"), raw.retry_budget, 0);
    let encrypts = match &srv {
        Some(srv) => srv.as_ref().is_none_or(|srv| srv.secure),
        None => endpoints
            .as_ref()
            .is_none_or(|all| all.iter().any(|endpoint| endpoint.url.starts_with("https:"))),
    };
    let tls = tls(check, &join(key, "tls"), &raw.tls, encrypts);
    let credential = match &raw.credential {
        Some(raw) => credential::credential(check, &join(key, "credential"), raw).map(Some),
        None => Some(None),
    };
    let assertion = match &raw.assertion {
        Some(raw) => credential::assertion(check, &join(key, "assertion"), raw).map(Some),
        None => Some(None),
    };
    if let (Some(Some(credential)), Some(Some(assertion))) = (&credential, &assertion)
        && credential.header() == assertion.header
    {
        let cause = "is the header of `credential`, which needs one of its own";
        check.problem(&join(key, "assertion.header"), cause);
    }
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
        srv: match srv {
            Some(srv) => Some(srv?),
            None => None,
        },
        balancing: balancing?,
        retry_budget,
        http: match raw.http {
            RawUpstreamHttp::Auto => UpstreamHttp::Auto,
            RawUpstreamHttp::Http1 => UpstreamHttp::Http1,
            RawUpstreamHttp::Http2 => UpstreamHttp::Http2,
        },
        tls: tls?,
        credential: credential?,
        assertion: assertion?,
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

/// Nobody is asked.
fn srv(check: &mut Check<'_>, key: &str, raw: &RawSrv) -> Option<Srv> {
    let name = raw.name.as_ref().and_then(|text| {
        let key = join(key, "name");
        let name = url::host(text.strip_suffix('.').unwrap_or(text)).filter(|name| !name.starts_with('['));
        if name.is_none() {
            let cause = format!(
                "`{}` is not a DNS name; write e.g. `_a2a._tcp.maps.internal`",
                shown_url(text)
            );
            check.problem(&key, cause);
        }
        name
    });
    let path_key = join(key, "path");
    let mut is_path = raw.path.starts_with('/');
    if !is_path {
        check.problem(&path_key, "must begin with `/`");
    }
    for fault in url::path_faults(&raw.path) {
        is_path = false;
        check.problem(&path_key, fault);
    }
    let server = raw.dns_server.as_ref().map(|text| {
        let server = text.parse::<SocketAddr>().ok().filter(|server| server.port() > 0);
        if server.is_none() {
            let cause = format!(
                "`{}` is not an address with a port; write e.g. `127.0.0.1:53`",
                shown_url(text)
            );
            check.problem(&join(key, "dns_server"), cause);
        }
        server
    });
    Some(Srv {
        name: name?,
        secure: matches!(raw.scheme, RawSrvScheme::Https),
        path: is_path.then(|| raw.path.clone())?,
        dns_server: match server {
            Some(server) => Some(server?),
            None => None,
        },
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
