//! How the schemes that cards publish are verified.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::super::Secret;
use super::ClientAuthentication;
use crate::expression::Expression;

/// How a scheme that cards publish is verified.
#[derive(Clone, Debug, PartialEq)]
pub struct Scheme {
    pub description: Option<String>,
    pub kind: SchemeKind,
    pub principal: Mapping,
}

/// What becomes of a credential in its principal; what is not said is as the credential has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mapping {
    pub name: Option<Expression>,
    pub groups: Option<Expression>,
    pub scopes: Option<Expression>,
    pub claims: BTreeMap<String, Expression>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum SchemeKind {
    ApiKey {
        place: ApiKeyPlace,
        name: String,
        keys: KeySource,
    },
    /// `http` scheme `bearer`.
    Bearer {
        bearer_format: Option<String>,
        tokens: Tokens,
    },
    /// `http` scheme `basic`.
    Basic {
        users_file: PathBuf,
    },
    /// Any other `http` scheme.
    Http {
        /// As it was written; names of schemes have no case (RFC 9110 §11.1).
        scheme: String,
        check: Asking,
        /// The claims that become attributes of the principal: those that a policy asks for.
        claims: Vec<String>,
    },
    /// Published with its flows (an object, passed as is).
    OAuth2 {
        flows: serde_json::Value,
        metadata_url: Option<String>,
        tokens: Tokens,
    },
    OpenIdConnect {
        url: String,
        tokens: Tokens,
    },
    MutualTls {
        allow: Vec<CertificateRule>,
    },
}

impl SchemeKind {
    /// How its tokens are verified, if it has any.
    pub fn tokens(&self) -> Option<&Tokens> {
        match self {
            Self::Bearer { tokens, .. } | Self::OAuth2 { tokens, .. } | Self::OpenIdConnect { tokens, .. } => {
                Some(tokens)
            }
            Self::ApiKey { .. } | Self::Basic { .. } | Self::Http { .. } | Self::MutualTls { .. } => None,
        }
    }

    /// The claims that become attributes.
    pub fn claims_mut(&mut self) -> Option<&mut Vec<String>> {
        match self {
            Self::Bearer { tokens, .. } | Self::OAuth2 { tokens, .. } | Self::OpenIdConnect { tokens, .. } => {
                Some(&mut tokens.claims)
            }
            Self::Http { claims, .. } => Some(claims),
            Self::ApiKey { .. } | Self::Basic { .. } | Self::MutualTls { .. } => None,
        }
    }

