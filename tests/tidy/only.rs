//! What only one place may do: read files, spawn, read the clock, collect bodies, print. And names that say nothing.

use super::source::{Named, code, paths, shipped};
use super::{is_test, none, read, sources};

/// A thing that few places do.
struct Only {
    what: &'static str,
    /// Whether a path in the code is that thing.
    path: fn(&Named) -> bool,
    /// Or a piece of a line.
    pieces: &'static [&'static str],
    /// Files, or folders with a slash at the end; each must do it.
    places: &'static [&'static str],
    instead: &'static str,
}

const RULES: &[Only] = &[
    Only {
        what: "reads or writes files",
        path: |named| named.begins("std::fs") || named.begins("tokio::fs") || named.begins("rustix::fs"),
        pieces: &[],
        places: &["src/affinity/journal/", "src/audit/file.rs", "src/config/"],
        instead: "take the content from config::files; only the task journal and the audit trail have files of their own",
    },
    Only {
        what: "looks at the file system",
        path: |_| false,
        pieces: &[
            ".metadata(",
            ".exists(",
            ".try_exists(",
            ".is_file(",
            ".is_dir(",
            ".read_dir(",
            ".canonicalize(",
        ],
        places: &["src/audit/file.rs", "src/tls/watch.rs", "src/config/files.rs"],
        instead: "take the content from config::files; only the watch for changes and the audit trail look at files without reading them",
    },
    Only {
        what: "reads the environment",
        path: |named| named.begins("std::env") || named.begins("env"),
        pieces: &[],
        places: &["src/config/environment.rs"],
        instead: "add a configuration key; values reach it by ${NAME} and by A2A_GATEWAY__…",
    },
    Only {
        what: "spawns",
        path: |named| {
            ["task::spawn", "tokio::spawn", "thread::spawn", "thread::Builder"]
                .iter()
                .any(|path| named.ends(path))
                || ["spawn_local", "TaskTracker", "JoinSet"]
                    .iter()
                    .any(|name| named.ends(name))
        },
        pieces: &[".spawn("],
        places: &["src/drain.rs"],
        instead: "use drain::Drain, which shutdown waits for; `spawn_blocking` that is awaited on the spot is fine",
    },
    Only {
        what: "reads the wall clock",
        path: |named| {
            ["SystemTime::now", "Timestamp::now", "Zoned::now", "Utc::now"]
                .iter()
                .any(|path| named.ends(path))
        },
        pieces: &["UNIX_EPOCH.elapsed("],
        places: &["src/clock.rs"],
        instead: "have a clock::Clock passed in, so that tests can set the time",
    },
    Only {
        what: "reads a whole body",
        path: |named| {
            [
                "BodyExt::collect",
                "body::to_bytes",
                "http_body_util::Limited",
                "http_body_util::Collected",
            ]
            .iter()
            .any(|path| named.ends(path))
        },
        pieces: &[".collect().await", ".frame().await"],
        places: &["src/http/"],
        instead: "use http::body, which counts bytes and time",
    },
    Only {
        what: "binds a socket",
        path: |named| {
            [
                "TcpListener",
                "TcpListener::bind",
                "TcpSocket",
                "UdpSocket",
                "UnixListener",
            ]
            .iter()
            .any(|path| named.ends(path))
                || named.begins("socket2")
        },
        pieces: &[],
        places: &["src/demo/", "src/discover/", "src/listener/"],
        instead: "use listener, which limits connections",
    },
    Only {
        what: "opens a connection",
        path: |named| {
            ["TcpStream::connect", "TcpStream::connect_timeout", "lookup_host"]
                .iter()
                .any(|path| named.ends(path))
        },
        pieces: &[],
        places: &[
            "src/discover/",
            "src/http/fetch/",
            "src/main.rs",
            "src/upstream/name.rs",
        ],
        instead: "use http::fetch for documents and upstream for calls: both have deadlines",
    },
    Only {
        what: "knows HTTP status codes",
        path: |named| named.segments.iter().any(|segment| segment == "StatusCode"),
        pieces: &[],
        places: &[
            "src/admin/",
            "src/app/",
            "src/authenticate/ask.rs",
            "src/authenticate/remote.rs",
            "src/authorize/point/",
            "src/card/",
            "src/demo/",
            "src/export/",
            "src/http/",
            "src/respond/",
            "src/upstream/credential/server.rs",
        ],
        instead: "return the stage's own error; respond::reject is the one table from errors to answers",
    },
    Only {
        what: "writes to standard output or error",
        path: |named| named.ends("io::stdout") || named.ends("io::stderr"),
        pieces: &["println!(", "print!(", "dbg!("],
        places: &["src/main.rs", "src/observe/access.rs"],
        instead: "use tracing for diagnostics and the access log for requests; main.rs talks to people",
    },
    Only {
        what: "makes a queue without a bound",
        path: |named| {
            named.ends("unbounded_channel") || named.begins("std::sync::mpsc") && !named.ends("mpsc::sync_channel")
        },
        pieces: &[],
        places: &[],
        instead: "every queue has a bound: tokio::sync::mpsc::channel",
    },
    Only {
        what: "leaves work undone",
        path: |_| false,
        pieces: &["todo!(", "unimplemented!("],
        places: &[],
        instead: "do it, or return an error",
    },
];

