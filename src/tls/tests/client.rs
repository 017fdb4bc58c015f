//! Connecting to upstreams: whom to believe, what to show, which name to expect.

use super::*;
use crate::config::UpstreamTls;
use crate::tls::client::{client_config, server_name};

const KEY: &str = "agents[0].upstream.tls";

#[tokio::test]
async fn an_upstream_of_the_own_ca_is_believed_and_shown_the_certificate() {
    let (servers, clients) = (Ca::new("server CA"), Ca::new("client CA"));
    let folder = Folder::new();
    let mut listener = folder.listener(&[&servers.server(&["agent.example"])]);
    listener.client_certificates = ClientCertificates::Required;
    listener.client_ca = Some(folder.write("clients.pem", &clients.pem()));
    let acceptor = build(&listener);

    let tls = UpstreamTls {
        ca: Some(folder.write("servers.pem", &servers.pem())),
        client: Some(folder.identity("gateway", &clients.client("spiffe://example.com/gateway"))),
        server_name: None,
    };
    let config = client_config(&tls, &["h2", "http/1.1"], KEY).unwrap();
    let ((server, peer), side) = connect(&acceptor, &config, "agent.example").await;
    assert_eq!(server.protocol(), crate::tls::Protocol::Http2);
    assert_eq!(side.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    assert_eq!(peer.certificate.unwrap().uris, ["spiffe://example.com/gateway"]);

    let (_, wrong_name) = handshake(&acceptor, &config, "other.example").await;
    assert!(wrong_name.is_err(), "the name is verified");
}

#[tokio::test]
async fn an_upstream_of_another_ca_is_not_believed() {
    let folder = Folder::new();
    let server = Ca::new("server CA").server(&["agent.example"]);
    let acceptor = build(&folder.listener(&[&server]));
    let tls = UpstreamTls {
        ca: Some(folder.write("others.pem", &Ca::new("server CA").pem())),
        ..UpstreamTls::default()
    };
    let config = client_config(&tls, &[], KEY).unwrap();
    let (_, side) = handshake(&acceptor, &config, "agent.example").await;
    assert!(side.is_err());
}

#[test]
fn every_problem_has_its_key() {
    let folder = Folder::new();
    let ca = Ca::new("CA");
    let mut mixed = ca.client("spiffe://example.com/gateway");
    mixed.key = ca.client("spiffe://example.com/gateway").key;
    let tls = UpstreamTls {
        ca: Some(folder.path("absent.pem")),
        client: Some(folder.identity("gateway", &mixed)),
        server_name: Some("not a name".to_owned()),
    };
    let problems = client_config(&tls, &[], KEY).map(|_| ()).unwrap_err();
    assert_eq!(
        problems.iter().map(|p| p.key.as_str()).collect::<Vec<_>>(),
        [
            "agents[0].upstream.tls.ca",
            "agents[0].upstream.tls.client_private_key",
            "agents[0].upstream.tls.server_name",
        ]
    );
}

#[test]
fn the_name_is_the_configured_one_or_the_host() {
    fn check(configured: Option<&str>, host: &str, expected: &str) {
        let tls = UpstreamTls {
            server_name: configured.map(str::to_owned),
            ..UpstreamTls::default()
        };
        let name = server_name(&tls, host).unwrap();
        assert_eq!(name.to_str(), expected, "{configured:?} {host}");
    }
    check(None, "agent.example", "agent.example");
    check(Some("other.example"), "agent.example", "other.example");
    check(None, "192.0.2.1", "192.0.2.1");
    check(None, "[2001:db8::1]", "2001:db8::1");
    check(None, "2001:db8::1", "2001:db8::1");
    assert!(server_name(&UpstreamTls::default(), "").is_err());
    assert!(server_name(&UpstreamTls::default(), "a b").is_err());
}
