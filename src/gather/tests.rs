//! The merge, places in pages that changed, and tokens that were tampered with.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;

use super::filling::{Filled, Filling};
use super::token::{Binding, Error, Stood, Tokens, Walked};
use super::walk::{Last, Place, Source, Step, mark, step, total};
use crate::a2a::TaskId;
use crate::a2a::listing::{Listed, Page, Stamp};
use crate::config::{PageTokens, Secret};

fn listed(id: &str, second: Option<i64>) -> Listed {
    Listed {
        id: TaskId::new(id),
        changed: second.map(|seconds| Stamp { seconds, fraction: 0 }),
        at: 0..0,
    }
}

fn page(tasks: &[(&str, i64)], next: &str) -> Page {
    Page {
        // Negative: without a timestamp.
        tasks: (tasks.iter())
            .map(|(id, second)| listed(id, (*second >= 0).then_some(*second)))
            .collect(),
        next: next.to_owned(),
        total: None,
    }
}

fn source(place: Place) -> Source {
    Source::new(Arc::from("http://a/"), Some(place), None)
}

/// The ids that come until somebody must be asked, or the end.
fn drain(sources: &mut [Source]) -> (Vec<String>, Step) {
    let mut ids = Vec::new();
    loop {
        match step(sources) {
            Step::Task(_, id, _) => ids.push(id.as_str().to_owned()),
            end @ (Step::Wait | Step::End) => return (ids, end),
        }
    }
}

#[test]
fn the_latest_of_all_comes_first() {
    let check = |pages: &[&[(&str, i64)]], expected: &[&str]| {
        let mut sources: Vec<Source> = pages.iter().map(|_| source(Place::default())).collect();
        assert_eq!(step(&mut sources), Step::Wait);
        for (source, tasks) in sources.iter_mut().zip(pages) {
            source.take(Bytes::new(), page(tasks, ""));
        }
        assert_eq!(
            drain(&mut sources),
            (expected.iter().map(|id| (*id).to_owned()).collect(), Step::End)
        );
    };
    check(&[&[], &[]], &[]);
    check(&[&[("a", 5), ("b", 3)], &[("c", 4), ("d", 2)]], &["a", "c", "b", "d"]);
    check(&[&[("a", 5)], &[("b", 5)], &[("c", 5)]], &["a", "b", "c"]);
    check(&[&[("a", -1)], &[("b", 0)], &[("c", -1)]], &["b", "a", "c"]);
    check(&[&[("a", -1), ("b", 9)], &[("c", 3)]], &["c", "a", "b"]);
    check(&[&[("z", 5), ("a", 5)], &[("b", 5)]], &["z", "a", "b"]);
}

#[test]
fn nobody_is_overtaken_by_an_endpoint_that_must_be_asked() {
    let mut sources = [source(Place::default()), source(Place::default())];
    sources[0].take(Bytes::new(), page(&[("a", 9), ("b", 7)], "more"));
    assert_eq!(step(&mut sources), Step::Wait);
    sources[1].take(Bytes::new(), page(&[("c", 8), ("d", 1)], ""));
    assert_eq!(
        drain(&mut sources),
        (vec!["a".into(), "c".into(), "b".into()], Step::Wait)
    );
    let place = sources[0].wants().unwrap();
    assert_eq!((place.cursor.as_str(), place.used), ("more", 0));
    sources[0].failed = true;
    assert_eq!(
        drain(&mut sources),
        (vec!["d".into()], Step::End),
        "left out, the others go on"
    );
}

