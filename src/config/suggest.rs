//! What the user may have meant by a key that does not exist.

/// Keys of other gateways and of natural guesses, by the section they stand in and the key that we have instead.
/// A section is the path without places in lists; `*` stands for one name.
const GUESSES: [(&str, &str, &str); 24] = [
    ("", "url", "what cards advertise is `public_url`"),
    (
        "",
        "listen",
        "addresses that take calls are `listeners: [ { name, address } ]`",
    ),
    ("", "agent", "agents are a list, `agents`"),
    ("", "tls", "TLS belongs to a listener: `listeners[].tls`"),
    ("", "auth", "write `security_schemes` and `security`"),
    ("", "securitySchemes", "write `security_schemes`"),
    ("", "logging", "write `log`"),
    ("", "drain_timeout", "write `drain`"),
    ("admin", "off", "write `enabled: false`"),
    ("state", "type", "write `store`"),
    ("state", "url", "there are the stores `embedded` and `memory`"),
    (
        "listeners",
        "port",
        "the port is part of `address`, e.g. `0.0.0.0:8443`",
    ),
    ("listeners.tls", "cert", "write `certificate`"),
    ("listeners.tls", "key", "write `private_key`"),
    ("listeners.tls", "ca", "write `client_ca`"),
    (
        "security_schemes.*.keys",
        "sha256",
        "write `hash: \"sha256:<64 hex digits>\"`",
    ),
    (
        "security_schemes.*.keys",
        "key",
        "only hashes stand here: `hash: \"sha256:<64 hex digits>\"`",
    ),
    (
        "agents",
        "url",
        "agents are reached through `upstream.endpoints: [ { url } ]`",
    ),
    ("agents", "endpoints", "write `upstream: { endpoints: [ { url } ] }`"),
    ("agents", "rate_limits", "an agent's own rate limits are `limits`"),
    ("agents", "policy", "who may call is said with `security`"),
    ("agents.upstream", "url", "write `endpoints: [ { url } ]`"),
    (
        "agents.upstream",
        "timeout",
        "there are `first_byte_timeout`, `send_timeout` and `idle_timeout`",
    ),
    (
        "agents.card",
        "source",
        "the card comes from the agent; say where with `url`",
    ),
];

/// A longer list of keys is no longer read.
const MAX_LISTED: usize = 12;

/// The cause of an unknown key, with the best advice there is.
pub fn unknown(section: &str, key: &str, known: &[&str]) -> String {
    if let Some((_, _, advice)) = GUESSES
        .iter()
        .find(|(place, guess, _)| *guess == key && is_section(place, section))
    {
        return format!("unknown key; {advice}");
    }
    match nearest(key, known) {
        Some(near) => format!("unknown key; did you mean `{near}`?"),
        None if known.len() > MAX_LISTED => "unknown key; see config/README.md".to_owned(),
        None => format!("unknown key; known here: {}", list(known)),
    }
}

/// `` `a`, `b` or `c` ``.
pub fn list(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    match quoted.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
        None => "nothing".to_owned(),
    }
}

/// The known name that a slip of the finger turns into `name`: at most a third of its letters differ.
pub fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let plain = |text: &str| text.to_ascii_lowercase().replace(['-', '_'], "");
    let wanted = plain(name);
    known
        .iter()
        .map(|candidate| (distance(&wanted, &plain(candidate)), *candidate))
        .filter(|(distance, candidate)| *distance <= (candidate.len() / 3).max(1) && *distance < wanted.len())
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Edits that turn one into the other: insert, delete, replace, swap neighbours.
fn distance(from: &str, to: &str) -> usize {
    let from: Vec<char> = from.chars().take(64).collect();
    let to: Vec<char> = to.chars().take(64).collect();
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=to.len()).collect();
    for (row, letter) in from.iter().enumerate() {
        let mut line = vec![row + 1];
        for (column, other) in to.iter().enumerate() {
            let cell = |line: &[usize], at: usize| line.get(at).copied().unwrap_or(usize::MAX / 2);
            let replaced = cell(&last, column) + usize::from(letter != other);
            let mut best = replaced.min(cell(&last, column + 1) + 1).min(cell(&line, column) + 1);
            let swapped =
                row > 0 && column > 0 && from.get(row - 1) == Some(other) && to.get(column - 1) == Some(letter);
            if swapped {
                best = best.min(cell(&before, column - 1) + 1);
            }
            line.push(best);
        }
        before = std::mem::replace(&mut last, line);
    }
    last.last().copied().unwrap_or_default()
}

fn is_section(pattern: &str, key: &str) -> bool {
    let mut segments = key
        .split('.')
        .map(|segment| segment.split('[').next().unwrap_or_default());
    pattern
        .split('.')
        .all(|part| segments.next().is_some_and(|segment| part == "*" || part == segment))
        && segments.next().is_none()
}
