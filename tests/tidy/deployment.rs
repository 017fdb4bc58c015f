//! What the container image, the systemd unit and the locked packages must keep.

use super::{files, none, read, root};

/// The instructions of the Dockerfile, continued lines joined: line, instruction, arguments.
fn instructions(text: &str) -> Vec<(usize, String, String)> {
    let mut found: Vec<(usize, String, String)> = Vec::new();
    let mut continues = false;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (part, more) = line
            .strip_suffix('\\')
            .map_or((line, false), |part| (part.trim(), true));
        match found.last_mut() {
            Some((_, _, arguments)) if continues => {
                arguments.push(' ');
                arguments.push_str(part);
            }
            _ => {
                let (instruction, arguments) = part.split_once(' ').unwrap_or((part, ""));
                found.push((index + 1, instruction.to_owned(), arguments.trim().to_owned()));
            }
        }
        continues = more;
    }
    found
}

/// What is wrong with a Dockerfile.
fn faults(text: &str) -> Vec<String> {
    let all = instructions(text);
    let of = |name: &'static str| all.iter().filter(move |(_, instruction, _)| instruction == name);
    let mut faults = Vec::new();
    for (line, _, image) in of("FROM") {
        let image = image.split(' ').next().unwrap_or_default();
        let tag = image
            .rsplit('/')
            .next()
            .and_then(|name| name.split_once(':'))
            .map(|(_, tag)| tag);
        if tag.is_none_or(|tag| tag.starts_with("latest")) {
            faults.push(format!("{line} {image}: a base image has a tag, and not `latest`"));
        }
    }
    if of("FROM").count() < 2 {
        faults.push("1 one stage: build in one and copy the program into another, without compilers".to_owned());
    }
    let last = of("FROM").next_back().map_or(0, |(line, _, _)| *line);
    if !of("COPY").any(|(line, _, arguments)| *line > last && arguments.starts_with("--from=")) {
        faults.push(format!(
            "{last} the last stage copies the program from the stage that built it"
        ));
    }
    for (line, _, command) in of("RUN").filter(|(_, _, command)| command.contains("cargo build")) {
        if !command.contains("--locked") || !command.contains("--release") {
            faults.push(format!("{line} build with --release --locked"));
        }
        if *line > last {
            faults.push(format!("{line} the last stage does not build"));
        }
    }
    if !of("RUN").any(|(_, _, command)| command.contains("cargo build")) {
        faults.push("1 no stage builds the program".to_owned());
    }
    match of("USER").next_back() {
        Some((line, _, user)) => {
            let numeric = user.split(':').all(|id| id.parse::<u32>().is_ok_and(|id| id > 0));
            if !numeric || *line < last {
                faults.push(format!(
                    "{line} USER {user}: numbers other than 0, in the last stage, so that `runAsNonRoot` works"
                ));
            }
        }
        None => faults.push(format!("{last} no USER: the program must not run as root")),
    }
    match of("HEALTHCHECK").next_back() {
        Some((_, _, check)) if check.contains("[\"/usr/local/bin/a2a-gateway\", \"health\"") => {}
        Some((line, _, check)) => faults.push(format!(
            "{line} HEALTHCHECK {check}: the program asks itself; the image has no curl"
        )),
        None => faults.push(format!("{last} no HEALTHCHECK: `a2a-gateway health`")),
    }
    if !of("ENTRYPOINT").any(|(_, _, arguments)| arguments.starts_with("[\"/usr/local/bin/a2a-gateway\"")) {
        faults.push(format!(
            "{last} ENTRYPOINT is the program without a shell, which would keep SIGTERM from it"
        ));
    }
    faults
}

#[test]
fn the_image_is_small_pinned_and_unprivileged() {
    let text = read("Dockerfile");
    let findings: Vec<String> = faults(&text)
        .into_iter()
        .map(|fault| format!("Dockerfile:{fault}"))
        .collect();
    none(&findings, "what the container image must keep");
    let rust = env!("CARGO_PKG_RUST_VERSION");
    assert!(
        text.contains(&format!("FROM rust:{rust}-")),
        "Dockerfile: build with the rust-version of Cargo.toml, {rust}"
    );
}

#[test]
fn faults_of_a_dockerfile_are_seen() {
    let good = read("Dockerfile");
    assert_eq!(faults(&good), Vec::<String>::new());
    for (part, instead) in [
        ("FROM debian:bookworm-slim", "FROM debian"),
        ("FROM debian:bookworm-slim", "FROM debian:latest"),
        ("FROM debian:bookworm-slim", "FROM registry:5000/debian"),
        ("FROM debian:bookworm-slim\n", ""),
        (" --locked", ""),
        ("USER 65532:65532\n", ""),
        ("USER 65532:65532\n", "USER nobody\n"),
        ("USER 65532:65532\n", "USER 0\n"),
        ("CMD [\"/usr/local/bin/a2a-gateway\", \"health\"", "CMD [\"curl\""),
        ("HEALTHCHECK", "# "),
        ("ENTRYPOINT [\"/usr/local/bin/a2a-gateway\"]", "ENTRYPOINT a2a-gateway"),
    ] {
        assert!(good.contains(part), "{part}");
        assert_ne!(
            faults(&good.replacen(part, instead, 1)),
            Vec::<String>::new(),
            "{part} -> {instead}"
        );
    }
}

