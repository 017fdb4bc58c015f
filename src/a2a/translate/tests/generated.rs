//! Generated calls and answers, each in both forms, turned into each other: what is not in `LOSSES.md` survives.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use serde_json::Map;

use super::*;

/// The same thing in 0.3 and in 1.0.
pub(in crate::a2a) type Both = (Value, Value);

pub(in crate::a2a) fn text() -> impl Strategy<Value = String> {
    prop_oneof![".{1,8}", "[\"\\\\\u{7f}\u{0}\n\u{1F600}é/]{1,6}"]
}

/// Free-form JSON, with numbers that a float does not hold.
pub(in crate::a2a) fn free() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        // Which every reader takes for the same.
        any::<i32>().prop_map(|quarters| Value::from(f64::from(quarters) / 4.0)),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![vec(inner.clone(), 0..4).prop_map(Value::from), object_of(inner),]
    })
}

fn object_of(value: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    vec((text(), value), 0..4).prop_map(|members| Value::Object(members.into_iter().collect()))
}

pub(in crate::a2a) fn object() -> impl Strategy<Value = Value> {
    object_of(free())
}

/// Adds what there is under one name to both.
pub(in crate::a2a) fn put(both: &mut Both, name: &str, value: Option<impl Into<Value>>) {
    if let Some(value) = value {
        let value = value.into();
        both.0[name] = value.clone();
        both.1[name] = value;
    }
}

pub(in crate::a2a) fn put_all(both: &mut Both, name: &str, all: Vec<Both>) {
    let (old, new): (Vec<_>, Vec<_>) = all.into_iter().unzip();
    both.0[name] = old.into();
    both.1[name] = new.into();
}

fn part() -> impl Strategy<Value = Both> {
    let file = || (option::of(text()), option::of(text()));
    let content = prop_oneof![
        text().prop_map(|text| (json!({"kind": "text", "text": text}), json!({"text": text}))),
        object().prop_map(|data| (json!({"kind": "data", "data": data}), json!({"data": data}))),
        (vec(any::<u8>(), 0..9), file()).prop_map(|(bytes, (name, kind))| {
            use base64::Engine as _;
            file_part(
                "bytes",
                "raw",
                base64::engine::general_purpose::STANDARD.encode(bytes),
                name,
                kind,
            )
        }),
        (text(), file()).prop_map(|(uri, (name, kind))| file_part("uri", "url", uri, name, kind)),
    ];
    (content, option::of(object())).prop_map(|(mut part, metadata)| {
        put(&mut part, "metadata", metadata);
        part
    })
}

fn file_part(old: &str, new: &str, value: String, name: Option<String>, kind: Option<String>) -> Both {
    let mut file = Map::new();
    let mut part = Map::new();
    file.insert(old.to_owned(), value.clone().into());
    part.insert(new.to_owned(), value.into());
    for (old, new, value) in [("name", "filename", name), ("mimeType", "mediaType", kind)] {
        if let Some(value) = value {
            file.insert(old.to_owned(), value.clone().into());
            part.insert(new.to_owned(), value.into());
        }
    }
    (json!({"kind": "file", "file": file}), part.into())
}

fn message() -> impl Strategy<Value = Both> {
    let ids = (
        option::of(text()),
        option::of(text()),
        vec(text(), 0..3),
        vec(text(), 0..3),
    );
    (text(), any::<bool>(), ids, vec(part(), 0..4), option::of(object())).prop_map(
        |(id, user, (context, task, extensions, references), parts, metadata)| {
            let roles = if user {
                ("user", "ROLE_USER")
            } else {
                ("agent", "ROLE_AGENT")
            };
            let mut both = (
                json!({"kind": "message", "messageId": id, "role": roles.0}),
                json!({"messageId": id, "role": roles.1}),
            );
            put(&mut both, "contextId", context);
            put(&mut both, "taskId", task);
            put(&mut both, "extensions", Some(extensions).filter(|it| !it.is_empty()));
            put(
                &mut both,
                "referenceTaskIds",
                Some(references).filter(|it| !it.is_empty()),
            );
            put(&mut both, "metadata", metadata);
            put_all(&mut both, "parts", parts);
            both
        },
    )
}

/// RFC 3339 in UTC.
pub(in crate::a2a) fn time() -> impl Strategy<Value = String> {
    (0_i64..4_000_000_000, 0_u64..1_000_000_000).prop_map(|(seconds, nanos)| {
        let fraction = nanos * 1_000_000_000;
        crate::a2a::listing::Stamp { seconds, fraction }.to_string()
    })
}

