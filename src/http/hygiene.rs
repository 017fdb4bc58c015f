//! What a request head may say, and what of it goes on to an agent.
//!
//! Refused here: what HTTP allows but nobody honest sends, because two readers could take it for two things. Forwarded
//! headers lose whatever belongs to the connection, to the caller's credential or to a proxy in front.

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::uri::Authority;
use http::{Method, Version, request};

use tokio::time::Instant;

use super::query;
use crate::a2a::grpc;

/// `A2A-Version` (A2A 1.0 §3.6.1).
pub const A2A_VERSION: HeaderName = HeaderName::from_static("a2a-version");
/// The extensions that a call asks for, and those that its answer follows (A2A 1.0 §3.2.6).
pub const A2A_EXTENSIONS: HeaderName = HeaderName::from_static("a2a-extensions");
/// The same up to 0.3.
pub const X_A2A_EXTENSIONS: HeaderName = HeaderName::from_static("x-a2a-extensions");
/// How many endpoints a gathered list lacks; the gateway's own.
pub const A2A_GATEWAY_PARTIAL: HeaderName = HeaderName::from_static("a2a-gateway-partial");
/// Who calls, in words that the gateway signed.
pub const A2A_GATEWAY_ASSERTION: HeaderName = HeaderName::from_static("a2a-gateway-assertion");
pub const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
pub const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
pub const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
pub const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("the method is not GET, HEAD, POST, DELETE or OPTIONS")]
    Method,
    #[error("there is no single valid host, or it disagrees with the target")]
    Host,
    #[error("the target is not a plain path")]
    Target,
    #[error("a header field poses as another one")]
    Field,
    #[error("A2A-Version is given twice with different values")]
    Version,
    #[error("the target is longer than the limit")]
    TargetTooLong,
    #[error("there are more fields than the limit")]
    TooManyFields,
}

/// What a head may hold. HTTP/2's own bound counts only the bytes of all fields together.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub fields: usize,
    pub target_bytes: usize,
}

/// Checks a parsed head. HTTP/1.1 heads were read by `framing` before; this holds for HTTP/2 too.
pub fn check(parts: &request::Parts, bounds: Bounds) -> Result<(), Error> {
    if parts
        .uri
        .path_and_query()
        .is_some_and(|target| target.as_str().len() > bounds.target_bytes)
    {
        return Err(Error::TargetTooLong);
    }
    if parts.headers.len() > bounds.fields {
        return Err(Error::TooManyFields);
    }
    if !matches!(
        parts.method,
        Method::GET | Method::HEAD | Method::POST | Method::DELETE | Method::OPTIONS
    ) {
        return Err(Error::Method);
    }
    check_host(parts)?;
    // The parser lets UTF-8 pass, and the query goes on to agents as it is.
    if !parts
        .uri
        .path_and_query()
        .is_none_or(|target| target.as_str().is_ascii())
    {
        return Err(Error::Target);
    }
    check_path(parts.uri.path())?;
    // An underscore twin (`Content_Length`) becomes the real name in CGI-like servers behind us.
    if parts
        .headers
        .keys()
        .any(|name| name.as_str().as_bytes().contains(&b'_'))
    {
        return Err(Error::Field);
    }
    Ok(())
}

/// The host that the caller addressed, in lower case and without a port.
pub fn host(parts: &request::Parts) -> Option<String> {
    let authority = match parts.uri.authority() {
        Some(authority) => authority.clone(),
        None => Authority::try_from(host_field(&parts.headers).ok().flatten()?.as_bytes()).ok()?,
    };
    Some(authority.host().to_ascii_lowercase())
}

/// RFC 9110 §7.2, RFC 9112 §3.2, RFC 9113 §8.3.1.
fn check_host(parts: &request::Parts) -> Result<(), Error> {
    let field = host_field(&parts.headers)?;
    let target = parts.uri.authority();
    if let Some(field) = field.filter(|field| !is_plain_host(field.as_bytes())) {
        check_authority(&Authority::try_from(field.as_bytes()).map_err(|_| Error::Host)?)?;
    }
    if let Some(target) = target {
        check_authority(target)?;
    }
    match (field, target) {
        (None, None) => Err(Error::Host),
        (None, Some(_)) if parts.version < Version::HTTP_2 => Err(Error::Host),
        (Some(field), Some(target)) if !field.as_bytes().eq_ignore_ascii_case(target.as_str().as_bytes()) => {
            Err(Error::Host)
        }
        (Some(_) | None, Some(_)) | (Some(_), None) => Ok(()),
    }
}

fn host_field(headers: &HeaderMap) -> Result<Option<&HeaderValue>, Error> {
    let mut fields = headers.get_all(header::HOST).iter();
    let field = fields.next();
    if fields.next().is_some() {
        return Err(Error::Host);
    }
    Ok(field)
}

