//! From an accepted socket to a served connection.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use ipnet::IpNet;
use tokio::net::TcpStream;
use tower::{Layer as _, Service};

use crate::config::{self, Limits};
use crate::drain::Drain;
use crate::http::framing::Refusal;
use crate::http::hygiene;
use crate::http::panic::CatchPanic;
use crate::http::serve::{Protocol, Serving, Settings};
use crate::listener::{Accepted, Bound, Refused, Rejected};
use crate::observe::record::Observer;
use crate::observe::{Reason, Record};
use crate::pipeline::{Downstream, Pipeline};
use crate::respond::body::Held;
use crate::respond::reject::Form;
use crate::respond::{Body, Reject};
use crate::tls::{self, Acceptor, Peer};

/// One listener at work.
#[derive(Clone)]
pub struct Door {
    name: Arc<str>,
    acceptor: Option<Arc<Acceptor>>,
    handshake: Duration,
    trusted_proxies: Arc<[IpNet]>,
    pipeline: Arc<Pipeline>,
    settings: Arc<Settings>,
}

impl Door {
    pub fn new(
        listener: &config::Listener,
        acceptor: Option<Arc<Acceptor>>,
        limits: &Limits,
        pipeline: &Arc<Pipeline>,
        settings: &Arc<Settings>,
    ) -> Self {
        Self {
            name: Arc::from(listener.name.as_str()),
            acceptor,
            handshake: limits.tls_handshake,
            trusted_proxies: listener.trusted_proxies.clone().into(),
            pipeline: pipeline.clone(),
            settings: settings.clone(),
        }
    }

    /// Accepts until drain begins.
    pub async fn accept(self, mut socket: Bound, drain: &Drain) {
        let metrics = &self.pipeline.observer.metrics;
        let accepted = metrics.connections.with_label_values(&[&*self.name]);
        loop {
            let next = tokio::select! {
                () = drain.draining() => return,
                next = socket.accept() => next,
            };
            match next {
                Ok(connection) => {
                    accepted.inc();
                    let door = self.clone();
                    drain.job(async move { door.connection(connection).await });
                }
                Err(refused) => {
                    metrics
                        .connections_refused
                        .with_label_values(&[&*self.name, label(&refused)])
                        .inc();
                    match refused {
                        // A flood of these must not become a flood of lines.
                        Refused::Limit { .. } => tracing::debug!(listener = &*self.name, %refused),
                        Refused::Accept(_) => tracing::warn!(listener = &*self.name, %refused),
                    }
                }
            }
        }
    }

    async fn connection(self, accepted: Accepted) {
        let Accepted { stream, address, slot } = accepted;
        let open = self
            .pipeline
            .observer
            .metrics
            .connections_open
            .with_label_values(&[&*self.name]);
        open.inc();
        let _open = scopeguard(move || open.dec());
        if let Some(serving) = Box::pin(self.begin(stream, address)).await {
            serving.await;
        }
        drop(slot);
    }

    /// The handshake and the first bytes.
    async fn begin(self, stream: TcpStream, address: SocketAddr) -> Option<Serving> {
        let settings = self.settings.clone();
        let stream = settings.patient(stream);
        let Some(acceptor) = self.acceptor.clone() else {
            let peer = Peer {
                address,
                secure: false,
                certificate: None,
            };
            return settings
                .begin(stream, Protocol::Sniff, |refusal| self.service(peer, refusal))
                .await;
        };
        let handshake = acceptor.accept(stream, self.handshake, address);
        match settings.unless_leaving(handshake).await? {
            Ok((stream, peer)) => {
                let protocol = match stream.protocol() {
                    tls::Protocol::Http2 => Protocol::Http2,
                    tls::Protocol::Http1 => Protocol::Http1,
                };
                settings
                    .begin(stream, protocol, |refusal| self.service(peer, refusal))
                    .await
            }
            Err(error) => {
                let metrics = &self.pipeline.observer.metrics;
                metrics
                    .tls_failures
                    .with_label_values(&[&*self.name, handshake_label(&error)])
                    .inc();
                tracing::debug!(listener = &*self.name, %address, %error, "TLS handshake failed");
                None
            }
        }
    }

    fn service(self, peer: Peer, refusal: Refusal) -> impl Serve {
        let (observer, listener, address) = (self.pipeline.observer.clone(), self.name.clone(), peer.address);
        let downstream = Arc::new(Downstream {
            address: hygiene::value(&peer.address.ip().to_canonical().to_string()),
            peer,
            listener: self.name,
            trusted_proxies: self.trusted_proxies,
            refusal,
        });
        let pipeline = self.pipeline;
        // Boxed at once: it is several KiB, and each layer around it would move it.
        let inner = tower::service_fn(move |request| Box::pin(pipeline.clone().serve(downstream.clone(), request)));
        CatchPanic::new(move || internal(&observer, &listener, address)).layer(inner)
    }
}

fn label(refused: &Refused) -> &'static str {
    match refused {
        Refused::Limit {
            rejected: Rejected::All,
            ..
        } => "connections",
        Refused::Limit {
            rejected: Rejected::PerAddress,
            ..
        } => "connections_per_address",
        Refused::Accept(_) => "accept",
    }
}

fn handshake_label(error: &tls::Error) -> &'static str {
    match error {
        tls::Error::Timeout(_) => "timeout",
        tls::Error::ClientGone(_) => "client_gone",
        tls::Error::ClientCertificate(_) => "client_certificate",
        tls::Error::Unreadable(_) => "unreadable_certificate",
        tls::Error::Handshake(_) => "handshake",
    }
}

/// What `http::serve` asks of a service; named once.
pub trait Serve:
    Service<Request<Incoming>, Response = Response<Body>, Error = Infallible, Future: Send + 'static>
    + Clone
    + Send
    + 'static
{
}

impl<S> Serve for S where
    S: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible, Future: Send + 'static>
        + Clone
        + Send
        + 'static
{
}

/// The answer of a request that panicked; its own record went down with it.
fn internal(observer: &Arc<Observer>, listener: &Arc<str>, address: SocketAddr) -> Response<Body> {
    let record = Record::begin(observer, listener, address.ip(), http::Method::POST);
    let held = Held { record, slot: None };
    Reject::new(Reason::Internal).response(Form::JsonRpc(crate::a2a::RpcId::null()), held)
}

/// Runs `end` when dropped, also when the job is.
fn scopeguard(end: impl FnMut()) -> impl Drop {
    struct Guard<F: FnMut()>(F);
    impl<F: FnMut()> Drop for Guard<F> {
        fn drop(&mut self) {
            (self.0)();
        }
    }
    Guard(end)
}
