//! The API catalogue: RFC 9727, as a link set in JSON (RFC 9264 §4.2).

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::Listed;

pub const PATH: &str = "/.well-known/api-catalog";
/// With the profile of RFC 9727 §4.2.
pub const MEDIA_TYPE: &str = "application/linkset+json; profile=\"https://www.rfc-editor.org/info/rfc9727\"";

/// One context an agent: its URL, and by the relations of RFC 8631 its card, what people read of it, and how to get a token.
pub fn document<'a>(agents: impl IntoIterator<Item = Listed<'a>>) -> Bytes {
    let linkset: Vec<Value> = agents.into_iter().map(context).collect();
    Bytes::from(json!({ "linkset": linkset }).to_string())
}

fn context(agent: Listed<'_>) -> Value {
    let mut context = Map::new();
    let Listed {
        entry, metadata_url, ..
    } = agent;
    context.insert("anchor".to_owned(), json!(entry.url));
    let summary = &entry.summary;
    let title = (!summary.name.is_empty()).then_some(summary.name.as_str());
    let mut link = |relation: &str, href: &str, media_type: Option<&str>, title: Option<&str>| {
        let mut target = Map::new();
        target.insert("href".to_owned(), json!(href));
        for (name, text) in [("type", media_type), ("title", title)] {
            if let Some(text) = text {
                target.insert(name.to_owned(), json!(text));
            }
        }
        context.insert(relation.to_owned(), json!([target]));
    };
    const JSON: Option<&str> = Some("application/json");
    link("service-desc", &entry.card_url, JSON, title);
    if let Some(url) = &summary.documentation_url {
        link("service-doc", url, None, None);
    }
    if let Some(url) = metadata_url {
        link("service-meta", url, JSON, None);
    }
    Value::Object(context)
}

/// The `Link` field that leads here, as answers of this place have it (RFC 9727 §2).
pub fn link(public_url: &str) -> String {
    format!("<{public_url}{PATH}>; rel=\"api-catalog\"")
}
