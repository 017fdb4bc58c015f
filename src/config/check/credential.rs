//! What agents are shown: credentials read from where they are, token servers that secrets may be sent to, headers that
//! nobody else writes.

use http::{HeaderName, HeaderValue};

use super::super::model::{
    Assertions, CardSignatures, ClientAuthentication, SigningKey, TokenExchange, TokenServer, UpstreamAssertion,
    UpstreamCredential, UpstreamTls,
};
use super::super::raw::{
    List, RawAgent, RawAssertions, RawBasicCredential, RawBearerCredential, RawCardSignatures, RawClientAuthentication,
    RawClientCredentials, RawCredential, RawHeaderCredential, RawSigningKey, RawTokenExchange, RawUpstreamAssertion,
};
use super::super::units::{SecretText, Time};
use super::super::{Secret, join, place};
use super::names::Unique;
use super::{Check, DAY, HOUR, MILLISECOND, SECOND};

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

/// Headers by which callers and agents understand each other.
const CALLERS: [&str; 5] = [
    "authorization",
    "accept",
    "user-agent",
    "a2a-extensions",
    "x-a2a-extensions",
];

pub fn credential(check: &mut Check<'_>, key: &str, raw: &RawCredential) -> Option<UpstreamCredential> {
    let RawCredential {
        header: own,
        bearer: token,
        basic: user,
        client_credentials: granted,
        token_exchange: exchanged,
    } = raw;
    match (own, token, user, granted, exchanged) {
        (Some(raw), None, None, None, None) => {
            let own = header(check, &join(key, "header"), raw);
            own.map(|(name, value)| UpstreamCredential::Header { name, value })
        }
        (None, Some(raw), None, None, None) => bearer(check, &join(key, "bearer"), raw),
        (None, None, Some(raw), None, None) => basic(check, &join(key, "basic"), raw),
        (None, None, None, Some(raw), None) => client_credentials(check, &join(key, "client_credentials"), raw),
        (None, None, None, None, Some(raw)) => token_exchange(check, &join(key, "token_exchange"), raw),
        _ => {
            check.problem(
                key,
                "needs exactly one of `header`, `bearer`, `basic`, `client_credentials` and `token_exchange`",
            );
            None
        }
    }
}

pub fn header(check: &mut Check<'_>, key: &str, raw: &RawHeaderCredential) -> Option<(HeaderName, Secret<String>)> {
    let name = raw.name.as_ref().and_then(|text| name(check, &join(key, "name"), text));
    let value = secret(check, key, "value", raw.value.as_ref(), raw.value_file.as_ref());
    Some((name?, value?))
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
    if HeaderValue::from_str(secret.expose()).is_err() {
        check.problem(
            &key,
            "contains a character that a header cannot carry, such as a line break",
        );
        return None;
    }
    Some(secret)
}

/// The name of a header that the gateway writes for an agent.
fn name(check: &mut Check<'_>, key: &str, text: &str) -> Option<HeaderName> {
    match HeaderName::from_bytes(text.as_bytes()) {
        Ok(name) if NO_CREDENTIAL.contains(&name.as_str()) => {
            let cause = format!("`{name}` is written by the gateway and cannot be a credential");
            check.problem(key, cause);
            None
        }
        Ok(name) => Some(name),
        Err(_) => {
            check.problem(key, format!("`{text}` cannot be the name of a header"));
            None
        }
    }
}

/// What both grants have.
struct Asked<'r> {
    token_url: &'r Option<String>,
    client_id: &'r Option<String>,
    client_secret: &'r Option<SecretText>,
    client_secret_file: &'r Option<String>,
    authentication: RawClientAuthentication,
    scopes: &'r List<String>,
    audience: &'r Option<String>,
    resource: &'r Option<String>,
    ca: &'r Option<String>,
    timeout: Time,
    default_lifetime: Time,
    cooldown: Time,
}

fn client_credentials(check: &mut Check<'_>, key: &str, raw: &RawClientCredentials) -> Option<UpstreamCredential> {
    let asked = Asked {
        token_url: &raw.token_url,
        client_id: &raw.client_id,
        client_secret: &raw.client_secret,
        client_secret_file: &raw.client_secret_file,
        authentication: raw.authentication,
        scopes: &raw.scopes,
        audience: &raw.audience,
        resource: &raw.resource,
        ca: &raw.ca,
        timeout: raw.timeout,
        default_lifetime: raw.default_lifetime,
        cooldown: raw.cooldown,
    };
    server(check, key, &asked).map(|server| UpstreamCredential::ClientCredentials(Box::new(server)))
}

