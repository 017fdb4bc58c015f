//! Who and what is not accepted any more, although its credential is good: a list that operators keep in a file.
//!
//! Asked after a credential was verified, for each scheme by itself, and again for open streams when the file changes.

use std::collections::HashSet;
use std::path::Path;

use serde::Deserialize;

use super::pattern::matches;
use super::verifiers::read_yaml;
use super::{Credential, Evidence, Principal, hex, sha256};
use crate::config::{Problem, files};

/// The key of the configuration.
const KEY: &str = "revocations_file";
/// Most entries with `*`: each is compared with every caller.
const MAX_PATTERNS: usize = 1_000;
/// Most entries of each list. What has expired by itself need not stand there.
const MAX_ENTRIES: usize = 1_000_000;
const EXPECTED: &str = "expected lists `principals`, `tokens` and `certificates` of texts";

/// By default nothing is.
#[derive(Default)]
pub struct Revoked {
    principals: HashSet<String>,
    patterns: Vec<String>,
    tokens: HashSet<String>,
    /// SHA-256 of the DER in lower-case hexadecimal.
    certificates: HashSet<String>,
    digest: [u8; 32],
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    #[serde(default)]
    principals: Vec<String>,
    #[serde(default)]
    tokens: Vec<String>,
    #[serde(default)]
    certificates: Vec<String>,
}

impl Revoked {
    /// Blocking.
    pub fn load(path: &Path) -> Result<Self, Vec<Problem>> {
        let text = files::read_text(path);
        let text = text.map_err(|error| vec![Problem::new(KEY, super::api_key::describe(&error))])?;
        let raw: RawFile = read_yaml(KEY, path, &text, EXPECTED).map_err(|problem| vec![problem])?;
        let mut problems = Vec::new();
        let mut wrong = |cause: String| problems.push(Problem::new(KEY, format!("{cause} in {}", path.display())));
        for (name, list) in [
            ("principals", &raw.principals),
            ("tokens", &raw.tokens),
            ("certificates", &raw.certificates),
        ] {
            if list.len() > MAX_ENTRIES {
                wrong(format!("{name} has more than {MAX_ENTRIES} entries"));
            }
            if let Some(index) = list.iter().position(String::is_empty) {
                wrong(format!("{name}[{index}] is empty"));
            }
        }
        let certificates = raw.certificates.iter().map(|text| fingerprint(text));
        let certificates: Vec<_> = certificates.collect();
        if let Some(index) = certificates.iter().position(Option::is_none) {
            wrong(format!(
                "certificates[{index}] must be the SHA-256 of the DER, 64 hex digits"
            ));
        }
        // Ids themselves have none: each scheme's is asked by itself.
        if let Some(joined) = raw.principals.iter().find(|text| text.contains('+')) {
            wrong(format!(
                "principals: `{joined}` is of several schemes together; name the id that one of them gave, without `+`"
            ));
        }
        let (patterns, principals): (Vec<_>, Vec<_>) = raw.principals.into_iter().partition(|text| text.contains('*'));
        if patterns.len() > MAX_PATTERNS {
            wrong(format!("principals has more than {MAX_PATTERNS} entries with `*`"));
        }
        if let Some(all) = patterns.iter().find(|text| text.bytes().all(|byte| byte == b'*')) {
            wrong(format!("principals: `{all}` would be everybody"));
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        Ok(Self {
            principals: principals.into_iter().collect(),
            patterns,
            tokens: raw.tokens.into_iter().collect(),
            certificates: certificates.into_iter().flatten().collect(),
            digest: sha256(&[text.as_bytes()]),
        })
    }

    /// Another reading of it says something else.
    pub fn differs(&self, other: &Self) -> bool {
        self.digest != other.digest
    }

    /// Whether somebody of this id is on the list, of whom nothing else is known.
    pub fn names_id(&self, id: &str) -> bool {
        id.split('+').any(|id| self.has_id(id))
    }

    /// Whether anything by which the caller is known is on the list.
    pub(super) fn names(&self, principal: &Principal) -> bool {
        principal.evidence.iter().any(|evidence| self.has(evidence))
    }

    fn has(
        &self,
        Evidence {
            id, facts, credential, ..
        }: &Evidence,
    ) -> bool {
        let token = || {
            let id = facts.token_id.as_ref();
            id.is_some_and(|id| self.tokens.contains(id))
        };
        let certificate = || {
            let fingerprint = match credential {
                Credential::Certificate(certificate) => Some(certificate.fingerprint),
                // It is good with this certificate alone.
                Credential::Token { bound, .. } => bound.certificate,
                Credential::Key { .. } | Credential::User { .. } | Credential::Vouched { .. } => None,
            };
            let listed = |fingerprint: [u8; 32]| self.certificates.contains(&hex(&fingerprint));
            !self.certificates.is_empty() && fingerprint.is_some_and(listed)
        };
        self.has_id(id) || token() || certificate()
    }

    fn has_id(&self, id: &str) -> bool {
        let named = |pattern: &String| matches(pattern.as_bytes(), id.as_bytes());
        (!self.principals.is_empty() && self.principals.contains(id)) || self.patterns.iter().any(named)
    }
}

/// With or without colons, as programs print it.
fn fingerprint(text: &str) -> Option<String> {
    let digits: String = text
        .chars()
        .filter(|c| *c != ':')
        .map(|c| c.to_ascii_lowercase())
        .collect();
    let is_whole = digits.len() == 64 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_whole.then_some(digits)
}
