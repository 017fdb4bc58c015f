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