/// What the systemd unit says at least.
const UNIT: &[&str] = &[
    "Type=notify",
    "ExecReload=/bin/kill -HUP $MAINPID",
    "Restart=on-failure",
    "RestartPreventExitStatus=2 64",
    "DynamicUser=yes",
    "StateDirectoryMode=0700",
    "CapabilityBoundingSet=CAP_NET_BIND_SERVICE",
    "NoNewPrivileges=yes",
    "ProtectSystem=strict",
    "ProtectHome=yes",
    "PrivateTmp=yes",
    "PrivateDevices=yes",
    "ProtectClock=yes",
    "ProtectHostname=yes",
    "ProtectKernelLogs=yes",
    "ProtectKernelModules=yes",
    "ProtectKernelTunables=yes",
    "ProtectControlGroups=yes",
    "ProtectProc=invisible",
    "ProcSubset=pid",
    "RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX",
    "RestrictNamespaces=yes",
    "RestrictRealtime=yes",
    "RestrictSUIDSGID=yes",
    "LockPersonality=yes",
    "MemoryDenyWriteExecute=yes",
    "RemoveIPC=yes",
    "SystemCallArchitectures=native",
    "SystemCallFilter=@system-service",
    "SystemCallFilter=~@privileged",
    "UMask=0077",
];

#[test]
fn the_unit_is_hardened() {
    let path = "deploy/a2a-gateway.service";
    let unit = read(path);
    let lines: Vec<&str> = unit.lines().collect();
    let findings: Vec<String> = UNIT
        .iter()
        .filter(|needed| !lines.contains(*needed))
        .map(|needed| format!("{path}: `{needed}`"))
        .collect();
    none(
        &findings,
        "the unit must say this; if it really has to go, take it off UNIT in tests/tidy/deployment.rs too",
    );
}

#[test]
fn the_unit_outlasts_the_drain() {
    let unit = read("deploy/a2a-gateway.service");
    let stop = unit
        .lines()
        .find_map(|line| line.strip_prefix("TimeoutStopSec="))
        .unwrap();
    let stop: u64 = stop.parse().unwrap();
    let arguments = a2a_gateway::config::Arguments {
        agents: vec!["http://127.0.0.1:9".to_owned()],
        ..Default::default()
    };
    let config = a2a_gateway::config::from_arguments(&arguments).unwrap();
    assert!(
        stop > config.drain.as_secs() + 2,
        "deploy/a2a-gateway.service: TimeoutStopSec={stop} would kill the gateway before `drain` ({:?}) and its last two \
         seconds have passed",
        config.drain
    );
}

/// The example beside the unit is a good one and uses what the unit hands over.
#[test]
fn secrets_reach_the_unit_as_credentials() {
    let unit = read("deploy/a2a-gateway.service");
    let handed: Vec<&str> = unit
        .lines()
        .filter_map(|line| line.strip_prefix("#LoadCredential="))
        .map(|line| line.split_once(':').expect(line).0)
        .collect();
    let text = read("deploy/README.md");
    let (_, example) = text.split_once("```yaml\n").expect("an example");
    let (example, _) = example.split_once("```").expect("its end");
    let named: Vec<&str> = example
        .split("${CREDENTIALS_DIRECTORY}/")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .collect();
    assert!(!named.is_empty());
    assert_eq!(named, handed, "deploy/README.md and the unit name the same files");
    let environment = [("CREDENTIALS_DIRECTORY", "/run/credentials/a2a-gateway.service")];
    let environment = environment.into_iter().collect();
    if let Err(problems) = a2a_gateway::config::parse(example, root(), &environment) {
        panic!("deploy/README.md:\n{}", a2a_gateway::config::render(&problems));
    }
}

#[test]
fn readers_are_told_which_rust_is_needed() {
    let rust = env!("CARGO_PKG_RUST_VERSION");
    assert!(
        read("README.md").contains(&format!("Rust {rust} or newer")),
        "README.md: say that Rust {rust} or newer is needed"
    );
}

#[test]
fn the_deployed_configuration_is_good() {
    let path = "deploy/gateway.yaml";
    let checked = a2a_gateway::config::parse(
        &read(path),
        &root().join("deploy"),
        &a2a_gateway::config::Environment::default(),
    );
    if let Err(problems) = checked {
        panic!("{path}:\n{}", a2a_gateway::config::render(&problems));
    }
}

#[test]
fn packages_of_tests_are_pinned() {
    let mut findings = Vec::new();
    let mut seen = 0;
    for path in files() {
        let name = path.rsplit('/').next().unwrap();
        if name.starts_with("requirements") && name.ends_with(".txt") {
            seen += 1;
            for (index, line) in read(&path).lines().enumerate() {
                if !line.is_empty() && !line.starts_with('#') && !line.contains("==") {
                    findings.push(format!("{path}:{} {line}: pin it with `==`", index + 1));
                }
            }
        } else if name == "package-lock.json" {
            seen += 1;
            for (index, line) in read(&path).lines().enumerate() {
                if line.trim_start().starts_with("\"resolved\"") {
                    findings.push(format!("{path}:{} `resolved` ties it to one registry", index + 1));
                }
            }
        }
    }
    assert!(seen >= 3, "the pinned packages are found");
    none(
        &findings,
        "packages are pinned by version, and come from whatever registry the tool is set to",
    );
}
