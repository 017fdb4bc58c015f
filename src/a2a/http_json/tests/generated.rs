//! Generated requests, answers and bytes: what 0.3 has members for survives both forms, and nothing panics.

use bytes::Bytes;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::a2a::TaskState;
use crate::a2a::json::Limits;
use crate::a2a::model::wire::Text;
use crate::a2a::model::{self, PushConfig, PushListRequest, PushName, TaskRequest};
use crate::a2a::translate::tests::generated::{Both, free, object, put, put_all, text, time};

/// Text that a path can carry as an id in any place: it neither ends like a call nor loses a slash to routers that merge them.
fn id() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z0-9-]{1,8}", "[a-z][a-z:%?/#&+ é\u{1F600}]{0,5}[a-z0-9]"]
        .prop_filter("no other call", |id| !id.ends_with("cancel") && !id.contains("//"))
}

fn part() -> impl Strategy<Value = Both> {
    let file = |name: &str, part: &str, value: String, kind: Option<String>| {
        let mut both = (json!({ name: value }), json!({ part: value }));
        if let Some(kind) = kind {
            both.0["mimeType"] = json!(kind);
            both.1["mediaType"] = json!(kind);
        }
        (json!({ "file": both.0 }), both.1)
    };
    prop_oneof![
        text().prop_map(|text| (json!({"text": text}), json!({"text": text}))),
        object().prop_map(|data| (json!({"data": {"data": data}}), json!({"data": data}))),
        (vec(any::<u8>(), 0..9), option::of(text())).prop_map(move |(bytes, kind)| {
            use base64::Engine as _;
            let bytes = base64::engine::general_purpose::STANDARD.encode(bytes);
            file("fileWithBytes", "raw", bytes, kind)
        }),
        (text(), option::of(text())).prop_map(move |(uri, kind)| file("fileWithUri", "url", uri, kind)),
    ]
}

fn message() -> impl Strategy<Value = Both> {
    let ids = (option::of(text()), option::of(text()), vec(text(), 0..3));
    let role = select(vec!["ROLE_USER", "ROLE_AGENT"]);
    (text(), role, ids, vec(part(), 0..4), option::of(object())).prop_map(
        |(id, role, (context, task, extensions), parts, metadata)| {
            let one = json!({"messageId": id, "role": role});
            let mut both = (one.clone(), one);
            put(&mut both, "contextId", context);
            put(&mut both, "taskId", task);
            put(&mut both, "extensions", Some(extensions).filter(|it| !it.is_empty()));
            put(&mut both, "metadata", metadata);
            let (old, new): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
            both.0["content"] = old.into();
            both.1["parts"] = new.into();
            both
        },
    )
}

fn status() -> impl Strategy<Value = (Both, bool)> {
    let states = vec![
        ("TASK_STATE_SUBMITTED", "TASK_STATE_SUBMITTED", false),
        ("TASK_STATE_WORKING", "TASK_STATE_WORKING", false),
        ("TASK_STATE_INPUT_REQUIRED", "TASK_STATE_INPUT_REQUIRED", true),
        ("TASK_STATE_AUTH_REQUIRED", "TASK_STATE_AUTH_REQUIRED", false),
        ("TASK_STATE_COMPLETED", "TASK_STATE_COMPLETED", true),
        ("TASK_STATE_FAILED", "TASK_STATE_FAILED", true),
        ("TASK_STATE_CANCELLED", "TASK_STATE_CANCELED", true),
        ("TASK_STATE_REJECTED", "TASK_STATE_REJECTED", true),
    ];
    (select(states), option::of(message()), option::of(time())).prop_map(|((old, new, last), message, time)| {
        let mut both = (json!({"state": old}), json!({"state": new}));
        put(&mut both, "timestamp", time);
        if let Some((old, new)) = message {
            both.0["message"] = old;
            both.1["message"] = new;
        }
        (both, last)
    })
}

fn artifact() -> impl Strategy<Value = Both> {
    let named = (text(), option::of(text()), option::of(text()), vec(text(), 0..3));
    (named, vec(part(), 0..4), option::of(object())).prop_map(
        |((id, name, description, extensions), parts, metadata)| {
            let mut both = (json!({"artifactId": id}), json!({"artifactId": id}));
            put(&mut both, "name", name);
            put(&mut both, "description", description);
            put(&mut both, "extensions", Some(extensions).filter(|it| !it.is_empty()));
            put(&mut both, "metadata", metadata);
            put_all(&mut both, "parts", parts);
            both
        },
    )
}

