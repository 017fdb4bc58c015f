//! The handshake of a listener: an accepted stream becomes a `TlsStream` and its `Peer`.
//!
//! What an acceptor loaded does not change: files that hold something else make another acceptor. A handshake under way keeps what it
//! began with. Resuming a session does not verify the client certificate again, so every load has ticket keys and a
//! session store of its own: no session outlives a change of certificates, CAs or revocation lists, and none crosses
//! listeners. Connections that are open at a reload stay open.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use aws_lc_rs::digest;
use rustls::crypto::aws_lc_rs::Ticketer;
use rustls::server::{ServerSessionMemoryCache, WebPkiClientVerifier};
use rustls::time_provider::TimeProvider;
use rustls::{CertificateError, HandshakeKind, ServerConfig, SupportedProtocolVersion};
use rustls_pki_types::UnixTime;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use zeroize::Zeroizing;

use super::certificates::{Blame, ByName, Pair, load_pair};
use super::peer::Unreadable;
use super::trust::{Bundle, Chain, Trust};
use super::{Expiry, ExpiryKind, Peer, PeerCertificate, chain_of, provider};
use crate::clock::Clock;
use crate::config::{ClientCertificates, ListenerTls, Problem, TlsVersion, files};

/// Sessions that one acceptor remembers for TLS 1.2 clients that resume by id and not by ticket, which few do. At capacity
/// the oldest goes, and its client makes a full handshake.
const SESSIONS: usize = 1024;

const HTTP2: &[u8] = b"h2";
const HTTP1: &[u8] = b"http/1.1";

