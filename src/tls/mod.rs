//! TLS on both sides: the handshake of a listener, what the peer's certificate says, reload without restart.
//!
//! `server` turns an accepted socket into a stream and its `Peer`; `client` makes what connecting to upstreams needs;
//! `watch` tells when files changed. One crypto provider for all of it. No error text contains any part of a key file.

mod certificates;
pub mod client;
mod peer;
mod server;
mod subject;
#[cfg(test)]
mod tests;
mod trust;
mod watch;

use std::path::PathBuf;
use std::sync::Arc;

use ::aws_lc_rs::digest;
use rustls::crypto::{CryptoProvider, aws_lc_rs};

pub use peer::Unreadable;
pub use server::{Acceptor, Error, Protocol, TlsStream};
pub use trust::Chain;
pub use watch::FileWatch;

/// What is known of the other end of a downstream connection.
#[derive(Clone, Debug)]
pub struct Peer {
    /// The address of the connection itself.
    pub address: std::net::SocketAddr,
    /// The connection is TLS.
    pub secure: bool,
    /// The verified client certificate, if one was shown.
    pub certificate: Option<std::sync::Arc<PeerCertificate>>,
    /// What it was verified from; present with the certificate.
    pub chain: Option<std::sync::Arc<Chain>>,
}

/// The names in a verified client certificate. The principal comes from these, never from the common name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerCertificate {
    pub uris: Vec<String>,
    pub dns_names: Vec<String>,
    pub emails: Vec<String>,
    /// RFC 4514 text.
    pub subject: String,
    /// SHA-256 over the DER.
    pub fingerprint: [u8; 32],
    /// Seconds since 1970; the connection must not be used for authentication after it.
    pub not_after: i64,
}

/// A loaded file that stops being good at some time. What has passed its time is still loaded: a gateway that starts with
/// one expired certificate among several serves the others, and says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expiry {
    /// The configuration key that names the file.
    pub key: String,
    pub file: PathBuf,
    pub kind: ExpiryKind,
    /// Seconds since 1970.
    pub not_after: i64,
}

/// What stops when the time has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpiryKind {
    /// Peers refuse our certificate; of a chain, the certificate that expires first.
    Certificate,
    /// Every client certificate that the list is about is refused.
    RevocationList,
}

/// Makes aws-lc-rs the crypto provider of the process, for libraries that ask rustls for its default. To be called first
/// thing in `main`; again is harmless.
pub fn install_provider() {
    // An error says that a provider is installed; this is the only one in the tree.
    let _installed_before = aws_lc_rs::default_provider().install_default();
}

fn provider() -> Arc<CryptoProvider> {
    install_provider();
    CryptoProvider::get_default()
        .cloned()
        .unwrap_or_else(|| Arc::new(aws_lc_rs::default_provider()))
}

pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    array(&digest::digest(&digest::SHA256, bytes))
}

fn array(sha256: &digest::Digest) -> [u8; 32] {
    let mut value = [0; 32];
    for (to, from) in value.iter_mut().zip(sha256.as_ref()) {
        *to = *from;
    }
    value
}

/// An error with its causes, on one line.
pub fn chain_of(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
