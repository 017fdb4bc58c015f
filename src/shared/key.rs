//! Names of what stands in the store.
//!
//! A key is `<prefix><kind>:<part>:<part>...`. Parts are arbitrary text: whatever is no letter, digit, `.`, `_`, `~` or `-`
//! stands as `%XX`, so that none contains a separator, nor the braces that would choose the slot of a cluster; a long one
//! stands as `#` and its SHA-256.

use std::fmt::Write as _;

use aws_lc_rs::digest;

/// Longer parts take the place of a hash. Ids are UUIDs as a rule: 36.
const LONGEST_PLAIN: usize = 96;

pub fn key(prefix: &str, kind: char, parts: &[&str]) -> Vec<u8> {
    let mut key = format!("{prefix}{kind}");
    for part in parts {
        key.push(':');
        push_plain(&mut key, part);
    }
    key.into_bytes()
}

fn push_plain(key: &mut String, text: &str) {
    let start = key.len();
    for &byte in text.as_bytes() {
        if byte.is_ascii_alphanumeric() || b"._~-".contains(&byte) {
            key.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _written = write!(key, "%{byte:02X}");
        }
    }
    if key.len() - start > LONGEST_PLAIN {
        key.truncate(start);
        key.push('#');
        for byte in digest::digest(&digest::SHA256, text.as_bytes()).as_ref() {
            let _written = write!(key, "{byte:02x}");
        }
    }
}
