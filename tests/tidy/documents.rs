//! Documents against what they speak of: folders, modules, files, commands.

use std::collections::BTreeSet;

use super::{files, is_test, modules, none, read, root};

#[test]
fn the_front_page_tells_how_to_test_and_to_try() {
    let readme = read("README.md");
    for (needed, why) in [
        ("\ntests/run\n", "how to run the tests"),
        ("cargo run --locked -- demo\n", "how to try the gateway"),
        ("a2a-gateway run --agent ", "how to put it in front of an agent"),
        ("CHANGELOG.md", "where changes stand"),
    ] {
        assert!(
            readme.contains(needed),
            "README.md must tell {why}: `{}`",
            needed.trim()
        );
    }
}

#[test]
fn the_licence_is_the_declared_one() {
    let licence = read("LICENSE");
    assert!(
        licence.contains("Apache License") && licence.contains("Version 2.0, January 2004"),
        "LICENSE must be the text of the Apache License 2.0"
    );
    for (path, needed) in [
        ("Cargo.toml", "\nlicense = \"Apache-2.0\"\n"),
        ("Dockerfile", "org.opencontainers.image.licenses=\"Apache-2.0\""),
        ("README.md", "Apache-2.0"),
    ] {
        assert!(read(path).contains(needed), "{path} must say `{}`", needed.trim());
    }
}

#[test]
fn the_changelog_knows_the_version() {
    let changelog = read("CHANGELOG.md");
    let version = env!("CARGO_PKG_VERSION");
    let headings: Vec<&str> = changelog.lines().filter(|line| line.starts_with("## ")).collect();
    assert!(
        headings
            .iter()
            .any(|heading| *heading == "## [Unreleased]" || heading.starts_with(&format!("## [{version}]"))),
        "CHANGELOG.md needs `## [Unreleased]` or `## [{version}] - DATE`; it has {headings:?}"
    );
}

#[test]
fn the_map_of_the_code_has_every_module_in_order() {
    let map = read("src/README.md");
    let rows: Vec<&str> = map
        .lines()
        .skip_while(|line| !line.starts_with("| Module |"))
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .filter_map(|line| line.split('`').nth(1))
        .collect();
    assert_eq!(
        rows,
        modules(),
        "src/README.md: the table of modules must be the `pub mod` lines of src/lib.rs"
    );
}

#[test]
fn every_folder_of_tests_is_explained() {
    let readme = read("tests/README.md");
    let mut wanted = BTreeSet::new();
    for path in files() {
        let mut parts: Vec<&str> = path.split('/').collect();
        let name = parts.pop().unwrap();
        match parts.as_slice() {
            ["tests"] if name.ends_with(".rs") => wanted.insert(format!("tests/{name}")),
            // What an integration test is made of.
            ["tests", folder, ..] if root().join(format!("tests/{folder}.rs")).exists() && *folder != "corpus" => false,
            ["tests", "e2e", folder, ..] => wanted.insert(format!("tests/e2e/{folder}/")),
            ["tests", folder, ..] => wanted.insert(format!("tests/{folder}/")),
            _ => false,
        };
    }
    assert!(wanted.len() > 8, "the folders of tests are found: {wanted:?}");
    let findings: Vec<String> = wanted
        .into_iter()
        .filter(|path| !readme.contains(&format!("`{path}`")))
        .collect();
    none(&findings, "say in tests/README.md what is there and how to run it");
}

#[test]
fn the_schema_is_documented() {
    let readme = read("config/README.md");
    assert!(
        readme.contains("a2a-gateway schema"),
        "config/README.md must say how to get the schema: `a2a-gateway schema`"
    );
}

/// The words in backticks outside fenced blocks, with their lines.
fn quoted(text: &str) -> Vec<(usize, &str)> {
    let mut fenced = false;
    let mut words = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            words.extend(line.split('`').skip(1).step_by(2).map(|word| (index + 1, word)));
        }
    }
    words
}

/// The path that a quoted word names, if it begins with one of these folders.
fn path_in<'a>(word: &'a str, folders: &BTreeSet<&str>) -> Option<&'a str> {
    let path = word.split(' ').next()?;
    let plain = path
        .chars()
        .all(|character| character.is_ascii_alphanumeric() || matches!(character, '/' | '.' | '_' | '-'));
    let (first, _) = path.split_once('/')?;
    (plain && folders.contains(first)).then_some(path)
}

#[test]
fn paths_in_documents_exist() {
    let files = files();
    let is_there = |path: &str| root().join(path).exists() && (!path.ends_with('/') || root().join(path).is_dir());
    let mut findings = Vec::new();
    let mut seen = 0;
    for file in files.iter().filter(|file| file.ends_with(".md")) {
        // From the root, or from the document's own folder.
        let own = file.rsplit_once('/').map_or("", |(folder, _)| folder);
        let below = |from: &str| {
            let inner = files
                .iter()
                .filter_map(move |path| path.strip_prefix(from)?.trim_start_matches('/').split_once('/'));
            inner.map(|(folder, _)| folder).collect::<BTreeSet<_>>()
        };
        let folders = &below("") | &below(own);
        for (line, word) in quoted(&read(file)) {
            let Some(path) = path_in(word, &folders) else {
                continue;
            };
            seen += 1;
            if !is_there(path) && !is_there(&format!("{own}/{path}")) {
                findings.push(format!("{file}:{line} {path}"));
            }
        }
    }
    assert!(seen > 40, "documents name paths: {seen}");
    none(&findings, "no such file or folder: correct the path");
}

#[test]
fn quoted_paths_are_found() {
    let top = BTreeSet::from(["src", "tests"]);
    let words: Vec<_> = quoted("a `b c` d `src/x.rs`\n```\n`no`\n```\n`tests/run --all`")
        .into_iter()
        .collect();
    assert_eq!(words, [(1, "b c"), (1, "src/x.rs"), (5, "tests/run --all")]);
    let paths: Vec<_> = words.iter().filter_map(|(_, word)| path_in(word, &top)).collect();
    assert_eq!(paths, ["src/x.rs", "tests/run"]);
    assert_eq!(path_in("src/<module>/tests.rs", &top), None);
    assert_eq!(path_in("/agents/x", &top), None);
}

#[test]
fn each_loss_of_translation_names_a_test_that_exists() {
    let register = read("src/a2a/LOSSES.md");
    let tests: String = files()
        .iter()
        .filter(|path| {
            ((path.starts_with("src/a2a/") || path.starts_with("src/push/")) && is_test(path))
                || path.starts_with("tests/e2e/path/")
        })
        .map(|path| read(path))
        .collect();
    let rows = register
        .lines()
        .filter(|line| line.starts_with("| ") && line.contains('`'));
    let (mut missing, mut count) = (Vec::new(), 0);
    for row in rows {
        count += 1;
        let test = row.rsplit('`').nth(1).unwrap_or_default();
        if !tests.contains(&format!("fn {test}()")) {
            missing.push(format!("src/a2a/LOSSES.md: {test}"));
        }
    }
    assert!(count > 10, "{count} rows");
    none(&missing, "name the test that shows what becomes of the field");
}
