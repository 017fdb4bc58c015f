//! What changes under callers of the front door: the configuration, the gateway that they come to, and callers who leave.

use tokio::sync::mpsc;

use super::{ANN, MAPS, WEATHER, by, making, sends, start, task_of, yaml};
use crate::harness::agent::{Agent, Reply, task_event};
use crate::harness::client::{open, read};
use crate::harness::redis::Server;
use crate::harness::tasks::Tasks;
use crate::harness::{Gateway, OPEN, call, eventually, get, of_task};
use crate::lifecycle::program::Program;

/// A gateway and the file that it was started with.
struct Desk {
    folder: tempfile::TempDir,
    gateway: Gateway,
}

impl Desk {
    async fn of(yaml: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("gateway.yaml");
        std::fs::write(&file, yaml).unwrap();
        let gateway = Gateway::from_file(&file).await;
        gateway.ready().await;
        Self { folder, gateway }
    }

    async fn apply(&self, yaml: &str) {
        let next = self.folder.path().join("next");
        std::fs::write(&next, yaml).unwrap();
        std::fs::rename(next, self.folder.path().join("gateway.yaml")).unwrap();
        assert!(self.gateway.reload().await, "it is refused:\n{yaml}");
    }
}

const LIST: &str = r#"{"jsonrpc":"2.0","id":"l","method":"ListTasks","params":{}}"#;

