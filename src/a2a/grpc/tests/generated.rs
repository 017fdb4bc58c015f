//! Generated requests and answers as messages and back: what is not in `LOSSES.md` survives, and what the bytes say of a call
//! is what its reader reads.

use proptest::collection::vec;
use proptest::option;
use serde_json::Value;

use super::*;
use crate::a2a::listing::Stamp;
use crate::a2a::model::wire::{Json, Text};
use crate::a2a::model::{self, Content, Event, Request, Response, Role};
use crate::a2a::{Operation, TaskState};

fn any_text() -> impl Strategy<Value = Text<'static>> {
    prop_oneof![Just(String::new()), ".{1,8}", "[\"\\\\\u{0}\n\u{1F600}é/]{1,6}"].prop_map(Text::from)
}

/// What a resource name can hold.
fn id() -> impl Strategy<Value = Text<'static>> {
    "[^/]{1,8}".prop_map(Text::from)
}

fn texts() -> impl Strategy<Value = Vec<Text<'static>>> {
    vec(any_text(), 0..3)
}

/// Free-form JSON with numbers that a double holds, whole ones without a fraction.
fn free() -> BoxedStrategy<Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-(1_i64 << 53)..1 << 53).prop_map(Value::from),
        any::<i32>().prop_map(|number| Value::from(f64::from(number) + 0.25)),
        any_text().prop_map(|text| Value::from(text.as_str())),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![vec(inner.clone(), 0..4).prop_map(Value::from), members(inner, 0)]
    })
    .boxed()
}

/// Members in their order, as they are written.
fn members(value: impl Strategy<Value = Value>, least: usize) -> impl Strategy<Value = Value> {
    proptest::collection::btree_map(".{0,6}", value, least..4).prop_map(|map| Value::Object(map.into_iter().collect()))
}

fn json(value: &Value) -> Json<'static> {
    Json::owned(value.to_string()).unwrap()
}

/// Never empty: taking a mark out of it leaves nothing.
fn metadata() -> impl Strategy<Value = Option<Json<'static>>> {
    option::of(members(free(), 1).prop_map(|value| json(&value)))
}

fn part() -> BoxedStrategy<model::Part<'static>> {
    let content = prop_oneof![
        any_text().prop_map(Content::Text),
        vec(any::<u8>(), 0..9).prop_map(|bytes| Content::Raw(super::convert::base64(&bytes))),
        any_text().prop_map(Content::Url),
        free().prop_map(|value| Content::Data(json(&value))),
    ];
    (content, metadata(), any_text(), any_text())
        .prop_map(|(content, metadata, filename, media_type)| model::Part {
            content,
            metadata,
            filename,
            media_type,
        })
        .boxed()
}

fn message() -> BoxedStrategy<model::Message<'static>> {
    let role = prop_oneof![Just(Role::Unspecified), Just(Role::User), Just(Role::Agent)];
    let ids = (any_text(), any_text(), any_text());
    (ids, role, vec(part(), 0..4), metadata(), texts(), texts())
        .prop_map(
            |((message_id, context_id, task_id), role, parts, metadata, extensions, reference_task_ids)| {
                model::Message {
                    message_id,
                    context_id,
                    task_id,
                    role,
                    parts,
                    metadata,
                    extensions,
                    reference_task_ids,
                }
            },
        )
        .boxed()
}

fn state() -> impl Strategy<Value = TaskState> {
    (0_u64..9).prop_map(TaskState::from_number)
}

fn time() -> impl Strategy<Value = Text<'static>> {
    let stamp = (-62_135_596_800_i64..253_402_300_800, 0_u64..1_000_000_000).prop_map(|(seconds, nanos)| {
        let fraction = nanos * 1_000_000_000;
        Text::from(Stamp { seconds, fraction }.to_string())
    });
    prop_oneof![Just(Text::default()), stamp]
}

fn status() -> BoxedStrategy<model::TaskStatus<'static>> {
    (state(), option::of(message()), time())
        .prop_map(|(state, message, timestamp)| model::TaskStatus {
            state,
            message,
            timestamp,
        })
        .boxed()
}

