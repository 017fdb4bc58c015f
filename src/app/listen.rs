//! From an accepted socket to a served connection.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use http::{Request, Response};
use hyper::body::Incoming;
use ipnet::IpNet;
use tokio::net::TcpStream;
use tower::{Layer as _, Service};

use crate::audit::Event;
use crate::config::{self, AuditEvent, Limits};
use crate::drain::Drain;
use crate::http::framing::Refusal;
use crate::http::hygiene;
use crate::http::panic::CatchPanic;
use crate::http::serve::{Protocol, Serving, Settings};
use crate::listener::{Accepted, Bound, Refused, Rejected};
use crate::observe::{Metrics, Reason, Record};
use crate::pipeline::{Current, Downstream};
use crate::respond::body::Held;
use crate::respond::reject::Form;
use crate::respond::{Body, Reject};
use crate::tls::{self, Acceptor, Peer};

/// A listener of the configuration in force. Its socket and its connections outlive changes of everything else about it.
pub struct Door {
    front: ArcSwap<Front>,
    /// Of no other listener of the process.
    id: u64,
    acceptor: Arc<ArcSwapOption<Acceptor>>,
    current: Arc<Current>,
    metrics: Metrics,
    /// Of this listener alone, so that it can leave before the others.
    drain: Drain,
}

/// What holds for new connections.
struct Front {
    name: Arc<str>,
    handshake: Duration,
    trusted_proxies: Arc<[IpNet]>,
    settings: Arc<Settings>,
}

impl Front {
    fn new(listener: &config::Listener, limits: &Limits, drain: &Drain, metrics: &Metrics) -> Self {
        Self {
            name: Arc::from(listener.name.as_str()),
            handshake: limits.tls_handshake,
            trusted_proxies: listener.trusted_proxies.clone().into(),
            settings: Arc::new(Settings::new(limits, drain, metrics)),
        }
    }
}

impl Door {
    pub fn new(
        listener: &config::Listener,
        acceptor: Option<Arc<Acceptor>>,
        limits: &Limits,
        current: &Arc<Current>,
        metrics: &Metrics,
        drain: &Drain,
    ) -> Arc<Self> {
        let drain = drain.branch();
        static LAST: AtomicU64 = AtomicU64::new(0);
        Arc::new(Self {
            id: LAST.fetch_add(1, Ordering::Relaxed) + 1,
            front: ArcSwap::from_pointee(Front::new(listener, limits, &drain, metrics)),
            acceptor: Arc::new(ArcSwapOption::new(acceptor)),
            current: current.clone(),
            metrics: metrics.clone(),
            drain,
        })
    }

    /// By what the rules of the listener are found for its connections, whatever it is called.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// For connections from now on, but for whose certificates are believed.
    pub fn change(&self, listener: &config::Listener, acceptor: Option<Arc<Acceptor>>, limits: &Limits) {
        let front = Front::new(listener, limits, &self.drain, &self.metrics);
        self.front.store(Arc::new(front));
        self.acceptor.store(acceptor);
    }

    pub fn acceptor(&self) -> Option<Arc<Acceptor>> {
        self.acceptor.load_full()
    }

    /// Nothing is accepted any more; connections end when what they carry has.
    pub fn leave(&self) {
        self.drain.leave();
    }

    /// Accepts as a job, until drain begins or the listener leaves.
    pub fn open(self: &Arc<Self>, socket: Bound) {
        let door = self.clone();
        self.drain.job(async move { door.accept(socket).await });
    }

    async fn accept(self: Arc<Self>, mut socket: Bound) {
        loop {
            let next = tokio::select! {
                () = self.drain.draining() => return,
                next = socket.accept() => next,
            };
            let front = self.front.load_full();
            let name = &*front.name;
            match next {
                Ok(connection) => {
                    self.metrics.connections.with_label_values(&[name]).inc();
                    let door = self.clone();
                    self.drain.job(async move { door.connection(&front, connection).await });
                }
                Err(refused) => {
                    let by_limit = &self.metrics.connections_refused;
                    by_limit.with_label_values(&[name, label(&refused)]).inc();
                    match refused {
                        // A flood of these must not become a flood of lines.
                        Refused::Limit { .. } => tracing::debug!(listener = name, %refused),
                        Refused::Accept(_) => tracing::warn!(listener = name, %refused),
                    }
                }
            }
        }
    }

    async fn connection(&self, front: &Front, accepted: Accepted) {
        let Accepted { stream, address, slot } = accepted;
        let open = self.metrics.connections_open.with_label_values(&[&*front.name]);
        open.inc();
        let _open = scopeguard(move || open.dec());
        if let Some(serving) = Box::pin(self.begin(front, stream, address)).await {
            serving.await;
        }
        drop(slot);
    }

    /// The handshake and the first bytes.
    async fn begin(&self, front: &Front, stream: TcpStream, address: SocketAddr) -> Option<Serving> {
        let settings = front.settings.clone();
        let stream = settings.patient(stream);
        let Some(acceptor) = self.acceptor.load_full() else {
            let peer = Peer {
                address,
                secure: false,
                certificate: None,
                chain: None,
            };
            return settings
                .begin(stream, Protocol::Sniff, |refusal| self.service(front, peer, refusal))
                .await;
        };
        let handshake = acceptor.accept(stream, front.handshake, address);
        match settings.unless_leaving(handshake).await? {
            Ok((stream, peer)) => {
                let protocol = match stream.protocol() {
                    tls::Protocol::Http2 => Protocol::Http2,
                    tls::Protocol::Http1 => Protocol::Http1,
                };
                settings
                    .begin(stream, protocol, |refusal| self.service(front, peer, refusal))
                    .await
            }
            Err(error) => {
                self.record_handshake(front, address, &error);
                let failures = &self.metrics.tls_failures;
                failures
                    .with_label_values(&[&*front.name, handshake_label(&error)])
                    .inc();
                tracing::debug!(listener = &*front.name, %address, %error, "TLS handshake failed");
                None
            }
        }
    }

    /// A client certificate that is not believed.
    fn record_handshake(&self, front: &Front, address: SocketAddr, error: &tls::Error) {
        if !matches!(error, tls::Error::ClientCertificate(_)) {
            return;
        }
        let pipeline = self.current.load();
        pipeline.observer.audit.record(&Event {
            reason: Some(handshake_label(error)),
            client: Some(address.ip().to_canonical()),
            listener: Some(&front.name),
            ..Event::new(AuditEvent::AuthenticationFailed, "refused")
        });
    }

    fn service(&self, front: &Front, peer: Peer, refusal: Refusal) -> impl Serve + use<> {
        let downstream = Arc::new(Downstream {
            address: hygiene::value(&peer.address.ip().to_canonical().to_string()),
            acceptor: peer.chain.is_some().then(|| self.acceptor.clone()),
            peer,
            listener: front.name.clone(),
            door: Some(self.id),
            trusted_proxies: front.trusted_proxies.clone(),
            refusal,
            current: self.current.clone(),
        });
        let panicked = downstream.clone();
        // Boxed at once: it is several KiB, and each layer around it would move it.
        let inner = tower::service_fn(move |request| {
            // The one look at the configuration: the request keeps it.
            let pipeline = downstream.current.load();
            Box::pin(pipeline.serve(downstream.clone(), request))
        });
        CatchPanic::new(move || internal(&panicked)).layer(inner)
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
fn internal(downstream: &Downstream) -> Response<Body> {
    let observer = &downstream.current.load().observer;
    let address = downstream.peer.address.ip();
    let record = Record::begin(observer, &downstream.listener, address, http::Method::POST);
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