fn task() -> impl Strategy<Value = Both> {
    let lists = (vec(artifact(), 0..3), vec(message(), 0..3));
    (text(), text(), status(), lists, option::of(object())).prop_map(
        |(id, context, (status, _), (artifacts, history), metadata)| {
            let mut both = (
                json!({"id": id, "contextId": context, "status": status.0}),
                json!({"id": id, "contextId": context, "status": status.1}),
            );
            for (name, all) in [("artifacts", artifacts), ("history", history)] {
                if !all.is_empty() {
                    put_all(&mut both, name, all);
                }
            }
            put(&mut both, "metadata", metadata);
            both
        },
    )
}

fn stream_event() -> impl Strategy<Value = Both> {
    let about = || (text(), text(), option::of(object()));
    let wrap = |name: &str, both: Both| (json!({ name: both.0 }), json!({ name: both.1 }));
    prop_oneof![
        task().prop_map(move |both| wrap("task", both)),
        message().prop_map(move |both| wrap("message", both)),
        (about(), status()).prop_map(move |((task, context, metadata), (status, last))| {
            let mut both = (
                json!({"taskId": task, "contextId": context, "status": status.0}),
                json!({"taskId": task, "contextId": context, "status": status.1}),
            );
            if last {
                both.0["final"] = json!(true);
            }
            put(&mut both, "metadata", metadata);
            wrap("statusUpdate", both)
        }),
        (about(), artifact(), any::<[bool; 2]>()).prop_map(
            move |((task, context, metadata), artifact, [append, last])| {
                let mut both = (
                    json!({"taskId": task, "contextId": context, "artifact": artifact.0}),
                    json!({"taskId": task, "contextId": context, "artifact": artifact.1}),
                );
                put(&mut both, "append", append.then_some(true));
                put(&mut both, "lastChunk", last.then_some(true));
                put(&mut both, "metadata", metadata);
                wrap("artifactUpdate", both)
            }
        ),
    ]
}

/// A push configuration of a task.
fn push() -> impl Strategy<Value = Both> {
    let authentication = (text(), option::of(text()));
    (id(), id(), text(), option::of(text()), option::of(authentication)).prop_map(
        |(task, id, url, token, authentication)| {
            let mut both = (
                json!({"id": id, "url": url}),
                json!({"taskId": task, "id": id, "url": url}),
            );
            put(&mut both, "token", token);
            if let Some((scheme, credentials)) = authentication {
                let mut inner = (json!({"schemes": [scheme]}), json!({ "scheme": scheme }));
                put(&mut inner, "credentials", credentials);
                both.0["authentication"] = inner.0;
                both.1["authentication"] = inner.1;
            }
            let name = format!("tasks/{task}/pushNotificationConfigs/{id}");
            (json!({"name": name, "pushNotificationConfig": both.0}), both.1)
        },
    )
}

fn send() -> impl Strategy<Value = Both> {
    // Zero is no length of a history in 0.3.
    let length = any::<i32>().prop_filter("no zero", |length| *length != 0);
    let configuration = (vec(text(), 0..3), option::of(length), any::<bool>());
    // A message without parts is refused in 0.3: it is what is left of a body in another form.
    let message = message().prop_filter("no parts", |message| message.1["parts"] != json!([]));
    (message, configuration, option::of(object())).prop_map(|(message, (modes, history, returns), metadata)| {
        let mut both = (json!({"message": message.0}), json!({"message": message.1}));
        let mut inner = (json!({}), json!({}));
        put(
            &mut inner,
            "acceptedOutputModes",
            Some(modes).filter(|it| !it.is_empty()),
        );
        put(&mut inner, "historyLength", history);
        if returns {
            inner.1["returnImmediately"] = json!(true);
        } else {
            inner.0["blocking"] = json!(true);
        }
        both.0["configuration"] = inner.0;
        // Whoever asks for nothing need not say so.
        if inner.1 != json!({}) {
            both.1["configuration"] = inner.1;
        }
        put(&mut both, "metadata", metadata);
        both
    })
}

