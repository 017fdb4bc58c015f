//! The gateway's own get: whether an endpoint knows a task.

use bytes::Bytes;

use super::method_name;
use crate::a2a::json::{self, Kind, Limits, Strict, write_text};
use crate::a2a::{Generation, Operation, RpcId, TaskId};

/// A get of a task in a generation, without its history. `tenant` is the caller's as it is written: agents scope tasks by it.
pub fn write_get(generation: Generation, id: &RpcId, task: &TaskId, tenant: Option<&str>) -> Bytes {
    // Every generation has it.
    let method = method_name(generation, Operation::Get).unwrap_or_default();
    let mut out = Vec::with_capacity(128 + id.0.len() + task.as_str().len() + tenant.map_or(0, str::len));
    out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    out.extend_from_slice(&id.0);
    out.extend_from_slice(format!(r#","method":"{method}","params":{{"id":"#).as_bytes());
    write_text(&mut out, task.as_str());
    out.extend_from_slice(br#","historyLength":0"#);
    if let Some(tenant) = tenant {
        out.extend_from_slice(br#","tenant":"#);
        out.extend_from_slice(tenant.as_bytes());
    }
    out.extend_from_slice(b"}}");
    Bytes::from(out)
}

/// `params.tenant` of a body that is a call, as it is written; not if it is null.
pub fn read_tenant(body: &[u8], limits: Limits) -> Result<Option<&str>, json::Error> {
    let mut cursor = Strict::new(body, limits)?;
    let mut tenant = None;
    cursor.object(|cursor, name| {
        if name != *"params" || cursor.kind() != Kind::Object {
            return cursor.skip();
        }
        cursor.object(|cursor, name| {
            if name == *"tenant" && cursor.kind() == Kind::Text {
                tenant = Some(cursor.raw()?);
                return Ok(());
            }
            cursor.skip()
        })
    })?;
    Ok(tenant)
}
