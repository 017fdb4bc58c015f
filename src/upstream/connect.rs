//! Opening one connection to an endpoint: name, TCP, TLS.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use rustls_pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_util::either::Either;

use super::name::Name;
use crate::a2a::Binding;
use crate::config::{self, Problem, UpstreamHttp};
use crate::http::fetch::Fetcher;
use crate::tls;

/// TLS is boxed: its state is of more than 1 KiB, which connections without it would hold too.
pub type Io = Either<TcpStream, Box<tokio_rustls::client::TlsStream<TcpStream>>>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("no connection within the connect timeout")]
    Timeout,
    #[error("TCP connect failed")]
    Tcp(#[source] io::Error),
    #[error("TLS handshake failed")]
    Tls(#[source] io::Error),
    #[error("the URL's host is no name that a certificate can have")]
    Name,
    #[error("the HTTP handshake failed")]
    Http(#[source] hyper::Error),
}

impl Error {
    /// The gateway itself was short of something, as it is when callers flood it: this says nothing of the endpoint.
    pub fn is_local(&self) -> bool {
        use rustix::io::Errno;
        let Self::Tcp(source) = self else { return false };
        [
            Errno::MFILE,
            Errno::NFILE,
            Errno::NOBUFS,
            Errno::NOMEM,
            Errno::ADDRNOTAVAIL,
        ]
        .iter()
        .any(|errno| source.raw_os_error() == Some(errno.raw_os_error()))
    }
}

/// Makes the connections of one upstream, with whom to believe and what to show as its files say.
pub struct Connector {
    tls: config::UpstreamTls,
    loaded: ArcSwap<Loaded>,
    /// How often `loaded` was replaced.
    generation: AtomicU64,
    http: UpstreamHttp,
    /// What is spoken needs HTTP/2.
    grpc: AtomicBool,
    timeout: Duration,
}

/// All that one reading of the files gave.
pub struct Loaded {
    unary: TlsConnector,
    streams: TlsConnector,
    grpc: TlsConnector,
    fetcher: Fetcher,
    /// Of the files; never too new.
    digest: Option<[u8; 32]>,
}

impl Loaded {
    fn read(tls: &config::UpstreamTls, http: UpstreamHttp, key: &str) -> Result<Self, Vec<Problem>> {
        // First: what is written in between is another content to the next reading.
        let digest = tls::client::digest(tls);
        let config = tls::client::client_config(tls, &[], key)?;
        let (unary, streams): (&[&str], &[&str]) = match http {
            UpstreamHttp::Auto => (&["h2", "http/1.1"], &["http/1.1"]),
            UpstreamHttp::Http1 => (&["http/1.1"], &["http/1.1"]),
            UpstreamHttp::Http2 => (&["h2"], &["h2"]),
        };
        Ok(Self {
            unary: TlsConnector::from(tls::client::offering(&config, unary)),
            streams: TlsConnector::from(tls::client::offering(&config, streams)),
            grpc: TlsConnector::from(tls::client::offering(&config, &["h2"])),
            fetcher: Fetcher::new(config),
            digest,
        })
    }
}

impl Connector {
    /// Blocking: reads files.
    pub fn build(config: &config::Upstream, key: &str) -> Result<Self, Vec<Problem>> {
        let loaded = Loaded::read(&config.tls, config.http, &format!("{key}.tls"))?;
        Ok(Self {
            tls: config.tls.clone(),
            loaded: ArcSwap::from_pointee(loaded),
            generation: AtomicU64::new(0),
            http: config.http,
            grpc: AtomicBool::new(config.binding == Some(Binding::Grpc)),
            timeout: config.connect_timeout,
        })
    }

    /// What the files hold by now, if that is something else. Blocking.
    pub fn read_again(&self, key: &str) -> Result<Option<Loaded>, Vec<Problem>> {
        if tls::client::named_files(&self.tls).is_empty() {
            return Ok(None);
        }
        let known = self.loaded.load().digest;
        if known.is_some() && known == tls::client::digest(&self.tls) {
            return Ok(None);
        }
        Loaded::read(&self.tls, self.http, &format!("{key}.tls")).map(Some)
    }

    /// For connections from now on.
    pub fn take(&self, loaded: Loaded) {
        self.loaded.store(Arc::new(loaded));
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// A connection is out of date once this is another one than before it was made.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// What the endpoints are called in, from now on.
    pub fn speak(&self, binding: Binding) {
        let grpc = binding == Binding::Grpc;
        if self.grpc.swap(grpc, Ordering::AcqRel) != grpc {
            self.generation.fetch_add(1, Ordering::Release);
        }
    }

    pub fn speaks_grpc(&self) -> bool {
        self.grpc.load(Ordering::Acquire)
    }

    /// For small requests beside the calls.
    pub fn fetcher(&self) -> Fetcher {
        self.loaded.load().fetcher.clone()
    }

    /// The open stream, and whether HTTP/2 is spoken on it.
    pub async fn connect(&self, name: &Name, secure: bool, stream: bool) -> Result<(Io, bool), Error> {
        tokio::time::timeout(self.timeout, self.open(name, secure, stream))
            .await
            .map_err(|_| Error::Timeout)?
    }

    async fn open(&self, name: &Name, secure: bool, stream: bool) -> Result<(Io, bool), Error> {
        let tcp = name.connect().await.map_err(Error::Tcp)?;
        tcp.set_nodelay(true).map_err(Error::Tcp)?;
        let grpc = self.speaks_grpc();
        let is_http2 = grpc || self.http == UpstreamHttp::Http2;
        if !secure {
            return Ok((Either::Left(tcp), is_http2));
        }
        let name: ServerName<'static> = tls::client::server_name(&self.tls, name.host()).map_err(|_| Error::Name)?;
        let loaded = self.loaded.load_full();
        let connector = match stream {
            _ if grpc => &loaded.grpc,
            true => &loaded.streams,
            false => &loaded.unary,
        };
        let tls = connector.connect(name, tcp).await.map_err(Error::Tls)?;
        let http2 = tls.get_ref().1.alpn_protocol() == Some(b"h2") || is_http2;
        Ok((Either::Right(Box::new(tls)), http2))
    }
}

/// The address at the other end.
pub fn peer(io: &Io) -> Option<IpAddr> {
    let tcp = match io {
        Either::Left(tcp) => tcp,
        Either::Right(tls) => tls.get_ref().0,
    };
    tcp.peer_addr().ok().map(|address| address.ip())
}

pub type Shared = Arc<Connector>;
