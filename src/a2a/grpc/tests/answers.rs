//! What answers reveal.

use super::*;
use crate::a2a::jsonrpc::{Answer, MAX_ID_BYTES, MAX_REVEALED};
use crate::a2a::{ContextId, Operation, Revealed, TaskId, TaskState};

fn reveals(task: &str, context: &str, state: Option<TaskState>) -> Answer<'static> {
    let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    let revealed = Revealed {
        task: some(task).map(|id| TaskId::new(&id)),
        context: some(context).map(|id| ContextId::new(&id)),
        state,
    };
    Answer {
        revealed: Vec::from_iter(Some(revealed).filter(|revealed| *revealed != Revealed::default())),
        has_result: true,
        ..Answer::default()
    }
}

#[track_caller]
fn check(generation: Generation, operation: Operation, message: &[u8], expected: &Answer<'_>) {
    assert_eq!(
        read_answer(message, generation, operation).as_ref(),
        Ok(expected),
        "{generation} {operation:?} {message:02x?}"
    );
}

fn status(state: u64) -> Vec<u8> {
    message(3, [number(1, state)])
}

#[test]
fn answers_reveal_their_ids() {
    let working = Some(TaskState::Working);
    let task = [text(1, "t"), text(2, "c"), status(2)].concat();
    let said = [text(1, "m"), text(2, "c"), text(3, "t")].concat();
    for generation in Generation::SPOKEN {
        for operation in [Operation::Get, Operation::Cancel] {
            check(generation, operation, &task, &reveals("t", "c", working));
        }
        for operation in [Operation::Send, Operation::Stream, Operation::Subscribe] {
            check(generation, operation, &text(1, &task), &reveals("t", "c", working));
            check(generation, operation, &text(2, &said), &reveals("t", "c", None));
            check(
                generation,
                operation,
                &message(2, [text(1, "m")]),
                &reveals("", "", None),
            );
        }
        for operation in [Operation::Stream, Operation::Subscribe] {
            check(generation, operation, &text(3, &task), &reveals("t", "c", working));
            let artifact = message(4, [text(1, "t"), text(2, "c"), message(3, [number(1, 3)])]);
            check(generation, operation, &artifact, &reveals("t", "c", None));
        }
    }
}

#[test]
fn only_0_3_says_which_event_is_the_last() {
    let last = |last| message(3, [text(1, "t"), number(4, last)]);
    for (generation, sent, is_final) in [
        (V0_3, last(1), true),
        (V0_3, last(0), false),
        (V0_3, last(7), true),
        (V0_3, message(3, [text(1, "t"), number(4, 1), number(4, 0)]), false),
        (V0_3, message(3, [text(1, "t")]), false),
        // In a task these are the artifacts.
        (V0_3, message(1, [text(1, "t"), text(4, "")]), false),
        (V1_0, last(1), false),
        (V1_0, message(3, [text(1, "t"), text(4, "metadata")]), false),
    ] {
        let expected = Answer {
            is_final,
            ..reveals("t", "", None)
        };
        check(generation, Operation::Stream, &sent, &expected);
    }
}

#[test]
fn states_are_read_as_32_bits() {
    for (number, state) in [
        (0, TaskState::Unknown),
        (1, TaskState::Submitted),
        (3, TaskState::Completed),
        (5, TaskState::Canceled),
        (8, TaskState::AuthRequired),
        (9, TaskState::Unknown),
        (u64::MAX, TaskState::Unknown),
        (1 << 32 | 3, TaskState::Completed),
    ] {
        check(
            V1_0,
            Operation::Get,
            &[text(1, "t"), status(number)].concat(),
            &reveals("t", "", Some(state)),
        );
    }
    let twice = [text(1, "t"), status(3), status(2), message(3, [])].concat();
    check(
        V1_0,
        Operation::Get,
        &twice,
        &reveals("t", "", Some(TaskState::Working)),
    );
    check(
        V1_0,
        Operation::Get,
        &[text(1, "t"), message(3, [])].concat(),
        &reveals("t", "", Some(TaskState::Unknown)),
    );
}

#[test]
fn an_id_that_comes_twice_is_the_one_that_callers_read() {
    let twice = |field| [text(field, "mine"), text(field, "theirs")].concat();
    for operation in [Operation::Stream, Operation::Subscribe] {
        for (variant, ids) in [
            (1, [twice(1), twice(2)]),
            (2, [twice(3), twice(2)]),
            (3, [twice(1), twice(2)]),
            (4, [twice(1), twice(2)]),
        ] {
            let event = message(variant, ids);
            check(V1_0, operation, &event, &reveals("theirs", "theirs", None));
            let read = crate::a2a::grpc::to_json(V1_0, operation, &event).unwrap();
            let read = String::from_utf8(read).unwrap();
            assert!(read.contains("theirs") && !read.contains("mine"), "{read}");
        }
    }
    check(V1_0, Operation::Get, &twice(1), &reveals("theirs", "", None));
}