/// How a handshake ended without a connection.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the TLS handshake took longer than {0:?}")]
    Timeout(Duration),
    #[error("the client left during the TLS handshake")]
    ClientGone(#[source] io::Error),
    /// None was shown though one is required, or the one shown is expired, revoked, or of another CA.
    #[error("the client certificate was not accepted")]
    ClientCertificate(#[source] rustls::Error),
    #[error("the client certificate was accepted but cannot be read")]
    Unreadable(#[source] Unreadable),
    #[error("the TLS handshake failed")]
    Handshake(#[source] rustls::Error),
}

/// What the connection carries, as negotiated by ALPN; a client that negotiates nothing speaks HTTP/1.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Http1,
    Http2,
}

/// Makes the handshakes of one listener.
pub struct Acceptor {
    tls: ListenerTls,
    key_prefix: String,
    clock: Clock,
    loaded: Loaded,
}

/// All that one reading of the files gave.
struct Loaded {
    config: Arc<ServerConfig>,
    trust: Trust,
    expires: Vec<Expiry>,
    digest: [u8; 32],
}

impl Acceptor {
    /// Blocking: reads files. `key_prefix` is where `tls` stands in the configuration, e.g. `listeners[0].tls`.
    pub fn build(tls: &ListenerTls, key_prefix: &str) -> Result<Self, Vec<Problem>> {
        Self::build_at(tls, key_prefix, Clock::system())
    }

    /// The same with a clock that decides what is expired.
    pub fn build_at(tls: &ListenerTls, key_prefix: &str, clock: Clock) -> Result<Self, Vec<Problem>> {
        let (files, problems) = Files::read(tls, key_prefix);
        let loaded = load(tls, key_prefix, &clock, &files, problems)?;
        Ok(Self {
            tls: tls.clone(),
            key_prefix: key_prefix.to_owned(),
            clock,
            loaded,
        })
    }

    /// The acceptor of the same listener by what its configuration and its files are now: `None` if that is what this one
    /// has loaded. Blocking.
    pub fn renewed(&self, tls: &ListenerTls, key_prefix: &str) -> Result<Option<Self>, Vec<Problem>> {
        let (files, problems) = Files::read(tls, key_prefix);
        if problems.is_empty() && *tls == self.tls && files.digest() == self.loaded.digest {
            return Ok(None);
        }
        Ok(Some(Self {
            loaded: load(tls, key_prefix, &self.clock, &files, problems)?,
            tls: tls.clone(),
            key_prefix: key_prefix.to_owned(),
            clock: self.clock.clone(),
        }))
    }

    /// Whether the client certificate of an open connection, perhaps accepted by an earlier acceptor, is good for this one.
    pub fn trusts(&self, chain: &Chain) -> bool {
        let now = UnixTime::since_unix_epoch(Duration::from_secs(self.clock.unix_seconds()));
        self.loaded.trust.accepts(chain, now)
    }

    /// When what is loaded stops being good, certificates first.
    pub fn expires_at(&self) -> Vec<Expiry> {
        self.loaded.expires.clone()
    }

    /// Makes the handshake on `stream`, in at most `deadline`.
    pub async fn accept<S>(
        &self,
        stream: S,
        deadline: Duration,
        peer: SocketAddr,
    ) -> Result<(TlsStream<S>, Peer), Error>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let acceptor = TlsAcceptor::from(Arc::clone(&self.loaded.config));
        let stream = tokio::time::timeout(deadline, acceptor.accept(stream))
            .await
            .map_err(|_| Error::Timeout(deadline))?
            .map_err(handshake_error)?;
        let certificate = self.certificate(&stream)?;
        let peer = Peer {
            address: peer,
            secure: true,
            chain: certificate
                .is_some()
                .then(|| self.chain(&stream))
                .flatten()
                .map(Arc::new),
            certificate: certificate.map(Arc::new),
        };
        Ok((TlsStream { inner: stream }, peer))
    }

    fn chain<S>(&self, stream: &tokio_rustls::server::TlsStream<S>) -> Option<Chain> {
        let (_, connection) = stream.get_ref();
        self.loaded.trust.chain(connection.peer_certificates()?)
    }

    /// The verified certificate: from the handshake, or from the one that a resumed session began with.
    fn certificate<S>(&self, stream: &tokio_rustls::server::TlsStream<S>) -> Result<Option<PeerCertificate>, Error> {
        let (_, connection) = stream.get_ref();
        let Some(der) = connection.peer_certificates().and_then(<[_]>::first) else {
            return Ok(None);
        };
        let certificate = PeerCertificate::parse(der).map_err(Error::Unreadable)?;
        // A session can be resumed for longer than its certificate is valid.
        let now = i64::try_from(self.clock.unix_seconds()).unwrap_or(i64::MAX);
        if certificate.not_after < now {
            return Err(Error::ClientCertificate(CertificateError::Expired.into()));
        }
        Ok(Some(certificate))
    }
}

impl fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acceptor")
            .field("tls", &self.tls)
            .field("key_prefix", &self.key_prefix)
            .finish_non_exhaustive()
    }
}

fn handshake_error(error: io::Error) -> Error {
    match error.downcast::<rustls::Error>() {
        Ok(
            error @ (rustls::Error::NoCertificatesPresented
            | rustls::Error::InvalidCertificate(_)
            | rustls::Error::InvalidCertRevocationList(_)),
        ) => Error::ClientCertificate(error),
        Ok(error) => Error::Handshake(error),
        Err(error) => Error::ClientGone(error),
    }
}

/// The CA bundle and the revocation lists, where client certificates are asked for.
fn trusted(tls: &ListenerTls) -> Option<(Option<&Path>, &[PathBuf])> {
    match tls.client_certificates {
        ClientCertificates::Off => None,
        ClientCertificates::Optional | ClientCertificates::Required => {
            Some((tls.client_ca.as_deref(), &tls.client_crls))
        }
    }
}

/// One reading of all files of an acceptor. A file that cannot be read is `None` and has its problem.
struct Files {
    pairs: Vec<(Option<Content>, Option<Content>)>,
    client_ca: Option<Content>,
    client_crls: Vec<Option<Content>>,
}

type Content = Zeroizing<Vec<u8>>;

