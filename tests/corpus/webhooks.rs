//! What official agents posted to webhooks, as a gateway reads it that stands in a webhook's place.

use a2a_gateway::a2a::translate::{Pair, Relayed};
use a2a_gateway::a2a::{Binding, Dialect, Generation, TaskState, v0_1};

use super::*;

fn pair(by: Generation, to: Generation) -> Pair {
    let rpc = |generation| Dialect {
        generation,
        binding: Binding::JsonRpc,
    };
    let named = v0_1::Named {
        task: Box::from("mine"),
        ..v0_1::Named::default()
    };
    Pair {
        caller: rpc(to),
        agent: rpc(by),
        tenant: None,
        named: (to == Generation::V0_1).then(|| Box::new(named)),
        asked: None,
    }
}

/// Of the agent's own generation; what is posted there in another form is read by what it is.
fn generation_of(name: &str) -> Generation {
    match name.split('/').next().unwrap() {
        "0.1" => Generation::V0_1,
        "0.2" | "0.3" => Generation::V0_3,
        _ => Generation::V1_0,
    }
}

#[test]
fn deliveries_reveal_what_they_were_recorded_to_reveal_and_are_told_to_every_generation() {
    let deliveries = Exchange::over("webhook");
    assert!(deliveries.len() > 40, "only {}", deliveries.len());
    for delivery in deliveries {
        let name = &delivery.name;
        let body = delivery
            .body("req.json")
            .unwrap_or_else(|| panic!("{name} has no body"));
        let expected = &delivery.expected["request"];
        let by = generation_of(name);
        for to in [Generation::V0_1, Generation::V0_3, Generation::V1_0] {
            let read = pair(by, to).notification(&body, Limits::default());
            let read = read.unwrap_or_else(|error| panic!("{name} to {to:?}: {error:?}"));
            let revealed = read.revealed;
            assert_eq!(
                revealed.task.map(|id| id.to_string()),
                text(&expected["task"]),
                "{name}"
            );
            assert_eq!(
                revealed.context.map(|id| id.to_string()),
                text(&expected["context"]),
                "{name}"
            );
            let state = expected["state"].as_str().map(TaskState::from_name);
            assert_eq!(revealed.state, state, "{name}");
            let is_task = expected["variant"] == "task";
            match read.relayed {
                Relayed::Body(body) => {
                    let told: Json = serde_json::from_slice(&body).unwrap();
                    assert!(is_task || to == Generation::V1_0, "{name} to {to:?}");
                    let id = match to {
                        Generation::V0_1 => &told["id"],
                        Generation::V0_3 => {
                            assert_eq!(told["kind"], "task", "{name}");
                            &told["id"]
                        }
                        Generation::V1_0 if is_task => &told["task"]["id"],
                        Generation::V1_0 => &told["statusUpdate"]["taskId"],
                    };
                    let called = if to == Generation::V0_1 {
                        &Json::from("mine")
                    } else {
                        &expected["task"]
                    };
                    assert_eq!(id, called, "{name} to {to:?}: {told}");
                }
                // 0.1 and 0.3 tell whole tasks, which the agent is asked for.
                Relayed::Task => assert!(!is_task && to != Generation::V1_0, "{name} to {to:?}"),
                Relayed::Nothing => panic!("{name} to {to:?}"),
            }
        }
    }
}
