//! The choice among endpoints: by in-flight counts, in turns, by a hash.

use super::*;

#[test]
fn least_request_prefers_the_idler_of_two() {
    let endpoints = endpoints(2, Balance::LeastRequest);
    let busy = endpoints.all()[0].enter().expect("a place");
    for _ in 0..100 {
        assert_eq!(endpoints.choose(NOBODY, &[]).expect("one is left").index, 1);
    }
    drop(busy);
    assert!(
        endpoints.all().iter().all(|endpoint| endpoint.in_flight() == 0),
        "every call was given back"
    );
}

#[test]
fn round_robin_takes_turns() {
    let endpoints = endpoints(3, Balance::RoundRobin);
    let mut counts = [0; 3];
    for _ in 0..30 {
        counts[endpoints.choose(NOBODY, &[]).expect("one is left").index] += 1;
    }
    assert_eq!(counts, [10, 10, 10]);
}

#[test]
fn tried_endpoints_are_not_chosen_again() {
    for balance in [Balance::RoundRobin, Balance::LeastRequest] {
        let endpoints = endpoints(3, balance);
        for _ in 0..50 {
            assert_eq!(endpoints.choose(NOBODY, &[0, 2]).expect("one is left").index, 1);
        }
        assert_eq!(
            endpoints.choose(NOBODY, &[0, 1, 2]).map(|_| ()).unwrap_err(),
            Error::NoneLeft
        );
    }
}

#[test]
fn a_removed_owner_is_not_replaced() {
    let endpoints = endpoints(1, Balance::LeastRequest);
    assert_eq!(
        endpoints.owner("http://127.0.0.1:9999/").map(|_| ()).unwrap_err(),
        Error::OwnerGone
    );
}

fn by(on: HashOn) -> Balance {
    Balance::ConsistentHash(on)
}

fn of_context(context: &str) -> Ask<'_> {
    Ask {
        context: Some(context),
        principal: Some("key:a"),
    }
}

/// Where each of these contexts goes.
fn homes(endpoints: &Endpoints, contexts: &[String]) -> Vec<String> {
    let home = |context: &String| endpoints.choose(of_context(context), &[]).expect("one is left");
    contexts.iter().map(|context| home(context).url.to_string()).collect()
}

#[test]
fn a_hash_moves_only_the_share_of_what_comes_or_goes() {
    let contexts: Vec<String> = (0..4000).map(|at| format!("ctx-{at}")).collect();
    let few = homes(&endpoints(4, by(HashOn::Context)), &contexts);
    let more = homes(&endpoints(5, by(HashOn::Context)), &contexts);
    for at in 0..4 {
        let share = few.iter().filter(|home| **home == url(at)).count();
        assert!((800..1200).contains(&share), "{share} of 4000 at one of four");
    }
    let moved: Vec<_> = few
        .iter()
        .zip(&more)
        .filter(|(before, after)| before != after)
        .collect();
    assert!(
        moved.iter().all(|(_, after)| **after == url(4)),
        "a context moved between endpoints that both stay"
    );
    assert!(
        (600..1000).contains(&moved.len()),
        "{} of 4000 moved to the fifth",
        moved.len()
    );
}

#[test]
fn the_order_of_endpoints_and_a_restart_change_no_home() {
    let contexts: Vec<String> = (0..100).map(|at| format!("ctx-{at}")).collect();
    let urls: Vec<String> = (0..3).rev().map(url).collect();
    let turned = build(&urls, &balancing(by(HashOn::Context)));
    let straight = homes(&endpoints(3, by(HashOn::Context)), &contexts);
    assert_eq!(homes(&turned, &contexts), straight);
    let fixed: Vec<String> = FIXED.iter().map(|at| url(*at)).collect();
    assert_eq!(straight[..4], fixed, "another release must not move every conversation");
}

/// The homes of `ctx-0` to `ctx-3` among three.
const FIXED: [usize; 4] = [1, 2, 1, 1];

#[test]
fn a_hash_keeps_together_what_it_is_told_to() {
    let ask = |context, principal| Ask { context, principal };
    let check = |on: HashOn, one: Ask<'static>, other: Ask<'static>, together: bool| {
        // With so many endpoints two keys meet by chance once in 64 times; these do not.
        let endpoints = endpoints(64, by(on));
        let home = |ask| endpoints.choose(ask, &[]).expect("one is left").index;
        assert_eq!(home(one), home(one), "{on:?} {one:?}");
        assert_eq!(home(one) == home(other), together, "{on:?} {one:?} {other:?}");
    };
    check(
        HashOn::Context,
        ask(Some("c"), Some("a")),
        ask(Some("c"), Some("b")),
        true,
    );
    check(
        HashOn::Context,
        ask(Some("c"), Some("a")),
        ask(Some("d"), Some("a")),
        false,
    );
    check(HashOn::Context, ask(None, Some("a")), ask(None, Some("b")), false);
    check(HashOn::Context, ask(Some("a"), None), ask(None, Some("a")), false);
    check(
        HashOn::Principal,
        ask(Some("c"), Some("a")),
        ask(Some("d"), Some("a")),
        true,
    );
    check(
        HashOn::Principal,
        ask(Some("c"), Some("a")),
        ask(Some("c"), Some("b")),
        false,
    );
}

#[test]
fn anonymous_callers_without_a_context_are_spread() {
    for on in [HashOn::Context, HashOn::Principal] {
        let endpoints = endpoints(2, by(on));
        let busy = endpoints.all()[0].enter().expect("a place");
        for _ in 0..50 {
            assert_eq!(endpoints.choose(NOBODY, &[]).expect("one is left").index, 1);
        }
        drop(busy);
    }
}

#[test]
fn the_next_highest_draw_takes_over() {
    let endpoints = endpoints(3, by(HashOn::Context));
    let home = |tried: &[usize]| {
        let chosen = endpoints.choose(of_context("c"), tried).expect("one is left");
        chosen.index
    };
    let first = home(&[]);
    let second = home(&[first]);
    assert_ne!(first, second);
    assert_eq!(
        home(&[3 - first - second]),
        first,
        "whoever else is away changes nothing"
    );
}
