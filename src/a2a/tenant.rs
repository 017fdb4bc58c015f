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
    let kept = query.split('&').filter(|pair| pair.split('=').next() != Some("tenant"));
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
