//! How endpoints stand, and what that means for new work and for calls of tasks.

use super::super::health::Watch;
use super::*;

fn fail(endpoints: &Endpoints, at: usize, now: Duration) {
    for _ in 0..5 {
        endpoints.watch.failed(at, Fault::Connect, 1, now);
    }
}

fn admits(watch: &Watch, at: usize, now: Duration) -> bool {
    watch.admits(at, || now)
}

#[test]
fn an_ejected_endpoint_gets_no_new_work_until_its_time_has_passed() {
    let endpoints = endpoints(3, Balance::RoundRobin);
    fail(&endpoints, 1, seconds(5));
    assert!(!endpoints.watch.is_calm());
    assert_eq!(chosen(&endpoints, seconds(6)), [0, 2]);
    assert_eq!(chosen(&endpoints, Duration::from_millis(14_999)), [0, 2]);
    assert_eq!(chosen(&endpoints, seconds(15)), [0, 1, 2]);
    assert!(endpoints.watch.is_calm(), "nothing is left of it");
    assert_eq!(endpoints.metrics.ejections.get(), 1);
}

#[test]
fn a_success_in_between_begins_anew() {
    let endpoints = endpoints(2, Balance::RoundRobin);
    for _ in 0..10 {
        for _ in 0..4 {
            endpoints.watch.failed(0, Fault::Connect, 1, seconds(1));
        }
        endpoints.watch.succeeded(0, || seconds(1));
    }
    assert!(endpoints.watch.is_calm());
}

#[test]
fn the_only_endpoint_is_never_ejected() {
    let endpoints = endpoints(1, Balance::RoundRobin);
    fail(&endpoints, 0, seconds(1));
    assert!(endpoints.watch.is_calm() && !endpoints.is_passive());
}

#[test]
fn at_most_so_many_are_out_but_the_dead_are_known() {
    let check = |count: usize, most: u32, out: usize| {
        let mut config = balancing(Balance::RoundRobin);
        config.ejection.as_mut().expect("on").most = most;
        let endpoints = with(count, &config);
        for at in 0..count {
            for caller in 0..5 {
                endpoints.watch.failed(at, Fault::Answer, caller, seconds(1));
            }
        }
        let ejected = |at: &usize| endpoints.watch.state(*at, seconds(1)).ejected.is_some();
        assert_eq!((0..count).filter(ejected).count(), out, "{most} % of {count}");
    };
    check(2, 50, 1);
    check(3, 50, 1);
    check(4, 50, 2);
    check(4, 100, 4);
    check(10, 1, 1);

    let endpoints = endpoints(3, Balance::RoundRobin);
    fail(&endpoints, 0, seconds(1));
    fail(&endpoints, 1, seconds(1));
    let second = endpoints.watch.state(1, seconds(1));
    assert!(second.ejected.is_none() && !second.reachable);
    assert_eq!(
        chosen(&endpoints, seconds(2)),
        [2],
        "also in a panic the dead get nothing"
    );
    assert!(endpoints.metrics.panics.get() > 0);
    fail(&endpoints, 2, seconds(2));
    assert_eq!(
        chosen(&endpoints, seconds(3)),
        [0, 1, 2],
        "all dead: somebody must find out"
    );
}

#[test]
fn one_call_a_second_finds_out_whether_a_dead_owner_is_back() {
    let endpoints = endpoints(2, Balance::RoundRobin);
    let watch = &endpoints.watch;
    fail(&endpoints, 0, seconds(1));
    assert!(!admits(watch, 0, seconds(1)));
    assert!(admits(watch, 0, seconds(2)));
    assert!(!admits(watch, 0, seconds(2)), "one only");
    assert!(!admits(watch, 0, Duration::from_millis(2999)));
    assert!(admits(watch, 0, seconds(3)));
    assert!(admits(watch, 1, seconds(3)), "the other one is not concerned");
    watch.succeeded(0, || seconds(3));
    assert!(admits(watch, 0, seconds(3)) && admits(watch, 0, seconds(3)));
    assert!(watch.is_calm(), "new work comes again too");
}

#[test]
fn checks_in_a_row_decide_and_only_connections_open_the_circuit() {
    let mut config = balancing(Balance::RoundRobin);
    config.health = Some(Health {
        path: None,
        interval: seconds(10),
        timeout: seconds(2),
        healthy_after: 2,
        unhealthy_after: 3,
    });
    for (bad, reachable) in [(Check::Bad, true), (Check::Unreachable, false)] {
        let endpoints = with(3, &config);
        let watch = &endpoints.watch;
        let check = |check, healthy: bool| {
            watch.checked(0, check, seconds(1));
            assert_eq!(watch.state(0, seconds(1)).healthy, healthy, "{bad:?}");
        };
        check(bad, true);
        check(bad, true);
        check(Check::Good, true);
        check(bad, true);
        check(bad, true);
        check(bad, false);
        assert_eq!(chosen(&endpoints, seconds(1)), [1, 2]);
        assert!(admits(watch, 0, seconds(1)), "the first may find out");
        assert_eq!(admits(watch, 0, seconds(1)), reachable, "{bad:?}");
        check(Check::Good, false);
        assert!(admits(watch, 0, seconds(1)), "a connection was made");
        check(bad, false);
        check(Check::Good, false);
        check(Check::Good, true);
        assert!(watch.is_calm());
    }
}

