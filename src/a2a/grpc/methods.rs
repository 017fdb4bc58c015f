//! The methods of both services by their paths, and where each keeps the ids: the one table for requests.

use crate::a2a::Generation::{self, V0_3, V1_0};
use crate::a2a::Operation;

/// One method of one generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Method {
    pub generation: Generation,
    pub operation: Operation,
    pub name: &'static str,
    /// As in the request line.
    pub path: &'static str,
    pub(super) shape: Shape,
}

/// Where the ids stand in a request: numbers of fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// The message and the configuration, whose push configuration can name a task: not in 0.3, which has a secret at that
    /// number.
    Send {
        message: u32,
        configuration: u32,
        names_task: bool,
    },
    /// The task, which must be there.
    Id(u32),
    /// The task in a resource name, which must be there.
    Name(u32),
    /// The task in one or both of two resource names: a field, and field 1 of another.
    Names {
        parent: u32,
        config: u32,
    },
    /// A filter by context.
    Context(u32),
    Nothing,
}

use Operation::{Cancel, ExtendedCard, Get, List, PushCreate, PushDelete, PushGet, PushList, Send, Stream, Subscribe};
use Shape::{Context, Id, Name, Names, Nothing};

const SEND_0_3: Shape = Shape::Send {
    message: 1,
    configuration: 2,
    names_task: false,
};
const SEND_1_0: Shape = Shape::Send {
    message: 2,
    configuration: 3,
    names_task: true,
};
const CREATE_0_3: Shape = Names { parent: 1, config: 3 };

macro_rules! row {
    ($generation:ident, $operation:ident, $service:literal, $name:literal, $shape:expr) => {
        Method {
            generation: $generation,
            operation: $operation,
            name: $name,
            path: concat!("/", $service, "/", $name),
            shape: $shape,
        }
    };
}

#[rustfmt::skip]
const METHODS: [Method; 24] = [
    row!(V0_3, Send, "a2a.v1.A2AService", "SendMessage", SEND_0_3),
    row!(V0_3, Stream, "a2a.v1.A2AService", "SendStreamingMessage", SEND_0_3),
    row!(V0_3, Get, "a2a.v1.A2AService", "GetTask", Name(1)),
    row!(V0_3, Cancel, "a2a.v1.A2AService", "CancelTask", Name(1)),
    row!(V0_3, Subscribe, "a2a.v1.A2AService", "TaskSubscription", Name(1)),
    row!(V0_3, PushCreate, "a2a.v1.A2AService", "CreateTaskPushNotificationConfig", CREATE_0_3),
    row!(V0_3, PushGet, "a2a.v1.A2AService", "GetTaskPushNotificationConfig", Name(1)),
    row!(V0_3, PushList, "a2a.v1.A2AService", "ListTaskPushNotificationConfig", Name(1)),
    row!(V0_3, PushDelete, "a2a.v1.A2AService", "DeleteTaskPushNotificationConfig", Name(1)),
    row!(V0_3, ExtendedCard, "a2a.v1.A2AService", "GetAgentCard", Nothing),
    row!(V1_0, Send, "lf.a2a.v1.A2AService", "SendMessage", SEND_1_0),
    row!(V1_0, Stream, "lf.a2a.v1.A2AService", "SendStreamingMessage", SEND_1_0),
    row!(V1_0, Get, "lf.a2a.v1.A2AService", "GetTask", Id(2)),
    row!(V1_0, List, "lf.a2a.v1.A2AService", "ListTasks", Context(2)),
    row!(V1_0, Cancel, "lf.a2a.v1.A2AService", "CancelTask", Id(2)),
    row!(V1_0, Subscribe, "lf.a2a.v1.A2AService", "SubscribeToTask", Id(2)),
    row!(V1_0, PushCreate, "lf.a2a.v1.A2AService", "CreateTaskPushNotificationConfig", Id(3)),
    row!(V1_0, PushGet, "lf.a2a.v1.A2AService", "GetTaskPushNotificationConfig", Id(2)),
    row!(V1_0, PushList, "lf.a2a.v1.A2AService", "ListTaskPushNotificationConfigs", Id(1)),
    row!(V1_0, PushDelete, "lf.a2a.v1.A2AService", "DeleteTaskPushNotificationConfig", Id(2)),
    row!(V1_0, ExtendedCard, "lf.a2a.v1.A2AService", "GetExtendedAgentCard", Nothing),
    // The names of 0.2.2 to 0.2.4; what they take and answer is the same. Below the others, which `path` prefers.
    row!(V0_3, PushCreate, "a2a.v1.A2AService", "CreateTaskPushNotification", CREATE_0_3),
    row!(V0_3, PushGet, "a2a.v1.A2AService", "GetTaskPushNotification", Name(1)),
    row!(V0_3, PushList, "a2a.v1.A2AService", "ListTaskPushNotification", Name(1)),
];

/// The method of a request's path, in whichever generation has it; paths are case-sensitive and no two generations share one.
pub fn method(path: &str) -> Option<&'static Method> {
    METHODS.iter().find(|method| method.path == path)
}

/// Whose errors a caller reads who asks for something under this path, if there is no such method.
pub fn generation(path: &str) -> Generation {
    if path.starts_with("/a2a.v1.") { V0_3 } else { V1_0 }
}

/// The path of an operation; `None` where the generation does not have it (0.3 cannot list tasks).
pub fn path(generation: Generation, operation: Operation) -> Option<&'static str> {
    METHODS
        .iter()
        .find(|method| method.generation == generation && method.operation == operation)
        .map(|method| method.path)
}
