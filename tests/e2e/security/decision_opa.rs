//! Open Policy Agent as a decision point: its REST API, "Data API", "Get a Document (with Input)". Who is allowed what, and that
//! nothing but a clear yes in time lets a call through.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use a2a_gateway::a2a::{Binding, Dialect, Generation, Operation};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::decisions::{Desk, NOT_ALLOWED, PLACE, TOKEN, UNAVAILABLE, config, message, message_in, section};
use super::{Server, Site};
use crate::harness::agent::{self, Agent, CARD_HYBRID, Reply};
use crate::harness::authority::Authority;
use crate::harness::caller::Caller;
use crate::harness::{Gateway, call, config_of, eventually, get, of_task};
use crate::path::ownership::{ANN, BOB, by, with_keys};

async fn desk(policy: &str, more: &str) -> Desk {
    Desk::start("opa", policy, more).await
}

fn yes() -> Value {
    json!({ "result": true })
}

fn no() -> Value {
    json!({ "result": false })
}

/// What the questions so far were told.
fn inputs(server: &Server) -> Vec<Value> {
    let questions = server.questions(PLACE);
    questions
        .iter()
        .map(|question| question.json()["input"].clone())
        .collect()
}

#[tokio::test]
async fn the_service_is_told_of_the_call_and_nothing_that_its_caller_showed() {
    let desk = desk("task_owner: none, skill: skill", "claims: [ tenant ]").await;
    desk.server.says(PLACE, 200, yes());
    let metadata = json!({ "skill": "forecast", "pin": [1, { "x": null }] });
    desk.allows("yes", &desk.call(ANN, &message_in("c1", &metadata)).await);
    let questions = desk.server.questions(PLACE);
    assert_eq!(questions.len(), 1);
    let question = &questions[0];
    assert_eq!(question.line(), format!("POST {PLACE}"));
    assert_eq!(question.field("content-type"), Some("application/json"));
    assert_eq!(question.field("authorization"), Some(&*format!("Bearer {TOKEN}")));
    let body = question.json();
    let mut input = body["input"].clone();
    let time = input["time"].take();
    let time: jiff::Timestamp = time.as_str().unwrap().parse().expect("RFC 3339");
    assert!(time.as_second() > 1_700_000_000);
    let address = "127.0.0.1";
    let expected = json!({
        "principal": { "id": "key:ann", "name": "ann", "issuer": "", "anonymous": false, "schemes": ["key"], "scopes": [], "groups": [], "claims": { "tenant": "acme" } },
        "agent": { "name": "agent" },
        "operation": "send",
        "generation": "1.0",
        "binding": "JSONRPC",
        "skill": "forecast",
        "task": { "id": "", "context": "c1", "references": [], "owner": "", "state": "" },
        "message": { "metadata": metadata },
        "source": { "address": address, "listener": "public", "tls": false },
        "time": null,
    });
    assert_eq!(input, expected);
    assert_eq!(body.as_object().unwrap().len(), 1, "nothing beside the input");
    let text = format!("{}{}", question.head, String::from_utf8_lossy(&question.body));
    assert!(!text.contains(ANN) && !text.contains("hidden"), "{text}");
    // The token is the service's alone.
    for received in desk.site.agent.received() {
        assert!(!received.head.contains(TOKEN), "{}", received.head);
    }
    desk.site.hides(TOKEN).await;
    assert_eq!(desk.decisions("allowed").await, 1.0);
    // Groups are told, other claims not.
    desk.allows("yes", &desk.send(BOB, "x").await);
    let principal = inputs(&desk.server).pop().unwrap()["principal"].take();
    assert_eq!(principal["groups"], json!(["ops", "dev"]));
    assert_eq!(principal["claims"], json!({ "tenant": "other" }));
}

