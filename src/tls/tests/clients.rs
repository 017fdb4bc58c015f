//! Client certificates: asked for or not, believed or not, revoked, resumed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::UNIX_EPOCH;

use super::*;
use crate::clock::Clock;

const AGENT: &str = "spiffe://example.com/agents/maps";

/// A listener that believes client certificates of `clients`.
struct Setup {
    folder: Folder,
    servers: Ca,
    clients: Ca,
    tls: ListenerTls,
}

fn setup(mode: ClientCertificates) -> Setup {
    let folder = Folder::new();
    let servers = Ca::new("server CA");
    let clients = Ca::new("client CA");
    let mut tls = folder.listener(&[&servers.server(&["a.example"])]);
    tls.client_certificates = mode;
    tls.client_ca = Some(folder.write("clients.pem", &clients.pem()));
    Setup {
        folder,
        servers,
        clients,
        tls,
    }
}

async fn certificate_error(acceptor: &Acceptor, client: Caller) -> rustls::Error {
    let error = refusal(acceptor, &client.shared(), "a.example").await;
    let Error::ClientCertificate(error) = error else {
        panic!("refused for another reason: {error:?}");
    };
    error
}

#[tokio::test]
async fn a_certificate_of_the_ca_names_the_peer() {
    let both: [&'static SupportedProtocolVersion; 2] = [&rustls::version::TLS12, &rustls::version::TLS13];
    for mode in [ClientCertificates::Optional, ClientCertificates::Required] {
        for version in both {
            let setup = setup(mode);
            let acceptor = build(&setup.tls);
            let agent = setup.clients.client(AGENT);
            let client = Caller::with(&setup.servers, Some(&agent), &[version]).shared();
            let ((_, peer), _client) = connect(&acceptor, &client, "a.example").await;
            let certificate = peer.certificate.unwrap();
            assert_eq!(certificate.uris, [AGENT], "{mode:?} {version:?}");
        }
    }
}

#[tokio::test]
async fn a_listener_that_asks_for_none_ignores_the_ca() {
    let mut setup = setup(ClientCertificates::Off);
    setup.tls.client_ca = Some(setup.folder.path("absent.pem"));
    let acceptor = build(&setup.tls);
    let agent = setup.clients.client(AGENT);
    let client = Caller::showing(&setup.servers, &agent).shared();
    let ((_, peer), _client) = connect(&acceptor, &client, "a.example").await;
    assert_eq!(peer.certificate, None);
    let files = setup.tls.files();
    assert_eq!(files.len(), 2, "{files:?}");
}

#[tokio::test]
async fn no_certificate_is_let_in_only_where_optional() {
    let optional = setup(ClientCertificates::Optional);
    let client = Caller::trusting(&optional.servers).shared();
    let ((_, peer), _client) = connect(&build(&optional.tls), &client, "a.example").await;
    assert_eq!(peer.certificate, None);

    let required = setup(ClientCertificates::Required);
    let error = certificate_error(&build(&required.tls), Caller::trusting(&required.servers)).await;
    assert_eq!(error, rustls::Error::NoCertificatesPresented);
}

#[tokio::test]
async fn a_certificate_of_another_ca_is_refused_even_where_optional() {
    for mode in [ClientCertificates::Optional, ClientCertificates::Required] {
        let setup = setup(mode);
        let acceptor = build(&setup.tls);
        // The name of the CA is no proof.
        for name in ["another CA", "client CA"] {
            let stranger = Ca::new(name).client(AGENT);
            let client = Caller::showing(&setup.servers, &stranger);
            let error = certificate_error(&acceptor, client).await;
            assert!(
                matches!(error, rustls::Error::InvalidCertificate(_)),
                "{mode:?} {name}: {error:?}"
            );
        }
    }
}

#[tokio::test]
async fn an_expired_certificate_is_refused() {
    let setup = setup(ClientCertificates::Optional);
    let mut params = client_params(AGENT);
    params.not_after = date_time_ymd(2001, 1, 1);
    let expired = setup.clients.issue(params);
    let client = Caller::showing(&setup.servers, &expired);
    let error = certificate_error(&build(&setup.tls), client).await;
    assert!(error.to_string().contains("expired"), "refused as expired: {error}");
}

#[tokio::test]
async fn a_revoked_certificate_is_refused_and_others_are_not() {
    let mut setup = setup(ClientCertificates::Required);
    let revoked = setup.clients.client(AGENT);
    let good = setup.clients.client(AGENT);
    let list = setup.clients.crl(&[&revoked]);
    setup.tls.client_crls = vec![setup.folder.write("clients.crl", &list)];
    let acceptor = build(&setup.tls);

    let client = Caller::showing(&setup.servers, &good).shared();
    connect(&acceptor, &client, "a.example").await;
    let client = Caller::showing(&setup.servers, &revoked);
    let error = certificate_error(&acceptor, client).await;
    assert_eq!(
        error,
        rustls::Error::InvalidCertificate(rustls::CertificateError::Revoked)
    );
}

#[tokio::test]
async fn a_list_in_der_counts_too() {
    let mut setup = setup(ClientCertificates::Required);
    let revoked = setup.clients.client(AGENT);
    let list = setup.clients.crl(&[&revoked]);
    let list = rustls_pki_types::CertificateRevocationListDer::from_pem_slice(list.as_bytes());
    let path = setup.folder.path("clients.der");
    std::fs::write(&path, list.unwrap()).unwrap();
    setup.tls.client_crls = vec![path];
    let error = certificate_error(&build(&setup.tls), Caller::showing(&setup.servers, &revoked)).await;
    assert_eq!(
        error,
        rustls::Error::InvalidCertificate(rustls::CertificateError::Revoked)
    );
}

#[tokio::test]
async fn of_two_lists_of_one_ca_the_newer_counts() {
    let mut setup = setup(ClientCertificates::Required);
    let revoked = setup.clients.client(AGENT);
    let older = setup.clients.crl_between(&[], 2001, 4000);
    let newer = setup.clients.crl_between(&[&revoked], 2002, 4000);
    let older = setup.folder.write("older.crl", &older);
    let newer = setup.folder.write("newer.crl", &newer);
    for lists in [vec![older.clone(), newer.clone()], vec![newer.clone(), older.clone()]] {
        setup.tls.client_crls = lists;
        let client = Caller::showing(&setup.servers, &revoked);
        let error = certificate_error(&build(&setup.tls), client).await;
        assert_eq!(
            error,
            rustls::Error::InvalidCertificate(rustls::CertificateError::Revoked)
        );
    }
}

#[tokio::test]
async fn a_list_past_its_next_update_refuses_and_its_expiry_is_told() {
    let mut setup = setup(ClientCertificates::Required);
    let good = setup.clients.client(AGENT);
    let stale = setup.clients.crl_between(&[], 2001, 2002);
    let path = setup.folder.write("clients.crl", &stale);
    setup.tls.client_crls = vec![path.clone()];
    let acceptor = build(&setup.tls);
    let expiry = acceptor
        .expires_at()
        .into_iter()
        .find(|expiry| expiry.kind == crate::tls::ExpiryKind::RevocationList)
        .unwrap();
    assert_eq!(expiry.key, "listeners[0].tls.client_crls[0]");
    assert_eq!(expiry.file, path);
    assert_eq!(expiry.not_after, date_time_ymd(2002, 1, 1).unix_timestamp());

    let client = Caller::showing(&setup.servers, &good);
    let error = certificate_error(&acceptor, client).await;
    assert!(
        matches!(
            error,
            rustls::Error::InvalidCertificate(rustls::CertificateError::ExpiredRevocationListContext { .. })
        ),
        "{error:?}"
    );
}

#[test]
fn a_list_that_would_refuse_every_client_is_refused_itself() {
    fn check(bundle: &[&Ca], list: &str, expected: &str) {
        let mut setup = setup(ClientCertificates::Required);
        let bundle: String = bundle.iter().map(|ca| ca.pem()).collect();
        setup.tls.client_ca = Some(setup.folder.write("bundle.pem", &bundle));
        setup.tls.client_crls = vec![setup.folder.write("clients.crl", list)];
        let (key, cause) = only_problem(&setup.tls);
        assert_eq!(key, "listeners[0].tls.client_crls[0]");
        assert!(cause.contains(expected), "{cause}");
    }
    let ca = Ca::new("client CA");
    let other = Ca::new("another CA");
    let namesake = Ca::new("client CA");
    check(&[&ca], &other.crl(&[]), "no CA in client_ca signed it");
    check(&[&ca], &namesake.crl(&[]), "no CA in client_ca signed it");
    check(
        &[&ca, &namesake],
        &namesake.crl(&[]),
        "two CAs of the name that issued it",
    );
    check(&[&ca], &ca.pem(), "holds no revocation list");
    check(&[&ca], "", "neither a PEM nor a DER revocation list");
    // A forged list: the issuer's name is right, the content was changed after signing.
    let der =
        rustls_pki_types::CertificateRevocationListDer::from_pem_slice(ca.crl_between(&[], 2001, 4000).as_bytes())
            .unwrap();
    let mut forged = der.to_vec();
    let year = forged
        .windows(15)
        .position(|bytes| bytes == b"40000101000000Z")
        .unwrap();
    forged[year] = b'5';
    let mut setup = setup(ClientCertificates::Required);
    let path = setup.folder.path("forged.crl");
    std::fs::write(&path, forged).unwrap();
    setup.tls.client_ca = Some(setup.folder.write("bundle.pem", &ca.pem()));
    setup.tls.client_crls = vec![path];
    let (_, cause) = only_problem(&setup.tls);
    assert!(cause.contains("no CA in client_ca signed it"), "{cause}");
}

#[test]
fn a_list_needs_a_ca_that_may_sign_lists() {
    // The CA's certificate says what it may; the list is signed with the same key and name.
    fn list_of(usages: &[KeyUsagePurpose]) -> Setup {
        let mut setup = setup(ClientCertificates::Required);
        let key = KeyPair::generate().unwrap().serialize_pem();
        let ca = |usages: &[KeyUsagePurpose]| {
            let key = KeyPair::from_pem(&key).unwrap();
            Ca::with_key("client CA", usages.to_vec(), key)
        };
        let list = ca(&[]).crl(&[]);
        setup.tls.client_ca = Some(setup.folder.write("ca.pem", &ca(usages).pem()));
        setup.tls.client_crls = vec![setup.folder.write("ca.crl", &list)];
        setup
    }
    let setup = list_of(&[KeyUsagePurpose::KeyCertSign]);
    let (_, cause) = only_problem(&setup.tls);
    assert!(cause.contains("key usage"), "{cause}");
    // No key usage at all allows everything (RFC 5280 §4.2.1.3).
    for usages in [&[KeyUsagePurpose::CrlSign][..], &[]] {
        let setup = list_of(usages);
        let built = Acceptor::build(&setup.tls, "listeners[0].tls");
        assert!(built.is_ok(), "{usages:?}");
    }
}

#[tokio::test]
async fn a_resumed_session_has_its_certificate_and_its_expiry() {
    let setup = setup(ClientCertificates::Required);
    let mut params = client_params(AGENT);
    params.not_after = date_time_ymd(2900, 1, 1);
    let expiry = u64::try_from(params.not_after.unix_timestamp()).unwrap();
    let agent = setup.clients.issue(params);
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let now = Arc::new(AtomicU64::new(expiry - 1));
        let clock = {
            let now = Arc::clone(&now);
            Clock::from_fn(move || UNIX_EPOCH + Duration::from_secs(now.load(Ordering::Relaxed)))
        };
        let acceptor = Acceptor::build_at(&setup.tls, "listeners[0].tls", clock).unwrap();
        let client = Caller::with(&setup.servers, Some(&agent), &[version]).shared();

        let ((first, _), _client) = connect(&acceptor, &client, "a.example").await;
        assert!(!first.is_resumed(), "{version:?}");
        now.store(expiry, Ordering::Relaxed);
        let ((second, peer), _client) = connect(&acceptor, &client, "a.example").await;
        assert!(second.is_resumed(), "{version:?}");
        assert_eq!(peer.certificate.unwrap().uris, [AGENT], "{version:?}");

        now.store(expiry + 1, Ordering::Relaxed);
        let error = refusal(&acceptor, &client, "a.example").await;
        assert!(
            matches!(
                error,
                Error::ClientCertificate(rustls::Error::InvalidCertificate(rustls::CertificateError::Expired))
            ),
            "{version:?}: {error:?}"
        );
    }
}

