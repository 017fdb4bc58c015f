//! Callers of every dialect at the front door of agents of every generation.

use a2a_gateway::a2a::Operation;
use serde_json::{Value, json};

use super::{making, start, yaml};
use crate::harness::agent::{Agent, CARD_0_3, CARD_HTTP_JSON, Reply};
use crate::harness::caller::{CALLERS, Caller};
use crate::harness::tasks::Tasks;
use crate::harness::{OPEN, call};

fn message(agent: &str) -> Value {
    json!({ "message": {
        "messageId": "m", "role": "ROLE_USER", "parts": [{ "text": "hi" }],
        "metadata": { "urn:a2a-gateway:extension:agent:v1": agent },
    } })
}

/// A task that is made, told of and cancelled, in 0.3.
fn of_0_3(request: &crate::harness::agent::Received) -> Reply {
    let call = request.json();
    let state = match call["method"].as_str().unwrap() {
        "tasks/cancel" => "canceled",
        _ => "working",
    };
    Reply::Json(format!(
        r#"{{"jsonrpc":"2.0","id":{},"result":{{"kind":"task","id":"old-0","contextId":"c","status":{{"state":"{state}"}}}}}}"#,
        call["id"]
    ))
}

#[tokio::test]
async fn every_caller_is_served_by_every_agent() {
    let old = Agent::with_card(CARD_0_3, of_0_3).await;
    let young = making("young", super::WEATHER).await;
    let gateway = start(&yaml(&old, &young, "", "")).await;
    for dialect in CALLERS {
        let caller = Caller(dialect);
        for (agent, prefix) in [("maps", "old-"), ("weather", "young-")] {
            let sent = caller.ask(&gateway, Operation::Send, &message(agent)).await;
            let sent = sent.unwrap_or_else(|code| panic!("{dialect:?} to {agent}: {code}"));
            let task = sent[0]["task"]["id"].as_str().unwrap().to_owned();
            assert!(task.starts_with(prefix), "{dialect:?} to {agent}: {task}");
            for operation in [Operation::Get, Operation::Cancel] {
                let got = caller.ask(&gateway, operation, &json!({ "id": task })).await;
                let got = got.unwrap_or_else(|code| panic!("{dialect:?} of {agent}, {operation:?}: {code}"));
                assert_eq!(got[0]["id"], *task, "{dialect:?} of {agent}");
            }
        }
        let nameless = json!({ "message": { "messageId": "m", "role": "ROLE_USER", "parts": [{ "text": "hi" }] } });
        let unclear = caller.ask(&gateway, Operation::Send, &nameless).await;
        assert_eq!(unclear, Err(-32602), "{dialect:?}");
    }
}

#[tokio::test]
async fn lists_and_cards_are_told_in_every_dialect() {
    let maps = Agent::with_card(super::MAPS, Tasks::default().script("m")).await;
    let weather = Agent::with_card(super::WEATHER, Tasks::default().script("w")).await;
    let gateway = start(&yaml(&maps, &weather, "", "")).await;
    let sent = Caller(CALLERS[1])
        .ask(&gateway, Operation::Send, &message("maps"))
        .await;
    assert_eq!(sent.unwrap()[0]["task"]["id"], "m0");
    for dialect in CALLERS {
        let card = Caller(dialect).ask(&gateway, Operation::ExtendedCard, &json!({})).await;
        let card = card.unwrap_or_else(|code| panic!("{dialect:?}: {code}"));
        let text = card[0].to_string();
        assert!(
            text.contains("maps/route") && text.contains("weather/route"),
            "{dialect:?}: {text}"
        );
        if dialect.generation == a2a_gateway::a2a::Generation::V1_0 {
            let listed = Caller(dialect).ask(&gateway, Operation::List, &json!({})).await;
            let listed = listed.unwrap_or_else(|code| panic!("{dialect:?}: {code}"));
            assert_eq!(listed[0]["tasks"][0]["id"], "m0", "{dialect:?}");
        }
    }
}

