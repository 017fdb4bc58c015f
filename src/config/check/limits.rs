//! Bounds that make sense, and rate limits.

use std::collections::BTreeSet;

use super::super::model::{Direction, LimitBound, LimitKey, Limits, RateLimit, RateOf};
use super::super::raw::{List, RawLimitKey, RawLimits, RawRateLimit};
use super::super::units::{ByteRate, Size, Time};
use super::super::{join, place};
use super::names::{self, Unique};
use super::{Check, HOUR, MILLISECOND, policy};
use crate::a2a::Operation;

/// Least header section: hyper refuses a smaller buffer.
pub const LEAST_HEADER: Size = Size::kib(8);
pub const MOST_HEADER: Size = Size::mib(1);
/// Most of one body: it is held in memory.
pub const MOST_BODY: Size = Size::mib(1024);

pub fn limits(check: &mut Check<'_>, raw: &RawLimits) -> Limits {
    let mut time = |name, value: Time| check.time(&join("limits", name), value, MILLISECOND, HOUR);
    let tls_handshake = time("tls_handshake", raw.tls_handshake);
    let request_header = time("request_header", raw.request_header);
    let request_body_idle = time("request_body_idle", raw.request_body_idle);
    let request_body = time("request_body", raw.request_body);
    let response_idle = time("response_idle", raw.response_idle);
    let keep_alive = time("keep_alive", raw.keep_alive);
    let http2_ping = time("http2_ping", raw.http2_ping);

    let mut size = |name, value, least, most| check.size(&join("limits", name), value, least, most);
    let header_bytes = size("header_bytes", raw.header_bytes, LEAST_HEADER, MOST_HEADER);
    let target_bytes = size("target_bytes", raw.target_bytes, Size(64), Size::kib(64));
    let body_bytes = size("body_bytes", raw.body_bytes, Size(1), MOST_BODY);
    let stream_buffer_bytes = size(
        "stream_buffer_bytes",
        raw.stream_buffer_bytes,
        Size::kib(4),
        Size::mib(64),
    );
    let stream_window = size(
        "http2_stream_window",
        raw.http2_stream_window,
        Size::kib(4),
        Size::mib(64),
    );
    // A connection's window begins at 65,535 bytes and cannot be made smaller (RFC 9113 §6.9.2).
    let connection_window = size(
        "http2_connection_window",
        raw.http2_connection_window,
        Size::kib(64),
        Size::mib(512),
    );
    if connection_window < stream_window {
        check.problem(
            "limits.http2_connection_window",
            "is smaller than `http2_stream_window`, of which it must hold at least one",
        );
    }

    let mut count = |name, value, most| check.count(&join("limits", name), value, 1, most);
    let header_fields = count("header_fields", raw.header_fields, 1000);
    let json_depth = count("json_depth", raw.json_depth, 1024);
    let number_digits = count("number_digits", raw.number_digits, 4096);
    let _streams = count("http2_streams", raw.http2_streams, 10_000);
    let connections = count("connections", raw.connections, 1_000_000);
    let connections_per_address = count("connections_per_address", raw.connections_per_address, 1_000_000);
    let rate_limit_keys = count("rate_limit_keys", raw.rate_limit_keys, 10_000_000);

    Limits {
        tls_handshake,
        request_header,
        request_body_idle,
        request_body,
        response_idle,
        keep_alive,
        http2_ping,
        header_bytes,
        header_fields,
        target_bytes,
        body_bytes,
        json_depth,
        number_digits,
        http2_streams: raw.http2_streams,
        http2_stream_window: u32::try_from(stream_window).unwrap_or(u32::MAX),
        http2_connection_window: u32::try_from(connection_window).unwrap_or(u32::MAX),
        stream_buffer_bytes,
        connections,
        connections_per_address,
        rate_limit_keys,
    }
}

/// Rules of one agent: the general ones first. Names are unique among them, given ones as written.
#[derive(Default)]
pub struct Rules {
    rules: Vec<(Option<String>, RateLimit)>,
    unique: Unique,
}

impl Rules {
    pub fn add(&mut self, check: &mut Check<'_>, key: &str, raw: &List<RawRateLimit>) {
        for (index, raw) in raw.items() {
            let key = place(key, index);
            let name_key = join(&key, "name");
            let name = names::name(check, &name_key, raw.name.as_ref());
            if let Some(text) = &raw.name {
                self.unique.claim(check, &name_key, text);
            }
            if let Some(rule) = rate_limit(check, &key, raw) {
                self.rules.push((name, rule));
            }
        }
    }

    pub fn finish(self) -> Vec<RateLimit> {
        let mut taken: BTreeSet<String> = self.rules.iter().filter_map(|(name, _)| name.clone()).collect();
        self.rules
            .into_iter()
            .map(|(name, mut rule)| {
                rule.name = name.unwrap_or_else(|| unused(&mut taken, &rule.name));
                rule
            })
            .collect()
    }
}

