//! Where calls go: by task and context, by name, by rule, by default; and what a caller is told when nothing says it.

use super::{ANN, BOB, by, making, sends, start, task_of, two, yaml};
use crate::harness::{call, of_task};

const EXTENSION: &str = "urn:a2a-gateway:extension:agent:v1";

#[tokio::test]
async fn a_call_goes_to_the_agent_that_it_names() {
    let (maps, weather) = two().await;
    let gateway = start(&yaml(&maps, &weather, "metadata_key: agent", "")).await;
    let named = [
        (sends(r#""tenant":"maps""#, ""), "m-0"),
        (sends(r#""tenant":"weather""#, ""), "w-0"),
        (sends(&format!(r#""metadata":{{"{EXTENSION}":"maps"}}"#), ""), "m-1"),
        (
            sends("", &format!(r#""metadata":{{"{EXTENSION}":"weather/route"}}"#)),
            "w-1",
        ),
        (sends("", r#""metadata":{"agent":"maps"}"#), "m-2"),
    ];
    for (body, task) in &named {
        assert_eq!(task_of(&by(ANN, &gateway, body).await), *task, "{body}");
    }
    let metric = r#"a2a_gateway_front_door_calls_total{choice="named"}"#;
    assert_eq!(gateway.metric(metric).await, 5.0);
    // What the caller chose by is no tenant of the agent, which has its own or none; all else is as it was sent.
    let bodies = |received: Vec<crate::harness::agent::Received>| -> Vec<String> {
        let text = |received: crate::harness::agent::Received| String::from_utf8(received.body).unwrap();
        received.into_iter().map(text).collect()
    };
    let (to_maps, to_weather) = (bodies(maps.received()), bodies(weather.received()));
    assert_eq!(to_maps[0], sends("", ""));
    assert_eq!(to_maps[1], named[2].0);
    assert_eq!(to_weather[0], sends(r#""tenant":"north""#, ""));
    assert_eq!(
        to_weather[1],
        sends(
            r#""tenant":"north""#,
            &format!(r#""metadata":{{"{EXTENSION}":"weather/route"}}"#)
        )
    );
}

#[tokio::test]
async fn tenants_name_agents_in_paths_too() {
    let (maps, weather) = two().await;
    let gateway = start(&yaml(&maps, &weather, "", "")).await;
    let fields = [
        ("X-API-Key", ANN),
        ("content-type", "application/json"),
        ("A2A-Version", "1.0"),
    ];
    let body = r#"{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"hi"}]}}"#;
    let answer = call(gateway.address, "POST", "/maps/message:send", &fields, body).await;
    assert_eq!(answer.json()["task"]["id"], "m-0", "{}", answer.text());
    let answer = call(gateway.address, "POST", "/weather/message:send", &fields, body).await;
    assert_eq!(answer.json()["task"]["id"], "w-0");
    assert_eq!(weather.received()[0].json()["params"]["tenant"], "north");
    assert!(maps.received()[0].json()["params"].get("tenant").is_none());
    // The task tells its agent, whatever the tenant.
    let got = call(gateway.address, "GET", "/tasks/m-0", &fields, "").await;
    assert_eq!(got.json()["id"], "m-0", "{}", got.text());
    let unknown = call(gateway.address, "POST", "/nobody/message:send", &fields, body).await;
    assert_eq!(unknown.status, 400);
}

#[tokio::test]
async fn an_agent_of_http_json_gets_its_own_tenant_in_the_path() {
    use crate::harness::agent::{Agent, CARD_HTTP_JSON, Reply};
    let reply = r#"{"task":{"id":"h-0","contextId":"c","status":{"state":"TASK_STATE_WORKING"}}}"#;
    let card = CARD_HTTP_JSON.replace(r#""protocolBinding""#, r#""tenant":"the/north","protocolBinding""#);
    let rest = Agent::over_http_json(&card, move |_| Reply::Json(reply.to_owned())).await;
    let weather = making("w", super::WEATHER).await;
    let gateway = start(&yaml(&rest, &weather, "default: maps", "")).await;
    let fields = [
        ("X-API-Key", ANN),
        ("content-type", "application/json"),
        ("A2A-Version", "1.0"),
    ];
    let body = r#"{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"hi"}]},"x-odd":1.0e2}"#;
    for path in ["/maps/message:send", "/message:send"] {
        let answer = call(gateway.address, "POST", path, &fields, body).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    for received in rest.received() {
        assert_eq!(received.line(), "POST /the%2Fnorth/message:send");
        assert_eq!(received.body, body.as_bytes());
    }
    let got = call(
        gateway.address,
        "GET",
        "/maps/tasks/h-0?tenant=maps&historyLength=1",
        &fields,
        "",
    )
    .await;
    assert_ne!(got.status, 404, "{}", got.text());
    assert_eq!(rest.received()[2].line(), "GET /the%2Fnorth/tasks/h-0?historyLength=1");
}

#[tokio::test]
async fn tasks_and_contexts_bring_calls_to_their_agent() {
    let (maps, weather) = two().await;
    let gateway = start(&yaml(&maps, &weather, "default: weather", "")).await;
    let task = task_of(&by(ANN, &gateway, &sends(r#""tenant":"maps""#, "")).await);
    for method in ["GetTask", "CancelTask"] {
        let answer = by(ANN, &gateway, &of_task(method, &task)).await;
        assert_eq!(answer.json()["result"]["id"], *task, "{}", answer.text());
    }
    // Its context, too; a context that is not known begins one at the default.
    let follows = by(ANN, &gateway, &sends("", &format!(r#""contextId":"ctx-{task}""#))).await;
    assert_eq!(task_of(&follows), "m-1");
    let fresh = by(ANN, &gateway, &sends("", r#""contextId":"mine""#)).await;
    assert_eq!(task_of(&fresh), "w-0");
    assert_eq!(maps.received().len(), 4);
    // A task that was made at the agent's own address is found as well.
    let fields = [("X-API-Key", ANN), ("content-type", "application/json")];
    let direct = call(gateway.address, "POST", "/agents/maps", &fields, &sends("", "")).await;
    let answer = by(ANN, &gateway, &of_task("GetTask", &task_of(&direct))).await;
    assert_eq!(answer.json()["result"]["id"], "m-2");
}

#[tokio::test]
async fn rules_decide_before_the_default() {
    let (maps, weather) = two().await;
    let rules = r#"default: weather, rules: [
        { when: 'message.metadata.topic == "places"', agent: maps },
        { when: 'message.metadata.nothing.at.all == 1', agent: maps },
        { when: 'operation == "send" && principal.id == "key:bob"', agent: maps } ]"#;
    let gateway = start(&yaml(&maps, &weather, rules, "")).await;
    let topic = |topic: &str| sends("", &format!(r#""metadata":{{"topic":"{topic}"}}"#));
    assert_eq!(task_of(&by(ANN, &gateway, &topic("places")).await), "m-0");
    assert_eq!(task_of(&by(ANN, &gateway, &topic("storms")).await), "w-0");
    // Without metadata the first two cannot be evaluated.
    assert_eq!(task_of(&by(ANN, &gateway, &sends("", "")).await), "w-1");
    assert_eq!(task_of(&by(BOB, &gateway, &sends("", "")).await), "m-1");
    // What names an agent goes there, whatever the rules say.
    assert_eq!(
        task_of(&by(BOB, &gateway, &sends(r#""tenant":"weather""#, "")).await),
        "w-2"
    );
    for (choice, count) in [("rule", 2.0), ("default", 2.0), ("named", 1.0)] {
        let metric = format!(r#"a2a_gateway_front_door_calls_total{{choice="{choice}"}}"#);
        assert_eq!(gateway.metric(&metric).await, count, "{choice}");
    }
}

#[tokio::test]
async fn without_a_choice_the_agents_are_named_that_the_caller_may_call() {
    let (maps, weather) = two().await;
    let gateway = start(&yaml(&maps, &weather, "", "")).await;
    let answer = by(ANN, &gateway, &sends("", "")).await;
    assert_eq!(answer.code(), -32602);
    assert!(
        answer.text().contains("the agents are maps, weather:"),
        "{}",
        answer.text()
    );
    let fields = [
        ("X-Weather-Key", "carl-key"),
        ("content-type", "application/json"),
        ("A2A-Version", "1.0"),
    ];
    let answer = call(gateway.address, "POST", "/", &fields, &sends("", "")).await;
    assert!(answer.text().contains("the agents are weather:"), "{}", answer.text());
    // In every form: a status and a problem over HTTP+JSON.
    let body = r#"{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"hi"}]}}"#;
    let answer = call(gateway.address, "POST", "/message:send", &fields, body).await;
    assert_eq!(answer.status, 400);
    assert!(answer.text().contains("the agents are weather:"), "{}", answer.text());
    let unknown = by(ANN, &gateway, &sends(r#""tenant":"nobody""#, "")).await;
    assert_eq!(unknown.code(), -32602);
    assert!(
        unknown.text().contains("there is no agent of this name"),
        "{}",
        unknown.text()
    );
    let number = by(ANN, &gateway, &sends(&format!(r#""metadata":{{"{EXTENSION}":7}}"#), "")).await;
    assert_eq!(number.code(), -32602);
    // Carl may not call maps, although he came in.
    let refused = call(gateway.address, "POST", "/", &fields, &sends(r#""tenant":"maps""#, "")).await;
    assert_eq!(refused.status, 401, "{}", refused.text());
    assert!(maps.received().is_empty() && weather.received().is_empty());
}

#[tokio::test]
async fn others_tasks_are_as_unknown_as_those_that_do_not_exist() {
    let (maps, weather) = two().await;
    let gateway = start(&yaml(&maps, &weather, "", "")).await;
    let task = task_of(&by(ANN, &gateway, &sends(r#""tenant":"maps""#, "")).await);
    let theirs = by(BOB, &gateway, &of_task("GetTask", &task)).await;
    let nobodys = by(BOB, &gateway, &of_task("GetTask", "no-such-task")).await;
    assert_eq!(theirs.code(), -32001);
    assert_eq!(theirs.body, nobodys.body);
    let theirs = by(BOB, &gateway, &sends("", &format!(r#""contextId":"ctx-{task}""#))).await;
    let nobodys = by(BOB, &gateway, &sends("", r#""contextId":"no-such-context""#)).await;
    assert_eq!(theirs.body, nobodys.body);
    assert_eq!(maps.received().len(), 1);
}

#[tokio::test]
async fn tasks_of_one_id_are_told_apart_by_name() {
    let (maps, weather) = (making("t", super::MAPS).await, making("t", super::WEATHER).await);
    let gateway = start(&yaml(&maps, &weather, "default: maps", "")).await;
    for tenant in ["maps", "weather"] {
        let made = by(ANN, &gateway, &sends(&format!(r#""tenant":"{tenant}""#), "")).await;
        assert_eq!(task_of(&made), "t-0");
    }
    let either = by(ANN, &gateway, &of_task("GetTask", "t-0")).await;
    assert_eq!(either.code(), -32602);
    assert!(either.text().contains("several agents"), "{}", either.text());
    let named = r#"{"jsonrpc":"2.0","id":"c","method":"GetTask","params":{"id":"t-0","tenant":"weather"}}"#;
    let answer = by(ANN, &gateway, named).await;
    assert_eq!(answer.json()["result"]["id"], "t-0", "{}", answer.text());
    assert_eq!((maps.received().len(), weather.received().len()), (1, 2));
}

#[tokio::test]
async fn nobody_comes_in_whom_no_agent_takes() {
    let (maps, weather) = two().await;
    let front = "default: maps, limits: [ { per: address, rate: 2/h } ]";
    let gateway = start(&yaml(&maps, &weather, front, "")).await;
    for _ in 0..2 {
        let answer = by("wrong", &gateway, &sends("", "")).await;
        assert_eq!(answer.status, 401);
    }
    // Guesses cost their address something.
    let answer = by(ANN, &gateway, &sends("", "")).await;
    assert_eq!(answer.status, 429, "{}", answer.text());
    assert!(maps.received().is_empty());
    // The agents' own addresses have budgets of their own.
    let fields = [("X-API-Key", ANN), ("content-type", "application/json")];
    let direct = call(gateway.address, "POST", "/agents/maps", &fields, &sends("", "")).await;
    assert_eq!(direct.status, 200);
}

/// However much stands beside it.
#[tokio::test]
async fn an_agent_is_named_in_metadata_of_any_size() {
    let (maps, weather) = two().await;
    let gateway = start(&yaml(&maps, &weather, "default: maps, metadata_key: agent", "")).await;
    let big = "x".repeat(20_000);
    let metadata = format!(r#""metadata":{{"big":"{big}","agent":"weather"}}"#);
    let many: Vec<String> = (0..300).map(|number| format!(r#""k{number}":1"#)).collect();
    let many = format!(r#""metadata":{{{},"{EXTENSION}":"weather"}}"#, many.join(","));
    for body in [sends("", &metadata), sends(&metadata, ""), sends("", &many)] {
        assert!(task_of(&by(ANN, &gateway, &body).await).starts_with("w-"));
    }
    let differing = sends(&metadata, r#""metadata":{"agent":"maps"}"#);
    assert_eq!(by(ANN, &gateway, &differing).await.code(), -32602);
    let none = sends("", &format!(r#""metadata":{{"big":"{big}"}}"#));
    assert_eq!(task_of(&by(ANN, &gateway, &none).await), "m-0");
    // Over HTTP+JSON and gRPC the same.
    let fields = [
        ("X-API-Key", ANN),
        ("content-type", "application/json"),
        ("A2A-Version", "1.0"),
    ];
    let body = format!(r#"{{"message":{{"messageId":"m","role":"ROLE_USER","parts":[{{"text":"hi"}}],{metadata}}}}}"#);
    let sent = call(gateway.address, "POST", "/message:send", &fields, &body).await;
    assert_eq!(sent.json()["task"]["id"], "w-3", "{}", sent.text());
    let text: serde_json::Value = serde_json::from_str(&body).unwrap();
    let caller = crate::harness::caller::CALLERS.into_iter().find(|dialect| {
        dialect.binding == a2a_gateway::a2a::Binding::Grpc && dialect.generation == a2a_gateway::a2a::Generation::V1_0
    });
    let caller = crate::harness::caller::Caller(caller.unwrap());
    let sent = caller.ask(&gateway, a2a_gateway::a2a::Operation::Send, &text).await;
    assert_eq!(sent.unwrap()[0]["task"]["id"], "w-4");
}

/// What one reader takes for a tenant and another for a path, or which stands in two places, goes to nobody.
#[tokio::test]
async fn tenants_that_could_be_read_otherwise_go_nowhere() {
    let (maps, weather) = two().await;
    let gateway = start(&yaml(&maps, &weather, "default: weather", "")).await;
    let fields = [
        ("X-API-Key", ANN),
        ("content-type", "application/json"),
        ("A2A-Version", "1.0"),
    ];
    let message = r#""message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"hi"}]}"#;
    let plain = format!("{{{message}}}");
    let named = |tenant: &str| format!(r#"{{"tenant":"{tenant}",{message}}}"#);
    for (path, body) in [
        ("/%2e%2e/message:send", &plain),
        ("//message:send", &plain),
        ("/maps//message:send", &plain),
        ("/maps/%2e/message:send", &plain),
        ("/agents%2fmaps/message:send", &plain),
        ("/message%3Asend/", &plain),
        ("/maps/message:send?tenant=weather", &plain),
        ("/message:send?tenant=maps", &plain),
        ("/message:send?tenant=maps&tenant=weather", &plain),
        ("/maps/message:send", &named("weather")),
        ("/message:send", &named("maps")),
        (
            "/maps/message:send",
            &format!(r#"{{"tenant":"maps","tenant":"weather",{message}}}"#),
        ),
        ("/maps/message:send", &format!(r#"{{{message},{message}}}"#)),
    ] {
        let answer = call(gateway.address, "POST", path, &fields, body).await;
        assert!(
            matches!(answer.status, 400 | 404),
            "{path} {body}: {} {}",
            answer.status,
            answer.text()
        );
    }
    let twice = [
        r#"{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"tenant":"maps","tenant":"weather",MESSAGE}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"tenant":"maps",MESSAGE},"params":{MESSAGE}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"tenant":"maps","\u0074enant":"weather",MESSAGE}}"#,
        r#"[{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"tenant":"maps",MESSAGE}}]"#,
        r#"{"jsonrpc":"2.0","method":"SendMessage","params":{"tenant":"maps",MESSAGE}}"#,
    ];
    for body in twice {
        let answer = by(ANN, &gateway, &body.replace("MESSAGE", message)).await;
        assert!(
            answer.json()["error"]["code"].as_i64() < Some(-32000),
            "{body}: {}",
            answer.text()
        );
    }
    assert!(maps.received().is_empty() && weather.received().is_empty());
    // An empty one is none.
    for (path, body) in [("/message:send", named("")), ("/message:send?tenant=", plain)] {
        let answer = call(gateway.address, "POST", path, &fields, &body).await;
        assert_eq!(answer.status, 200, "{path} {body}: {}", answer.text());
    }
}
