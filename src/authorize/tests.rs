//! Which generations are permitted: by the agent's, the caller's header and the method's name.

use super::*;
use crate::a2a::{Operation, RpcId};
use crate::route::{AgentIndex, Place};

fn check(generation: Generation, served: &[Generation], asked: Option<&'static str>, allowed: bool) {
    let admitted = route(
        RouteMatch {
            agent: AgentIndex(0),
            place: Place::Rpc,
        },
        Arc::new(Principal::anonymous()),
    );
    let made = Call {
        generation,
        operation: Operation::Send,
        id: RpcId::null(),
        task: None,
        context: None,
        references: Vec::new(),
    };
    let permit = call(admitted, made, served, asked.map(HeaderValue::from_static).as_ref());
    assert_eq!(
        permit.is_ok(),
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
}

#[test]
fn a_legacy_method_under_a_newer_version_is_refused() {
    use Generation::{V0_3, V1_0};
    check(V0_3, &[V0_3, V1_0], Some("1.0"), false);
    check(V0_3, &[V0_3], Some("0.3"), true);
    check(V1_0, &[V1_0], None, true);
    check(V1_0, &[V1_0], Some("1.7"), true);
}
