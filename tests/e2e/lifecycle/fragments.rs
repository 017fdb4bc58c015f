//! Agents from a folder of files, under a running gateway: they come, change and go, and a bad one takes nobody down.

use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::binary::run;
use super::program::Program;
use super::reload::{OK, REFUSED, replace};
use crate::harness::agent::tasks;
use crate::harness::{Agent, Gateway, KEY_HASH, eventually, get, post, send};

pub(super) const METRIC: &str = "a2a_gateway_fragments_refused";

pub(super) async fn agent() -> Agent {
    Agent::start(tasks(|| "t".to_owned())).await
}

pub(super) fn main(own: &str) -> String {
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
agents_directory: conf.d
agents: [ {own} ]
"#
    )
}

pub(super) fn entry(name: &str, address: SocketAddr, more: &str) -> String {
    format!(
        "{{ name: {name}, path: /{name}, upstream: {{ endpoints: [ {{ url: \"http://{address}/\" }} ] }}, {more} }}"
    )
}

/// An agent of whose file the certificate authority is missing, which is found out where that is read.
fn trusting(name: &str) -> String {
    let address = ([127, 0, 0, 1], 1).into();
    let plain = entry(name, address, "");
    plain
        .replace("http://", "https://")
        .replace("} ] }", "} ], tls: { ca: none.pem } }")
}

pub(super) struct Site {
    pub(super) folder: TempDir,
    pub(super) gateway: Gateway,
}

impl Site {
    /// With these files in the folder.
    pub(super) async fn start(own: &str, files: &[(&str, &str)]) -> Self {
        Self::of(&main(own), files).await
    }

    /// With this configuration file.
    pub(super) async fn of(text: &str, files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("conf.d")).unwrap();
        std::fs::write(folder.path().join("gateway.yaml"), text).unwrap();
        for (file, text) in files {
            std::fs::write(folder.path().join("conf.d").join(file), text).unwrap();
        }
        let gateway = Gateway::from_file(&folder.path().join("gateway.yaml")).await;
        gateway.ready().await;
        Self { folder, gateway }
    }

    pub(super) fn files(&self) -> std::path::PathBuf {
        self.folder.path().join("conf.d")
    }

    pub(super) fn put(&self, file: &str, text: &str) {
        replace(&self.files(), file, text);
    }

    pub(super) async fn status(&self, agent: &str) -> u16 {
        post(self.gateway.address, &format!("/{agent}"), &send("1", "x"))
            .await
            .status
    }

    pub(super) async fn becomes(&self, agent: &str, status: u16) {
        eventually(&format!("{agent} answers {status}"), || async {
            self.status(agent).await == status
        })
        .await;
    }

    pub(super) async fn shown(&self) -> Value {
        get(self.gateway.admin, "/fragments").await.json()
    }
}

#[tokio::test]
async fn agents_come_change_and_go_with_their_files() {
    let (own, a, b) = (agent().await, agent().await, agent().await);
    let site = Site::start(
        &entry("own", own.address, ""),
        &[("a.yaml", &entry("a", a.address, ""))],
    )
    .await;
    assert_eq!(
        (site.status("own").await, site.status("a").await, site.status("b").await),
        (200, 200, 404)
    );
    // Nobody asks for a reload: the folder is watched.
    site.put("b.yaml", &format!("[ {} ]", entry("b", b.address, "")));
    site.becomes("b", 200).await;
    site.put(
        "b.yaml",
        &format!("[ {}, {} ]", entry("b2", b.address, ""), entry("b3", b.address, "")),
    );
    site.becomes("b3", 200).await;
    assert_eq!((site.status("b").await, site.status("b2").await), (404, 200));
    // In place, too.
    std::fs::write(site.files().join("a.yaml"), entry("a4", a.address, "")).unwrap();
    site.becomes("a4", 200).await;
    std::fs::remove_file(site.files().join("b.yaml")).unwrap();
    site.becomes("b2", 404).await;
    assert_eq!(site.status("own").await, 200);
    assert_eq!(
        site.shown().await,
        json!({ "in_force": [ { "file": "a.yaml", "agents": [ "a4" ], "former": false } ], "refused": [] })
    );
    assert_eq!(site.gateway.metric(REFUSED).await, 0.0);
    assert!(site.gateway.metric(OK).await >= 4.0);
}

