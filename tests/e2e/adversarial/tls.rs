//! A listener with TLS: who does not finish the handshake gets nothing, and whoever needs a certificate has one.

use std::time::Duration;

use rustls_pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::site::{Setup, Site, good, rpc};
use super::wire::Wire;
use crate::harness::authority::{Authority, TLS_12, TLS_13};
use crate::harness::client::PATIENCE;
use crate::harness::{Answer, KEY, eventually};

const SERVER: &str = ", tls: { certificates: [ { certificate: a.example.crt, private_key: a.example.key }, \
                      { certificate: b.example.crt, private_key: b.example.key } ]";

async fn site(authority: &Authority, more: &str, top: &str) -> Site {
    let listener = format!("{SERVER}{more} }}");
    Site::start(Setup {
        listener: &listener,
        top,
        base: authority.folder.path(),
        ..Setup::default()
    })
    .await
}

async fn connect(site: &Site, client: &TlsConnector, name: &str) -> std::io::Result<TlsStream<TcpStream>> {
    let stream = TcpStream::connect(site.gateway.address).await?;
    let handshake = client.connect(ServerName::try_from(name.to_owned()).unwrap(), stream);
    tokio::time::timeout(PATIENCE, handshake)
        .await
        .expect("a handshake in time")
}

fn call() -> String {
    let good = good();
    format!(
        "POST /agent HTTP/1.1\r\nHost: a.example\r\nX-API-Key: {KEY}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{good}",
        good.len()
    )
}

/// `None` if the connection ends before an answer: with TLS 1.3 a refused client hears of it after its own handshake.
async fn asks(site: &Site, client: &TlsConnector) -> Option<Answer> {
    let mut wire = Wire::over(connect(site, client, "a.example").await.ok()?);
    wire.send(call()).await;
    wire.try_answer().await
}

async fn works(site: &Site, client: &TlsConnector) {
    let answer = asks(site, client).await.expect("another caller is served");
    site.passed("another caller", &answer);
}

async fn failures(site: &Site, reason: &str, count: f64) {
    let line = format!("a2a_gateway_tls_handshake_failures_total{{listener=\"public\",reason=\"{reason}\"}}");
    eventually("the failure is counted", || async {
        site.gateway.metric(&line).await == count
    })
    .await;
    assert_eq!(
        site.gateway.metric("a2a_gateway_tls_handshake_failures_total").await,
        count,
        "and under no other reason"
    );
}

#[tokio::test]
async fn plain_text_on_a_tls_port_gets_no_answer() {
    let authority = Authority::new();
    let site = site(&authority, "", "").await;
    let client = authority.client(TLS_13, &["http/1.1"], None);
    for (index, bytes) in [
        call().into_bytes(),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
        vec![0xff; 1000],
    ]
    .iter()
    .enumerate()
    {
        let mut wire = Wire::to(site.gateway.address).await;
        wire.send(bytes).await;
        while wire.more().await.is_some() {}
        assert!(
            !String::from_utf8_lossy(wire.received()).contains("HTTP/"),
            "at most an alert"
        );
        failures(&site, "handshake", (index + 1) as f64).await;
        works(&site, &client).await;
    }
    site.done().await;
}

#[tokio::test]
async fn a_handshake_that_stalls_is_given_up() {
    let authority = Authority::new();
    let site = site(&authority, "", "limits: { tls_handshake: 500ms }").await;
    let client = authority.client(TLS_13, &["http/1.1"], None);
    // Nothing; the header of a record; a record that announces more than comes.
    for (index, begin) in [&[][..], &[22, 3, 1], &[22, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3]]
        .into_iter()
        .enumerate()
    {
        let mut wire = Wire::to(site.gateway.address).await;
        wire.send(begin).await;
        wire.closes().await;
        failures(&site, "timeout", (index + 1) as f64).await;
    }
    let mut client_works = false;
    // On a busy machine an honest handshake may need a second try under so short a limit.
    for _ in 0..5 {
        if let Some(answer) = asks(&site, &client).await {
            site.passed("another caller", &answer);
            client_works = true;
            break;
        }
    }
    assert!(client_works);
    site.done().await;
}

