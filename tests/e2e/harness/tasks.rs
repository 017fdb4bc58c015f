//! Fake agents that have tasks: they make them, list them page by page, and know which are theirs.

use std::sync::{Arc, Mutex};

use serde_json::Value;

use super::agent::{Received, Reply};

/// The tasks of one agent, as the JSON that it writes, latest first.
#[derive(Clone, Default)]
pub struct Tasks(Arc<Mutex<Vec<String>>>);

impl Tasks {
    pub fn of(tasks: impl IntoIterator<Item = String>) -> Self {
        Self(Arc::new(Mutex::new(tasks.into_iter().collect())))
    }

    pub fn set(&self, tasks: Vec<String>) {
        *self.0.lock().unwrap() = tasks;
    }

    /// Lists at offsets that stand in cursors, which begin with `name`: one that it did not make is refused.
    pub fn script(&self, name: &'static str) -> impl Fn(&Received) -> Reply + Send + Sync + use<> {
        let tasks = self.0.clone();
        move |request| {
            let call = request.json();
            let mut tasks = tasks.lock().unwrap();
            match call["method"].as_str().unwrap_or_default() {
                "ListTasks" => page(name, &tasks, &call),
                "SendMessage" if call["params"]["message"]["taskId"].is_null() => {
                    let number = tasks.len();
                    let at = format!("2026-01-01T00:{:02}:{:02}Z", number / 60, number % 60);
                    let made = task(&format!("{name}{number}"), Some(&at));
                    let answered = answer(&call, &format!(r#"{{"task":{made}}}"#));
                    tasks.insert(0, made);
                    answered
                }
                _ => one(&tasks, &call),
            }
        }
    }
}

/// A task with this timestamp, and members that no version has.
pub fn task(id: &str, timestamp: Option<&str>) -> String {
    let timestamp = timestamp.map_or(String::new(), |text| format!(r#","timestamp":"{text}""#));
    format!(
        r#"{{ "id":"{id}","contextId":"ctx-{id}", "x-odd": 1.0e2,"status":{{"state":"TASK_STATE_WORKING"{timestamp}}}}}"#
    )
}

fn page(name: &str, tasks: &[String], call: &Value) -> Reply {
    let id = &call["id"];
    let size = usize::try_from(call["params"]["pageSize"].as_u64().unwrap_or(50)).unwrap();
    let prefix = format!("cursor-of-{name}-");
    let from = match call["params"]["pageToken"].as_str() {
        None => 0,
        Some(cursor) => match cursor.strip_prefix(&prefix).and_then(|rest| rest.parse().ok()) {
            Some(from) => from,
            None => return error(call, -32602, "a cursor of somebody else"),
        },
    };
    let to = tasks.len().min(from + size);
    let next = if to < tasks.len() {
        format!("{prefix}{to}")
    } else {
        String::new()
    };
    Reply::Json(format!(
        r#"{{"jsonrpc":"2.0","id":{id},"result":{{"tasks":[{}],"nextPageToken":"{next}","pageSize":{size},"totalSize":{}}}}}"#,
        tasks[from..to].join(" , "),
        tasks.len()
    ))
}

/// Whatever a call about one task asks, the task, if it is there.
fn one(tasks: &[String], call: &Value) -> Reply {
    let params = &call["params"];
    let named = [&params["taskId"], &params["message"]["taskId"], &params["id"]];
    let named = named.into_iter().find_map(Value::as_str).unwrap_or_default();
    let mine = tasks.iter().find(|task| task.contains(&format!(r#""id":"{named}""#)));
    match (mine, call["method"].as_str().unwrap_or_default()) {
        (None, _) => error(call, -32001, "Task not found"),
        (Some(task), "SendMessage") => answer(call, &format!(r#"{{"task":{task}}}"#)),
        (Some(task), _) => answer(call, task),
    }
}

fn answer(call: &Value, result: &str) -> Reply {
    Reply::Json(format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, call["id"]))
}

pub fn error(call: &Value, code: i64, message: &str) -> Reply {
    Reply::Json(format!(
        r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":{code},"message":"{message}"}}}}"#,
        call["id"]
    ))
}
