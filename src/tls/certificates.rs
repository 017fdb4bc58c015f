//! Certificates with their keys: loading a pair, and choosing one by the name that a client asks for.
//!
//! Causes name what is wrong, never what stands in the file: a PEM parser's message can quote a line of it, and that line
//! can be a key.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use rustls::InconsistentKeys;
use rustls::crypto::CryptoProvider;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls_pki_types::pem::{self, PemObject};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer;

/// Which file of a pair is to blame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Blame {
    Certificate,
    PrivateKey,
}

/// A chain and the key of its first certificate.
pub(super) struct Pair {
    pub(super) certified: Arc<CertifiedKey>,
    /// SAN DNS names of the first certificate: lower case, without a trailing dot.
    pub(super) names: Vec<String>,
    /// The first expiry in the chain, in seconds since 1970.
    pub(super) not_after: i64,
}

/// Every certificate in `pem`, at least one.
pub(super) fn parse_chain(bytes: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let chain: Vec<_> = CertificateDer::pem_slice_iter(bytes)
        .collect::<Result<_, _>>()
        .map_err(|error| broken_pem(&error).to_owned())?;
    if chain.is_empty() {
        return Err("holds no PEM certificate (BEGIN CERTIFICATE)".to_owned());
    }
    Ok(chain)
}

pub(super) fn broken_pem(error: &pem::Error) -> &'static str {
    match error {
        pem::Error::MissingSectionEnd { .. } => "is not PEM: a section has no END line, the file may be cut off",
        pem::Error::IllegalSectionStart { .. } => "is not PEM: a BEGIN line is not on a line of its own",
        pem::Error::Base64Decode(_) => "is not PEM: a section is not base64",
        pem::Error::NoItemsFound => "holds no PEM section of the kind wanted",
        pem::Error::Io(_) | pem::Error::SectionTooLarge | _ => "is not PEM",
    }
}

fn parse_key(bytes: &[u8]) -> Result<PrivateKeyDer<'static>, &'static str> {
    PrivateKeyDer::from_pem_slice(bytes).map_err(|error| {
        let encrypted = [&b"BEGIN ENCRYPTED PRIVATE KEY"[..], b"Proc-Type: 4,ENCRYPTED"];
        if encrypted.iter().any(|mark| memchr::memmem::find(bytes, mark).is_some()) {
            return "is encrypted: give the key without a passphrase, readable only by the gateway";
        }
        if matches!(error, pem::Error::NoItemsFound) {
            return "holds no PEM private key (BEGIN PRIVATE KEY, BEGIN EC PRIVATE KEY or BEGIN RSA PRIVATE KEY)";
        }
        broken_pem(&error)
    })
}

pub(super) fn load_pair(
    certificate: &[u8],
    private_key: &[u8],
    provider: &CryptoProvider,
) -> Result<Pair, Vec<(Blame, String)>> {
    let mut problems = Vec::new();
    let chain = parse_chain(certificate)
        .map_err(|cause| problems.push((Blame::Certificate, cause)))
        .ok();
    let key = parse_key(private_key)
        .map_err(|cause| problems.push((Blame::PrivateKey, cause.to_owned())))
        .ok();
    let (Some(chain), Some(key)) = (chain, key) else {
        return Err(problems);
    };
    let (names, not_after) = names_and_expiry(&chain).map_err(|cause| vec![(Blame::Certificate, cause)])?;
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "all that is left of rustls' errors says that the key cannot be loaded"
    )]
    let certified = CertifiedKey::from_der(chain, key, provider).map_err(|error| {
        vec![match error {
            rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => (
                Blame::PrivateKey,
                "is not the key of the first certificate in the certificate file: the pair is mixed \
                 up, or the chain does not begin with the server's own certificate"
                    .to_owned(),
            ),
            rustls::Error::InvalidCertificate(error) => (
                Blame::Certificate,
                format!("its first certificate cannot be used: {error}"),
            ),
            _ => (
                Blame::PrivateKey,
                "holds a key of a kind that is not supported: use RSA of 2048 to 8192 bits, ECDSA on \
                 P-256, P-384 or P-521, or Ed25519"
                    .to_owned(),
            ),
        }]
    })?;
    Ok(Pair {
        certified: Arc::new(certified),
        names,
        not_after,
    })
}

fn names_and_expiry(chain: &[CertificateDer<'_>]) -> Result<(Vec<String>, i64), String> {
    let mut names = Vec::new();
    let mut not_after = i64::MAX;
    for (index, certificate) in chain.iter().enumerate() {
        let (_, parsed) = X509Certificate::from_der(certificate)
            .map_err(|_| format!("certificate {} of the chain is not X.509", index + 1))?;
        not_after = not_after.min(parsed.validity().not_after.timestamp());
        if index == 0 {
            let alternatives = parsed
                .subject_alternative_name()
                .map_err(|_| "the subject alternative names of its first certificate are malformed".to_owned())?;
            for name in alternatives.iter().flat_map(|san| &san.value.general_names) {
                if let GeneralName::DNSName(name) = name {
                    names.push(normalise(name));
                }
            }
        }
    }
    Ok((names, not_after))
}

fn normalise(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

/// The certificates of one listener by name.
///
/// An exact name wins over a wildcard, which stands for one label (RFC 6125 §6.4.3). Among certificates of one name the
/// first whose key the client can verify, so an ECDSA and an RSA certificate may stand side by side.
pub(super) struct ByName {
    default: Arc<CertifiedKey>,
    exact: HashMap<String, Vec<Arc<CertifiedKey>>>,
    /// By what follows `*.`.
    wildcard: HashMap<String, Vec<Arc<CertifiedKey>>>,
}

impl ByName {
    /// `first` serves absent and unknown names too.
    pub(super) fn new<'a>(first: &'a Pair, others: impl IntoIterator<Item = &'a Pair>) -> Self {
        let mut by_name = Self {
            default: Arc::clone(&first.certified),
            exact: HashMap::new(),
            wildcard: HashMap::new(),
        };
        for pair in std::iter::once(first).chain(others) {
            for name in &pair.names {
                let certificates = match name.strip_prefix("*.") {
                    Some(parent) => by_name.wildcard.entry(parent.to_owned()),
                    None => by_name.exact.entry(name.clone()),
                };
                certificates.or_default().push(Arc::clone(&pair.certified));
            }
        }
        by_name
    }

    fn named(&self, name: &str) -> Option<&[Arc<CertifiedKey>]> {
        let name = normalise(name);
        self.exact
            .get(&name)
            .or_else(|| {
                let (_, parent) = name.split_once('.')?;
                self.wildcard.get(parent)
            })
            .map(Vec::as_slice)
    }
}

impl ResolvesServerCert for ByName {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let named = hello.server_name().and_then(|name| self.named(name));
        let chosen = named.and_then(|certificates| {
            certificates
                .iter()
                .find(|certified| certified.key.choose_scheme(hello.signature_schemes()).is_some())
                .or_else(|| certificates.first())
        });
        Some(Arc::clone(chosen.unwrap_or(&self.default)))
    }
}

impl fmt::Debug for ByName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ByName")
            .field("exact", &self.exact.keys())
            .field("wildcard", &self.wildcard.keys())
            .finish_non_exhaustive()
    }
}
