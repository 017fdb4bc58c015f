//! One configuration after another: what leaves, for how long, and what that means for calls.

use super::*;

const PATIENCE: Duration = Duration::from_secs(25);

fn list(of: &[usize]) -> Vec<config::Endpoint> {
    let endpoint = |at: &usize| config::Endpoint {
        url: url(*at),
        drain: false,
    };
    of.iter().map(endpoint).collect()
}

fn next(before: &Endpoints, of: &[usize], now: u64) -> Endpoints {
    let config = balancing(Balance::RoundRobin);
    let next = before.next_at(&list(of), &config, 20, PATIENCE, seconds(now));
    next.expect("valid URLs")
}

/// What leaves, and when it goes.
fn leaving(endpoints: &Endpoints) -> Vec<(String, u64)> {
    let leaving = endpoints.leaving().iter();
    let when = |endpoint: &Endpoint| endpoint.leaves.expect("a time").as_secs();
    leaving
        .map(|endpoint| (endpoint.url.to_string(), when(endpoint)))
        .collect()
}

#[test]
fn a_removed_endpoint_has_its_tasks_and_no_new_work() {
    let endpoints = next(&endpoints(3, Balance::RoundRobin), &[0, 2], 1);
    assert_eq!(leaving(&endpoints), [(url(1), 26)]);
    assert!(endpoints.watch.is_calm(), "choosing costs nothing more");
    assert_eq!(chosen(&endpoints, seconds(2)), [0, 1]);
    let owner = endpoints.owner(&url(1)).expect("it is there");
    assert_eq!((&*owner.url, owner.index), (&*url(1), 2));
    let state = owner.state();
    assert!(state.draining && state.leaves.is_some() && !state.takes_new_work());
    for endpoint in endpoints.configured() {
        assert_eq!(endpoint.state().leaves, None);
        endpoint.drain(true);
    }
    assert_eq!(endpoints.choose(NOBODY, &[]).map(|_| ()).unwrap_err(), Error::Drained);
}

#[test]
fn what_leaves_goes_at_its_own_time_however_often_the_configuration_changes() {
    let mut endpoints = next(&endpoints(4, Balance::RoundRobin), &[1, 2, 3], 0);
    endpoints = next(&endpoints, &[2, 3], 10);
    endpoints = next(&endpoints, &[3], 20);
    assert_eq!(leaving(&endpoints), [(url(2), 45), (url(1), 35), (url(0), 25)]);
    for now in [21, 22, 24] {
        endpoints = next(&endpoints, &[3], now);
        assert_eq!(leaving(&endpoints).len(), 3, "no later than it was said first");
    }
    endpoints = next(&endpoints, &[3], 25);
    assert_eq!(leaving(&endpoints), [(url(2), 45), (url(1), 35)]);
    endpoints = next(&endpoints, &[3], 45);
    assert_eq!((leaving(&endpoints).len(), endpoints.all().len()), (0, 1));
}

#[test]
fn what_was_removed_is_bounded_by_one_drain() {
    let mut endpoints = with(1, &balancing(Balance::RoundRobin));
    // Another endpoint each second.
    for now in 1..200_u64 {
        endpoints = next(&endpoints, &[usize::try_from(now).expect("small")], now);
        assert!(endpoints.list.len() <= 1 + 25, "{} at {now}", endpoints.list.len());
    }
    assert_eq!(leaving(&endpoints).len(), 25);
}

#[test]
fn what_comes_back_is_like_every_other() {
    let endpoints = next(&endpoints(2, Balance::RoundRobin), &[0], 1);
    let endpoints = next(&endpoints, &[0, 1], 2);
    assert_eq!(leaving(&endpoints), []);
    assert_eq!(chosen(&endpoints, seconds(3)), [0, 1]);
    let endpoints = next(&endpoints, &[0], 100);
    assert_eq!(leaving(&endpoints), [(url(1), 125)], "its time begins anew");
}

