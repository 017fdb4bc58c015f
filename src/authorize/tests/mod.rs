//! Which generations are permitted: by the agent's, the caller's header and the method's name. Whose tasks are.

mod point;
mod policy;

use super::*;
use crate::a2a::{Binding, ContextId, RpcId, TaskId};
use crate::config::{CallerPattern, Policy, TaskAccess, TaskOwner, TaskSharing};
use crate::route::{AgentIndex, Place};

const ROUTE: RouteMatch = RouteMatch {
    agent: AgentIndex(0),
    place: Place::Rpc,
};

fn made(generation: Generation, operation: Operation) -> Call {
    Call {
        binding: Binding::JsonRpc,
        generation,
        operation,
        id: RpcId::null(),
        task: None,
        context: None,
        references: Vec::new(),
        webhook: false,
    }
}

fn check(generation: Generation, served: &[Generation], asked: Option<&'static str>, allowed: bool) {
    let nobody = Ownership::new(&Policy::default(), true);
    let admitted = admit(Principal::anonymous(), &nobody).expect("nobody owns anything");
    let asked_for = asked.map(HeaderValue::from_static);
    let checked = call(admitted, made(generation, Operation::Send), served, asked_for.as_ref());
    assert_eq!(
        checked.is_ok(),
        allowed,
        "{generation} of {served:?}, asked for {asked:?}"
    );
}

#[test]
fn only_served_generations_are_permitted() {
    use Generation::{V0_3, V1_0};
    check(V0_3, &[V0_3], None, true);
    check(V1_0, &[V1_0], Some("1.0"), true);
    check(V1_0, &[V0_3], Some("1.0"), false);
    check(V0_3, &[V1_0], None, false);
    check(V0_3, &[V0_3, V1_0], None, true);
    check(V0_3, &[], None, true);
    // It is read as one where 0.1 is served alone, whatever the agent speaks.
    check(Generation::V0_1, &[V1_0], None, true);
}

#[test]
fn a_legacy_method_under_a_newer_version_is_refused() {
    use Generation::{V0_1, V0_3, V1_0};
    check(V0_3, &[V0_3, V1_0], Some("1.0"), false);
    check(V0_3, &[V0_3], Some("0.3"), true);
    check(V0_1, &[V0_3, V1_0], Some("1.0"), false);
    check(V0_1, &[V0_3, V1_0], Some("0.1"), true);
    check(V1_0, &[V1_0], None, true);
    check(V1_0, &[V1_0], Some("1.7"), true);
}

/// What the store knows, as the tests say it.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    task: Option<&'static str>,
    context: Option<&'static str>,
    references: &'static [Option<&'static str>],
}

impl Owners for Known {
    fn of_task(&self) -> Option<&str> {
        self.task
    }

    fn of_context(&self) -> Option<&str> {
        self.context
    }

    fn of_references(&self) -> impl Iterator<Item = Option<&str>> {
        self.references.iter().copied()
    }
}

fn ann() -> Principal {
    let mut ann = Principal::anonymous();
    ann.id = Arc::from("key:ann");
    ann.schemes = vec![Arc::from("key")];
    ann.attributes = ["tenant=acme", "groups=ops", "groups=dev"].map(Arc::from).to_vec();
    ann
}

fn owned_by(owner: TaskOwner) -> Policy {
    Policy {
        task_owner: Some(owner),
        ..Policy::default()
    }
}

pub(super) fn asked() -> Asked {
    Asked {
        agent: Arc::from("maps"),
        listener: Arc::from("public"),
        address: "10.1.2.3".parse().unwrap(),
        tls: true,
        now: 0,
    }
}

fn admit(principal: Principal, ownership: &Ownership) -> Result<Admitted, Error> {
    let none = Rules::default();
    let policies = Policies {
        listener: &none,
        agent: &none,
    };
    route(ROUTE, Arc::new(principal), ownership, policies, &asked())
}

/// Where there are no rules.
fn unruled(owned: Owned) -> Permit {
    let none = Rules::default();
    let policies = Policies {
        listener: &none,
        agent: &none,
    };
    match allowed(owned, policies, |_| unreachable!("nothing is asked")).expect("no rule refuses") {
        Ruled::Allowed(permit) => permit,
        Ruled::Asks(pending) => panic!("{pending:?}"),
    }
}

fn named(operation: Operation, task: bool, context: bool, references: usize) -> Call {
    Call {
        task: task.then(|| TaskId::new("t")),
        context: context.then(|| ContextId::new("c")),
        references: vec![TaskId::new("r"); references],
        ..made(Generation::V1_0, operation)
    }
}

