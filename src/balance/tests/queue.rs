//! The bound on calls under way and the line before it.

use super::super::queue::{Waiting, line_up};
use super::*;

fn one(most: usize, length: usize) -> Endpoints {
    let mut config = balancing(Balance::LeastRequest);
    config.max_in_flight = most;
    config.queue_length = length;
    with(1, &config)
}

/// What a waiter was handed.
fn handed(waiting: &mut Waiting) -> Option<Selected> {
    waiting.handed.try_recv().ok()
}

#[test]
fn so_many_are_under_way_and_so_many_wait() {
    let endpoints = one(2, 1);
    let endpoint = &endpoints.all()[0];
    let (first, second) = (endpoint.enter(), endpoint.enter());
    assert!(first.is_some() && second.is_some());
    assert!(endpoint.enter().is_none(), "one past the bound");
    let mut waiting = line_up(endpoint).expect("one may wait");
    assert_eq!(
        line_up(endpoint).map(|_| ()).unwrap_err(),
        Error::Busy,
        "one past the line"
    );
    assert!(handed(&mut waiting).is_none());
    drop(first);
    assert!(endpoint.enter().is_none(), "nobody overtakes");
    let third = handed(&mut waiting);
    assert!(third.is_some() && endpoint.in_flight() == 2);
    drop((second, third));
    assert_eq!((endpoint.in_flight(), endpoint.waiting()), (0, 0));
    assert!(endpoint.enter().is_some());
}

#[test]
fn first_come_first_served() {
    let endpoints = one(1, 10);
    let endpoint = &endpoints.all()[0];
    let mut under_way = endpoint.enter();
    let mut line: Vec<Waiting> = (0..3).map(|_| line_up(endpoint).expect("a place")).collect();
    for at in 0..3 {
        drop(under_way.take());
        for (other, waiting) in line.iter_mut().enumerate() {
            match handed(waiting) {
                Some(selected) => {
                    assert_eq!(other, at, "out of turn");
                    under_way = Some(selected);
                }
                None => assert_ne!(other, at, "not served"),
            }
        }
    }
}

#[test]
fn who_leaves_gives_up_its_place_also_when_it_was_just_called() {
    let endpoints = one(1, 2);
    let endpoint = &endpoints.all()[0];
    let under_way = endpoint.enter();
    let leaves = line_up(endpoint).expect("a place");
    let called = line_up(endpoint).expect("a place");
    drop(leaves);
    assert_eq!(endpoint.waiting(), 1);
    let mut last = line_up(endpoint).expect("the place of the one that left");
    drop(under_way);
    assert!(handed(&mut last).is_none(), "another one is before it");
    // It was handed the place and never took it.
    drop(called);
    assert!(handed(&mut last).is_some());
    assert_eq!((endpoint.in_flight(), endpoint.waiting()), (0, 0));
}

#[tokio::test]
async fn a_wait_without_end_is_refused() {
    let mut config = balancing(Balance::LeastRequest);
    config.max_in_flight = 1;
    config.queue_timeout = Duration::from_millis(5);
    let endpoints = with(1, &config);
    let endpoint = &endpoints.all()[0];
    let _under_way = endpoint.enter().expect("a place");
    assert_eq!(endpoint.wait().await.map(|_| ()).unwrap_err(), Error::Busy);
    assert_eq!(endpoint.waiting(), 0);
}

#[test]
fn new_work_goes_where_there_is_room() {
    let mut config = balancing(Balance::RoundRobin);
    config.max_in_flight = 1;
    let endpoints = with(3, &config);
    let _busy = (endpoints.all()[0].enter(), endpoints.all()[2].enter());
    for _ in 0..10 {
        assert_eq!(endpoints.choose(NOBODY, &[]).expect("one has room").index, 1);
    }
    let _all = endpoints.all()[1].enter();
    assert!(endpoints.choose(NOBODY, &[]).is_ok(), "it waits at one of them");
}

#[test]
fn threads_that_come_and_leave_lose_no_place() {
    let endpoints = one(3, 1000);
    let endpoint = &endpoints.all()[0];
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for turn in 0..500 {
                    if let Some(selected) = endpoint.enter() {
                        assert!(endpoint.in_flight() <= 3);
                        drop(selected);
                    } else if let Ok(mut waiting) = line_up(endpoint)
                        && turn % 3 != 0
                    {
                        while handed(&mut waiting).is_none() {
                            std::thread::yield_now();
                        }
                    }
                }
            });
        }
    });
    assert_eq!((endpoint.in_flight(), endpoint.waiting()), (0, 0));
}