impl Files {
    fn read(tls: &ListenerTls, key_prefix: &str) -> (Self, Vec<Problem>) {
        let mut problems = Vec::new();
        let mut read = |key: String, path: &Path| {
            files::read(path)
                .map(Zeroizing::new)
                .map_err(|error| problems.push(Problem::new(key, chain_of(&error))))
                .ok()
        };
        let pairs = tls
            .certificates
            .iter()
            .enumerate()
            .map(|(index, pair)| {
                let key = format!("{key_prefix}.certificates[{index}]");
                (
                    read(format!("{key}.certificate"), &pair.certificate),
                    read(format!("{key}.private_key"), &pair.private_key),
                )
            })
            .collect();
        let (ca, lists) = trusted(tls).unwrap_or((None, &[]));
        let client_ca = ca.and_then(|path| read(format!("{key_prefix}.client_ca"), path));
        let client_crls = lists
            .iter()
            .enumerate()
            .map(|(index, path)| read(format!("{key_prefix}.client_crls[{index}]"), path))
            .collect();
        let files = Self {
            pairs,
            client_ca,
            client_crls,
        };
        (files, problems)
    }

    fn digest(&self) -> [u8; 32] {
        let pairs = self.pairs.iter().flat_map(|(certificate, key)| [certificate, key]);
        let all = pairs.chain([&self.client_ca]).chain(&self.client_crls).flatten();
        let mut context = digest::Context::new(&digest::SHA256);
        for content in all {
            // The length keeps two files from trading bytes unseen.
            context.update(&(content.len() as u64).to_be_bytes());
            context.update(content);
        }
        super::array(&context.finish())
    }
}

fn load(
    tls: &ListenerTls,
    key_prefix: &str,
    clock: &Clock,
    files: &Files,
    mut problems: Vec<Problem>,
) -> Result<Loaded, Vec<Problem>> {
    let provider = provider();
    let mut expires = Vec::new();

    let mut pairs: Vec<Pair> = Vec::new();
    for (index, (paths, content)) in tls.certificates.iter().zip(&files.pairs).enumerate() {
        let (Some(certificate), Some(private_key)) = content else {
            continue;
        };
        let key = |blame| match blame {
            Blame::Certificate => format!("{key_prefix}.certificates[{index}].certificate"),
            Blame::PrivateKey => format!("{key_prefix}.certificates[{index}].private_key"),
        };
        match load_pair(certificate, private_key, &provider) {
            Ok(pair) if index > 0 && pair.names.is_empty() => problems.push(Problem::new(
                key(Blame::Certificate),
                format!(
                    "{}: has no DNS name among its subject alternative names, so no client would \
                     ever be given it: only the first certificate serves other names",
                    paths.certificate.display()
                ),
            )),
            Ok(pair) => {
                expires.push(Expiry {
                    key: key(Blame::Certificate),
                    file: paths.certificate.clone(),
                    kind: ExpiryKind::Certificate,
                    not_after: pair.not_after,
                });
                pairs.push(pair);
            }
            Err(causes) => problems.extend(causes.into_iter().map(|(blame, cause)| {
                let path = match blame {
                    Blame::Certificate => &paths.certificate,
                    Blame::PrivateKey => &paths.private_key,
                };
                Problem::new(key(blame), format!("{}: {cause}", path.display()))
            })),
        }
    }
    if tls.certificates.is_empty() {
        problems.push(Problem::new(
            format!("{key_prefix}.certificates"),
            "needs at least one certificate",
        ));
    }

    let clients = match trusted(tls) {
        None => None,
        Some(_) => client_verifier(tls, key_prefix, files, &mut expires, &mut problems),
    };

    let versions: &[&SupportedProtocolVersion] = match tls.min_version {
        TlsVersion::Tls12 => &[&rustls::version::TLS13, &rustls::version::TLS12],
        TlsVersion::Tls13 => &[&rustls::version::TLS13],
    };
    let (Some((first, others)), true) = (pairs.split_first(), problems.is_empty()) else {
        return Err(problems);
    };
    let verifier = clients.clone().unwrap_or_else(WebPkiClientVerifier::no_client_auth);
    let internal = |error: rustls::Error| vec![Problem::new(key_prefix, chain_of(&error))];
    let mut config = ServerConfig::builder_with_details(provider, Arc::new(Time(clock.clone())))
        .with_protocol_versions(versions)
        .map_err(internal)?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(Arc::new(ByName::new(first, others)));
    config.alpn_protocols = vec![HTTP2.to_vec(), HTTP1.to_vec()];
    config.ticketer = Ticketer::new().map_err(internal)?;
    config.session_storage = ServerSessionMemoryCache::new(SESSIONS);
    // Early data can be replayed by whoever saw it.
    config.max_early_data_size = 0;
    Ok(Loaded {
        config: Arc::new(config),
        trust: Trust::new(clients),
        expires,
        digest: files.digest(),
    })
}

