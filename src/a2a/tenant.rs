//! The tenant of a call (A2A 1.0 §4.4.6): what the caller wrote, and the same call with another one or none.
//!
//! In JSON every other member stays as it is written, but for the white space between members; in protobuf every other field does. Only calls
//! of 1.0 have one.

use bytes::Bytes;

use super::json::{self, Kind, Limits, Strict, write_text};
use super::{Addressed, grpc, http_json, jsonrpc};

/// Of a body that was read as a call; of gRPC the message. An empty one is none.
pub fn read(addressed: &Addressed, body: &[u8], limits: Limits) -> Option<Box<str>> {
    let tenant = match addressed {
        Addressed::JsonRpc => {
            let written = jsonrpc::read_tenant(body, limits).ok()??;
            serde_json::from_str::<Box<str>>(written).ok()?
        }
        Addressed::HttpJson(target) => target.tenant.clone()?,
        Addressed::Grpc(method) => Box::from(grpc::read_tenant(method, body)?),
    };
    Some(tenant).filter(|tenant| !tenant.is_empty())
}

/// The body with another tenant. Of HTTP+JSON the tenant stands in the path (`write_target`), and none in the body.
pub fn write(addressed: &Addressed, body: &Bytes, tenant: Option<&str>, limits: Limits) -> Result<Bytes, json::Error> {
    match addressed {
        Addressed::JsonRpc => {
            let mut cursor = Strict::new(body, limits)?;
            let mut params = None;
            cursor.object(|cursor, name| {
                let start = cursor.at();
                let value = cursor.raw()?;
                if name == *"params" && value.starts_with('{') {
                    params = Some((start, value));
                }
                Ok::<_, json::Error>(())
            })?;
            let Some((start, value)) = params else {
                return Ok(body.clone());
            };
            let written = member(value, tenant, limits)?;
            let mut out = Vec::with_capacity(body.len() + written.len());
            out.extend_from_slice(body.get(..start).unwrap_or_default());
            out.extend_from_slice(&written);
            out.extend_from_slice(body.get(start + value.len()..).unwrap_or_default());
            Ok(out.into())
        }
        Addressed::HttpJson(_) if body.is_empty() => Ok(body.clone()),
        Addressed::HttpJson(_) => {
            let text = std::str::from_utf8(body).unwrap_or("{}");
            Ok(member(text, None, limits)?.into())
        }
        Addressed::Grpc(method) => Ok(grpc::with_tenant(method, body, tenant).into()),
    }
}

/// A query without its tenant; `None` if nothing is left.
pub fn without_in_query(query: &str) -> Option<String> {
    let is_tenant = |pair: &&str| {
        let name = pair.split('=').next().unwrap_or_default();
        http_json::decode_form(name).is_some_and(|name| name == "tenant")
    };
    let kept = query.split('&').filter(|pair| !is_tenant(pair));
    let kept: Vec<&str> = kept.collect();
    (!kept.is_empty()).then(|| kept.join("&"))
}