fn artifact() -> BoxedStrategy<model::Artifact<'static>> {
    let named = (any_text(), any_text(), any_text());
    (named, vec(part(), 0..4), metadata(), texts())
        .prop_map(
            |((artifact_id, name, description), parts, metadata, extensions)| model::Artifact {
                artifact_id,
                name,
                description,
                parts,
                metadata,
                extensions,
            },
        )
        .boxed()
}

fn task() -> BoxedStrategy<model::Task<'static>> {
    let ids = (any_text(), any_text());
    (ids, status(), vec(artifact(), 0..3), vec(message(), 0..3), metadata())
        .prop_map(|((id, context_id), status, artifacts, history, metadata)| model::Task {
            id,
            context_id,
            status,
            artifacts,
            history,
            metadata,
        })
        .boxed()
}

fn event() -> BoxedStrategy<Event<'static>> {
    let about = || (any_text(), any_text(), metadata());
    prop_oneof![
        task().prop_map(Event::Task),
        message().prop_map(Event::Message),
        (about(), status()).prop_map(|((task_id, context_id, metadata), status)| {
            Event::StatusUpdate(model::StatusUpdate {
                task_id,
                context_id,
                status,
                metadata,
            })
        }),
        (about(), artifact(), any::<[bool; 2]>()).prop_map(
            |((task_id, context_id, metadata), artifact, [append, last_chunk])| {
                Event::ArtifactUpdate(model::ArtifactUpdate {
                    task_id,
                    context_id,
                    artifact,
                    append,
                    last_chunk,
                    metadata,
                })
            }
        ),
    ]
    .boxed()
}

fn push() -> BoxedStrategy<model::PushConfig<'static>> {
    let authentication =
        (any_text(), any_text()).prop_map(|(scheme, credentials)| model::Authentication { scheme, credentials });
    let id_or_none = prop_oneof![id(), Just(Text::default())];
    (
        any_text(),
        id_or_none,
        id(),
        any_text(),
        any_text(),
        option::of(authentication),
    )
        .prop_map(|(tenant, id, task_id, url, token, authentication)| model::PushConfig {
            tenant,
            id,
            task_id,
            url,
            token,
            authentication,
        })
        .boxed()
}

fn send() -> BoxedStrategy<model::SendMessageRequest<'static>> {
    let configuration = (texts(), option::of(push()), option::of(any::<i32>()), any::<bool>()).prop_map(
        |(accepted_output_modes, task_push_notification_config, history_length, return_immediately)| {
            model::Configuration {
                accepted_output_modes,
                task_push_notification_config,
                history_length,
                return_immediately,
            }
        },
    );
    (any_text(), message(), option::of(configuration), metadata())
        .prop_map(|(tenant, message, configuration, metadata)| model::SendMessageRequest {
            tenant,
            message,
            configuration,
            metadata,
        })
        .boxed()
}

fn request() -> BoxedStrategy<(Operation, Request<'static>)> {
    let number = || option::of(any::<i32>());
    let name =
        || {
            (any_text(), id(), prop_oneof![id(), Just(Text::default())])
                .prop_map(|(tenant, task_id, id)| model::PushName { tenant, task_id, id })
        };
    let about = || {
        (any_text(), id(), metadata()).prop_map(|(tenant, id, metadata)| model::TaskRequest { tenant, id, metadata })
    };
    let get = (any_text(), id(), number()).prop_map(|(tenant, id, history_length)| model::GetTaskRequest {
        tenant,
        id,
        history_length,
    });
    let list_pushes = (any_text(), id(), number(), any_text()).prop_map(|(tenant, task_id, page_size, page_token)| {
        model::PushListRequest {
            tenant,
            task_id,
            page_size,
            page_token,
        }
    });
    let list = (
        (any_text(), any_text(), any_text()),
        state(),
        [number(), number()],
        time(),
        option::of(any::<bool>()),
    )
        .prop_map(
            |((tenant, context_id, page_token), status, [page_size, history_length], after, include_artifacts)| {
                model::ListTasksRequest {
                    tenant,
                    context_id,
                    status,
                    page_size,
                    page_token,
                    history_length,
                    status_timestamp_after: after,
                    include_artifacts,
                }
            },
        );
    prop_oneof![
        send().prop_map(|it| (Operation::Send, Request::Send(it))),
        send().prop_map(|it| (Operation::Stream, Request::Stream(it))),
        get.prop_map(|it| (Operation::Get, Request::Get(it))),
        list.prop_map(|it| (Operation::List, Request::List(it))),
        about().prop_map(|it| (Operation::Cancel, Request::Cancel(it))),
        about().prop_map(|mut it| {
            it.metadata = None;
            (Operation::Subscribe, Request::Subscribe(it))
        }),
        push().prop_map(|it| (Operation::PushCreate, Request::PushCreate(it))),
        name().prop_map(|it| (Operation::PushGet, Request::PushGet(it))),
        name().prop_map(|it| (Operation::PushDelete, Request::PushDelete(it))),
        list_pushes.prop_map(|it| (Operation::PushList, Request::PushList(it))),
        any_text().prop_map(|tenant| (Operation::ExtendedCard, Request::ExtendedCard { tenant })),
    ]
    .boxed()
}