fn client_verifier(
    tls: &ListenerTls,
    key_prefix: &str,
    files: &Files,
    expires: &mut Vec<Expiry>,
    problems: &mut Vec<Problem>,
) -> Option<Arc<dyn rustls::server::danger::ClientCertVerifier>> {
    let key = format!("{key_prefix}.client_ca");
    let Some(path) = &tls.client_ca else {
        problems.push(Problem::new(
            key,
            "is needed to verify client certificates: name the bundle of CAs that issue them",
        ));
        return None;
    };
    let bundle = Bundle::parse(files.client_ca.as_ref()?)
        .map_err(|cause| {
            let cause = format!("{}: {cause}", path.display());
            problems.push(Problem::new(key.clone(), cause));
        })
        .ok()?;

    let provider = provider();
    let mut lists = Vec::new();
    for (index, (path, content)) in tls.client_crls.iter().zip(&files.client_crls).enumerate() {
        let Some(content) = content else { continue };
        let key = format!("{key_prefix}.client_crls[{index}]");
        match bundle.revocation_lists(content, &provider) {
            Ok(of_file) => {
                expires.extend(of_file.iter().map(|list| Expiry {
                    key: key.clone(),
                    file: path.clone(),
                    kind: ExpiryKind::RevocationList,
                    not_after: list.next_update,
                }));
                lists.extend(of_file);
            }
            Err(cause) => problems.push(Problem::new(key, format!("{}: {cause}", path.display()))),
        }
    }
    let optional = tls.client_certificates == ClientCertificates::Optional;
    bundle
        .verifier(lists, optional, &provider)
        .map_err(|cause| problems.push(Problem::new(key, cause)))
        .ok()
}

/// The gateway's clock, as rustls asks for it.
struct Time(Clock);

impl TimeProvider for Time {
    fn current_time(&self) -> Option<UnixTime> {
        let seconds = self.0.unix_seconds();
        Some(UnixTime::since_unix_epoch(Duration::from_secs(seconds)))
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Time")
    }
}

/// A downstream connection after its handshake. Shut it down to tell the client that nothing is missing (close_notify).
#[derive(Debug)]
pub struct TlsStream<S = TcpStream> {
    inner: tokio_rustls::server::TlsStream<S>,
}

impl<S> TlsStream<S> {
    pub fn protocol(&self) -> Protocol {
        let (_, connection) = self.inner.get_ref();
        if connection.alpn_protocol() == Some(HTTP2) {
            Protocol::Http2
        } else {
            Protocol::Http1
        }
    }

    /// The name that the client asked for.
    pub fn server_name(&self) -> Option<&str> {
        let (_, connection) = self.inner.get_ref();
        connection.server_name()
    }

    /// The session began on an earlier connection.
    pub fn is_resumed(&self) -> bool {
        let (_, connection) = self.inner.get_ref();
        connection.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// The stream underneath, for socket options.
    pub fn transport(&self) -> &S {
        let (transport, _) = self.inner.get_ref();
        transport
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for TlsStream<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for TlsStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
