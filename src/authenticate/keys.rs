//! API keys for the command line: made, hashed and listed. A key itself is shown once, by whoever made it, and kept nowhere.

use std::fmt::Write;
use std::sync::Arc;

use aws_lc_rs::rand;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::json;
use zeroize::Zeroizing;

use super::api_key::{MAX_KEY, keys_of};
use super::{hex, sha256};
use crate::clock::Clock;
use crate::config::{ApiKey, Attribute, Config, Moment, Problem, SchemeKind};

/// By which programs that look for secrets in files know one.
const PREFIX: &str = "a2a_";

/// A new key, and its entry for a list `keys`.
pub struct Made {
    pub key: Zeroizing<String>,
    /// One line of YAML.
    pub entry: String,
}

/// What an entry says beside the hash.
pub struct About {
    pub id: String,
    pub label: Option<String>,
    pub expires: Option<Moment>,
    pub scopes: Vec<String>,
    pub attributes: Vec<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the id must have 1 to 255 bytes")]
    Id,
    #[error("`{0}` {expected}", expected = Attribute::EXPECTED)]
    Attribute(String),
    #[error("a key has 1 to {MAX_KEY} bytes")]
    Length,
    #[error("the system gives no random numbers")]
    Random,
}

/// 32 random bytes, so that one SHA-256 without a salt is enough to keep of them.
pub fn make(about: &About) -> Result<Made, Error> {
    if !(1..=255).contains(&about.id.len()) {
        return Err(Error::Id);
    }
    if let Some(wrong) = about.attributes.iter().find(|text| Attribute::parse(text).is_none()) {
        return Err(Error::Attribute(wrong.clone()));
    }
    let mut random = Zeroizing::new([0; 32]);
    rand::fill(&mut *random).map_err(|_| Error::Random)?;
    let key = Zeroizing::new(format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(random.as_slice())));
    let mut entry = json!({ "id": about.id, "hash": hash(key.as_bytes())? });
    let mut add = |name: &str, value: serde_json::Value| {
        if let Some(members) = entry.as_object_mut() {
            members.insert(name.to_owned(), value);
        }
    };
    if let Some(label) = &about.label {
        add("label", json!(label));
    }
    if let Some(expires) = about.expires {
        add("expires", json!(expires));
    }
    if !about.scopes.is_empty() {
        add("scopes", json!(about.scopes));
    }
    if !about.attributes.is_empty() {
        add("attributes", json!(about.attributes));
    }
    Ok(Made {
        key,
        entry: format!("- {entry}"),
    })
}

/// What is kept of a key.
pub fn hash(key: &[u8]) -> Result<String, Error> {
    match key.len() {
        1..=MAX_KEY => Ok(format!("sha256:{}", hex(&sha256(&[key])))),
        _ => Err(Error::Length),
    }
}

/// The keys of all schemes of a configuration, one a line, those of files included.
pub fn list(config: &Config, clock: &Clock) -> Result<String, Vec<Problem>> {
    let mut lines = String::from("SCHEME\tID\tHASH\tEXPIRES\tSCOPES\tATTRIBUTES\tLABEL\n");
    let mut problems = Vec::new();
    for (name, scheme) in &config.security_schemes {
        let SchemeKind::ApiKey { keys, .. } = &scheme.kind else {
            continue;
        };
        let scheme: Arc<str> = Arc::from(&**name);
        match keys_of(&format!("security_schemes.{scheme}"), keys) {
            Ok(keys) => keys.iter().for_each(|key| line(&mut lines, &scheme, key, clock)),
            Err(found) => problems.extend(found),
        }
    }
    if problems.is_empty() { Ok(lines) } else { Err(problems) }
}

fn line(lines: &mut String, scheme: &str, key: &ApiKey, clock: &Clock) {
    let expires = match key.expires {
        None => "never".to_owned(),
        Some(end) if end <= clock.unix_seconds() => format!("{} (expired)", Moment(end)),
        Some(end) => Moment(end).to_string(),
    };
    let attributes: Vec<_> = key
        .attributes
        .iter()
        .map(|Attribute { name, value }| format!("{name}={value}"))
        .collect();
    let start: String = hex(&key.sha256).chars().take(8).collect();
    let fields = [
        scheme,
        &key.id,
        &start,
        &expires,
        &key.scopes.join(","),
        &attributes.join(","),
        &key.label,
    ];
    // Nothing in a name may look like another column or line.
    let fields = fields.map(|field| field.replace(char::is_control, "?"));
    let _always = writeln!(lines, "{}", fields.join("\t"));
}
