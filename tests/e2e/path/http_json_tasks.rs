//! Whose tasks are, where they are, and which there are, at agents that speak HTTP+JSON alone.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::http_json_agents::{ask, by, rpc};
use super::ownership::{ANN, BOB, start};
use super::push::{self, notify, push, secret, secret_1_0, task_0_3, task_1_0, told, webhook};
use crate::harness::agent::{Agent, CARD_HTTP_JSON, CARD_HTTP_JSON_0_3, Received, Reply};
use crate::harness::client::{open, read};
use crate::harness::{Gateway, call, of_task};

const SEND: &str = r#"{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"x"}]}}"#;

fn task(id: &str, second: usize) -> Value {
    let status = json!({"state": "TASK_STATE_WORKING", "timestamp": format!("2026-01-01T00:00:{second:02}Z")});
    json!({"id": id, "contextId": format!("ctx-{id}"), "status": status})
}

fn not_found() -> Reply {
    let details = json!([{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "TASK_NOT_FOUND",
        "domain": "a2a-protocol.org"}]);
    let error = json!({"error": {"code": 404, "status": "NOT_FOUND", "message": "Task not found", "details": details}});
    Reply::Whole(404, "content-type: application/json\r\n", error.to_string())
}

/// An agent that makes tasks with this letter, lists them and knows no others.
async fn replica(name: &'static str) -> Agent {
    let made = AtomicUsize::new(0);
    Agent::over_http_json(CARD_HTTP_JSON, move |request| {
        let target = request.line().split_once(' ').unwrap().1;
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let count = made.load(Ordering::SeqCst);
        let all = || {
            (0..count)
                .rev()
                .map(|it| task(&format!("{name}{it}"), it))
                .collect::<Vec<_>>()
        };
        Reply::Json(match path {
            "/message:send" => {
                let task = task(&format!("{name}{count}"), count);
                made.fetch_add(1, Ordering::SeqCst);
                json!({ "task": task }).to_string()
            }
            "/tasks" => {
                let of = |name: &str| query.split('&').find_map(|it| it.strip_prefix(name));
                let size: usize = of("pageSize=").map_or(50, |size| size.parse().unwrap());
                let from: usize = of("pageToken=").map_or(0, |from| from.parse().unwrap());
                let tasks: Vec<_> = all().into_iter().skip(from).take(size).collect();
                let next = if from + size < count {
                    (from + size).to_string()
                } else {
                    String::new()
                };
                json!({"tasks": tasks, "nextPageToken": next, "pageSize": size, "totalSize": count}).to_string()
            }
            path => {
                let id = path.trim_start_matches("/tasks/").split(':').next().unwrap();
                match all().into_iter().find(|task| task["id"] == id) {
                    Some(task) => task.to_string(),
                    None => return not_found(),
                }
            }
        })
    })
    .await
}

fn id_of(answer: &crate::harness::Answer) -> String {
    answer.json()["task"]["id"]
        .as_str()
        .unwrap_or_else(|| panic!("{}", answer.text()))
        .to_owned()
}

