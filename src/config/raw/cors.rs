//! Pages that may read what is published, as users name them.

use schemars::JsonSchema;
use serde::Deserialize;

use super::super::units::Time;
use super::List;

/// Whose pages may read what the gateway publishes, in browsers: cards, `/.well-known/jwks.json` and the metadata of protected resources. Off
/// without this section. Calls are not allowed to any page by it.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Cors", extend("required" = ["origins"]))]
pub struct RawCors {
    /// Origins (`https://app.example.com`), or `*` alone for the pages of everybody: what is published is for everybody anyway.
    pub origins: List<String>,
    /// How long browsers may go by an answer to their question whether a page may ask. Two hours, the most that common browsers keep one.
    pub max_age: Time,
}

impl Default for RawCors {
    fn default() -> Self {
        Self {
            origins: List::default(),
            max_age: Time::seconds(2 * 60 * 60),
        }
    }
}
