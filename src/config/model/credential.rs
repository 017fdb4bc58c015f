//! What agents are shown: of the gateway, and of callers.

use std::path::PathBuf;
use std::time::Duration;

use http::{HeaderName, header};

use crate::config::Secret;

/// What the agent is shown instead of the caller's credential.
#[derive(Clone, Debug, PartialEq)]
pub enum UpstreamCredential {
    Header { name: HeaderName, value: Secret<String> },
    Bearer(Secret<String>),
    Basic { username: String, password: Secret<String> },
    ClientCredentials(Box<TokenServer>),
    TokenExchange(Box<TokenExchange>),
}

/// Where tokens for an agent come from, and how they are asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenServer {
    pub url: String,
    pub client_id: String,
    pub client_secret: Secret<String>,
    pub authentication: ClientAuthentication,
    pub scopes: Vec<String>,
    pub audience: Option<String>,
    pub resource: Option<String>,
    /// Instead of the system's roots.
    pub ca: Option<PathBuf>,
    pub timeout: Duration,
    /// Of a token of which the server does not say it.
    pub default_lifetime: Duration,
    /// Between two requests because the agent refused a token.
    pub cooldown: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientAuthentication {
    Basic,
    Post,
}

#[derive(Clone, Debug, PartialEq)]
pub struct TokenExchange {
    pub server: TokenServer,
    /// `None`: what the server chooses.
    pub requested_token_type: Option<String>,
    pub refused_for: Duration,
    /// Most exchanges under way.
    pub concurrent: usize,
    /// Most tokens kept.
    pub tokens: usize,
}

/// What an agent is told of the callers of its calls.
#[derive(Clone, Debug, PartialEq)]
pub struct UpstreamAssertion {
    pub header: HeaderName,
    /// `None`: the origin of the endpoint.
    pub audience: Option<String>,
    pub lifetime: Duration,
    /// The names of attributes that it has.
    pub claims: Vec<String>,
}

/// How that is signed.
#[derive(Clone, Debug, PartialEq)]
pub struct Assertions {
    pub issuer: String,
    /// The first signs, all are published; none: nothing is signed.
    pub keys: Vec<SigningKey>,
    pub max_age: Duration,
}

/// How published cards are signed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CardSignatures {
    /// The first of each algorithm signs, all are published; none: cards are not signed.
    pub keys: Vec<SigningKey>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SigningKey {
    pub private_key: PathBuf,
    /// `None`: the thumbprint.
    pub id: Option<String>,
}

impl UpstreamCredential {
    /// Where it stands.
    pub fn header(&self) -> HeaderName {
        match self {
            Self::Header { name, .. } => name.clone(),
            Self::Bearer(_) | Self::Basic { .. } | Self::ClientCredentials(_) | Self::TokenExchange(_) => {
                header::AUTHORIZATION
            }
        }
    }
}