/// An answer in both forms, read and written as each other.
fn survives(operation: Operation, both: &Both) {
    for (from, old, to, new) in [(V0_3, &both.0, V1_0, &both.1), (V1_0, &both.1, V0_3, &both.0)] {
        for (to, expected) in [(to, new), (from, old)] {
            let body = old.to_string();
            let read = read_response(from, operation, body.as_bytes()).unwrap();
            assert_eq!(written(to, read).as_ref(), Ok(expected));
        }
    }
}

/// A request, written and read again as what it was, and routed by what it is about.
fn returns(generation: Generation, request: &Request<'_>, task: Option<&str>) {
    let written = write_request(generation, request.clone()).unwrap();
    let target = read_target(written.verb.as_str(), &written.path, &[generation]).unwrap();
    assert_eq!(target.generation, generation);
    let query = written.query.as_deref();
    let call = read_call(&target, query, &Bytes::from(written.body.clone()), Limits::default()).unwrap();
    assert_eq!(call.task.as_ref().map(|task| task.as_str()), task);
    assert_eq!(&read_request(&target, query, &written.body).unwrap(), request);
}

proptest! {
    #[test]
    fn tasks_survive(both in task()) {
        survives(Operation::Get, &both);
    }

    #[test]
    fn events_survive(both in stream_event()) {
        survives(Operation::Stream, &both);
    }

    #[test]
    fn push_configurations_survive(both in push(), more in push(), token in option::of(text())) {
        survives(Operation::PushGet, &both);
        let mut page = (json!({}), json!({"nextPageToken": ""}));
        put_all(&mut page, "configs", vec![both, more]);
        put(&mut page, "nextPageToken", token);
        survives(Operation::PushList, &page);
    }

    #[test]
    fn sends_survive(both in send(), tenant in option::of(id()), stream in any::<bool>()) {
        let new = both.1.to_string();
        let mut request: model::SendMessageRequest<'_> = serde_json::from_str(&new).unwrap();
        // In 0.3 that is how a body of something else reads.
        prop_assume!(!request.message.parts.is_empty());
        let task = request.message.task_id.clone();
        let task = Some(task.as_str()).filter(|task| !task.is_empty());
        let wrap = |request| if stream { Request::Stream(request) } else { Request::Send(request) };
        let written = write_request(V0_3, wrap(request.clone())).unwrap();
        prop_assert_eq!(sent(&written).3, both.0);
        returns(V0_3, &wrap(request.clone()), task);
        request.tenant = tenant.unwrap_or_default().into();
        returns(V1_0, &wrap(request), task);
    }

    #[test]
    fn calls_about_tasks_survive(
        tenant in option::of(id()), task in id(), config in id(), length in option::of(1_i32..), token in text(),
    ) {
        for generation in Generation::SPOKEN {
            let tenant = || match (generation, &tenant) {
                (V1_0, Some(tenant)) => Text::from(tenant.as_str()),
                (Generation::V0_1 | V0_3 | V1_0, _) => Text::default(),
            };
            let id = || Text::from(task.as_str());
            let about = || TaskRequest { tenant: tenant(), id: id(), metadata: None };
            let name = || PushName { tenant: tenant(), task_id: id(), id: Text::from(config.as_str()) };
            // A slash in an id makes the names of resources in 0.3 ambiguous.
            let is_named = generation == V1_0 || !task.contains('/') && !config.contains('/');
            let get = model::GetTaskRequest { tenant: tenant(), id: id(), history_length: length };
            returns(generation, &Request::Get(get), Some(&task));
            returns(generation, &Request::Subscribe(about()), Some(&task));
            returns(generation, &Request::PushGet(name()), Some(&task));
            returns(generation, &Request::PushDelete(name()), Some(&task));
            let pushes = PushListRequest {
                tenant: tenant(),
                task_id: id(),
                page_size: length,
                page_token: Text::from(token.as_str()),
            };
            returns(generation, &Request::PushList(pushes), Some(&task));
            returns(generation, &Request::ExtendedCard { tenant: tenant() }, None);
            if is_named {
                returns(generation, &Request::Cancel(about()), Some(&task));
                let create = PushConfig {
                    tenant: tenant(),
                    task_id: id(),
                    id: Text::from(config.as_str()),
                    url: Text::from(token.as_str()),
                    ..PushConfig::default()
                };
                returns(generation, &Request::PushCreate(create), Some(&task));
            }
        }
    }

    #[test]
    fn lists_survive(
        tenant in option::of(id()), (context, token, after) in (option::of(text()), option::of(text()), option::of(time())),
        state in select(vec![TaskState::Unknown, TaskState::Working, TaskState::Canceled]),
        (size, length) in any::<(Option<i32>, Option<i32>)>(), artifacts in any::<Option<bool>>(),
    ) {
        let list = model::ListTasksRequest {
            tenant: tenant.unwrap_or_default().into(),
            context_id: context.unwrap_or_default().into(),
            status: state,
            page_size: size,
            page_token: token.unwrap_or_default().into(),
            history_length: length,
            status_timestamp_after: after.unwrap_or_default().into(),
            include_artifacts: artifacts,
        };
        returns(V1_0, &Request::List(list), None);
    }

    /// Whatever is written reads as itself, or nothing is written.
    #[test]
    fn no_id_makes_another_call(
        tenant in "[a-z/:.%]{0,12}", task in "(tasks|v1|cancel|[a-z:/.%]){0,3}", config in "[a-z/:.%]{0,5}",
        which in 0..4_u8,
    ) {
        let (tenant, task, id) = (Text::from(tenant), Text::from(task), Text::from(config));
        let request = match which {
            0 => Request::Get(model::GetTaskRequest { tenant, id: task, history_length: None }),
            1 => Request::Cancel(TaskRequest { tenant, id: task, metadata: None }),
            2 => Request::PushList(PushListRequest { tenant, task_id: task, ..PushListRequest::default() }),
            _ => Request::PushDelete(PushName { tenant, task_id: task, id }),
        };
        if let Ok(written) = write_request(V1_0, request.clone()) {
            let target = read_target(written.verb.as_str(), &written.path, &[V1_0]).unwrap();
            prop_assert_eq!(read_request(&target, None, &written.body), Ok(request));
        }
    }

    #[test]
    fn nothing_panics(
        path in "(/|tasks|v1|:cancel|pushNotificationConfigs|%2F|%|\\.|[a-z]|.){0,12}", query in ".{0,40}",
        bytes in vec(any::<u8>(), 0..200), value in free(), status in any::<u16>(),
    ) {
        let inner = value.clone();
        let bodies = [
            bytes,
            value.to_string().into_bytes(),
            json!({"message": inner, "task": inner, "config": inner, "error": inner, "name": inner, "statusUpdate": inner})
                .to_string()
                .into_bytes(),
        ];
        let lines = ["/message:send", "/tasks/t:cancel", "/tasks/t/pushNotificationConfigs"];
        let paths = lines.iter().flat_map(|line| [(*line).to_owned(), format!("/v1{line}")]);
        for path in paths.chain([path.clone(), format!("/{path}")]) {
            for method in Verb::ALL {
                let Ok(target) = read_target(method.as_str(), &path, &Generation::SPOKEN) else { continue };
                for body in &bodies {
                    let _read = read_call(&target, Some(&query), &Bytes::from(body.clone()), Limits::default());
                    if let Ok(request) = read_request(&target, Some(&query), body) {
                        for generation in Generation::SPOKEN {
                            let _written = write_request(generation, request.clone());
                        }
                    }
                }
            }
        }
        for body in &bodies {
            for generation in Generation::SPOKEN {
                for operation in Operation::ALL {
                    for is_error in [false, true] {
                        let _read = read_answer(body, is_error, generation, operation, Limits::default());
                    }
                    if let Ok(response) = read_response(generation, operation, body) {
                        for generation in Generation::SPOKEN {
                            let mut out = Vec::new();
                            let _written = write_response(generation, response.clone(), &mut out);
                        }
                    }
                }
                let mut out = Vec::new();
                let fault = read_fault(status, body);
                prop_assert!((400..600).contains(&write_fault(generation, &fault, &mut out)));
                prop_assert!(serde_json::from_slice::<Value>(&out).is_ok());
            }
        }
    }
}
