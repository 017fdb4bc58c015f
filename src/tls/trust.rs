//! Which client certificates a listener believes: a CA bundle and revocation lists.
//!
//! Refuses, when it is loaded, what would refuse every client later: a revocation list that no CA of the bundle signed,
//! or one that may belong to two CAs. The signature is checked with the algorithms that handshakes use. A certificate
//! whose status no list tells, or whose list is past its next update, is refused (RFC 5280 §6.3.3).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustls::RootCertStore;
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, CertificateRevocationListDer, UnixTime};
use x509_parser::asn1_rs::{Any, BitString, FromDer as _, Tag};
use x509_parser::certificate::X509Certificate;
use x509_parser::time::ASN1Time;

use super::certificates::{broken_pem, parse_chain};

/// The certificates that a client showed, kept to be verified again once something else is trusted.
#[derive(Debug)]
pub struct Chain {
    leaf: CertificateDer<'static>,
    others: Vec<CertificateDer<'static>>,
    /// The last trust that accepted it.
    accepted: AtomicU64,
    /// The last trust that did not.
    refused: AtomicU64,
}

/// Who verifies the clients of a listener, as it was loaded once.
#[derive(Debug)]
pub(super) struct Trust {
    /// Distinguishes every trust of the process; never 0.
    id: u64,
    verifier: Option<Arc<dyn ClientCertVerifier>>,
}

impl Trust {
    /// Without a verifier no client certificate is believed.
    pub(super) fn new(verifier: Option<Arc<dyn ClientCertVerifier>>) -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self {
            id: LAST.fetch_add(1, Ordering::Relaxed) + 1,
            verifier,
        }
    }

    /// What this trust has accepted in a handshake.
    pub(super) fn chain(&self, shown: &[CertificateDer<'_>]) -> Option<Chain> {
        let (leaf, others) = shown.split_first()?;
        Some(Chain {
            leaf: leaf.clone().into_owned(),
            others: others.iter().map(|other| other.clone().into_owned()).collect(),
            accepted: AtomicU64::new(self.id),
            refused: AtomicU64::new(0),
        })
    }

    /// Verified once for each trust: until another one is loaded, the answer stays.
    pub(super) fn accepts(&self, chain: &Chain, now: UnixTime) -> bool {
        if chain.accepted.load(Ordering::Relaxed) == self.id {
            return true;
        }
        if chain.refused.load(Ordering::Relaxed) == self.id {
            return false;
        }
        let verifier = self.verifier.as_ref();
        let accepts = verifier.is_some_and(|verifier| {
            let verified = verifier.verify_client_cert(&chain.leaf, &chain.others, now);
            verified.is_ok()
        });
        let answer = if accepts { &chain.accepted } else { &chain.refused };
        answer.store(self.id, Ordering::Relaxed);
        accepts
    }
}

/// Certificates that are believed to sign others.
pub(super) struct Bundle {
    roots: Arc<RootCertStore>,
    authorities: Vec<Authority>,
}

struct Authority {
    /// DER of the name, as it stands in the certificate.
    subject: Vec<u8>,
    /// DER of the public key with its algorithm.
    public_key: Vec<u8>,
    may_sign_lists: bool,
}

/// One revocation list that a CA of the bundle signed.
pub(super) struct RevocationList {
    der: CertificateRevocationListDer<'static>,
    this_update: i64,
    /// Seconds since 1970.
    pub(super) next_update: i64,
}

/// The root store of a PEM bundle.
pub(super) fn roots(bytes: &[u8]) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for (index, certificate) in parse_chain(bytes)?.into_iter().enumerate() {
        roots
            .add(certificate)
            .map_err(|error| format!("certificate {} cannot be a CA: {error}", index + 1))?;
    }
    Ok(roots)
}

impl Bundle {
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, String> {
        let authorities = parse_chain(bytes)?
            .iter()
            .enumerate()
            .map(|(index, certificate)| {
                Authority::parse(certificate).ok_or_else(|| format!("certificate {} is not X.509", index + 1))
            })
            .collect::<Result<_, _>>()?;
        Ok(Self {
            roots: Arc::new(roots(bytes)?),
            authorities,
        })
    }

    /// Every list of one file, PEM or DER, each signed by a CA of this bundle.
    pub(super) fn revocation_lists(
        &self,
        bytes: &[u8],
        provider: &Arc<CryptoProvider>,
    ) -> Result<Vec<RevocationList>, String> {
        let lists = if memchr::memmem::find(bytes, b"-----BEGIN").is_some() {
            CertificateRevocationListDer::pem_slice_iter(bytes)
                .collect::<Result<Vec<_>, _>>()
                .map_err(|error| broken_pem(&error).to_owned())?
        } else {
            vec![CertificateRevocationListDer::from(bytes.to_vec())]
        };
        if lists.is_empty() {
            return Err("holds no revocation list (BEGIN X509 CRL)".to_owned());
        }
        lists
            .into_iter()
            .map(|der| self.revocation_list(der, provider))
            .collect()
    }

