//! The AI Catalog, as far as its drafts go: whatever a later one changes is changed here alone.
//!
//! Written to the working draft of `specVersion` 1.0 (`specification/ai-catalog.md` of the Agent-Card project, revision be6803f of 2026):
//! an entry has `identifier`, `type` (which drafts before ADR 0014 of June 2026 called `mediaType`) and `url`; `urn:air` names what a domain
//! publishes; `host` makes it a "discoverable" catalog. Without its optional trust manifests and signatures. The draft would leave
//! `displayName`, `description` and `version` out where the artifact says them, lest they drift apart: here both come from one card, and
//! earlier drafts demand the name.

use std::net::IpAddr;

use bytes::Bytes;
use serde_json::{Value, json};

use super::Listed;

pub const PATH: &str = "/.well-known/ai-catalog.json";
pub const MEDIA_TYPE: &str = "application/ai-catalog+json";
const VERSION: &str = "1.0";
const A2A_CARD: &str = "application/a2a-agent-card+json";

/// `public_url` is the gateway's own, by whose host the catalog goes.
pub fn document<'a>(public_url: &str, agents: impl IntoIterator<Item = Listed<'a>>) -> Bytes {
    let host = host(public_url);
    let entries: Vec<Value> = agents.into_iter().map(|agent| entry(host, agent)).collect();
    let catalog = json!({
        "specVersion": VERSION,
        "host": { "displayName": host, "identifier": host },
        "entries": entries,
    });
    Bytes::from(catalog.to_string())
}

fn entry(host: &str, Listed { agent, entry, .. }: Listed<'_>) -> Value {
    let summary = &entry.summary;
    let name = if summary.name.is_empty() { agent } else { &summary.name };
    let mut tags: Vec<&str> = Vec::new();
    for tag in summary.skills.iter().flat_map(|skill| &skill.tags) {
        if !tags.contains(&tag.as_str()) {
            tags.push(tag);
        }
    }
    let mut told = json!({
        "identifier": identifier(host, agent, &entry.card_url),
        "displayName": name,
        "type": A2A_CARD,
        "url": entry.card_url,
        "description": summary.description,
    });
    if let Some(members) = told.as_object_mut() {
        if !tags.is_empty() {
            members.insert("tags".to_owned(), json!(tags));
        }
        if let Some(version) = &summary.version {
            members.insert("version".to_owned(), json!(version));
        }
    }
    told
}

/// A domain publishes under its name; where there is none, any URI does.
fn identifier(host: &str, agent: &str, card_url: &str) -> String {
    match host.parse::<IpAddr>() {
        Err(_) if !host.starts_with('[') => format!("urn:air:{host}:a2a:{agent}"),
        Ok(_) | Err(_) => card_url.to_owned(),
    }
}

/// Without the port.
fn host(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split('/').next().unwrap_or_default();
    match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        Some(_) | None => authority,
    }
}
