//! Rules: which of them stand for a call, what they read, and what is refused before the body is read.

use std::sync::LazyLock;

use super::*;
use crate::config::Allow;
use crate::expression::{Expression, Failure, Scope, Type};

pub(super) fn rule(name: &str, operations: &[Operation], skills: &[&str], when: &str) -> Allow {
    Allow {
        name: Arc::from(name),
        operations: operations.to_vec(),
        skills: skills.iter().map(|skill| (*skill).to_owned()).collect(),
        when: (!when.is_empty()).then(|| Expression::compile(when, &Scope::policy(), &Type::Bool).unwrap()),
    }
}

pub(super) fn caller() -> Arc<Principal> {
    Principal::of_key("ann", &["a2a.invoke"], &["tenant=acme", "groups=ops", "groups=dev"])
}

pub(super) fn asking(operation: Operation, skill: Option<&str>) -> Asking {
    Asking {
        asked: asked(),
        call: Arc::new(Call {
            task: Some(TaskId::new("t")),
            ..made(Generation::V1_0, operation)
        }),
        skill: skill.map(str::to_owned),
        shown: None,
        metadata: None,
        owner: Some(Arc::from("key:ann")),
        state: Some("working"),
        came: None,
    }
}

/// By the rules of the agent alone.
fn judged(rules: &[Allow], operation: Operation, skill: Option<&str>) -> Judged {
    let (none, rules) = (Rules::default(), Rules::new(rules));
    let policies = Policies {
        listener: &none,
        agent: &rules,
    };
    let decision = policies.decide(&caller(), &asking(operation, skill));
    assert_eq!(decision.listener, Judged::Open);
    decision.agent
}

fn by(name: &str) -> Judged {
    Judged::Allowed(Arc::from(name))
}

const DENIED: Judged = Judged::Denied { failed: None };

#[test]
fn without_rules_everything_is_allowed_and_with_one_only_what_it_says() {
    assert_eq!(judged(&[], Operation::Send, None), Judged::Open);
    let reads = [rule("reads", &[Operation::Get, Operation::List], &[], "")];
    assert_eq!(judged(&reads, Operation::Get, None), by("reads"));
    assert_eq!(judged(&reads, Operation::Send, None), DENIED);
}

#[test]
fn the_first_rule_that_holds_decides() {
    let rules = [
        rule("never", &[], &[], "false"),
        rule("ops", &[], &[], "'ops' in principal.groups"),
        rule("all", &[], &[], ""),
    ];
    assert_eq!(judged(&rules, Operation::Send, None), by("ops"));
}

#[test]
fn rules_read_the_caller_the_call_and_where_it_comes_from() {
    for when in [
        "principal.id == 'key:ann' && principal.name == 'ann' && !principal.anonymous && principal.issuer == ''",
        "principal.schemes == ['key'] && principal.scopes == ['a2a.invoke'] && principal.groups == ['ops', 'dev']",
        "principal.claims.tenant == 'acme' && principal.claims.groups == ['ops', 'dev']",
        "agent.name == 'maps' && source.listener == 'public' && source.tls && source.address.inNetwork('10.0.0.0/8')",
        "operation == 'cancel' && generation == '1.0' && binding == 'JSONRPC' && skill == ''",
        "task.id == 't' && task.owner == principal.id && task.state == 'working' && task.context == ''",
        "time == timestamp('1970-01-01T00:00:00Z')",
    ] {
        assert_eq!(
            judged(&[rule("r", &[], &[], when)], Operation::Cancel, None),
            by("r"),
            "{when}"
        );
    }
}

#[test]
fn a_rule_that_cannot_be_evaluated_allows_nothing() {
    let failing = rule(
        "failing",
        &[],
        &[],
        "principal.claims.missing == 'x' || message.metadata.x == 1",
    );
    let failed = Some((Arc::from("failing"), Failure::Missing));
    assert_eq!(
        judged(std::slice::from_ref(&failing), Operation::Send, None),
        Judged::Denied { failed }
    );
    // Others still may.
    assert_eq!(
        judged(&[failing, rule("all", &[], &[], "")], Operation::Send, None),
        by("all")
    );
}

