//! Where webhooks may be: what a caller may register, and what may be connected to.
//!
//! A URL is judged twice: as text when it is registered, by the addresses of its host when it is called. The text is read more
//! strictly than resolvers and browsers read it, so that no spelling means one thing here and another there.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use crate::authenticate::pattern;
use crate::config;

/// Longest URL of a webhook: what common servers take at most is 8 KiB, and it is sealed into one with its secrets.
const MAX_URL: usize = 2048;

/// What the configuration allows.
#[derive(Clone, Debug)]
pub struct Rules {
    http: bool,
    hosts: Vec<String>,
    networks: Vec<IpNet>,
}

impl Rules {
    pub fn of(config: &config::Push) -> Self {
        Self {
            http: config.http,
            hosts: config.hosts.clone(),
            networks: config.networks.clone(),
        }
    }

    /// Whether a caller may register this URL. Names are not looked up: what they lead to is judged when they are called.
    pub fn check(&self, url: &str) -> Result<(), &'static str> {
        if url.len() > MAX_URL {
            return Err("the webhook's URL is longer than 2048 bytes");
        }
        let plain = |byte: u8| byte.is_ascii_graphic() && !b"\\\"<>^`{|}".contains(&byte);
        if !url.bytes().all(plain) {
            return Err("the webhook's URL has characters that a URL cannot have; encode them");
        }
        url.parse::<http::Uri>().map_err(|_| "the webhook's URL is malformed")?;
        let (scheme, rest) = url.split_once("://").ok_or("the webhook's URL is not absolute")?;
        let secure = scheme.eq_ignore_ascii_case("https");
        let plain = self.http && scheme.eq_ignore_ascii_case("http");
        if !(secure || plain) {
            return Err("the webhook's scheme is not allowed; use https");
        }
        if rest.contains('#') {
            return Err("the webhook's URL has a fragment");
        }
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let authority = rest.get(..end).unwrap_or_default();
        if authority.contains('@') {
            return Err("the webhook's URL has user information; use `authentication`");
        }
        let (host, port) = split(authority).ok_or("the webhook's URL has no valid host")?;
        if port.is_some_and(|port| !is_port(port)) {
            return Err("the webhook's port is not valid");
        }
        let host = host.to_ascii_lowercase();
        let allowed = self.hosts.is_empty()
            || self
                .hosts
                .iter()
                .any(|known| pattern::matches(known.as_bytes(), host.as_bytes()));
        if !allowed {
            return Err("the webhook's host is not allowed");
        }
        match address(&host).map_err(|Ambiguous| "the webhook's URL has no valid host")? {
            Some(address) if !self.may_connect(address) => Err(NOT_PUBLIC),
            // Names that mean this machine whatever a resolver says (RFC 6761 §6.3).
            None if is_local(&host) && !self.may_connect(IpAddr::V4(Ipv4Addr::LOCALHOST)) => Err(NOT_PUBLIC),
            Some(_) | None => Ok(()),
        }
    }

    /// Whether a webhook at this address may be connected to.
    pub fn may_connect(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.networks.iter().any(|network| network.contains(&address)) || is_public(address)
    }
}

const NOT_PUBLIC: &str = "the webhook's address is not public";

/// The text of an address that some reader might take for another one, or no host at all.
struct Ambiguous;

/// The address that a host in lower case is; `None`: it is a name.
fn address(host: &str) -> Result<Option<IpAddr>, Ambiguous> {
    if let Some(rest) = host.strip_prefix('[') {
        let address = rest.strip_suffix(']').and_then(|text| text.parse::<Ipv6Addr>().ok());
        return address.map(|address| Some(IpAddr::V6(address))).ok_or(Ambiguous);
    }
    let labels = || host.split('.');
    let sound = host.len() <= 253
        && labels().all(|label| {
            (1..=63).contains(&label.len())
                && !label.starts_with('-')
                && !label.ends_with('-')
                && label
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
        });
    if !sound {
        return Err(Ambiguous);
    }
    let last = labels().next_back().unwrap_or_default();
    let hex = last
        .strip_prefix("0x")
        .is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
    // What ends in a number is an address to resolvers, in decimal, octal or hexadecimal, of one to four parts.
    if hex || last.bytes().all(|byte| byte.is_ascii_digit()) {
        return host
            .parse::<Ipv4Addr>()
            .map(|address| Some(IpAddr::V4(address)))
            .map_err(|_| Ambiguous);
    }
    Ok(None)
}

fn split(authority: &str) -> Option<(&str, Option<&str>)> {
    let after = authority.rfind(']').map_or(0, |end| end + 1);
    let (host, port) = match authority.get(after..)?.find(':') {
        Some(colon) => (authority.get(..after + colon)?, authority.get(after + colon + 1..)),
        None => (authority, None),
    };
    (!host.is_empty()).then_some((host, port))
}

