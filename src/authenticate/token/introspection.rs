//! Tokens that the issuer is asked about (RFC 7662): opaque ones, and those that can be revoked.
//!
//! The token goes to the configured endpoint in a form, the gateway's own id and secret with it. Only `active` as the
//! boolean true admits, and then what else the answer says must hold too.

use std::net::IpAddr;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, header};
use zeroize::Zeroizing;

use super::super::ask::{Answer, Asker, Error, Request, Said};
use super::super::claims::Claims;
use super::super::verifiers::Commit;
use super::super::{Invalid, Shown, sha256};
use super::Terms;
use crate::config::{Asking, Client, ClientAuthentication, Problem};
use crate::observe::metrics::Metrics;

pub(super) struct Verifier {
    terms: Arc<Terms>,
    asker: Arc<Asker>,
    headers: HeaderMap,
    /// What the body has beside the token.
    form: Zeroizing<String>,
}

impl Verifier {
    pub(super) fn load(terms: &Arc<Terms>, key: &str, asking: &Asking, client: &Client) -> Result<Self, Problem> {
        let key = section(key);
        let asker = Asker::load(&terms.scheme, &key, asking)?;
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/x-www-form-urlencoded"),
        );
        let mut form = Zeroizing::new(String::new());
        let (id, secret) = (encoded(&client.id), Zeroizing::new(encoded(client.secret.expose())));
        match client.authentication {
            ClientAuthentication::Basic => {
                // RFC 6749 §2.3.1: each of the two as in a form, before they become a name and a password.
                let both = Zeroizing::new(format!("{id}:{}", *secret));
                let value = Zeroizing::new(format!("Basic {}", STANDARD.encode(both.as_bytes())));
                let mut value = HeaderValue::from_str(&value)
                    .map_err(|_| Problem::new(format!("{key}.client_secret"), "does not fit into a header"))?;
                value.set_sensitive(true);
                headers.insert(header::AUTHORIZATION, value);
            }
            ClientAuthentication::Post => {
                form.push_str(&format!("&client_id={id}&client_secret={}", *secret));
            }
        }
        Ok(Self {
            terms: Arc::clone(terms),
            asker,
            headers,
            form,
        })
    }

    pub(super) fn trust_again(&self, key: &str) -> Result<Option<Commit>, Problem> {
        self.asker.trust_again(&section(key))
    }

    pub(super) fn count(&self, metrics: &Metrics) {
        self.asker.count(metrics);
    }

    pub(super) async fn verify(&self, client: IpAddr, token: &[u8]) -> Shown {
        let now = self.terms.clock.unix_seconds();
        let question = || {
            let text = String::from_utf8_lossy(token);
            let body = format!("token={}&token_type_hint=access_token{}", encoded(&text), *self.form);
            let terms = Arc::clone(&self.terms);
            let read = move |answer| read(&terms, answer, now);
            (Request::Post(self.headers.clone(), Bytes::from(body)), read)
        };
        self.asker.ask(sha256(&[token]), client, now, question).await
    }
}

fn read(terms: &Terms, answer: Answer, now: u64) -> Result<Said, Error> {
    let body = match answer {
        Answer::Told(body) => body,
        // RFC 7662 §2.3: nothing is said of the token.
        Answer::Refused => return Err(Error::Client),
    };
    let claims: Claims = serde_json::from_slice(&body)
        .map_err(|_| Error::Answer("it is no JSON object, or a member stands twice in it"))?;
    match claims.active() {
        Some(true) => {}
        Some(false) => return Ok(Said::Bad(Invalid::Inactive)),
        None => return Err(Error::Answer("its `active` is neither true nor false")),
    }
    Ok(match accept(terms, &claims, now) {
        Ok(good) => good,
        Err(reason) => Said::Bad(reason),
    })
}

fn accept(terms: &Terms, claims: &Claims, now: u64) -> Result<Said, Invalid> {
    // Asked about a token of any kind, some servers call others active too.
    if !claims.is_shown(&claims.bound()?) {
        return Err(Invalid::WrongType);
    }
    // The server was asked as the issuer's own: it may leave the name out.
    if claims.has("iss") {
        claims.issuer(&terms.issuer)?;
    }
    if !terms.audience.is_empty() {
        claims.audience(&terms.audience)?;
    }
    let expires = claims.times(now, terms.leeway)?;
    let proof = terms.proof(claims, expires)?;
    Ok(Said::Good { proof, expires })
}

/// As in a form (WHATWG URL, `application/x-www-form-urlencoded`), which RFC 6749 Appendix B asks for.
fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"*-._".contains(&byte) {
            encoded.push(char::from(byte));
        } else if byte == b' ' {
            encoded.push('+');
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

fn section(key: &str) -> String {
    format!("{key}.introspection")
}