fn response() -> BoxedStrategy<(Operation, Response<'static>)> {
    let page = (vec(task(), 0..3), any_text(), any::<[i32; 2]>()).prop_map(
        |(tasks, next_page_token, [page_size, total_size])| model::TaskPage {
            tasks,
            next_page_token,
            page_size,
            total_size,
        },
    );
    let pushes = (vec(push(), 0..3), any_text()).prop_map(|(configs, next_page_token)| model::PushPage {
        configs,
        next_page_token,
    });
    prop_oneof![
        event().prop_map(|it| {
            let sent = matches!(it, Event::Task(_) | Event::Message(_));
            let operation = if sent { Operation::Send } else { Operation::Stream };
            (operation, Response::Event(it))
        }),
        event().prop_map(|it| (Operation::Stream, Response::Event(it))),
        task().prop_map(|it| (Operation::Get, Response::Task(it))),
        page.prop_map(|it| (Operation::List, Response::Tasks(it))),
        push().prop_map(|it| (Operation::PushGet, Response::Push(it))),
        pushes.prop_map(|it| (Operation::PushList, Response::Pushes(it))),
        Just((Operation::PushDelete, Response::Nothing)),
    ]
    .boxed()
}

/// What is left of a request in the protobuf form of 0.3.
fn old_request(mut request: Request<'static>) -> Request<'static> {
    if !matches!(request, Request::List(_)) {
        *request.tenant_mut() = Text::default();
    }
    match &mut request {
        Request::Send(request) | Request::Stream(request) => {
            old_message(&mut request.message);
            let configuration = request.configuration.get_or_insert_default();
            unset_zero(&mut configuration.history_length);
            if let Some(push) = &mut configuration.task_push_notification_config {
                push.tenant = Text::default();
                push.task_id = Text::default();
            }
        }
        Request::Get(request) => unset_zero(&mut request.history_length),
        Request::Cancel(request) => request.metadata = None,
        Request::PushGet(name) | Request::PushDelete(name) => {
            if name.id.is_empty() {
                name.id = name.task_id.clone();
            }
        }
        Request::PushList(_)
        | Request::List(_)
        | Request::Subscribe(_)
        | Request::PushCreate(_)
        | Request::ExtendedCard { .. } => {}
    }
    request
}

fn unset_zero(number: &mut Option<i32>) {
    *number = number.filter(|number| *number != 0);
}

fn old_message(message: &mut model::Message<'_>) {
    message.reference_task_ids.clear();
    old_parts(&mut message.parts);
}

fn old_parts(parts: &mut [model::Part<'_>]) {
    for part in parts {
        if matches!(part.content, Content::Text(_) | Content::Data(_)) {
            part.filename = Text::default();
            part.media_type = Text::default();
        }
    }
}

fn old_task(task: &mut model::Task<'_>) {
    task.status.message.iter_mut().for_each(old_message);
    task.history.iter_mut().for_each(old_message);
    task.artifacts
        .iter_mut()
        .for_each(|artifact| old_parts(&mut artifact.parts));
}

fn old_response(mut response: Response<'static>) -> Response<'static> {
    match &mut response {
        Response::Event(Event::Task(task)) | Response::Task(task) => old_task(task),
        Response::Event(Event::Message(message)) => old_message(message),
        Response::Event(Event::StatusUpdate(update)) => update.status.message.iter_mut().for_each(old_message),
        Response::Event(Event::ArtifactUpdate(update)) => old_parts(&mut update.artifact.parts),
        Response::Push(config) => config.tenant = Text::default(),
        Response::Pushes(page) => page
            .configs
            .iter_mut()
            .for_each(|config| config.tenant = Text::default()),
        Response::Tasks(_) | Response::Nothing | Response::Card(_) => {}
    }
    response
}

/// The ids that a request has where a call is routed by them; empty is none.
fn ids_of(request: &Request<'_>) -> (String, String) {
    let (task, context) = match request {
        Request::Send(request) | Request::Stream(request) => {
            (request.message.task_id.as_str(), request.message.context_id.as_str())
        }
        Request::Get(request) => (request.id.as_str(), ""),
        Request::List(request) => ("", request.context_id.as_str()),
        Request::Cancel(request) | Request::Subscribe(request) => (request.id.as_str(), ""),
        Request::PushCreate(config) => (config.task_id.as_str(), ""),
        Request::PushGet(name) | Request::PushDelete(name) => (name.task_id.as_str(), ""),
        Request::PushList(request) => (request.task_id.as_str(), ""),
        Request::ExtendedCard { .. } => ("", ""),
    };
    (task.to_owned(), context.to_owned())
}

/// What an answer reveals, by its model.
fn revealed_of(response: &Response<'_>) -> Vec<(String, String, Option<TaskState>)> {
    let of_task = |task: &model::Task<'_>| {
        (
            task.id.as_str().to_owned(),
            task.context_id.as_str().to_owned(),
            Some(task.status.state),
        )
    };
    let of =
        |task: &Text<'_>, context: &Text<'_>, state| (task.as_str().to_owned(), context.as_str().to_owned(), state);
    match response {
        Response::Event(Event::Task(task)) | Response::Task(task) => vec![of_task(task)],
        Response::Event(Event::Message(message)) => vec![of(&message.task_id, &message.context_id, None)],
        Response::Event(Event::StatusUpdate(update)) => {
            vec![of(&update.task_id, &update.context_id, Some(update.status.state))]
        }
        Response::Event(Event::ArtifactUpdate(update)) => vec![of(&update.task_id, &update.context_id, None)],
        Response::Tasks(page) => page.tasks.iter().map(of_task).collect(),
        Response::Push(_) | Response::Pushes(_) | Response::Nothing | Response::Card(_) => Vec::new(),
    }
}

/// Reads the same from the bytes of a call as its reader does, whatever the bytes are.
fn same_call(generation: Generation, operation: Operation, bytes: &[u8]) {
    let (Some(method), Ok(request)) = (
        path(generation, operation).and_then(method),
        read_request(generation, operation, bytes),
    ) else {
        return;
    };
    let ids = ids_of(&request);
    match read_call(method, bytes) {
        Ok(call) => {
            let task = call.task.map(|id| id.to_string()).unwrap_or_default();
            let context = call.context.map(|id| id.to_string()).unwrap_or_default();
            assert_eq!((task, context), ids, "{generation} {operation:?} {bytes:02x?}");
        }
        Err(CallError::MissingTaskId) => assert_eq!(ids.0, ""),
        // A field of 1.0 that readers of 0.3 do not know.
        Err(CallError::Wire(_)) if generation == V0_3 => {
            assert!(matches!(operation, Operation::Send | Operation::Stream))
        }
        // Of two names the reader takes one.
        Err(error) => assert!(
            matches!(error, CallError::ConflictingNames | CallError::BadName),
            "{error:?}: {generation} {operation:?} {bytes:02x?}"
        ),
    }
}

fn same_answer(generation: Generation, operation: Operation, bytes: &[u8]) {
    let Ok(response) = read_response(generation, operation, bytes) else {
        return;
    };
    let answer = read_answer(bytes, generation, operation).unwrap();
    let revealed = answer.revealed.into_iter().map(|one| {
        let task = one.task.map(|id| id.to_string()).unwrap_or_default();
        // A status that is not there reads as one that says nothing.
        let state = one.state.filter(|state| *state != TaskState::Unknown);
        (task, one.context.map(|id| id.to_string()).unwrap_or_default(), state)
    });
    let expected = revealed_of(&response)
        .into_iter()
        .map(|(task, context, state)| (task, context, state.filter(|state| *state != TaskState::Unknown)));
    let something = |one: &(String, String, Option<TaskState>)| *one != (String::new(), String::new(), None);
    assert_eq!(
        revealed.filter(something).collect::<Vec<_>>(),
        expected.filter(something).collect::<Vec<_>>(),
        "{generation} {operation:?} {bytes:02x?}"
    );
}

proptest! {
    // Values are large, and built slowly.
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn requests_survive((operation, request) in request()) {
        let bytes = write_request(V1_0, request.clone()).unwrap();
        let mut expected = request.clone();
        if let Request::PushList(request) = &mut expected {
            unset_zero(&mut request.page_size);
        }
        prop_assert_eq!(read_request(V1_0, operation, &bytes), Ok(expected.clone()));
        same_call(V1_0, operation, &bytes);
        if operation == Operation::List {
            prop_assert_eq!(write_request(V0_3, request), Err(Error::Unsupported));
        } else {
            let bytes = write_request(V0_3, request).unwrap();
            prop_assert_eq!(read_request(V0_3, operation, &bytes), Ok(old_request(expected)));
            same_call(V0_3, operation, &bytes);
        }
    }

    #[test]
    fn responses_survive((operation, response) in response()) {
        let bytes = write_response(V1_0, operation, response.clone()).unwrap();
        prop_assert_eq!(read_response(V1_0, operation, &bytes), Ok(response.clone()));
        same_answer(V1_0, operation, &bytes);
        if operation == Operation::List {
            prop_assert_eq!(write_response(V0_3, operation, response), Err(Error::Unsupported));
        } else {
            let bytes = write_response(V0_3, operation, response.clone()).unwrap();
            prop_assert_eq!(read_response(V0_3, operation, &bytes), Ok(old_response(response)));
            same_answer(V0_3, operation, &bytes);
        }
    }

    /// Two messages one behind the other are one, merged: fields come twice, messages in pieces, variants in turn.
    #[test]
    fn merged_requests_are_read_as_their_reader_does(
        (operation, first) in request(),
        (_, second) in request(),
        noise in wire_like(),
    ) {
        for generation in Generation::SPOKEN {
            let all = [&first, &second].map(|one| write_request(generation, one.clone()).unwrap_or_default());
            for bytes in [all.concat(), [&*all[0], &noise].concat(), [&*noise, &all[0]].concat()] {
                same_call(generation, operation, &bytes);
            }
        }
    }

    #[test]
    fn merged_responses_are_read_as_their_reader_does(
        (operation, first) in response(),
        (_, second) in response(),
        noise in wire_like(),
    ) {
        for generation in Generation::SPOKEN {
            let all = [&first, &second].map(|one| write_response(generation, operation, one.clone()).unwrap_or_default());
            for bytes in [all.concat(), [&*all[0], &*all[1], &all[0]].concat(), [&*all[0], &noise].concat(), noise.clone()] {
                for operation in [operation, Operation::Send, Operation::Stream, Operation::Get] {
                    same_answer(generation, operation, &bytes);
                }
            }
        }
    }

    #[test]
    fn no_bytes_panic_a_reader(any in vec(any::<u8>(), 0..100), like in wire_like()) {
        for bytes in [any, like] {
            for generation in Generation::SPOKEN {
                for operation in Operation::ALL {
                    same_call(generation, operation, &bytes);
                    same_answer(generation, operation, &bytes);
                }
            }
        }
    }
}
