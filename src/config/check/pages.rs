//! Page tokens, and the keys of whatever is sealed: keys that cannot be guessed.

use std::time::Duration;

use super::super::model::PageTokens;
use super::super::raw::{List, RawPageTokenKey, RawPageTokens};
use super::super::{Secret, join, place};
use super::credential::secret;
use super::{Check, DAY, SECOND};

/// What 32 random bytes have at least in any usual coding.
pub const LEAST_KEY: usize = 32;
pub const TOO_SHORT: &str = "has fewer than 32 characters; make one with `openssl rand -base64 32`";
const MOST_LIFETIME: Duration = Duration::from_secs(30 * DAY.as_secs());

pub fn page_tokens(check: &mut Check<'_>, raw: &RawPageTokens) -> Option<PageTokens> {
    let keys = keys(check, "page_tokens.keys", &raw.keys);
    let lifetime = check.time("page_tokens.lifetime", raw.lifetime, SECOND, MOST_LIFETIME);
    Some(PageTokens { keys: keys?, lifetime })
}

/// The keys at `key`.
pub fn keys(check: &mut Check<'_>, key: &str, raw: &List<RawPageTokenKey>) -> Option<Vec<Secret<String>>> {
    let mut keys = Vec::new();
    let mut complete = true;
    for (index, raw) in raw.items() {
        let key = place(key, index);
        let read = secret(check, &key, "value", raw.value.as_ref(), raw.value_file.as_ref());
        let Some(read) = read else {
            complete = false;
            continue;
        };
        if read.expose().chars().count() < LEAST_KEY {
            let name = if raw.value.is_some() { "value" } else { "value_file" };
            check.problem(&join(&key, name), TOO_SHORT);
            complete = false;
        }
        keys.push(read);
    }
    complete.then_some(keys)
}