#[test]
fn a_place_is_found_again_in_a_page_that_changed() {
    // The first two of a, b, c, d (at 9, 8, 7, 6) were used.
    let used = || Place {
        cursor: "x".to_owned(),
        used: 2,
        last: Some(Last {
            task: mark("b"),
            changed: Some(Stamp {
                seconds: 8,
                fraction: 0,
            }),
        }),
    };
    let check = |tasks: &[(&str, i64)], expected: &[&str]| {
        let mut sources = [source(used())];
        sources[0].take(Bytes::new(), page(tasks, ""));
        let (ids, end) = drain(&mut sources);
        assert_eq!(
            (ids, end),
            (expected.iter().map(|id| (*id).to_owned()).collect(), Step::End),
            "{tasks:?}"
        );
    };
    check(&[("a", 9), ("b", 8), ("c", 7), ("d", 6)], &["c", "d"]);
    check(&[("b", 8), ("c", 7), ("d", 6)], &["c", "d"]);
    check(&[("n", 10), ("a", 9), ("b", 8), ("c", 7)], &["c"]);
    check(&[("b", 11), ("a", 9), ("c", 7)], &["a", "c"]);
    check(&[("a", 9), ("c", 7), ("d", 6)], &["c", "d"]);
    check(&[("c", 7), ("d", 6)], &["c", "d"]);
    check(&[("a", 9)], &[]);
    check(&[], &[]);
}

#[test]
fn a_place_without_a_time_is_counted() {
    let last = Some(Last {
        task: mark("gone"),
        changed: None,
    });
    let place = |used| Place {
        cursor: "x".to_owned(),
        used,
        last,
    };
    let mut sources = [source(place(1))];
    sources[0].take(Bytes::new(), page(&[("a", -1), ("b", -1)], ""));
    assert_eq!(drain(&mut sources).0, ["b"]);

    // The page is shorter than it was: what is left of the count holds behind the next cursor.
    let mut sources = [source(place(3))];
    sources[0].take(Bytes::new(), page(&[("a", -1), ("b", -1)], "y"));
    let next = sources[0].wants().unwrap();
    assert_eq!((next.cursor.as_str(), next.used), ("y", 1));
    sources[0].take(Bytes::new(), page(&[("c", -1), ("d", -1)], ""));
    assert_eq!(drain(&mut sources).0, ["d"]);
}

#[test]
fn as_many_are_asked_for_as_can_come() {
    let place = |used| Place {
        used,
        ..Place::default()
    };
    for (used, wanted, expected) in [(0, 50, 50), (20, 50, 70), (60, 50, 100), (0, 100, 100), (1024, 1, 100)] {
        assert_eq!(place(used).size(wanted), expected, "{used} {wanted}");
    }
}

proptest! {
    /// However many are taken at once, and through however many tokens: each task once, in order.
    #[test]
    fn walks_in_pieces_are_walks(
        seconds in proptest::collection::vec(proptest::collection::vec(-1_i64..20, 0..25), 1..4),
        own_page in 1_usize..7,
        pieces in proptest::collection::vec(1_usize..9, 100),
    ) {
        let mut all: Vec<Vec<(String, i64)>> = Vec::new();
        for (endpoint, seconds) in seconds.iter().enumerate() {
            let mut tasks: Vec<_> = seconds.iter().enumerate().map(|(at, second)| (format!("{endpoint}-{at}"), *second)).collect();
            tasks.sort_by_key(|task| std::cmp::Reverse(task.1));
            all.push(tasks);
        }
        let answer = |endpoint: usize, place: &Place| {
            let from: usize = place.cursor.parse().unwrap_or(0);
            let to = all[endpoint].len().min(from + own_page);
            let tasks: Vec<_> = all[endpoint][from..to].iter().map(|(id, second)| (id.as_str(), *second)).collect();
            page(&tasks, &if to < all[endpoint].len() { to.to_string() } else { String::new() })
        };
        let mut places: Vec<Option<Place>> = all.iter().map(|_| Some(Place::default())).collect();
        let mut ids = Vec::new();
        for piece in pieces {
            let mut sources: Vec<Source> = places.into_iter().map(|place| Source::new(Arc::from("x"), place, None)).collect();
            let mut left = piece;
            while left > 0 {
                match step(&mut sources) {
                    Step::Task(_, id, _) => {
                        ids.push(id.as_str().to_owned());
                        left -= 1;
                    }
                    Step::Wait => for (endpoint, source) in sources.iter_mut().enumerate() {
                        if let Some(place) = source.wants() {
                            let page = answer(endpoint, place);
                            source.take(Bytes::new(), page);
                        }
                    },
                    Step::End => break,
                }
            }
            places = sources.into_iter().map(|source| source.place).collect();
        }
        let mut expected: Vec<(i64, String)> = all.into_iter().flatten().map(|(id, second)| (second, id)).collect();
        // Stable: endpoints stand in their order, and each has its own order of equals.
        expected.sort_by_key(|(second, _)| std::cmp::Reverse(*second));
        prop_assert_eq!(ids, expected.into_iter().map(|(_, id)| id).collect::<Vec<_>>());
    }
}

