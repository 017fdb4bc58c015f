//! Another configuration under a running gateway: listeners that come, go and change, and their connections.

use rustls_pki_types::ServerName;
use tokio::net::TcpStream;

use super::drain::{request, written};
use super::reload_agents::{Desk, yaml};
use super::reload_streams::Streams;
use crate::adversarial::wire::Wire;
use crate::faults::{CREDENTIAL, JSON};
use crate::harness::agent::task_event;
use crate::harness::authority::{Authority, TLS_13};
use crate::harness::client::{open, open_http2, read};
use crate::harness::{Agent, agent, eventually, post, send};

const ONE: &str = "listeners: [ { name: public, address: \"127.0.0.1:0\" } ]";
const TWO: &str =
    "listeners: [ { name: public, address: \"127.0.0.1:0\" }, { name: second, address: \"127.0.0.1:0\" } ]";

#[tokio::test]
async fn a_listener_comes_and_goes_and_the_other_keeps_its_socket() {
    let a = Agent::start(agent::tasks(|| "t".to_owned())).await;
    let one = yaml(&[("a", &[a.address], "")], "");
    let two = one.replace(ONE, TWO);
    let desk = Desk::of(&one).await;
    let mut kept = Wire::to(desk.gateway.address).await;
    let call = written(&send("1", "x")).replace("/agent", "/a");
    kept.send(&call).await;
    assert_eq!(kept.answer().await.status, 200);
    desk.apply(&two).await;
    let second = desk.gateway.listener("second").unwrap();
    assert_eq!(post(second, "/a", &send("1", "x")).await.status, 200);
    assert_eq!(desk.gateway.listener("public"), Some(desk.gateway.address));
    let mut idle = Wire::to(second).await;
    idle.send(&call).await;
    assert_eq!(idle.answer().await.status, 200);

    desk.apply(&one).await;
    assert_eq!(desk.gateway.listener("second"), None);
    assert!(idle.try_answer().await.is_none(), "an idle connection is closed");
    eventually("nobody listens", || async { TcpStream::connect(second).await.is_err() }).await;
    kept.send(&call).await;
    assert_eq!(kept.answer().await.status, 200, "the connections of the other go on");
    assert_eq!(desk.status("/a").await, 200);
}

/// Its connections are judged by its rules, whatever it was called when they came.
#[tokio::test]
async fn a_listener_that_is_renamed_has_its_rules_for_old_connections_too() {
    let a = Agent::start(agent::tasks(|| "t".to_owned())).await;
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let at = |listener: &str| {
        let listener = format!("listeners: [ {{ address: \"{address}\", {listener} }} ]");
        yaml(&[("a", &[a.address], "")], "").replace(ONE, &listener)
    };
    let desk = Desk::of(&at("name: public")).await;
    let mut kept = Wire::to(desk.gateway.address).await;
    let call = written(&send("1", "x")).replace("/agent", "/a");
    kept.send(&call).await;
    assert_eq!(kept.answer().await.status, 200);
    for (listener, status) in [
        ("name: second, policy: { allow: [ { operations: [ get ] } ] }", 403),
        (
            "name: third, policy: { allow: [ { when: \"source.listener == 'third'\" } ] }",
            200,
        ),
        (
            "name: fourth, policy: { allow: [ { when: \"source.listener == 'third'\" } ] }",
            403,
        ),
        ("name: fourth", 200),
    ] {
        desk.apply(&at(listener)).await;
        kept.send(&call).await;
        assert_eq!(kept.answer().await.status, status, "{listener}");
        assert_eq!(desk.status("/a").await, status, "{listener}, over another connection");
    }
}

#[tokio::test]
async fn what_a_removed_listener_serves_is_finished() {
    let streams = Streams::start().await;
    let one = yaml(&[("a", &[streams.agent.address], "")], "");
    let desk = Desk::of(&one.replace(ONE, TWO)).await;
    let second = desk.gateway.listener("second").unwrap();
    let http1 = open(second, "POST", "/a", &[JSON, CREDENTIAL], &request()).await;
    let http2 = open_http2(second, "/a", &[JSON, CREDENTIAL], &request()).await;
    desk.apply(&one).await;
    eventually("nobody listens", || async { TcpStream::connect(second).await.is_err() }).await;
    streams.send(&task_event("1", "t"));
    streams.end();
    let whole = format!("{}{}", task_event("1", "t"), task_event("1", "t"));
    assert_eq!(read(http1).await, (whole.clone(), true));
    assert_eq!(read(http2).await, (whole, true));
}