    fn revocation_list(
        &self,
        der: CertificateRevocationListDer<'static>,
        provider: &Arc<CryptoProvider>,
    ) -> Result<RevocationList, String> {
        let fields = ListFields::parse(&der).ok_or("is neither a PEM nor a DER revocation list")?;
        let next_update = fields
            .next_update
            .ok_or("has no next update (RFC 5280 §5.1.2.5 demands one)")?;
        let algorithms = &provider.signature_verification_algorithms;

        let issuers: Vec<_> = self
            .authorities
            .iter()
            .filter(|authority| authority.subject == fields.issuer)
            .collect();
        let signer = issuers
            .iter()
            .find(|authority| authority.signed(&fields, algorithms))
            .ok_or(
                "no CA in client_ca signed it: with it every client would be refused; give the list \
                 of one of these CAs, or add the CA that issued it",
            )?;
        if issuers
            .iter()
            .any(|authority| authority.public_key != signer.public_key)
        {
            return Err(
                "client_ca has two CAs of the name that issued it, with different keys, so it would \
                 refuse the clients of one of them: give the new CA another name"
                    .to_owned(),
            );
        }
        if !signer.may_sign_lists {
            return Err("the key usage of the CA that signed it does not allow signing revocation lists".to_owned());
        }
        // What handshakes cannot read (delta lists, indirect lists) fails here and not there.
        WebPkiClientVerifier::builder_with_provider(Arc::clone(&self.roots), Arc::clone(provider))
            .with_crls([der.clone()])
            .build()
            .map_err(|error| format!("cannot be used: {error}"))?;
        Ok(RevocationList {
            this_update: fields.this_update,
            next_update,
            der,
        })
    }

    /// `optional` lets clients without a certificate in; one that is shown must be good in any case.
    pub(super) fn verifier(
        &self,
        mut lists: Vec<RevocationList>,
        optional: bool,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Arc<dyn ClientCertVerifier>, String> {
        // Of two lists of one CA the verifier takes the first, and that must be the newer.
        lists.sort_by_key(|list| std::cmp::Reverse(list.this_update));
        let builder = WebPkiClientVerifier::builder_with_provider(Arc::clone(&self.roots), Arc::clone(provider))
            .with_crls(lists.into_iter().map(|list| list.der))
            .enforce_revocation_expiration();
        let builder = if optional {
            builder.allow_unauthenticated()
        } else {
            builder
        };
        builder.build().map_err(|error| format!("cannot be used: {error}"))
    }
}

impl Authority {
    fn parse(certificate: &CertificateDer<'_>) -> Option<Self> {
        let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
        let key_usage = parsed.key_usage().ok()?;
        Some(Self {
            subject: parsed.subject().as_raw().to_vec(),
            public_key: parsed.public_key().raw.to_vec(),
            may_sign_lists: key_usage.is_none_or(|usage| usage.value.crl_sign()),
        })
    }

    fn signed(&self, list: &ListFields<'_>, algorithms: &WebPkiSupportedAlgorithms) -> bool {
        let Some((algorithm, key)) = sequence(&self.public_key).and_then(|(_, parts)| {
            let (rest, algorithm) = Any::from_der(parts).ok()?;
            let (_, key) = BitString::from_der(rest).ok()?;
            Some((algorithm.data, key.data))
        }) else {
            return false;
        };
        algorithms.all.iter().any(|candidate| {
            candidate.public_key_alg_id().as_ref() == algorithm
                && candidate.signature_alg_id().as_ref() == list.signature_algorithm
                && candidate.verify_signature(&key, list.signed, &list.signature).is_ok()
        })
    }
}

/// The parts of a `CertificateList` (RFC 5280 §5.1) that tell who signed it and for how long. The entries, which can be
/// many, are left to the verifier.
struct ListFields<'a> {
    signed: &'a [u8],
    signature_algorithm: &'a [u8],
    signature: Vec<u8>,
    issuer: &'a [u8],
    this_update: i64,
    next_update: Option<i64>,
}

impl<'a> ListFields<'a> {
    fn parse(der: &'a [u8]) -> Option<Self> {
        let (_, list) = sequence(der)?;
        let (after_signed, signed) = element(list)?;
        let (rest, signature_algorithm) = Any::from_der(after_signed).ok()?;
        let (_, signature) = BitString::from_der(rest).ok()?;

        let (_, fields) = sequence(signed)?;
        let (after_version, first) = Any::from_der(fields).ok()?;
        let fields = if first.tag() == Tag::Integer {
            after_version
        } else {
            fields
        };
        let (fields, _algorithm) = element(fields)?;
        let (fields, issuer) = element(fields)?;
        let (fields, this_update) = ASN1Time::from_der(fields).ok()?;
        let next_update = ASN1Time::from_der(fields).ok();
        Some(Self {
            signed,
            signature_algorithm: signature_algorithm.data,
            signature: signature.data.into_owned(),
            issuer,
            this_update: this_update.timestamp(),
            next_update: next_update.map(|(_, time)| time.timestamp()),
        })
    }
}

/// What follows the first element, and the element whole.
fn element(der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (rest, _) = Any::from_der(der).ok()?;
    let length = der.len().checked_sub(rest.len())?;
    Some((rest, der.get(..length)?))
}

/// What follows a SEQUENCE, and its content.
fn sequence(der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (rest, any) = Any::from_der(der).ok()?;
    (any.tag() == Tag::Sequence).then_some((rest, any.data))
}
