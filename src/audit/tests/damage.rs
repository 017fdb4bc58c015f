//! Every kind of damage, and what the verifier says of it.

use std::fs;
use std::path::PathBuf;

use super::{KEY, OTHER_KEY, begin, breaks, holds, keyed, record, text, told, turn};
use crate::config::Audit;

/// Seven lines under a key: `trail_opened`, `a` to `f`.
fn chain(folder: &tempfile::TempDir) -> (Audit, Vec<PathBuf>, Vec<String>) {
    let settings = keyed(folder, KEY);
    let trail = begin(&settings);
    record(&trail, &["a", "b", "c", "d", "e", "f"]);
    let lines: Vec<String> = text(&settings.file).lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), 7);
    let files = vec![settings.file.clone()];
    assert_eq!(holds(&files, &[KEY]).lines, 7);
    (settings, files, lines)
}

fn rewrite(files: &[PathBuf], lines: &[&str]) {
    fs::write(
        &files[0],
        lines.iter().map(|line| format!("{line}\n")).collect::<String>(),
    )
    .unwrap();
}

/// Without its last bytes.
fn begin_of(text: &str, cut: usize) -> &str {
    text.get(..text.len() - cut).unwrap()
}

#[test]
fn a_line_that_was_changed_is_found_wherever_it_was_changed() {
    let folder = tempfile::tempdir().unwrap();
    let (_, files, lines) = chain(&folder);
    let whole = text(&files[0]);
    let changed = "audit.log:4 the line was changed or put in: its hash is not that of what it says";
    fs::write(&files[0], whole.replace("\"task\":\"c\"", "\"task\":\"x\"")).unwrap();
    assert_eq!(breaks(&files, &[KEY]), changed);
    // Every byte counts: of what is told, of both hashes, of what stands around them.
    let at = lines.iter().take(3).map(|line| line.len() + 1).sum::<usize>();
    for offset in 0..lines[3].len() {
        let mut bytes = whole.clone().into_bytes();
        bytes[at + offset] ^= 1;
        fs::write(&files[0], &bytes).unwrap();
        let found = breaks(&files, &[KEY]);
        assert!(found.starts_with("audit.log:4 "), "byte {offset}: {found}");
    }
}

#[test]
fn a_line_that_was_removed_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let (_, files, lines) = chain(&folder);
    let kept: Vec<&str> = [0, 1, 2, 5, 6].iter().map(|at| &*lines[*at]).collect();
    rewrite(&files, &kept);
    assert_eq!(breaks(&files, &[KEY]), "audit.log:4 lines 4 to 5 are missing before it");
}

#[test]
fn a_line_that_was_put_in_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let (_, files, lines) = chain(&folder);
    let all: Vec<&str> = lines.iter().map(String::as_str).collect();
    // Twice the same.
    let mut twice = all.clone();
    twice.insert(3, all[2]);
    rewrite(&files, &twice);
    let found = breaks(&files, &[KEY]);
    assert_eq!(
        found,
        "audit.log:4 the line stands in another order, or twice: it is number 3, and follows number 3"
    );
    // Of another chain, made with the same key.
    let elsewhere = tempfile::tempdir().unwrap();
    let (_, _, others) = {
        let settings = keyed(&elsewhere, KEY);
        let trail = begin(&settings);
        record(&trail, &["v", "w", "x", "y", "z"]);
        let lines: Vec<String> = text(&settings.file).lines().map(str::to_owned).collect();
        ((), (), lines)
    };
    let mut mixed = all.clone();
    mixed[3] = &others[3];
    rewrite(&files, &mixed);
    let found = breaks(&files, &[KEY]);
    assert_eq!(
        found,
        "audit.log:4 the line is of another chain: it does not follow the one before it"
    );
    // Of nobody.
    for foreign in ["", "{}", "{\"sequence\":4}", &"x".repeat(100_000)] {
        let mut mixed = all.clone();
        mixed.insert(3, foreign);
        rewrite(&files, &mixed);
        assert_eq!(breaks(&files, &[KEY]), "audit.log:4 the line is none of an audit trail");
    }
}

#[test]
fn lines_in_another_order_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let (_, files, lines) = chain(&folder);
    let order: Vec<&str> = [0, 1, 3, 2, 4, 5, 6].iter().map(|at| &*lines[*at]).collect();
    rewrite(&files, &order);
    assert_eq!(breaks(&files, &[KEY]), "audit.log:3 lines 3 to 3 are missing before it");
}

#[test]
fn another_key_is_told_from_a_change() {
    let folder = tempfile::tempdir().unwrap();
    let (_, files, lines) = chain(&folder);
    let another = "audit.log:1 no line of the file is verified: it was made with another key, or without one, or all of it was \
                   changed";
    assert_eq!(breaks(&files, &[OTHER_KEY]), another);
    assert_eq!(breaks(&files, &[]), another, "without a key");
    assert_eq!(holds(&files, &[OTHER_KEY, KEY]).lines, 7, "one of several");
    let mut changed: Vec<&str> = lines.iter().map(String::as_str).collect();
    let first = lines[0].replace("a new chain", "an old chain");
    changed[0] = &first;
    rewrite(&files, &changed);
    assert!(breaks(&files, &[KEY]).starts_with("audit.log:1 the line was changed"));
}

#[test]
fn a_chain_that_was_made_anew_without_the_key_does_not_hold() {
    let folder = tempfile::tempdir().unwrap();
    let (settings, files, _) = chain(&folder);
    fs::remove_file(&settings.file).unwrap();
    let forger = begin(&Audit {
        key: None,
        ..settings.clone()
    });
    record(&forger, &["a", "b"]);
    assert_eq!(holds(&files, &[]).lines, 3, "it holds for who asks for no key");
    assert!(breaks(&files, &[KEY]).contains("no line of the file is verified"));
}

