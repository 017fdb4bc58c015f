//! A token server: one question, one answer (RFC 6749 §3.2).
//!
//! Asked at the configured address alone, over TLS unless that is on this machine; a redirect is an error. Answers are small
//! and read whole. Nothing of a secret, a token or of the server's own texts is in an error: of what it says only the codes
//! that standards define are told.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use http::{HeaderValue, StatusCode, header};
use serde::Deserialize;
use serde_json::Value;
use zeroize::Zeroizing;

use crate::config::{ClientAuthentication, Problem, Secret, TokenServer, UpstreamTls};
use crate::http::fetch::{self, Fetcher};
use crate::http::form::{self, Form};
use crate::tls;

/// Of an answer: a token with everything that is told of it has a few KiB.
const MAX_BYTES: usize = 64 * 1024;
/// Longest token: what a header section of a usual server holds twice.
const MAX_TOKEN: usize = 16 * 1024;
const MAX_HEADER_BYTES: usize = 16 * 1024;
/// A token is got again once a day at the latest, whatever its server says.
pub const MAX_LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);
/// Before a token ends, another one is there, if its life is long enough for that.
const MARGIN: Duration = Duration::from_secs(10);

const JSON: HeaderValue = HeaderValue::from_static("application/json");
pub const ACCESS_TOKEN: &str = "urn:ietf:params:oauth:token-type:access_token";
const JWT: &str = "urn:ietf:params:oauth:token-type:jwt";