#[test]
fn they_go_one_after_the_other() {
    let endpoints = next(&endpoints(3, Balance::RoundRobin), &[0, 1], 0);
    let endpoints = next(&endpoints, &[0], 5);
    let [later, first] = endpoints.leaving() else {
        panic!("two leave");
    };
    endpoints.part(first);
    assert_eq!(leaving(&endpoints), [(url(1), 30)]);
    assert_eq!(endpoints.owner(&url(2)).map(|_| ()).unwrap_err(), Error::OwnerGone);
    assert!(endpoints.owner(&url(1)).is_ok());
    endpoints.part(later);
    endpoints.part(first);
    assert_eq!((leaving(&endpoints).len(), endpoints.all().len()), (0, 1));
    let only = &endpoints.configured()[0];
    endpoints.part(only);
    assert_eq!(endpoints.all().len(), 1, "what is configured stays");
}

#[test]
fn without_time_nothing_leaves() {
    let before = endpoints(2, Balance::RoundRobin);
    let config = balancing(Balance::RoundRobin);
    let next = before.next_at(&list(&[0]), &config, 20, Duration::ZERO, seconds(1));
    let next = next.expect("valid URLs");
    assert_eq!(next.all().len(), 1);
    assert_eq!(next.owner(&url(1)).map(|_| ()).unwrap_err(), Error::OwnerGone);
    let next = before.next_at(&list(&[0]), &config, 20, Duration::MAX, seconds(1));
    assert_eq!(next.expect("valid URLs").all().len(), 2, "however long");
}

#[test]
fn one_that_leaves_counts_for_no_share_of_those_that_may_be_ejected() {
    let endpoints = next(&endpoints(4, Balance::RoundRobin), &[0, 1, 2], 1);
    let out = |at: usize| endpoints.watch.state(at, seconds(2)).ejected.is_some();
    for at in [3, 0, 1] {
        for caller in 0..5 {
            endpoints.watch.failed(at, Fault::Answer, caller, seconds(2));
        }
    }
    assert_eq!([out(3), out(0), out(1), out(2)], [true, true, false, false]);
}

fn slowly() -> Balancing {
    Balancing {
        slow_start: Some(seconds(30)),
        health: Some(Health {
            path: None,
            interval: seconds(10),
            timeout: seconds(2),
            healthy_after: 2,
            unhealthy_after: 3,
        }),
        ..balancing(Balance::RoundRobin)
    }
}

/// The next ones in force, with these settings.
fn follow(before: &Endpoints, of: &[config::Endpoint], config: &Balancing, now: u64) -> Endpoints {
    let next = before.next_at(of, config, 20, PATIENCE, seconds(now));
    let next = next.expect("valid URLs");
    next.take_over_at(before, seconds(now));
    next
}

fn fail(endpoints: &Endpoints, at: usize, times: u32, now: u64) {
    for _ in 0..times {
        endpoints.watch.failed(at, Fault::Connect, 1, seconds(now));
    }
}

fn state(endpoints: &Endpoints, at: usize, now: u64) -> State {
    endpoints.watch.state(at, seconds(now))
}

#[test]
fn those_that_stay_are_neither_new_nor_well_again() {
    let config = slowly();
    let before = with(3, &config);
    fail(&before, 1, 5, 5);
    // One more comes in front: places in the list say nothing.
    let next = follow(&before, &list(&[7, 0, 1, 2]), &config, 7);
    let share = |at, now| next.watch.share(at, seconds(now));
    assert_eq!([share(1, 7), share(3, 7)], [None, None], "they were at work");
    assert_eq!(share(0, 7), Some(0.1), "a new one begins slowly");
    assert_eq!(state(&next, 2, 7).ejected, Some(seconds(8)), "for what is left of it");
    assert_eq!(chosen(&next, seconds(14)), [0, 1, 3]);
    assert_eq!(chosen(&next, seconds(15)), [0, 1, 2, 3]);
    assert_eq!(share(2, 15), Some(0.1));
    // In the midst of it.
    let later = follow(&next, &list(&[1, 7]), &config, 30);
    assert_eq!(later.watch.share(0, seconds(30)), Some(0.5));
    assert!(later.watch.share(1, seconds(30)).is_some_and(|share| share > 0.7));
    fail(&later, 0, 5, 31);
    assert_eq!(
        state(&later, 0, 31).ejected,
        Some(seconds(10)),
        "a while ago: as before"
    );
    let again = follow(&later, &list(&[1, 7, 8]), &config, 42);
    assert!(state(&again, 0, 42).ejected.is_none());
    fail(&again, 0, 5, 43);
    assert_eq!(
        state(&again, 0, 43).ejected,
        Some(seconds(20)),
        "it is not the first time"
    );
}