#[test]
fn what_is_not_taken_is_dropped_and_leaves_no_gap() {
    let answer = Bytes::from_static(b"[1,2,3,4]");
    let at = |id: &str, at: usize| Listed {
        at: at..at + 1,
        ..listed(id, Some(1))
    };
    let sources = || {
        let mut source = source(Place::default());
        let tasks = vec![at("a", 1), at("b", 3), at("a", 5), at("c", 7)];
        source.take(
            answer.clone(),
            Page {
                tasks,
                ..Page::default()
            },
        );
        [source]
    };
    let check = |size: usize, bytes: usize, takes: fn(&TaskId) -> bool, filled: Filled, tasks: &str| {
        let mut filling = Filling::new(size, bytes);
        assert_eq!(filling.fill(&mut sources(), |_, task| takes(task)), filled);
        assert_eq!(filling.tasks, tasks.as_bytes());
        assert_eq!(filling.count, tasks.split_terminator(',').count());
    };
    check(9, 99, |_| true, Filled::Page, "1,2,4");
    check(9, 99, |task| task.as_str() != "a", Filled::Page, "2,4");
    check(9, 99, |_| false, Filled::Page, "");
    check(2, 99, |_| true, Filled::Page, "1,2");
    check(9, 3, |_| true, Filled::Bytes, "1,2");
    check(9, 4, |_| true, Filled::Bytes, "1,2,4");
    assert_eq!(
        Filling::new(9, 99).fill(&mut [source(Place::default())], |_, _| true),
        Filled::Wait
    );
}

#[test]
fn the_total_is_a_sum_or_nothing() {
    let check = |endpoints: &[(Option<u64>, bool)], expected: Option<u64>| {
        let sources = endpoints.iter().map(|(total, failed)| {
            let mut source = Source::new(Arc::from("x"), None, *total);
            source.failed = *failed;
            source
        });
        assert_eq!(total(&sources.collect::<Vec<_>>()), expected, "{endpoints:?}");
    };
    check(&[(Some(2), false), (Some(3), false)], Some(5));
    check(&[(Some(2), false), (None, false)], None);
    check(&[(Some(2), false), (None, true)], Some(2));
    check(&[(Some(2), false), (Some(3), true)], Some(5));
    check(&[(Some(u64::MAX), false), (Some(3), false)], Some(u64::MAX));
}

// Tokens.

const NOW: u64 = 1_800_000_000;

fn tokens(keys: &[&str]) -> Tokens {
    let config = PageTokens {
        keys: keys.iter().map(|key| Secret::new((*key).to_owned())).collect(),
        lifetime: Duration::from_secs(3600),
    };
    Tokens::build(&config).unwrap()
}

const BINDING: Binding<'_> = Binding {
    agent: "agent",
    principal: "key:tester",
    question: b"question",
};

fn walked() -> Walked {
    let place = |cursor: &str, last| Place {
        cursor: cursor.to_owned(),
        used: 3,
        last,
    };
    let last = Last {
        task: mark("t"),
        changed: None,
    };
    let changed = Some(Stamp {
        seconds: -5,
        fraction: 7,
    });
    let stood = |endpoint: &str, total, place| Stood {
        endpoint: mark(endpoint),
        total,
        place,
    };
    Walked {
        listed: 12,
        endpoints: vec![
            stood("a", Some(9), None),
            stood("b", None, Some(place("", None))),
            stood("c", Some(u64::MAX), Some(place("cursor é", Some(last)))),
            stood("d", None, Some(place("x", Some(Last { changed, ..last })))),
        ],
    }
}

#[test]
fn a_token_opens_to_what_was_sealed() {
    let tokens = tokens(&[]);
    for walked in [walked(), Walked::default()] {
        let token = tokens.seal(BINDING, &walked, NOW).unwrap();
        assert_eq!(tokens.open(BINDING, &token, NOW), Ok(walked.clone()));
        assert_ne!(tokens.seal(BINDING, &walked, NOW).unwrap(), token, "no two are alike");
        assert!(
            token
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
        );
    }
}