fn token_exchange(check: &mut Check<'_>, key: &str, raw: &RawTokenExchange) -> Option<UpstreamCredential> {
    let asked = Asked {
        token_url: &raw.token_url,
        client_id: &raw.client_id,
        client_secret: &raw.client_secret,
        client_secret_file: &raw.client_secret_file,
        authentication: raw.authentication,
        scopes: &raw.scopes,
        audience: &raw.audience,
        resource: &raw.resource,
        ca: &raw.ca,
        timeout: raw.timeout,
        default_lifetime: raw.default_lifetime,
        cooldown: raw.cooldown,
    };
    let server = server(check, key, &asked);
    let requested_token_type = uri(
        check,
        &join(key, "requested_token_type"),
        raw.requested_token_type.as_ref(),
    );
    let refused_for = check.time(&join(key, "refused_for"), raw.refused_for, MILLISECOND, HOUR);
    let concurrent = check.count(&join(key, "concurrent"), raw.concurrent, 1, 10_000);
    let tokens = check.count(&join(key, "tokens"), raw.tokens, 1, 10_000_000);
    Some(UpstreamCredential::TokenExchange(Box::new(TokenExchange {
        server: server?,
        requested_token_type,
        refused_for,
        concurrent,
        tokens,
    })))
}

fn server(check: &mut Check<'_>, key: &str, raw: &Asked<'_>) -> Option<TokenServer> {
    let url_key = join(key, "token_url");
    let url = raw.token_url.as_ref().and_then(|text| {
        let parsed = check.plain_url(&url_key, text)?;
        if !parsed.secure && !parsed.is_loopback() {
            check.problem(
                &url_key,
                "must be https: the secret and tokens go there; http only on a loopback address",
            );
        }
        if !parsed.secure && raw.ca.is_some() {
            check.problem(&join(key, "ca"), "has no effect: `token_url` is http");
        }
        Some(text.clone())
    });
    let id_key = join(key, "client_id");
    let client_id = check.text(&id_key, raw.client_id.as_ref());
    // RFC 6749 §A.1.
    if client_id.as_ref().is_some_and(|id| !id.bytes().all(is_visible)) {
        check.problem(&id_key, "must be of visible ASCII characters and spaces");
    }
    let client_secret = secret(
        check,
        key,
        "client_secret",
        raw.client_secret.as_ref(),
        raw.client_secret_file.as_ref(),
    );
    let scopes_key = join(key, "scopes");
    let mut scopes = Vec::new();
    for (index, scope) in raw.scopes.items() {
        // RFC 6749 §3.3.
        let is_scope = |byte: u8| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\';
        if scope.is_empty() || !scope.bytes().all(is_scope) {
            let cause = format!("`{scope}` is no scope: visible ASCII without spaces, `\"` and `\\`");
            check.problem(&place(&scopes_key, index), cause);
        }
        scopes.push(scope.clone());
    }
    let audience = check.text(&join(key, "audience"), raw.audience.as_ref());
    let resource = uri(check, &join(key, "resource"), raw.resource.as_ref());
    let ca = check.optional_path(&join(key, "ca"), raw.ca.as_ref());
    if ca.is_some() {
        let tls = UpstreamTls {
            ca: ca.clone(),
            ..UpstreamTls::default()
        };
        check.sound.upstreams.push((key.to_owned(), tls));
    }
    let timeout = check.time(&join(key, "timeout"), raw.timeout, MILLISECOND, HOUR);
    let default_lifetime = check.time(&join(key, "default_lifetime"), raw.default_lifetime, SECOND, DAY);
    let cooldown = check.time(&join(key, "cooldown"), raw.cooldown, MILLISECOND, HOUR);
    Some(TokenServer {
        url: url?,
        client_id: client_id?,
        client_secret: client_secret?,
        authentication: match raw.authentication {
            RawClientAuthentication::Basic => ClientAuthentication::Basic,
            RawClientAuthentication::Post => ClientAuthentication::Post,
        },
        scopes,
        audience,
        resource,
        ca,
        timeout,
        default_lifetime,
        cooldown,
    })
}

fn is_visible(byte: u8) -> bool {
    byte == b' ' || byte.is_ascii_graphic()
}

