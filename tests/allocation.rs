//! What a translated event allocates: bounded by its size, whatever stands in it, and in few pieces.
//!
//! Counted, not timed. `--nocapture` shows the figures.
#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

use a2a_gateway::a2a::json::Limits;
use a2a_gateway::a2a::jsonrpc::read_answer;
use a2a_gateway::a2a::translate::{Pair, Told};
use a2a_gateway::a2a::{Binding, Dialect, Generation, Operation, RpcId, v0_1};
use allocation_counter::AllocationInfo;
use serde_json::{Value, json};

/// The text of the event, in parts of 1 KiB.
fn event(agent: Generation, size: usize) -> String {
    let part = "Café \"Anker\" opens\n".repeat(50);
    let part = match agent {
        Generation::V0_1 => json!({"type": "text", "text": part}),
        Generation::V0_3 => json!({"kind": "text", "text": part}),
        Generation::V1_0 => json!({"text": part}),
    };
    let parts: Vec<&Value> = std::iter::repeat_n(&part, size.div_ceil(1024)).collect();
    let result = match agent {
        Generation::V0_1 => json!({"id": "t", "artifact": {"index": 0, "parts": parts}}),
        Generation::V0_3 => json!({"kind": "artifact-update", "taskId": "t", "contextId": "c",
            "artifact": {"artifactId": "a", "parts": parts}}),
        Generation::V1_0 => json!({"artifactUpdate": {"taskId": "t", "contextId": "c",
            "artifact": {"artifactId": "a", "parts": parts}}}),
    };
    json!({"jsonrpc": "2.0", "id": 1, "result": result}).to_string()
}

/// Reading it for its ids, and turning it.
fn turn(pair: &Pair, body: &str) -> AllocationInfo {
    let mut written = 0;
    let id = RpcId::null();
    let info = allocation_counter::measure(|| {
        let limits = Limits::default();
        let mut read = read_answer(body.as_bytes(), pair.agent.generation, Operation::Stream, limits).unwrap();
        pair.complete(&mut read).unwrap();
        let told = Told {
            body: body.as_bytes(),
            failed: None,
        };
        let mut progress = v0_1::Progress::default();
        let event = pair.event(Operation::Stream, &id, told, &read.revealed, false, &mut progress);
        written = event.unwrap().bytes.len();
    });
    assert!(
        written > body.len() / 2,
        "an event of {} has become {written}",
        body.len()
    );
    info
}

#[test]
fn a_translated_event_allocates_a_few_times_its_size() {
    let rpc = |generation, binding| Dialect { generation, binding };
    for agent in Generation::ALL {
        for caller in Generation::SPOKEN.into_iter().filter(|caller| *caller != agent) {
            for binding in Binding::ALL {
                let pair = Pair {
                    caller: rpc(caller, binding),
                    agent: rpc(agent, Binding::JsonRpc),
                    tenant: None,
                    named: None,
                    asked: (agent == Generation::V0_1).then(|| {
                        Box::new(v0_1::Asked {
                            task: Box::from("t"),
                            session: Box::from("c"),
                        })
                    }),
                };
                for size in [1 << 10, 1 << 14, 1 << 18] {
                    let body = event(agent, size);
                    let AllocationInfo {
                        bytes_total,
                        bytes_max,
                        count_total,
                        ..
                    } = turn(&pair, &body);
                    let (len, parts) = (body.len() as u64, size as u64 / 1024);
                    println!(
                        "{agent} to {caller} over {binding:?}, {len} bytes: {count_total} pieces, {bytes_total} bytes, \
                         at most {bytes_max} at once"
                    );
                    assert!(bytes_max <= 4 * len + 4096, "{bytes_max} at once for {len}");
                    assert!(count_total <= 32 + 2 * parts, "{count_total} pieces for {parts} parts");
                }
            }
        }
    }
}