/// The lines of shipped code that do it: line, and how.
fn found(rule: &Only, shipped: &str) -> Vec<(usize, String)> {
    let by_path = paths(shipped)
        .into_iter()
        .filter(|named| (rule.path)(named))
        .map(|named| (named.line, named.text()));
    let by_piece = shipped.lines().enumerate().flat_map(|(index, line)| {
        let pieces = rule.pieces.iter().filter(move |piece| line.contains(**piece));
        pieces.map(move |piece| (index + 1, (*piece).to_owned()))
    });
    by_path.chain(by_piece).collect()
}

#[test]
fn each_thing_is_done_in_its_place() {
    let files: Vec<(String, String)> = sources()
        .into_iter()
        .filter(|file| !is_test(file))
        .map(|file| (shipped(&code(&read(&file))), file))
        .map(|(text, file)| (file, text))
        .collect();
    let mut findings = Vec::new();
    for rule in RULES {
        let mut used = vec![false; rule.places.len()];
        for (file, text) in &files {
            for (line, how) in found(rule, text) {
                match rule.places.iter().position(|place| file.starts_with(place)) {
                    Some(place) => used[place] = true,
                    None => findings.push(format!("{file}:{line} {} ({how}): {}", rule.what, rule.instead)),
                }
            }
        }
        for (place, _) in rule.places.iter().zip(used).filter(|(_, used)| !used) {
            findings.push(format!(
                "{place} no longer {}: take it off the list in tests/tidy/only.rs",
                rule.what
            ));
        }
    }
    none(&findings, "done outside its place");
}

#[test]
fn the_table_of_rejections_has_no_wildcard() {
    let mut findings = Vec::new();
    for (file, least) in [("src/respond/reject.rs", 10), ("src/respond/reasons.rs", 9)] {
        let text = code(&read(file));
        let mut functions = 0;
        let mut function = "";
        for (index, line) in text.lines().enumerate() {
            if let Some((_, after)) = line.split_once("fn ") {
                function = after.split('(').next().unwrap();
                functions += 1;
            }
            // HTTP status codes are an open set.
            if line.trim_start().starts_with("_ =>") && function != "canonical" {
                findings.push(format!("{file}:{} in `{function}`", index + 1));
            }
        }
        assert!(functions > least, "the tables in {file} are found");
    }
    none(
        &findings,
        "a new reason must not compile until this is decided: name the variants instead of `_`",
    );
}