    /// The gateway's own secret at who is asked about tokens.
    pub fn client_secret_mut(&mut self) -> Option<&mut Secret<String>> {
        match self {
            Self::Bearer { tokens, .. } | Self::OAuth2 { tokens, .. } | Self::OpenIdConnect { tokens, .. } => {
                match &mut tokens.proof {
                    TokenProof::Introspection { client, .. } => Some(&mut client.secret),
                    TokenProof::Signature { .. } => None,
                }
            }
            Self::ApiKey { .. } | Self::Basic { .. } | Self::Http { .. } | Self::MutualTls { .. } => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApiKeyPlace {
    Header,
    Query,
    Cookie,
}

/// API keys, only as hashes (`sha256:<64 hex digits>` or `sha256:<salt>:<hex>`, see `config/README.md`).
#[derive(Clone, Debug, PartialEq)]
pub enum KeySource {
    File(PathBuf),
    /// Given in the configuration itself (also what `demo` and tests use).
    Inline(Vec<ApiKey>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiKey {
    /// The principal's name: `key:<id>` becomes its stable id.
    pub id: String,
    /// SHA-256 over salt then key.
    pub sha256: [u8; 32],
    pub salt: Vec<u8>,
    pub scopes: Vec<String>,
    pub attributes: Vec<Attribute>,
    /// From then on it is refused, in Unix seconds.
    pub expires: Option<u64>,
    /// For people.
    pub label: String,
}

impl ApiKey {
    /// Salt and hash from `sha256:<hex>` or `sha256:<salt hex>:<hex>`.
    pub fn parse_hash(text: &str) -> Option<(Vec<u8>, [u8; 32])> {
        let rest = text.strip_prefix("sha256:")?;
        let (salt, hash) = match rest.split_once(':') {
            Some((salt, hash)) => (hex(salt).filter(|salt| !salt.is_empty())?, hash),
            None => (Vec::new(), rest),
        };
        Some((salt, hex(hash)?.try_into().ok()?))
    }
}

fn hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: &u8| {
        char::from(*byte)
            .to_digit(16)
            .and_then(|digit| u8::try_from(digit).ok())
    };
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    pairs
        .iter()
        .map(|[high, low]| Some(digit(high)? << 4 | digit(low)?))
        .collect()
}

/// What is known of a caller beside its id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute {
    pub name: String,
    pub value: String,
}

impl Attribute {
    /// In bytes. Ids of tenants and groups have some 40.
    pub const MAX_VALUE: usize = 255;
    pub const EXPECTED: &'static str = "must be `name=value` with 1 to 255 bytes each, e.g. `tenant=acme`";

    pub fn parse(text: &str) -> Option<Self> {
        let (name, value) = text.split_once('=')?;
        let sound = |part: &str| (1..=Self::MAX_VALUE).contains(&part.len());
        (sound(name) && sound(value)).then(|| Self {
            name: name.to_owned(),
            value: value.to_owned(),
        })
    }
}

/// Whose tokens are taken, and how they prove anything.
#[derive(Clone, Debug, PartialEq)]
pub struct Tokens {
    pub issuer: String,
    /// Any of these must be in `aud`. Only with introspection perhaps none: then `aud` is not looked at.
    pub audience: Vec<String>,
    pub proof: TokenProof,
    pub sender: SenderConstraint,
    /// How long after it was made a proof of possession is taken.
    pub dpop_lifetime: Duration,
    /// Clock skew allowed for `exp` and `nbf`.
    pub leeway: Duration,
    /// The claim that names the principal; `sub` by default.
    pub principal_claim: String,
    /// The claims that are kept of a token: those that a policy asks for.
    pub claims: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum TokenProof {
    /// They are JWTs.
    Signature { keys: JwksSource, profile: TokenProfile },
    /// The issuer is asked (RFC 7662).
    Introspection { asking: Asking, client: Client },
}

/// To what a token has to be bound; to what it is bound is always looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SenderConstraint {
    /// Perhaps nothing.
    Optional,
    /// A client certificate (RFC 8705 §3).
    Mtls,
    /// A key (RFC 9449).
    Dpop,
    /// One of the two.
    Required,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenProfile {
    /// Any JWT for this audience.
    Jwt,
    /// RFC 9068.
    AccessToken,
}

#[derive(Clone, Debug, PartialEq)]
pub enum JwksSource {
    File(PathBuf),
    Fetched(FetchedKeys),
}

#[derive(Clone, Debug, PartialEq)]
pub struct FetchedKeys {
    pub place: KeysPlace,
    pub ca: Option<PathBuf>,
    pub refresh: Duration,
    pub cooldown: Duration,
}

#[derive(Clone, Debug, PartialEq)]
pub enum KeysPlace {
    Url(String),
    /// Where a discovery document at this URL says (OpenID Connect Discovery 1.0 §4, RFC 8414 §3), if it is of this issuer.
    Discovery {
        url: String,
        issuer: String,
    },
}

impl JwksSource {
    /// What is read from the disk for it.
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(path),
            Self::Fetched(fetched) => fetched.ca.as_deref(),
        }
    }
}

/// How somebody is asked about credentials.
#[derive(Clone, Debug, PartialEq)]
pub struct Asking {
    pub url: String,
    pub ca: Option<PathBuf>,
    /// For one question.
    pub timeout: Duration,
    /// How long a yes holds; zero: for one request.
    pub cache_ttl: Duration,
    /// How long a no holds.
    pub negative_ttl: Duration,
    /// Most questions under way.
    pub concurrent: usize,
}

/// As whom the gateway asks (RFC 6749 §2.3.1).
#[derive(Clone, Debug, PartialEq)]
pub struct Client {
    pub id: String,
    pub secret: Secret<String>,
    pub authentication: ClientAuthentication,
}

/// One rule that admits a client certificate; `*` matches any run of characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CertificateRule {
    /// `spiffe://…` or another URI SAN.
    Uri(String),
    Dns(String),
    Email(String),
    /// The whole subject in RFC 4514 form.
    Subject(String),
    /// SHA-256 of the certificate: 64 hexadecimal digits in lower case.
    Fingerprint(String),
}
