//! Listeners: addresses that can be bound together, TLS that can be served, proxies that can be trusted.

use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;

use super::super::model::{Admin, CertificateFiles, ClientCertificates, Listener, ListenerTls, TlsVersion};
use super::super::raw::{
    Names, Raw, RawClientCertificates, RawDecisionPoint, RawListener, RawListenerTls, RawTlsVersion,
};
use super::super::{join, place};
use super::names::{self, Unique};
use super::{Check, decisions, policy};

pub fn listeners(check: &mut Check<'_>, file: &Raw, admin: Option<&Admin>) -> Option<Vec<Listener>> {
    let raw = &file.listeners;
    if raw.is_empty() {
        check.problem("listeners", "needs at least one listener");
    }
    let mut unique = Unique::default();
    let mut bound: Vec<(String, SocketAddr)> = admin
        .map(|admin| ("admin.address".to_owned(), admin.address))
        .into_iter()
        .collect();
    let mut listeners = Vec::new();
    let mut complete = true;
    for (index, raw) in raw.items() {
        let key = place("listeners", index);
        match listener(check, &key, raw, &file.decision_points, &mut unique, &mut bound) {
            Some(listener) => listeners.push(listener),
            None => complete = false,
        }
    }
    complete.then_some(listeners)
}

fn listener(
    check: &mut Check<'_>,
    key: &str,
    raw: &RawListener,
    points: &Names<RawDecisionPoint>,
    unique: &mut Unique,
    bound: &mut Vec<(String, SocketAddr)>,
) -> Option<Listener> {
    let name_key = join(key, "name");
    let name = names::name(check, &name_key, raw.name.as_ref());
    if let Some(text) = &raw.name {
        unique.claim(check, &name_key, text);
    }
    let address_key = join(key, "address");
    let address = raw
        .address
        .as_deref()
        .and_then(|text| address(check, &address_key, text));
    if let Some(address) = address {
        if let Some((other, _)) = bound.iter().find(|(_, other)| collide(*other, address)) {
            let cause = format!("`{address}` cannot be bound beside {other}");
            check.problem(&address_key, cause);
        }
        bound.push((address_key, address));
    }
    let tls = raw.tls.as_ref().map(|raw| tls(check, &join(key, "tls"), raw));
    let mut trusted_proxies = Vec::new();
    for (index, text) in raw.trusted_proxies.items() {
        let key = place(&join(key, "trusted_proxies"), index);
        trusted_proxies.extend(network(check, &key, text));
    }
    let policy_key = join(key, "policy");
    let allow = policy::allow(check, &join(&policy_key, "allow"), &raw.policy.allow);
    let point = raw.policy.decision_point.as_ref();
    let decision_point = decisions::named(check, &join(&policy_key, "decision_point"), point, points);
    Some(Listener {
        name: name?,
        address: address?,
        tls: match tls {
            Some(tls) => Some(tls?),
            None => None,
        },
        trusted_proxies,
        allow,
        decision_point,
    })
}

pub fn address(check: &mut Check<'_>, key: &str, text: &str) -> Option<SocketAddr> {
    match text.parse() {
        Ok(address) => Some(address),
        Err(_) => {
            check.problem(
                key,
                format!("`{text}` is not an IP address with a port; write e.g. `127.0.0.1:8080`, `0.0.0.0:8443` or `[::]:8443`"),
            );
            None
        }
    }
}

/// The same port on the same address, or on an address and on all of its family. Port 0 is a new port each time.
fn collide(one: SocketAddr, other: SocketAddr) -> bool {
    one.port() != 0
        && one.port() == other.port()
        && one.is_ipv4() == other.is_ipv4()
        && (one.ip() == other.ip() || one.ip().is_unspecified() || other.ip().is_unspecified())
}

pub fn network(check: &mut Check<'_>, key: &str, text: &str) -> Option<IpNet> {
    let network = text
        .parse::<IpNet>()
        .or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
    match network {
        Ok(network) if network.prefix_len() == 0 => {
            check.problem(
                key,
                format!("`{text}` would believe every caller's forwarding headers; name the proxies"),
            );
            None
        }
        Ok(network) => Some(network.trunc()),
        Err(_) => {
            check.problem(
                key,
                format!("`{text}` is not an IP address or network; write e.g. `10.0.0.5` or `10.0.0.0/8`"),
            );
            None
        }
    }
}

