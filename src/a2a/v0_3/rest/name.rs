//! Resource names: `tasks/{id}` and `tasks/{id}/pushNotificationConfigs/{id}`, which carry the ids of 0.3's protobuf.

/// The ids of a resource name; empty where it has none. A name without a slash is an id of its own, kept in `config`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::a2a) struct ResourceName<'a> {
    pub(in crate::a2a) task: &'a str,
    pub(in crate::a2a) config: &'a str,
}

const CONFIGS: &str = "/pushNotificationConfigs";

impl<'a> ResourceName<'a> {
    pub(in crate::a2a) fn read(name: &'a str) -> Self {
        // Singular where a transcoder follows the annotation in the protobuf.
        let Some(rest) = name.strip_prefix("tasks/").or(name.strip_prefix("task/")) else {
            return Self { task: "", config: name };
        };
        let (task, config) = match rest.rsplit_once(CONFIGS) {
            Some((task, config)) => match config.strip_prefix('/') {
                Some(config) => (task, config),
                None if config.is_empty() => (task, ""),
                None => (rest, ""),
            },
            None => (rest, ""),
        };
        Self { task, config }
    }
}

pub(super) fn of_task(task: &str) -> String {
    format!("tasks/{task}")
}

/// A configuration without an id keeps the slash, as agents in Python write it.
pub(super) fn of_config(task: &str, config: &str) -> String {
    format!("tasks/{task}{CONFIGS}/{config}")
}
