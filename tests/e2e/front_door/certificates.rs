//! Certificates at the front door: whoever shows one is known to every agent by it, and a token that is bound to one is good beside it alone.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName};
use serde_json::json;
use tokio::net::TcpStream;

use super::{MAPS, WEATHER, sends};
use crate::adversarial::wire::Wire;
use crate::harness::agent::Agent;
use crate::harness::authority::Authority;
use crate::harness::tasks::Tasks;
use crate::harness::{Answer, Gateway};
use crate::security::tokens::{Key, but, claims};
use crate::security::{ISSUER, Server};

struct Place {
    gateway: Gateway,
    authority: Authority,
}

impl Place {
    async fn ask(&self, identity: &(String, String), token: &str, body: &str) -> Answer {
        let connector = self.authority.client_with(&["http/1.1"], identity);
        let stream = TcpStream::connect(self.gateway.address).await.unwrap();
        let name = ServerName::try_from("a.example").unwrap();
        let mut wire = Wire::over(connector.connect(name, stream).await.unwrap());
        wire.send(format!(
            "POST / HTTP/1.1\r\nhost: a.example\r\nauthorization: Bearer {token}\r\na2a-version: 1.0\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        ))
        .await;
        wire.try_answer().await.unwrap()
    }
}

#[tokio::test]
async fn a_bound_token_is_good_beside_its_certificate_alone() {
    let (server, key, authority) = (Server::start().await, Key::new("k"), Authority::new());
    server.says("/keys", 200, key.set());
    let maps = Agent::with_card(MAPS, Tasks::default().script("m")).await;
    let weather = Agent::with_card(WEATHER, Tasks::default().script("w")).await;
    let yaml = format!(
        r#"
public_url: https://a.example
listeners:
  - name: public
    address: "127.0.0.1:0"
    tls: {{ certificate: a.example.crt, private_key: a.example.key, client_certificates: optional, client_ca: ca.pem }}
admin: {{ address: "127.0.0.1:0" }}
state: {{ store: memory }}
log: {{ format: json }}
security_schemes:
  certificate: {{ type: mutualTLS, allow: [ "dns:*.callers.example" ] }}
  token: {{ type: http, scheme: bearer, issuer: "{ISSUER}", audience: [ a2a ], jwks_url: "{}" }}
agents:
  - {{ name: maps, path: /agents/maps, security: [ {{ certificate: [] }} ], upstream: {{ endpoints: [ {{ url: "http://{}/" }} ] }} }}
  - {{ name: weather, path: /agents/weather, security: [ {{ token: [] }} ], upstream: {{ endpoints: [ {{ url: "http://{}/rpc" }} ] }} }}
front_door: {{}}
"#,
        server.url("/keys"),
        maps.address,
        weather.address
    );
    let [owner, thief] = ["owner.callers.example", "thief.callers.example"].map(|name| authority.issue(name));
    authority.issue("a.example");
    let gateway = Gateway::start_in(&yaml, authority.folder.path()).await;
    gateway.ready().await;
    let place = Place { gateway, authority };
    let der = CertificateDer::from_pem_slice(owner.0.as_bytes()).unwrap();
    let thumbprint = URL_SAFE_NO_PAD.encode(aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &der));
    let token = key.sign_as(None, &but(claims(), &json!({ "cnf": { "x5t#S256": thumbprint } })));
    for tenant in ["maps", "weather"] {
        let sent = place
            .ask(&owner, &token, &sends(&format!(r#""tenant":"{tenant}""#), ""))
            .await;
        assert_eq!(sent.json()["error"], json!(null), "{}", sent.text());
    }
    let list = r#"{"jsonrpc":"2.0","id":"l","method":"ListTasks","params":{}}"#;
    let card = r#"{"jsonrpc":"2.0","id":"e","method":"GetExtendedAgentCard","params":{}}"#;
    let tasks = async |identity| place.ask(identity, &token, list).await.json()["result"]["tasks"].clone();
    let told = tasks(&owner).await;
    let ids: Vec<_> = told.as_array().unwrap().iter().map(|task| &task["id"]).collect();
    assert_eq!(ids, ["m0", "w0"], "{told}");
    let seen = place.ask(&owner, &token, card).await.text();
    assert!(seen.contains("maps/route") && seen.contains("weather/route"), "{seen}");
    // Who has the token and another certificate is somebody to maps, and nobody to weather.
    assert_eq!(tasks(&thief).await, json!([]));
    let seen = place.ask(&thief, &token, card).await.text();
    assert!(seen.contains("maps/route") && !seen.contains("weather/route"), "{seen}");
    let stolen = place
        .ask(&thief, &token, &crate::harness::of_task("GetTask", "w0"))
        .await;
    assert_eq!(stolen.code(), -32001, "{}", stolen.text());
}