/// A name or an IPv4 address, with a port or without: what needs no closer look.
fn is_plain_host(field: &[u8]) -> bool {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-');
    let (host, port) = field.split_at(field.iter().position(|byte| !plain(byte)).unwrap_or(field.len()));
    let port_is_clean = match port {
        [] => true,
        [b':', digits @ ..] if digits.len() <= 5 && digits.iter().all(u8::is_ascii_digit) => {
            let port = digits.iter().fold(0, |port, digit| port * 10 + u32::from(digit - b'0'));
            (1..=u32::from(u16::MAX)).contains(&port)
        }
        _ => false,
    };
    !host.is_empty() && port_is_clean
}

fn check_authority(authority: &Authority) -> Result<(), Error> {
    let (text, host) = (authority.as_str(), authority.host());
    let port = text.get(host.len()..).unwrap_or_default();
    let port_is_clean = match port.strip_prefix(':') {
        None => port.is_empty(),
        Some(digits) => {
            digits.bytes().all(|byte| byte.is_ascii_digit()) && digits.parse::<u16>().is_ok_and(|port| port > 0)
        }
    };
    if host.is_empty() || text.contains('@') || !port_is_clean {
        return Err(Error::Host);
    }
    Ok(())
}

/// Dot segments, empty segments and encoded separators are refused, not resolved: whoever resolves them may differ.
fn check_path(path: &str) -> Result<(), Error> {
    if path == "*" {
        return Ok(());
    }
    let suspicious = |two: &[u8]| matches!(two, b"//" | b"/.");
    if path.starts_with('/')
        && !path.bytes().any(|byte| matches!(byte, b'%' | b'\\'))
        && !path.as_bytes().windows(2).any(suspicious)
    {
        return Ok(());
    }
    let lower = path.to_ascii_lowercase();
    let hidden = ["%2f", "%5c", "%2e", "%00", "\\", "//"];
    let dots = path.split('/').any(|segment| matches!(segment, "." | ".."));
    if !path.starts_with('/') || dots || hidden.iter().any(|bad| lower.contains(bad)) {
        return Err(Error::Target);
    }
    Ok(())
}

/// The `A2A-Version` that the caller asked for, from the header or the query (A2A 1.0 §3.6.1), without a patch part.
pub fn asked_version(parts: &request::Parts) -> Result<Option<HeaderValue>, Error> {
    let from_query = parts
        .uri
        .query()
        .into_iter()
        .flat_map(query::pairs)
        .filter(|(name, _)| is_version(name))
        .map(|(_, given)| value(without_patch(std::str::from_utf8(&query::decode(given)).unwrap_or("?"))));
    let from_header = parts.headers.get_all(&A2A_VERSION).iter().map(|given| {
        let text = without_patch(given.to_str().unwrap_or("?").trim());
        if text.as_bytes() == given.as_bytes() {
            given.clone()
        } else {
            value(text)
        }
    });
    let mut found: Option<HeaderValue> = None;
    for value in from_query.chain(from_header).filter(|value| !value.is_empty()) {
        match &found {
            Some(before) if *before != value => return Err(Error::Version),
            _ => found = Some(value),
        }
    }
    Ok(found)
}

/// Whether a parameter is `A2A-Version` to an agent, which decodes its name.
fn is_version(name: &str) -> bool {
    query::decode(name).eq_ignore_ascii_case(A2A_VERSION.as_str().as_bytes())
}

fn without_patch(version: &str) -> &str {
    let mut dots = version.match_indices('.').map(|(at, _)| at);
    match (dots.next(), dots.next()) {
        (Some(_), Some(second)) => version.get(..second).unwrap_or(version),
        _ => version,
    }
}

/// How the names begin that proxies and their identity services give to what they vouch for. Names of credentials that
/// callers themselves send (`X-Auth-Token`, `X-Goog-Api-Key`) are none of them.
const POSING: &[&str] = &[
    "cf-",
    "client-cert",
    "client-ip",
    "fastly-client-",
    "fly-client-ip",
    "oidc-",
    "proxy-",
    "remote-",
    "ssl-",
    "tailscale-user-",
    "teleport-jwt-",
];

/// The same behind `x-`.
const POSING_EXTENSIONS: &[&str] = &[
    "amzn-mtls-",
    "amzn-oidc-",
    "anonymous-",
    "apigateway-api-userinfo",
    "appengine-",
    "arr-clientcert",
    "auth-request-",
    "authenticated-",
    "authentik-",
    "azure-",
    "client-cert",
    "client-dn",
    "client-ip",
    "client-verify",
    "consumer-",
    "credential-",
    "endpoint-api-userinfo",
    "envoy-",
    "forwarded",
    "goog-authenticated-",
    "goog-iap-",
    "http-method",
    "identity-",
    "jwt-",
    "method-override",
    "ms-client-principal",
    "ms-token-",
    "oidc-",
    "original-",
    "pomerium-",
    "principal",
    "remote-",
    "spiffe",
    "ssl-",
    "tls-",
    "user",
    "verified-",
    "vouch-",
    "webauth-",
];

