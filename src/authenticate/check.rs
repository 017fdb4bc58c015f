//! HTTP authentication schemes (RFC 9110 §11) that the gateway does not know: a service is asked about each credential.
//!
//! It gets the `Authorization` field as it came, the method and the path: schemes such as Digest (RFC 7616) sign them. It
//! gets nothing else of the request, the query included, where a key of another scheme may stand. What it says of the caller
//! has the names of RFC 7662.

use std::net::IpAddr;
use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue, header, request};

use super::ask::{Answer, Asker, Error, Request, Said};
use super::claims::Claims;
use super::facts::{Facts, Given, Reading};
use super::verifiers::Commit;
use super::{Authorization, Credential, Evidence, Invalid, Proof, Shown, authorization, came, sha256};
use crate::clock::Clock;
use crate::config::{Asking, Mapping, Problem};
use crate::observe::metrics::Metrics;

const METHOD: HeaderName = HeaderName::from_static("x-forwarded-method");
const PATH: HeaderName = HeaderName::from_static("x-forwarded-uri");
/// Clock skew between the service and the gateway, in seconds: what NTP leaves.
const LEEWAY: u64 = 30;
/// The member that names the caller.
const NAME: &str = "sub";
/// Before the name of a caller in its id, followed by the name of the scheme.
const KIND: &str = "http";

pub(super) struct Verifier {
    terms: Arc<Terms>,
    clock: Clock,
    asker: Arc<Asker>,
    challenge: HeaderValue,
}

/// How answers are read.
struct Terms {
    /// The name in the configuration.
    scheme: Arc<str>,
    /// The name in HTTP, in lower case.
    name: String,
    by: Arc<str>,
    /// Those that are kept.
    claims: Vec<String>,
    reading: Arc<Reading>,
}

impl Verifier {
    pub(super) fn load(
        scheme: &Arc<str>,
        key: &str,
        name: &str,
        asking: &Asking,
        (claims, mapping): (&[String], &Mapping),
        clock: &Clock,
    ) -> Result<Self, Problem> {
        let challenge = HeaderValue::try_from(format!("{name} realm=\"a2a-gateway\"")).map_err(|_| {
            let cause = "cannot be the name of an HTTP authentication scheme";
            Problem::new(format!("{key}.scheme"), cause)
        })?;
        let asker = Asker::load(scheme, &section(key), asking)?;
        Ok(Self {
            terms: Arc::new(Terms {
                scheme: Arc::clone(scheme),
                name: name.to_ascii_lowercase(),
                by: Arc::from(asker.url()),
                claims: claims.to_vec(),
                reading: Arc::new(Reading {
                    claim: NAME.to_owned(),
                    mapping: mapping.clone(),
                }),
            }),
            clock: clock.clone(),
            asker,
            challenge,
        })
    }

    pub(super) fn trust_again(&self, key: &str) -> Result<Option<Commit>, Problem> {
        self.asker.trust_again(&section(key))
    }

    pub(super) fn count(&self, metrics: &Metrics) {
        self.asker.count(metrics);
    }

    pub(super) fn challenge(&self) -> &HeaderValue {
        &self.challenge
    }

    /// What a caller that the same service vouched for before would show now: whether it vouched for longer than this.
    pub(super) fn again(&self, evidence: &Evidence) -> Option<Arc<Proof>> {
        match &evidence.credential {
            Credential::Vouched { by, expires, read } => {
                let is_same = *by == self.terms.by
                    && *read == self.terms.reading
                    && evidence.id.starts_with(&format!("{}:", self.terms.kind()));
                let holds = expires.is_none_or(|end| self.clock.unix_seconds() < end);
                (is_same && holds).then(|| Proof::repeated(evidence))
            }
            Credential::Key { .. }
            | Credential::User { .. }
            | Credential::Token { .. }
            | Credential::Certificate(_) => None,
        }
    }

    pub(super) async fn verify(&self, client: IpAddr, parts: &request::Parts) -> Shown {
        match authorization(&parts.headers) {
            Authorization::Absent => return Shown::Nothing,
            Authorization::Repeated => return Shown::Refused(Invalid::Ambiguous),
            Authorization::One { scheme, .. } if !scheme.eq_ignore_ascii_case(self.terms.name.as_bytes()) => {
                return Shown::Nothing;
            }
            Authorization::One { credentials: [], .. } => return Shown::Refused(Invalid::Malformed),
            Authorization::One { .. } => {}
        }
        let Some(field) = parts.headers.get(header::AUTHORIZATION) else {
            return Shown::Nothing;
        };
        let (method, path) = (came::method(parts).as_str(), came::uri(parts).path());
        // Nothing of the three has a zero in it.
        let digest = sha256(&[field.as_bytes(), b"\0", method.as_bytes(), b"\0", path.as_bytes()]);
        let now = self.clock.unix_seconds();
        let question = || {
            let terms = Arc::clone(&self.terms);
            let read = move |answer| terms.read(answer, now);
            (Request::Get(headers(field, method, path)), read)
        };
        self.asker.ask(digest, client, now, question).await
    }
}

fn headers(field: &HeaderValue, method: &str, path: &str) -> HeaderMap {
    let mut field = field.clone();
    field.set_sensitive(true);
    let mut headers = HeaderMap::new();
    headers.insert(header::AUTHORIZATION, field);
    headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
    for (name, value) in [(METHOD, method), (PATH, path)] {
        // Both come from a head that was read as HTTP, so they fit into another one.
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(name, value);
        }
    }
    headers
}

impl Terms {
    fn kind(&self) -> String {
        format!("{KIND}:{}", self.name)
    }

    fn read(&self, answer: Answer, now: u64) -> Result<Said, Error> {
        let body = match answer {
            Answer::Told(body) => body,
            Answer::Refused => return Ok(Said::Bad(Invalid::Denied)),
        };
        let claims: Claims = serde_json::from_slice(&body)
            .map_err(|_| Error::Answer("it is no JSON object, or a member stands twice in it"))?;
        if claims.has("active") && claims.active() != Some(true) {
            return match claims.active() {
                Some(_) => Ok(Said::Bad(Invalid::Denied)),
                None => Err(Error::Answer("its `active` is neither true nor false")),
            };
        }
        Ok(match self.accept(&claims, now) {
            Ok((proof, expires)) => Said::Good { proof, expires },
            Err(reason) => Said::Bad(reason),
        })
    }

    fn accept(&self, claims: &Claims, now: u64) -> Result<(Arc<Proof>, Option<u64>), Invalid> {
        let expires = claims.times(now, LEEWAY)?;
        // With a mapping the member is not needed.
        let Reading { claim, mapping } = &*self.reading;
        let name = match mapping.name {
            Some(_) => "",
            None => claims.principal(claim)?,
        };
        let given = Given::Token {
            claims: claims.all(),
            kept: &self.claims,
            issuer: None,
        };
        let facts = Facts::new(mapping, name, claims.scopes()?, &given)?;
        let credential = Credential::Vouched {
            by: Arc::clone(&self.by),
            expires,
            read: Arc::clone(&self.reading),
        };
        let proof = Proof::new(&self.scheme, &self.kind(), facts, credential);
        Ok((proof, expires))
    }
}

fn section(key: &str) -> String {
    format!("{key}.check")
}
