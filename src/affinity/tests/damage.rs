//! Files that are not as they were written: torn, holed, flipped, missing, foreign.

use std::fs;

use super::*;
use crate::affinity::journal::record::put_size;

const ENDPOINT: &str = "http://a/";
const RECORDS: usize = 6;
/// Bytes before the first record.
const HEADER: usize = 32;

/// A journal of tasks `t0`, `t1`, ... in one segment; closed as a shutdown does, or left as a crash does.
fn journal(close: bool) -> (tempfile::TempDir, Time) {
    let folder = tempfile::tempdir().unwrap();
    let time = Time::new();
    let affinity = open(folder.path(), &time).unwrap();
    for n in 0..RECORDS {
        learn(&affinity, ENDPOINT, &format!("t{n}"), None);
    }
    if close {
        affinity.close();
    }
    (folder, time)
}

fn record() -> usize {
    usize::try_from(put_size("maps", "t0", ENDPOINT, "key:ann")).unwrap()
}

/// Where record `n` begins.
fn start(n: usize) -> usize {
    HEADER + n * record()
}

fn tasks(affinity: &Affinity) -> Vec<String> {
    dump(affinity)
        .into_iter()
        .map(|((_, agent, id), (owner, _))| {
            let whole = (&*agent, &*owner.endpoint, &*owner.principal);
            assert_eq!(whole, ("maps", ENDPOINT, "key:ann"), "a wrong record");
            id
        })
        .collect()
}

fn all_but(missing: &[usize]) -> Vec<String> {
    (0..RECORDS)
        .filter(|n| !missing.contains(n))
        .map(|n| format!("t{n}"))
        .collect()
}

#[test]
fn a_last_record_torn_at_any_byte_is_left_out() {
    let (folder, time) = journal(false);
    let path = first_segment(folder.path());
    let whole = fs::read(&path).unwrap();
    assert_eq!(whole.len(), start(RECORDS));
    for length in start(RECORDS - 1)..start(RECORDS) {
        fs::write(&path, &whole[..length]).unwrap();
        let affinity = open(folder.path(), &time).unwrap();
        assert_eq!(tasks(&affinity), all_but(&[RECORDS - 1]), "at {length}");
        // And writing goes on behind the last whole one.
        learn(&affinity, ENDPOINT, "t5", None);
        drop(affinity);
        assert_eq!(tasks(&open(folder.path(), &time).unwrap()), all_but(&[]));
    }
}

#[test]
fn a_tail_of_zeros_or_noise_is_left_out() {
    for noise in [vec![0; 100_000], vec![0xff; 5000], vec![1; 3]] {
        let (folder, time) = journal(true);
        let path = first_segment(folder.path());
        let mut bytes = fs::read(&path).unwrap();
        let length = bytes.len();
        bytes.extend(noise);
        fs::write(&path, &bytes).unwrap();
        assert_eq!(tasks(&open(folder.path(), &time).unwrap()), all_but(&[]));
        assert_eq!(fs::metadata(&path).unwrap().len(), length as u64);
    }
}

#[test]
fn a_hole_in_what_was_not_synced_is_skipped_and_the_files_are_replaced() {
    let (folder, time) = journal(false);
    let path = first_segment(folder.path());
    let mut bytes = fs::read(&path).unwrap();
    bytes[start(2)..start(4)].fill(0);
    fs::write(&path, &bytes).unwrap();
    let affinity = open(folder.path(), &time).unwrap();
    assert_eq!(tasks(&affinity), all_but(&[2, 3]));
    assert!(!affinity.stats().degraded);
    drop(affinity);
    assert_eq!(
        files(folder.path()),
        ["snapshot-0000000002.log", "tasks-0000000002.log"]
    );
    assert_eq!(tasks(&open(folder.path(), &time).unwrap()), all_but(&[2, 3]));
}