#[tokio::test]
async fn a_bad_file_keeps_its_agent_and_all_others() {
    let (a, b, c) = (agent().await, agent().await, agent().await);
    let files = [
        ("a.yaml", entry("a", a.address, "")),
        ("b.yaml", entry("b", b.address, "")),
    ];
    let files = files.each_ref().map(|(file, text)| (*file, text.as_str()));
    let site = Site::start("", &files).await;
    assert_eq!(site.gateway.metric(METRIC).await, 0.0);
    site.put("a.yaml", "name: a\npath: nowhere\n");
    eventually("it is told", || async { site.gateway.metric(METRIC).await == 1.0 }).await;
    let shown = site.shown().await;
    assert_eq!(
        shown["in_force"][0],
        json!({ "file": "a.yaml", "agents": [ "a" ], "former": true })
    );
    let problems = shown["refused"][0]["problems"].as_array().unwrap();
    assert!(
        problems.contains(&json!("a.yaml: path (line 2): must begin with `/`")),
        "{shown}"
    );
    assert_eq!(get(site.gateway.admin, "/ready").await.json()["fragments_refused"], 1);
    assert_eq!((site.status("a").await, site.status("b").await), (200, 200));
    // The others go on changing meanwhile.
    site.put("c.yaml", &entry("c", c.address, ""));
    site.becomes("c", 200).await;
    site.put("b.yaml", &entry("b2", b.address, ""));
    site.becomes("b2", 200).await;
    assert_eq!((site.status("a").await, site.gateway.metric(METRIC).await), (200, 1.0));
    // Also what is found only where a file that it names is read.
    site.put("a.yaml", &trusting("a5"));
    eventually("it is told", || async {
        site.shown().await.to_string().contains("none.pem")
    })
    .await;
    assert!(
        site.shown().await.to_string().contains("a.yaml: upstream.tls.ca"),
        "{}",
        site.shown().await
    );
    assert_eq!((site.status("a").await, site.status("a5").await), (200, 404));
    let metrics = get(site.gateway.admin, "/metrics").await.text();
    assert!(!metrics.contains("agent=\"a5\""), "it leaves no trace");
    site.put("a.yaml", &entry("a6", a.address, ""));
    site.becomes("a6", 200).await;
    assert_eq!((site.status("a").await, site.gateway.metric(METRIC).await), (404, 0.0));
    assert_eq!(site.gateway.metric(REFUSED).await, 0.0);
}

#[tokio::test]
async fn a_start_goes_without_bad_files() {
    let (a, b) = (agent().await, agent().await);
    let site = Site::start(
        "",
        &[
            ("0.yaml", "nonsense"),
            ("1.yaml", &trusting("ca")),
            ("2.yaml", &entry("a", a.address, "")),
            ("3.yaml", &entry("a", b.address, "")),
            ("4.yaml", &entry("b", b.address, "")),
        ],
    )
    .await;
    site.becomes("b", 200).await;
    assert_eq!((site.status("a").await, site.status("ca").await), (200, 404));
    assert_eq!(site.gateway.metric(METRIC).await, 3.0);
    let shown = site.shown().await;
    let refused: Vec<_> = shown["refused"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["file"].as_str().unwrap())
        .collect();
    assert_eq!(refused, ["0.yaml", "1.yaml", "3.yaml"], "{shown}");
    let agents: Vec<_> = shown["in_force"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["agents"][0].as_str().unwrap())
        .collect();
    assert_eq!(agents, ["a", "b"]);
    // Once the first look after the start is over, too.
    eventually("it leaves no trace", || async {
        let metrics = get(site.gateway.admin, "/metrics").await.text();
        !metrics.contains("agent=\"ca\"")
    })
    .await;
    // Where nothing is in force of it, a file that is put right comes at last.
    site.put("1.yaml", &entry("ca", b.address, ""));
    site.becomes("ca", 200).await;
}