#[tokio::test]
async fn streams_pass_as_they_come() {
    let maps = Agent::with_card(super::MAPS, |request| {
        let (events, stream) = tokio::sync::mpsc::channel(4);
        let id = request.id();
        tokio::spawn(async move {
            let first = crate::harness::agent::task_event(&id, "s-0");
            let _gone = events.send(Some(first.replace('\r', ""))).await;
            let last =
                r#"{"statusUpdate":{"taskId":"s-0","contextId":"ctx-s-0","status":{"state":"TASK_STATE_COMPLETED"}}}"#;
            let last = crate::harness::agent::event(&id, last).replace('\r', "");
            let _gone = events.send(Some(last)).await;
        });
        Reply::Stream(stream)
    })
    .await;
    let weather = making("w", super::WEATHER).await;
    let gateway = start(&yaml(&maps, &weather, "default: maps", "")).await;
    for dialect in CALLERS {
        let events = Caller(dialect).ask(&gateway, Operation::Stream, &message("maps")).await;
        let events = events.unwrap_or_else(|code| panic!("{dialect:?}: {code}"));
        assert_eq!(events.len(), 2, "{dialect:?}");
        let resumed = Caller(dialect)
            .ask(&gateway, Operation::Subscribe, &json!({ "id": "s-0" }))
            .await;
        assert!(resumed.is_ok(), "{dialect:?}: {resumed:?}");
    }
}

