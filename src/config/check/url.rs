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
    pub fn parse(text: &str) -> Result<Self, String> {
        let (url, query) = parse(text)?;
        if query.is_some() {
            return Err("must not have a query".to_owned());
        }
        Ok(url)
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
pub fn verify(text: &str) -> Result<Url, String> {
    parse(text).map(|(url, _)| url)
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

/// Why a path is not one that routes and endpoints may have; the text begins with `/`.
pub fn path_fault(path: &str) -> Option<&'static str> {
    if path.contains("//") {
        return Some("must not contain `//`");
    }
    let lower = path.to_ascii_lowercase();
    if lower
        .split('/')
        .map(|segment| segment.replace("%2e", "."))
        .any(|segment| segment == "." || segment == "..")
    {
        return Some("must not contain the segments `.` or `..`");
    }
    if !path
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@%/".contains(&byte))
    {
        return Some("contains a character that a path cannot have; percent-encode it");
    }
    None
}

fn parse(text: &str) -> Result<(Url, Option<&str>), String> {
    if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("must be ASCII without spaces".to_owned());
    }
    let (scheme, rest) = text
        .split_once("://")
        .ok_or("must be an absolute URL with `http://` or `https://`")?;
    let secure = match scheme.to_ascii_lowercase().as_str() {
        "https" => true,
        "http" => false,
        other => {
            let schemes = suggest::list(&["http", "https"]);
            return Err(format!("must begin with {schemes}, found `{other}`"));
        }
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, rest) = rest.split_at_checked(end).unwrap_or((rest, ""));
    if rest.contains('#') {
        return Err("must not have a fragment (`#`)".to_owned());
    }
    if authority.contains('@') {
        return Err("must not contain user information (`user:password@`); credentials have their own keys".to_owned());
    }
    let (name, port) = split_port(authority)?;
    let host = host(name).ok_or_else(|| format!("`{name}` is not a host name or address"))?;
    let (path, query) = match rest.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (rest, None),
    };
    let path = if path.is_empty() { "/" } else { path };
    if let Some(fault) = path_fault(path) {
        return Err(format!("the path {fault}"));
    }
    let implied = if secure { 443 } else { 80 };
    let url = Url {
        secure,
        host,
        port: port.filter(|port| *port != implied),
        path: path.to_owned(),
    };
    Ok((url, query))
}

fn split_port(authority: &str) -> Result<(&str, Option<u16>), String> {
    let after_address = authority.rfind(']').map_or(0, |end| end + 1);
    let colon = authority
        .get(after_address..)
        .and_then(|rest| rest.find(':'))
        .map(|colon| colon + after_address);
    let Some((name, port)) = colon.and_then(|colon| authority.split_at_checked(colon)) else {
        return Ok((authority, None));
    };
    let port = port.trim_start_matches(':');
    match port.parse::<u16>() {
        Ok(number) if number > 0 && port.bytes().all(|byte| byte.is_ascii_digit()) => Ok((name, Some(number))),
        Ok(_) | Err(_) => Err(format!("`{port}` is not a port from 1 to 65535")),
    }
}
