//! Whom the gateway believes where it fetches keys, or asks about credentials and calls.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;

use super::sha256;
use crate::config::{files, with_causes};
use crate::http::fetch::Fetcher;

/// What the certificates of others must chain to; a CA file is read again on reload.
pub struct Trust {
    ca: Option<PathBuf>,
    system: System,
    believed: ArcSwap<Believed>,
}

/// Whether the system's certificates are needed where no CA file is named.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum System {
    Needed,
    /// Where it may turn out later that somebody is asked over TLS.
    Wanted,
    Unneeded,
}

/// A fetcher, and what it was made from.
pub struct Believed {
    pub fetcher: Fetcher,
    /// Of the CA file; zeros for the system's roots.
    digest: [u8; 32],
}

impl System {
    /// For what is asked at this URL and nowhere else.
    pub fn of(url: &str) -> Self {
        if url.starts_with("http://") {
            Self::Unneeded
        } else {
            Self::Needed
        }
    }
}

impl Trust {
    /// Blocking.
    pub fn load(ca: Option<&Path>, system: System) -> Result<Self, String> {
        Ok(Self {
            ca: ca.map(Path::to_owned),
            system,
            believed: ArcSwap::from_pointee(Believed::load(ca, system)?),
        })
    }

    pub fn now(&self) -> Arc<Believed> {
        self.believed.load_full()
    }

    /// What the CA file says now, if it says something new. Blocking.
    pub fn changed(&self) -> Result<Option<Believed>, String> {
        if self.ca.is_none() {
            return Ok(None);
        }
        let new = Believed::load(self.ca.as_deref(), self.system)?;
        Ok((new.digest != self.believed.load().digest).then_some(new))
    }

    pub fn believe(&self, new: Believed) {
        self.believed.store(Arc::new(new));
    }
}

impl Believed {
    fn load(ca: Option<&Path>, system: System) -> Result<Self, String> {
        let mut roots = rustls::RootCertStore::empty();
        let mut digest = [0; 32];
        match ca {
            Some(path) => {
                let pem = files::read(path).map_err(|error| with_causes(&error))?;
                digest = sha256(&[&pem]);
                for certificate in CertificateDer::pem_slice_iter(&pem) {
                    let certificate = certificate.map_err(|error| format!("{} is not PEM: {error}", path.display()))?;
                    roots
                        .add(certificate)
                        .map_err(|error| format!("a certificate in {} is invalid: {error}", path.display()))?;
                }
                if roots.is_empty() {
                    return Err(format!("{} holds no certificate", path.display()));
                }
            }
            None if system == System::Unneeded => {}
            None => {
                // One unreadable certificate of the system's must not keep the gateway from starting.
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
                if roots.is_empty() && system == System::Needed {
                    return Err("the system has no root certificates; name a CA file".to_owned());
                }
            }
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| format!("TLS cannot be set up: {error}"))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self {
            fetcher: Fetcher::new(Arc::new(config)),
            digest,
        })
    }
}