#[tokio::test]
async fn open_agents_have_an_open_front_door() {
    let rest = Agent::over_http_json(CARD_HTTP_JSON, |_| {
        Reply::Json(r#"{"task":{"id":"h-0","contextId":"c","status":{"state":"TASK_STATE_WORKING"}}}"#.to_owned())
    })
    .await;
    let top = "front_door: { path: /all }";
    let yaml =
        crate::harness::config_of(&[rest.address], OPEN, top).replace("security: [ { key: [] } ]", "security: []");
    let gateway = start(&yaml).await;
    let card = crate::harness::get(gateway.address, "/all/.well-known/agent-card.json")
        .await
        .json();
    assert!(
        card.get("security").is_none() && card.get("securityRequirements").is_none(),
        "{card}"
    );
    assert_eq!(card["capabilities"]["extendedAgentCard"], false);
    // One agent alone is meant, whatever is said.
    let fields = [("content-type", "application/json"), ("A2A-Version", "1.0")];
    let body = super::sends("", "");
    let answer = call(gateway.address, "POST", "/all", &fields, &body).await;
    assert_eq!(answer.json()["result"]["task"]["id"], "h-0", "{}", answer.text());
    let refused = r#"{"jsonrpc":"2.0","id":"e","method":"GetExtendedAgentCard","params":{}}"#;
    let answer = call(gateway.address, "POST", "/all", &fields, refused).await;
    assert_eq!(answer.code(), -32007);
}

/// Callers of 0.1 name their tasks themselves, each owner apart.
#[tokio::test]
async fn callers_of_0_1_find_their_tasks_by_the_names_that_they_gave() {
    let (maps, weather) = super::two().await;
    let yaml = yaml(&maps, &weather, "default: maps, metadata_key: agent", "v0_1: true").replace(
        "    path: /agents/weather\n",
        "    path: /agents/weather\n    v0_1: true\n",
    );
    let gateway = start(&yaml).await;
    let card = crate::harness::get(gateway.address, "/.well-known/agent.json")
        .await
        .json();
    assert_eq!(card["url"], "https://gateway.example/", "{card}");
    assert!(card.get("supportedInterfaces").is_none() && card.get("protocolVersion").is_none());
    assert_eq!(card["authentication"]["schemes"], json!(["ApiKey"]));
    let asks = |key: &'static str, method: &str, params: &str| {
        let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#);
        let address = gateway.address;
        async move {
            let fields = [("X-API-Key", key), ("content-type", "application/json")];
            call(address, "POST", "/", &fields, &body).await
        }
    };
    let send = |id: &str, more: &str| {
        format!(r#"{{"id":"{id}","message":{{"role":"user","parts":[{{"type":"text","text":"hi"}}]{more}}}}}"#)
    };
    let at = r#","metadata":{"agent":"weather"}"#;
    for (id, more, asked) in [("one", "", &maps), ("two", at, &weather)] {
        let sent = asks(super::ANN, "tasks/send", &send(id, more)).await;
        assert_eq!(sent.json()["result"]["id"], id, "{}", sent.text());
        let before = asked.received().len();
        let got = asks(super::ANN, "tasks/get", &format!(r#"{{"id":"{id}"}}"#)).await;
        assert_eq!(got.json()["result"]["id"], id, "{}", got.text());
        assert_eq!(asked.received().len(), before + 1);
    }
    assert_eq!((maps.received().len(), weather.received().len()), (2, 2));
    // Bob has no such task, wherever he is sent.
    let theirs = asks(super::BOB, "tasks/get", r#"{"id":"two"}"#).await;
    let nobodys = asks(super::BOB, "tasks/get", r#"{"id":"nobodys"}"#).await;
    assert_eq!(theirs.code(), -32001, "{}", theirs.text());
    assert_eq!(theirs.body, nobodys.body);
}

/// Whichever agent takes the lenient names of methods of 0.1, the front door does.
#[tokio::test]
async fn names_of_0_1_are_read_that_one_of_the_agents_takes() {
    let (maps, weather) = super::two().await;
    let lenient = "path: /agents/weather\n    v0_1: true\n    lenient_methods: true";
    let yaml = yaml(&maps, &weather, "default: weather", "v0_1: true").replace("path: /agents/weather", lenient);
    let gateway = start(&yaml).await;
    let send = |method: &str, agent: &str| {
        json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": {
            "id": format!("{agent}-{method}"),
            "message": { "role": "user", "parts": [{ "type": "text", "text": "hi" }],
                "metadata": { "urn:a2a-gateway:extension:agent:v1": agent } },
        } })
        .to_string()
    };
    let fields = [("X-API-Key", super::ANN), ("content-type", "application/json")];
    for (method, agent, code) in [
        ("tasks/send", "weather", None),
        ("sendTask", "weather", None),
        ("tasks/send", "maps", None),
        ("sendTask", "maps", Some(-32601)),
    ] {
        let sent = call(gateway.address, "POST", "/", &fields, &send(method, agent)).await;
        let told = sent.json()["error"]["code"].as_i64();
        assert_eq!(told, code, "{method} to {agent}: {}", sent.text());
    }
}

/// A call of gRPC is turned into its agent's, and is a call of gRPC before that: one message, whole, not coded.
#[tokio::test]
async fn what_is_no_call_of_grpc_goes_to_no_agent() {
    use crate::harness::client::{Rpc, open_grpc};
    use a2a_gateway::a2a::model::Request;
    use a2a_gateway::a2a::{Generation::V1_0, grpc};
    let (maps, weather) = super::two().await;
    let gateway = start(&yaml(&maps, &weather, "default: maps", "body_bytes: 1KiB")).await;
    let path = grpc::path(V1_0, Operation::Send).unwrap();
    let framed = |text: &str, tenant: &str| {
        let mut params = message("weather");
        params["message"]["parts"][0]["text"] = text.into();
        params["tenant"] = tenant.into();
        let params = params.to_string();
        let request = Request::read(Operation::Send, &params).unwrap();
        grpc::frame(&grpc::write_request(V1_0, request).unwrap())
            .unwrap()
            .to_vec()
    };
    let good = framed("hi", "");
    let mut coded = good.clone();
    coded[0] = 1;
    let gateway = &gateway;
    let check = async |what: &str, path: &str, fields: &[(&str, &str)], body: Vec<u8>, status: u32| {
        let fields = [&[("x-api-key", super::ANN)][..], fields].concat();
        let rpc = Rpc::read(open_grpc(gateway.address, path, &fields, body).await).await;
        assert_eq!(rpc.status(), status, "{what}: {rpc:?}");
    };
    check("coded", path, &[], coded, 12).await;
    check("coding", path, &[("grpc-encoding", "gzip")], good.clone(), 12).await;
    check("nothing", path, &[], Vec::new(), 3).await;
    check("half", path, &[], good[..good.len() - 1].to_vec(), 3).await;
    check("two", path, &[], [&*good, &*good].concat(), 3).await;
    check("unknown", "/lf.a2a.v1.A2AService/Nothing", &[], good.clone(), 12).await;
    let json = [("content-type", "application/grpc+json")];
    check("JSON", path, &json, good.clone(), 12).await;
    // Too large for the one, and not for the other: the agent that it is for decides.
    let large = "x".repeat(2000);
    check("large", path, &[], framed(&large, "maps"), 8).await;
    assert!(maps.received().is_empty() && weather.received().is_empty());
    check("for the other", path, &[], framed(&large, ""), 0).await;
    assert_eq!((maps.received().len(), weather.received().len()), (0, 1));
    assert_eq!(weather.received()[0].json()["params"]["tenant"], "north");
}

/// A webhook of a caller of another generation is at the agent's own address, and what it tells goes where its caller said.
#[tokio::test]
async fn webhooks_that_are_set_at_the_front_door_are_the_agents() {
    let hook = Agent::start(|_| Reply::Whole(202, "", String::new())).await;
    let maps = Agent::with_card(super::MAPS, |request| {
        let call = request.json();
        let task = r#"{"id":"t","contextId":"c","status":{"state":"TASK_STATE_WORKING"}}"#;
        let result = match call["method"].as_str().unwrap() {
            "SendMessage" => format!(r#"{{"task":{task}}}"#),
            "GetTask" => task.to_owned(),
            _ => call["params"].to_string(),
        };
        Reply::Json(format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, call["id"]))
    })
    .await;
    let weather = making("w", super::WEATHER).await;
    let push =
        "push: { keys: [ { value: a-key-of-webhooks-with-32-characters } ], http: true, networks: [ 127.0.0.0/8 ] }\n";
    let gateway = start(&format!("{push}{}", yaml(&maps, &weather, "default: maps", ""))).await;
    let fields = [("X-API-Key", super::ANN), ("content-type", "application/json")];
    let ask = async |method: &str, params: Value| {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
        let answer = call(gateway.address, "POST", "/", &fields, &body).await.json();
        assert!(answer["error"].is_null(), "{answer}");
        answer["result"].clone()
    };
    let message =
        json!({ "kind": "message", "messageId": "m", "role": "user", "parts": [{ "kind": "text", "text": "x" }] });
    assert_eq!(ask("message/send", json!({ "message": message })).await["id"], "t");
    let config = json!({ "id": "p", "url": format!("http://{}/hook", hook.address), "token": "s3cret" });
    let set = json!({ "taskId": "t", "pushNotificationConfig": config });
    assert_eq!(ask("tasks/pushNotificationConfig/set", set.clone()).await, set);
    let told = maps.received()[1].json();
    let url = told["params"]["url"].as_str().unwrap();
    let path = url.strip_prefix("https://gateway.example").unwrap();
    assert!(path.starts_with("/agents/maps/push/"), "{path}");
    assert!(!told.to_string().contains("s3cret"), "{told}");
    let update = r#"{"task":{"id":"t","contextId":"c","status":{"state":"TASK_STATE_COMPLETED"}}}"#;
    let json = [("content-type", "application/json")];
    assert_eq!(call(gateway.address, "POST", path, &json, update).await.status, 200);
    let heard = hook.received();
    assert_eq!(heard[0].field("x-a2a-notification-token"), Some("s3cret"));
    assert_eq!(heard[0].json()["status"]["state"], "completed");
    assert!(weather.received().is_empty());
}

/// A digest is of the bytes that were sent (RFC 9530 §2): it goes on with them, and with no others.
#[tokio::test]
async fn digests_go_on_with_the_bytes_that_they_are_of() {
    let maps = Agent::with_card(super::MAPS, Tasks::default().script("m")).await;
    let weather = Agent::with_card(super::WEATHER, Tasks::default().script("w")).await;
    let gateway = start(&yaml(&maps, &weather, "default: maps", "")).await;
    let fields = [
        ("X-API-Key", super::ANN),
        ("content-type", "application/json"),
        ("content-digest", "sha-256=:YQ==:"),
        ("repr-digest", "sha-256=:YQ==:"),
        ("digest", "SHA-256=YQ=="),
    ];
    let list = r#"{"jsonrpc":"2.0","id":"l","method":"ListTasks","params":{}}"#;
    let named = super::sends(r#""tenant":"maps""#, "");
    let old = r#"{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"kind":"message","messageId":"m","role":"user","parts":[{"kind":"text","text":"hi"}]}}}"#;
    for (path, body, is_same) in [
        ("/", &*super::sends("", ""), true),
        ("/", &*named, false),
        ("/", list, false),
        ("/agents/maps", old, false),
        ("/agents/maps", &*named, true),
    ] {
        let answer = call(gateway.address, "POST", path, &fields, body).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let received = maps.received().pop().unwrap();
        for (name, value) in &fields[2..] {
            assert_eq!(received.field(name), is_same.then_some(*value), "{path} {body}");
        }
    }
}

/// What belongs to a binding stays with it.
#[tokio::test]
async fn a_list_over_grpc_asks_agents_of_json_rpc_for_no_field_of_grpc() {
    use crate::harness::client::{Rpc, open_grpc};
    use a2a_gateway::a2a::{Generation::V1_0, grpc};
    let maps = Agent::with_card(super::MAPS, Tasks::default().script("m")).await;
    let weather = Agent::with_card(super::WEATHER, Tasks::default().script("w")).await;
    let gateway = start(&yaml(&maps, &weather, "", "")).await;
    let path = grpc::path(V1_0, Operation::List).unwrap();
    let fields = [
        ("x-api-key", super::ANN),
        ("grpc-timeout", "20S"),
        ("grpc-accept-encoding", "gzip"),
    ];
    let rpc = Rpc::read(open_grpc(gateway.address, path, &fields, vec![0; 5]).await).await;
    assert_eq!(rpc.status(), 0, "{rpc:?}");
    for agent in [&maps, &weather] {
        let head = agent.received().pop().unwrap().head;
        assert!(!head.to_lowercase().contains("grpc"), "{head}");
    }
}
