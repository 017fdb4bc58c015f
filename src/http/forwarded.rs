//! Who the caller is when a proxy stands in front.
//!
//! `X-Forwarded-For` is believed only from peers that the listener names as trusted, and read from the right: the last
//! address that no trusted proxy has is the caller's. Everybody else's is ignored and replaced.

use std::net::{IpAddr, Ipv6Addr};

use http::HeaderMap;
use ipnet::IpNet;

use super::hygiene;

/// The caller's address as seen through `trusted` proxies.
pub fn client(peer: IpAddr, headers: &HeaderMap, trusted: &[IpNet]) -> IpAddr {
    let is_trusted = |address: IpAddr| trusted.iter().any(|net| net.contains(&address));
    let peer = peer.to_canonical();
    if !is_trusted(peer) {
        return peer;
    }
    let hops: Vec<&str> = headers
        .get_all(hygiene::X_FORWARDED_FOR)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .collect();
    let mut client = peer;
    for hop in hops.iter().rev() {
        // What cannot be read was not written by a proxy of ours: the last good address stands.
        let Ok(address) = hop.parse::<IpAddr>() else { break };
        client = address.to_canonical();
        if !is_trusted(client) {
            break;
        }
    }
    client
}

/// What one subscriber holds: an IPv4 address, or an IPv6 /64, the least that one gets (RFC 6177).
pub fn subscriber(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX))),
    }
}
