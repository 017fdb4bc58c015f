//! The names in a client certificate that the handshake verified.
//!
//! A name with anything outside visible ASCII is no name here: nothing in a certificate may end a log line or a header.

use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer;

use super::{PeerCertificate, sha256, subject};

/// The verified certificate cannot be read for names, so nothing is known of the peer.
#[derive(Debug, thiserror::Error)]
#[error("the client certificate is malformed beyond what its verification looks at")]
pub struct Unreadable;

impl PeerCertificate {
    pub fn parse(der: &[u8]) -> Result<Self, Unreadable> {
        let (_, parsed) = X509Certificate::from_der(der).map_err(|_| Unreadable)?;
        let mut certificate = Self {
            subject: subject::rfc4514(parsed.subject()),
            fingerprint: sha256(der),
            not_after: parsed.validity().not_after.timestamp(),
            ..Self::default()
        };
        let alternatives = parsed.subject_alternative_name().map_err(|_| Unreadable)?;
        for name in alternatives.iter().flat_map(|san| &san.value.general_names) {
            match name {
                GeneralName::URI(uri) => certificate.uris.extend(visible(uri)),
                // Host names compare without case (RFC 5280 §7.2).
                GeneralName::DNSName(name) => certificate
                    .dns_names
                    .extend(visible(name).map(|name| name.to_ascii_lowercase())),
                GeneralName::RFC822Name(email) => certificate.emails.extend(visible(email)),
                GeneralName::OtherName(..)
                | GeneralName::X400Address(_)
                | GeneralName::DirectoryName(_)
                | GeneralName::EDIPartyName(_)
                | GeneralName::IPAddress(_)
                | GeneralName::RegisteredID(_)
                | GeneralName::Invalid(..) => {}
            }
        }
        Ok(certificate)
    }
}

fn visible(name: &str) -> Option<String> {
    let visible = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic());
    visible.then(|| name.to_owned())
}