/// An absolute URI without a fragment (RFC 8707 §2), of whatever scheme.
fn uri(check: &mut Check<'_>, key: &str, text: Option<&String>) -> Option<String> {
    let text = text?;
    let scheme = text.split_once(':').map_or("", |(scheme, _)| scheme);
    let has_scheme = scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    if !has_scheme || text.contains('#') || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        check.problem(key, "must be an absolute URI without a fragment");
        return None;
    }
    Some(text.clone())
}

pub fn assertion(check: &mut Check<'_>, key: &str, raw: &RawUpstreamAssertion) -> Option<UpstreamAssertion> {
    let header_key = join(key, "header");
    let header = name(check, &header_key, &raw.header);
    if let Some(header) = header.as_ref().filter(|name| CALLERS.contains(&name.as_str())) {
        let cause = format!("`{header}` is a header that callers send, who get none of this name through");
        check.problem(&header_key, cause);
    }
    let audience = check.text(&join(key, "audience"), raw.audience.as_ref());
    let lifetime = check.time(&join(key, "lifetime"), raw.lifetime, SECOND, HOUR);
    let claims_key = join(key, "claims");
    let mut unique = Unique::default();
    let mut claims = Vec::new();
    for (index, claim) in raw.claims.items() {
        let key = place(&claims_key, index);
        if claim.is_empty() || claim.contains('=') {
            check.problem(&key, "must be the name of a claim or attribute, without `=`");
        }
        unique.claim(check, &key, claim);
        claims.push(claim.clone());
    }
    Some(UpstreamAssertion {
        header: header?,
        audience,
        lifetime,
        claims,
    })
}

/// `public_url` is the issuer unless it says another one.
pub fn assertions(check: &mut Check<'_>, raw: &RawAssertions, public_url: Option<&String>) -> Option<Assertions> {
    let issuer = match &raw.issuer {
        Some(issuer) => check.text("assertions.issuer", Some(issuer)),
        None => public_url.cloned(),
    };
    let max_age = check.time("assertions.max_age", raw.max_age, SECOND, DAY);
    let (keys, complete) = signing_keys(check, "assertions.keys", &raw.keys);
    check.sound.assertions = complete.then(|| Assertions {
        issuer: issuer.clone().unwrap_or_default(),
        keys: keys.clone(),
        max_age,
    });
    complete.then_some(Assertions {
        issuer: issuer?,
        keys,
        max_age,
    })
}

pub fn card_signatures(check: &mut Check<'_>, raw: &RawCardSignatures) -> Option<CardSignatures> {
    let (keys, complete) = signing_keys(check, "card_signatures.keys", &raw.keys);
    let signatures = complete.then_some(CardSignatures { keys });
    check.sound.card_signatures.clone_from(&signatures);
    signatures
}

/// And whether these are all.
fn signing_keys(check: &mut Check<'_>, section: &str, raw: &List<RawSigningKey>) -> (Vec<SigningKey>, bool) {
    let mut unique = Unique::default();
    let mut keys = Vec::new();
    let mut complete = true;
    for (index, raw) in raw.items() {
        let key = place(section, index);
        let file_key = join(&key, "private_key");
        let private_key = raw.private_key.as_ref().and_then(|file| check.path(&file_key, file));
        let id_key = join(&key, "id");
        let id = check.text(&id_key, raw.id.as_ref());
        if let Some(id) = &id {
            unique.claim(check, &id_key, id);
        }
        match private_key {
            Some(private_key) => keys.push(SigningKey { private_key, id }),
            None => complete = false,
        }
    }
    (keys, complete)
}

/// What an agent is shown by both its own keys and those of the whole configuration.
pub fn of_agent(check: &mut Check<'_>, key: &str, one: &RawAgent, raw: &RawAssertions) {
    let Some(upstream) = &one.upstream else { return };
    if upstream.assertion.is_some() && raw.keys.is_empty() {
        check.problem(
            &join(key, "upstream.assertion"),
            "needs `assertions.keys`: there is nothing to sign with",
        );
    }
    let exchanges = upstream
        .credential
        .as_ref()
        .is_some_and(|it| it.token_exchange.is_some());
    if exchanges && one.forward_credentials {
        check.problem(
            &join(key, "forward_credentials"),
            "contradicts `upstream.credential.token_exchange`, which keeps the caller's own token from the agent",
        );
    }
}
