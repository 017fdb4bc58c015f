//! Names, protocols, versions, deadlines.

use super::*;
use crate::tls::Protocol;

#[tokio::test]
async fn the_certificate_is_chosen_by_the_name_asked_for() {
    let ca = Ca::new("server CA");
    let first = ca.server(&["first.example"]);
    let second = ca.server(&["Second.Example", "*.wild.example"]);
    let third = ca.server(&["exact.wild.example"]);
    let folder = Folder::new();
    let acceptor = build(&folder.listener(&[&first, &second, &third]));
    let client = Caller::trusting(&ca).shared();

    for (name, expected) in [
        ("first.example", &first),
        ("second.example", &second),
        ("SECOND.EXAMPLE", &second),
        ("any.wild.example", &second),
        ("exact.wild.example", &third),
    ] {
        let ((server, _), client) = connect(&acceptor, &client, name).await;
        assert_eq!(*shown(&client), der(expected), "{name}");
        assert_eq!(server.server_name(), Some(name.to_lowercase().as_str()));
    }
}

#[tokio::test]
async fn the_first_certificate_serves_unknown_and_absent_names() {
    let ca = Ca::new("server CA");
    // What the client would refuse by its name shows in the client's own error.
    let first = ca.server(&["first.example", "192.0.2.7"]);
    let second = ca.server(&["second.example", "*.wild.example"]);
    let folder = Folder::new();
    let acceptor = build(&folder.listener(&[&first, &second]));
    let client = Caller::trusting(&ca).shared();

    let (_, client_side) = connect(&acceptor, &client, "192.0.2.7").await;
    assert_eq!(*shown(&client_side), der(&first), "no name");

    // A wildcard stands for one label, and not for none.
    for name in ["unknown.example", "two.labels.wild.example", "wild.example"] {
        let (server, client_side) = handshake(&acceptor, &client, name).await;
        let error = client_side.unwrap_err().to_string();
        assert!(
            error.contains("first.example"),
            "{name} was given another certificate: {error}"
        );
        assert!(matches!(server, Err(Error::Handshake(_))), "{name}");
    }
}

#[tokio::test]
async fn of_two_certificates_of_one_name_the_client_gets_one_that_it_can_verify() {
    let ca = Ca::new("server CA");
    let name = || CertificateParams::new(vec!["a.example".to_owned()]).unwrap();
    let p256 = ca.issue(name());
    let ed25519 = ca.issue_for(name(), &KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap());
    let folder = Folder::new();
    let client = Caller::trusting(&ca).shared();

    let mut without_ed25519 = rustls::crypto::aws_lc_rs::default_provider();
    let schemes = without_ed25519.signature_verification_algorithms.mapping;
    without_ed25519.signature_verification_algorithms.mapping = Box::leak(
        schemes
            .iter()
            .copied()
            .filter(|(scheme, _)| *scheme != rustls::SignatureScheme::ED25519)
            .collect(),
    );
    let mut roots = RootCertStore::empty();
    roots.add(ca.0.der().clone()).unwrap();
    let modest = Arc::new(
        ClientConfig::builder_with_provider(Arc::new(without_ed25519))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth(),
    );

    let acceptor = build(&folder.listener(&[&ed25519, &p256]));
    let (_, able) = connect(&acceptor, &client, "a.example").await;
    assert_eq!(*shown(&able), der(&ed25519));
    let (_, modest) = connect(&acceptor, &modest, "a.example").await;
    assert_eq!(*shown(&modest), der(&p256));
}

#[tokio::test]
async fn alpn_tells_the_protocol() {
    let ca = Ca::new("server CA");
    let folder = Folder::new();
    let acceptor = build(&folder.listener(&[&ca.server(&["a.example"])]));
    for (offered, expected) in [
        (&["h2", "http/1.1"][..], Protocol::Http2),
        (&["http/1.1", "h2"], Protocol::Http2),
        (&["h2"], Protocol::Http2),
        (&["http/1.1"], Protocol::Http1),
        (&[], Protocol::Http1),
    ] {
        let client = Caller::trusting(&ca).alpn(offered).shared();
        let ((server, _), _client) = connect(&acceptor, &client, "a.example").await;
        assert_eq!(server.protocol(), expected, "{offered:?}");
    }
    let foreign = Caller::trusting(&ca).alpn(&["smtp"]).shared();
    let error = refusal(&acceptor, &foreign, "a.example").await;
    assert!(
        matches!(error, Error::Handshake(rustls::Error::NoApplicationProtocol)),
        "{error:?}"
    );
}