#[tokio::test]
async fn what_makes_an_unchanged_file_bad_is_refused() {
    let a = agent().await;
    let site = Site::start("", &[("a.yaml", &entry("a", a.address, "security: [ { key: [] } ]"))]).await;
    let taken = main(&entry("a", a.address, ""));
    for text in [
        taken,
        main("")
            .replace("  key:", "  other:")
            .replace("security: [ { key", "security: [ { other"),
    ] {
        let before = site.gateway.metric(REFUSED).await;
        replace(site.folder.path(), "gateway.yaml", &text);
        assert!(!site.gateway.reload().await, "{text}");
        assert!(site.gateway.metric(REFUSED).await > before);
        assert_eq!((site.status("a").await, site.gateway.metric(METRIC).await), (200, 0.0));
    }
    replace(site.folder.path(), "gateway.yaml", &main(""));
    assert!(site.gateway.reload().await);
    assert_eq!(site.status("a").await, 200);
}

#[tokio::test]
async fn a_folder_that_goes_takes_nothing_and_may_come_back() {
    let (a, b) = (agent().await, agent().await);
    let site = Site::start("", &[("a.yaml", &entry("a", a.address, ""))]).await;
    let away = site.folder.path().join("away");
    std::fs::rename(site.files(), &away).unwrap();
    eventually("it is told", || async { site.gateway.metric(METRIC).await == 1.0 }).await;
    assert_eq!(site.status("a").await, 200);
    std::fs::write(away.join("b.yaml"), entry("b", b.address, "")).unwrap();
    std::fs::rename(&away, site.files()).unwrap();
    site.becomes("b", 200).await;
    assert_eq!((site.status("a").await, site.gateway.metric(METRIC).await), (200, 0.0));
    // It is watched again.
    site.put("b.yaml", &entry("b2", b.address, ""));
    site.becomes("b2", 200).await;
}

fn volume(folder: &Path, version: &str, files: &[(&str, String)]) {
    std::fs::create_dir(folder.join(version)).unwrap();
    for (file, text) in files {
        std::fs::write(folder.join(version).join(file), text).unwrap();
    }
    symlink(version, folder.join("..next")).unwrap();
    std::fs::rename(folder.join("..next"), folder.join("..data")).unwrap();
}

/// As an orchestrator mounts a set of files: links into a folder that is exchanged as a whole.
#[tokio::test]
async fn a_volume_that_is_exchanged_as_a_whole_is_followed() {
    let (a, b) = (agent().await, agent().await);
    let site = Site::start("", &[("own.yaml", &entry("own", a.address, ""))]).await;
    volume(&site.files(), "..1", &[("a.yaml", entry("a", a.address, ""))]);
    symlink("..data/a.yaml", site.files().join("a.yaml")).unwrap();
    site.becomes("a", 200).await;
    volume(&site.files(), "..2", &[("a.yaml", entry("b", b.address, ""))]);
    site.becomes("b", 200).await;
    assert_eq!(site.status("a").await, 404);
}

#[tokio::test]
async fn check_tells_of_bad_files_and_run_goes_without() {
    let a = agent().await;
    let folder = tempfile::tempdir().unwrap();
    let files = folder.path().join("conf.d");
    std::fs::create_dir(&files).unwrap();
    let path = folder.path().join("gateway.yaml");
    std::fs::write(&path, main("")).unwrap();
    std::fs::write(files.join("a.yaml"), entry("a", a.address, "")).unwrap();
    let config = path.to_str().unwrap();
    assert_eq!(run(&["check", "--config", config]).await.code, Some(0));
    std::fs::write(files.join("b.yaml"), "name: b\nnome: c\n").unwrap();
    std::fs::write(files.join("c.yaml"), trusting("c")).unwrap();
    let checked = run(&["check", "--config", config]).await;
    assert_eq!(checked.code, Some(64));
    for fault in [
        "b.yaml: nome (line 2): unknown key; did you mean `name`?",
        "b.yaml: upstream (line 1): is required",
        "c.yaml: upstream.tls.ca (line 1): ",
    ] {
        assert!(
            checked.stderr.contains(fault),
            "{fault} is missing:\n{}",
            checked.stderr
        );
    }
    let mut gateway = Program::gateway(["run", "--config", config]);
    let (public, admin) = gateway.addresses().await;
    super::binary::ready(admin).await;
    assert_eq!(post(public, "/a", &send("1", "x")).await.status, 200);
    let stderr = gateway.stderr();
    assert!(stderr.contains("b.yaml: nome (line 2)"), "the log says it: {stderr}");
    assert_eq!(gateway.terminate().await.code, Some(0));
}
