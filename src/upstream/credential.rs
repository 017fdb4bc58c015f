//! What the agent is shown instead of the caller's credential: one header, whose value may stand in a file.

use std::path::Path;
use std::sync::Arc;

use arc_swap::ArcSwap;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderName, HeaderValue, header};

use crate::config::{Problem, Secret, UpstreamCredential};

pub struct Credential {
    configured: UpstreamCredential,
    /// Where it stands in the configuration.
    key: String,
    name: HeaderName,
    value: ArcSwap<HeaderValue>,
}

impl Credential {
    pub fn build(configured: &UpstreamCredential, key: &str) -> Result<Self, Problem> {
        let value = value(configured, key, configured.secret())?;
        Ok(Self {
            configured: configured.clone(),
            key: key.to_owned(),
            name: configured.header(),
            value: ArcSwap::from_pointee(value),
        })
    }

    pub fn name(&self) -> &HeaderName {
        &self.name
    }

    pub fn value(&self) -> HeaderValue {
        HeaderValue::clone(&self.value.load())
    }

    pub fn file(&self) -> Option<&Path> {
        self.configured.secret().file()
    }

    /// The value that the file asks for by now, if that is another one. Blocking.
    pub fn read_again(&self) -> Result<Option<HeaderValue>, Problem> {
        let wrong = |cause| Problem::new(format!("{}.{}", self.key, self.configured.file_key()), cause);
        let secret = self.configured.secret().read_again().map_err(wrong)?;
        let value = value(&self.configured, &self.key, &secret)?;
        Ok((value != **self.value.load()).then_some(value))
    }

    pub fn take(&self, value: HeaderValue) {
        self.value.store(Arc::new(value));
    }
}

impl UpstreamCredential {
    fn secret(&self) -> &Secret<String> {
        match self {
            Self::Header { value, .. } => value,
            Self::Bearer(token) => token,
            Self::Basic { password, .. } => password,
        }
    }

    fn header(&self) -> HeaderName {
        match self {
            Self::Header { name, .. } => name.clone(),
            Self::Bearer(_) | Self::Basic { .. } => header::AUTHORIZATION,
        }
    }

    fn file_key(&self) -> &'static str {
        match self {
            Self::Header { .. } => "header.value_file",
            Self::Bearer(_) => "bearer.token_file",
            Self::Basic { .. } => "basic.password_file",
        }
    }
}

fn value(configured: &UpstreamCredential, key: &str, secret: &Secret<String>) -> Result<HeaderValue, Problem> {
    let text = match configured {
        UpstreamCredential::Header { .. } => secret.expose().clone(),
        UpstreamCredential::Bearer(_) => format!("Bearer {}", secret.expose()),
        UpstreamCredential::Basic { username, .. } => {
            let coded = STANDARD.encode(format!("{username}:{}", secret.expose()));
            format!("Basic {coded}")
        }
    };
    let mut value = HeaderValue::from_str(&text)
        .map_err(|_| Problem::new(key, "has characters that a header cannot carry, such as a line break"))?;
    value.set_sensitive(true);
    Ok(value)
}