fn status() -> impl Strategy<Value = Both> {
    let states = [
        TaskState::Submitted,
        TaskState::Working,
        TaskState::InputRequired,
        TaskState::AuthRequired,
        TaskState::Completed,
        TaskState::Failed,
        TaskState::Canceled,
        TaskState::Rejected,
    ];
    (
        proptest::sample::select(states.to_vec()),
        option::of(message()),
        option::of(time()),
    )
        .prop_map(|(state, message, time)| {
            let mut both = (json!({"state": state.name(V0_3)}), json!({"state": state.name(V1_0)}));
            put(&mut both, "timestamp", time);
            if let Some((old, new)) = message {
                both.0["message"] = old;
                both.1["message"] = new;
            }
            both
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
    (
        text(),
        text(),
        status(),
        vec(artifact(), 0..3),
        vec(message(), 0..3),
        option::of(object()),
    )
        .prop_map(|(id, context, status, artifacts, history, metadata)| {
            let mut both = (
                json!({"kind": "task", "id": id, "contextId": context, "status": status.0}),
                json!({"id": id, "contextId": context, "status": status.1}),
            );
            if !artifacts.is_empty() {
                put_all(&mut both, "artifacts", artifacts);
            }
            if !history.is_empty() {
                put_all(&mut both, "history", history);
            }
            put(&mut both, "metadata", metadata);
            both
        })
}

fn stream_event() -> impl Strategy<Value = Both> {
    let about = || (text(), text(), option::of(object()));
    prop_oneof![
        task().prop_map(|(old, new)| (old, json!({"task": new}))),
        message().prop_map(|(old, new)| (old, json!({"message": new}))),
        (about(), status()).prop_map(|((task, context, metadata), status)| {
            let state = TaskState::from_name(status.0["state"].as_str().unwrap());
            let last = state.is_terminal() || state == TaskState::InputRequired;
            let mut both = (
                json!({"kind": "status-update", "taskId": task, "contextId": context, "status": status.0, "final": last}),
                json!({"taskId": task, "contextId": context, "status": status.1}),
            );
            put(&mut both, "metadata", metadata);
            (both.0, json!({"statusUpdate": both.1}))
        }),
        (about(), artifact(), any::<[bool; 2]>()).prop_map(|((task, context, metadata), artifact, [append, last])| {
            let mut both = (
                json!({"kind": "artifact-update", "taskId": task, "contextId": context, "artifact": artifact.0}),
                json!({"taskId": task, "contextId": context, "artifact": artifact.1}),
            );
            put(&mut both, "append", append.then_some(true));
            put(&mut both, "lastChunk", last.then_some(true));
            put(&mut both, "metadata", metadata);
            (both.0, json!({"artifactUpdate": both.1}))
        }),
    ]
}

fn send() -> impl Strategy<Value = Both> {
    let configuration = (vec(text(), 0..3), option::of(any::<i32>()), any::<bool>());
    (message(), option::of(configuration), option::of(object())).prop_map(|(message, configuration, metadata)| {
        let mut both = (json!({"message": message.0}), json!({"message": message.1}));
        if let Some((modes, history, returns)) = configuration {
            let mut inner = (json!({}), json!({}));
            put(
                &mut inner,
                "acceptedOutputModes",
                Some(modes).filter(|it| !it.is_empty()),
            );
            put(&mut inner, "historyLength", history);
            inner.0["blocking"] = json!(!returns);
            if returns {
                inner.1["returnImmediately"] = json!(true);
            }
            both.0["configuration"] = inner.0;
            both.1["configuration"] = inner.1;
        }
        put(&mut both, "metadata", metadata);
        both
    })
}

proptest! {
    #[test]
    fn sends_survive(both in send()) {
        prop_assert_eq!(params(V0_3, Operation::Send, &both.0), Ok(both.1.clone()));
        prop_assert_eq!(params(V1_0, Operation::Send, &both.1), Ok(both.0));
    }

    #[test]
    fn tasks_survive(both in task()) {
        prop_assert_eq!(result(V1_0, Operation::Get, &both.0), Ok(both.1.clone()));
        prop_assert_eq!(result(V0_3, Operation::Get, &both.1), Ok(both.0));
    }

    #[test]
    fn events_survive(both in stream_event()) {
        prop_assert_eq!(result(V1_0, Operation::Stream, &both.0), Ok(both.1.clone()));
        prop_assert_eq!(result(V0_3, Operation::Stream, &both.1), Ok(both.0));
    }

    #[test]
    fn nothing_panics(body in vec(any::<u8>(), 0..200), value in free()) {
        let id = RpcId(Bytes::from_static(b"1"));
        let all = [body, value.to_string().into_bytes(), json!({"params": value, "result": value}).to_string().into_bytes()];
        for body in &all {
            for caller in Generation::SPOKEN {
                for operation in Operation::ALL {
                    let _read = pair(caller).request(&call(caller, operation), written(body), None);
                    let _read = pair(caller).answer(operation, &id, Told::whole(200, body), &[], None);
                }
                let _read = pair(caller).task_event(&id, body, &[]);
            }
        }
    }
}
