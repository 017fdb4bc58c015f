//! Client certificates: which names of a verified certificate are callers.
//!
//! The handshake has verified the chain; here the names are compared with the rules and the end of validity with the
//! clock on every request, because a connection may outlive its certificate. The common name alone never counts.

use std::sync::Arc;

use super::facts::{Facts, Given};
use super::pattern::matches;
use super::{Credential, Invalid, Proof, Shown, hex};
use crate::clock::Clock;
use crate::config::{CertificateRule, Mapping};
use crate::tls::{Peer, PeerCertificate};

pub(super) struct Verifier {
    scheme: Arc<str>,
    rules: Vec<CertificateRule>,
    mapping: Mapping,
    clock: Clock,
}

impl Verifier {
    pub(super) fn new(scheme: &Arc<str>, rules: &[CertificateRule], mapping: &Mapping, clock: &Clock) -> Self {
        Self {
            scheme: Arc::clone(scheme),
            rules: rules.to_vec(),
            mapping: mapping.clone(),
            clock: clock.clone(),
        }
    }

    pub(super) fn verify(&self, peer: &Peer) -> Shown {
        match &peer.certificate {
            Some(certificate) => self.check(certificate),
            None => Shown::Nothing,
        }
    }

    /// Whom a certificate names that the listener believes.
    pub(super) fn check(&self, certificate: &Arc<PeerCertificate>) -> Shown {
        let now = i64::try_from(self.clock.unix_seconds()).unwrap_or(i64::MAX);
        if now > certificate.not_after {
            return Shown::Refused(Invalid::CertificateExpired);
        }
        match self.rules.iter().find_map(|rule| admit(rule, certificate)) {
            Some(name) => {
                let given = Given::Certificate(certificate);
                match Facts::new(&self.mapping, &name, Vec::new(), &given) {
                    Ok(facts) => {
                        let credential = Credential::Certificate(Arc::clone(certificate));
                        Shown::Proof(Proof::new(&self.scheme, "mtls", facts, credential))
                    }
                    Err(_) => Shown::Refused(Invalid::CertificateNotAllowed),
                }
            }
            None => Shown::Refused(Invalid::CertificateNotAllowed),
        }
    }
}

/// The first name that the rule admits. DNS names have no case (RFC 4343), everything else is compared as it stands.
fn admit(rule: &CertificateRule, certificate: &PeerCertificate) -> Option<String> {
    let first = |pattern: &str, names: &[String]| {
        names
            .iter()
            .find(|name| matches(pattern.as_bytes(), name.as_bytes()))
            .cloned()
    };
    match rule {
        CertificateRule::Uri(pattern) => first(pattern, &certificate.uris),
        CertificateRule::Dns(pattern) => {
            let pattern = pattern.to_ascii_lowercase();
            certificate
                .dns_names
                .iter()
                .map(|name| name.to_ascii_lowercase())
                .find(|name| matches(pattern.as_bytes(), name.as_bytes()))
        }
        CertificateRule::Email(pattern) => first(pattern, &certificate.emails),
        CertificateRule::Subject(pattern) => first(pattern, std::slice::from_ref(&certificate.subject)),
        CertificateRule::Fingerprint(digits) => {
            let own = hex(&certificate.fingerprint);
            (own == *digits).then_some(own)
        }
    }
    .filter(|name| !name.is_empty())
}