fn tls(check: &mut Check<'_>, key: &str, raw: &RawListenerTls) -> Option<ListenerTls> {
    let certificates = certificates(check, key, raw);
    let client_certificates = match raw.client_certificates {
        RawClientCertificates::Off => ClientCertificates::Off,
        RawClientCertificates::Optional => ClientCertificates::Optional,
        RawClientCertificates::Required => ClientCertificates::Required,
    };
    // Of a value that was given up nothing follows for the others.
    let is_known = !check.was_given_up(&join(key, "client_certificates"));
    let asks = client_certificates != ClientCertificates::Off;
    if asks && raw.client_ca.is_none() {
        check.problem(
            &join(key, "client_ca"),
            "is required, unless `client_certificates` is `off`",
        );
    }
    for (name, given) in [
        ("client_ca", raw.client_ca.is_some()),
        ("client_crls", !raw.client_crls.is_empty()),
    ] {
        if given && is_known && !asks {
            check.problem(
                &join(key, name),
                "has no effect while `client_certificates` is `off`; set it to `optional` or `required`",
            );
        }
    }
    let client_ca = check.optional_path(&join(key, "client_ca"), raw.client_ca.as_ref());
    let mut client_crls = Vec::new();
    for (index, file) in raw.client_crls.items() {
        client_crls.extend(check.path(&place(&join(key, "client_crls"), index), file));
    }
    let tls = ListenerTls {
        certificates: certificates?,
        client_certificates,
        client_ca,
        client_crls,
        min_version: match raw.min_version {
            RawTlsVersion::Tls12 => TlsVersion::Tls12,
            RawTlsVersion::Tls13 => TlsVersion::Tls13,
        },
    };
    check.sound.listeners.push((key.to_owned(), tls.clone()));
    Some(tls)
}

fn certificates(check: &mut Check<'_>, key: &str, raw: &RawListenerTls) -> Option<Vec<CertificateFiles>> {
    let single = raw.certificate.is_some() || raw.private_key.is_some();
    match (single, raw.certificates.is_empty()) {
        (true, false) => {
            check.problem(
                key,
                "has both `certificates` and `certificate` with `private_key`; keep one of them",
            );
            None
        }
        (false, true) => {
            check.problem(key, "needs `certificate` and `private_key`, or `certificates`");
            None
        }
        (true, true) => {
            let files = pair(
                check,
                (&join(key, "certificate"), raw.certificate.as_ref()),
                (&join(key, "private_key"), raw.private_key.as_ref()),
            )?;
            Some(vec![files])
        }
        (false, false) => {
            let mut all = Vec::new();
            let mut complete = true;
            for (index, raw) in raw.certificates.items() {
                let key = place(&join(key, "certificates"), index);
                let certificate = check.optional_path(&join(&key, "certificate"), raw.certificate.as_ref());
                let private_key = check.optional_path(&join(&key, "private_key"), raw.private_key.as_ref());
                match (certificate, private_key) {
                    (Some(certificate), Some(private_key)) => all.push(CertificateFiles {
                        certificate,
                        private_key,
                    }),
                    (Some(_) | None, _) => complete = false,
                }
            }
            complete.then_some(all)
        }
    }
}

/// A certificate and its key, of which neither does without the other.
pub fn pair(
    check: &mut Check<'_>,
    (certificate_key, certificate): (&str, Option<&String>),
    (private_key_key, private_key): (&str, Option<&String>),
) -> Option<CertificateFiles> {
    match (certificate, private_key) {
        (Some(_), None) => check.problem(private_key_key, "is required with the certificate"),
        (None, Some(_)) => check.problem(certificate_key, "is required with the private key"),
        (Some(_), Some(_)) | (None, None) => {}
    }
    let certificate = check.optional_path(certificate_key, certificate);
    let private_key = check.optional_path(private_key_key, private_key);
    Some(CertificateFiles {
        certificate: certificate?,
        private_key: private_key?,
    })
}
