//! What `explain` tells is what the gateway does: the same requests, to both.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use a2a_gateway::app::explain::{Asked, From, explain};
use a2a_gateway::clock::Clock;
use a2a_gateway::config::{self, Environment};
use serde_json::{Value, json};

use crate::harness::agent::{Agent, CARD, CARD_0_1, CARD_HTTP_JSON, Reply, tasks};
use crate::harness::{Gateway, KEY, KEY_HASH, call};

struct Case {
    what: &'static str,
    method: &'static str,
    path: &'static str,
    fields: Vec<(&'static str, &'static str)>,
    body: String,
}

fn case(what: &'static str, path: &'static str, body: impl ToString, fields: &[(&'static str, &'static str)]) -> Case {
    let mut all = vec![("content-type", "application/json")];
    all.extend(fields);
    Case {
        what,
        method: "POST",
        path,
        fields: all,
        body: body.to_string(),
    }
}

fn rpc(method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params })
}

fn message(metadata: &Value) -> Value {
    json!({ "message": { "messageId": "m", "role": "ROLE_USER", "parts": [{ "text": "x" }], "metadata": metadata } })
}

fn of_0_3() -> Value {
    let message =
        json!({ "kind": "message", "messageId": "m", "role": "user", "parts": [{ "kind": "text", "text": "x" }] });
    rpc("message/send", &json!({ "message": message }))
}

fn of_0_1() -> Value {
    let message = json!({ "role": "user", "parts": [{ "type": "text", "text": "x" }] });
    rpc("tasks/send", &json!({ "id": "mine", "message": message }))
}

fn yaml(agents: [&Agent; 3]) -> String {
    let [url, rest, first] = agents.map(|agent| format!("http://{}/", agent.address));
    let agent = |name: &str, url: &str, more: &str| {
        format!("  - {{ name: {name}, path: /{name}, upstream: {{ endpoints: [ {{ url: \"{url}\" }} ] }}, {more} }}\n")
    };
    let allow = "policy: { allow: [ { operations: [ send ], when: \"message.metadata.level == 3\" } ] }";
    let head = "policy: { allow: [ { when: \"principal.id == 'key:nobody'\" } ] }";
    let skill = "policy: { task_owner: none, skill: skill, allow: [ { name: any }, { name: pay, skills: [ pay ], when: 'false' } ] }";
    let agents = [
        agent("plain", &url, ""),
        agent("strict", &url, "security: [ { key: [ admin ] } ]"),
        agent("open", &url, "security: [ {} ]"),
        agent("ruled", &url, allow),
        agent("closed", &url, head),
        agent("skilled", &url, skill),
        agent("old", &url, "v0_1: true"),
        agent("first", &first, ""),
        agent("claimed", &url, "policy: { task_owner: \"claim:tenant\" }"),
        agent("rest", &rest, "translate: false"),
        agent("untranslated", &url, "translate: false"),
    ];
    format!(
        r#"
public_url: https://gateway.example
listeners: [ {{ name: public, address: "127.0.0.1:0" }} ]
admin: {{ address: "127.0.0.1:0" }}
state: {{ store: memory }}
log: {{ format: json }}
security_schemes:
  key: {{ type: apiKey, in: header, name: X-API-Key, keys: [ {{ id: tester, hash: "{KEY_HASH}" }} ] }}
security: [ {{ key: [] }} ]
agents:
{}
"#,
        agents.concat()
    )
}