#[test]
fn damage_in_what_was_synced_is_refused_with_its_place_and_recovered_on_demand() {
    let (folder, time) = journal(true);
    let path = first_segment(folder.path());
    let mut bytes = fs::read(&path).unwrap();
    bytes[start(2) + 20] ^= 4;
    fs::write(&path, &bytes).unwrap();
    let error = open(folder.path(), &time).map(drop).unwrap_err();
    let expected = format!("{} is damaged at byte {}", path.display(), start(2));
    assert!(error.to_string().starts_with(&expected), "{error}");

    let affinity = recover(folder.path(), &time).unwrap();
    assert_eq!(tasks(&affinity), all_but(&[2]));
    drop(affinity);
    assert_eq!(
        fs::read(path.with_extension("damaged")).unwrap(),
        bytes,
        "kept for a look"
    );
    assert_eq!(tasks(&open(folder.path(), &time).unwrap()), all_but(&[2]));
}

/// One bit of each byte: refused, or nothing is missing; recovered, at most the one record is.
#[track_caller]
fn check_flips(name: &str, folder: &Path, time: &Time, expect_refused_until: usize) {
    let path = folder.join(name);
    let originals: Vec<_> = files(folder)
        .into_iter()
        .map(|name| (name.clone(), fs::read(folder.join(name)).unwrap()))
        .collect();
    let restore = || {
        for name in files(folder) {
            fs::remove_file(folder.join(name)).unwrap();
        }
        for (name, bytes) in &originals {
            fs::write(folder.join(name), bytes).unwrap();
        }
    };
    let whole = fs::read(&path).unwrap();
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        restore();
        fs::write(&path, &bytes).unwrap();
        match open(folder, time) {
            Ok(affinity) => {
                assert!(at >= expect_refused_until, "byte {at} of {name} was not refused");
                assert_eq!(tasks(&affinity), all_but(&[]), "byte {at} of {name}");
            }
            Err(error) => {
                let told = matches!(error, Error::Corrupt { .. } | Error::Newer { .. });
                assert!(told, "byte {at}: {error}");
                assert!(at < expect_refused_until, "byte {at} of {name} was refused");
            }
        }
        restore();
        fs::write(&path, &bytes).unwrap();
        match recover(folder, time) {
            Ok(affinity) => {
                let lost = RECORDS - tasks(&affinity).len();
                let bound = if at < HEADER { RECORDS } else { 1 };
                assert!(lost <= bound, "byte {at} of {name}: {lost} records lost");
            }
            Err(error) => assert!(matches!(error, Error::Newer { .. }), "byte {at}: {error}"),
        }
    }
    restore();
}

#[test]
fn a_flipped_bit_is_never_believed() {
    let (folder, time) = journal(true);
    // The last frame is the mark itself.
    check_flips("tasks-0000000001.log", folder.path(), &time, start(RECORDS));
}

#[test]
fn a_flipped_bit_in_a_snapshot_is_never_believed() {
    let (folder, time) = journal(false);
    let affinity = open(folder.path(), &time).unwrap();
    assert!(affinity.compact());
    affinity.close();
    drop(affinity);
    let name = "snapshot-0000000002.log";
    let length = fs::read(folder.path().join(name)).unwrap().len();
    check_flips(name, folder.path(), &time, length);
}

#[test]
fn a_snapshot_that_lost_its_end_is_refused() {
    let (folder, time) = journal(false);
    let affinity = open(folder.path(), &time).unwrap();
    assert!(affinity.compact());
    drop(affinity);
    let path = folder.path().join("snapshot-0000000002.log");
    let whole = fs::read(&path).unwrap();
    for length in [whole.len() - 1, start(RECORDS), start(3)] {
        fs::write(&path, &whole[..length]).unwrap();
        let error = open(folder.path(), &time).map(drop).unwrap_err();
        assert!(matches!(error, Error::Corrupt { .. }), "{length}: {error}");
    }
    let affinity = recover(folder.path(), &time).unwrap();
    assert_eq!(tasks(&affinity).len(), 3, "those before the cut");
}