#[test]
fn a_good_check_brings_back_the_dead_and_not_what_fails_calls() {
    let endpoints = endpoints(4, Balance::RoundRobin);
    let watch = &endpoints.watch;
    fail(&endpoints, 0, seconds(1));
    for caller in 0..5 {
        watch.failed(1, Fault::Answer, caller, seconds(1));
    }
    assert_eq!(chosen(&endpoints, seconds(2)), [2, 3]);
    watch.checked(0, Check::Good, seconds(2));
    watch.checked(1, Check::Good, seconds(2));
    assert_eq!(chosen(&endpoints, seconds(2)), [0, 2, 3]);
}

#[test]
fn what_the_gateway_finds_out_itself_decides() {
    let check = |fault: Fault, expected: Suspicion, found: Check, out: bool| {
        let endpoints = endpoints(2, Balance::RoundRobin);
        let watch = &endpoints.watch;
        for _ in 0..5 {
            watch.failed(0, fault, 1, seconds(1));
        }
        let suspicion = futures_util::FutureExt::now_or_never(watch.suspected(0)).expect("a suspicion");
        assert_eq!(suspicion, expected, "{fault:?}");
        watch.found(0, suspicion, found, seconds(1));
        let ejected = watch.state(0, seconds(1)).ejected.is_some();
        assert_eq!(ejected, out, "{fault:?} {found:?}");
    };
    check(Fault::Answer, Suspicion::Failing, Check::Good, false);
    check(Fault::Answer, Suspicion::Failing, Check::Bad, true);
    check(Fault::Answer, Suspicion::Failing, Check::Unreachable, true);
    check(Fault::Closed, Suspicion::Failing, Check::Good, false);
    check(Fault::Stream, Suspicion::Gone, Check::Good, false);
    check(Fault::Stream, Suspicion::Gone, Check::Unreachable, true);
}

#[test]
fn one_caller_alone_never_ejects_what_answers_the_gateway() {
    let endpoints = endpoints(2, Balance::RoundRobin);
    let watch = &endpoints.watch;
    for round in 0..100 {
        for fault in [Fault::Answer, Fault::Closed, Fault::Stream] {
            watch.failed(0, fault, 7, seconds(round));
        }
        if let Some(suspicion) = futures_util::FutureExt::now_or_never(watch.suspected(0)) {
            watch.found(0, suspicion, Check::Good, seconds(round));
        }
    }
    assert!(watch.is_calm());
}

#[test]
fn what_is_drained_gets_no_new_work_even_in_a_panic() {
    let endpoints = endpoints(2, Balance::LeastRequest);
    endpoints.all()[0].drain(true);
    assert_eq!(chosen(&endpoints, seconds(1)), [1]);
    assert!(endpoints.owner(&url(0)).is_ok(), "its tasks go on");
    endpoints.all()[1].drain(true);
    assert_eq!(endpoints.choose(NOBODY, &[]).map(|_| ()).unwrap_err(), Error::Drained);
    endpoints.all()[0].drain(false);
    assert_eq!(chosen(&endpoints, seconds(1)), [0]);
    fail(&endpoints, 0, seconds(1));
    assert_eq!(chosen(&endpoints, seconds(1)), [0], "there is no other one");
}

#[test]
fn without_a_panic_nobody_may_be_left() {
    let mut config = balancing(Balance::LeastRequest);
    config.panic_threshold = 0;
    config.ejection.as_mut().expect("on").most = 100;
    let endpoints = with(2, &config);
    fail(&endpoints, 0, seconds(1));
    fail(&endpoints, 1, seconds(1));
    let refused = endpoints.choose_at(NOBODY, &[], seconds(2)).map(|_| ()).unwrap_err();
    assert_eq!(refused, Error::NoneHealthy);
    assert_eq!(endpoints.metrics.panics.get(), 0);
}

#[test]
fn a_share_grows_from_a_tenth_to_the_whole() {
    let mut config = balancing(Balance::RoundRobin);
    config.slow_start = Some(seconds(30));
    let endpoints = with(2, &config);
    assert_eq!(
        endpoints.watch.share(0, seconds(0)),
        None,
        "what starts with the gateway is warm"
    );
    fail(&endpoints, 0, seconds(0));
    endpoints.watch.succeeded(0, || seconds(10));
    let share = |now| endpoints.watch.share(0, seconds(now));
    let close = |found: Option<f64>, expected: f64| {
        assert!(
            found.is_some_and(|found| (found - expected).abs() < 1e-9),
            "{found:?} is not {expected}"
        );
    };
    close(share(10), 0.1);
    close(share(13), 0.1);
    close(share(25), 0.5);
    let count = |now: u64| {
        let calls = (0..4000).filter_map(|_| endpoints.choose_at(NOBODY, &[], seconds(now)).ok());
        calls.filter(|endpoint| endpoint.index == 0).count()
    };
    let (early, later) = (count(10), count(25));
    assert!((200..540).contains(&early), "{early} of 4000, a tenth against a whole");
    assert!((1130..1540).contains(&later), "{later} of 4000, a half against a whole");
    assert_eq!(share(40), None);
    assert!(endpoints.watch.is_calm());
}
