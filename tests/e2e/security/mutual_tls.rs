//! RFC 8446 §4.4.2 and RFC 5280 §6: callers known by their certificates. Names are those of RFC 5280 §4.2.1.6, SPIFFE X.509-SVID §2 among
//! them, and RFC 4514.

use rcgen::string::Ia5String;
use rcgen::{CertificateParams, DistinguishedName, DnType, SanType, SerialNumber, date_time_ymd};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName};
use tokio::net::TcpStream;

use crate::adversarial::wire::Wire;
use crate::harness::agent::{Agent, tasks};
use crate::harness::authority::Authority;
use crate::harness::{Answer, Gateway, eventually, send};

const REVOKED: u64 = 4711;

type Identity = (String, String);

struct Place {
    gateway: Gateway,
    agent: Agent,
    authority: Authority,
}

impl Place {
    async fn start(allow: &str, demanded: &str) -> Self {
        Self::of(Authority::new(), allow, demanded).await
    }

    async fn of(authority: Authority, allow: &str, demanded: &str) -> Self {
        let agent = Agent::start(tasks(|| fastrand::u64(..).to_string())).await;
        std::fs::write(
            authority.folder.path().join("revoked.pem"),
            authority.revoked(&[REVOKED]),
        )
        .unwrap();
        let yaml = format!(
            r#"
public_url: https://a.example
listeners:
  - name: public
    address: "127.0.0.1:0"
    tls: {{ certificate: a.example.crt, private_key: a.example.key, client_certificates: {demanded}, client_ca: ca.pem, client_crls: [ revoked.pem ] }}
admin: {{ address: "127.0.0.1:0" }}
state: {{ store: memory }}
log: {{ format: json }}
security_schemes:
  s: {{ type: mutualTLS, allow: {allow} }}
security: [ {{ s: [] }} ]
agents:
  - {{ name: agent, path: /agent, upstream: {{ endpoints: [ {{ url: "http://{}/" }} ] }} }}
"#,
            agent.address
        );
        let gateway = Gateway::start_in(&yaml, authority.folder.path()).await;
        gateway.ready().await;
        Self {
            gateway,
            agent,
            authority,
        }
    }

    /// `None`: there is no connection with this certificate.
    async fn show(&self, identity: &Identity, more: &str) -> Option<Answer> {
        let connector = self.authority.client_with(&["http/1.1"], identity);
        let stream = TcpStream::connect(self.gateway.address).await.unwrap();
        let name = ServerName::try_from("a.example").unwrap();
        let mut wire = Wire::over(connector.connect(name, stream).await.ok()?);
        let body = send("1", "hi");
        let length = body.len();
        wire.send(format!(
            "POST /agent HTTP/1.1\r\nhost: a.example\r\ncontent-type: application/json\r\n{more}content-length: {length}\r\n\r\n{body}"
        ))
        .await;
        wire.try_answer().await
    }

    async fn principal(&self, answer: &Answer) -> String {
        let id = answer.header("x-request-id").unwrap().to_owned();
        let log = self.gateway.log();
        let find = || {
            log.records()
                .into_iter()
                .find(|record| record["request"] == id.as_str())
        };
        eventually("the record is written", || async { find().is_some() }).await;
        find().unwrap()["principal"].as_str().unwrap_or_default().to_owned()
    }
}

fn named(names: &[SanType], common: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.subject_alt_names = names.to_vec();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, "Acme");
    params.distinguished_name.push(DnType::CommonName, common);
    params
}

fn text(text: &str) -> Ia5String {
    text.try_into().unwrap()
}

