//! Secrets that stand in files of their own: which file each came from, and what it holds by now.

use std::path::{Path, PathBuf};

use super::model::{Config, UpstreamCredential};
use super::raw::Raw;
use super::{Secret, files, with_causes};

/// Tells the secrets of a checked configuration where they were read from.
pub fn note(raw: &Raw, base: &Path, config: &mut Config) {
    // What was checked has every agent of the file, in its order.
    for ((_, raw), agent) in raw.agents.items().zip(&mut config.agents) {
        let raw = raw.upstream.as_ref().and_then(|upstream| upstream.credential.as_ref());
        let (Some(raw), Some(credential)) = (raw, &mut agent.upstream.credential) else {
            continue;
        };
        let (secret, file) = match credential {
            UpstreamCredential::Header { value, .. } => {
                (value, raw.header.as_ref().and_then(|raw| raw.value_file.as_ref()))
            }
            UpstreamCredential::Bearer(token) => (token, raw.bearer.as_ref().and_then(|raw| raw.token_file.as_ref())),
            UpstreamCredential::Basic { password, .. } => {
                (password, raw.basic.as_ref().and_then(|raw| raw.password_file.as_ref()))
            }
        };
        secret.file = file.map(|file| base.join(file));
    }
}

impl Secret<String> {
    /// The file that it was read from, if it has one of its own.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// What its file holds now, one newline at the end dropped; the same secret where it has none. Blocking. The cause of a
    /// failure names the file and repeats nothing of it.
    pub fn read_again(&self) -> Result<Self, String> {
        let Some(path) = &self.file else {
            return Ok(self.clone());
        };
        let text = files::read_text(path)
            .map(zeroize::Zeroizing::new)
            .map_err(|error| with_causes(&error))?;
        let line = text.strip_suffix('\n').unwrap_or(&text);
        let line = line.strip_suffix('\r').unwrap_or(line);
        if line.is_empty() {
            return Err(format!("{} is empty", path.display()));
        }
        Ok(Self::from_file(line.to_owned(), path.clone()))
    }

    fn from_file(value: String, file: PathBuf) -> Self {
        Self {
            file: Some(file),
            ..Self::new(value)
        }
    }
}
