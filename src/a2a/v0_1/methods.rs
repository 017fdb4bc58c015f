//! Method names of 0.1.

use crate::a2a::Operation;
use crate::a2a::json::{self, Lenient, Value};

/// Which names are taken for methods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Methods {
    /// Those of the specification.
    Strict,
    /// Also names by which clients are seen to send that no version has.
    Lenient,
}

/// The name of a method that only 0.1 has, as the table spells it, and its operation; names are case-sensitive. Its other
/// methods (`tasks/get`, `tasks/cancel`, `tasks/resubscribe`) 0.3 has too, with the same parameters: whoever reads one of
/// those needs to know by the task which answer is meant.
pub fn only_0_1(name: &str, methods: Methods) -> Option<(&'static str, Operation)> {
    Some(match (name, methods) {
        ("tasks/send", _) => ("tasks/send", Operation::Send),
        ("tasks/sendSubscribe", _) => ("tasks/sendSubscribe", Operation::Stream),
        ("tasks/pushNotification/set", _) => ("tasks/pushNotification/set", Operation::PushCreate),
        ("tasks/pushNotification/get", _) => ("tasks/pushNotification/get", Operation::PushGet),
        ("sendTask", Methods::Lenient) => ("sendTask", Operation::Send),
        ("sendTaskSubscribe", Methods::Lenient) => ("sendTaskSubscribe", Operation::Stream),
        _ => return None,
    })
}

/// What an agent of 0.1 is called with; `None` where 0.1 has no such call.
pub fn method_name(operation: Operation) -> Option<&'static str> {
    Some(match operation {
        Operation::Send => "tasks/send",
        Operation::Stream => "tasks/sendSubscribe",
        Operation::Get => "tasks/get",
        Operation::Cancel => "tasks/cancel",
        Operation::Subscribe => "tasks/resubscribe",
        Operation::PushCreate => "tasks/pushNotification/set",
        Operation::PushGet => "tasks/pushNotification/get",
        Operation::List | Operation::PushList | Operation::PushDelete | Operation::ExtendedCard => return None,
    })
}

/// The body of a call as an agent of 0.1 reads it, where its caller used another name that is taken for the method's own.
pub fn respelled(body: &[u8], operation: Operation, limits: json::Limits) -> Option<Vec<u8>> {
    let own = method_name(operation)?;
    let mut place = None;
    let mut cursor = Lenient::new(body, limits).ok()?;
    let walked: Result<(), json::Error> = cursor.object(|cursor, name| {
        if name != *"method" {
            return cursor.leap();
        }
        let at = cursor.at();
        if let Value::Text(method) = cursor.value()? {
            place = (method != *own).then_some((at, cursor.at()));
        }
        Ok(())
    });
    walked.ok()?;
    let (start, end) = place?;
    Some([body.get(..start)?, b"\"", own.as_bytes(), b"\"", body.get(end..)?].concat())
}

/// The operation is called alike in 0.1 and in 0.3.
pub fn is_shared(operation: Operation) -> bool {
    matches!(operation, Operation::Get | Operation::Cancel | Operation::Subscribe)
}