#[test]
fn metric_names_are_constants_of_observe() {
    let mut findings = Vec::new();
    for file in sources()
        .iter()
        .filter(|file| !file.starts_with("src/observe/") && !is_test(file))
    {
        for (index, line) in read(file).lines().enumerate() {
            if line.contains("\"a2a_gateway_") {
                findings.push(format!("{file}:{}", index + 1));
            }
        }
    }
    none(
        &findings,
        "name the metric in src/observe/metrics/mod.rs and use its handle",
    );
}

/// The name of an item that says nothing, if the line declares one.
fn empty_name(line: &str) -> Option<String> {
    let words: Vec<&str> = line
        .split(|character: char| !character.is_alphanumeric() && character != '_')
        .filter(|word| !word.is_empty())
        .collect();
    words.windows(2).find_map(|pair| {
        let empty = match pair[0] {
            "fn" => pair[1].starts_with("get_"),
            "struct" | "enum" | "trait" | "type" => ["Manager", "Handler", "Helper", "Util", "Utils"]
                .iter()
                .any(|ending| pair[1].ends_with(ending)),
            "mod" => [
                "util", "utils", "common", "misc", "data", "info", "helper", "helpers", "types",
            ]
            .contains(&pair[1]),
            _ => false,
        };
        empty.then(|| pair.join(" "))
    })
}

#[test]
fn names_say_something() {
    let mut findings = Vec::new();
    for file in sources() {
        for (index, line) in code(&read(&file)).lines().enumerate() {
            if let Some(name) = empty_name(line) {
                findings.push(format!("{file}:{} `{name}`", index + 1));
            }
        }
    }
    none(
        &findings,
        "name it after what it does or holds (a getter is called after the thing, without `get_`)",
    );
}

#[test]
fn rules_see_what_they_are_about() {
    let check = |what: &str, text: &str, expected: usize| {
        let rule = RULES.iter().find(|rule| rule.what == what).unwrap();
        assert_eq!(found(rule, &shipped(&code(text))).len(), expected, "{what}: {text}");
    };
    check("reads or writes files", "use std::fs::{self, File};", 2);
    check(
        "reads or writes files",
        "use std::os::unix::fs::MetadataExt; // std::fs::read",
        0,
    );
    check("reads the environment", "std::env::var(\"X\")", 1);
    check("reads the environment", "use std::{env, fmt}; env::var(\"X\")", 2);
    check("reads the environment", "env!(\"CARGO_PKG_VERSION\")", 0);
    check("spawns", "tokio::task::spawn(x)", 1);
    check("spawns", "use tokio::task::JoinSet; set.spawn(x)", 2);
    check("spawns", "tokio::task::spawn_blocking(x).await", 0);
    check("spawns", "#[cfg(test)]\nmod tests { fn x() { jobs.spawn(y) } }", 0);
    check("reads the wall clock", "SystemTime::now()", 1);
    check("reads the wall clock", "Instant::now()", 0);
    check("reads a whole body", "body.collect().await", 1);
    check("reads a whole body", "iterator.collect()", 0);
    check("binds a socket", "use tokio::net::{TcpListener, TcpStream};", 1);
    check("opens a connection", "TcpStream::connect(address)", 1);
    check("knows HTTP status codes", "use http::{Method, StatusCode};", 1);
    check("knows HTTP status codes", "http::StatusCode::OK", 1);
    check("writes to standard output or error", "eprintln!(\"x\")", 1);
    check("writes to standard output or error", "std::io::stdout().lock()", 1);
    check(
        "makes a queue without a bound",
        "use tokio::sync::mpsc; mpsc::channel(1)",
        0,
    );
    check("makes a queue without a bound", "use std::sync::mpsc;", 1);
    assert_eq!(empty_name("pub fn get_task(&self)").as_deref(), Some("fn get_task"));
    assert_eq!(
        empty_name("pub struct TaskManager {").as_deref(),
        Some("struct TaskManager")
    );
    assert_eq!(empty_name("mod util;").as_deref(), Some("mod util"));
    assert_eq!(empty_name("fn gets(); struct Managers;"), None);
}
