//! Metrics, outcomes, rejections and exit codes against the tables in `deploy/README.md`.

use std::collections::{BTreeMap, BTreeSet};

use a2a_gateway::observe::metrics::HELP;
use a2a_gateway::observe::{Outcome, Reason};
use a2a_gateway::respond::reject;

use super::source::code;
use super::{files, none, read};

const DOCUMENT: &str = "deploy/README.md";
const METRICS: &str = "src/observe/metrics/mod.rs";

/// The rows of the table whose header row begins so, each with its line and its cells.
fn table(text: &str, header: &str) -> Vec<(usize, Vec<String>)> {
    let rows: Vec<(usize, Vec<String>)> = text
        .lines()
        .enumerate()
        .skip_while(|(_, line)| !line.starts_with(header))
        .skip(2)
        .take_while(|(_, line)| line.starts_with('|'))
        .map(|(index, line)| {
            let cells = line
                .trim_matches('|')
                .split('|')
                .map(|cell| cell.trim().to_owned())
                .collect();
            (index + 1, cells)
        })
        .collect();
    assert!(!rows.is_empty(), "{DOCUMENT} has a table that begins `{header}`");
    rows
}

fn unquoted(cell: &str) -> &str {
    cell.trim_matches('`')
}

/// The constants of `src/observe/metrics/mod.rs`: name of the constant, name of the metric.
fn constants() -> BTreeMap<String, String> {
    read(METRICS)
        .lines()
        .filter_map(|line| {
            let (constant, value) = line.strip_prefix("pub const ")?.split_once(": &str = \"")?;
            Some((constant.to_owned(), value.strip_suffix("\";")?.to_owned()))
        })
        .collect()
}

/// The labels that each metric is made with.
fn labels() -> BTreeMap<String, String> {
    let constants = constants();
    let text = read(METRICS);
    // `code` has each character at the place of `text` as long as both are counted in characters.
    let blank: Vec<char> = code(&text).chars().collect();
    let text: Vec<char> = text.chars().collect();
    let flat: String = blank.iter().collect();
    let mut labels = BTreeMap::new();
    for (constant, metric) in &constants {
        let Some(at) = [format!("({constant}, &["), format!("({constant})")]
            .iter()
            .find_map(|made| flat.find(made))
        else {
            continue;
        };
        let start = flat[..at].chars().count();
        let end = blank[start..].iter().position(|&character| character == ')').unwrap() + start;
        let arguments: String = text[start..end].iter().collect();
        let names: Vec<&str> = arguments.split('"').skip(1).step_by(2).collect();
        labels.insert(metric.clone(), names.join(", "));
    }
    labels
}

#[test]
fn every_metric_has_a_help_text() {
    let constants = constants();
    assert!(constants.len() > 20, "the metrics in {METRICS} are found");
    let with_help: BTreeSet<&str> = HELP.iter().map(|(name, _)| *name).collect();
    assert_eq!(with_help.len(), HELP.len(), "a metric stands twice in HELP");
    let findings: Vec<String> = constants
        .values()
        .filter(|name| !with_help.contains(name.as_str()))
        .map(|name| format!("{METRICS}: {name}"))
        .collect();
    none(&findings, "add what the metric tells to HELP");
    let made = labels();
    let findings: Vec<String> = constants
        .values()
        .filter(|name| !made.contains_key(*name))
        .cloned()
        .collect();
    none(
        &findings,
        &format!("a metric that {METRICS} names and never makes: make it, or delete it"),
    );
}

#[test]
fn metrics_and_their_table_say_the_same() {
    let labels = labels();
    let document = read(DOCUMENT);
    let rows = table(&document, "| Name | Labels |");
    let mut findings = Vec::new();
    for (name, help) in HELP {
        let found: Vec<_> = rows.iter().filter(|(_, cells)| unquoted(&cells[0]) == *name).collect();
        let [(line, cells)] = found.as_slice() else {
            findings.push(format!("{DOCUMENT}: {name} has {} rows, not one", found.len()));
            continue;
        };
        if cells[2] != *help {
            findings.push(format!(
                "{DOCUMENT}:{line} {name}: `{}`, but its help is `{help}`",
                cells[2]
            ));
        }
        let wanted = labels
            .get(*name)
            .filter(|labels| !labels.is_empty())
            .map_or("–", String::as_str);
        if cells[1] != wanted {
            findings.push(format!(
                "{DOCUMENT}:{line} {name}: labels `{}`, but it has `{wanted}`",
                cells[1]
            ));
        }
    }
    for (line, cells) in &rows {
        if !HELP.iter().any(|(name, _)| *name == unquoted(&cells[0])) {
            findings.push(format!("{DOCUMENT}:{line} {} does not exist", cells[0]));
        }
    }
    none(&findings, &format!("bring the table in line with {METRICS}"));
}

/// The words in `text` that look like a metric.
fn metrics_in(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().flat_map(|(index, line)| {
        line.split(|character: char| !character.is_ascii_alphanumeric() && character != '_')
            .filter(|word| word.starts_with("a2a_gateway_"))
            .map(move |word| (index + 1, word))
    })
}