/// Ann calls.
fn permitted(policy: &Policy, wanted: Call, known: Known) -> bool {
    let ownership = Ownership::new(policy, false);
    let admitted = admit(ann(), &ownership).expect("she has an owner");
    let checked = call(admitted, wanted, &[], None).expect("served");
    match tasks(checked, &ownership, &known) {
        Ok(_) => true,
        Err(error) => {
            assert_eq!(error, Error::TaskNotFound);
            false
        }
    }
}

#[test]
fn every_operation_on_a_task_needs_its_owner() {
    let policy = owned_by(TaskOwner::Principal);
    let of = |task| Known {
        task,
        ..Known::default()
    };
    for operation in Operation::ALL {
        let by_task = || named(operation, true, false, 0);
        assert!(permitted(&policy, by_task(), of(Some("key:ann"))), "{operation:?}");
        assert!(!permitted(&policy, by_task(), of(Some("key:bob"))), "{operation:?}");
        assert!(!permitted(&policy, by_task(), of(None)), "{operation:?}: fail closed");
        assert!(
            permitted(&policy, named(operation, false, false, 0), of(None)),
            "{operation:?}"
        );
    }
}

#[test]
fn a_context_may_be_begun_but_not_be_somebody_elses() {
    let policy = owned_by(TaskOwner::Principal);
    let check = |operation, owner, allowed| {
        let known = Known {
            context: owner,
            ..Known::default()
        };
        let is = permitted(&policy, named(operation, false, true, 0), known);
        assert_eq!(is, allowed, "{operation:?} of {owner:?}");
    };
    check(Operation::Send, None, true);
    check(Operation::Send, Some("key:ann"), true);
    check(Operation::Send, Some("key:bob"), false);
    check(Operation::Stream, Some("key:bob"), false);
    // What a list shows is decided for each task: an unknown context has none, and neither has a foreign one.
    check(Operation::List, Some("key:bob"), true);
}

#[test]
fn every_task_that_a_message_refers_to_is_checked() {
    let policy = owned_by(TaskOwner::Principal);
    let check = |references: &'static [Option<&'static str>], allowed| {
        let known = Known {
            references,
            ..Known::default()
        };
        let call = named(Operation::Send, false, false, references.len());
        assert_eq!(permitted(&policy, call, known), allowed, "{references:?}");
    };
    check(&[Some("key:ann"), Some("key:ann")], true);
    check(&[Some("key:ann"), Some("key:bob")], false);
    check(&[Some("key:ann"), None], false);
}

#[test]
fn where_nobody_owns_everything_is_permitted() {
    let policy = owned_by(TaskOwner::Nobody);
    for owner in [None, Some("key:bob")] {
        let known = Known {
            task: owner,
            context: owner,
            references: &[None, Some("key:bob")],
        };
        assert!(permitted(&policy, named(Operation::Send, true, true, 2), known));
    }
}

#[test]
fn a_claim_owns_for_everybody_who_has_it() {
    let policy = owned_by(TaskOwner::Claim("tenant".to_owned()));
    let of = |owner| Known {
        task: Some(owner),
        ..Known::default()
    };
    assert!(permitted(
        &policy,
        named(Operation::Get, true, false, 0),
        of("tenant=acme")
    ));
    assert!(!permitted(
        &policy,
        named(Operation::Get, true, false, 0),
        of("tenant=acme2")
    ));
    assert!(!permitted(
        &policy,
        named(Operation::Get, true, false, 0),
        of("key:ann")
    ));
}

#[test]
fn a_caller_needs_exactly_one_value_of_the_claim_that_owns() {
    let check = |claim: &str, owner: Option<&str>| {
        let ownership = Ownership::new(&owned_by(TaskOwner::Claim(claim.to_owned())), false);
        let admitted = admit(ann(), &ownership);
        let made = admitted.as_ref().map(|admitted| &*admitted.owner);
        assert_eq!(made, owner.ok_or(&Error::Ownerless), "{claim}");
    };
    check("tenant", Some("tenant=acme"));
    check("groups", None);
    check("team", None);
    check("ten", None);
}

#[test]
fn the_default_owner_is_the_principal_unless_callers_may_be_anonymous() {
    assert!(Ownership::new(&Policy::default(), false).is_enforced());
    assert!(!Ownership::new(&Policy::default(), true).is_enforced());
    assert!(Ownership::new(&owned_by(TaskOwner::Principal), true).is_enforced());
}

