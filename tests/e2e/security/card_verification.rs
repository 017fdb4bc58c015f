//! Signatures of agents' own cards (A2A 1.0 §8.4): whose are believed, what of a card they cover, and what becomes of the agent.

use std::path::Path;
use std::sync::{Arc, Mutex};

use a2a_gateway::a2a::card::{Reading, read, readings};
use a2a_gateway::a2a::{Generation, Operation, grpc};
use a2a_gateway::config::SigningKey;
use a2a_gateway::signing::{Keys, Kinds, key_set};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, EncodingKey, crypto};
use rcgen::KeyPair;
use serde_json::{Value, json};

use crate::harness::agent::{Agent, CARD, CARD_HTTP_JSON, CARD_HYBRID, Reply};
use crate::harness::grpc::{CARD_GRPC, CARD_GRPC_0_3, GrpcAgent, Reply as GrpcReply};
use crate::harness::{Gateway, KEY, call, config_of, eventually, get, post, send};

const SDK: Reading = Reading::Sdk(Generation::V1_0);
const CARD_PATH: &str = "/agent/.well-known/agent-card.json";
const ORIGINAL_PATH: &str = "/agent/.well-known/agent-card.original.json";
const FILE: &str = "jwks_file: keys.json";

/// Who signs cards; its public key under the name `k`.
struct Author {
    pem: String,
    keys: String,
}

impl Author {
    fn new() -> Self {
        Self::named("k")
    }

    fn named(id: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let pem = KeyPair::generate().unwrap().serialize_pem();
        let private_key = folder.path().join("key.pem");
        std::fs::write(&private_key, &pem).unwrap();
        let key = SigningKey {
            private_key,
            id: Some(id.to_owned()),
        };
        let keys = Keys::read("keys", &[key], Kinds::All).unwrap();
        let keys = String::from_utf8(key_set(&[&keys]).unwrap().to_vec()).unwrap();
        Self { pem, keys }
    }

    fn sign(&self, card: &str, header: &Value, reading: Reading) -> Value {
        let found = readings(&read(card.as_bytes()).unwrap());
        let payload = &found.iter().find(|(known, _)| *known == reading).unwrap().1;
        self.over(card, header, payload)
    }

    fn over(&self, card: &str, header: &Value, payload: &str) -> Value {
        let mut card: Value = serde_json::from_str(card).unwrap();
        let header = URL_SAFE_NO_PAD.encode(header.to_string());
        let text = format!("{header}.{}", URL_SAFE_NO_PAD.encode(payload));
        let key = EncodingKey::from_ec_pem(self.pem.as_bytes()).unwrap();
        let signature = crypto::sign(text.as_bytes(), &key, Algorithm::ES256).unwrap();
        let signature = json!({ "protected": header, "signature": signature });
        match card["signatures"].as_array_mut() {
            Some(signatures) => signatures.push(signature),
            None => card["signatures"] = json!([signature]),
        }
        card
    }

    fn signed(&self, card: &str) -> String {
        self.sign(card, &header(), SDK).to_string()
    }
}

/// Of members that are text, lists and objects of ASCII.
fn payload_of(members: &std::collections::BTreeMap<String, Value>) -> String {
    fn sorted(value: &Value) -> Value {
        if let Some(list) = value.as_array() {
            return list.iter().map(sorted).collect();
        }
        let Some(members) = value.as_object() else {
            return value.clone();
        };
        let mut members: Vec<_> = members.iter().collect();
        members.sort_by_key(|(name, _)| *name);
        let members = members.into_iter();
        Value::Object(members.map(|(name, value)| (name.clone(), sorted(value))).collect())
    }
    let members = members.iter().map(|(name, value)| (name.clone(), sorted(value)));
    Value::Object(members.collect()).to_string()
}

fn header() -> Value {
    json!({ "alg": "ES256", "kid": "k", "typ": "JOSE" })
}

fn with(name: &str, value: Value) -> Value {
    let mut header = header();
    header[name] = value;
    header
}

/// A gateway that looks at signatures; `keys` are in the file.
async fn start(agent: &Agent, keys: &str, verify: &str, more: &str) -> (Gateway, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("keys.json"), keys).unwrap();
    let card = format!("card: {{ refresh: 1s, verify: {{ {verify} }}{more} }}");
    let yaml = config_of(&[agent.address], &card, "");
    (Gateway::start_in(&yaml, folder.path()).await, folder)
}