#[test]
fn what_was_counted_goes_on_being_counted() {
    let config = slowly();
    let before = with(2, &config);
    fail(&before, 0, 4, 1);
    before.watch.checked(1, Check::Bad, seconds(1));
    before.watch.checked(1, Check::Bad, seconds(1));
    let next = follow(&before, &list(&[0, 1, 2]), &config, 2);
    let suspicion = futures_util::FutureExt::now_or_never(next.watch.suspected(0));
    assert_eq!(suspicion, Some(Suspicion::Gone), "what was to be found out is still");
    fail(&next, 0, 1, 2);
    next.watch.checked(1, Check::Bad, seconds(2));
    assert!(state(&next, 0, 2).ejected.is_some() && !state(&next, 1, 2).healthy);
    // A success wipes out what came before.
    let before = with(2, &config);
    fail(&before, 0, 4, 1);
    let next = follow(&before, &list(&[0, 1, 2]), &config, 2);
    next.watch.succeeded(0, || seconds(2));
    fail(&next, 0, 4, 2);
    assert!(state(&next, 0, 2).ejected.is_none());
}

#[test]
fn what_nobody_would_take_back_does_not_stay() {
    let config = slowly();
    let before = with(3, &config);
    fail(&before, 0, 5, 1);
    for _ in 0..3 {
        before.watch.checked(1, Check::Unreachable, seconds(1));
    }
    let same = follow(&before, &list(&[0, 1, 2, 3]), &config, 2);
    assert!(state(&same, 0, 2).ejected.is_some() && !state(&same, 1, 2).reachable);
    let check = |settings: Balancing, ejected: bool, healthy: bool| {
        let next = follow(&before, &list(&[0, 1, 2]), &settings, 2);
        let found = (state(&next, 0, 2).ejected.is_some(), state(&next, 1, 2).healthy);
        assert_eq!(found, (ejected, healthy), "{settings:?}");
        assert_eq!(state(&next, 1, 2).reachable, healthy);
    };
    check(config.clone(), true, false);
    let (mut unchecked, mut unwatched) = (config.clone(), config.clone());
    unchecked.health = None;
    check(unchecked, true, true);
    unwatched.ejection = None;
    check(unwatched, false, false);
    let lone = follow(&before, &list(&[0]), &config, 2);
    assert!(state(&lone, 0, 2).ejected.is_none(), "there is no other one");
    let mut fast = config;
    fast.slow_start = None;
    let warming = follow(&with(1, &slowly()), &list(&[0, 1]), &slowly(), 2);
    let next = follow(&warming, &list(&[0, 1]), &fast, 3);
    assert!(!warming.watch.is_calm() && next.watch.is_calm());
}

#[test]
fn drains_stay_as_operators_and_files_say() {
    let file = |drains: [bool; 2]| {
        let mut endpoints = list(&[0, 1]);
        endpoints[0].drain = drains[0];
        endpoints[1].drain = drains[1];
        endpoints
    };
    let drained = |endpoints: &Endpoints| [0, 1].map(|at| state(endpoints, at, 9).draining);
    let config = slowly();
    let before = with(2, &config);
    before.watch.drain(0, true, seconds(1));
    let next = follow(&before, &file([false, true]), &config, 2);
    assert_eq!(drained(&next), [true, true]);
    next.watch.drain(1, false, seconds(3));
    let next = follow(&next, &file([true, true]), &config, 4);
    assert_eq!(drained(&next), [true, false], "the operator spoke last");
    let next = follow(&next, &file([false, false]), &config, 5);
    assert_eq!(drained(&next), [false, false], "both say the same");
    assert_eq!(next.watch.share(0, seconds(5)), Some(0.1), "and it begins slowly again");

    // An operator's drain outlives a removal that is taken back in time; the removal's own does not.
    next.watch.drain(1, true, seconds(6));
    let away = follow(&next, &list(&[5]), &config, 7);
    let back = follow(&away, &file([false, false]), &config, 8);
    assert_eq!(drained(&back), [false, true]);
    assert_eq!(back.watch.share(0, seconds(8)), Some(0.1));
}
