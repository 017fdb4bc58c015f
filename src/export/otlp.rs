//! Lines of the trail as log records of OpenTelemetry (OTLP 1, `ExportLogsServiceRequest` in its JSON form).
//!
//! The body of a record is the line as it stands in the file, to the byte, so that the chain can be verified where it is collected. Each
//! member of the line is an attribute as well, `audit.` before its name.

use serde_json::{Map, Value, json};

const INFO: u32 = 9;
const WARN: u32 = 13;

pub(super) fn request<L: AsRef<str>>(lines: &[L]) -> Value {
    let records: Vec<Value> = lines.iter().map(|line| record(line.as_ref())).collect();
    json!({
        "resourceLogs": [{
            "resource": { "attributes": [
                text("service.name", "a2a-gateway"),
                text("service.version", env!("CARGO_PKG_VERSION")),
            ] },
            "scopeLogs": [{
                "scope": { "name": "a2a_gateway.audit", "version": env!("CARGO_PKG_VERSION") },
                "logRecords": records,
            }],
        }],
    })
}

/// How many records the collector did not take of those that it answered for (`partialSuccess`).
pub(super) fn rejected(answer: &[u8]) -> u64 {
    let told: Value = serde_json::from_slice(answer).unwrap_or_default();
    match told.pointer("/partialSuccess/rejectedLogRecords") {
        Some(Value::String(digits)) => digits.parse().unwrap_or(0),
        Some(number) => number.as_u64().unwrap_or(0),
        None => 0,
    }
}

fn record(line: &str) -> Value {
    let members: Map<String, Value> = serde_json::from_str(line).unwrap_or_default();
    let said = |name: &str| members.get(name).and_then(Value::as_str);
    let time = said("time").and_then(|time| time.parse::<jiff::Timestamp>().ok());
    let time = time.map_or(0, jiff::Timestamp::as_nanosecond).to_string();
    let (number, severity) = match said("outcome") {
        Some("refused") => (WARN, "WARN"),
        Some(_) | None => (INFO, "INFO"),
    };
    let attributes: Vec<Value> = members
        .iter()
        .filter_map(|(name, value)| attribute(&format!("audit.{name}"), value))
        .collect();
    let mut record = json!({
        "timeUnixNano": time,
        "observedTimeUnixNano": time,
        "severityNumber": number,
        "severityText": severity,
        "eventName": format!("a2a_gateway.audit.{}", said("event").unwrap_or_default()),
        "body": { "stringValue": line },
        "attributes": attributes,
    });
    if let (Some(trace), Some(members)) = (said("trace_id"), record.as_object_mut()) {
        members.insert("traceId".to_owned(), Value::from(trace));
    }
    record
}

/// A line has texts and whole numbers.
fn attribute(name: &str, value: &Value) -> Option<Value> {
    match value {
        Value::String(said) => Some(text(name, said)),
        // As all of 64 bits in the JSON form of protobuf.
        Value::Number(number) => Some(json!({ "key": name, "value": { "intValue": number.to_string() } })),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

fn text(name: &str, value: &str) -> Value {
    json!({ "key": name, "value": { "stringValue": value } })
}
