//! `a2a-gateway explain`: the outputs of `config/explain.md` are those of the program, and what cannot be explained is told.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output};

use crate::harness::authority::Authority;

const PROGRAM: &str = env!("CARGO_BIN_EXE_a2a-gateway");

fn run(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(PROGRAM)
        .arg("explain")
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap()
}

/// One section of the page: its files by name, the arguments behind `explain`, and the output.
struct Setup {
    title: String,
    files: BTreeMap<String, String>,
    arguments: Vec<String>,
    output: String,
}

fn setups() -> Vec<Setup> {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/config/explain.md")).unwrap();
    let mut setups = Vec::new();
    for section in page.split("\n## ").skip(1) {
        let mut setup = Setup {
            title: section.lines().next().unwrap().to_owned(),
            files: BTreeMap::new(),
            arguments: Vec::new(),
            output: String::new(),
        };
        let mut parts = section.split("```");
        let mut before = parts.next().unwrap();
        while let (Some(block), Some(after)) = (parts.next(), parts.next()) {
            let (kind, text) = block.split_once('\n').unwrap();
            if kind == "console" {
                let (command, output) = text.split_once('\n').unwrap();
                let arguments = command.strip_prefix("$ a2a-gateway explain ").unwrap();
                setup.arguments = arguments.split(' ').map(str::to_owned).collect();
                output.clone_into(&mut setup.output);
            } else {
                let name = before.trim_end().rsplit('\n').next().unwrap();
                let name = name.trim_matches(|c| c == '`' || c == ':');
                setup.files.insert(name.to_owned(), text.to_owned());
            }
            before = after;
        }
        setups.push(setup);
    }
    setups
}

#[test]
fn the_documented_explanations_are_those_of_the_program() {
    let setups = setups();
    assert_eq!(setups.len(), 7);
    let authority = Authority::new();
    let (certificate, key) = authority.issue("agents.example.com");
    for Setup {
        title,
        files,
        arguments,
        output,
    } in setups
    {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("server.pem"), &certificate).unwrap();
        std::fs::write(folder.path().join("server.key"), &key).unwrap();
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let ended = run(folder.path(), &arguments);
        assert_eq!(
            String::from_utf8_lossy(&ended.stdout),
            output,
            "{title}: {}",
            String::from_utf8_lossy(&ended.stderr)
        );
        let code = i32::from(!output.contains("\ndecision     allowed"));
        assert_eq!(ended.status.code(), Some(code), "{title}");
    }
}

const GATEWAY: &str = r#"
public_url: https://gateway.example
listeners: [ { name: public, address: "127.0.0.1:0", trusted_proxies: [ 10.0.0.5 ] } ]
security_schemes:
  key: { type: apiKey, in: query, name: key, keys: [ { id: ann, hash: "sha256:62af8704764faf8ea82fc61ce9c4c3908b6cb97d463a634e9e587d7c885db0ef" } ] }
security: [ { key: [ maps.read ] } ]
agents:
  - name: maps
    path: /maps
    upstream: { protocol: { generation: "1.0", binding: jsonrpc }, endpoints: [ { url: "http://127.0.0.1:1/" } ] }
"#;

#[test]
fn each_stage_tells_why_it_refuses_and_shows_no_secret() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("gateway.yaml"), GATEWAY).unwrap();
    let explained = |request: &str, more: &[&str]| {
        std::fs::write(folder.path().join("call.http"), request).unwrap();
        let arguments = [&["--config", "gateway.yaml", "--request", "call.http"], more].concat();
        let ended = run(folder.path(), &arguments);
        let text = String::from_utf8_lossy(&ended.stdout).into_owned();
        let error = String::from_utf8_lossy(&ended.stderr).into_owned();
        for shown in [&text, &error] {
            assert!(!shown.contains("test-key") && !shown.contains("canary"), "{shown}");
        }
        (ended.status.code().unwrap(), text, error)
    };
    let check = |request: &str, why: &str| {
        let (code, text, error) = explained(request, &[]);
        assert_eq!(code, 1, "{text}{error}");
        assert!(text.lines().last().unwrap().contains(why), "{text}");
    };
    check("POST /elsewhere HTTP/1.1\n\n{}", "no_route");
    check("PUT /maps HTTP/1.1\n\n{}", "method_not_allowed");
    check("POST /maps HTTP/1.1\n\n{}", "unauthenticated (missing), status 401");
    check("POST /maps?key=canary HTTP/1.1\n\n{}", "unauthenticated (unknown-key)");
    check(
        "POST /maps?key=test-key HTTP/1.1\n\n{}",
        "forbidden (missing-scope), status 403",
    );
    // The address is the one that the trusted proxy tells.
    let forwarded = "GET /maps/.well-known/agent-card.json HTTP/1.1\r\nX-Forwarded-For: 203.0.113.9\r\n\r\n";
    let (code, text, _) = explained(forwarded, &["--from", "10.0.0.5"]);
    assert!(code == 0 && text.contains("from 203.0.113.9"), "{text}");
    for (request, more, why) in [
        ("no request", &[][..], "no HTTP request"),
        (
            "POST /maps HTTP/1.1\n\n",
            &["--listener", "other"],
            "there is no listener `other`",
        ),
        (
            "POST /maps HTTP/1.1\n\n",
            &["--certificate", "gateway.yaml"],
            "holds no certificate",
        ),
    ] {
        let (code, _, error) = explained(request, more);
        assert!(code == 64 && error.contains(why), "{code}: {error}");
    }
}
