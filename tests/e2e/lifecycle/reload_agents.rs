//! Another configuration under a running gateway: agents that come, go and change, and what they keep.

use std::net::SocketAddr;
use std::path::PathBuf;

use tempfile::TempDir;

use super::reload::{OK, REFUSED, replace};
use crate::harness::{Agent, Gateway, KEY_HASH, agent, call, eventually, get, of_task, post, send};

const FILE: &str = "gateway.yaml";

/// A gateway and the file that it was started with.
pub(super) struct Desk {
    pub folder: TempDir,
    pub gateway: Gateway,
}

impl Desk {
    pub async fn of(yaml: &str) -> Self {
        Self::in_folder(tempfile::tempdir().unwrap(), yaml).await
    }

    pub async fn in_folder(folder: TempDir, yaml: &str) -> Self {
        std::fs::write(folder.path().join(FILE), yaml).unwrap();
        let gateway = Gateway::from_file(&folder.path().join(FILE)).await;
        gateway.ready().await;
        Self { folder, gateway }
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().join(FILE)
    }

    pub async fn apply(&self, yaml: &str) {
        replace(self.folder.path(), FILE, yaml);
        assert!(self.gateway.reload().await, "it is refused:\n{yaml}");
    }

    pub async fn refuse(&self, yaml: &str) {
        let before = self.gateway.metric(REFUSED).await;
        replace(self.folder.path(), FILE, yaml);
        assert!(!self.gateway.reload().await, "it is applied:\n{yaml}");
        // The watch may have seen the file too.
        assert!(self.gateway.metric(REFUSED).await > before, "it is counted");
    }

    /// The status of a send to the agent under this path.
    pub async fn status(&self, path: &str) -> u16 {
        post(self.gateway.address, path, &send("1", "x")).await.status
    }

    pub async fn answers(&self, path: &str) {
        eventually("the agent answers", || async { self.status(path).await == 200 }).await;
    }
}

/// An agent of the file: its name, which is its path too, its endpoints, and more of its keys.
pub(super) type Entry<'a> = (&'a str, &'a [SocketAddr], &'a str);

