//! Decision points: when a call has to be asked about, and when an open stream has to be again.

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::Duration;

use super::policy::{asking, caller, rule};
use super::*;
use crate::config::{DecisionKind, DecisionPoint};

fn section(url: &str) -> DecisionPoint {
    DecisionPoint {
        kind: DecisionKind::Opa,
        url: url.to_owned(),
        ca: None,
        token: None,
        timeout: Duration::from_millis(500),
        cache_ttl: Duration::ZERO,
        concurrent: 1,
        claims: Vec::new(),
    }
}

fn point(name: &str, url: &str) -> Arc<Point> {
    Point::load(name, &section(url)).expect("nothing is read")
}

fn asks(point: &Arc<Point>) -> Rules {
    Rules::default().asking(Some(point.clone()))
}

fn owned(operation: Operation) -> Owned {
    let ownership = Ownership::new(&Policy::default(), true);
    let open = Rules::default();
    let policies = Policies {
        listener: &open,
        agent: &open,
    };
    let admitted = route(ROUTE, caller(), &ownership, policies, &asked()).unwrap();
    let checked = call(admitted, made(Generation::V1_0, operation), &[], None).unwrap();
    tasks(checked, &ownership, &Known::default()).unwrap()
}

#[test]
fn a_call_is_asked_about_where_either_place_has_a_decision_point() {
    let (open, p, q) = (
        Rules::default(),
        point("p", "http://[::1]:1/p"),
        point("q", "http://[::1]:1/q"),
    );
    let (of_p, of_q) = (asks(&p), asks(&q));
    let names = |listener: &Rules, agent: &Rules| {
        let policies = Policies { listener, agent };
        let names: Vec<String> = policies.points().map(|point| point.name().to_owned()).collect();
        let ruled =
            allowed(owned(Operation::Get), policies, |_| asking(Operation::Get, None)).unwrap_or_else(|_| panic!());
        assert_eq!(matches!(ruled, Ruled::Asks(_)), !names.is_empty());
        assert_eq!(
            (policies.asks(), policies.is_open()),
            (!names.is_empty(), names.is_empty())
        );
        names.join(" ")
    };
    assert_eq!(names(&open, &of_p), "p");
    assert_eq!(names(&of_p, &open), "p");
    assert_eq!(names(&of_q, &of_p), "q p");
    assert_eq!(names(&of_p, &of_p), "p");
    // What no rule allows is not asked about.
    let refusing = Rules::new(&[rule("no", &[], &[], "false")]).asking(Some(p));
    let policies = Policies {
        listener: &open,
        agent: &refusing,
    };
    assert!(allowed(owned(Operation::Get), policies, |_| asking(Operation::Get, None)).is_err());
}

#[test]
fn a_stream_is_asked_about_again_by_others_than_allowed_it_and_for_others_than_made_it() {
    let (p, q) = (point("p", "http://[::1]:1/p"), point("q", "http://[::1]:1/q"));
    static OPEN: LazyLock<Rules> = LazyLock::new(Rules::default);
    fn policies(agent: &Rules) -> Policies<'_> {
        Policies { listener: &OPEN, agent }
    }
    let open = Rules::default();
    let before = asks(&p);
    let judgement = Judgement::new(
        policies(&before),
        &caller(),
        asking(Operation::Stream, None),
        policies(&before).decide(&caller(), &asking(Operation::Stream, None)),
    );
    let again = |rules: &Rules, principal: &Arc<Principal>| match judgement.again(policies(rules), principal) {
        Again::Stands => "stands",
        Again::Falls => "falls",
        Again::Asks(_) => "asks",
    };
    let moved = Principal::of_key("ann", &[], &["groups=dev"]);
    let slower = Point::load(
        "p",
        &DecisionPoint {
            timeout: Duration::from_secs(9),
            ..section("http://[::1]:1/p")
        },
    );
    let told_more = Point::load(
        "p",
        &DecisionPoint {
            claims: vec!["tenant".to_owned()],
            ..section("http://[::1]:1/p")
        },
    );
    let ruled = |when: &str| Rules::new(&[rule("r", &[], &[], when)]).asking(Some(p.clone()));
    for (rules, principal, expected) in [
        (before.clone(), caller(), "stands"),
        (open.clone(), caller(), "stands"),
        (asks(&slower.unwrap()), caller(), "stands"),
        (ruled("operation == 'stream'"), caller(), "stands"),
        (ruled("operation == 'get'"), caller(), "falls"),
        (asks(&q), caller(), "asks"),
        (asks(&point("q", "http://[::1]:1/p")), caller(), "asks"),
        (asks(&point("p", "http://[::1]:1/q")), caller(), "asks"),
        (asks(&told_more.unwrap()), caller(), "asks"),
        (before.clone(), moved.clone(), "asks"),
        (open.clone(), moved, "stands"),
    ] {
        assert_eq!(again(&rules, &principal), expected, "{rules:?}");
    }
}

#[test]
fn points_that_stay_the_same_are_the_same_after_a_reload() {
    let of = |sections: &[(&str, DecisionPoint)]| {
        let sections = sections
            .iter()
            .map(|(name, section)| ((*name).to_owned(), section.clone()));
        sections.collect::<BTreeMap<_, _>>()
    };
    let named = |points: &Points, name: &str| points.named("key", Some(name)).ok().flatten();
    let first = of(&[("p", section("http://[::1]:1/p")), ("q", section("http://[::1]:1/q"))]);
    let first = Points::default().renewed(&first).unwrap().take();
    let second = of(&[
        ("p", section("http://[::1]:1/p")),
        ("q", section("http://[::1]:1/other")),
    ]);
    let second = first.renewed(&second).unwrap().take();
    let same = |name: &str| Arc::ptr_eq(&named(&first, name).unwrap(), &named(&second, name).unwrap());
    assert!(same("p") && !same("q"));
    // A policy that names one that is not there asks somebody, or cannot be.
    assert!(second.named("key", Some("r")).is_err());
    assert!(second.named("key", None).unwrap().is_none());
}