fn page(size: usize, token: &str) -> String {
    LIST.replace("{}", &format!(r#"{{"pageSize":{size},"pageToken":"{token}"}}"#))
}

fn ids(answer: &crate::harness::Answer) -> Vec<String> {
    let json = answer.json();
    let tasks = json["result"]["tasks"].as_array().unwrap_or_else(|| panic!("{json}"));
    tasks
        .iter()
        .map(|task| task["id"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn what_is_under_way_stays_with_its_agent_whatever_a_reload_says() {
    let (pieces, stream) = mpsc::channel::<Option<String>>(4);
    let stream = std::sync::Mutex::new(Some(stream));
    let make = crate::harness::agent::tasks(|| "m-0".to_owned());
    let maps = Agent::with_card(MAPS, move |request| match request.json()["method"].as_str() {
        Some("SendStreamingMessage") => Reply::Stream(stream.lock().unwrap().take().expect("one stream")),
        _ => make(request),
    })
    .await;
    let weather = making("w", WEATHER).await;
    let before = yaml(&maps, &weather, "default: maps", "");
    let desk = Desk::of(&before).await;
    let fields = [
        ("X-API-Key", ANN),
        ("content-type", "application/json"),
        ("A2A-Version", "1.0"),
    ];
    let body = sends("", "").replace("SendMessage", "SendStreamingMessage");
    pieces.send(Some(task_event("1", "m-0"))).await.unwrap();
    let opened = open(desk.gateway.address, "POST", "/", &fields, &body).await;
    // The default is another one, and the agent behind no front door.
    desk.apply(&yaml(&maps, &weather, "default: weather, agents: [ weather ]", ""))
        .await;
    let got = by(ANN, &desk.gateway, &of_task("GetTask", "m-0")).await;
    assert_eq!(got.code(), -32001, "{}", got.text());
    assert_eq!(task_of(&by(ANN, &desk.gateway, &sends("", "")).await), "w-0");
    let last = r#"{"statusUpdate":{"taskId":"m-0","contextId":"ctx-m-0","status":{"state":"TASK_STATE_COMPLETED"}}}"#;
    let last = crate::harness::agent::event("1", last);
    pieces.send(Some(last)).await.unwrap();
    drop(pieces);
    let (text, clean) = read(opened).await;
    assert!(clean && text.contains("TASK_STATE_COMPLETED"), "{text}");
    // Behind it again, and not the default, it has its task.
    desk.apply(&yaml(&maps, &weather, "default: weather", "")).await;
    let got = by(ANN, &desk.gateway, &of_task("GetTask", "m-0")).await;
    assert_eq!(got.json()["result"]["id"], "m-0", "{}", got.text());
}

#[tokio::test]
async fn a_walk_goes_on_with_the_agents_that_are_left() {
    let maps = Agent::with_card(MAPS, Tasks::default().script("m")).await;
    let weather = Agent::with_card(WEATHER, Tasks::default().script("w")).await;
    let desk = Desk::of(&yaml(&maps, &weather, "", "")).await;
    for tenant in ["maps", "weather", "maps", "weather"] {
        by(ANN, &desk.gateway, &sends(&format!(r#""tenant":"{tenant}""#), "")).await;
    }
    let first = by(ANN, &desk.gateway, &page(1, "")).await;
    assert_eq!(ids(&first), ["m1"]);
    let token = first.json()["result"]["nextPageToken"].as_str().unwrap().to_owned();
    desk.apply(&yaml(&maps, &weather, "agents: [ weather ]", "")).await;
    let rest = by(ANN, &desk.gateway, &page(9, &token)).await;
    assert_eq!(ids(&rest), ["w1", "w0"], "{}", rest.text());
    desk.apply(&yaml(&maps, &weather, "agents: [ weather, maps ]", ""))
        .await;
    let rest = by(ANN, &desk.gateway, &page(9, &token)).await;
    assert_eq!(ids(&rest), ["w1", "m0", "w0"], "{}", rest.text());
    // Nothing that is left has what was to come.
    desk.apply(&yaml(&maps, &weather, "agents: [ maps ]", "")).await;
    let of_weather = by(ANN, &desk.gateway, &page(1, "")).await;
    let token = of_weather.json()["result"]["nextPageToken"]
        .as_str()
        .unwrap()
        .to_owned();
    desk.apply(&yaml(&maps, &weather, "agents: [ weather ]", "")).await;
    let none = by(ANN, &desk.gateway, &page(9, &token)).await;
    assert!(ids(&none).is_empty(), "{}", none.text());
    assert_eq!(none.json()["result"]["nextPageToken"], "");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_made_at_one_gateways_front_door_is_found_at_the_others() {
    let mut server = Server::start();
    let (maps, weather) = (making("m", MAPS).await, making("w", WEATHER).await);
    let state = format!(
        "state: {{ store: redis, redis: {{ url: \"{}\", timeout: 500ms }} }}",
        server.url()
    );
    let yaml = yaml(&maps, &weather, "default: weather", "policy: { task_owner: principal }")
        .replace("state: { store: memory }", &state)
        // Where tasks have no owners, an agent takes any context for a new one.
        .replace("path: /agents/weather", &format!("path: /agents/weather\n    {OPEN}"));
    let (one, other) = (start(&yaml).await, start(&yaml).await);
    let made = async || task_of(&by(ANN, &one, &sends(r#""tenant":"maps""#, "")).await);
    let (task, unseen) = (made().await, made().await);
    let got = by(ANN, &other, &of_task("GetTask", &task)).await;
    assert_eq!(got.json()["result"]["id"], *task, "{}", got.text());
    let context = |task: &str| sends("", &format!(r#""contextId":"ctx-{task}""#));
    let follows = by(ANN, &other, &context(&task)).await;
    assert!(task_of(&follows).starts_with("m-"), "{}", follows.text());
    // Nobody can be asked: what may be at one agent goes to no other.
    server.kill();
    let before = (maps.received().len(), weather.received().len());
    for body in [of_task("GetTask", &unseen), context(&unseen)] {
        let answer = by(ANN, &other, &body).await;
        assert_eq!(answer.status, 503, "{body}: {}", answer.text());
    }
    assert_eq!((maps.received().len(), weather.received().len()), before);
    // Who says where it is sent there.
    let named = of_task("GetTask", &unseen).replace(r#""params":{"#, r#""params":{"tenant":"weather","#);
    let answer = by(ANN, &other, &named).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(weather.received().len(), before.1 + 1);
    // What it knows itself goes on.
    let got = by(ANN, &other, &of_task("GetTask", &task)).await;
    assert_eq!(got.json()["result"]["id"], *task, "{}", got.text());
}

/// Nothing of a list goes on for a caller who left: its places are free, at the front door and at every agent.
#[tokio::test]
async fn who_leaves_a_list_has_its_places_again() {
    let silent = |request: &crate::harness::agent::Received| {
        match request.json()["method"].as_str() {
        Some("ListTasks") => Reply::Silence,
        _ => Reply::Json(
            r#"{"jsonrpc":"2.0","id":1,"result":{"task":{"id":"t","contextId":"c","status":{"state":"TASK_STATE_WORKING"}}}}"#
                .to_owned(),
        ),
    }
    };
    let (maps, weather) = (
        Agent::with_card(MAPS, silent).await,
        Agent::with_card(WEATHER, silent).await,
    );
    let limit = "limits: [ { per: principal, concurrent: 1 } ]";
    let gateway = start(&yaml(&maps, &weather, &format!("default: maps, {limit}"), limit)).await;
    let address = gateway.address;
    let caller = tokio::spawn(async move {
        let fields = [
            ("X-API-Key", ANN),
            ("content-type", "application/json"),
            ("A2A-Version", "1.0"),
        ];
        call(address, "POST", "/", &fields, LIST).await
    });
    eventually("both are asked", || async {
        maps.received().len() == 1 && weather.received().len() == 1
    })
    .await;
    let meanwhile = by(ANN, &gateway, &sends("", "")).await;
    assert_eq!(meanwhile.status, 429, "{}", meanwhile.text());
    caller.abort();
    eventually("its places are free", || async {
        by(ANN, &gateway, &sends("", "")).await.status == 200
    })
    .await;
}

/// Whoever asks again and again, the log is told once.
#[tokio::test]
async fn a_front_door_that_serves_nothing_says_so_once() {
    let (maps, weather) = (making("m", MAPS).await, making("w", WEATHER).await);
    maps.set_card(crate::harness::agent::CARD_0_3);
    let folder = tempfile::tempdir().unwrap();
    let text = yaml(&maps, &weather, "", "translate: false")
        .replace("path: /agents/weather", "path: /agents/weather\n    translate: false");
    let file = folder.path().join("gateway.yaml");
    std::fs::write(&file, text).unwrap();
    let mut program = Program::gateway(["run", "--config", file.to_str().unwrap()]);
    let (address, admin) = program.addresses().await;
    eventually("the agents are served", || async {
        get(admin, "/ready").await.status == 200
    })
    .await;
    for _ in 0..5 {
        let answer = call(address, "GET", "/.well-known/agent-card.json", &[], "").await;
        assert_eq!(answer.status, 503);
    }
    let ended = program.terminate().await;
    let told = format!("{}{}", ended.stdout, ended.stderr);
    assert_eq!(told.matches("the front door serves nothing").count(), 1, "{told}");
}
