//! TLS on both sides: the handshake of a listener, what the peer's certificate says, reload without restart.

/// What is known of the other end of a downstream connection.
#[derive(Clone, Debug)]
pub struct Peer {
    /// The address of the connection itself.
    pub address: std::net::SocketAddr,
    /// The connection is TLS.
    pub secure: bool,
    /// The verified client certificate, if one was shown.
    pub certificate: Option<std::sync::Arc<PeerCertificate>>,
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
