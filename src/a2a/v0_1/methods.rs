//! Method names of 0.1.

use crate::a2a::Operation;

/// Which names are taken for methods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Methods {
    /// Those of the specification.
    Strict,
    /// Also names by which clients are seen to send that no version has.
    Lenient,
}

/// The operation of a method; names are case-sensitive.
pub fn operation(method: &str, methods: Methods) -> Option<Operation> {
    Some(match (method, methods) {
        ("tasks/send", _) | ("sendTask", Methods::Lenient) => Operation::Send,
        ("tasks/sendSubscribe", _) | ("sendTaskSubscribe", Methods::Lenient) => Operation::Stream,
        ("tasks/get", _) => Operation::Get,
        ("tasks/cancel", _) => Operation::Cancel,
        ("tasks/resubscribe", _) => Operation::Subscribe,
        ("tasks/pushNotification/set", _) => Operation::PushCreate,
        ("tasks/pushNotification/get", _) => Operation::PushGet,
        _ => return None,
    })
}

/// The name says by itself that its caller speaks 0.1; 0.3 has the others too, with the same parameters, and whoever reads
/// one of them needs to know by the task which answer is meant.
pub fn is_only_0_1(method: &str) -> bool {
    operation(method, Methods::Lenient).is_some() && crate::a2a::jsonrpc::method(method).is_none()
}
