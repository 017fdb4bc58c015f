//! Page tokens: keys that cannot be guessed.

use std::time::Duration;

use super::super::model::PageTokens;
use super::super::raw::RawPageTokens;
use super::super::{join, place};
use super::upstream::secret;
use super::{Check, DAY, SECOND};

/// What 32 random bytes have at least in any usual coding.
const LEAST_KEY: usize = 32;
const MOST_LIFETIME: Duration = Duration::from_secs(30 * DAY.as_secs());

pub fn page_tokens(check: &mut Check<'_>, raw: &RawPageTokens) -> Option<PageTokens> {
    let mut keys = Vec::new();
    let mut complete = true;
    for (index, raw) in raw.keys.items() {
        let key = place("page_tokens.keys", index);
        let read = secret(check, &key, "value", raw.value.as_ref(), raw.value_file.as_ref());
        let Some(read) = read else {
            complete = false;
            continue;
        };
        if read.expose().chars().count() < LEAST_KEY {
            let name = if raw.value.is_some() { "value" } else { "value_file" };
            let cause = format!("has fewer than {LEAST_KEY} characters; make one with `openssl rand -base64 32`");
            check.problem(&join(&key, name), cause);
            complete = false;
        }
        keys.push(read);
    }
    let lifetime = check.time("page_tokens.lifetime", raw.lifetime, SECOND, MOST_LIFETIME);
    complete.then_some(PageTokens { keys, lifetime })
}