#[test]
fn sharing_lets_named_callers_use_tasks_of_named_owners() {
    let id = |text: &str| CallerPattern::Id(text.to_owned());
    let attribute = |text: &str| CallerPattern::Attribute(text.to_owned());
    let check = |with: CallerPattern, owners: &str, access, operation, allowed| {
        let policy = Policy {
            task_owner: None,
            task_sharing: vec![TaskSharing {
                with: vec![with.clone()],
                owners: vec![owners.to_owned()],
                access,
            }],
            ..Policy::default()
        };
        let known = Known {
            task: Some("key:batch-7"),
            ..Known::default()
        };
        let is = permitted(&policy, named(operation, true, false, 0), known);
        assert_eq!(is, allowed, "{operation:?} with {with:?} of {owners}");
    };
    use Operation::{Cancel, Get, PushCreate, PushGet, Send, Subscribe};
    use TaskAccess::{Full, Read};
    for (operation, reads) in [
        (Get, true),
        (Subscribe, true),
        (PushGet, true),
        (Cancel, false),
        (Send, false),
        (PushCreate, false),
    ] {
        check(attribute("groups=ops"), "key:batch-*", Read, operation, reads);
        check(attribute("groups=ops"), "key:batch-*", Full, operation, true);
    }
    check(attribute("groups=o*"), "*", Read, Get, true);
    check(id("key:a*"), "*", Read, Get, true);
    check(attribute("groups=op"), "*", Full, Get, false);
    check(id("key:bob"), "*", Full, Get, false);
    check(attribute("groups=ops"), "key:other", Full, Get, false);
    // An attribute cannot pose as an id, nor an id as an attribute.
    check(id("groups=ops"), "*", Full, Get, false);
    check(attribute("key:ann"), "*", Full, Get, false);
}

#[test]
fn a_probe_only_gets_the_task_that_was_permitted() {
    let ownership = Ownership::new(&owned_by(TaskOwner::Principal), false);
    let permit = |wanted: Call| {
        let admitted = admit(ann(), &ownership).expect("she has an owner");
        let checked = call(admitted, wanted, &[], None).expect("served");
        let hers = Known {
            task: Some("key:ann"),
            ..Known::default()
        };
        unruled(tasks(checked, &ownership, &hers).expect("her own"))
    };
    assert!(
        permit(named(Operation::Send, false, true, 0))
            .probe(Generation::V1_0)
            .is_none()
    );
    let probe = permit(named(Operation::Cancel, true, true, 0))
        .probe(Generation::V1_0)
        .expect("a task");
    let expected = Call {
        id: RpcId("\"probe\"".into()),
        ..named(Operation::Get, true, false, 0)
    };
    assert_eq!((&**probe.call(), &*probe.principal().id), (&expected, "key:ann"));
}

#[test]
fn a_notification_permits_a_get_of_the_owners_task_alone() {
    let check = |owner: TaskOwner, known: Option<&'static str>, vouched: bool, expected: Result<(), Error>| {
        let ownership = Ownership::new(&owned_by(owner.clone()), false);
        let notified = notified(
            ROUTE,
            &Arc::from("key:ann"),
            TaskId::new("t"),
            Generation::V1_0,
            vouched,
        );
        let known = Known {
            task: known,
            ..Known::default()
        };
        let permit = told(notified, &ownership, &known);
        let got = permit.as_ref().map(|_| ()).map_err(Clone::clone);
        assert_eq!(got, expected, "{owner:?} {known:?}");
        if let Ok(permit) = permit {
            let expected = Call {
                id: RpcId::one(),
                ..named(Operation::Get, true, false, 0)
            };
            assert_eq!((&**permit.call(), &**permit.owner()), (&expected, "key:ann"));
            assert!(
                permit.principal().is_anonymous(),
                "nobody vouches for an owner who is not there"
            );
        }
    };
    for vouched in [false, true] {
        check(TaskOwner::Principal, Some("key:ann"), vouched, Ok(()));
        check(TaskOwner::Principal, Some("key:bob"), vouched, Err(Error::TaskNotFound));
        let claim = || TaskOwner::Claim("tenant".to_owned());
        check(claim(), Some("tenant=acme"), vouched, Err(Error::TaskNotFound));
        check(TaskOwner::Nobody, Some("key:bob"), vouched, Ok(()));
        check(TaskOwner::Nobody, None, vouched, Ok(()));
    }
    check(TaskOwner::Principal, None, true, Ok(()));
    check(TaskOwner::Principal, None, false, Err(Error::Unrecorded));
}

#[test]
fn sharing_does_not_let_a_notification_tell_of_tasks_of_others() {
    let policy = Policy {
        task_owner: None,
        task_sharing: vec![TaskSharing {
            with: vec![CallerPattern::Id("*".to_owned())],
            owners: vec!["*".to_owned()],
            access: TaskAccess::Full,
        }],
        ..Policy::default()
    };
    let notified = notified(ROUTE, &Arc::from("key:ann"), TaskId::new("t"), Generation::V1_0, true);
    let bobs = Known {
        task: Some("key:bob"),
        ..Known::default()
    };
    let told = told(notified, &Ownership::new(&policy, false), &bobs);
    assert_eq!(told.map(|_| ()), Err(Error::TaskNotFound));
}
