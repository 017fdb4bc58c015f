//! Limits at the bound and one past it, and accepting over loopback.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use super::*;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn loopback(connections: &Arc<Connections>) -> Bound {
    let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
    bind_address("test", any_port, Arc::clone(connections)).unwrap()
}

#[test]
fn a_source_is_an_ipv4_address_or_an_ipv6_network_of_64_bits() {
    fn check(one: &str, other: &str, same: bool) {
        assert_eq!(
            Source::from(ip(one)) == Source::from(ip(other)),
            same,
            "{one} and {other}"
        );
    }
    check("192.0.2.1", "192.0.2.1", true);
    check("192.0.2.1", "192.0.2.2", false);
    check("2001:db8:1:2::1", "2001:db8:1:2:ffff:ffff:ffff:ffff", true);
    check("2001:db8:1:2::1", "2001:db8:1:3::1", false);
    check("::ffff:192.0.2.1", "192.0.2.1", true);
    check("::ffff:192.0.2.1", "::ffff:192.0.2.2", false);
}

#[test]
fn the_limit_of_an_address_admits_the_last_and_rejects_the_next() {
    let connections = Connections::with_limits(100, 3);
    let mut slots = Vec::new();
    for _ in 0..3 {
        slots.push(connections.admit(ip("2001:db8::1")).unwrap());
    }
    // Another address of the same /64.
    assert_eq!(connections.admit(ip("2001:db8::2")).err(), Some(Rejected::PerAddress));
    assert!(connections.admit(ip("192.0.2.1")).is_ok(), "others are not affected");
    assert_eq!(connections.open(), 3);
}

#[test]
fn the_limit_of_all_admits_the_last_and_rejects_the_next() {
    let connections = Connections::with_limits(2, 2);
    let _first = connections.admit(ip("192.0.2.1")).unwrap();
    let _second = connections.admit(ip("192.0.2.2")).unwrap();
    assert_eq!(connections.admit(ip("192.0.2.3")).err(), Some(Rejected::All));
    assert_eq!(connections.open(), 2);
    assert_eq!(connections.sources(), 2, "a rejected source leaves no entry");
}

#[test]
fn the_narrow_limit_is_asked_first() {
    let connections = Connections::with_limits(1, 1);
    let _slot = connections.admit(ip("192.0.2.1")).unwrap();
    assert_eq!(connections.admit(ip("192.0.2.1")).err(), Some(Rejected::PerAddress));
}

#[test]
fn a_dropped_slot_frees_its_place_and_the_last_one_its_entry() {
    let connections = Connections::with_limits(2, 2);
    let first = connections.admit(ip("192.0.2.1")).unwrap();
    let second = connections.admit(ip("192.0.2.1")).unwrap();
    drop(first);
    assert_eq!((connections.open(), connections.sources()), (1, 1));
    let third = connections.admit(ip("192.0.2.1")).unwrap();
    drop((second, third));
    assert_eq!((connections.open(), connections.sources()), (0, 0));
}

#[test]
fn new_limits_hold_for_connections_to_come() {
    let connections = Connections::with_limits(2, 2);
    let first = connections.admit(ip("192.0.2.1")).unwrap();
    let _second = connections.admit(ip("192.0.2.1")).unwrap();
    connections.change_limits(1, 5);
    assert_eq!(connections.open(), 2, "open connections stay");
    drop(first);
    assert_eq!(connections.admit(ip("192.0.2.1")).err(), Some(Rejected::All));
}

#[test]
fn the_pause_after_failures_grows_to_its_bound() {
    fn check(failures: u32, expected: Duration) {
        assert_eq!(pause(failures), expected, "after {failures} failures");
    }
    check(0, FIRST_PAUSE);
    check(1, FIRST_PAUSE * 2);
    check(6, FIRST_PAUSE * 64);
    check(7, LONGEST_PAUSE);
    check(u32::MAX, LONGEST_PAUSE);
}

#[test]
fn only_errors_that_would_repeat_cause_a_pause() {
    fn check(errno: rustix::io::Errno, of_one_connection: bool) {
        let error = std::io::Error::from_raw_os_error(errno.raw_os_error());
        assert_eq!(is_of_one_connection(&error), of_one_connection, "{errno:?}");
    }
    check(rustix::io::Errno::CONNABORTED, true);
    check(rustix::io::Errno::INTR, true);
    check(rustix::io::Errno::MFILE, false);
    check(rustix::io::Errno::NFILE, false);
    check(rustix::io::Errno::NOBUFS, false);
    check(rustix::io::Errno::NOMEM, false);
}

#[tokio::test]
async fn an_accepted_connection_has_its_peer_and_sends_at_once() {
    let connections = Connections::with_limits(10, 10);
    let mut bound = loopback(&connections);
    assert_ne!(bound.local_address().port(), 0);
    let peer = TcpStream::connect(bound.local_address()).await.unwrap();
    let accepted = bound.accept().await.unwrap();
    assert_eq!(accepted.address, peer.local_addr().unwrap());
    assert!(accepted.stream.nodelay().unwrap());
    assert_eq!(connections.open(), 1);
    drop(accepted);
    assert_eq!(connections.open(), 0);
}

#[tokio::test]
async fn a_connection_over_the_limit_is_closed_and_the_loop_goes_on() {
    let connections = Connections::with_limits(1, 10);
    let mut bound = loopback(&connections);
    let _first_peer = TcpStream::connect(bound.local_address()).await.unwrap();
    let first = bound.accept().await.unwrap();

    let mut refused_peer = TcpStream::connect(bound.local_address()).await.unwrap();
    let Err(Refused::Limit { address, rejected }) = bound.accept().await else {
        panic!("the second connection is over the limit");
    };
    assert_eq!(address, refused_peer.local_addr().unwrap());
    assert_eq!(rejected, Rejected::All);
    let error = refused_peer.read(&mut [0; 1]).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);

    drop(first);
    let _third_peer = TcpStream::connect(bound.local_address()).await.unwrap();
    bound.accept().await.unwrap();
}

#[tokio::test]
async fn an_ipv6_listener_shows_ipv4_peers_as_ipv4() {
    let connections = Connections::with_limits(10, 10);
    let everywhere = "[::]:0".parse().unwrap();
    let mut bound = match bind_address("test", everywhere, Arc::clone(&connections)) {
        Ok(bound) => bound,
        // A machine without IPv6 cannot show it.
        Err(Error::Bind { source, .. })
            if source.raw_os_error() == Some(rustix::io::Errno::AFNOSUPPORT.raw_os_error()) =>
        {
            return;
        }
        Err(error) => panic!("{error}"),
    };
    let port = bound.local_address().port();
    let _peer = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let accepted = bound.accept().await.unwrap();
    assert_eq!(accepted.address.ip(), ip("127.0.0.1"));
}

#[tokio::test]
async fn an_address_in_use_names_the_listener_and_the_next_step() {
    let connections = Connections::with_limits(10, 10);
    let bound = loopback(&connections);
    let error = bind_address("second", bound.local_address(), Arc::clone(&connections))
        .map(|_| ())
        .unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with("listener second cannot listen on 127.0.0.1:"),
        "{text}"
    );
    assert!(text.contains("another process or listener"), "{text}");
}

#[test]
fn the_descriptor_limit_becomes_what_the_system_allows() {
    let raised = raise_descriptor_limit().unwrap();
    let limit = getrlimit(Resource::Nofile);
    assert_eq!(limit.current, limit.maximum);
    assert_eq!(raised, limit.current.unwrap_or(u64::MAX));
}