#[tokio::test]
async fn tls_1_1_is_refused_with_the_alert_that_says_so() {
    let authority = Authority::new();
    let site = site(&authority, "", "").await;
    // RFC 4346 §7.4.1.2: version 3.2, a random, no session, two suites of the time, no compression; the only extension
    // is that of the signatures, without which a server cannot tell what is missing.
    let mut hello = vec![3, 2];
    hello.extend([7; 32]);
    hello.extend([0, 0, 4, 0xc0, 0x13, 0, 0x2f, 1, 0, 0, 8, 0, 13, 0, 4, 0, 2, 4, 1]);
    let length = u8::try_from(hello.len()).unwrap();
    let record = [&[22, 3, 1, 0, length + 4, 1, 0, 0, length][..], &hello].concat();
    let mut wire = Wire::to(site.gateway.address).await;
    wire.send(record).await;
    while wire.more().await.is_some() {}
    let alert = wire.received();
    assert_eq!(
        (alert.first(), alert.get(5..7)),
        (Some(&21), Some(&[2, 70][..])),
        "a fatal protocol_version: {alert:?}"
    );
    failures(&site, "handshake", 1.0).await;
    works(&site, &authority.client(TLS_12, &[], None)).await;
    works(&site, &authority.client(TLS_13, &[], None)).await;
    site.done().await;
}

#[tokio::test]
async fn tls_1_2_is_refused_where_1_3_is_the_least() {
    let authority = Authority::new();
    let site = site(&authority, ", min_version: \"1.3\"", "").await;
    assert!(
        connect(&site, &authority.client(TLS_12, &[], None), "a.example")
            .await
            .is_err()
    );
    failures(&site, "handshake", 1.0).await;
    works(&site, &authority.client(TLS_13, &[], None)).await;
    site.done().await;
}

#[tokio::test]
async fn without_a_certificate_of_the_right_ca_nothing_is_answered() {
    let (authority, foreign) = (Authority::new(), Authority::new());
    let site = site(&authority, ", client_certificates: required, client_ca: ca.pem", "").await;
    let mut count = 0.0;
    for versions in [TLS_13, TLS_12] {
        for shown in [None, Some(&foreign)] {
            let client = authority.client(versions, &["http/1.1"], shown);
            assert!(asks(&site, &client).await.is_none(), "no answer");
            count += 1.0;
            failures(&site, "client_certificate", count).await;
        }
        works(&site, &authority.client(versions, &["http/1.1"], Some(&authority))).await;
    }
    site.done().await;
}

#[tokio::test]
async fn the_name_asked_for_chooses_the_certificate_and_nothing_else() {
    let authority = Authority::new();
    let site = site(&authority, "", "").await;
    let client = authority.client(TLS_13, &["http/1.1"], None);
    for name in ["a.example", "b.example", "B.EXAMPLE"] {
        // The client checks that the certificate has the name.
        let mut wire = Wire::over(connect(&site, &client, name).await.unwrap());
        wire.send(call()).await;
        site.passed(name, &wire.answer().await);
    }
    let unknown = connect(&site, &client, "c.example").await.unwrap_err();
    assert!(
        unknown.to_string().contains("only valid for DnsName(\"a.example\")"),
        "the first certificate, which the client refuses: {unknown}"
    );
    works(&site, &client).await;
    site.done().await;
}

#[tokio::test]
async fn what_alpn_did_not_agree_on_is_not_spoken() {
    let authority = Authority::new();
    let site = site(&authority, "", "limits: { request_header: 1s }").await;
    // The HTTP/2 preface where HTTP/1.1 was agreed on, or nothing.
    for alpn in [&["http/1.1"][..], &[]] {
        let client = authority.client(TLS_13, alpn, None);
        let mut wire = Wire::over(connect(&site, &client, "a.example").await.unwrap());
        wire.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
        site.is_refusal("the preface", &wire.answer().await, rpc("bad_head", "null"));
    }
    // HTTP/1.1 where HTTP/2 was agreed on.
    let client = authority.client(TLS_13, &["h2"], None);
    let mut wire = Wire::over(connect(&site, &client, "a.example").await.unwrap());
    wire.send(call()).await;
    while wire.more().await.is_some() {}
    assert!(
        !String::from_utf8_lossy(wire.received()).contains("HTTP/1.1"),
        "no answer"
    );
    let client = authority.client(TLS_13, &["spdy/3"], None);
    assert!(
        connect(&site, &client, "a.example").await.is_err(),
        "no protocol in common"
    );
    failures(&site, "handshake", 1.0).await;
    // Nothing at all, or only the preface, where HTTP/2 was agreed on.
    for begin in ["", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0"] {
        let client = authority.client(TLS_13, &["h2"], None);
        let mut wire = Wire::over(connect(&site, &client, "a.example").await.unwrap());
        wire.send(begin).await;
        while wire.more().await.is_some() {}
    }
    // A slow head is timed behind the handshake too.
    let client = authority.client(TLS_13, &["http/1.1"], None);
    let mut wire = Wire::over(connect(&site, &client, "a.example").await.unwrap());
    wire.send("POST /agent").await;
    site.is_refusal("half a head", &wire.answer().await, rpc("header_timeout", "null"));
    works(&site, &client).await;
    tokio::time::timeout(Duration::from_secs(10), works(&site, &client))
        .await
        .expect("served");
    site.done().await;
}
