//! What connecting to an upstream over TLS needs: whom to believe, what to show, which name to expect.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rustls::client::Resumption;
use rustls::sign::SingleCertAndKey;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::{InvalidDnsNameError, ServerName};
use zeroize::Zeroizing;

use super::certificates::{self, Blame};
use super::{chain_of, provider, sha256, trust};
use crate::config::{CertificateFiles, Problem, UpstreamTls, files};

/// The configuration of connections to one upstream, with a session cache of its own. Blocking: reads files.
/// `key_prefix` is where `tls` stands in the configuration.
pub fn client_config(tls: &UpstreamTls, alpn: &[&str], key_prefix: &str) -> Result<Arc<ClientConfig>, Vec<Problem>> {
    let mut problems = Vec::new();
    let roots = match &tls.ca {
        Some(path) => own_roots(path),
        None => system_roots(),
    }
    .map_err(|cause| problems.push(Problem::new(format!("{key_prefix}.ca"), cause)))
    .ok();
    let client = tls
        .client
        .as_ref()
        .map(|files| client_certificate(files, key_prefix))
        .transpose()
        .map_err(|more| problems.extend(more))
        .ok()
        .flatten();
    if let Some(name) = &tls.server_name
        && let Err(error) = server_name(tls, name)
    {
        problems.push(Problem::new(
            format!("{key_prefix}.server_name"),
            format!("is neither a DNS name nor an IP address: {error}"),
        ));
    }
    let (Some(roots), true) = (roots, problems.is_empty()) else {
        return Err(problems);
    };

    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| vec![Problem::new(key_prefix, chain_of(&error))])?
        .with_root_certificates(roots);
    let mut config = match client {
        Some(certificate) => builder.with_client_cert_resolver(Arc::new(certificate)),
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    Ok(Arc::new(config))
}

/// The same with other protocols to offer, and a session cache of its own.
pub fn offering(config: &ClientConfig, alpn: &[&str]) -> Arc<ClientConfig> {
    let mut config = config.clone();
    config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    config.resumption = Resumption::default();
    Arc::new(config)
}

/// The files that `client_config` reads.
pub fn named_files(tls: &UpstreamTls) -> Vec<PathBuf> {
    let pair = tls.client.iter();
    let pair = pair.flat_map(|pair| [pair.certificate.clone(), pair.private_key.clone()]);
    tls.ca.iter().cloned().chain(pair).collect()
}

/// What tells one content of these files from another; `None` while one of them cannot be read. Blocking.
pub fn digest(tls: &UpstreamTls) -> Option<[u8; 32]> {
    let mut digests = Vec::new();
    for path in named_files(tls) {
        digests.extend(sha256(&Zeroizing::new(files::read(&path).ok()?)));
    }
    Some(sha256(&digests))
}

/// The name to verify and to send: the configured one, else the host of the URL (an IPv6 address with or without its
/// brackets).
pub fn server_name(tls: &UpstreamTls, host: &str) -> Result<ServerName<'static>, InvalidDnsNameError> {
    let name = tls.server_name.as_deref().unwrap_or(host);
    let name = name
        .strip_prefix('[')
        .and_then(|name| name.strip_suffix(']'))
        .unwrap_or(name);
    ServerName::try_from(name.to_owned())
}

fn own_roots(path: &Path) -> Result<Arc<RootCertStore>, String> {
    let bytes = files::read(path).map_err(|error| chain_of(&error))?;
    trust::roots(&bytes)
        .map(Arc::new)
        .map_err(|cause| format!("{}: {cause}", path.display()))
}

/// Loaded once. A machine that has none is asked again, so that installing them needs no restart.
fn system_roots() -> Result<Arc<RootCertStore>, String> {
    static ROOTS: OnceLock<Arc<RootCertStore>> = OnceLock::new();
    if let Some(roots) = ROOTS.get() {
        return Ok(Arc::clone(roots));
    }
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // Systems carry roots that no verifier can read; the others are as good without them.
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let mut cause = "the system has no root certificates: install ca-certificates, or name a CA \
                         file here"
            .to_owned();
        if let Some(error) = found.errors.first() {
            cause.push_str(&format!(" ({error})"));
        }
        return Err(cause);
    }
    Ok(Arc::clone(ROOTS.get_or_init(|| Arc::new(roots))))
}

fn client_certificate(pair: &CertificateFiles, key_prefix: &str) -> Result<SingleCertAndKey, Vec<Problem>> {
    let mut problems = Vec::new();
    let mut read = |path: &Path, name: &str| {
        files::read(path)
            .map(Zeroizing::new)
            .map_err(|error| {
                problems.push(Problem::new(format!("{key_prefix}.client_{name}"), chain_of(&error)));
            })
            .ok()
    };
    let certificate = read(&pair.certificate, "certificate");
    let private_key = read(&pair.private_key, "private_key");
    let (Some(certificate), Some(private_key)) = (certificate, private_key) else {
        return Err(problems);
    };
    certificates::load_pair(&certificate, &private_key, &provider())
        .map(|loaded| SingleCertAndKey::from(loaded.certified))
        .map_err(|causes| {
            causes
                .into_iter()
                .map(|(blame, cause)| {
                    let (name, path) = match blame {
                        Blame::Certificate => ("certificate", &pair.certificate),
                        Blame::PrivateKey => ("private_key", &pair.private_key),
                    };
                    Problem::new(
                        format!("{key_prefix}.client_{name}"),
                        format!("{}: {cause}", path.display()),
                    )
                })
                .collect()
        })
}