/// What the admin listener says of the agent, once it says this.
async fn says(gateway: &Gateway, text: &str) {
    eventually(text, || async {
        get(gateway.admin, "/ready").await.text().contains(text)
    })
    .await;
}

async fn agent(card: &str) -> Agent {
    Agent::with_card(card, |_| Reply::Silence).await
}

#[tokio::test]
async fn a_card_of_another_or_of_nobody_takes_the_agent_out_of_service() {
    let (author, other) = (Author::new(), Author::new());
    let good = author.signed(CARD);
    let agent = agent(&good).await;
    let (gateway, _folder) = start(&agent, &author.keys, FILE, "").await;
    gateway.ready().await;
    let forged = |name: &str, value: Value| {
        let header = with(name, value);
        author.sign(CARD, &header, SDK).to_string()
    };
    let rewritten = good.replace("agent.internal", "attacker.example");
    for (card, reason) in [
        (rewritten, "it does not match the card"),
        (other.signed(CARD), "it does not match the card"),
        (CARD.to_owned(), "the card is not signed"),
        (forged("kid", json!("other")), "its key is not known"),
        (forged("alg", json!("none")), "its algorithm is not taken"),
        (forged("alg", json!("HS256")), "its algorithm is not taken"),
        (forged("alg", json!("EdDSA")), "its key is for another algorithm"),
        (forged("crit", json!(["exp"])), "its header has `crit`"),
        (forged("exp", json!(1_000_000_000)), "it has expired"),
        (forged("exp", json!("soon")), "its `exp` cannot be read"),
        (
            CARD.replace("\"skills\"", "\"signatures\":{},\"skills\""),
            "its `signatures` cannot be read",
        ),
    ] {
        agent.set_card(&card);
        says(&gateway, reason).await;
        assert_eq!(
            post(gateway.address, "/agent", &send("1", "x")).await.status,
            503,
            "{reason}"
        );
        // And back.
        agent.set_card(&good);
        gateway.ready().await;
    }
    // One good signature beside others is enough, as is one by the standard to the letter that has not ended.
    let both = other.sign(&good, &header(), SDK).to_string();
    agent.set_card(&both);
    let fetched = agent.cards();
    eventually("it was looked at", || async { agent.cards() > fetched + 1 }).await;
    assert_eq!(get(gateway.admin, "/ready").await.status, 200);
    let far = with("exp", json!(4_000_000_000_u64));
    let letter = author.sign(CARD, &far, Reading::Standard(Generation::V1_0));
    agent.set_card(&letter.to_string());
    let fetched = agent.cards();
    eventually("it was looked at", || async { agent.cards() > fetched + 1 }).await;
    assert_eq!(get(gateway.admin, "/ready").await.status, 200);
}

#[tokio::test]
async fn the_signed_card_of_the_sdk_is_believed() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/1.0/signing");
    let text = |name: &str| std::fs::read_to_string(corpus.join(name)).unwrap();
    let agent = agent(&text("card.signed.json")).await;
    let (gateway, _folder) = start(&agent, &text("jwks.json"), FILE, "").await;
    gateway.ready().await;
    agent.set_card(&text("card.signed-then-url-rewritten.json"));
    says(&gateway, "it does not match the card").await;
    // The hole of the reading: what the card demands does not matter here, because the configuration says it.
    agent.set_card(&text("card.signed-security-requirements-stripped.json"));
    gateway.ready().await;
    assert_eq!(post(gateway.address, "/agent", "{}").await.code(), -32600);
    let stranger = crate::harness::call(gateway.address, "POST", "/agent", &[], "{}").await;
    assert_eq!(stranger.status, 401);
}

