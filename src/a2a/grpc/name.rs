//! Resource names, by which 0.3 names tasks and push configurations: `tasks/{id}/pushNotificationConfigs/{id}`.

/// The task of a name, whatever follows it: clients of 0.2 write other words there. Names of anything else have none.
pub(super) fn task_of(name: &str) -> Option<&str> {
    let id = name.strip_prefix("tasks/")?.split('/').next()?;
    (!id.is_empty()).then_some(id)
}

/// The push configuration of a name, if it says one.
pub(super) fn config_of(name: &str) -> Option<&str> {
    name.split('/').nth(3).filter(|id| !id.is_empty())
}

/// `None` for an id that would end within the name.
pub(super) fn of_task(task: &str) -> Option<String> {
    is_segment(task).then(|| format!("tasks/{task}"))
}

/// A configuration without an id of its own has that of its task, in the official servers of both generations.
pub(super) fn of_config(task: &str, config: &str) -> Option<String> {
    let config = if config.is_empty() { task } else { config };
    (is_segment(task) && is_segment(config)).then(|| format!("tasks/{task}/pushNotificationConfigs/{config}"))
}

fn is_segment(id: &str) -> bool {
    !id.is_empty() && !id.contains('/')
}
