//! URLs of the configuration: absolute http(s), without user information, query or fragment, in one normal form.
//!
//! The text of an endpoint's URL identifies it in task records and in metrics, so two spellings of one address must
//! become one text. Secrets have no place in a URL: they would show in logs.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv6Addr};

use super::super::suggest;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    pub secure: bool,
    /// In lower case; an IPv6 address in brackets.
    pub host: String,
    /// Unless it is the scheme's own.
    pub port: Option<u16>,
    /// Begins with `/`.
    pub path: String,
}

impl Url {
    /// All that is wrong with it otherwise.
    pub fn parse(text: &str) -> Result<Self, Vec<String>> {
        parse(text, false)
    }

    /// In normal form.
    pub fn text(&self) -> String {
        let mut text = format!("{}://{}", self.scheme(), self.host);
        if let Some(port) = self.port {
            // Writing to a string cannot fail.
            let _written = write!(text, ":{port}");
        }
        text.push_str(&self.path);
        text
    }

    pub fn scheme(&self) -> &'static str {
        if self.secure { "https" } else { "http" }
    }

    pub fn is_loopback(&self) -> bool {
        let host = self.host.trim_start_matches('[').trim_end_matches(']');
        match host.parse::<IpAddr>() {
            Ok(address) => address.is_loopback(),
            Err(_) => host == "localhost" || host.ends_with(".localhost"),
        }
    }
}

/// Checks a URL that is only passed on or fetched as it stands: a query is fine.
pub fn verify(text: &str) -> Result<Url, Vec<String>> {
    parse(text, true)
}

/// A host name or address as it stands in a URL, in lower case.
pub fn host(text: &str) -> Option<String> {
    let text = text.to_ascii_lowercase();
    let valid = match text.strip_prefix('[') {
        Some(rest) => rest
            .strip_suffix(']')
            .is_some_and(|address| address.parse::<Ipv6Addr>().is_ok()),
        None => {
            text.len() <= 253
                && text.split('.').all(|label| {
                    (1..=63).contains(&label.len())
                        && !label.starts_with('-')
                        && !label.ends_with('-')
                        && label
                            .bytes()
                            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
                })
        }
    };
    valid.then_some(text)
}

const CHARACTER: &str = "contains a character that a path cannot have; percent-encode it";

/// Why a path is not one that routes and endpoints may have.
pub fn path_faults(path: &str) -> Vec<&'static str> {
    let mut faults = Vec::new();
    if path.contains("//") {
        faults.push("must not contain `//`");
    }
    let lower = path.to_ascii_lowercase();
    if lower
        .split('/')
        .map(|segment| segment.replace("%2e", "."))
        .any(|segment| segment == "." || segment == "..")
    {
        faults.push("must not contain the segments `.` or `..`");
    }
    if !path
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@%/".contains(&byte))
    {
        faults.push(CHARACTER);
    }
    faults
}

fn parse(text: &str, may_have_query: bool) -> Result<Url, Vec<String>> {
    let mut faults = Vec::new();
    let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
    if !is_plain(text) {
        faults.push("must be ASCII without spaces".to_owned());
    }
    let Some((scheme, rest)) = text.split_once("://") else {
        // What of it is the host cannot be told.
        faults.push("must be an absolute URL with `http://` or `https://`".to_owned());
        return Err(faults);
    };
    let secure = scheme.eq_ignore_ascii_case("https");
    if !secure && !scheme.eq_ignore_ascii_case("http") {
        let schemes = suggest::list(&["http", "https"]);
        faults.push(format!(
            "must begin with {schemes}, found `{}`",
            scheme.to_ascii_lowercase()
        ));
    }
    // What stands before an `@`, even a misplaced one, may be a password.
    let may_tell = !rest.contains('@');
    let (rest, has_fragment) = match rest.split_once('#') {
        Some((rest, _)) => (rest, true),
        None => (rest, false),
    };
    let (rest, has_query) = match rest.split_once('?') {
        Some((rest, _)) => (rest, true),
        None => (rest, false),
    };
    let (authority, path) = rest
        .find('/')
        .and_then(|end| rest.split_at_checked(end))
        .unwrap_or((rest, "/"));
    let (has_user, authority) = match authority.rsplit_once('@') {
        Some((_, authority)) => (true, authority),
        None => (false, authority),
    };
    if has_user {
        faults.push("must not contain user information (`user:password@`); credentials have their own keys".to_owned());
    }
    let shown = |text: &str| {
        if may_tell {
            format!("`{text}`")
        } else {
            "what it has".to_owned()
        }
    };
    let (name, port) = split_port(authority);
    let port = port
        .map_err(|text| faults.push(format!("{} is not a port from 1 to 65535", shown(text))))
        .ok()
        .flatten();
    let host = host(name);
    if host.is_none() && is_plain(name) {
        faults.push(format!("{} is not a host name or address", shown(name)));
    }
    for fault in path_faults(path) {
        if fault != CHARACTER || is_plain(path) {
            faults.push(format!("the path {fault}"));
        }
    }
    if has_query && !may_have_query {
        faults.push("must not have a query".to_owned());
    }
    if has_fragment {
        faults.push("must not have a fragment (`#`)".to_owned());
    }
    match host {
        Some(host) if faults.is_empty() => {
            let implied = if secure { 443 } else { 80 };
            Ok(Url {
                secure,
                host,
                port: port.filter(|port| *port != implied),
                path: path.to_owned(),
            })
        }
        Some(_) | None => Err(faults),
    }
}

/// The name, and the port or what stands in its place.
pub fn split_port(authority: &str) -> (&str, Result<Option<u16>, &str>) {
    let after_address = authority.rfind(']').map_or(0, |end| end + 1);
    let colon = authority
        .get(after_address..)
        .and_then(|rest| rest.find(':'))
        .map(|colon| colon + after_address);
    let Some((name, port)) = colon.and_then(|colon| authority.split_at_checked(colon)) else {
        return (authority, Ok(None));
    };
    let port = port.trim_start_matches(':');
    let number = match port.parse::<u16>() {
        Ok(number) if number > 0 && port.bytes().all(|byte| byte.is_ascii_digit()) => Ok(Some(number)),
        Ok(_) | Err(_) => Err(port),
    };
    (name, number)
}