fn ids(list: &Value) -> Vec<&str> {
    list["tasks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["id"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn calls_go_to_the_endpoint_that_made_their_task() {
    let agents = [replica("a").await, replica("b").await];
    let endpoints = [agents[0].address, agents[1].address];
    let gateway = Gateway::of(&endpoints, "", "").await;
    let mut tasks: Vec<String> = Vec::new();
    // Both are as good, so that chance may choose one for a while.
    let both = |tasks: &[String]| {
        let has = |name: &&str| tasks.iter().any(|task| task.starts_with(*name));
        ["a", "b"].iter().all(has)
    };
    while tasks.len() < 8 || (!both(&tasks) && tasks.len() < 100) {
        tasks.push(id_of(&ask(&gateway, "POST", "/message:send", SEND).await));
    }
    assert!(both(&tasks), "{tasks:?}");
    for task in &tasks {
        let got = ask(&gateway, "GET", &format!("/tasks/{task}"), "").await;
        assert_eq!((got.status, &got.json()["id"]), (200, &task.as_str().into()));
        let canceled = rpc(&gateway, &of_task("CancelTask", task)).await.json();
        assert_eq!(canceled["result"]["id"], task.as_str());
    }
    // What was made past the gateway is looked for at both.
    let gateway = Gateway::of(&endpoints, "policy: { task_owner: none }", "").await;
    for task in tasks.iter().take(3) {
        assert_eq!(
            rpc(&gateway, &of_task("GetTask", task)).await.json()["result"]["id"],
            task.as_str()
        );
        assert_eq!(
            ask(&gateway, "POST", &format!("/tasks/{task}:cancel"), "").await.status,
            200
        );
    }
    assert_eq!(ask(&gateway, "GET", "/tasks/nobodys", "").await.status, 404);
    assert_eq!(rpc(&gateway, &of_task("GetTask", "nobodys")).await.code(), -32001);
    let probed = agents[1]
        .received()
        .into_iter()
        .rfind(|it| it.line().contains("nobodys"))
        .unwrap();
    assert_eq!(probed.line(), "GET /tasks/nobodys?historyLength=0");
    assert_eq!(
        gateway
            .metric("a2a_gateway_probes_total{agent=\"agent\",result=\"unknown\"}")
            .await,
        2.0
    );
}

#[tokio::test]
async fn tasks_of_several_endpoints_are_one_list() {
    let agents = [replica("a").await, replica("b").await];
    let gateway = Gateway::of(&[agents[0].address, agents[1].address], "", "").await;
    let mut tasks = Vec::new();
    for _ in 0..7 {
        tasks.push(id_of(&ask(&gateway, "POST", "/message:send", SEND).await));
    }
    tasks.sort();
    let mut seen = Vec::new();
    let mut token = String::new();
    loop {
        let page = ask(&gateway, "GET", &format!("/tasks?pageSize=3&pageToken={token}"), "")
            .await
            .json();
        seen.extend(ids(&page).iter().map(ToString::to_string));
        token = page["nextPageToken"].as_str().unwrap().to_owned();
        if token.is_empty() {
            break;
        }
    }
    seen.sort();
    assert_eq!(seen, tasks);
    let list = r#"{"jsonrpc":"2.0","id":"l","method":"ListTasks","params":{"pageSize":20,"includeArtifacts":true}}"#;
    let listed = rpc(&gateway, list).await.json();
    let mut all = ids(&listed["result"]);
    all.sort_unstable();
    assert_eq!(
        (all, &listed["id"]),
        (tasks.iter().map(String::as_str).collect(), &"l".into())
    );
    let line = agents[0].received().pop().unwrap().line().to_owned();
    assert!(
        line.starts_with("GET /tasks?") && line.ends_with("&includeArtifacts=true"),
        "{line}"
    );
    let wrong = list.replace("true", "7");
    assert_eq!(rpc(&gateway, &wrong).await.code(), -32602);
}

#[tokio::test]
async fn tasks_belong_to_whoever_made_them() {
    let agent = replica("a").await;
    let gateway = start(&agent, "").await;
    let task = id_of(&by(ANN, &gateway, "POST", "/message:send", SEND).await);
    let path = format!("/tasks/{task}");
    assert_eq!(by(ANN, &gateway, "GET", &path, "").await.status, 200);
    let reached = agent.received().len();
    let into = SEND.replace(r#""parts""#, &format!(r#""taskId":"{task}","parts""#));
    let hook = r#"{"id":"p","url":"https://hook.example"}"#;
    let configs = format!("{path}/pushNotificationConfigs");
    let named = format!("{configs}/p");
    for (method, path, body) in [
        ("GET", path.clone(), ""),
        ("POST", format!("{path}:cancel"), ""),
        ("POST", format!("{path}:subscribe"), ""),
        ("GET", format!("{path}:subscribe"), ""),
        ("POST", "/message:send".to_owned(), &*into),
        ("POST", "/message:stream".to_owned(), &*into),
        ("POST", configs.clone(), hook),
        ("GET", configs.clone(), ""),
        ("GET", named.clone(), ""),
        ("DELETE", named, ""),
    ] {
        let got = by(BOB, &gateway, method, &path, body).await;
        assert_eq!(got.status, 404, "{method} {path}: {}", got.text());
        assert_eq!(got.json()["error"]["details"][0]["reason"], "TASK_NOT_FOUND");
    }
    assert_eq!(agent.received().len(), reached, "nothing of it reached the agent");
    assert_eq!(ids(&by(ANN, &gateway, "GET", "/tasks", "").await.json()), [&*task]);
    assert!(ids(&by(BOB, &gateway, "GET", "/tasks", "").await.json()).is_empty());
}

#[tokio::test]
async fn what_tells_of_somebody_elses_task_is_withheld() {
    let (sender, receiver) = mpsc::channel(4);
    let receiver = Mutex::new(Some(receiver));
    let first = AtomicUsize::new(0);
    let script = move |request: &Received| match request.line() {
        "POST /message:stream" => Reply::Stream(receiver.lock().unwrap().take().expect("one stream")),
        // Whatever is asked, and by whom.
        _ => {
            first.fetch_add(1, Ordering::SeqCst);
            Reply::Json(json!({"task": task("anns", 0)}).to_string())
        }
    };
    let agent = Agent::over_http_json(CARD_HTTP_JSON, script).await;
    let gateway = start(&agent, "").await;
    assert_eq!(by(ANN, &gateway, "POST", "/message:send", SEND).await.status, 200);
    let withheld = by(BOB, &gateway, "POST", "/message:send", SEND).await;
    assert_eq!(withheld.status, 502);
    assert!(!withheld.text().contains("anns"));
    let event = |id: &str| Some(format!("data: {}\n\n", json!({"task": task(id, 0)})));
    for id in ["bobs", "anns"] {
        sender.send(event(id)).await.unwrap();
    }
    let fields = [
        ("x-api-key", BOB),
        ("content-type", "application/json"),
        ("a2a-version", "1.0"),
    ];
    let response = open(gateway.address, "POST", "/agent/message:stream", &fields, SEND).await;
    let (text, clean) = read(response).await;
    assert_eq!((text, clean), (event("bobs").unwrap(), false));
    // The same to callers of JSON-RPC.
    let send = format!(r#"{{"jsonrpc":"2.0","id":"c","method":"SendMessage","params":{SEND}}}"#);
    let withheld = call(gateway.address, "POST", "/agent", &fields, &send).await;
    assert_eq!((withheld.status, withheld.code()), (502, -32006));
}

#[tokio::test]
async fn an_agent_of_0_3_says_by_its_status_that_there_is_no_task() {
    let knows = |name: &'static str| {
        Agent::over_http_json(CARD_HTTP_JSON_0_3, move |request| {
            let id = request.line().trim_start_matches("GET /v1/tasks/");
            if id.starts_with(name) {
                Reply::Json(task(id, 0).to_string())
            } else {
                Reply::Whole(
                    404,
                    "content-type: application/json\r\n",
                    r#"{"message":"Task not found"}"#.to_owned(),
                )
            }
        })
    };
    let agents = [knows("a").await, knows("b").await];
    let gateway = Gateway::of(
        &[agents[0].address, agents[1].address],
        "policy: { task_owner: none }",
        "",
    )
    .await;
    for id in ["a1", "b1", "b2"] {
        assert_eq!(
            ask(&gateway, "GET", &format!("/v1/tasks/{id}"), "").await.json()["id"],
            id
        );
        assert_eq!(rpc(&gateway, &of_task("GetTask", id)).await.json()["result"]["id"], id);
    }
    assert_eq!(ask(&gateway, "GET", "/v1/tasks/c1", "").await.status, 404);
}

/// The path of the gateway's address in what the agent was asked.
fn given(agent: &Agent) -> String {
    let text = agent.received().pop().expect("a call").json().to_string();
    assert!(!text.contains("s3cret") && !text.contains("hunter2"), "{text}");
    let (_, rest) = text.split_once("https://gateway.example").expect("an address");
    rest.split('"').next().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn webhooks_of_old_callers_hear_of_whole_tasks() {
    let agent = Agent::over_http_json(CARD_HTTP_JSON, |request| {
        Reply::Json(match request.line() {
            "POST /tasks/t1/pushNotificationConfigs" => request.json().to_string(),
            "GET /tasks/t1" => task_1_0("t1", "TASK_STATE_COMPLETED").to_string(),
            line => panic!("{line}"),
        })
    })
    .await;
    let hook = webhook().await;
    let gateway = Gateway::of(&[agent.address], "policy: { task_owner: none }", &push("")).await;
    let params = json!({"taskId": "t1", "pushNotificationConfig": secret(&hook)});
    let set = push::ask(&gateway, "tasks/pushNotificationConfig/set", &params).await;
    assert_eq!(set.json()["result"], params, "{}", set.text());
    let path = given(&agent);
    let update = json!({"taskId": "t1", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}});
    let answered = notify(&gateway, &path, &json!({"statusUpdate": update})).await;
    assert_eq!(answered.status, 200, "{}", answered.text());
    assert_eq!(told(&hook).json(), task_0_3("t1", "completed"));
    let asked = agent.received().pop().expect("a get");
    assert_eq!(
        (asked.line(), asked.field("a2a-version"), asked.body.len()),
        ("GET /tasks/t1", Some("1.0"), 0)
    );
}

#[tokio::test]
async fn webhooks_of_new_callers_hear_of_tasks_of_old_agents() {
    let agent = Agent::over_http_json(CARD_HTTP_JSON_0_3, |request| match request.line() {
        "POST /v1/tasks/t1/pushNotificationConfigs" => Reply::Json(request.json()["config"].to_string()),
        line => panic!("{line}"),
    })
    .await;
    let hook = webhook().await;
    let gateway = Gateway::of(&[agent.address], "policy: { task_owner: none }", &push("")).await;
    let mut params = secret_1_0(&hook);
    params["taskId"] = json!("t1");
    let set = push::ask(&gateway, "CreateTaskPushNotificationConfig", &params).await;
    assert_eq!(set.json()["result"], params, "{}", set.text());
    // Servers of 0.3 post tasks as JSON-RPC has them, in whichever binding they are called.
    let answered = notify(&gateway, &given(&agent), &task_0_3("t1", "completed")).await;
    assert_eq!(answered.status, 200, "{}", answered.text());
    let heard = told(&hook).json();
    assert_eq!(heard, json!({"task": task_1_0("t1", "TASK_STATE_COMPLETED")}));
}