/// The answers of the Data API: `result` is the rule's value, and is not there where the rule is undefined.
#[tokio::test]
async fn only_the_boolean_true_allows() {
    let desk = desk("task_owner: none", "timeout: 10s").await;
    let said = |text: &str| text.to_owned();
    let unclear = |what, status, body: String| (what, status, body, false);
    let denied = |what, body: String| (what, 200, body, true);
    let cases = [
        denied("false", no().to_string()),
        denied("a package that does not allow", said(r#"{"result":{"allow":false}}"#)),
        denied("undefined", said("{}")),
        denied("undefined, with an id", said(r#"{"decision_id":"4ca6"}"#)),
        denied("a package without the rule", said(r#"{"result":{"deny":[]}}"#)),
        unclear("a list of true", 200, said(r#"{"result":[true]}"#)),
        unclear("a text", 200, said(r#"{"result":"true"}"#)),
        unclear("a number", 200, said(r#"{"result":1}"#)),
        unclear("null", 200, said(r#"{"result":null}"#)),
        unclear("a package in a list", 200, said(r#"{"result":[{"allow":true}]}"#)),
        unclear("a text in a package", 200, said(r#"{"result":{"allow":"true"}}"#)),
        unclear("a list in a package", 200, said(r#"{"result":{"allow":[true]}}"#)),
        unclear("null in a package", 200, said(r#"{"result":{"allow":null}}"#)),
        unclear("deeper", 200, said(r#"{"result":{"allow":{"allow":true}}}"#)),
        unclear("two results", 200, said(r#"{"result":false,"result":true}"#)),
        unclear("two rules", 200, said(r#"{"result":{"allow":false,"allow":true}}"#)),
        unclear("the value alone", 200, said("true")),
        unclear("a list", 200, said("[true]")),
        unclear("a list of a result", 200, said(r#"[{"result":true}]"#)),
        unclear("nothing", 200, String::new()),
        unclear("a page", 200, said("<html>")),
        unclear("more behind it", 200, said(r#"{"result":true} {}"#)),
        unclear("cut off", 200, said(r#"{"result":true"#)),
        unclear(
            "too much",
            200,
            json!({ "result": true, "x": "x".repeat(64 * 1024) }).to_string(),
        ),
        unclear("a server that fails", 500, yes().to_string()),
        unclear("a busy server", 503, yes().to_string()),
        unclear("created", 201, yes().to_string()),
        unclear("no content", 204, String::new()),
        unclear("a redirect", 307, yes().to_string()),
        unclear("a refused token", 401, yes().to_string()),
        unclear("a wrong path", 404, yes().to_string()),
    ];
    for (what, status, body, is_denial) in &cases {
        desk.server.says(PLACE, *status, body);
        let answer = desk.send(ANN, "x").await;
        match is_denial {
            true => desk.denies(what, &answer).await,
            false => desk.cannot_tell(what, &answer, "no_answer").await,
        }
    }
    assert_eq!(desk.asked(), cases.len());
    assert_eq!(desk.reached(), 0, "none of them reaches the agent");
    assert_eq!(
        (desk.decisions("denied").await, desk.decisions("failed").await),
        (5.0, 26.0)
    );
    for body in [
        r#"{"result":true}"#,
        r#"{"result":{"allow":true,"reasons":[]}}"#,
        r#" {"decision_id":"4ca6", "result" : true }"#,
    ] {
        desk.server.says(PLACE, 200, body);
        desk.allows(body, &desk.send(ANN, "x").await);
    }
    assert_eq!((desk.reached(), desk.decisions("allowed").await), (3, 3.0));
}

#[tokio::test]
async fn without_an_answer_in_time_nothing_is_allowed() {
    let desk = desk("task_owner: none", "timeout: 100ms").await;
    desk.server.does(PLACE, |_| Reply::Silence);
    desk.cannot_tell("slow", &desk.send(ANN, "x").await, "no_answer").await;
    desk.server.does(PLACE, |_| {
        Reply::Raw(b"HTTP/1.1 200 OK\r\ncontent-length: 15\r\n\r\n{\"resu".to_vec())
    });
    desk.cannot_tell("broken off", &desk.send(ANN, "x").await, "no_answer")
        .await;
    desk.server.does(PLACE, |_| Reply::Raw(b"no HTTP\r\n\r\n".to_vec()));
    desk.cannot_tell("no HTTP", &desk.send(ANN, "x").await, "no_answer")
        .await;
    let Desk { site, server } = desk;
    drop(server);
    let answer = by(ANN, &site.gateway, &message("x")).await;
    assert_eq!((answer.status, answer.code()), (503, UNAVAILABLE), "nobody listens");
    assert_eq!(site.agent.received().len(), 0);
}

#[tokio::test]
async fn what_was_said_is_remembered_where_the_configuration_says_so() {
    let desk = desk("task_owner: none", "cache_ttl: 1h").await;
    desk.server.says(PLACE, 200, yes());
    for text in ["x", "y", "z"] {
        desk.allows(
            "remembered, whatever is said in the message",
            &desk.send(ANN, text).await,
        );
    }
    assert_eq!(desk.asked(), 1);
    desk.server.says(PLACE, 200, no());
    desk.allows("still", &desk.send(ANN, "x").await);
    for _ in 0..2 {
        desk.denies("another caller", &desk.send(BOB, "x").await).await;
    }
    assert_eq!(desk.asked(), 2, "a no is remembered, too");
    desk.denies("another operation", &desk.call(ANN, &of_task("GetTask", "t1")).await)
        .await;
    desk.denies("another context", &desk.call(ANN, &message_in("c", &json!({}))).await)
        .await;
    desk.denies(
        "other metadata",
        &desk.call(ANN, &message_in("c", &json!({ "a": 1 }))).await,
    )
    .await;
    assert_eq!(desk.asked(), 5);
    // What says nothing is not remembered, and takes nothing away.
    desk.server.says(PLACE, 500, "");
    for _ in 0..2 {
        let answer = desk.call(ANN, &of_task("GetTask", "t2")).await;
        desk.cannot_tell("no answer", &answer, "no_answer").await;
    }
    assert_eq!(desk.asked(), 7);
    desk.allows("while the service is away", &desk.send(ANN, "x").await);
    assert_eq!(desk.asked(), 7);
}

#[tokio::test]
async fn what_was_said_holds_for_the_cache_ttl_and_no_longer() {
    let short = desk("task_owner: none", "cache_ttl: 100ms").await;
    short.server.says(PLACE, 200, yes());
    short.allows("before", &short.send(ANN, "x").await);
    short.server.says(PLACE, 200, no());
    eventually("the call is denied", || async {
        short.send(ANN, "x").await.status == 403
    })
    .await;
    short.server.says(PLACE, 200, yes());
    eventually("and allowed again", || async {
        short.send(ANN, "x").await.status == 200
    })
    .await;
}

#[tokio::test]
async fn by_default_every_call_is_asked_about() {
    let desk = desk("task_owner: none", "").await;
    desk.server.says(PLACE, 200, yes());
    for count in 1..=3 {
        desk.allows("yes", &desk.send(ANN, "x").await);
        assert_eq!(desk.asked(), count);
    }
    desk.server.says(PLACE, 200, no());
    desk.denies("at once", &desk.send(ANN, "x").await).await;
}

#[tokio::test]
async fn equal_calls_share_one_question_where_answers_are_remembered() {
    let desk = desk("task_owner: none", "cache_ttl: 1h, timeout: 15s").await;
    let (answer, coming) = oneshot::channel();
    let coming = std::sync::Mutex::new(Some(coming));
    desk.server.does(PLACE, move |_| {
        Reply::Later(coming.lock().unwrap().take().expect("one question"))
    });
    let desk = Arc::new(desk);
    let mut calls = JoinSet::new();
    for _ in 0..20 {
        let desk = desk.clone();
        calls.spawn(async move { desk.send(ANN, "x").await });
    }
    eventually("a question", || async { desk.asked() == 1 }).await;
    answer.send(yes().to_string()).unwrap();
    while let Some(answer) = calls.join_next().await {
        desk.allows("one of many", &answer.unwrap());
    }
    assert_eq!((desk.asked(), desk.reached()), (1, 20));
}

#[tokio::test]
async fn one_address_gets_a_quarter_of_the_questions_and_one_more_is_not_asked() {
    let desk = desk("task_owner: none", "concurrent: 8, timeout: 60s").await;
    desk.server.does(PLACE, |_| Reply::Silence);
    let desk = Arc::new(desk);
    let mut stuck = JoinSet::new();
    for _ in 0..2 {
        let desk = desk.clone();
        stuck.spawn(async move { desk.send(ANN, "x").await });
    }
    eventually("two questions", || async { desk.asked() == 2 }).await;
    desk.cannot_tell("one too many", &desk.send(BOB, "x").await, "too_many_questions")
        .await;
    assert_eq!((desk.asked(), desk.decisions("refused").await), (2, 1.0));
    // Whoever waited left, so there are places again.
    stuck.shutdown().await;
    desk.server.says(PLACE, 200, yes());
    eventually("the places are free", || async {
        desk.send(BOB, "x").await.status == 200
    })
    .await;
}

#[tokio::test]
async fn callers_of_every_dialect_are_asked_about_and_told() {
    let server = Server::start().await;
    let agent = Agent::start(agent::tasks(|| "t1".to_owned())).await;
    let yaml = config(agent.address, "task_owner: none", &section("opa", &server, ""));
    let gateway = Gateway::start(&yaml.replace("path: /agent", "path: /")).await;
    gateway.ready().await;
    let sent = json!({ "message": { "messageId": "m", "role": "ROLE_USER", "parts": [{ "text": "x" }] } });
    let mut asked = 0;
    for binding in Binding::ALL {
        for generation in Generation::SPOKEN {
            let what = format!("{generation} {binding:?}");
            let caller = Caller(Dialect { generation, binding });
            let before = agent.received().len();
            for status in [200, 500] {
                server.says(PLACE, status, no());
                let refused = caller.by(ANN, &gateway, Operation::Send, &sent).await;
                assert!(refused.is_err(), "{what}: {refused:?}");
            }
            assert_eq!(agent.received().len(), before, "{what}");
            server.says(PLACE, 200, yes());
            let allowed = caller.by(ANN, &gateway, Operation::Send, &sent).await;
            assert!(allowed.is_ok(), "{what}: {allowed:?}");
            let inputs = inputs(&server);
            assert_eq!(inputs.len(), asked + 3, "{what}");
            asked = inputs.len();
            let input = inputs.last().unwrap();
            let told = (&input["generation"], &input["binding"], &input["operation"]);
            let wanted = (&json!(generation.as_str()), &json!(binding.as_str()), &json!("send"));
            assert_eq!(told, wanted);
        }
    }
    server.says(PLACE, 500, no());
    let fields = [
        ("x-api-key", ANN),
        ("a2a-version", "1.0"),
        ("content-type", "application/json"),
    ];
    let answer = call(gateway.address, "POST", "/message:send", &fields, &sent.to_string()).await;
    assert_eq!(answer.status, 503, "{}", answer.text());
    assert_eq!(
        answer.json()["error"]["details"][0]["reason"],
        "DECISION_UNAVAILABLE",
        "{}",
        answer.text()
    );
}

#[tokio::test]
async fn a_caller_of_0_1_is_asked_about() {
    let server = Server::start().await;
    let agent = Agent::with_card(CARD_HYBRID, agent::tasks(|| "t1".to_owned())).await;
    let more = "v0_1: true\n    policy: { decision_point: p }";
    let yaml = with_keys(&config_of(&[agent.address], more, &section("opa", &server, "")));
    let gateway = Gateway::start(&yaml).await;
    gateway.ready().await;
    let sent = json!({ "id": "mine", "message": { "role": "user", "parts": [{ "type": "text", "text": "x" }] } });
    let sent = json!({ "jsonrpc": "2.0", "id": "r", "method": "tasks/send", "params": sent }).to_string();
    server.says(PLACE, 200, no());
    let denied = by(ANN, &gateway, &sent).await;
    assert_eq!((denied.status, denied.code()), (403, NOT_ALLOWED), "{}", denied.text());
    assert_eq!(agent.received().len(), 0);
    server.says(PLACE, 200, yes());
    let allowed = by(ANN, &gateway, &sent).await;
    assert_eq!(allowed.json()["result"]["id"], "mine", "{}", allowed.text());
    let input = inputs(&server).pop().unwrap();
    assert_eq!(
        (&input["generation"], &input["operation"]),
        (&json!("0.1"), &json!("send"))
    );
}

/// A2A 1.0 §13.1: others' tasks do not exist, so nobody is asked about them.
#[tokio::test]
async fn others_tasks_do_not_exist_for_the_service_either() {
    let desk = desk("", "").await;
    desk.server.says(PLACE, 200, yes());
    desk.allows("made", &desk.send(ANN, "x").await);
    assert_eq!(desk.asked(), 1);
    let foreign = desk.call(BOB, &of_task("GetTask", "t1")).await;
    let unknown = desk.call(BOB, &of_task("GetTask", "t2")).await;
    assert_eq!((foreign.code(), unknown.code()), (-32001, -32001));
    assert_eq!(foreign.body, unknown.body);
    assert_eq!(desk.asked(), 1, "nobody is asked");
    desk.allows("her own", &desk.call(ANN, &of_task("GetTask", "t1")).await);
    let input = inputs(&desk.server).pop().unwrap();
    let task = json!({ "id": "t1", "context": "", "references": [], "owner": "key:ann", "state": "working" });
    assert_eq!((&input["task"], &input["operation"]), (&task, &json!("get")));
    assert_eq!(input["message"], json!({ "metadata": {} }), "a get has no message");
    // A list is asked about once, whatever it shows.
    let list = r#"{"jsonrpc":"2.0","id":"c","method":"ListTasks","params":{}}"#;
    desk.server.says(PLACE, 200, no());
    desk.denies("a list", &desk.call(ANN, list).await).await;
    assert_eq!(desk.asked(), 3);
    let card = r#"{"jsonrpc":"2.0","id":"c","method":"GetExtendedAgentCard"}"#;
    desk.denies("the extended card", &desk.call(ANN, card).await).await;
    assert_eq!(inputs(&desk.server).pop().unwrap()["operation"], "extended-card");
    let public = get(desk.site.address(), "/agent/.well-known/agent-card.json").await;
    assert_eq!(
        (public.status, desk.asked()),
        (200, 4),
        "the public card is everybody's"
    );
}

#[tokio::test]
async fn what_the_rules_refuse_is_not_asked_about() {
    let rules =
        "task_owner: none, allow: [ { name: ops, when: \"'ops' in principal.groups\" }, { operations: [ get ] } ]";
    let desk = desk(rules, "").await;
    desk.server.says(PLACE, 200, yes());
    let refused = desk.send(ANN, "x").await;
    assert_eq!((refused.status, desk.asked()), (403, 0));
    assert_eq!(desk.site.record(&refused).await["detail"], "no_rule");
    let allowed = desk.send(BOB, "x").await;
    desk.allows("both", &allowed);
    assert_eq!(desk.site.record(&allowed).await["rule"], "ops");
    desk.server.says(PLACE, 200, no());
    desk.denies("the rules alone", &desk.send(BOB, "x").await).await;
    assert_eq!((desk.asked(), desk.reached()), (2, 1));
}

/// Who counts questions and answers with `allowed` for each.
fn counted(server: &Server, place: &'static str, allowed: &'static [bool]) -> Arc<AtomicUsize> {
    let count = Arc::new(AtomicUsize::new(0));
    let at = count.clone();
    server.does(place, move |_| {
        let said = allowed[at.fetch_add(1, Ordering::SeqCst)];
        Reply::Json(json!({ "result": said }).to_string())
    });
    count
}

#[tokio::test]
async fn the_listeners_decision_point_and_the_agents_must_both_allow() {
    let server = Server::start().await;
    let agent = Agent::start(agent::tasks(|| "t1".to_owned())).await;
    let points = format!(
        "decision_points: {{ p: {{ kind: opa, url: \"{}\" }}, q: {{ kind: opa, url: \"{}\" }} }}",
        server.url("/p"),
        server.url("/q")
    );
    let yaml = config(agent.address, "task_owner: none", &points);
    let with_listener = |point: &str| {
        let plain = "{ name: public, address: \"127.0.0.1:0\"";
        assert!(yaml.contains(plain));
        yaml.replace(plain, &format!("{plain}, policy: {{ decision_point: {point} }}"))
    };
    let gateway = Gateway::start(&with_listener("q")).await;
    gateway.ready().await;
    let site = Site { gateway, agent };
    let (p, q) = (
        counted(&server, "/p", &[true, false]),
        counted(&server, "/q", &[true, true, false]),
    );
    let status = || async { by(ANN, &site.gateway, &message("x")).await.status };
    assert_eq!(status().await, 200);
    assert_eq!((p.load(Ordering::SeqCst), q.load(Ordering::SeqCst)), (1, 1));
    assert_eq!(status().await, 403, "the agent's denies");
    assert_eq!(status().await, 403, "the listener's denies");
    assert_eq!(
        (p.load(Ordering::SeqCst), q.load(Ordering::SeqCst)),
        (2, 3),
        "and the agent's is not asked"
    );
    let records = site.gateway.access(3).await;
    let rules: Vec<_> = records.iter().map(|record| record["rule"].as_str().unwrap()).collect();
    assert_eq!(rules, ["decision_point:p", "decision_point:p", "decision_point:q"]);
    assert_eq!(site.agent.received().len(), 1);
    // One that both name is asked once.
    let gateway = Gateway::start(&with_listener("p")).await;
    gateway.ready().await;
    let p = counted(&server, "/p", &[true]);
    assert_eq!(by(ANN, &gateway, &message("x")).await.status, 200);
    assert_eq!(p.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_message_whose_metadata_cannot_be_told_is_refused() {
    let desk = desk("task_owner: none", "").await;
    desk.server.says(PLACE, 200, yes());
    let large: Vec<u32> = vec![0; 300];
    let answer = desk.call(ANN, &message_in("c", &json!({ "large": large }))).await;
    assert_eq!(answer.code(), -32602, "{}", answer.text());
    assert_eq!((desk.asked(), desk.reached()), (0, 0));
}

#[tokio::test]
async fn over_tls_only_who_the_ca_vouches_for_is_asked() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let acceptor = authority.open_server("localhost");
    let server = Agent::over_tls(acceptor, |_| Reply::Json(yes().to_string())).await;
    let folder = tempfile::tempdir().unwrap();
    let ca = folder.path().join("ca.pem");
    let believe = |authority: &Authority| {
        std::fs::copy(authority.folder.path().join("ca.pem"), &ca).unwrap();
    };
    believe(&stranger);
    let agent = Agent::start(agent::tasks(|| "t1".to_owned())).await;
    let points = format!(
        "decision_points: {{ p: {{ kind: opa, url: \"https://localhost:{}{PLACE}\", ca: \"{}\", token: {TOKEN}, timeout: 10s }} }}",
        server.address.port(),
        ca.display()
    );
    let gateway = Gateway::start(&config(agent.address, "task_owner: none", &points)).await;
    gateway.ready().await;
    assert_eq!(by(ANN, &gateway, &message("x")).await.status, 503);
    assert_eq!(server.received().len(), 0, "the token did not go there");
    believe(&authority);
    assert!(gateway.reload().await);
    assert_eq!(by(ANN, &gateway, &message("x")).await.status, 200);
    assert_eq!(server.received().len(), 1);
}

#[tokio::test]
async fn a_new_token_is_shown_after_a_reload() {
    let server = Server::start().await;
    server.says(PLACE, 200, yes());
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    std::fs::write(&token, "old\n").unwrap();
    let agent = Agent::start(agent::tasks(|| "t1".to_owned())).await;
    let points = section("opa", &server, "").replace(
        &format!("token: {TOKEN}"),
        &format!("token_file: \"{}\"", token.display()),
    );
    let gateway = Gateway::start(&config(agent.address, "task_owner: none", &points)).await;
    gateway.ready().await;
    let shown = || async {
        assert_eq!(by(ANN, &gateway, &message("x")).await.status, 200);
        let question = server.questions(PLACE).pop().unwrap();
        question.field("authorization").unwrap().to_owned()
    };
    assert_eq!(shown().await, "Bearer old");
    std::fs::write(&token, "new\n").unwrap();
    assert!(gateway.reload().await);
    assert_eq!(shown().await, "Bearer new");
    std::fs::write(&token, "").unwrap();
    assert!(!gateway.reload().await, "an empty token is refused");
    assert_eq!(shown().await, "Bearer new");
}