/// An object with another `tenant`.
fn member(object: &str, tenant: Option<&str>, limits: Limits) -> Result<Vec<u8>, json::Error> {
    let mut cursor = Strict::new(object.as_bytes(), limits)?;
    let mut out = Vec::with_capacity(object.len() + tenant.map_or(0, str::len) + 16);
    if cursor.kind() != Kind::Object {
        return Ok(object.as_bytes().to_vec());
    }
    out.push(b'{');
    let mut begun = false;
    cursor.object(|cursor, name| {
        let value = cursor.raw()?;
        if name != *"tenant" {
            if begun {
                out.push(b',');
            }
            begun = true;
            out.push(b'"');
            out.extend_from_slice(name.raw());
            out.extend_from_slice(b"\":");
            out.extend_from_slice(value.as_bytes());
        }
        Ok::<_, json::Error>(())
    })?;
    if let Some(tenant) = tenant {
        if begun {
            out.push(b',');
        }
        out.extend_from_slice(br#""tenant":"#);
        write_text(&mut out, tenant);
    }
    out.push(b'}');
    Ok(out)
}

/// Of HTTP+JSON: the target and its path, as sent below the agent's base.
pub fn write_target(target: &http_json::Target, path: &str, tenant: Option<&str>) -> (http_json::Target, String) {
    let rest = match &target.tenant {
        Some(_) => path
            .get(1..)
            .and_then(|path| path.find('/'))
            .and_then(|at| path.get(at + 1..)),
        None => Some(path),
    };
    let rest = rest.unwrap_or_default();
    let path = match tenant {
        Some(tenant) => format!("/{}{rest}", http_json::encoded(tenant)),
        None => rest.to_owned(),
    };
    let target = http_json::Target {
        tenant: tenant.map(Box::from),
        ..target.clone()
    };
    (target, path)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::a2a::Generation;

    const LIMITS: Limits = Limits { depth: 32, digits: 20 };

    fn json_rpc(body: &str, tenant: Option<&str>) -> String {
        let written = write(&Addressed::JsonRpc, &Bytes::from(body.to_owned()), tenant, LIMITS).unwrap();
        String::from_utf8(written.to_vec()).unwrap()
    }

    #[test]
    fn of_json_rpc_the_parameter_is_exchanged() {
        let body = r#"{"id":1, "params": {"tenant":"a","x":[ 1.0 ],"\u0074enant2":{}} ,"method":"m"}"#;
        assert_eq!(read(&Addressed::JsonRpc, body.as_bytes(), LIMITS).as_deref(), Some("a"));
        let with = json_rpc(body, Some("b\"c"));
        assert_eq!(
            with,
            r#"{"id":1, "params": {"x":[ 1.0 ],"\u0074enant2":{},"tenant":"b\"c"} ,"method":"m"}"#
        );
        assert_eq!(
            json_rpc(&with, None),
            r#"{"id":1, "params": {"x":[ 1.0 ],"\u0074enant2":{}} ,"method":"m"}"#
        );
        // Written otherwise it is the same member.
        assert_eq!(json_rpc(r#"{"params":{"\u0074enant":"a"}}"#, None), r#"{"params":{}}"#);
        assert_eq!(json_rpc(r#"{"params":{}}"#, Some("b")), r#"{"params":{"tenant":"b"}}"#);
        assert_eq!(json_rpc(r#"{"id":1}"#, Some("b")), r#"{"id":1}"#);
        assert_eq!(read(&Addressed::JsonRpc, br#"{"params":{"tenant":""}}"#, LIMITS), None);
    }

    #[test]
    fn of_http_json_it_stands_in_the_path() {
        let target = |path| http_json::read_target("GET", path, &[Generation::V1_0]).unwrap();
        let (plain, named) = (target("/tasks/t"), target("/a%20b/tasks/t"));
        assert_eq!(named.tenant.as_deref(), Some("a b"));
        let (written, path) = write_target(&named, "/a%20b/tasks/t", None);
        assert_eq!((&written, path.as_str()), (&plain, "/tasks/t"));
        let (written, path) = write_target(&plain, "/tasks/t", Some("a b"));
        assert_eq!((&written, path.as_str()), (&named, "/a%20b/tasks/t"));
        let (_, path) = write_target(&named, "/a%20b/tasks/t", Some("c/d"));
        assert_eq!(path, "/c%2Fd/tasks/t");
        assert_eq!(without_in_query("a=1&tenant=x&b=2").as_deref(), Some("a=1&b=2"));
        assert_eq!(without_in_query("tenant=x"), None);
        assert_eq!(without_in_query("%74enant=x&b").as_deref(), Some("b"));
    }

    #[test]
    fn of_grpc_the_field_is_exchanged_and_the_others_stay() {
        let method = grpc::method("/lf.a2a.v1.A2AService/GetTask").unwrap();
        let addressed = Addressed::Grpc(method);
        // The id, a field that nobody knows, and the tenant twice, of which the last one holds.
        let message = Bytes::from_static(b"\x0a\x01a\x12\x01t\x98\x06\x07\x0a\x01b");
        assert_eq!(read(&addressed, &message, LIMITS).as_deref(), Some("b"));
        let written = write(&addressed, &message, Some("c"), LIMITS).unwrap();
        assert_eq!(&written[..], b"\x12\x01t\x98\x06\x07\x0a\x01c");
        let written = write(&addressed, &written, None, LIMITS).unwrap();
        assert_eq!(&written[..], b"\x12\x01t\x98\x06\x07");
        let long = "x".repeat(300);
        let written = write(&addressed, &message, Some(&long), LIMITS).unwrap();
        assert_eq!(read(&addressed, &written, LIMITS).as_deref(), Some(&*long));
        let list = Addressed::Grpc(grpc::method("/lf.a2a.v1.A2AService/ListTaskPushNotificationConfigs").unwrap());
        let written = write(&list, &Bytes::new(), Some("c"), LIMITS).unwrap();
        assert_eq!(&written[..], b"\x22\x01c");
        let old = Addressed::Grpc(grpc::method("/a2a.v1.A2AService/GetTask").unwrap());
        assert_eq!(write(&old, &message, Some("c"), LIMITS).unwrap(), message);
    }
}
