//! What is learned, and what is told.

use super::stored::on_every_store;
use super::*;

const A: &str = "http://a:1/";
const B: &str = "http://b:1/";

/// Answers about one task, each with what becomes of it; then who owns it in which state.
#[track_caller]
fn check(
    answers: &[(&str, Generation, Option<TaskState>, Learned)],
    owner: &str,
    state: Option<TaskState>,
    generation: Generation,
) {
    on_every_store(10, |affinity, _| {
        for (endpoint, generation, state, expected) in answers {
            let learned = affinity.learn(
                "maps",
                &Arc::from(*endpoint),
                &Arc::from("key:ann"),
                *generation,
                &revealed(Some("t"), None, *state),
            );
            assert_eq!(learned, *expected, "{endpoint} says {state:?}");
        }
        let expected = Owner {
            endpoint: Arc::from(owner),
            principal: Arc::from("key:ann"),
            state,
            generation,
        };
        assert_eq!(affinity.task("maps", &TaskId::new("t")), Some(expected));
    });
}

#[test]
fn a_state_follows_the_answers_until_it_is_terminal() {
    use Generation::{V0_3, V1_0};
    use Learned::{Known, New, Updated};
    use TaskState::{Canceled, Completed, Failed, InputRequired, Rejected, Unknown, Working};
    check(&[(A, V1_0, None, New)], A, None, V1_0);
    check(
        &[(A, V1_0, None, New), (A, V1_0, Some(Working), Updated)],
        A,
        Some(Working),
        V1_0,
    );
    check(
        &[
            (A, V1_0, Some(Working), New),
            (A, V1_0, Some(Working), Known),
            (A, V1_0, None, Known),
        ],
        A,
        Some(Working),
        V1_0,
    );
    check(
        &[
            (A, V1_0, Some(Working), New),
            (A, V1_0, Some(InputRequired), Updated),
            (A, V1_0, Some(Unknown), Updated),
            (A, V1_0, Some(Working), Updated),
        ],
        A,
        Some(Working),
        V1_0,
    );
    for end in [Completed, Failed, Canceled, Rejected] {
        let other = if end == Failed { Completed } else { Failed };
        check(
            &[
                (A, V1_0, Some(Working), New),
                (A, V1_0, Some(end), Updated),
                (A, V1_0, Some(Working), Known),
                (A, V1_0, Some(other), Known),
            ],
            A,
            Some(end),
            V1_0,
        );
    }
    check(&[(A, V0_3, None, New), (A, V1_0, None, Known)], A, None, V0_3);
}

#[test]
fn a_task_is_never_given_to_another_endpoint() {
    use Generation::V1_0;
    use Learned::{Conflict, Known, New};
    use TaskState::{Completed, Working};
    check(
        &[
            (A, V1_0, Some(Working), New),
            (B, V1_0, Some(Completed), Conflict),
            (A, V1_0, Some(Working), Known),
        ],
        A,
        Some(Working),
        V1_0,
    );
    check(
        &[(A, V1_0, Some(Completed), New), (B, V1_0, Some(Completed), Conflict)],
        A,
        Some(Completed),
        V1_0,
    );
}

#[test]
fn a_task_keeps_the_principal_to_whom_it_was_first_revealed() {
    on_every_store(10, |affinity, _| {
        let by = |principal: &str| {
            affinity.learn(
                "maps",
                &Arc::from(A),
                &Arc::from(principal),
                Generation::V1_0,
                &revealed(Some("t"), Some("c"), None),
            )
        };
        assert_eq!(by("key:ann"), Learned::New);
        assert_eq!(by("key:ben"), Learned::Foreign);
        let task = affinity.task("maps", &TaskId::new("t")).unwrap();
        let context = affinity.context("maps", &ContextId::new("c")).unwrap();
        assert_eq!(&*task.principal, "key:ann");
        assert_eq!(&*context.principal, "key:ann");
    });
}

#[test]
fn an_answer_binds_its_task_and_its_context() {
    on_every_store(10, |affinity, _| {
        let says = |endpoint: &str, task, context| {
            affinity.learn(
                "maps",
                &Arc::from(endpoint),
                &Arc::from("key:ann"),
                Generation::V0_3,
                &revealed(task, context, Some(TaskState::Working)),
            )
        };
        let context_of = |id| {
            let owner = affinity.context("maps", &ContextId::new(id))?;
            assert_eq!(owner.state, None, "a context has no state");
            Some(owner.endpoint.to_string())
        };
        assert_eq!(says(A, None, None), Learned::Known, "reveals nothing");
        assert_eq!(says(A, Some(""), Some("")), Learned::Known, "names nothing");
        assert_eq!(says(A, None, Some("c1")), Learned::New, "a message only");
        assert_eq!(context_of("c1").as_deref(), Some(A));
        assert_eq!(
            says(A, Some("t1"), Some("c1")),
            Learned::New,
            "a task in a known context"
        );
        assert_eq!(endpoint_of(affinity, "t1").as_deref(), Some(A));
        assert_eq!(
            says(B, Some("t2"), Some("c1")),
            Learned::Conflict,
            "the context lives elsewhere"
        );
        assert_eq!(endpoint_of(affinity, "t2").as_deref(), Some(B));
        assert_eq!(context_of("c1").as_deref(), Some(A), "it stays there");
        assert_eq!(
            says(B, Some("t1"), Some("c2")),
            Learned::Conflict,
            "the task lives elsewhere"
        );
        assert_eq!(context_of("c2").as_deref(), Some(B));
        assert_eq!(context_of("t1"), None, "a task id is no context id");
        assert_eq!(endpoint_of(affinity, "c1"), None);
    });
}

#[test]
fn ids_are_the_agents_own() {
    on_every_store(10, |affinity, _| {
        for (agent, endpoint) in [("maps", A), ("mapst", B), ("", A)] {
            let learned = affinity.learn(
                agent,
                &Arc::from(endpoint),
                &Arc::from("key:ann"),
                Generation::V1_0,
                &revealed(Some("t"), None, None),
            );
            assert_eq!(learned, Learned::New, "{agent}");
        }
        let of = |agent, id| {
            let owner = affinity.task(agent, &TaskId::new(id))?;
            Some(owner.endpoint.to_string())
        };
        assert_eq!(of("maps", "t").as_deref(), Some(A));
        assert_eq!(of("mapst", "t").as_deref(), Some(B));
        assert_eq!(of("maps", "tt"), None, "agent and id do not run together");
        assert_eq!(of("map", "st"), None);
        assert_eq!(of("weather", "t"), None);
    });
}

#[test]
fn a_task_of_another_owner_is_told_of_once_and_nothing_else_is() {
    let affinity = memory(10, &Time::new());
    let told = || {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        std::pin::pin!(affinity.transferred()).poll(&mut context).is_ready()
    };
    let learned = affinity.learn(
        "maps",
        &Arc::from(A),
        &Arc::from("key:ann"),
        Generation::V1_0,
        &revealed(Some("t"), Some("c"), None),
    );
    assert_eq!((learned, told()), (Learned::New, false));
    let (ann, ben) = (Arc::from("key:ann"), Arc::from("key:ben"));
    let (task, context) = (TaskId::new("t"), ContextId::new("c"));
    affinity.transfer_context("maps", &context, &ben).expect("a record");
    affinity.transfer_task("maps", &task, &ann).expect("a record");
    assert!(!told(), "a context's tasks keep theirs, and hers stays hers");
    affinity.transfer_task("maps", &task, &ben).expect("a record");
    affinity.transfer_task("maps", &task, &ann).expect("a record");
    assert_eq!((told(), told()), (true, false), "both at once");
}
