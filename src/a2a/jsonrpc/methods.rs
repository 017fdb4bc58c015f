//! Method names, and where each method keeps the ids: the one table for both directions.

use crate::a2a::Generation::{self, V0_1, V0_3, V1_0};
use crate::a2a::{Operation, v0_1};

/// One method of one generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Method {
    pub generation: Generation,
    pub operation: Operation,
    pub name: &'static str,
    pub(super) task: Place,
    pub(super) context: Place,
}

/// Where an id stands in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Nowhere,
    /// `params.id`, which must be there.
    ParamsId,
    /// `params.taskId`, which must be there.
    ParamsTaskId,
    /// `params.contextId`: a filter.
    ParamsContextId,
    /// `params.sessionId` (0.1).
    ParamsSessionId,
    /// `params.message.taskId` or `params.message.contextId`.
    Message,
}

use Place::{Message, Nowhere, ParamsContextId, ParamsId, ParamsSessionId, ParamsTaskId};

// In push get and delete `params.id` is the task in 0.3 and the push configuration in 1.0.
#[rustfmt::skip]
const METHODS: [Method; 21] = [
    row(V0_3, Operation::Send, "message/send", Message, Message),
    row(V0_3, Operation::Stream, "message/stream", Message, Message),
    row(V0_3, Operation::Get, "tasks/get", ParamsId, Nowhere),
    row(V0_3, Operation::Cancel, "tasks/cancel", ParamsId, Nowhere),
    row(V0_3, Operation::Subscribe, "tasks/resubscribe", ParamsId, Nowhere),
    row(V0_3, Operation::PushCreate, "tasks/pushNotificationConfig/set", ParamsTaskId, Nowhere),
    row(V0_3, Operation::PushGet, "tasks/pushNotificationConfig/get", ParamsId, Nowhere),
    row(V0_3, Operation::PushList, "tasks/pushNotificationConfig/list", ParamsId, Nowhere),
    row(V0_3, Operation::PushDelete, "tasks/pushNotificationConfig/delete", ParamsId, Nowhere),
    row(V0_3, Operation::ExtendedCard, "agent/getAuthenticatedExtendedCard", Nowhere, Nowhere),
    row(V1_0, Operation::Send, "SendMessage", Message, Message),
    row(V1_0, Operation::Stream, "SendStreamingMessage", Message, Message),
    row(V1_0, Operation::Get, "GetTask", ParamsId, Nowhere),
    row(V1_0, Operation::List, "ListTasks", Nowhere, ParamsContextId),
    row(V1_0, Operation::Cancel, "CancelTask", ParamsId, Nowhere),
    row(V1_0, Operation::Subscribe, "SubscribeToTask", ParamsId, Nowhere),
    row(V1_0, Operation::PushCreate, "CreateTaskPushNotificationConfig", ParamsTaskId, Nowhere),
    row(V1_0, Operation::PushGet, "GetTaskPushNotificationConfig", ParamsTaskId, Nowhere),
    row(V1_0, Operation::PushList, "ListTaskPushNotificationConfigs", ParamsTaskId, Nowhere),
    row(V1_0, Operation::PushDelete, "DeleteTaskPushNotificationConfig", ParamsTaskId, Nowhere),
    row(V1_0, Operation::ExtendedCard, "GetExtendedAgentCard", Nowhere, Nowhere),
];

const fn row(generation: Generation, operation: Operation, name: &'static str, task: Place, context: Place) -> Method {
    Method {
        generation,
        operation,
        name,
        task,
        context,
    }
}

/// The method of this name, in whichever generation has it; names are case-sensitive and no two generations share one.
pub fn method(name: &str) -> Option<&'static Method> {
    METHODS.iter().find(|method| method.name == name)
}

/// The method of this name that only 0.1 has: there every call names its task, as the caller calls it.
pub(super) fn method_of_0_1(name: &str, methods: v0_1::Methods) -> Option<Method> {
    let (name, operation) = v0_1::only_0_1(name, methods)?;
    let context = match operation {
        Operation::Send | Operation::Stream => ParamsSessionId,
        Operation::Get
        | Operation::List
        | Operation::Cancel
        | Operation::Subscribe
        | Operation::PushCreate
        | Operation::PushGet
        | Operation::PushList
        | Operation::PushDelete
        | Operation::ExtendedCard => Nowhere,
    };
    Some(row(V0_1, operation, name, ParamsId, context))
}

/// The name of an operation; `None` where the generation does not have it (0.3 cannot list tasks).
pub fn method_name(generation: Generation, operation: Operation) -> Option<&'static str> {
    match generation {
        V0_1 => v0_1::method_name(operation),
        V0_3 | V1_0 => METHODS
            .iter()
            .find(|method| method.generation == generation && method.operation == operation)
            .map(|method| method.name),
    }
}
