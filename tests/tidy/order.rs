//! A module uses what stands above it in `lib.rs`, never what stands below; and `a2a` is pure.

use super::source::{code, paths, shipped};
use super::{is_test, modules, none, read, sources};

/// The module path of a source file: `src/a/mod.rs` is `[a]`, `src/a/b.rs` is `[a, b]`.
fn module_path(file: &str) -> Vec<&str> {
    let inner = file.strip_prefix("src/").unwrap().strip_suffix(".rs").unwrap();
    let mut parts: Vec<&str> = inner.split('/').collect();
    parts.pop_if(|last| matches!(*last, "mod" | "lib"));
    parts
}

/// The lines of `text`, a file of `src`, that name a module further down: line, and what is named.
fn named_below(file: &str, text: &str, modules: &[String]) -> Vec<(usize, String)> {
    let own = module_path(file);
    let place = |name: &str| modules.iter().position(|module| module == name);
    let Some(own_place) = own.first().and_then(|name| place(name)) else {
        return Vec::new();
    };
    paths(&code(text))
        .into_iter()
        .filter(|named| {
            let up = named.segments.iter().take_while(|segment| *segment == "super").count();
            let from_root = if named.segments[0] == "crate" {
                1
            } else if up >= own.len() {
                up
            } else {
                return false;
            };
            let target = named.segments.get(from_root).and_then(|name| place(name));
            target.is_some_and(|target| target > own_place)
        })
        .map(|named| (named.line, named.text()))
        .collect()
}

#[test]
fn modules_use_what_stands_above_them() {
    let modules = modules();
    assert!(modules.len() > 15, "the modules of src/lib.rs are found: {modules:?}");
    let mut findings = Vec::new();
    let mut seen = 0;
    for file in sources() {
        let text = read(&file);
        seen += usize::from(text.contains("use crate::"));
        for (line, named) in named_below(&file, &text, &modules) {
            findings.push(format!("{file}:{line} names {named}"));
        }
    }
    assert!(seen > 50, "imports are found");
    none(
        &findings,
        "the order in src/lib.rs is the way of a request: move what is shared to a module above both, or have the lower \
         module pass it in",
    );
}

#[test]
fn every_module_stands_in_the_order() {
    let modules = modules();
    let findings: Vec<String> = sources()
        .iter()
        .filter(|file| !matches!(file.as_str(), "src/main.rs" | "src/arguments.rs" | "src/lib.rs"))
        .filter(|file| !modules.iter().any(|module| module_path(file)[0] == module))
        .cloned()
        .collect();
    none(
        &findings,
        "no `pub mod` line in src/lib.rs leads to this file: add it at its place, or delete the file",
    );
}

/// Crates that hold bytes and text and do nothing with the world.
const PURE: &[&str] = &[
    "base64",
    "bytes",
    "fearless_simd",
    "memchr",
    "prost",
    "serde",
    "serde_json",
    "simdutf8",
];
/// What the standard library has of the world.
const WORLD: &[&str] = &["env", "fs", "io", "net", "os", "process", "thread", "time"];

/// The lines of a file of `a2a` that name something else than pure code.
fn impure(text: &str, crates: &[String]) -> Vec<(usize, String)> {
    paths(&shipped(&code(text)))
        .into_iter()
        .filter(|named| {
            let [first, second, ..] = named.segments.as_slice() else {
                return false;
            };
            match first.as_str() {
                "std" => WORLD.contains(&second.as_str()),
                "crate" => second != "a2a",
                other => crates.iter().any(|name| name == other) && !PURE.contains(&other),
            }
        })
        .map(|named| (named.line, named.text()))
        .collect()
}

/// The dependencies by the names that code uses for them.
fn dependencies() -> Vec<String> {
    let manifest = read("Cargo.toml");
    let (_, after) = manifest.split_once("[dependencies]\n").unwrap();
    after
        .lines()
        .take_while(|line| !line.starts_with('['))
        .filter_map(|line| Some(line.split_once(" = ")?.0.replace('-', "_")))
        .collect()
}

#[test]
fn a2a_is_pure() {
    let dependencies = dependencies();
    for name in ["tokio", "hyper", "http", "jsonwebtoken", "serde_json"] {
        assert!(
            dependencies.iter().any(|dependency| dependency == name),
            "{name} is found in Cargo.toml"
        );
    }
    let mut findings = Vec::new();
    for file in sources()
        .iter()
        .filter(|file| file.starts_with("src/a2a/") && !is_test(file))
    {
        for (line, named) in impure(&read(file), &dependencies) {
            findings.push(format!("{file}:{line} names {named}"));
        }
    }
    none(
        &findings,
        "a2a is the protocol as types and pure functions, without sockets, files, clock or runtime: do it in the stage \
         that calls, and pass in what is needed",
    );
}

#[test]
fn imports_are_resolved() {
    let modules: Vec<String> = ["clock", "config", "http", "route"].map(str::to_owned).to_vec();
    let check = |file: &str, text: &str, expected: &[&str]| {
        let seen: Vec<String> = named_below(file, text, &modules)
            .into_iter()
            .map(|(_, named)| named)
            .collect();
        assert_eq!(seen, expected, "{file}: {text}");
    };
    check(
        "src/config/mod.rs",
        "use crate::clock::Clock; use crate::config::x;",
        &[],
    );
    check(
        "src/config/mod.rs",
        "use crate::route::Route;",
        &["crate::route::Route"],
    );
    check(
        "src/config/mod.rs",
        "use crate::{clock, http::body};",
        &["crate::http::body"],
    );
    check(
        "src/config/mod.rs",
        "fn f() -> crate::route::Route {}",
        &["crate::route::Route"],
    );
    check(
        "src/config/mod.rs",
        "// crate::route\n/* crate::http */ \"crate::route\"",
        &[],
    );
    check("src/config/mod.rs", "use super::route;", &["super::route"]);
    check("src/config/load.rs", "use super::route; use http::Uri;", &[]);
    check(
        "src/config/load.rs",
        "use super::super::route;",
        &["super::super::route"],
    );
    check(
        "src/config/check/url.rs",
        "use super::super::super::{clock, route};",
        &["super::super::super::route"],
    );
    check("src/clock.rs", "use super::config;", &["super::config"]);
    check("src/main.rs", "use crate::route;", &[]);
    check("src/route/tests.rs", "use crate::http; use crate::config;", &[]);
}

#[test]
fn impurity_is_seen() {
    let crates: Vec<String> = ["http", "serde", "tokio"].map(str::to_owned).to_vec();
    let check = |text: &str, expected: &[&str]| {
        let seen: Vec<String> = impure(text, &crates).into_iter().map(|(_, named)| named).collect();
        assert_eq!(seen, expected, "{text}");
    };
    check("use std::fmt; use serde::Serialize; \"http::x\"", &[]);
    check("use std::{fmt, time::Instant};", &["std::time::Instant"]);
    check("fn f(x: http::Uri) {}", &["http::Uri"]);
    check("use crate::config::Config;", &["crate::config::Config"]);
    check("#[cfg(test)]\nmod tests { use std::fs::read; }", &[]);
}
