//! A credential that is as it was configured: one header, whose value may stand in a file.

use std::sync::Arc;

use arc_swap::ArcSwap;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderName, HeaderValue};

use crate::config::{Problem, UpstreamCredential};

pub struct Fixed {
    name: HeaderName,
    value: ArcSwap<HeaderValue>,
}

impl Fixed {
    /// `key` is where it stands in the configuration.
    pub fn build(configured: &UpstreamCredential, key: &str) -> Result<Self, Problem> {
        Ok(Self {
            name: configured.header(),
            value: ArcSwap::from_pointee(value(configured, key)?),
        })
    }

    pub fn name(&self) -> &HeaderName {
        &self.name
    }

    pub fn value(&self) -> HeaderValue {
        HeaderValue::clone(&self.value.load())
    }

    /// The value that is configured by now, if that is another one.
    pub fn renewed(&self, configured: &UpstreamCredential, key: &str) -> Result<Option<HeaderValue>, Problem> {
        let value = value(configured, key)?;
        Ok((value != **self.value.load()).then_some(value))
    }

    pub fn take(&self, value: HeaderValue) {
        self.value.store(Arc::new(value));
    }
}

fn value(configured: &UpstreamCredential, key: &str) -> Result<HeaderValue, Problem> {
    let secret = configured.secret();
    let text = match configured {
        UpstreamCredential::Header { .. } => secret.expose().clone(),
        UpstreamCredential::Bearer(_) => format!("Bearer {}", secret.expose()),
        UpstreamCredential::Basic { username, .. } => {
            let coded = STANDARD.encode(format!("{username}:{}", secret.expose()));
            format!("Basic {coded}")
        }
        // They are no values.
        UpstreamCredential::ClientCredentials(_) | UpstreamCredential::TokenExchange(_) => {
            return Err(Problem::new(key, "is got from a token server"));
        }
    };
    let mut value = HeaderValue::from_str(&text)
        .map_err(|_| Problem::new(key, "has characters that a header cannot carry, such as a line break"))?;
    value.set_sensitive(true);
    Ok(value)
}