#[tokio::test]
async fn a_signed_card_that_demands_nothing_opens_nothing() {
    let author = Author::new();
    let demanding = CARD.replace(
        "\"skills\"",
        r#""securitySchemes":{"key":{"apiKeySecurityScheme":{"location":"header","name":"X-API-Key"}}},"securityRequirements":[{"schemes":{"key":{}}}],"skills""#,
    );
    let good = author.signed(&demanding);
    let agent = agent(&good).await;
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("keys.json"), &author.keys).unwrap();
    let file = folder.path().join("gateway.yaml");
    let config = |security: &str| {
        let more = format!("card: {{ refresh: 1s, verify: {{ {FILE} }} }}\n    {security}");
        config_of(&[agent.address], &more, "").replace("security: [ { key: [] } ]\n", "")
    };
    std::fs::write(&file, config("")).unwrap();
    let gateway = Gateway::from_file(&file).await;
    gateway.ready().await;
    let stripped = good.replace(r#""securityRequirements":[{"schemes":{"key":{}}}],"#, "");
    assert_ne!(stripped, good);
    for open in [stripped.clone(), good.replace(r#""schemes":{"key":{}}"#, "")] {
        agent.set_card(&open);
        says(&gateway, "the card is signed but demands nothing of callers").await;
        agent.set_card(&good);
        gateway.ready().await;
    }
    agent.set_card(&stripped);
    says(&gateway, "the card is signed but demands nothing of callers").await;
    std::fs::write(&file, config("security: []")).unwrap();
    assert!(gateway.reload().await);
    gateway.ready().await;
}

#[tokio::test]
async fn of_a_card_only_what_is_signed_is_read() {
    let author = Author::new();
    // A signature over one generation says nothing of the members of the other.
    let card = author.sign(CARD_HYBRID, &header(), Reading::Sdk(Generation::V0_3));
    let mut card = author.sign(&card.to_string(), &header(), SDK);
    card["signatures"].as_array_mut().unwrap().remove(0);
    card["url"] = json!("http://attacker.example/");
    card["x-unknown"] = json!("not signed");
    let agent = agent(&card.to_string()).await;
    let (gateway, _folder) = start(&agent, &author.keys, FILE, ", original: true").await;
    gateway.ready().await;
    let published = get(gateway.address, CARD_PATH).await.json();
    assert_eq!(published.get("x-unknown"), None);
    assert_eq!(published["url"], "https://gateway.example/agent");
    let original = get(gateway.address, ORIGINAL_PATH).await;
    assert_eq!(
        (original.status, original.text()),
        (200, card.to_string()),
        "byte for byte"
    );
    assert_ne!(original.header("etag"), None);
    let (plain, _other) = start(&agent, &author.keys, FILE, "").await;
    plain.ready().await;
    assert_eq!(get(plain.address, ORIGINAL_PATH).await.status, 404);
}

/// A place of keys, and how often it was asked.
async fn place(keys: &Arc<Mutex<String>>) -> Agent {
    let keys = keys.clone();
    Agent::over_http_json(CARD_HTTP_JSON, move |_| Reply::Json(keys.lock().unwrap().clone())).await
}

#[tokio::test]
async fn fetched_keys_rotate_and_go_on_while_they_cannot_be_had() {
    let (old, new) = (Author::named("old"), Author::named("new"));
    let by = |author: &Author, id: &str| author.sign(CARD, &with("kid", json!(id)), SDK).to_string();
    let keys = Arc::new(Mutex::new(old.keys.clone()));
    let server = place(&keys).await;
    let agent = agent(&by(&old, "old")).await;
    let verify = format!("jwks_url: \"http://{}/keys\"", server.address);
    let (gateway, _folder) = start(&agent, "{}", &verify, "").await;
    gateway.ready().await;
    let fetched = agent.cards();
    eventually("it is looked at again", || async { agent.cards() > fetched + 1 }).await;
    assert_eq!(server.received().len(), 1, "the set is kept");
    *keys.lock().unwrap() = new.keys.clone();
    agent.set_card(&by(&new, "new"));
    eventually("the new key is asked for", || async { server.received().len() > 1 }).await;
    gateway.ready().await;
    // What is no set changes nothing; a key that is not known is not believed.
    "no keys".clone_into(&mut keys.lock().unwrap());
    agent.set_card(&by(&old, "old"));
    says(&gateway, "its key is not known").await;
    agent.set_card(&by(&new, "new"));
    gateway.ready().await;
}

#[tokio::test]
async fn keys_come_from_no_place_that_only_a_card_names() {
    let author = Author::new();
    let keys = Arc::new(Mutex::new(author.keys.clone()));
    let (allowed, other) = (place(&keys).await, place(&keys).await);
    let at = |server: &Agent, path: &str| {
        let url = format!("http://{}{path}", server.address);
        author.sign(CARD, &with("jku", json!(url)), SDK).to_string()
    };
    let agent = agent(&at(&other, "/keys")).await;
    let verify = format!("jku: [ \"http://{}/keys\" ]", allowed.address);
    let (gateway, _folder) = start(&agent, "{}", &verify, "").await;
    says(&gateway, "its `jku` is not one that the configuration allows").await;
    agent.set_card(&at(&allowed, "/keys"));
    gateway.ready().await;
    assert_eq!(allowed.received().len(), 1);
    agent.set_card(&at(&allowed, "/keys?"));
    says(&gateway, "its `jku` is not one that the configuration allows").await;
    agent.set_card(&author.signed(CARD));
    says(&gateway, "it has no `jku`").await;
    assert_eq!((allowed.received().len(), other.received().len()), (1, 0));
}

#[tokio::test]
async fn a_card_that_is_signed_anew_under_the_same_weak_tag_is_seen() {
    let (old, new) = (Author::named("old"), Author::named("new"));
    let by = |author: &Author, id: &str| author.sign(CARD, &with("kid", json!(id)), SDK).to_string();
    // The SDK for Python leaves signatures out of what it makes the tag of.
    let card = Arc::new(Mutex::new(by(&old, "old")));
    let shown = card.clone();
    let server = Agent::over_http_json("", move |request| {
        let fields = "etag: W/\"same\"\r\ncontent-type: application/json\r\n";
        match request.field("if-none-match") {
            Some("W/\"same\"") => Reply::Whole(304, fields, String::new()),
            _ => Reply::Whole(200, fields, shown.lock().unwrap().clone()),
        }
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let keys = folder.path().join("keys.json");
    std::fs::write(&keys, &old.keys).unwrap();
    let card_keys = format!(
        "card: {{ url: \"http://{}/card\", refresh: 1s, verify: {{ {FILE} }} }}",
        server.address
    );
    let gateway = Gateway::start_in(&config_of(&[server.address], &card_keys, ""), folder.path()).await;
    gateway.ready().await;
    by(&new, "new").clone_into(&mut card.lock().unwrap());
    std::fs::write(&keys, &new.keys).unwrap();
    let before = server.received().len();
    eventually("it is looked at", || async { server.received().len() > before + 2 }).await;
    gateway.ready().await;
}

#[tokio::test]
async fn a_set_of_keys_that_cannot_be_had_is_asked_for_once_a_card() {
    let author = Author::new();
    let server = Agent::over_http_json(CARD_HTTP_JSON, |_| Reply::Whole(500, "", String::new())).await;
    let mut card = author.sign(CARD, &header(), SDK);
    for _ in 0..15 {
        card = author.sign(&card.to_string(), &header(), SDK);
    }
    let agent = agent(&card.to_string()).await;
    let verify = format!("jwks_url: \"http://{}/keys\"", server.address);
    let (gateway, _folder) = start(&agent, "{}", &verify, "").await;
    says(&gateway, "the keys of its signatures cannot be had").await;
    let (asked, cards) = (server.received().len(), agent.cards());
    assert!(asked <= cards, "{asked} times for {cards} cards");
}

#[tokio::test]
async fn a_second_skill_of_one_id_is_signed_like_the_first() {
    let author = Author::new();
    let skills = |list: Value| CARD.replace("\"skills\":[]", &format!("\"skills\":{list}"));
    let skill = |name: &str| json!({"id": "a", "name": name, "description": "d", "tags": ["t"]});
    let (one, twin) = (skill("A"), skill("B"));
    // Made by hand of the sorted members.
    let both = skills(json!([one, twin]));
    let sorted: std::collections::BTreeMap<String, Value> = serde_json::from_str(&both).unwrap();
    let payload = payload_of(&sorted);
    let good = author.over(&both, &header(), &payload).to_string();
    let agent = agent(&good).await;
    let (gateway, _folder) = start(&agent, &author.keys, FILE, "").await;
    gateway.ready().await;
    let published = get(gateway.address, CARD_PATH).await.json();
    assert_eq!(published["skills"], json!([one]), "one of them");
    // Put there by somebody else.
    let mut more: Value = serde_json::from_str(&author.signed(&skills(json!([one])))).unwrap();
    more["skills"].as_array_mut().unwrap().push(twin);
    agent.set_card(&more.to_string());
    says(&gateway, "it does not match the card").await;
}

#[tokio::test]
async fn a_verified_card_is_compared_with_what_of_the_approved_one_is_signed() {
    let author = Author::new();
    // Signed for 1.0 alone, as the SDK for Python does.
    let card = author.signed(CARD_HYBRID);
    let agent = agent(&card).await;
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("keys.json"), &author.keys).unwrap();
    std::fs::write(folder.path().join("approved.json"), &card).unwrap();
    let settings = format!("card: {{ refresh: 1s, on_change: hold, approved: approved.json, verify: {{ {FILE} }} }}");
    let gateway = Gateway::start_in(&config_of(&[agent.address], &settings, ""), folder.path()).await;
    gateway.ready().await;
    eventually("it was looked at", || async { agent.cards() > 2 }).await;
    let diff = get(gateway.admin, "/cards/agent/diff").await.json();
    assert_eq!((&diff["held"], &diff["differences"]), (&json!(false), &json!([])));
}

#[tokio::test]
async fn a_reload_does_not_approve_a_signed_card_that_is_held() {
    let author = Author::new();
    let skill = |id: &str| {
        let skills = format!(r#""skills":[{{"id":"{id}","name":"S","description":"d","tags":["t"]}}]"#);
        author.signed(&CARD.replace("\"skills\":[]", &skills))
    };
    let agent = agent(&skill("one")).await;
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("keys.json"), &author.keys).unwrap();
    let file = folder.path().join("gateway.yaml");
    let yaml = |refresh: &str| {
        let card = format!("card: {{ refresh: {refresh}, on_change: hold, verify: {{ {FILE} }} }}");
        config_of(&[agent.address], &card, "")
    };
    std::fs::write(&file, yaml("1s")).unwrap();
    let gateway = Gateway::from_file(&file).await;
    gateway.ready().await;
    agent.set_card(&skill("two"));
    let held = async || get(gateway.admin, "/cards").await.json()["cards"][0]["held"] == true;
    eventually("it is held", || async { held().await }).await;
    std::fs::write(&file, yaml("2s")).unwrap();
    assert!(gateway.reload().await);
    let before = agent.cards();
    eventually("it is looked at", || async { agent.cards() > before + 1 }).await;
    gateway.ready().await;
    assert_eq!(get(gateway.address, CARD_PATH).await.json()["skills"][0]["id"], "one");
    assert!(held().await);
}

#[tokio::test]
async fn a_card_is_believed_as_long_as_one_of_its_signatures_holds() {
    let author = Author::new();
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let short = author.sign(CARD, &with("exp", json!(now + 4)), SDK).to_string();
    let both = author.sign(&short, &header(), SDK).to_string();
    let (one, two) = (agent(&short).await, agent(&both).await);
    let (ending, _folder) = start(&one, &author.keys, FILE, "").await;
    let (lasting, _other) = start(&two, &author.keys, FILE, "").await;
    lasting.ready().await;
    one.hide_card();
    two.hide_card();
    says(&ending, "expired").await;
    let asked = two.cards();
    eventually("it is looked for", || async { two.cards() > asked + 1 }).await;
    assert_eq!(get(lasting.admin, "/ready").await.status, 200);
}

#[tokio::test]
async fn no_more_than_sixteen_signatures_are_looked_at() {
    let (author, other) = (Author::new(), Author::new());
    let after = |count: usize| {
        let card = (0..count).fold(CARD.to_owned(), |card, _| other.sign(&card, &header(), SDK).to_string());
        author.signed(&card)
    };
    let agent = agent(&after(16)).await;
    let (gateway, _folder) = start(&agent, &author.keys, FILE, "").await;
    says(&gateway, "signature 16: it does not match the card").await;
    agent.set_card(&after(15));
    gateway.ready().await;
}

/// It is looked at with each call, however it comes, and signed by nobody who did not believe it.
#[tokio::test]
async fn the_extended_card_is_believed_as_the_other_one() {
    const CARD_0_2: &str = r#"{"name":"Fake","description":"d","version":"1","protocolVersion":"0.2.6","url":"http://agent.internal/","supportsAuthenticatedExtendedCard":true,"capabilities":{},"defaultInputModes":["text/plain"],"defaultOutputModes":["text/plain"],"skills":[]}"#;
    let author = Author::new();
    for (card, is_rpc) in [(CARD, true), (CARD_HTTP_JSON, false), (CARD_0_2, false)] {
        let sign = |card: &str| author.sign(card, &header(), Reading::Whole);
        let extended: Arc<Mutex<Value>> = Arc::default();
        let shown = extended.clone();
        let answer = move |request: &crate::harness::agent::Received| {
            let card = shown.lock().unwrap().clone();
            match is_rpc {
                true => Reply::Json(format!(r#"{{"jsonrpc":"2.0","id":{},"result":{card}}}"#, request.id())),
                false => Reply::Json(card.to_string()),
            }
        };
        let public = sign(card).to_string();
        let agent = match is_rpc {
            true => Agent::with_card(&public, answer).await,
            false => Agent::over_http_json(&public, answer).await,
        };
        let (gateway, _folder) = start(&agent, &author.keys, FILE, "").await;
        gateway.ready().await;
        let ask = async |card: Value| {
            *extended.lock().unwrap() = card;
            let body = r#"{"jsonrpc":"2.0","id":9,"method":"GetExtendedAgentCard"}"#;
            post(gateway.address, "/agent", body).await
        };
        let good = sign(&card.replace("\"Fake\"", "\"Extended\""));
        let got = ask(good.clone()).await;
        assert_eq!(got.status, 200, "{card}: {}", got.text());
        assert_eq!(got.json()["result"]["name"], "Extended", "{card}: {}", got.text());
        let mut forged = good.clone();
        forged["name"] = "Forged".into();
        let mut stripped = good;
        stripped.as_object_mut().unwrap().remove("signatures");
        for bad in [forged, stripped] {
            let got = ask(bad).await;
            assert_eq!(got.json()["error"]["code"], -32006, "{card}: {}", got.text());
            assert!(!got.text().contains("Forged"), "{card}: {}", got.text());
        }
    }
}

/// A message of gRPC has no members that its signer did not see.
#[tokio::test]
async fn an_extended_card_that_comes_over_grpc_is_believed_likewise() {
    let author = Author::new();
    let name = |card: &str| card.replace("\"Fake\"", "\"Extended\"");
    for (card, generation) in [(CARD_GRPC, Generation::V1_0), (CARD_GRPC_0_3, Generation::V0_3)] {
        let sign = |card: &str| author.sign(card, &header(), Reading::Sdk(generation));
        let extended: Arc<Mutex<Value>> = Arc::default();
        let shown = extended.clone();
        let agent = GrpcAgent::start(&sign(card).to_string(), move |_| {
            let card = shown.lock().unwrap().to_string();
            GrpcReply::message(&grpc::from_json(generation, Operation::ExtendedCard, card.as_bytes()).unwrap())
        })
        .await;
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("keys.json"), &author.keys).unwrap();
        let yaml = agent
            .config("")
            .replace("card: {", "card: { verify: { jwks_file: keys.json },");
        let gateway = Gateway::start_in(&yaml, folder.path()).await;
        gateway.ready().await;
        let ask = async |card: Value| {
            *extended.lock().unwrap() = card;
            let body = r#"{"jsonrpc":"2.0","id":9,"method":"GetExtendedAgentCard"}"#;
            call(
                gateway.address,
                "POST",
                "/",
                &[("x-api-key", KEY), ("content-type", "application/json")],
                body,
            )
            .await
        };
        let good = sign(&name(card));
        let got = ask(good.clone()).await;
        assert_eq!(got.json()["result"]["name"], "Extended", "{generation}: {}", got.text());
        let mut forged = good.clone();
        forged["name"] = "Forged".into();
        let mut stripped = good;
        stripped.as_object_mut().unwrap().remove("signatures");
        for bad in [forged, stripped] {
            let got = ask(bad).await;
            assert_eq!(got.json()["error"]["code"], -32006, "{generation}: {}", got.text());
        }
    }
}