fn fingerprint(identity: &Identity) -> String {
    let der = CertificateDer::from_pem_slice(identity.0.as_bytes()).unwrap();
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &der);
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test]
async fn each_kind_of_name_is_a_caller_where_a_rule_admits_it() {
    let allow = r#"[ "spiffe://acme.example/agents/*", "dns:*.callers.example", "email:*@acme.example", "subject:CN=by-subject,O=Acme" ]"#;
    let place = Place::start(allow, "required").await;
    let uri = |name: &str| SanType::URI(text(name));
    for (what, params, expected) in [
        (
            "SPIFFE",
            named(&[uri("spiffe://acme.example/agents/maps")], "x"),
            Some("mtls:spiffe://acme.example/agents/maps"),
        ),
        (
            "of another trust domain",
            named(&[uri("spiffe://other.example/agents/maps")], "x"),
            None,
        ),
        (
            "DNS",
            named(&[SanType::DnsName(text("a.callers.example"))], "x"),
            Some("mtls:a.callers.example"),
        ),
        (
            "email",
            named(&[SanType::Rfc822Name(text("ann@acme.example"))], "x"),
            Some("mtls:ann@acme.example"),
        ),
        (
            "the whole subject",
            named(&[], "by-subject"),
            Some("mtls:CN=by-subject,O=Acme"),
        ),
        // RFC 9525 §2: a common name is no name of anybody.
        ("the common name", named(&[], "a.callers.example"), None),
        (
            "one URI that looks like another",
            named(&[uri("https://x/?spiffe://acme.example/agents/maps")], "x"),
            None,
        ),
        ("no name", named(&[], "nobody"), None),
    ] {
        let identity = place.authority.sign(&params);
        let answer = place.show(&identity, "").await.expect("connected");
        match expected {
            Some(principal) => {
                assert_eq!(answer.status, 200, "{what}: {}", answer.text());
                assert_eq!(place.principal(&answer).await, principal, "{what}");
            }
            None => assert_eq!(answer.status, 401, "{what}: {}", answer.text()),
        }
    }
    assert_eq!(place.agent.received().len(), 4);
}

#[tokio::test]
async fn a_fingerprint_admits_one_certificate() {
    let authority = Authority::new();
    let (one, other) = (authority.issue("same.example"), authority.issue("same.example"));
    let digits = fingerprint(&one);
    let allow = format!("[ \"fingerprint:{}\" ]", digits.to_uppercase());
    let place = Place::of(authority, &allow, "required").await;
    let answer = place.show(&one, "").await.expect("connected");
    assert_eq!(place.principal(&answer).await, format!("mtls:{digits}"));
    let answer = place.show(&other, "").await.expect("connected");
    assert_eq!(answer.status, 401, "{}", answer.text());
}

#[tokio::test]
async fn who_is_not_of_the_authority_or_not_any_more_has_no_connection() {
    let place = Place::start("[ \"dns:*\" ]", "optional").await;
    let authority = &place.authority;
    let mut revoked = CertificateParams::new(vec!["client.example".to_owned()]).unwrap();
    revoked.serial_number = Some(SerialNumber::from(REVOKED));
    let mut over = CertificateParams::new(vec!["client.example".to_owned()]).unwrap();
    over.not_before = date_time_ymd(2020, 1, 1);
    over.not_after = date_time_ymd(2021, 1, 1);
    let mut early = CertificateParams::new(vec!["client.example".to_owned()]).unwrap();
    early.not_before = date_time_ymd(4000, 1, 1);
    early.not_after = date_time_ymd(4001, 1, 1);
    let foreign = Authority::new().issue("client.example");
    for (what, identity) in [
        ("revoked", authority.sign(&revoked)),
        ("over", authority.sign(&over)),
        ("not yet", authority.sign(&early)),
        ("of another authority", foreign),
    ] {
        assert!(place.show(&identity, "").await.is_none(), "{what}");
    }
    assert!(place.agent.received().is_empty());
    let good = authority.issue("client.example");
    let answer = place.show(&good, "").await.expect("connected");
    assert_eq!(place.principal(&answer).await, "mtls:client.example");
}

#[tokio::test]
async fn what_a_caller_writes_about_certificates_is_no_certificate() {
    let place = Place::start("[ \"dns:good.example\" ]", "optional").await;
    let identity = place.authority.issue("bad.example");
    let fields = "x-forwarded-client-cert: Hash=00;DNS=good.example\r\nx-ssl-client-cert: x\r\nclient-cert: :MII=:\r\nssl-client-subject-dn: CN=good.example\r\n";
    let answer = place.show(&identity, fields).await.expect("connected");
    assert_eq!(answer.status, 401, "{}", answer.text());
    assert!(place.agent.received().is_empty());
}
