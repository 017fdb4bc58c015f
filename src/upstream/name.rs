//! The addresses behind an endpoint's name, followed while the gateway runs.
//!
//! A new connection asks for the addresses and tries them in order, the next one as soon as one fails or has been silent for
//! a moment (RFC 8305, without its sorting). Open connections are compared with what the name says from time to time: one
//! to an address that is gone serves its exchange to the end and no new one. A lookup that fails changes nothing.
//! An address in the URL itself is never looked up.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use http::Uri;
use tokio::net::{TcpStream, lookup_host};

/// How long an address is tried alone (RFC 8305 §5).
const HEAD_START: Duration = Duration::from_millis(250);

pub struct Name {
    host: String,
    port: u16,
    is_address: bool,
    /// `None` until the name was looked up for the open connections: nothing is held against an address.
    known: ArcSwapOption<Vec<IpAddr>>,
}

impl Name {
    pub fn of(uri: &Uri) -> Self {
        let host = uri.host().unwrap_or_default();
        let bare = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'))
            .unwrap_or(host);
        let secure = uri.scheme_str() == Some("https");
        Self {
            host: bare.to_owned(),
            port: uri.port_u16().unwrap_or(if secure { 443 } else { 80 }),
            is_address: bare.parse::<IpAddr>().is_ok(),
            known: ArcSwapOption::empty(),
        }
    }

    /// Without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// May change its addresses.
    pub fn can_move(&self) -> bool {
        !self.is_address
    }

    pub async fn connect(&self) -> io::Result<TcpStream> {
        if self.is_address {
            return TcpStream::connect((self.host.as_str(), self.port)).await;
        }
        let addresses = self.lookup().await?;
        let stream = first(&addresses, TcpStream::connect).await?;
        if let Ok(peer) = stream.peer_addr() {
            self.add(peer.ip());
        }
        Ok(stream)
    }

    /// Looks again: addresses that the name does not say any more are gone. Whether anything is different.
    pub async fn refresh(&self) -> io::Result<bool> {
        let addresses = self.lookup().await?;
        Ok(self.replace(addresses.iter().map(SocketAddr::ip).collect()))
    }

    pub fn is_gone(&self, address: IpAddr) -> bool {
        let known = self.known.load();
        known.as_ref().is_some_and(|known| !known.contains(&address))
    }

    /// What a connection was made to is there, whatever an older answer said.
    fn add(&self, address: IpAddr) {
        if self.is_gone(address) {
            self.known.rcu(|known| {
                let more = known.iter().flat_map(|known| known.iter().copied());
                Some(Arc::new(more.chain([address]).collect()))
            });
        }
    }

    fn replace(&self, mut addresses: Vec<IpAddr>) -> bool {
        addresses.sort_unstable();
        addresses.dedup();
        if addresses.is_empty() {
            return false;
        }
        let before = self.known.load_full();
        let changed = before.is_some_and(|before| *before != addresses);
        self.known.store(Some(Arc::new(addresses)));
        changed
    }

    async fn lookup(&self) -> io::Result<Vec<SocketAddr>> {
        Ok(lookup_host((self.host.as_str(), self.port)).await?.collect())
    }
}

/// The first of these that can be reached; the error of the last one that failed if none can.
async fn first<T, F>(addresses: &[SocketAddr], attempt: impl Fn(SocketAddr) -> F) -> io::Result<T>
where
    F: Future<Output = io::Result<T>>,
{
    if let [only] = addresses {
        return attempt(*only).await;
    }
    let mut left = addresses.iter();
    let mut attempts = FuturesUnordered::new();
    let mut failed = None;
    loop {
        if let Some(address) = left.next() {
            attempts.push(attempt(*address));
        } else if attempts.is_empty() {
            return Err(failed.unwrap_or_else(|| io::Error::from(io::ErrorKind::NotFound)));
        }
        tokio::select! {
            Some(done) = attempts.next() => match done {
                Ok(reached) => return Ok(reached),
                Err(error) => failed = Some(error),
            },
            () = tokio::time::sleep(HEAD_START) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, last], last.into()))
    }

    #[tokio::test(start_paused = true)]
    async fn addresses_are_tried_in_order_and_the_silent_are_not_waited_for() {
        let check = async |count: u8, expected: Option<u8>| {
            let all: Vec<SocketAddr> = (1..=count).map(address).collect();
            // The first refuses, the second is silent, the third answers.
            let reached = first(&all, async |address: SocketAddr| match address.port() {
                1 => Err(io::Error::from(io::ErrorKind::ConnectionRefused)),
                2 => std::future::pending().await,
                _ => Ok(address.ip()),
            });
            let reached = tokio::time::timeout(Duration::from_secs(5), reached).await;
            match (reached, expected) {
                (Ok(Ok(ip)), Some(last)) => assert_eq!(ip, address(last).ip(), "{count}"),
                (Ok(Err(error)), None) => assert_ne!(error.kind(), io::ErrorKind::Other, "{count}"),
                (Err(_), None) if count == 2 => {}
                (other, _) => panic!("{count}: {other:?}"),
            }
        };
        check(0, None).await;
        check(1, None).await;
        check(2, None).await;
        check(3, Some(3)).await;
        check(5, Some(3)).await;
    }

    #[test]
    fn what_a_name_does_not_say_any_more_is_gone() {
        let name = Name::of(&Uri::from_static("http://agents.internal:9000/x"));
        let ip = |last| address(last).ip();
        assert!(name.can_move() && !name.is_gone(ip(1)), "nothing was looked up");
        name.add(ip(1));
        assert!(!name.is_gone(ip(2)), "one connection says nothing of other addresses");
        assert!(!name.replace(vec![ip(2), ip(1)]), "the first answer is no change");
        assert!(!name.is_gone(ip(1)) && !name.is_gone(ip(2)) && name.is_gone(ip(3)));
        assert!(!name.replace(vec![ip(1), ip(2)]), "the order says nothing");
        assert!(name.replace(vec![ip(3)]));
        assert!(name.is_gone(ip(1)) && !name.is_gone(ip(3)));
        name.add(ip(4));
        assert!(!name.is_gone(ip(4)) && !name.is_gone(ip(3)));
        assert!(!name.replace(Vec::new()), "an empty answer takes nothing away");
        assert!(!name.is_gone(ip(3)));
    }

    #[test]
    fn an_address_is_no_name() {
        let check = |url: &'static str, host: &str, port: u16, moves: bool| {
            let name = Name::of(&Uri::from_static(url));
            assert_eq!((name.host(), name.port, name.can_move()), (host, port, moves), "{url}");
        };
        check("http://10.0.0.1/", "10.0.0.1", 80, false);
        check("https://[::1]/", "::1", 443, false);
        check("https://a.example:8443/x", "a.example", 8443, true);
    }
}