#[test]
fn lines_that_are_missing_at_the_end_show_in_the_number_of_the_last() {
    let folder = tempfile::tempdir().unwrap();
    let (_, files, lines) = chain(&folder);
    let kept: Vec<&str> = lines.iter().take(4).map(String::as_str).collect();
    rewrite(&files, &kept);
    assert_eq!(holds(&files, &[KEY]).last.sequence, 4, "of 7, as the metric says");
}

#[test]
fn what_is_missing_at_the_beginning_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let (_, files, lines) = chain(&folder);
    let kept: Vec<&str> = lines.iter().skip(2).map(String::as_str).collect();
    rewrite(&files, &kept);
    assert_eq!(holds(&files, &[KEY]).after.sequence, 2);
}

#[test]
fn a_line_that_breaks_off_is_told_at_the_end_and_a_break_before() {
    let folder = tempfile::tempdir().unwrap();
    let (settings, files, lines) = chain(&folder);
    let whole = text(&files[0]);
    for cut in 1..=lines[6].len() {
        fs::write(&files[0], begin_of(&whole, cut)).unwrap();
        let verified = holds(&files, &[KEY]);
        assert_eq!((verified.lines, verified.unfinished), (6, lines[6].len() + 1 - cut));
    }
    // In the middle of the file it takes the next line with it.
    let torn = format!("{}\n{}{}\n", lines[0], begin_of(&lines[1], 40), lines[2]);
    fs::write(&files[0], torn).unwrap();
    assert!(
        breaks(&files, &[KEY]).starts_with("audit.log:2 "),
        "{}",
        breaks(&files, &[KEY])
    );
    // Before another file.
    let next = folder.path().join("next.log");
    fs::write(&files[0], begin_of(&whole, 10)).unwrap();
    fs::write(&next, &lines[6]).unwrap();
    let both = [settings.file.clone(), next];
    assert_eq!(
        breaks(&both, &[KEY]),
        "audit.log:7 the line breaks off in the middle, and another file follows"
    );
}

#[test]
fn after_a_torn_line_the_chain_goes_on_and_tells_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let (settings, files, _) = chain(&folder);
    let whole = text(&files[0]);
    fs::write(&files[0], begin_of(&whole, 30)).unwrap();
    let trail = begin(&settings);
    record(&trail, &["g"]);
    assert_eq!(
        told(&files[0]),
        ["trail_opened", "a", "b", "c", "d", "e", "trail_opened", "g"]
    );
    let said = &super::parsed(&files[0])[6]["detail"];
    assert!(
        said.as_str()
            .unwrap()
            .starts_with("the chain goes on; an unfinished line of "),
        "{said}"
    );
    assert_eq!(holds(&files, &[KEY]).lines, 8);
}

#[test]
fn a_file_that_somebody_changed_is_set_aside_and_not_written_over() {
    let folder = tempfile::tempdir().unwrap();
    for damage in [
        "not a line of a trail\n",
        "not even a whole line",
        "{\"sequence\":8,\"previous\":\"\",\"hash\":\"\"}\n",
    ] {
        let settings = keyed(&folder, KEY);
        fs::write(&settings.file, damage).unwrap();
        let trail = begin(&settings);
        record(&trail, &["a"]);
        trail.close();
        assert_eq!(text(&super::numbered(&settings, 1)), damage);
        assert_eq!(holds(std::slice::from_ref(&settings.file), &[KEY]).lines, 3, "{damage}");
        fs::remove_file(&settings.file).unwrap();
    }
}

#[test]
fn the_last_line_changed_while_the_gateway_was_away_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let (settings, files, _) = chain(&folder);
    fs::write(&files[0], text(&files[0]).replace("\"task\":\"f\"", "\"task\":\"x\"")).unwrap();
    let trail = begin(&settings);
    record(&trail, &["g"]);
    let said = &super::parsed(&files[0])[0]["detail"];
    assert_eq!(said, "the last line of the file before is not verified by this key");
    let both = [super::numbered(&settings, 1), settings.file.clone()];
    assert!(breaks(&both, &[KEY]).starts_with("audit.log.1:7 the line was changed"));
}

#[test]
fn a_file_is_of_one_key_and_the_chain_goes_on_over_keys() {
    let folder = tempfile::tempdir().unwrap();
    let settings = keyed(&folder, KEY);
    let trail = begin(&settings);
    record(&trail, &["a"]);
    // While the gateway runs.
    let other = keyed(&folder, OTHER_KEY);
    turn(&trail, &other);
    record(&trail, &["b"]);
    trail.close();
    assert_eq!(
        told(&super::numbered(&settings, 1)),
        ["trail_opened", "a", "trail_closed"]
    );
    assert_eq!(told(&settings.file), ["trail_opened", "b", "trail_closed"]);
    let both = [super::numbered(&settings, 1), settings.file.clone()];
    assert_eq!(holds(&both, &[KEY, OTHER_KEY]).lines, 6);
    assert!(breaks(&both, &[KEY]).starts_with("audit.log:1 "));
    // And over a restart.
    let trail = begin(&settings);
    record(&trail, &["c"]);
    let all = [
        super::numbered(&settings, 2),
        super::numbered(&settings, 1),
        settings.file.clone(),
    ];
    assert_eq!(holds(&all, &[KEY, OTHER_KEY]).lines, 8);
}