fn cases() -> Vec<Case> {
    let key = [("x-api-key", KEY)];
    let (sent, none) = (rpc("SendMessage", &message(&json!({}))), json!({}));
    let with = |metadata: Value| rpc("SendMessage", &message(&metadata));
    let card = rpc("GetExtendedAgentCard", &none);
    let mut cases = vec![
        case("a send", "/plain", &sent, &key),
        case("of 0.3", "/plain", of_0_3(), &key),
        case("of 0.1 where it is not served", "/plain", of_0_1(), &key),
        case("nobody", "/plain", &sent, &[]),
        case("a wrong key", "/plain", &sent, &[("x-api-key", "wrong")]),
        case("two keys", "/plain", &sent, &[("x-api-key", KEY), ("x-api-key", KEY)]),
        case("no JSON", "/plain", "{", &key),
        case("a batch", "/plain", "[]", &key),
        case("an unknown method", "/plain", rpc("Sing", &none), &key),
        case(
            "two versions",
            "/plain?A2A-Version=0.3",
            &sent,
            &[("x-api-key", KEY), ("a2a-version", "1.0")],
        ),
        case(
            "a legacy method of 1.0",
            "/plain",
            of_0_3(),
            &[("x-api-key", KEY), ("a2a-version", "1.0")],
        ),
        case("no path of it", "/plain/elsewhere", &sent, &key),
        case(
            "HTTP+JSON",
            "/plain/message:send",
            message(&none),
            &[("x-api-key", KEY), ("a2a-version", "1.0")],
        ),
        case("no agent", "/nowhere", &sent, &key),
        case("a scope is missing", "/strict", &sent, &key),
        case("anybody", "/open", &sent, &[]),
        case("anybody with a wrong key", "/open", &sent, &[("x-api-key", "wrong")]),
        case("anybody's extended card", "/open", &card, &[]),
        case("a rule", "/ruled", with(json!({ "level": 3 })), &key),
        case("another value", "/ruled", with(json!({ "level": 4 })), &key),
        case("no value", "/ruled", &sent, &key),
        case("another operation", "/ruled", rpc("ListTasks", &none), &key),
        case(
            "too much to judge",
            "/ruled",
            with(json!({ "level": 3, "x": vec![0; 300] })),
            &key,
        ),
        case("no rule for who calls", "/closed", &sent, &key),
        case("and no JSON", "/closed", "{", &key),
        case("a skill", "/skilled", with(json!({ "skill": "pay" })), &key),
        case("another skill", "/skilled", with(json!({ "skill": "other" })), &key),
        case("a skill that is none", "/skilled", with(json!({ "skill": 1 })), &key),
        case("of 0.1", "/old", of_0_1(), &key),
        case("of 0.1 at an agent of 0.1", "/first", of_0_1(), &key),
        case("of 1.0 there", "/first", &sent, &key),
        case("no owner", "/claimed", &sent, &key),
        case("JSON-RPC where HTTP+JSON is served", "/rest", &sent, &key),
        case("JSON-RPC below it", "/rest/", &sent, &key),
        case(
            "HTTP+JSON where JSON-RPC is served",
            "/untranslated/message:send",
            message(&none),
            &key,
        ),
        case("another generation", "/untranslated", of_0_3(), &key),
    ];
    let text = Case {
        fields: vec![("content-type", "text/plain"), ("x-api-key", KEY)],
        ..case("no declared JSON", "/plain", &sent, &[])
    };
    let put = Case {
        method: "DELETE",
        ..case("another method", "/plain", "", &key)
    };
    cases.extend([text, put]);
    cases
}

#[tokio::test]
async fn what_is_explained_is_what_happens() {
    let agent = Agent::with_card(CARD, tasks(|| "t".to_owned())).await;
    let rest = Agent::over_http_json(CARD_HTTP_JSON, tasks(|| "t".to_owned())).await;
    let first = Agent::with_card(CARD_0_1, |received| {
        let call = received.json();
        let task = json!({ "id": call["params"]["id"], "sessionId": "s", "status": { "state": "completed" } });
        Reply::Json(json!({ "jsonrpc": "2.0", "id": call["id"], "result": task }).to_string())
    })
    .await;
    let yaml = yaml([&agent, &rest, &first]);
    let gateway = Gateway::start(&yaml).await;
    gateway.ready().await;
    let config = config::parse(&yaml, Path::new("/"), &Environment::default()).expect("it is good");
    for Case {
        what,
        method,
        path,
        fields,
        body,
    } in cases()
    {
        let answer = call(gateway.address, method, path, &fields, &body).await;
        let id = answer.header("x-request-id").expect("an id").to_owned();
        let log = gateway.log();
        let find = || {
            log.records()
                .into_iter()
                .find(|record| record["request"] == id.as_str())
        };
        crate::harness::eventually("the record is written", || async { find().is_some() }).await;
        let outcome = find().unwrap()["outcome"].as_str().unwrap().to_owned();

        let mut text = format!("{method} {path} HTTP/1.1\r\nhost: gateway.example\r\n");
        for (name, value) in &fields {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        let asked = Asked::parse(format!("{text}\r\n{body}").as_bytes()).expect("a request");
        let from = From {
            address: IpAddr::V4(Ipv4Addr::LOCALHOST),
            ..From::default()
        };
        let explained = explain(config.clone(), Clock::system(), &asked, &from)
            .await
            .expect("it is explained");
        let decision = explained.text.lines().last().expect("a decision").to_owned();
        if explained.allowed {
            assert!(
                matches!(&*outcome, "ok" | "agent_error"),
                "{what}: {outcome}\n{}",
                explained.text
            );
        } else {
            assert!(
                decision.contains(&format!("refused: {outcome}")),
                "{what}: {outcome}\n{}",
                explained.text
            );
        }
    }
}