#[tokio::test]
async fn a_listener_that_turns_to_tls_does_so_for_new_connections() {
    let authority = Authority::new();
    let a = Agent::start(agent::tasks(|| "t".to_owned())).await;
    let plain = yaml(&[("a", &[a.address], "")], "");
    let at = |name: &str| authority.folder.path().join(name).display().to_string();
    let tls = |name: &str| {
        let (certificate, key) = (at(&format!("{name}.crt")), at(&format!("{name}.key")));
        let tls = format!("\"127.0.0.1:0\", tls: {{ certificate: {certificate}, private_key: {key} }} }} ]");
        plain.replace(ONE, &ONE.replace("\"127.0.0.1:0\" } ]", &tls))
    };
    let desk = Desk::of(&plain).await;
    let call = written(&send("1", "x")).replace("/agent", "/a");
    let mut before = Wire::to(desk.gateway.address).await;
    before.send(&call).await;
    assert_eq!(before.answer().await.status, 200);
    desk.apply(&tls("a.example")).await;
    let client = authority.client(TLS_13, &["http/1.1"], None);
    let connect = async |name: &str| {
        let stream = TcpStream::connect(desk.gateway.address).await.unwrap();
        client
            .connect(ServerName::try_from(name.to_owned()).unwrap(), stream)
            .await
    };
    let mut wire = Wire::over(connect("a.example").await.unwrap());
    wire.send(&call).await;
    assert_eq!(wire.answer().await.status, 200);
    before.send(&call).await;
    assert_eq!(before.answer().await.status, 200, "the open connection goes on");
    desk.apply(&tls("b.example")).await;
    assert!(connect("b.example").await.is_ok(), "another certificate is configured");
    wire.send(&call).await;
    assert_eq!(wire.answer().await.status, 200);
    assert_eq!(
        desk.gateway
            .metric("a2a_gateway_certificate_expiry_timestamp_seconds{listener=\"public\"}")
            .await
            .signum(),
        1.0
    );
    desk.apply(&plain).await;
    assert_eq!(desk.status("/a").await, 200);
    assert_eq!(
        desk.gateway
            .metric("a2a_gateway_certificate_expiry_timestamp_seconds")
            .await,
        0.0
    );
}

#[tokio::test]
async fn proxies_are_trusted_from_the_next_connection_on() {
    let a = Agent::start(agent::tasks(|| "t".to_owned())).await;
    let before = yaml(&[("a", &[a.address], "")], "");
    let after = before.replace(
        "\"127.0.0.1:0\" } ]\nadmin",
        "\"127.0.0.1:0\", trusted_proxies: [ 127.0.0.1 ] } ]\nadmin",
    );
    let desk = Desk::of(&before).await;
    let call = written(&send("1", "x"))
        .replace("/agent", "/a")
        .replace("\r\nx-api-key", "\r\nx-forwarded-for: 192.0.2.9\r\nx-api-key");
    let mut open = Wire::to(desk.gateway.address).await;
    open.send(&call).await;
    assert_eq!(open.answer().await.status, 200);
    desk.apply(&after).await;
    open.send(&call).await;
    assert_eq!(open.answer().await.status, 200);
    let mut new = Wire::to(desk.gateway.address).await;
    new.send(&call).await;
    assert_eq!(new.answer().await.status, 200);
    let seen: Vec<String> = a
        .received()
        .iter()
        .map(|call| call.field("x-forwarded-for").unwrap().to_owned())
        .collect();
    assert_eq!(seen, ["127.0.0.1", "127.0.0.1", "192.0.2.9"]);
}

#[tokio::test]
async fn a_smaller_limit_of_connections_counts_for_new_ones() {
    let a = Agent::start(agent::tasks(|| "t".to_owned())).await;
    let with = |top: &str| yaml(&[("a", &[a.address], "")], top);
    let desk = Desk::of(&with("")).await;
    let call = written(&send("1", "x")).replace("/agent", "/a");
    let mut open = Wire::to(desk.gateway.address).await;
    open.send(&call).await;
    assert_eq!(open.answer().await.status, 200);
    desk.apply(&with("limits: { connections: 1, connections_per_address: 1 }"))
        .await;
    let mut refused = Wire::to(desk.gateway.address).await;
    refused.send(&call).await;
    assert!(refused.try_answer().await.is_none());
    open.send(&call).await;
    assert_eq!(open.answer().await.status, 200);
    desk.apply(&with("")).await;
    assert_eq!(desk.status("/a").await, 200);
}
