//! Tokens that the issuer is asked about (RFC 7662): opaque ones, and those that can be revoked.
//!
//! The token goes to the configured endpoint in a form, the gateway's own id and secret with it. Only `active` as the
//! boolean true admits, and then what else the answer says must hold too.

use std::net::IpAddr;
use std::sync::Arc;

use http::{HeaderMap, HeaderValue, header};

use super::super::ask::{Answer, Asker, Error, Request, Said};
use super::super::claims::Claims;
use super::super::verifiers::Commit;
use super::super::{Invalid, Shown, sha256};
use super::Terms;
use crate::config::{Asking, Client, ClientAuthentication, Problem};
use crate::http::form::{self, Form};
use crate::observe::metrics::Metrics;

pub(super) struct Verifier {
    terms: Arc<Terms>,
    asker: Arc<Asker>,
    headers: HeaderMap,
    /// What the body has beside the token.
    form: Form,
}

impl Verifier {
    pub(super) fn load(terms: &Arc<Terms>, key: &str, asking: &Asking, client: &Client) -> Result<Self, Problem> {
        let key = section(key);
        let asker = Asker::load(&terms.scheme, &key, asking)?;
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert(header::CONTENT_TYPE, form::MEDIA_TYPE);
        let mut form = Form::default();
        match client.authentication {
            ClientAuthentication::Basic => {
                let value = form::basic(&client.id, client.secret.expose())
                    .map_err(|_| Problem::new(format!("{key}.client_secret"), "does not fit into a header"))?;
                headers.insert(header::AUTHORIZATION, value);
            }
            ClientAuthentication::Post => {
                form.add("client_id", &client.id);
                form.add("client_secret", client.secret.expose());
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
            let mut form = self.form.clone();
            form.add("token", &text);
            form.add("token_type_hint", "access_token");
            let terms = Arc::clone(&self.terms);
            let read = move |answer| read(&terms, answer, now);
            (Request::Post(self.headers.clone(), form.to_bytes()), read)
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

fn section(key: &str) -> String {
    format!("{key}.introspection")
}