fn is_port(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<u16>().is_ok_and(|port| port > 0)
}

fn is_local(host: &str) -> bool {
    host == "localhost" || host.ends_with(".localhost")
}

/// Addresses that anybody on the internet may have (RFC 6890 and the registries of IANA), and none at which clouds tell
/// their machines secrets.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, d] = address.octets();
    !matches!(
        (a, b, c, d),
        // This network, private, loopback; multicast, reserved and broadcast.
        (0 | 10 | 127 | 224.., ..)
        // Carrier-grade NAT.
        | (100, 64..=127, ..)
        // Link-local, with the metadata service of most clouds.
        | (169, 254, ..)
        | (172, 16..=31, ..)
        | (192, 168, ..)
        // Protocol assignments, documentation, relays of 6to4.
        | (192, 0, 0 | 2, _)
        | (192, 88, 99, _)
        // Measurements of devices; documentation.
        | (198, 18 | 19, ..)
        | (198, 51, 100, _)
        | (203, 0, 113, _)
        // Looks public and is Azure's own.
        | (168, 63, 129, 16)
    )
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let [a, b, c, d, e, f, g, h] = address.segments();
    let embedded = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        is_public_v4(Ipv4Addr::new(a, b, c, d))
    };
    match (a, b, c, d, e, f) {
        // NAT64: networks without IPv4 reach it through these (RFC 6052).
        (0x64, 0xff9b, 0, 0, 0, 0) => embedded(g, h),
        // Protocol assignments (Teredo among them), 6to4, documentation.
        (0x2001, 0..=0x1ff | 0xdb8, ..) | (0x2002, ..) | (0x3fff, 0..=0xfff, ..) => false,
        // The rest of what is given to the public (RFC 4291 §2.4).
        (0x2000..=0x3fff, ..) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules() -> Rules {
        Rules {
            http: false,
            hosts: Vec::new(),
            networks: Vec::new(),
        }
    }

    #[test]
    fn only_unambiguous_public_urls_may_be_registered() {
        let check = |url: &str, allowed: bool| {
            let checked = rules().check(url);
            assert_eq!(checked.is_ok(), allowed, "{url}: {checked:?}");
        };
        check("https://hooks.example.com/a?b=c", true);
        check("HTTPS://Hooks.Example.COM:8443", true);
        check("https://93.184.216.34/", true);
        check("https://[2606:2800:220:1::1]:443/", true);
        check("https://xn--bcher-kva.example/", true);
        check("https://0xcafe.example.com/", true);
        check(&format!("https://a.example/{}", "x".repeat(2048 - 18)), true);
        check(&format!("https://a.example/{}", "x".repeat(2049 - 18)), false);
        for url in [
            // No URL, or not one that is spoken.
            "",
            "hooks.example.com",
            "//hooks.example.com/",
            "ftp://hooks.example.com/",
            "http://hooks.example.com/",
            "file:///etc/passwd",
            "https://",
            "https:///a",
            "https://:443/",
            "https:/hooks.example.com/",
            // User information, fragments, characters.
            "https://ann@hooks.example.com/",
            "https://ann:pw@hooks.example.com/",
            "https://hooks.example.com@127.0.0.1/",
            "https://hooks.example.com/#a",
            "https://127.0.0.1#@hooks.example.com/",
            "https://hooks.example.com\\@127.0.0.1/",
            "https://hooks.example.com/a b",
            "https://hooks.example.com/\r\nHost: x",
            "https://b\u{fc}cher.example/",
            "https://\u{ff11}27.0.0.1/",
            "https://127\u{3002}0\u{3002}0\u{3002}1/",
            // Ports.
            "https://hooks.example.com:0/",
            "https://hooks.example.com:/",
            "https://hooks.example.com:65536/",
            "https://hooks.example.com:+443/",
            "https://hooks.example.com:44a/",
            "https://hooks.example.com:443:443/",
            // Addresses that are not public.
            "https://127.0.0.1/",
            "https://127.1.2.3/",
            "https://0.0.0.0/",
            "https://10.0.0.1/",
            "https://172.16.0.1/",
            "https://192.168.1.1/",
            "https://169.254.169.254/latest/meta-data/",
            "https://100.64.0.1/",
            "https://224.0.0.1/",
            "https://255.255.255.255/",
            "https://198.18.0.1/",
            "https://168.63.129.16/",
            // The same in other spellings.
            "https://2130706433/",
            "https://0x7f000001/",
            "https://0x7f.0.0.1/",
            "https://017700000001/",
            "https://0177.0.0.1/",
            "https://127.1/",
            "https://127.0.1/",
            "https://127.0.0.1./",
            "https://0/",
            "https://0x/",
            "https://127.0.0.01/",
            "https://1.2.3.4.5/",
            "https://4294967296/",
            "https://127.0.0.0x1/",
            "https://%31%32%37.0.0.1/",
            "https://127.0.0.1%00.example.com/",
            "https://93.184.216.034/",
            // IPv6, in every way to hold an IPv4 address.
            "https://[::1]/",
            "https://[::]/",
            "https://[::ffff:127.0.0.1]/",
            "https://[::ffff:7f00:1]/",
            "https://[0:0:0:0:0:ffff:a00:1]/",
            "https://[::127.0.0.1]/",
            "https://[64:ff9b::7f00:1]/",
            "https://[64:ff9b::10.0.0.1]/",
            "https://[64:ff9b:1::1]/",
            "https://[2002:7f00:1::]/",
            "https://[2001:0:1::1]/",
            "https://[fe80::1]/",
            "https://[fe80::1%25eth0]/",
            "https://[fc00::1]/",
            "https://[fd00:ec2::254]/",
            "https://[ff02::1]/",
            "https://[2001:db8::1]/",
            "https://[fec0::1]/",
            "https://[::1",
            "https://::1/",
            "https://[127.0.0.1]/",
            "https://[]/",
            "https://[::1]x/",
            // Names of this machine, and names that are none.
            "https://localhost/",
            "https://LOCALHOST:443/",
            "https://a.localhost/",
            "https://localhost./",
            "https://hooks.example.com./",
            "https://a..b/",
            "https://-a.example/",
            "https://a-.example/",
            "https://hooks.example.com%2f@127.0.0.1/",
            "https://*.example.com/",
        ] {
            check(url, false);
        }
    }

    #[test]
    fn only_public_addresses_are_connected_to() {
        let check = |address: &str, allowed: bool| {
            assert_eq!(rules().may_connect(address.parse().unwrap()), allowed, "{address}");
        };
        for (first, last) in [
            ("0.0.0.0", "0.255.255.255"),
            ("10.0.0.0", "10.255.255.255"),
            ("100.64.0.0", "100.127.255.255"),
            ("127.0.0.0", "127.255.255.255"),
            ("169.254.0.0", "169.254.255.255"),
            ("172.16.0.0", "172.31.255.255"),
            ("192.0.0.0", "192.0.0.255"),
            ("192.0.2.0", "192.0.2.255"),
            ("192.88.99.0", "192.88.99.255"),
            ("192.168.0.0", "192.168.255.255"),
            ("198.18.0.0", "198.19.255.255"),
            ("198.51.100.0", "198.51.100.255"),
            ("203.0.113.0", "203.0.113.255"),
            ("224.0.0.0", "255.255.255.255"),
            ("::", "::ffff"),
            ("::ffff:127.0.0.1", "::ffff:10.0.0.1"),
            ("2001::", "2001:1ff::"),
            ("2001:db8::", "2001:db8:ffff::"),
            ("2002::", "2002:ffff::"),
            ("3fff::", "3fff:fff::"),
            ("4000::", "ffff::"),
            ("64:ff9b::a00:1", "64:ff9b::e000:1"),
        ] {
            check(first, false);
            check(last, false);
        }
        for address in [
            "1.0.0.0",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "169.253.255.255",
            "169.255.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.0",
            "192.167.255.255",
            "192.169.0.0",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "::ffff:93.184.216.34",
            "64:ff9b::5db8:d822",
            "2001:200::",
            "2000::1",
            "2003::1",
            "3ffe::1",
            "2606:2800:220:1::1",
        ] {
            check(address, true);
        }
    }

    #[test]
    fn the_configuration_opens_networks_schemes_and_closes_hosts() {
        let rules = Rules {
            http: true,
            hosts: vec!["*.example.com".to_owned(), "10.*".to_owned(), "[fd00:*".to_owned()],
            networks: vec!["10.1.0.0/16".parse().unwrap(), "fd00::/8".parse().unwrap()],
        };
        let check = |url: &str, expected: Result<(), &str>| assert_eq!(rules.check(url), expected, "{url}");
        check("http://hooks.example.com/", Ok(()));
        check("https://a.b.Example.com/", Ok(()));
        check("https://example.com/", Err("the webhook's host is not allowed"));
        check(
            "https://hooks.example.com.evil.org/",
            Err("the webhook's host is not allowed"),
        );
        check("http://10.1.2.3/", Ok(()));
        check("http://10.2.2.3/", Err(NOT_PUBLIC));
        check("http://[fd00::1]/", Ok(()));
        assert!(
            rules.may_connect("::ffff:10.1.2.3".parse().unwrap()),
            "a mapped address is the same"
        );
        assert!(!rules.may_connect("10.2.0.1".parse().unwrap()));
    }
}