/// `base`, or `base-2`, `base-3` and so on; taken from then on.
pub fn unused(taken: &mut BTreeSet<String>, base: &str) -> String {
    let mut name = base.to_owned();
    let mut number: u32 = 1;
    while !taken.insert(name.clone()) {
        number = number.saturating_add(1);
        name = format!("{base}-{number}");
    }
    name
}

/// Its name is the one that it has unless the user gives one.
fn rate_limit(check: &mut Check<'_>, key: &str, raw: &RawRateLimit) -> Option<RateLimit> {
    let rates = [
        ("rate", raw.rate, RateOf::Calls),
        ("task_creations", raw.task_creations, RateOf::TaskCreations),
        ("polls", raw.polls, RateOf::Polls),
    ];
    let given_up = rates.iter().any(|(name, _, _)| check.was_given_up(&join(key, name)));
    let is_rate = given_up || rates.iter().any(|(_, rate, _)| rate.is_some());
    if raw.burst.is_some() && !is_rate {
        check.problem(&join(key, "burst"), "belongs to `rate`, `task_creations` or `polls`");
    }
    let counts = [
        (
            "concurrent",
            raw.concurrent,
            "concurrent",
            LimitBound::Concurrent as fn(u32) -> _,
        ),
        ("open_streams", raw.open_streams, "streams", LimitBound::OpenStreams),
        ("open_tasks", raw.open_tasks, "open-tasks", LimitBound::OpenTasks),
    ];
    for (name, value) in [("burst", raw.burst)]
        .into_iter()
        .chain(counts.iter().map(|(name, value, _, _)| (*name, *value)))
    {
        if value == Some(0) {
            check.problem(&join(key, name), "would admit nothing; at least 1");
        }
    }
    let rates = rates.into_iter().filter_map(|(name, rate, of)| {
        let rate = rate?;
        let kind = match of {
            RateOf::Calls => "rate",
            RateOf::TaskCreations => "task-creations",
            RateOf::Polls => "polls",
        };
        let bound = LimitBound::Rate {
            count: rate.count,
            period: rate.period,
            burst: raw.burst.unwrap_or(rate.count),
            of,
        };
        Some((name, kind, bound))
    });
    let counts = counts
        .into_iter()
        .filter_map(|(name, count, kind, bound)| Some((name, kind, bound(count?))));
    let bytes = [
        ("bytes_in", raw.bytes_in, "bytes-in", Direction::In),
        ("bytes_out", raw.bytes_out, "bytes-out", Direction::Out),
    ];
    let bytes = bytes.into_iter().filter_map(|(name, rate, kind, direction)| {
        let ByteRate { bytes, period } = rate?;
        let bound = LimitBound::Bytes {
            bytes,
            period,
            direction,
        };
        Some((name, kind, bound))
    });
    let mut bounds = rates.chain(counts).chain(bytes);
    let mut operations = policy::operations(check, &join(key, "operations"), &raw.operations);
    let (Some((name, kind, bound)), None) = (bounds.next(), bounds.next()) else {
        check.problem(key, ONE_BOUND);
        return None;
    };
    let own = match bound {
        LimitBound::Rate { of: RateOf::Calls, .. }
        | LimitBound::Concurrent(_)
        | LimitBound::OpenStreams(_)
        | LimitBound::Bytes {
            direction: Direction::Out,
            ..
        } => None,
        LimitBound::Rate {
            of: RateOf::TaskCreations,
            ..
        }
        | LimitBound::OpenTasks(_) => Some("is about sends that begin a task"),
        LimitBound::Rate { of: RateOf::Polls, .. } => Some("is about `get` and `list`"),
        LimitBound::Bytes {
            direction: Direction::In,
            ..
        } => Some("is asked before the operation is known"),
    };
    if let Some(own) = own
        && !operations.is_empty()
    {
        check.problem(
            &join(key, "operations"),
            format!("does not go with `{name}`, which {own}"),
        );
    }
    if let LimitBound::Rate { of: RateOf::Polls, .. } = bound {
        operations = vec![Operation::Get, Operation::List];
    }
    let (whose, per) = match raw.per? {
        RawLimitKey::Principal => ("principal", LimitKey::Principal),
        RawLimitKey::Address => ("address", LimitKey::Address),
        RawLimitKey::Agent => ("agent", LimitKey::Agent),
    };
    if matches!(bound, LimitBound::OpenTasks(_)) && per == LimitKey::Address {
        check.problem(
            &join(key, "per"),
            "tasks have owners and no addresses; `open_tasks` is per `principal` or `agent`",
        );
    }
    Some(RateLimit {
        name: format!("{whose}-{kind}"),
        per,
        operations,
        bound,
        shared: raw.shared.unwrap_or(true),
    })
}

const ONE_BOUND: &str = "needs exactly one of `rate`, `task_creations`, `polls`, `concurrent`, `open_streams`, `open_tasks`, \
                         `bytes_in` and `bytes_out`";