/// Fields that never go on: of the connection (RFC 9110 §7.6.1), framing that is made anew, names that proxies speak with,
/// cookies (no A2A binding has a use for them), and `Expect`, which is answered here. `Via` is the gateway's own by then (`hops`).
fn stays(name: &HeaderName) -> bool {
    match name.as_str() {
        "connection"
        | "keep-alive"
        | "te"
        | "trailer"
        | "transfer-encoding"
        | "upgrade"
        | "http2-settings"
        | "host"
        | "content-length"
        | "expect"
        | "cookie"
        | "forwarded"
        | "x-real-ip"
        | "x-cluster-client-ip"
        | "true-client-ip"
        | "x-rewrite-url"
        | "x-request-id"
        | "max-forwards"
        | "accept-encoding" => true,
        name => match name.strip_prefix("x-") {
            Some(rest) => POSING_EXTENSIONS.iter().any(|prefix| rest.starts_with(prefix)),
            None => POSING.iter().any(|prefix| name.starts_with(prefix)),
        },
    }
}

/// The headers of the request to the agent, without `Host` and without credentials.
///
/// `Accept-Encoding` stays behind because answers are read on the way.
pub fn forwarded(headers: HeaderMap, is_credential: impl Fn(&HeaderName) -> bool) -> HeaderMap {
    kept(headers, |name| !stays(name) && !is_credential(name))
}

/// The fields that go on, and no field of the connection: what a `Connection` field names is one as well (RFC 9110 §7.6.1).
///
/// In a map of the right size: hyper keeps the maps of a connection's heads, so that one that grew would cost every open
/// stream 2 KiB.
fn kept(headers: HeaderMap, goes_on: impl Fn(&HeaderName) -> bool) -> HeaderMap {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .flat_map(|value| value.as_bytes().split(|byte| *byte == b','))
        .filter_map(|name| HeaderName::from_bytes(name.trim_ascii()).ok())
        .collect();
    let mut kept = HeaderMap::with_capacity(headers.len() + 4);
    // The name of the values that follow without one.
    let mut repeated = None;
    for (name, value) in headers {
        if let Some(name) = name {
            repeated = (goes_on(&name) && !named.contains(&name)).then_some(name);
        }
        if let Some(name) = &repeated {
            kept.append(name, value);
        }
    }
    kept
}

/// What is said of the bytes of a body that goes on as another one (RFC 9530 §2, §3; RFC 3230 §4.3.2).
pub fn drop_digests(headers: &mut HeaderMap) {
    for name in ["content-digest", "repr-digest", "digest", "content-md5"] {
        headers.remove(name);
    }
}

/// The headers of an agent's answer that a caller may see: nothing of the connection, of the agent's server, of its
/// addresses, cookies or demands for credentials.
pub fn answered(headers: HeaderMap) -> HeaderMap {
    kept(headers, |name| {
        !matches!(
            name.as_str(),
            "connection"
                | "keep-alive"
                | "proxy-connection"
                | "te"
                | "trailer"
                | "transfer-encoding"
                | "upgrade"
                | "content-length"
                | "server"
                | "x-powered-by"
                | "via"
                | "set-cookie"
                | "location"
                | "content-location"
                | "www-authenticate"
                | "proxy-authenticate"
                | "alt-svc"
                | "x-request-id"
                | "a2a-gateway-partial"
                | "a2a-gateway-assertion"
                | "strict-transport-security"
                | "access-control-allow-origin"
                | "access-control-allow-credentials"
                | "date"
        )
    })
}

/// The caller's query without `A2A-Version`, which goes on as a header.
pub fn forwarded_query(query: &str) -> Option<String> {
    let kept: Vec<&str> = query
        .split('&')
        .filter(|pair| !pair.is_empty() && !is_version(query::split(pair).0))
        .collect();
    (!kept.is_empty()).then(|| kept.join("&"))
}

/// A call of gRPC, which needs the trailers of HTTP/2. Neither gRPC-Web nor anything else under a longer name.
pub fn is_grpc(parts: &request::Parts) -> bool {
    let media_type = || parts.headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
    parts.version == Version::HTTP_2 && media_type().is_some_and(is_grpc_type)
}

pub fn is_grpc_type(media_type: &[u8]) -> bool {
    let rest = media_type.strip_prefix(b"application/grpc");
    rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'+' | b';' | b' ')))
}

/// When the caller of gRPC, whose call came at this moment, stops waiting; one that cannot be read, or is too far away, is
/// none.
pub fn deadline(headers: &HeaderMap, came: Instant) -> Option<Instant> {
    let timeout = headers.get(super::grpc::TIMEOUT)?.to_str().ok()?;
    came.checked_add(grpc::read_timeout(timeout)?)
}

/// A header value from text that is known to be clean.
pub fn value(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).unwrap_or_else(|_| HeaderValue::from_static("-"))
}