#[test]
fn rules_of_a_skill_stand_for_it_alone() {
    let rules = [
        rule("general", &[], &[], ""),
        rule("forecast", &[], &["forecast"], "'dev' in principal.groups"),
        rule("payout", &[], &["payout"], "'board' in principal.groups"),
    ];
    assert_eq!(judged(&rules, Operation::Send, None), by("general"));
    assert_eq!(judged(&rules, Operation::Send, Some("forecast")), by("forecast"));
    // The general rule does not allow what the skill's own refuse.
    assert_eq!(judged(&rules, Operation::Send, Some("payout")), DENIED);
    assert_eq!(judged(&rules, Operation::Send, Some("unnamed")), by("general"));
}

#[test]
fn both_places_must_allow() {
    let (yes, no) = (
        Rules::new(&[rule("yes", &[], &[], "")]),
        Rules::new(&[rule("no", &[], &[], "false")]),
    );
    let open = Rules::default();
    for (listener, agent, allows) in [
        (&open, &open, true),
        (&yes, &open, true),
        (&yes, &yes, true),
        (&no, &open, false),
        (&no, &yes, false),
        (&yes, &no, false),
    ] {
        let decision = Policies { listener, agent }.decide(&caller(), &asking(Operation::Send, None));
        assert_eq!(decision.allows(), allows, "{decision:?}");
    }
}

#[test]
fn what_no_rule_can_allow_is_refused_before_the_body_is_read() {
    let admits = |rules: &[Allow]| {
        let (open, rules) = (Rules::default(), Rules::new(rules));
        let ownership = Ownership::new(&Policy::default(), false);
        let one = |policies| match route(ROUTE, caller(), &ownership, policies, &asked()) {
            Ok(_) => true,
            Err(error) => {
                assert_eq!(error, Error::NotAllowed);
                false
            }
        };
        let of_agent = one(Policies {
            listener: &open,
            agent: &rules,
        });
        let of_listener = one(Policies {
            listener: &rules,
            agent: &open,
        });
        assert_eq!(of_agent, of_listener);
        of_agent
    };
    let groups = |group: &str| rule("g", &[], &[], &format!("'{group}' in principal.groups"));
    assert!(admits(&[]));
    assert!(admits(&[groups("ops")]));
    assert!(!admits(&[groups("board")]));
    assert!(!admits(&[
        groups("board"),
        rule("t", &[], &[], "source.tls && !source.tls")
    ]));
    // The body may tell.
    assert!(admits(&[groups("board"), rule("o", &[], &[], "operation == 'get'")]));
    assert!(admits(&[rule("o", &[Operation::Get], &[], "")]));
    // What fails allows nothing.
    assert!(!admits(&[rule("f", &[], &[], "principal.claims.missing == 'x'")]));
}

#[test]
fn a_stream_goes_on_while_the_next_rules_allow_it() {
    fn policies(agent: &Rules) -> Policies<'_> {
        static OPEN: LazyLock<Rules> = LazyLock::new(Rules::default);
        Policies { listener: &OPEN, agent }
    }

    let open = Rules::default();
    let allow = |when: &str| Rules::new(&[rule("r", &[], &[], when)]);
    let first = allow("'ops' in principal.groups && operation == 'stream'");
    let owned = |rules: &Rules| {
        let ownership = Ownership::new(&Policy::default(), true);
        let admitted = route(ROUTE, caller(), &ownership, policies(rules), &asked()).unwrap();
        let checked = call(admitted, made(Generation::V1_0, Operation::Stream), &[], None).unwrap();
        tasks(checked, &ownership, &Known::default()).unwrap()
    };
    for before in [&first, &open] {
        let ruled = allowed(owned(before), policies(before), |_| asking(Operation::Stream, None)).unwrap();
        let Ruled::Allowed(permit) = ruled else {
            panic!("{ruled:?}")
        };
        let judgement = permit.judgement().expect("it is a stream");
        let stands = |rules: &Rules, principal: &Arc<Principal>| match judgement.again(policies(rules), principal) {
            Again::Stands => true,
            Again::Falls => false,
            Again::Asks(asks) => panic!("{asks:?}"),
        };
        assert!(stands(before, &caller()));
        assert!(stands(&allow("operation == 'stream'"), &caller()));
        assert!(!stands(&allow("operation == 'get'"), &caller()));
        assert!(!stands(&allow("message.metadata.x == 1"), &caller()));
        let moved = Principal::of_key("ann", &[], &["groups=dev"]);
        assert_eq!(stands(before, &moved), before.is_open());
    }
}