#[test]
fn no_bit_of_a_token_can_be_changed() {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    let tokens = tokens(&[]);
    let token = tokens.seal(BINDING, &walked(), NOW).unwrap();
    let bytes = URL_SAFE_NO_PAD.decode(&token).unwrap();
    for at in 0..bytes.len() * 8 {
        let mut changed = bytes.clone();
        changed[at / 8] ^= 1 << (at % 8);
        let changed = URL_SAFE_NO_PAD.encode(changed);
        assert_eq!(tokens.open(BINDING, &changed, NOW), Err(Error::Invalid), "bit {at}");
    }
    for length in 0..token.len() {
        assert_eq!(
            tokens.open(BINDING, token.get(..length).unwrap(), NOW),
            Err(Error::Invalid),
            "cut to {length}"
        );
    }
    for longer in [
        format!("{token}A"),
        format!("{token}="),
        format!(" {token}"),
        "é".to_owned(),
    ] {
        assert_eq!(tokens.open(BINDING, &longer, NOW), Err(Error::Invalid), "{longer}");
    }
}

#[test]
fn a_token_is_bound() {
    let tokens = tokens(&[]);
    let token = tokens.seal(BINDING, &walked(), NOW).unwrap();
    let check = |agent, principal, question| {
        let other = Binding {
            agent,
            principal,
            question,
        };
        assert_eq!(tokens.open(other, &token, NOW), Err(Error::Invalid), "{other:?}");
    };
    check("agen", "key:tester", b"question");
    check("agent", "key:other", b"question");
    check("agent", "key:tester", b"");
    check("agentkey", ":tester", b"question");
    check("agent", "key:testerquestion", b"");
}

#[test]
fn a_token_holds_for_its_lifetime() {
    let tokens = tokens(&[]);
    let token = tokens.seal(BINDING, &walked(), NOW).unwrap();
    assert!(tokens.open(BINDING, &token, NOW + 3600).is_ok());
    assert_eq!(tokens.open(BINDING, &token, NOW + 3601), Err(Error::Expired));
    let other = Binding {
        principal: "other",
        ..BINDING
    };
    assert_eq!(
        tokens.open(other, &token, NOW + 3601),
        Err(Error::Invalid),
        "an old token tells a foreigner nothing"
    );
}

#[test]
fn keys_are_shared_and_changed() {
    let (old, both, new, own) = (tokens(&["old"]), tokens(&["new", "old"]), tokens(&["new"]), tokens(&[]));
    let of_old = old.seal(BINDING, &walked(), NOW).unwrap();
    let of_both = both.seal(BINDING, &walked(), NOW).unwrap();
    let check = |tokens: &Tokens, token: &str, opens: bool| assert_eq!(tokens.open(BINDING, token, NOW).is_ok(), opens);
    check(&both, &of_old, true);
    check(&new, &of_both, true);
    check(&old, &of_both, false);
    check(&new, &of_old, false);
    check(&own, &of_both, false);
    check(&tokens(&[]), &own.seal(BINDING, &walked(), NOW).unwrap(), false);
}

#[test]
fn a_token_has_an_end() {
    let tokens = tokens(&[]);
    let long = |cursor: usize| Walked {
        endpoints: vec![Stood {
            endpoint: mark("a"),
            total: None,
            place: Some(Place {
                cursor: "c".repeat(cursor),
                ..Place::default()
            }),
        }],
        ..Walked::default()
    };
    // 1 MiB of base64 are 768 KiB, less version, nonce, tag and the numbers.
    let most = 768 * 1024 - 1 - 12 - 16 - 16 - 8 - 1 - 16;
    let token = tokens.seal(BINDING, &long(most), NOW).unwrap();
    assert_eq!(tokens.open(BINDING, &token, NOW), Ok(long(most)));
    assert_eq!(tokens.seal(BINDING, &long(most + 1), NOW), Err(Error::TooLong));
    assert_eq!(tokens.open(BINDING, &format!("{token}AAAA"), NOW), Err(Error::Invalid));
}