#[test]
fn a_missing_file_is_refused() {
    let (folder, time) = journal(false);
    let affinity = open(folder.path(), &time).unwrap();
    assert!(affinity.compact());
    learn(&affinity, ENDPOINT, "t9", None);
    drop(affinity);
    let segment = folder.path().join("tasks-0000000002.log");
    let snapshot = folder.path().join("snapshot-0000000002.log");
    for (path, named, left) in [
        (&segment, &segment, all_but(&[])),
        (&snapshot, &first_segment(folder.path()), vec!["t9".to_owned()]),
    ] {
        let copy = tempfile::tempdir().unwrap();
        for name in files(folder.path()) {
            fs::copy(folder.path().join(&name), copy.path().join(&name)).unwrap();
        }
        let inside = |path: &Path| copy.path().join(path.file_name().unwrap());
        fs::remove_file(inside(path)).unwrap();
        let error = open(copy.path(), &time).map(drop).unwrap_err();
        let Error::Missing { path } = &error else {
            panic!("{error}");
        };
        assert_eq!(*path, inside(named));
        assert_eq!(tasks(&recover(copy.path(), &time).unwrap()), left);
        assert_eq!(tasks(&open(copy.path(), &time).unwrap()), left);
    }
}

#[test]
fn a_newer_format_is_refused_even_in_recovery() {
    let (folder, time) = journal(true);
    let path = first_segment(folder.path());
    let mut bytes = fs::read(&path).unwrap();
    bytes[8] = 2;
    fs::write(&path, &bytes).unwrap();
    for opened in [open(folder.path(), &time), recover(folder.path(), &time)] {
        let error = opened.map(drop).unwrap_err();
        assert!(error.to_string().contains("has format 2"), "{error}");
    }
    assert_eq!(fs::read(&path).unwrap(), bytes, "untouched");
}

#[test]
fn a_renamed_file_is_refused() {
    let (folder, time) = journal(true);
    let affinity = open(folder.path(), &time).unwrap();
    assert!(affinity.compact());
    drop(affinity);
    fs::copy(
        folder.path().join("tasks-0000000002.log"),
        folder.path().join("tasks-0000000003.log"),
    )
    .unwrap();
    let error = open(folder.path(), &time).map(drop).unwrap_err();
    assert!(matches!(error, Error::Corrupt { offset: 0, .. }), "{error}");
}

#[test]
fn foreign_files_are_left_alone() {
    let (folder, time) = journal(true);
    for name in ["notes.txt", "tasks-x.log", "tasks-1.bak", "other-1.log", "a.tmp"] {
        fs::write(folder.path().join(name), "mine").unwrap();
    }
    let affinity = open(folder.path(), &time).unwrap();
    assert!(affinity.compact());
    assert_eq!(tasks(&affinity), all_but(&[]));
    assert_eq!(files(folder.path()).len(), 7);
}

#[test]
fn an_id_that_looks_like_a_frame_is_not_read_as_one() {
    let (folder, time) = journal(false);
    let path = first_segment(folder.path());
    // The most that an agent can do: an id with a whole frame in it, but without the salt of the file.
    let mut frame = Vec::new();
    for salt in 0..4 {
        frame.clear();
        let forged = journal::record::Put {
            kind: Kind::Task,
            agent: "maps",
            id: "forged",
            endpoint: "http://evil/",
            principal: "key:eve",
            generation: Generation::V1_0,
            state: None,
            seen: 0,
        };
        journal::record::encode_for_test(&mut frame, salt, &forged);
        let mut bytes = fs::read(&path).unwrap();
        bytes.extend_from_slice(&[9, 9, 9]);
        bytes.extend_from_slice(&frame);
        fs::write(&path, &bytes).unwrap();
        assert_eq!(tasks(&open(folder.path(), &time).unwrap()), all_but(&[]));
    }
}