#[tokio::test]
async fn a_revoked_client_cannot_resume_after_a_reload() {
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let mut setup = setup(ClientCertificates::Required);
        let agent = setup.clients.client(AGENT);
        let path = setup.folder.write("clients.crl", &setup.clients.crl(&[]));
        setup.tls.client_crls = vec![path.clone()];
        let mut acceptor = build(&setup.tls);
        let client = Caller::with(&setup.servers, Some(&agent), &[version]).shared();
        connect(&acceptor, &client, "a.example").await;
        let ((second, _), _client) = connect(&acceptor, &client, "a.example").await;
        assert!(second.is_resumed(), "it could before: {version:?}");

        replace(&path, &setup.clients.crl(&[&agent]));
        assert_eq!(reload(&mut acceptor, &setup.tls), Ok(true));
        let error = refusal(&acceptor, &client, "a.example").await;
        assert!(
            matches!(
                error,
                Error::ClientCertificate(rustls::Error::InvalidCertificate(rustls::CertificateError::Revoked))
            ),
            "{version:?}: {error:?}"
        );
    }
}

#[tokio::test]
async fn a_session_does_not_cross_listeners() {
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let setup = setup(ClientCertificates::Required);
        let agent = setup.clients.client(AGENT);
        let client = Caller::with(&setup.servers, Some(&agent), &[version]).shared();
        let (one, other) = (build(&setup.tls), build(&setup.tls));
        connect(&one, &client, "a.example").await;
        let ((server, _), _client) = connect(&other, &client, "a.example").await;
        assert!(!server.is_resumed(), "{version:?}");
    }
}