pub(super) fn yaml(agents: &[Entry<'_>], top: &str) -> String {
    let mut text = format!(
        r#"
public_url: https://gateway.example
listeners: [ {{ name: public, address: "127.0.0.1:0" }} ]
admin: {{ address: "127.0.0.1:0" }}
state: {{ store: memory }}
log: {{ format: json }}
security_schemes:
  key: {{ type: apiKey, in: header, name: X-API-Key, keys: [ {{ id: tester, hash: "{KEY_HASH}" }} ] }}
security: [ {{ key: [] }} ]
{top}
agents:
"#
    );
    for (name, endpoints, more) in agents {
        let endpoints: Vec<String> = endpoints
            .iter()
            .map(|address| format!("{{ url: \"http://{address}/\" }}"))
            .collect();
        let endpoints = endpoints.join(", ");
        text.push_str(&format!(
            "  - name: {name}\n    path: /{name}\n    upstream: {{ endpoints: [ {endpoints} ] }}\n    {more}\n"
        ));
    }
    text
}

async fn tasks() -> Agent {
    Agent::start(agent::tasks(|| "t".to_owned())).await
}

#[tokio::test]
async fn an_agent_that_comes_is_served_and_one_that_goes_is_not() {
    let (a, b) = (tasks().await, tasks().await);
    let desk = Desk::of(&yaml(&[("a", &[a.address], "")], "")).await;
    assert_eq!((desk.status("/a").await, desk.status("/b").await), (200, 404));
    desk.apply(&yaml(&[("a", &[a.address], ""), ("b", &[b.address], "")], ""))
        .await;
    desk.answers("/b").await;
    assert_eq!(desk.status("/a").await, 200);
    desk.apply(&yaml(&[("b", &[b.address], "")], "")).await;
    assert_eq!((desk.status("/a").await, desk.status("/b").await), (404, 200));
    let card = get(desk.gateway.address, "/a/.well-known/agent-card.json").await;
    assert_eq!(card.status, 404, "its card went with it");
    let ready = get(desk.gateway.admin, "/ready").await.json();
    assert!(
        ready["agents"]["a"].is_null() && ready["agents"]["b"]["ready"] == true,
        "{ready}"
    );
    // The watch may have seen the files too.
    assert!(desk.gateway.metric(OK).await >= 2.0);
    let metrics = get(desk.gateway.admin, "/metrics").await.text();
    assert!(!metrics.contains("a2a_gateway_agent_ready{agent=\"a\"}"), "{metrics}");
    assert!(
        desk.gateway
            .metric("a2a_gateway_config_applied_timestamp_seconds")
            .await
            > 1.7e9
    );
    let shown = get(desk.gateway.admin, "/config").await.json();
    assert_eq!(shown["agents"][0]["name"], "b", "operators see what is in force");
}

#[tokio::test]
async fn a_changed_file_counts_without_being_asked_for() {
    let (a, b) = (tasks().await, tasks().await);
    let desk = Desk::of(&yaml(&[("a", &[a.address], "")], "")).await;
    replace(desk.folder.path(), FILE, &yaml(&[("b", &[b.address], "")], ""));
    desk.answers("/b").await;
    assert_eq!(desk.status("/a").await, 404);
    assert_eq!(desk.gateway.metric(OK).await, 1.0);
}

#[tokio::test]
async fn a_file_behind_a_symbolic_link_counts_when_its_folder_is_exchanged() {
    let (a, b) = (tasks().await, tasks().await);
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for (version, address) in [("one", a.address), ("two", b.address)] {
        std::fs::create_dir(at(version)).unwrap();
        std::fs::write(at(version).join(FILE), yaml(&[("agent", &[address], "")], "")).unwrap();
    }
    std::os::unix::fs::symlink("one", at("..data")).unwrap();
    std::os::unix::fs::symlink("..data/gateway.yaml", at(FILE)).unwrap();
    let gateway = Gateway::from_file(&at(FILE)).await;
    gateway.ready().await;
    std::os::unix::fs::symlink("two", at("..data_tmp")).unwrap();
    std::fs::rename(at("..data_tmp"), at("..data")).unwrap();
    eventually("the other agent is called", || async {
        post(gateway.address, "/agent", &send("1", "x")).await;
        !b.received().is_empty()
    })
    .await;
}

#[tokio::test]
async fn limits_count_from_the_next_request_on() {
    let a = tasks().await;
    let desk = Desk::of(&yaml(&[("a", &[a.address], "")], "")).await;
    let large = send("1", &"x".repeat(4096));
    let status = async || post(desk.gateway.address, "/a", &large).await.status;
    assert_eq!(status().await, 200);
    desk.apply(&yaml(&[("a", &[a.address], "body_bytes: 2KiB")], "")).await;
    assert_eq!(status().await, 413);
    desk.apply(&yaml(&[("a", &[a.address], "")], "limits: { body_bytes: 3KiB }"))
        .await;
    assert_eq!(status().await, 413);
    desk.apply(&yaml(&[("a", &[a.address], "")], "")).await;
    assert_eq!(status().await, 200);
}

#[tokio::test]
async fn a_changed_agent_keeps_its_budgets_unless_their_rules_change() {
    let a = tasks().await;
    let rules = |burst: u32| format!("limits: [ {{ per: agent, rate: 1/h, burst: {burst} }} ]");
    let with = |more: &str| yaml(&[("a", &[a.address], more)], "");
    let desk = Desk::of(&with(&rules(1))).await;
    assert_eq!((desk.status("/a").await, desk.status("/a").await), (200, 429));
    desk.apply(&with(&format!("body_bytes: 2KiB\n    {}", rules(1)))).await;
    assert_eq!(desk.status("/a").await, 429, "it is spent still");
    desk.apply(&with(&rules(2))).await;
    assert_eq!(
        (
            desk.status("/a").await,
            desk.status("/a").await,
            desk.status("/a").await
        ),
        (200, 200, 429),
        "another rule begins afresh"
    );
}

#[tokio::test]
async fn a_changed_agent_keeps_its_card_and_its_connections() {
    let a = tasks().await;
    let desk = Desk::of(&yaml(&[("a", &[a.address], "")], "")).await;
    assert_eq!(desk.status("/a").await, 200);
    let connections = a.connections();
    // It could not be had again.
    a.set_card("gone");
    desk.apply(&yaml(&[("a", &[a.address], "body_bytes: 2KiB")], "")).await;
    assert_eq!(desk.status("/a").await, 200, "ready from the first call on");
    assert_eq!(
        a.connections(),
        connections,
        "the upstream is the same, and so are its connections"
    );
    let other = "card: { overrides: { name: Other } }";
    desk.apply(&yaml(&[("a", &[a.address], other)], "")).await;
    let card = get(desk.gateway.address, "/a/.well-known/agent-card.json").await;
    assert_eq!(card.json()["name"], "Other", "published by the new rules");
    assert_eq!(a.cards(), 1, "nobody asked for it again");
}

#[tokio::test]
async fn an_agent_elsewhere_is_not_served_with_the_card_of_the_old_place() {
    let (a, b) = (tasks().await, tasks().await);
    b.set_card("none");
    let desk = Desk::of(&yaml(&[("a", &[a.address], "")], "")).await;
    desk.apply(&yaml(&[("a", &[b.address], "")], "")).await;
    let card = async || get(desk.gateway.address, "/a/.well-known/agent-card.json").await.status;
    assert_eq!(card().await, 503);
    desk.apply(&yaml(&[("a", &[b.address, a.address], "")], "")).await;
    eventually("there is one again", || async { card().await == 200 }).await;
}

#[tokio::test]
async fn a_scheme_that_comes_puts_an_agent_in_service_that_needs_it() {
    let card = agent::CARD.replace(
        "\"skills\":[]",
        "\"skills\":[],\"securitySchemes\":{\"late\":{\"apiKeySecurityScheme\":{\"location\":\"header\",\"name\":\"X-API-Key\"}}},\"securityRequirements\":[{\"schemes\":{\"late\":{\"list\":[]}}}]",
    );
    let (a, b) = (
        Agent::with_card(&card, agent::tasks(|| "t".to_owned())).await,
        tasks().await,
    );
    let both = |schemes: &str| {
        let text = yaml(
            &[
                ("a", &[a.address], ""),
                ("b", &[b.address], "security: [ { key: [] } ]"),
            ],
            "",
        );
        let text = text.replace("\nsecurity: [ { key: [] } ]\n", "\n");
        text.replace("\nsecurity_schemes:\n", &format!("\nsecurity_schemes:\n{schemes}"))
    };
    let desk = Desk::of(&both("")).await;
    assert_eq!((desk.status("/a").await, desk.status("/b").await), (503, 200));
    let late = format!(
        "  late: {{ type: apiKey, in: header, name: X-API-Key, keys: [ {{ id: l, hash: \"{KEY_HASH}\" }} ] }}\n"
    );
    desk.apply(&both(&late)).await;
    desk.answers("/a").await;
}

#[tokio::test]
async fn without_a_drain_the_tasks_of_a_removed_endpoint_have_no_owner_at_once() {
    let (one, other) = (
        Agent::start(agent::tasks(|| "first".to_owned())).await,
        Agent::start(agent::tasks(|| "second".to_owned())).await,
    );
    let of = |endpoints: &[SocketAddr]| yaml(&[("a", endpoints, "")], "drain: 0s");
    let desk = Desk::of(&of(&[one.address])).await;
    assert_eq!(desk.status("/a").await, 200);
    desk.apply(&of(&[other.address])).await;
    desk.answers("/a").await;
    let get = post(desk.gateway.address, "/a", &of_task("GetTask", "first")).await;
    assert_eq!((get.status, get.code()), (503, -31503), "{}", get.text());
    let get = post(desk.gateway.address, "/a", &of_task("GetTask", "second")).await;
    assert_eq!(get.status, 200, "{}", get.text());
    assert_eq!(one.received().len(), 1);
    desk.apply(&of(&[one.address, other.address])).await;
    let get = post(desk.gateway.address, "/a", &of_task("GetTask", "first")).await;
    assert_eq!(get.status, 200, "records outlive configurations: {}", get.text());
}

#[tokio::test]
async fn jobs_of_replaced_agents_end() {
    let (a, b) = (tasks().await, tasks().await);
    let at = |address: SocketAddr, more: &str| yaml(&[("a", &[address], more)], "drain: 100ms");
    let desk = Desk::of(&at(a.address, "")).await;
    // A question of the test may be one of them.
    let before = desk.gateway.services();
    for round in 0..20 {
        desk.apply(&at(a.address, if round % 2 == 0 { "body_bytes: 2KiB" } else { "" }))
            .await;
    }
    assert_eq!(a.cards(), 1, "one job asked, once");
    eventually("no job is left", || async { desk.gateway.services() <= before }).await;
    for _ in 0..10 {
        desk.apply(&at(b.address, "")).await;
        desk.answers("/a").await;
        desk.apply(&at(a.address, "")).await;
        desk.answers("/a").await;
    }
    eventually("none is left of other upstreams either", || async {
        desk.gateway.services() <= before
    })
    .await;
    eventually("their connections are closed", || async { b.open() == 0 }).await;
}

#[tokio::test]
async fn an_operators_drain_outlives_a_reload() {
    let (a, b, c) = (tasks().await, tasks().await, tasks().await);
    let desk = Desk::of(&yaml(&[("a", &[a.address, b.address], "")], "")).await;
    let set = async |what: &str, address: SocketAddr| {
        let path = format!("/agents/a/endpoints/{what}?url=http://{address}/");
        let json = [("content-type", "application/json")];
        assert_eq!(call(desk.gateway.admin, "POST", &path, &json, "").await.status, 200);
    };
    let draining = async || {
        let all = get(desk.gateway.admin, "/agents/a/endpoints").await.json();
        let list = all["endpoints"].as_array().unwrap().clone();
        list.iter().map(|one| one["draining"] == true).collect::<Vec<_>>()
    };
    set("drain", a.address).await;
    assert_eq!(draining().await, [true, false]);
    // The one that shall take its place.
    let three = yaml(&[("a", &[a.address, b.address, c.address], "")], "");
    desk.apply(&three).await;
    assert_eq!(draining().await, [true, false, false]);
    set("undrain", a.address).await;
    let of_file = three.replace(
        &format!("{}/\" }}", b.address),
        &format!("{}/\", drain: true }}", b.address),
    );
    desk.apply(&of_file).await;
    assert_eq!(draining().await, [false, true, false]);
    set("undrain", b.address).await;
    desk.apply(&of_file.replace(&format!(", {{ url: \"http://{}/\" }}", c.address), ""))
        .await;
    assert_eq!(
        draining().await,
        [false, false, true],
        "the operator spoke last; what is removed drains"
    );
}
