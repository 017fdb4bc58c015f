//! What no file of the repository says, and how files begin and how long they get.

use super::{files, is_test, none, read, root, sources};

/// A file may be binary; then it has no text.
fn text_of(path: &str) -> Option<String> {
    String::from_utf8(std::fs::read(root().join(path)).unwrap()).ok()
}

/// The findings of `look` in all lines of all files.
fn in_all_files(look: impl Fn(&str, &str) -> Option<String>) -> Vec<String> {
    let mut findings = Vec::new();
    for path in files() {
        for (index, line) in text_of(&path).iter().flat_map(|text| text.lines().enumerate()) {
            if let Some(what) = look(&path, line) {
                findings.push(format!("{path}:{} {what}", index + 1));
            }
        }
    }
    findings
}

/// Hosts of package registries. Each is put together here, so that this file does not name one.
const REGISTRIES: &[&str] = &[
    concat!("crates", ".io"),
    concat!("docs", ".rs"),
    concat!("pypi", ".org"),
    concat!("python", "hosted.org"),
    concat!("registry.", "npmjs"),
    concat!("npmjs", ".com"),
    concat!("npmjs", ".org"),
    concat!("yarnpkg", ".com"),
    concat!("deb.", "debian.org"),
    concat!("rubygems", ".org"),
    concat!("proxy.", "golang.org"),
];

/// How cargo writes where a crate comes from; cargo-deny checks that there is no other source.
const LOCKED: &str = concat!("source = \"registry+https://github.com/rust-lang/crates", ".io-index\"");

fn registry(path: &str, line: &str) -> Option<String> {
    let is_lock = path == "Cargo.lock" || path.ends_with("/Cargo.lock");
    if is_lock && line == LOCKED {
        return None;
    }
    let line = line.to_ascii_lowercase();
    REGISTRIES
        .iter()
        .find(|host| line.contains(**host))
        .map(|host| format!("names {host}"))
}

#[test]
fn no_file_names_a_package_registry() {
    none(
        &in_all_files(registry),
        "packages are named, and the tools know where they come from; make package-lock.json with \
         `npm install --omit-lockfile-registry-resolved`",
    );
}

/// Folders of somebody's machine; a temporary one is made by `mktemp` or `tempfile`.
const PLACES: &[&str] = &[
    concat!("/ro", "ot/"),
    concat!("/wo", "rk/"),
    concat!("/ho", "me/"),
    concat!("/Use", "rs/"),
    concat!("/tm", "p/"),
];

fn machine_path(_: &str, line: &str) -> Option<String> {
    PLACES
        .iter()
        .find(|place| {
            // `a/work/b` is a path of something else.
            line.match_indices(**place).any(|(at, _)| {
                !line[..at]
                    .ends_with(|before: char| before.is_alphanumeric() || matches!(before, '.' | '_' | '-' | '}'))
            })
        })
        .map(|place| format!("names {place}"))
}

#[test]
fn no_file_names_a_folder_of_a_machine() {
    none(
        &in_all_files(machine_path),
        "make it a path within the repository, an argument, or a temporary folder",
    );
}

/// Words about how the product is made. The protocol's and TLS's sessions are meant by none of these.
const WORKPLACE: &[&str] = &[
    concat!("previous ", "session"),
    concat!("earlier ", "session"),
    concat!("next ", "session"),
    concat!("last ", "session"),
];

/// A numbered issue or session: a number that means something only to whoever keeps the list. A report of another project
/// is `hyper#3756`.
fn workplace(_: &str, line: &str) -> Option<String> {
    let line = line.to_ascii_lowercase();
    let numbered = ["issue", "session", "helper"].into_iter().find(|word| {
        line.match_indices(word).any(|(at, _)| {
            let own_word = !line[..at].ends_with(|before: char| before.is_ascii_alphanumeric() || before == '_');
            let after = &line[at + word.len()..];
            let number = after
                .strip_prefix(' ')
                .or_else(|| after.starts_with('#').then_some(after));
            own_word
                && number.is_some_and(|number| {
                    number.starts_with('#') || number.starts_with(|first: char| first.is_ascii_digit())
                })
        })
    });
    let said = numbered.or_else(|| WORKPLACE.iter().copied().find(|words| line.contains(words)));
    said.map(|words| format!("says `{words}`"))
}

#[test]
fn no_file_speaks_of_how_it_was_made() {
    none(
        &in_all_files(workplace),
        "files speak of the product: say the reason itself; a report of another project is `project#number`",
    );
}

#[test]
fn rust_files_say_what_they_are() {
    let mut findings = Vec::new();
    for path in files() {
        let is_rust = path.ends_with(".rs") && (path.starts_with("src/") || path.starts_with("tests/"));
        // The front page of the crate is src/README.md.
        if !is_rust || path == "src/lib.rs" {
            continue;
        }
        let text = read(&path);
        let first = text.lines().next().unwrap_or_default();
        if first.strip_prefix("//! ").is_none_or(|said| said.trim().len() < 10) {
            findings.push(format!("{path}:1"));
        }
    }
    none(
        &findings,
        "open the file with a `//!` line: what it holds, its invariants, what it deliberately does not do",
    );
}

/// About 500 lines deserve the question whether a file holds two things; this is where the answer is yes.
const MOST_LINES: usize = 650;
const MOST_LINES_OF_TESTS: usize = 800;

#[test]
fn files_hold_one_thing() {
    let mut findings = Vec::new();
    for path in sources() {
        let lines = read(&path).lines().count();
        let most = if is_test(&path) {
            MOST_LINES_OF_TESTS
        } else {
            MOST_LINES
        };
        if lines > most {
            findings.push(format!("{path}:{most} {lines} lines, at most {most}"));
        }
    }
    none(&findings, "split the file by what its parts are about");
}

#[test]
fn words_are_told_apart() {
    let says = |look: fn(&str, &str) -> Option<String>, path: &str, line: &str, expected: bool| {
        assert_eq!(look(path, line).is_some(), expected, "{path}: {line}");
    };
    says(registry, "README.md", concat!("see https://docs", ".rs/x"), true);
    says(registry, "README.md", "a registry of metrics, docs/rs", false);
    says(registry, "Cargo.lock", LOCKED, false);
    says(registry, "tests/bench/Cargo.lock", LOCKED, false);
    says(registry, "Cargo.toml", LOCKED, true);
    says(machine_path, "x", concat!("cd /wo", "rk/main"), true);
    says(machine_path, "x", concat!("\"/ho", "me/ann\""), true);
    says(machine_path, "x", concat!("--keep /tm", "p/look"), true);
    says(machine_path, "x", concat!("net/wo", "rk/x, a.b/wo", "rk/"), false);
    says(machine_path, "x", "/var/lib/a2a-gateway, /tmp", false);
    says(workplace, "x", concat!("as iss", "ue 2 says"), true);
    says(workplace, "x", concat!("Iss", "ue #12"), true);
    says(workplace, "x", concat!("(iss", "ue#12)"), true);
    says(workplace, "x", "hyper#3756; two issuers; issue a certificate", false);
    says(workplace, "x", concat!("in sess", "ion 3"), true);
    says(workplace, "x", "a resumed session; sessionId 3; ?session=1", false);
}