#[tokio::test]
async fn the_certificate_of_an_open_connection_is_believed_as_long_as_a_new_one_would_be() {
    let mut setup = setup(ClientCertificates::Required);
    let (agent, other) = (setup.clients.client(AGENT), setup.clients.client(AGENT));
    let path = setup.folder.write("clients.crl", &setup.clients.crl(&[]));
    setup.tls.client_crls = vec![path.clone()];
    let mut acceptor = build(&setup.tls);
    let client = Caller::showing(&setup.servers, &agent).shared();
    let ((_, peer), _client) = connect(&acceptor, &client, "a.example").await;
    let chain = peer.chain.unwrap();
    assert!(acceptor.trusts(&chain));
    for (revoked, expected) in [(&other, true), (&agent, false), (&other, true)] {
        replace(&path, &setup.clients.crl(&[revoked]));
        assert_eq!(reload(&mut acceptor, &setup.tls), Ok(true));
        for _ in 0..2 {
            assert_eq!(acceptor.trusts(&chain), expected);
        }
    }
    setup.tls.client_certificates = ClientCertificates::Off;
    setup.tls.client_crls.clear();
    assert_eq!(reload(&mut acceptor, &setup.tls), Ok(true));
    assert!(!acceptor.trusts(&chain), "nobody's certificate is asked for");
}
