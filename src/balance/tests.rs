//! The choice among endpoints by in-flight counts; no sockets.

use super::*;

fn endpoints(count: usize, balance: Balance) -> Endpoints {
    let list: Vec<config::Endpoint> = (0..count)
        .map(|at| config::Endpoint {
            url: format!("http://127.0.0.1:{}/", 9000 + at),
        })
        .collect();
    Endpoints::build(&list, balance).expect("valid URLs")
}

#[test]
fn least_request_prefers_the_idler_of_two() {
    let endpoints = endpoints(2, Balance::LeastRequest);
    let busy = endpoints.owner("http://127.0.0.1:9000/").expect("configured");
    for _ in 0..100 {
        assert_eq!(endpoints.choose(&[]).expect("one is left").endpoint().index, 1);
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
        counts[endpoints.choose(&[]).expect("one is left").endpoint().index] += 1;
    }
    assert_eq!(counts, [10, 10, 10]);
}

#[test]
fn tried_endpoints_are_not_chosen_again() {
    for balance in [Balance::RoundRobin, Balance::LeastRequest] {
        let endpoints = endpoints(3, balance);
        for _ in 0..50 {
            assert_eq!(endpoints.choose(&[0, 2]).expect("one is left").endpoint().index, 1);
        }
        assert_eq!(endpoints.choose(&[0, 1, 2]).map(|_| ()).unwrap_err(), Error::NoneLeft);
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