#[test]
fn every_metric_that_documents_name_exists() {
    let mut findings = Vec::new();
    let mut seen = 0;
    for file in files() {
        let is_document = [".md", ".yaml", ".yml", ".service"]
            .iter()
            .any(|ending| file.ends_with(ending));
        if !is_document {
            continue;
        }
        for (line, word) in metrics_in(&read(&file)) {
            seen += 1;
            let base = ["_bucket", "_sum", "_count"]
                .iter()
                .find_map(|suffix| word.strip_suffix(suffix));
            if !HELP.iter().any(|(name, _)| *name == word || Some(*name) == base) {
                findings.push(format!("{file}:{line} {word}"));
            }
        }
    }
    assert!(seen > HELP.len(), "documents name metrics: {seen}");
    none(
        &findings,
        "no such metric: correct the name, or add it to src/observe/metrics/mod.rs",
    );
}

#[test]
fn rejections_and_their_table_say_the_same() {
    let document = read(DOCUMENT);
    let rows = table(&document, "| Reason | Status |");
    let mut findings = Vec::new();
    for &reason in Reason::ALL {
        let name = reason.as_str();
        let found: Vec<_> = rows.iter().filter(|(_, cells)| unquoted(&cells[0]) == name).collect();
        let [(line, cells)] = found.as_slice() else {
            findings.push(format!("{DOCUMENT}: {name} has {} rows, not one", found.len()));
            continue;
        };
        let wanted = [
            reject::status(reason).as_u16().to_string(),
            reject::code(reason).to_string(),
            reason.fault().as_str().to_owned(),
        ];
        if cells[1..4] != wanted {
            findings.push(format!(
                "{DOCUMENT}:{line} {name}: {:?}, but the gateway answers {wanted:?}",
                &cells[1..4]
            ));
        }
        if cells.get(4).is_none_or(String::is_empty) {
            findings.push(format!("{DOCUMENT}:{line} {name}: what shall an operator do?"));
        }
    }
    for (line, cells) in &rows {
        if !Reason::ALL.iter().any(|reason| reason.as_str() == unquoted(&cells[0])) {
            findings.push(format!("{DOCUMENT}:{line} {} does not exist", cells[0]));
        }
    }
    none(
        &findings,
        "bring the table in line with src/observe/outcome.rs and src/respond/reject.rs",
    );
}

/// Every outcome but the rejections; a new one does not compile until it stands here.
fn other_outcomes() -> Vec<Outcome> {
    let mut outcomes = vec![Outcome::Ok];
    while let Some(next) = match outcomes.last() {
        Some(Outcome::Ok) => Some(Outcome::AgentError),
        Some(Outcome::AgentError) => Some(Outcome::Served),
        Some(Outcome::Served) => Some(Outcome::Delivered),
        Some(Outcome::Delivered) => Some(Outcome::DownstreamGone),
        Some(Outcome::DownstreamGone) => Some(Outcome::StreamBroken),
        Some(Outcome::StreamBroken) => Some(Outcome::Drained),
        Some(Outcome::Drained) => Some(Outcome::Revoked),
        Some(Outcome::Revoked | Outcome::Rejected(_)) | None => None,
    } {
        outcomes.push(next);
    }
    outcomes
}

#[test]
fn every_other_outcome_is_explained() {
    let document = read(DOCUMENT);
    let (_, after) = document.split_once("Other outcomes of the access record:").unwrap();
    let sentence = after.split_once("\n\n").unwrap().0;
    let explained: BTreeSet<&str> = sentence.split('`').skip(1).step_by(2).collect();
    let exist: BTreeSet<&str> = other_outcomes().into_iter().map(Outcome::as_str).collect();
    assert_eq!(
        explained, exist,
        "{DOCUMENT}, \"Other outcomes\": bring it in line with src/observe/outcome.rs"
    );
}

#[test]
fn every_exit_code_is_explained() {
    let document = read(DOCUMENT);
    let rows = table(&document, "| Exit code |");
    let explained: BTreeSet<&str> = rows.iter().map(|(_, cells)| cells[0].as_str()).collect();
    let program = read("src/main.rs");
    let codes: Vec<&str> = program
        .lines()
        .filter_map(|line| line.strip_prefix("const ")?.split_once(": u8 = ")?.1.strip_suffix(';'))
        .collect();
    assert!(codes.len() >= 4, "the exit codes in src/main.rs are found");
    let arguments = read("src/arguments.rs");
    let (_, help) = arguments.split_once("Exit codes: ").unwrap();
    let help = help.split_once('"').unwrap().0;
    // 0, 1 and 2 are the constants of the standard library, of `health` and of clap.
    for code in codes.into_iter().chain(["0", "1", "2"]) {
        assert!(
            explained.contains(code),
            "{DOCUMENT}: exit code {code} of src/main.rs is not in the table"
        );
        let in_help = help
            .split([',', '\n'])
            .any(|part| part.trim().starts_with(&format!("{code} ")));
        assert!(in_help, "src/arguments.rs: the help does not explain exit code {code}");
    }
}
