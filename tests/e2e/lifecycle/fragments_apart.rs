//! Files of agents and what they must not do to each other: what is no file, what claims another's place, what a file names
//! that is not there, and agents that the configuration file names although their files come and go.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use hickory_proto::op::ResponseCode;
use serde_json::Value;

use super::binary::run;
use super::fragments::{METRIC, Site, agent, entry, main};
use super::reload::{REFUSED, replace};
use super::srv::{NameServer, Word};
use crate::harness::{Agent, eventually, of_task, post, send};

/// Frees whoever waits for somebody to write.
struct Pipe(PathBuf);

impl Pipe {
    fn make(path: PathBuf) -> Self {
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        Self(path)
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        let _other_end = std::fs::OpenOptions::new().read(true).write(true).open(&self.0);
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn files(shown: &Value, which: &str) -> Vec<String> {
    let all = shown[which].as_array().unwrap().iter();
    all.map(|one| one["file"].as_str().unwrap_or_default().to_owned())
        .collect()
}

#[tokio::test]
async fn a_pipe_is_waited_for_by_nobody() {
    let (a, b) = (agent().await, agent().await);
    let site = Site::start("", &[("a.yaml", &entry("a", a.address, ""))]).await;
    let _pipe = Pipe::make(site.files().join("pipe.yaml"));
    site.put("b.yaml", &entry("b", b.address, ""));
    site.becomes("b", 200).await;
    assert_eq!(site.status("a").await, 200);
    assert_eq!(files(&site.shown().await, "refused"), ["pipe.yaml"]);
    let config = site.folder.path().join("gateway.yaml");
    let arguments = ["check", "--config", config.to_str().unwrap()];
    let checked = run(&arguments);
    let checked = tokio::time::timeout(Duration::from_secs(10), checked).await;
    let checked = checked.expect("it ends by itself");
    assert_eq!(checked.code, Some(64));
    assert!(checked.stderr.contains("pipe.yaml"), "{}", checked.stderr);
}

#[tokio::test]
async fn links_that_lead_nowhere_and_names_that_are_no_text_are_told() {
    let (a, b) = (agent().await, agent().await);
    let site = Site::start("", &[("a.yaml", &entry("a", a.address, ""))]).await;
    symlink("nothing.yaml", site.files().join("l1.yaml")).unwrap();
    symlink("l2.yaml", site.files().join("l2.yaml")).unwrap();
    symlink("/dev/zero", site.files().join("l3.yaml")).unwrap();
    let odd = site.files().join(std::ffi::OsStr::from_bytes(b"x\xff.yaml"));
    std::fs::write(odd, entry("odd", b.address, "")).unwrap();
    site.put("b.yaml", &entry("b", b.address, ""));
    site.becomes("b", 200).await;
    assert_eq!(site.status("a").await, 200);
    let shown = site.shown().await;
    assert_eq!(files(&shown, "refused").len(), 4, "{shown}");
    assert!(shown.to_string().contains("not UTF-8"), "{shown}");
}

/// The file of an agent that the configuration file names at the front door is bad, goes, and comes back.
#[tokio::test]
async fn a_front_door_goes_without_agents_whose_files_are_not_there() {
    let (own, a, b) = (agent().await, agent().await, agent().await);
    let front = "front_door: { agents: [ own, a ], default: a, rules: [ { when: \"operation == 'nothing'\", agent: a } ] }\nagents_directory";
    let text = main(&entry("own", own.address, "")).replace("agents_directory", front);
    let site = Site::of(&text, &[("a.yaml", "nonsense"), ("b.yaml", &entry("b", b.address, ""))]).await;
    let root = async || post(site.gateway.address, "/", &send("1", "x")).await.status;
    assert_eq!((site.status("own").await, site.status("b").await), (200, 200));
    assert_eq!(root().await, 503, "nobody else gets what is the agent's");
    site.put("a.yaml", &entry("a", a.address, ""));
    site.becomes("a", 200).await;
    assert_eq!(root().await, 200);
    assert_eq!(a.received().len(), 2);
    std::fs::remove_file(site.files().join("a.yaml")).unwrap();
    site.put("c.yaml", &entry("c", b.address, ""));
    site.becomes("c", 200).await;
    site.becomes("a", 404).await;
    assert_eq!(root().await, 503);
    assert_eq!(site.gateway.metric(REFUSED).await, 0.0);
    site.put("a.yaml", &entry("a", a.address, ""));
    site.becomes("a", 200).await;
    assert_eq!(root().await, 200);
}

#[tokio::test]
async fn a_front_door_stands_before_whoever_is_there() {
    let a = agent().await;
    let text = main("").replace("agents_directory", "front_door: {}\nagents_directory");
    let site = Site::of(&text, &[("a.yaml", &entry("a", a.address, ""))]).await;
    let root = async || post(site.gateway.address, "/", &send("1", "x")).await.status;
    assert_eq!(root().await, 200);
    std::fs::remove_file(site.files().join("a.yaml")).unwrap();
    eventually("it stands before nobody", || async { root().await == 503 }).await;
    site.put("a.yaml", &entry("a", a.address, ""));
    eventually("it stands before the agent", || async { root().await == 200 }).await;
    assert_eq!(site.gateway.metric(REFUSED).await, 0.0);
}

/// A file that claims what is the front door's or the list's loses, however the configuration file stands to the others.
#[tokio::test]
async fn a_file_that_claims_a_place_of_the_gateway_is_left_out() {
    let (own, a, b) = (agent().await, agent().await, agent().await);
    let top = "catalogue: {}\nfront_door: { agents: [ a ] }\nagents_directory";
    let text = main(&entry("own", own.address, "")).replace("agents_directory", top);
    let at = |name: &str, path: &str| {
        entry(name, b.address, "").replace(&format!("path: /{name}"), &format!("path: {path}"))
    };
    let site = Site::of(
        &text,
        &[
            ("a.yaml", &entry("a", a.address, "")),
            ("b.yaml", &at("b", "/")),
            ("c.yaml", &at("c", "/agents")),
            ("d.yaml", &entry("d", b.address, "")),
        ],
    )
    .await;
    assert_eq!(
        (site.status("own").await, site.status("a").await, site.status("d").await),
        (200, 200, 200)
    );
    assert_eq!(files(&site.shown().await, "refused"), ["b.yaml", "c.yaml"]);
    site.put("d.yaml", &at("d", "/"));
    site.put("e.yaml", &at("e", "/.well-known/x"));
    site.put("f.yaml", &entry("f", b.address, ""));
    site.becomes("f", 200).await;
    assert_eq!(site.status("d").await, 200);
    assert_eq!(
        files(&site.shown().await, "refused"),
        ["b.yaml", "c.yaml", "d.yaml", "e.yaml"]
    );
}

/// That an agent has the host of `public_url` is wrong only beside one with a path: whoever comes later.
#[tokio::test]
async fn a_new_file_that_makes_another_one_bad_is_the_one_that_is_refused() {
    let (a, b) = (agent().await, agent().await);
    let hosted = |name: &str, host: &str| {
        entry(name, b.address, "").replace(&format!("path: /{name}"), &format!("host: {host}"))
    };
    let site = Site::start("", &[("a.yaml", &hosted("a", "gateway.example"))]).await;
    site.put("b.yaml", &entry("b", a.address, ""));
    site.put("c.yaml", &hosted("c", "c.example"));
    eventually("the third is in force", || async {
        files(&site.shown().await, "in_force") == ["a.yaml", "c.yaml"]
    })
    .await;
    assert_eq!(files(&site.shown().await, "refused"), ["b.yaml"]);
    assert_eq!(site.gateway.metric(REFUSED).await, 0.0);
}

/// What a file names is read with it: one that is gone takes away nothing, and keeps no other file from changing.
#[tokio::test]
async fn a_secret_that_is_gone_keeps_no_other_file_from_changing() {
    let (a, b) = (agent().await, agent().await);
    let secret = "} ], credential: { bearer: { token_file: a.token } } }";
    let text = entry("a", a.address, "").replace("} ] }", secret);
    let folder_has = |site: &Site| site.folder.path().join("a.token");
    let site = Site::start("", &[("b.yaml", &entry("b", b.address, ""))]).await;
    std::fs::write(folder_has(&site), "secret").unwrap();
    site.put("a.yaml", &text);
    site.becomes("a", 200).await;
    std::fs::remove_file(folder_has(&site)).unwrap();
    site.put("c.yaml", &entry("c", b.address, ""));
    site.becomes("c", 200).await;
    assert_eq!((site.status("a").await, site.status("b").await), (200, 200));
    let told = site.shown().await;
    assert_eq!(files(&told, "refused"), ["a.yaml"], "{told}");
    site.put("c.yaml", &entry("c2", b.address, ""));
    site.becomes("c2", 200).await;
    assert_eq!(site.status("a").await, 200);
    std::fs::write(folder_has(&site), "other").unwrap();
    eventually("nothing is wrong", || async {
        site.gateway.metric(METRIC).await == 0.0
    })
    .await;
}

/// The same of a certificate, which is read where connections are made. With the configuration file it is another thing: whether it
/// or what is gone makes the agent bad is not told apart.
#[tokio::test]
async fn a_certificate_that_is_gone_keeps_no_other_file_from_changing() {
    let b = agent().await;
    let issued = rcgen::generate_simple_self_signed(vec!["agent.internal".to_owned()]).unwrap();
    let nobody = ([127, 0, 0, 1], 1).into();
    let text = entry("a", nobody, "")
        .replace("http://", "https://")
        .replace("} ] }", "} ], tls: { ca: a.pem } }");
    let site = Site::start(&entry("own", b.address, ""), &[]).await;
    let ca = site.folder.path().join("a.pem");
    std::fs::write(&ca, issued.cert.pem()).unwrap();
    site.put("a.yaml", &text);
    eventually("it is in force", || async {
        files(&site.shown().await, "in_force") == ["a.yaml"]
    })
    .await;
    std::fs::remove_file(&ca).unwrap();
    site.put("c.yaml", &entry("c", b.address, ""));
    site.becomes("c", 200).await;
    let told = site.shown().await;
    assert_eq!(files(&told, "in_force"), ["a.yaml", "c.yaml"]);
    assert_eq!(files(&told, "refused"), ["a.yaml"], "{told}");
    assert!(told.to_string().contains("a.yaml: upstream.tls.ca (line 1)"), "{told}");
    let before = site.gateway.metric(REFUSED).await;
    let other = main(&entry("own", b.address, "")).replace("gateway.example", "other.example");
    replace(site.folder.path(), "gateway.yaml", &other);
    assert!(!site.gateway.reload().await);
    assert!(site.gateway.metric(REFUSED).await > before);
    std::fs::write(&ca, issued.cert.pem()).unwrap();
    assert!(site.gateway.reload().await);
    assert_eq!(site.gateway.metric(METRIC).await, 0.0);
}

/// A file that waits for another one, as they come in any order where an orchestrator mounts them.
#[tokio::test]
async fn a_file_is_taken_once_what_it_names_is_there() {
    let a = agent().await;
    let secret = "} ], credential: { bearer: { token_file: a.token } } }";
    let text = entry("a", a.address, "").replace("} ] }", secret);
    let site = Site::start(&entry("own", a.address, ""), &[("a.yaml", &text)]).await;
    assert_eq!((site.status("a").await, site.gateway.metric(METRIC).await), (404, 1.0));
    std::fs::write(site.folder.path().join("a.token"), "secret").unwrap();
    site.becomes("a", 200).await;
    assert_eq!(site.gateway.metric(METRIC).await, 0.0);
}

fn found_by(name: &str, server: &NameServer, refresh: &str) -> String {
    let nobody = ([127, 0, 0, 1], 1).into();
    entry(name, nobody, "").replace(
        "endpoints: [ { url: \"http://127.0.0.1:1/\" } ]",
        &format!(
            "srv: {{ name: _a2a._tcp.{name}.internal, scheme: http, dns_server: \"{}\" }}, dns_refresh: {refresh}",
            server.address
        ),
    )
}

fn at(agents: &[&Agent]) -> Word {
    Word::Hosts(agents.iter().map(|agent| (10, agent.address.port())).collect())
}

/// At a start the DNS may be the last to answer.
#[tokio::test]
async fn an_agent_that_the_dns_does_not_know_yet_comes_once_it_does() {
    let (a, b) = (agent().await, agent().await);
    let server = NameServer::start(Word::Code(ResponseCode::ServFail)).await;
    let files = [
        ("a.yaml", found_by("a", &server, "100ms")),
        ("b.yaml", entry("b", b.address, "")),
    ];
    let files = files.each_ref().map(|(file, text)| (*file, text.as_str()));
    let site = Site::start("", &files).await;
    assert_eq!((site.status("a").await, site.status("b").await), (404, 200));
    assert_eq!(site.gateway.metric(METRIC).await, 1.0);
    server.say(at(&[&a]));
    site.becomes("a", 200).await;
    assert_eq!(site.gateway.metric(METRIC).await, 0.0);
}

/// What the DNS says is followed whatever became of secrets that other agents name.
#[tokio::test]
async fn endpoints_follow_the_dns_while_a_secret_is_gone() {
    let (a, b, c) = (agent().await, agent().await, agent().await);
    let server = NameServer::start(at(&[&a])).await;
    let secret = "} ], credential: { bearer: { token_file: c.token } } }";
    let own = format!(
        "{}, {}",
        found_by("a", &server, "100ms"),
        entry("c", c.address, "").replace("} ] }", secret)
    );
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("c.token");
    std::fs::write(&token, "secret").unwrap();
    let text = main(&own).replace("c.token", token.to_str().unwrap());
    let site = Site::of(&text, &[]).await;
    site.becomes("a", 200).await;
    assert_eq!((a.received().len(), site.status("c").await), (1, 200));
    std::fs::remove_file(&token).unwrap();
    eventually("the reload is refused", || async {
        site.gateway.metric(REFUSED).await > 0.0
    })
    .await;
    server.say(at(&[&b]));
    eventually("the other endpoint is called", || async {
        site.status("a").await == 200 && !b.received().is_empty()
    })
    .await;
    assert_eq!(site.status("c").await, 200);
}

/// The tasks of an agent whose file goes and comes back are its callers' still, and nobody's under another name.
#[tokio::test]
async fn tasks_are_there_again_with_the_file() {
    let a = agent().await;
    let text = entry("a", a.address, "");
    let site = Site::start("", &[("a.yaml", &text)]).await;
    assert_eq!(site.status("a").await, 200);
    let got = async || {
        let got = post(site.gateway.address, "/a", &of_task("GetTask", "t")).await.json();
        got["result"]["id"].as_str().map(str::to_owned)
    };
    assert_eq!(got().await.as_deref(), Some("t"));
    std::fs::remove_file(site.files().join("a.yaml")).unwrap();
    site.becomes("a", 404).await;
    site.put("a.yaml", &text);
    site.becomes("a", 200).await;
    assert_eq!(got().await.as_deref(), Some("t"));
}
