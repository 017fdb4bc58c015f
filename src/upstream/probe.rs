//! What the gateway asks endpoints by itself: regular checks, where they are configured, and what failed calls leave open.
//!
//! One service an endpoint. A suspicion costs at most one connection and one request, and follows the last one after a
//! pause, so that nobody can make the gateway ask often. A check that cannot connect is told from one that failed
//! otherwise, because an endpoint to which no connection can be made is dead for calls too.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method};
use tokio::time::Instant;

use super::name::Name;
use super::pool::Class;
use super::{Answer, Head, InName, Outgoing, Upstream, connect};
use crate::a2a::answer::{End, Whole};
use crate::a2a::grpc::{HEALTH, PREFIX_BYTES, is_serving};
use crate::a2a::{Binding, Dialect, Generation, Operation};
use crate::balance::{Check, Endpoint, Suspicion};
use crate::config::Health;
use crate::http::{fetch, grpc};

/// A living endpoint takes a connection in milliseconds, also while it works: its system does it.
const CONNECT: Duration = Duration::from_secs(1);
/// For an answer to the gateway's own request, where no health check says another time: as long as theirs by default.
const ANSWER: Duration = Duration::from_secs(2);
/// Between two suspicions.
const PAUSE: Duration = Duration::from_millis(250);

pub struct Probe {
    pub upstream: Arc<Upstream>,
    pub endpoint: Arc<Endpoint>,
    /// Any of these says that the endpoint is healthy.
    pub urls: Vec<String>,
    /// `None`: only suspicions are followed.
    pub health: Option<Health>,
    /// Bounds of one answer; the credential is added with each request.
    pub options: fetch::Options,
}

impl Probe {
    /// A service for as long as the process.
    pub async fn run(self) {
        let interval = self.health.as_ref().map(|health| health.interval);
        let mut next = Instant::now() + interval.unwrap_or_default().mul_f64(fastrand::f64());
        loop {
            tokio::select! {
                () = tokio::time::sleep_until(next), if interval.is_some() => {
                    let check = self.check().await;
                    self.endpoint.checked(check);
                    let checks = match check {
                        Check::Good => &self.upstream.metrics.checks_good,
                        Check::Bad | Check::Unreachable => &self.upstream.metrics.checks_bad,
                    };
                    checks.inc();
                    // Give or take a quarter.
                    next = Instant::now() + interval.unwrap_or_default().mul_f64(0.75 + 0.5 * fastrand::f64());
                }
                suspicion = self.endpoint.suspected() => {
                    let found = match suspicion {
                        Suspicion::Gone => self.reach().await,
                        Suspicion::Failing => self.check().await,
                    };
                    self.endpoint.found(suspicion, found);
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    /// What an endpoint of gRPC, which has nothing for a GET, answers to the question that servers have for this. One that
    /// does not know the question works too.
    async fn call(&self, own: HeaderMap) -> Check {
        let speaks = Dialect {
            generation: Generation::V0_3,
            binding: Binding::Grpc,
        };
        let mut outgoing = Box::new(Outgoing {
            headers: HeaderMap::new(),
            in_name: InName::Gateway,
            method: Method::POST,
            path: HEALTH.to_owned(),
            query: None,
            // An empty message: about all of the server.
            body: Bytes::from_static(&[0; PREFIX_BYTES]),
            deadline: None,
        });
        outgoing.describe(speaks, Operation::Get);
        outgoing.headers.extend(own);
        let endpoint = &*self.endpoint;
        let Answer { mut parts, body } = match self
            .upstream
            .exchange(endpoint, Class::Unary, outgoing, &mut None)
            .await
        {
            Ok(answer) => answer,
            // Not the endpoint's fault.
            Err(failure) if failure.error.fault().is_none() => return Check::Good,
            Err(_) => return Check::Bad,
        };
        if !grpc::is_answer(&parts) {
            return Check::Bad;
        }
        let head = Head::of(&mut parts, &body, speaks);
        match self.upstream.whole(head, body, endpoint).await {
            Ok(Whole {
                body,
                end: End::Grpc(status),
            }) if is_serving(&body, &status) => Check::Good,
            Ok(_) | Err(_) => Check::Bad,
        }
    }

    /// Whether a connection can be made.
    async fn reach(&self) -> Check {
        let secure = self.endpoint.uri.scheme_str() == Some("https");
        let name = Name::of(&self.endpoint.uri);
        let connect = self.upstream.connector.connect(&name, secure, false);
        match tokio::time::timeout(CONNECT, Box::pin(connect)).await {
            Ok(Ok(_)) => Check::Good,
            // Not the endpoint's fault.
            Ok(Err(error)) if connect::Error::is_local(&error) => Check::Good,
            Ok(Err(_)) | Err(_) => Check::Unreachable,
        }
    }

    /// Whether one of the URLs answers with 2xx, all of them within one time. Without a health check any answer is good that
    /// is no error of the server's. Where gRPC is spoken, and no path says another thing, that is asked over it.
    async fn check(&self) -> Check {
        let time = self.health.as_ref().map_or(ANSWER, |health| health.timeout);
        let mut options = self.options.clone();
        options.timeout = time;
        let Ok(shown) = self.upstream.dress_own(&mut options.headers).await else {
            // Nothing is sent without a credential, and the endpoint cannot be blamed for it.
            return self.reach().await;
        };
        let own = options.headers.clone();
        let fetcher = self.upstream.fetcher();
        let ask = async {
            let mut check = Check::Bad;
            for url in &self.urls {
                match fetcher.get(url, &options).await {
                    Ok(answer) if answer.status.is_success() => return Check::Good,
                    // Where nobody said what is healthy, nothing needs to stand at these paths: it answers all the same.
                    Ok(answer) if self.health.is_none() && !answer.status.is_server_error() => return Check::Good,
                    // Another path may have it.
                    Ok(answer) if answer.status.is_client_error() => {
                        if grpc::is_unauthenticated(answer.status, &answer.headers) {
                            self.upstream.refused(&InName::Gateway, shown);
                        }
                        check = Check::Bad;
                    }
                    Ok(_) => return Check::Bad,
                    Err(fetch::Error::BodyTooLarge { .. }) => return Check::Good,
                    Err(error) => {
                        tracing::debug!(endpoint = &*self.endpoint.url, %error, "a check failed");
                        return Check::Bad;
                    }
                }
            }
            check
        };
        let has_path = self.health.as_ref().is_some_and(|health| health.path.is_some());
        let calls = self.upstream.connector.speaks_grpc() && !has_path;
        let ask = async {
            match calls {
                true => self.call(own).await,
                false => ask.await,
            }
        };
        let asked = tokio::time::timeout(time, Box::pin(ask)).await;
        match asked.unwrap_or(Check::Bad) {
            Check::Good => Check::Good,
            Check::Bad | Check::Unreachable => match self.reach().await {
                Check::Unreachable => Check::Unreachable,
                Check::Good | Check::Bad => Check::Bad,
            },
        }
    }
}