/// The errors that standards define (RFC 6749 §5.2, RFC 8693 §2.2.2, RFC 8707 §2), and whether they are about the token that
/// is to be exchanged rather than about the gateway.
const CODES: [(&str, bool); 10] = [
    ("invalid_request", true),
    ("invalid_grant", true),
    ("invalid_target", true),
    ("invalid_scope", true),
    ("access_denied", true),
    ("invalid_client", false),
    ("unauthorized_client", false),
    ("unsupported_grant_type", false),
    ("temporarily_unavailable", false),
    ("server_error", false),
];

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Fetch(#[from] fetch::Error),
    /// `code`: as the server says, if it is a known one.
    #[error("the token server refuses with status {status} and {code}")]
    Refused { status: StatusCode, code: &'static str },
    #[error("the token server's answer has status {0} instead of 200")]
    Status(StatusCode),
    #[error("the token server's answer cannot be used: {0}")]
    Answer(&'static str),
}

impl Error {
    /// The token that was to be exchanged is the cause, as far as the server says.
    pub fn is_about_subject(&self) -> bool {
        match self {
            Self::Refused { code, .. } => CODES.iter().any(|(known, subject)| known == code && *subject),
            Self::Fetch(_) | Self::Status(_) | Self::Answer(_) => false,
        }
    }
}

/// A token as it is shown, and how long it holds from the moment it was asked for.
pub struct Granted {
    pub value: HeaderValue,
    pub lifetime: Duration,
    pub issued_type: Option<String>,
}

pub struct Server {
    config: TokenServer,
    secret: ArcSwap<Secret<String>>,
    trust: ArcSwap<Trust>,
}

/// Whom to believe, and the content of the file that says so.
pub struct Trust {
    fetcher: Fetcher,
    digest: Option<[u8; 32]>,
}

/// What is configured by now, where it is something else.
pub struct Renewed {
    secret: Option<Secret<String>>,
    trust: Option<Trust>,
}

impl Renewed {
    pub fn is_empty(&self) -> bool {
        self.secret.is_none() && self.trust.is_none()
    }
}

impl Server {
    /// `key` is where it stands in the configuration. Blocking: reads files.
    pub fn build(config: &TokenServer, key: &str) -> Result<Self, Vec<Problem>> {
        Ok(Self {
            config: config.clone(),
            secret: ArcSwap::from_pointee(config.client_secret.clone()),
            trust: ArcSwap::from_pointee(trust(config, key)?),
        })
    }

    pub fn config(&self) -> &TokenServer {
        &self.config
    }

    pub fn has_secret_of(&self, other: &Self) -> bool {
        self.secret.load().expose() == other.secret.load().expose()
    }

    /// Of a configuration that differs in the secret at most. Blocking: reads files.
    pub fn renewed(&self, config: &TokenServer, key: &str) -> Result<Renewed, Vec<Problem>> {
        let secret =
            (self.secret.load().expose() != config.client_secret.expose()).then(|| config.client_secret.clone());
        let known = self.trust.load().digest;
        let same = config.ca.is_none() || (known.is_some() && known == tls::client::digest(&tls_of(config)));
        let trust = (!same).then(|| trust(config, key)).transpose()?;
        Ok(Renewed { secret, trust })
    }

    pub fn take(&self, renewed: Renewed) {
        if let Some(secret) = renewed.secret {
            self.secret.store(Arc::new(secret));
        }
        if let Some(trust) = renewed.trust {
            self.trust.store(Arc::new(trust));
        }
    }

    /// `grant` is the form without what the configuration adds.
    pub async fn ask(&self, grant: &[(&str, &str)]) -> Result<Granted, Error> {
        let TokenServer {
            url,
            client_id,
            authentication,
            scopes,
            audience,
            resource,
            timeout,
            default_lifetime,
            ..
        } = &self.config;
        let secret = self.secret.load_full();
        let mut asked = Form::default();
        for (name, value) in grant {
            asked.add(name, value);
        }
        if !scopes.is_empty() {
            asked.add("scope", &scopes.join(" "));
        }
        for (name, value) in [("audience", audience), ("resource", resource)] {
            if let Some(value) = value {
                asked.add(name, value);
            }
        }
        let mut options = fetch::Options {
            max_bytes: MAX_BYTES,
            max_header_bytes: MAX_HEADER_BYTES,
            timeout: *timeout,
            ..fetch::Options::default()
        };
        match authentication {
            ClientAuthentication::Basic => {
                let value = form::basic(client_id, secret.expose());
                let value = value.map_err(|_| Error::Answer("the client's id or secret fits in no header"))?;
                options.headers.insert(header::AUTHORIZATION, value);
            }
            ClientAuthentication::Post => {
                asked.add("client_id", client_id);
                asked.add("client_secret", secret.expose());
            }
        }
        options.headers.insert(header::CONTENT_TYPE, form::MEDIA_TYPE);
        options.headers.insert(header::ACCEPT, JSON);
        let fetcher = self.trust.load().fetcher.clone();
        let answer = fetcher.submit(url, asked.to_bytes(), &options).await?;
        match answer.status {
            StatusCode::OK => read(&answer.body, *default_lifetime),
            status if status.is_client_error() => Err(match refusal(&answer.body) {
                Some(code) => Error::Refused { status, code },
                None => Error::Status(status),
            }),
            status => Err(Error::Status(status)),
        }
    }
}

fn tls_of(config: &TokenServer) -> UpstreamTls {
    UpstreamTls {
        ca: config.ca.clone(),
        ..UpstreamTls::default()
    }
}

fn trust(config: &TokenServer, key: &str) -> Result<Trust, Vec<Problem>> {
    let tls = tls_of(config);
    // First: what is written in between is another content to the next reading.
    let digest = tls::client::digest(&tls);
    let config = tls::client::client_config(&tls, &["http/1.1"], key)?;
    Ok(Trust {
        fetcher: Fetcher::new(config),
        digest,
    })
}

/// RFC 6749 §5.1, RFC 8693 §2.2.1.
#[derive(Deserialize)]
struct Told {
    access_token: Option<String>,
    token_type: Option<String>,
    expires_in: Option<Value>,
    issued_token_type: Option<String>,
}

pub(super) fn read(body: &[u8], default_lifetime: Duration) -> Result<Granted, Error> {
    let told: Told = serde_json::from_slice(body).map_err(|_| Error::Answer("it is no JSON of this form"))?;
    let token = told.access_token.map(Zeroizing::new);
    let token = token.ok_or(Error::Answer("it has no `access_token`"))?;
    let token_type = told.token_type.ok_or(Error::Answer("it has no `token_type`"))?;
    // RFC 6749 §7.1: a type that is not understood is not used. RFC 6749 §5.1: in whatever case.
    if !token_type.eq_ignore_ascii_case("bearer") {
        return Err(Error::Answer("its `token_type` is not Bearer"));
    }
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(Error::Answer("its `access_token` is none that a header can carry"));
    }
    if token.len() > MAX_TOKEN {
        return Err(Error::Answer("its `access_token` is larger than 16 KiB"));
    }
    let lifetime = match &told.expires_in {
        None | Some(Value::Null) => default_lifetime,
        Some(value) => seconds(value).ok_or(Error::Answer("its `expires_in` is no number of seconds"))?,
    };
    if lifetime.is_zero() {
        return Err(Error::Answer("its `expires_in` says that the token has ended"));
    }
    let text = Zeroizing::new(format!("Bearer {}", *token));
    let mut value = HeaderValue::from_str(&text).map_err(|_| Error::Answer("its `access_token` fits in no header"))?;
    value.set_sensitive(true);
    Ok(Granted {
        value,
        lifetime: lifetime.min(MAX_LIFETIME),
        issued_type: told.issued_token_type,
    })
}

/// Some servers write the number as text.
fn seconds(value: &Value) -> Option<Duration> {
    let seconds = match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text
            .parse::<u64>()
            .ok()
            .map(|_| text.parse::<f64>().unwrap_or(f64::MAX)),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    };
    let seconds = seconds.filter(|seconds| *seconds >= 0.0)?;
    Some(Duration::from_secs_f64(seconds.min(MAX_LIFETIME.as_secs_f64())))
}

/// What an answer with a status of its own says; `None`: not what standards define for that.
pub(super) fn refusal(body: &[u8]) -> Option<&'static str> {
    #[derive(Deserialize)]
    struct Told {
        error: String,
    }
    let told: Told = serde_json::from_slice(body).ok()?;
    let known = CODES.iter().find(|(code, _)| *code == told.error);
    Some(known.map_or("an error of its own", |(code, _)| code))
}

/// The token that was asked for, or one that says the same in another form.
pub fn is_asked_for(issued: Option<&str>, requested: Option<&str>) -> bool {
    match (issued, requested) {
        // Not every server says it, although RFC 8693 §2.2.1 wants it.
        (None, _) => true,
        (Some(issued), Some(requested)) => issued == requested,
        (Some(issued), None) => issued == ACCESS_TOKEN || issued == JWT,
    }
}

/// When to get another token of such a life: at four fifths, and a while before its end where that leaves half of it.
pub fn refresh_after(lifetime: Duration) -> Duration {
    let early = lifetime.mul_f64(0.8).min(lifetime.saturating_sub(MARGIN));
    early.max(lifetime / 2)
}