#[test]
fn of_several_variants_the_last_counts() {
    let (t, m) = (message(1, [text(1, "t"), status(2)]), message(2, [text(3, "u")]));
    check(V1_0, Operation::Stream, &[&*t, &*m].concat(), &reveals("u", "", None));
    check(
        V1_0,
        Operation::Stream,
        &[&*m, &*t].concat(),
        &reveals("t", "", Some(TaskState::Working)),
    );
    // Pieces of one are put together, unless another stood between them.
    let context = message(1, [text(2, "c")]);
    let whole = reveals("t", "c", Some(TaskState::Working));
    check(V1_0, Operation::Stream, &[&*t, &*context].concat(), &whole);
    check(
        V1_0,
        Operation::Stream,
        &[&*t, &*m, &*context].concat(),
        &reveals("", "c", None),
    );
    // What a send does not answer is no variant of it.
    let update = message(3, [text(1, "v")]);
    check(
        V1_0,
        Operation::Send,
        &[&*t, &*update].concat(),
        &reveals("t", "", Some(TaskState::Working)),
    );
    check(
        V1_0,
        Operation::Stream,
        &[&*t, &*update].concat(),
        &reveals("v", "", None),
    );
}

#[test]
fn answers_of_another_shape_are_strange() {
    let strange = Answer {
        is_strange: true,
        ..reveals("", "", None)
    };
    for generation in Generation::SPOKEN {
        for operation in [
            Operation::Send,
            Operation::Stream,
            Operation::Subscribe,
            Operation::Get,
            Operation::Cancel,
        ] {
            check(generation, operation, &[], &strange);
            check(generation, operation, &text(9, "x"), &strange);
        }
        check(generation, Operation::Send, &message(3, [text(1, "t")]), &strange);
        for operation in [
            Operation::PushCreate,
            Operation::PushGet,
            Operation::PushList,
            Operation::PushDelete,
            Operation::ExtendedCard,
        ] {
            check(generation, operation, &text(1, "tasks/t"), &reveals("", "", None));
        }
    }
}

#[test]
fn pages_reveal_all_their_tasks() {
    let page = |count| message(1, [text(1, "t"), text(2, "c"), status(3)]).repeat(count);
    let one = reveals("t", "c", Some(TaskState::Completed)).revealed;
    for count in [0, 1, 3, MAX_REVEALED] {
        let expected = Answer {
            revealed: one.iter().cycle().take(count).cloned().collect(),
            ..reveals("", "", None)
        };
        check(
            V1_0,
            Operation::List,
            &[page(count), text(2, "next"), number(3, 50)].concat(),
            &expected,
        );
    }
    assert_eq!(
        read_answer(&page(MAX_REVEALED + 1), V1_0, Operation::List),
        Err(AnswerError::TooManyTasks)
    );
}

#[test]
fn what_cannot_be_read_is_refused() {
    let more = "x".repeat(MAX_ID_BYTES + 1);
    for (operation, sent, error) in [
        (Operation::Get, text(1, &more), AnswerError::IdTooLong),
        (Operation::Get, text(2, &more), AnswerError::IdTooLong),
        (Operation::Get, number(1, 1), AnswerError::Wire(WireError::Kind)),
        (Operation::Get, vec![0x0a, 9], AnswerError::Wire(WireError::Cut)),
        (
            Operation::Get,
            message(3, [text(1, "state")]),
            AnswerError::Wire(WireError::Kind),
        ),
        (Operation::Stream, number(1, 1), AnswerError::Wire(WireError::Kind)),
        (Operation::Stream, text(1, [0x0a, 9]), AnswerError::Wire(WireError::Cut)),
        (
            Operation::Stream,
            message(1, [text(1, [0xff])]),
            AnswerError::Wire(WireError::Text),
        ),
        (Operation::List, number(1, 1), AnswerError::Wire(WireError::Kind)),
    ] {
        let read = read_answer(&sent, V1_0, operation);
        assert_eq!(read, Err(error), "{sent:02x?}");
        assert_ne!(error.as_str(), "");
        assert_ne!(error.to_string(), "");
    }
}
