//! Opening one connection to an endpoint: name, TCP, TLS.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls_pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_util::either::Either;

use crate::balance::Endpoint;
use crate::config::{self, Problem, UpstreamHttp};
use crate::tls;

pub type Io = Either<TcpStream, tokio_rustls::client::TlsStream<TcpStream>>;

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

pub struct Connector {
    unary: TlsConnector,
    streams: TlsConnector,
    tls: config::UpstreamTls,
    http: UpstreamHttp,
    timeout: Duration,
}

impl Connector {
    pub fn build(config: &config::Upstream, key: &str) -> Result<Self, Vec<Problem>> {
        let key = format!("{key}.tls");
        let (unary, streams): (&[&str], &[&str]) = match config.http {
            UpstreamHttp::Auto => (&["h2", "http/1.1"], &["http/1.1"]),
            UpstreamHttp::Http1 => (&["http/1.1"], &["http/1.1"]),
            UpstreamHttp::Http2 => (&["h2"], &["h2"]),
        };
        Ok(Self {
            unary: TlsConnector::from(tls::client::client_config(&config.tls, unary, &key)?),
            streams: TlsConnector::from(tls::client::client_config(&config.tls, streams, &key)?),
            tls: config.tls.clone(),
            http: config.http,
            timeout: config.connect_timeout,
        })
    }

    /// The open stream, and whether HTTP/2 is spoken on it.
    pub async fn connect(&self, endpoint: &Endpoint, stream: bool) -> Result<(Io, bool), Error> {
        tokio::time::timeout(self.timeout, self.open(endpoint, stream))
            .await
            .map_err(|_| Error::Timeout)?
    }

    async fn open(&self, endpoint: &Endpoint, stream: bool) -> Result<(Io, bool), Error> {
        let host = endpoint.uri.host().unwrap_or_default();
        let bare = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'))
            .unwrap_or(host);
        let secure = endpoint.uri.scheme_str() == Some("https");
        let port = endpoint.uri.port_u16().unwrap_or(if secure { 443 } else { 80 });
        let tcp = TcpStream::connect((bare, port)).await.map_err(Error::Tcp)?;
        tcp.set_nodelay(true).map_err(Error::Tcp)?;
        if !secure {
            return Ok((Either::Left(tcp), self.http == UpstreamHttp::Http2));
        }
        let name: ServerName<'static> = tls::client::server_name(&self.tls, bare).map_err(|_| Error::Name)?;
        let connector = if stream { &self.streams } else { &self.unary };
        let tls = connector.connect(name, tcp).await.map_err(Error::Tls)?;
        let http2 = tls.get_ref().1.alpn_protocol() == Some(b"h2") || self.http == UpstreamHttp::Http2;
        Ok((Either::Right(tls), http2))
    }
}

pub type Shared = Arc<Connector>;
