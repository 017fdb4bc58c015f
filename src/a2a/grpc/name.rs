//! Resource names, by which 0.3 names tasks and push configurations: `tasks/{id}/pushNotificationConfigs/{id}`.

/// The task of a name, whatever follows it: clients of 0.2 write other words there. Names of anything else have none.
pub(super) fn task_of(name: &str) -> Option<&str> {
    let id = name.strip_prefix("tasks/")?.split('/').next()?;
    (!id.is_empty()).then_some(id)
}
