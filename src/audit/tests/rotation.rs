//! The file when it is full, renamed by others, or in use; and the chain over all of that.

use std::fs;

use super::{begin, breaks, denied, holds, numbered, off, record, settings, text, told, turn};
use crate::audit::Error;
use crate::config::Audit;

#[test]
fn the_chain_goes_on_over_renamed_files_and_the_oldest_goes() {
    let folder = tempfile::tempdir().unwrap();
    let settings = Audit {
        max_bytes: 16 << 10,
        ..settings(&folder)
    };
    let trail = begin(&settings);
    for round in 0..300 {
        record(&trail, &[&format!("t{round}")]);
    }
    let files = [3, 2, 1].map(|number| numbered(&settings, number));
    let all: Vec<_> = files.iter().cloned().chain([settings.file.clone()]).collect();
    for file in &all {
        let length = text(file).len();
        assert!(length <= 16 << 10, "{} has {length} bytes", file.display());
    }
    assert!(!numbered(&settings, 4).exists(), "three are kept");
    let verified = holds(&all, &[]);
    assert_eq!(verified.last.sequence, 301);
    assert!(verified.after.sequence > 0, "the first files are gone");
    assert_eq!(verified.lines, verified.last.sequence - verified.after.sequence);
    // One of them is missing.
    let without: Vec<_> = [0, 2, 3].iter().map(|at| all[*at].clone()).collect();
    assert!(breaks(&without, &[]).contains(" are missing before it"));
    let turned: Vec<_> = [1, 0, 2, 3].iter().map(|at| all[*at].clone()).collect();
    assert!(breaks(&turned, &[]).contains("another order"));
}

#[test]
fn a_batch_that_is_larger_than_a_file_fills_several() {
    let folder = tempfile::tempdir().unwrap();
    let settings = Audit {
        max_bytes: 16 << 10,
        queue: 1000,
        ..settings(&folder)
    };
    let trail = begin(&settings);
    let names: Vec<String> = (0..100).map(|at| format!("t{at}")).collect();
    record(&trail, &names.iter().map(String::as_str).collect::<Vec<_>>());
    let all = [2, 1].map(|number| numbered(&settings, number));
    let all: Vec<_> = all
        .into_iter()
        .filter(|file| file.exists())
        .chain([settings.file.clone()])
        .collect();
    assert!(all.len() > 1);
    let verified = holds(&all, &[]);
    assert_eq!((verified.lines, verified.after.sequence), (101, 0));
    assert_eq!(trail.stats().waiting, 0);
}

#[test]
fn a_restart_goes_on_where_the_chain_ended_also_right_after_a_rename() {
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(&folder);
    let trail = begin(&settings);
    record(&trail, &["a"]);
    trail.close();
    let trail = begin(&settings);
    record(&trail, &["b"]);
    trail.close();
    fs::rename(&settings.file, numbered(&settings, 1)).unwrap();
    let trail = begin(&settings);
    record(&trail, &["c"]);
    assert_eq!(told(&settings.file), ["trail_opened", "c"]);
    let both = [numbered(&settings, 1), settings.file.clone()];
    assert_eq!(holds(&both, &[]).lines, 8);
}

#[test]
fn a_file_that_others_renamed_is_made_anew_when_the_configuration_is_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(&folder);
    let trail = begin(&settings);
    record(&trail, &["a"]);
    turn(&trail, &settings);
    assert_eq!(told(&settings.file), ["trail_opened", "a"], "nothing is different");
    let moved = folder.path().join("audit-20260101.log");
    fs::rename(&settings.file, &moved).unwrap();
    record(&trail, &["b"]);
    assert_eq!(told(&moved), ["trail_opened", "a", "b"], "nobody has told it");
    trail.record(&denied("c"));
    turn(&trail, &settings);
    record(&trail, &["d"]);
    assert_eq!(told(&moved), ["trail_opened", "a", "b", "c", "trail_closed"]);
    assert_eq!(told(&settings.file), ["trail_opened", "d"]);
    assert_eq!(holds(&[moved, settings.file.clone()], &[]).lines, 7);
}

#[test]
fn the_trail_moves_to_another_file_and_ends_when_it_is_switched_off() {
    let folder = tempfile::tempdir().unwrap();
    let before = settings(&folder);
    let trail = begin(&before);
    record(&trail, &["a"]);
    let after = Audit {
        file: folder.path().join("elsewhere.log"),
        ..before.clone()
    };
    turn(&trail, &after);
    record(&trail, &["b"]);
    trail.turn(trail.open(None).unwrap());
    record(&trail, &["nobody writes this"]);
    assert_eq!(told(&before.file), ["trail_opened", "a", "trail_closed"]);
    assert_eq!(told(&after.file), ["trail_opened", "b", "trail_closed"]);
    assert_eq!(holds(&[before.file.clone(), after.file.clone()], &[]).lines, 6);
    turn(&trail, &before);
    record(&trail, &["c"]);
    assert_eq!(
        told(&before.file),
        ["trail_opened", "a", "trail_closed", "trail_opened", "c"]
    );
}

#[test]
fn two_gateways_do_not_write_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(&folder);
    let trail = begin(&settings);
    assert!(matches!(off().open(Some(&settings)), Err(Error::InUse { .. })));
    trail.close();
    assert!(off().open(Some(&settings)).is_ok());
}

#[test]
fn a_file_that_cannot_be_made_is_an_error_that_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let settings = Audit {
        file: folder.path().join("missing/audit.log"),
        ..settings(&folder)
    };
    let error = off().open(Some(&settings)).err().unwrap();
    assert!(error.to_string().contains("missing/audit.log"), "{error}");
    let fault = crate::audit::fault(&settings.file).unwrap();
    assert!(fault.ends_with("missing is not a folder; make it"), "{fault}");
    assert_eq!(crate::audit::fault(&folder.path().join("audit.log")), None);
}
