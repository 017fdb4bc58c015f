//! What the gateway trusts and shows towards agents, renewed under a running gateway.

use std::path::Path;

use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;

use super::reload::{OK, REFUSED, refused, replace};
use crate::harness::authority::Authority;
use crate::harness::{Agent, Answer, Gateway, agent, config_of, eventually, post, send, with_upstream};

/// An agent behind TLS that demands a certificate, and a gateway that keeps its connections to it for longer than a test.
async fn site(authority: &Authority) -> (Agent, Gateway) {
    let folder = authority.folder.path();
    std::fs::write(folder.join("token"), "old\n").unwrap();
    let agent = Agent::over_tls(authority.server("localhost"), agent::tasks(|| "t".to_owned())).await;
    let upstream = "pool_idle: 1h, credential: { bearer: { token_file: token } }, tls: { ca: ca.pem, \
                    client_certificate: b.example.crt, client_private_key: b.example.key }";
    let yaml = with_upstream(&config_of(&[agent.address], "", ""), upstream).replace(
        &format!("url: \"http://{}", agent.address),
        &format!("url: \"https://localhost:{}", agent.address.port()),
    );
    let gateway = Gateway::start_in(&yaml, folder).await;
    gateway.ready().await;
    (agent, gateway)
}

async fn called(gateway: &Gateway) -> Answer {
    post(gateway.address, "/agent", &send("1", "x")).await
}

/// The certificate and the credential that the agent sees with a call.
async fn seen(agent: &Agent, gateway: &Gateway) -> (Vec<u8>, String) {
    let answer = called(gateway).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let received = agent.received().pop().unwrap();
    let authorization = received.field("authorization").unwrap_or_default().to_owned();
    (received.certificate.unwrap(), authorization)
}

/// What a file holds.
fn certificate(folder: &Path) -> Vec<u8> {
    let text = std::fs::read(folder.join("b.example.crt")).unwrap();
    CertificateDer::from_pem_slice(&text).unwrap().to_vec()
}

#[tokio::test]
async fn an_agent_sees_the_renewed_certificate_and_the_renewed_credential() {
    let authority = Authority::new();
    let folder = authority.folder.path();
    let (agent, gateway) = site(&authority).await;
    let before = certificate(folder);
    assert_eq!(seen(&agent, &gateway).await, (before.clone(), "Bearer old".to_owned()));

    authority.write("b.example", &authority.issue("b.example"));
    let after = certificate(folder);
    assert_ne!(before, after);
    eventually("the new certificate is shown", || async {
        seen(&agent, &gateway).await.0 == after
    })
    .await;

    replace(folder, "token", "new\n");
    eventually("the new credential is shown", || async {
        seen(&agent, &gateway).await.1 == "Bearer new"
    })
    .await;
    eventually("each is counted once", || async { gateway.metric(OK).await == 2.0 }).await;
}

#[tokio::test]
async fn a_new_ca_decides_about_new_connections_to_agents() {
    let (authority, other) = (Authority::new(), Authority::new());
    let (_agent, gateway) = site(&authority).await;
    assert_eq!(called(&gateway).await.status, 200);
    replace(authority.folder.path(), "ca.pem", &other.issuer.pem());
    eventually("the agent is not believed any more", || async {
        called(&gateway).await.status == 502
    })
    .await;
    replace(authority.folder.path(), "ca.pem", &authority.issuer.pem());
    eventually("it is again", || async { called(&gateway).await.status == 200 }).await;
}

#[tokio::test]
async fn a_broken_file_keeps_what_agents_are_shown_and_a_good_one_is_taken_afterwards() {
    let pem = "-----BEGIN CERTIFICATE-----\nMIIB";
    for (file, broken) in [
        ("ca.pem", pem),
        ("b.example.crt", pem),
        ("b.example.key", "no key"),
        ("token", ""),
        ("token", "two\nlines\n"),
    ] {
        let authority = Authority::new();
        let folder = authority.folder.path();
        let (agent, gateway) = site(&authority).await;
        let before = seen(&agent, &gateway).await;
        let good = std::fs::read_to_string(folder.join(file)).unwrap();
        replace(folder, file, broken);
        refused(&gateway).await;
        assert_eq!(seen(&agent, &gateway).await, before, "{file} {broken:?}");
        assert_eq!(gateway.metric(OK).await, 0.0, "{file} {broken:?}");
        if file != "token" {
            // What else changed waits: of one agent all of the new counts or all of the old.
            replace(folder, "token", "new");
            eventually("the files are refused again", || async {
                gateway.metric(REFUSED).await >= 2.0
            })
            .await;
            assert_eq!(seen(&agent, &gateway).await, before, "{file} {broken:?}");
            replace(folder, file, &good);
        } else {
            replace(folder, "token", "new");
        }
        eventually("good files are taken", || async {
            seen(&agent, &gateway).await.1 == "Bearer new"
        })
        .await;
    }
}