#[tokio::test]
async fn the_lowest_version_is_kept() {
    let ca = Ca::new("server CA");
    let folder = Folder::new();
    let mut tls = folder.listener(&[&ca.server(&["a.example"])]);
    let only12 = Caller::with(&ca, None, &[&rustls::version::TLS12]).shared();
    let only13 = Caller::with(&ca, None, &[&rustls::version::TLS13]).shared();

    let both = build(&tls);
    for (client, version) in [
        (&only12, rustls::ProtocolVersion::TLSv1_2),
        (&only13, rustls::ProtocolVersion::TLSv1_3),
    ] {
        let (_, client) = connect(&both, client, "a.example").await;
        assert_eq!(client.get_ref().1.protocol_version(), Some(version));
    }

    tls.min_version = TlsVersion::Tls13;
    let modern = build(&tls);
    connect(&modern, &only13, "a.example").await;
    let error = refusal(&modern, &only12, "a.example").await;
    assert!(matches!(error, Error::Handshake(_)), "{error:?}");
}

#[tokio::test]
async fn a_connection_without_a_client_certificate_has_a_secure_peer() {
    let ca = Ca::new("server CA");
    let folder = Folder::new();
    let acceptor = build(&folder.listener(&[&ca.server(&["a.example"])]));
    let client = Caller::trusting(&ca).shared();
    let ((_, peer), _client) = connect(&acceptor, &client, "a.example").await;
    assert!(peer.secure);
    assert_eq!(peer.address, address());
    assert_eq!(peer.certificate, None);
}

#[tokio::test]
async fn a_silent_client_is_given_up() {
    let ca = Ca::new("server CA");
    let folder = Folder::new();
    let acceptor = build(&folder.listener(&[&ca.server(&["a.example"])]));
    let (near, _far) = tokio::io::duplex(1024);
    let deadline = Duration::from_millis(20);
    let error = acceptor
        .accept(near, deadline, address())
        .await
        .map(|_| ())
        .unwrap_err();
    assert!(matches!(error, Error::Timeout(given) if given == deadline), "{error:?}");
}

#[tokio::test]
async fn a_client_that_leaves_is_no_failed_handshake() {
    let ca = Ca::new("server CA");
    let folder = Folder::new();
    let acceptor = build(&folder.listener(&[&ca.server(&["a.example"])]));
    let (near, mut far) = tokio::io::duplex(1024);
    // The head of a TLS record, and nothing more.
    far.write_all(&[0x16, 0x03, 0x01, 0x02, 0x00]).await.unwrap();
    drop(far);
    let error = acceptor
        .accept(near, PATIENCE, address())
        .await
        .map(|_| ())
        .unwrap_err();
    assert!(matches!(error, Error::ClientGone(_)), "{error:?}");
}

#[tokio::test]
async fn plain_http_is_a_failed_handshake() {
    let ca = Ca::new("server CA");
    let folder = Folder::new();
    let acceptor = build(&folder.listener(&[&ca.server(&["a.example"])]));
    let (near, mut far) = tokio::io::duplex(1024);
    far.write_all(b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n")
        .await
        .unwrap();
    let error = acceptor
        .accept(near, PATIENCE, address())
        .await
        .map(|_| ())
        .unwrap_err();
    assert!(matches!(error, Error::Handshake(_)), "{error:?}");
}

#[tokio::test]
async fn an_accepted_socket_becomes_a_stream_in_a_job() {
    use crate::listener::{Connections, bind_address};

    fn job<T: Send>(future: T) -> T {
        future
    }
    let ca = Ca::new("server CA");
    let folder = Folder::new();
    let acceptor = build(&folder.listener(&[&ca.server(&["a.example"])]));
    let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
    let mut bound = bind_address("test", any_port, Connections::with_limits(10, 10)).unwrap();
    let socket = tokio::net::TcpStream::connect(bound.local_address()).await.unwrap();
    let connector = TlsConnector::from(Caller::trusting(&ca).shared());
    let name = ServerName::try_from("a.example").unwrap();
    let accepted = job(bound.accept()).await.unwrap();
    let (server, client) = tokio::join!(
        job(acceptor.accept(accepted.stream, PATIENCE, accepted.address)),
        connector.connect(name, socket)
    );
    let (server, peer) = server.unwrap();
    client.unwrap();
    assert!(server.transport().nodelay().unwrap());
    assert_eq!(peer.address, accepted.address);
}
