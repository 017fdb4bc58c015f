//! Security schemes and requirements as users write them.

use schemars::JsonSchema;
use serde::Deserialize;

use super::super::units::{Moment, Time};
use super::{List, Names};

/// Alternatives (any one suffices) of schemes that are needed together, as in an agent card.
pub type RawSecurity = List<Names<List<String>>>;

/// One security scheme: what cards publish of it, and how the gateway verifies it. Which keys belong to it follows from `type`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "SecurityScheme", extend("required" = ["type"]))]
pub struct RawScheme {
    /// The kind of scheme, as cards name it.
    #[serde(rename = "type")]
    pub kind: Option<RawSchemeType>,
    /// Text for people that published cards carry.
    pub description: Option<String>,
    /// `apiKey`: where the key is sent.
    #[serde(rename = "in")]
    pub place: Option<RawKeyPlace>,
    /// `apiKey`: name of the header, query parameter or cookie.
    pub name: Option<String>,
    /// `apiKey`: the accepted keys, as hashes. Either this or `keys_file`.
    pub keys: Option<List<RawKey>>,
    /// `apiKey`: file with the accepted keys (`keys: [ { id, hash, scopes, attributes, expires, label } ]`), read again when it changes.
    pub keys_file: Option<String>,
    /// `http`: the HTTP authentication scheme.
    pub scheme: Option<RawHttpScheme>,
    /// `http` with `bearer`: a hint for callers that published cards carry.
    #[serde(rename = "bearerFormat")]
    pub bearer_format: Option<String>,
    /// `http` with `basic`: file with users and password hashes (`users: [ { name, password_hash, scopes, attributes } ]`), read again
    /// when it changes.
    pub users_file: Option<String>,
    /// `oauth2`: the flows as cards publish them, passed as they are.
    pub flows: Option<serde_json::Map<String, serde_json::Value>>,
    /// `oauth2`: URL of the authorisation server's metadata (RFC 8414), for cards.
    #[serde(rename = "oauth2MetadataUrl")]
    pub oauth2_metadata_url: Option<String>,
    /// `openIdConnect`: URL of the provider's discovery document, for cards; the gateway does not fetch it.
    #[serde(rename = "openIdConnectUrl")]
    pub open_id_connect_url: Option<String>,
    /// Tokens: the only accepted `iss`. Required with `http`/`bearer`, `oauth2` and `openIdConnect`.
    pub issuer: Option<String>,
    /// Tokens: any of these must be in `aud`. Required, so that a token for another service does not open this one.
    pub audience: Option<List<String>>,
    /// Tokens: file with the issuer's keys (JWKS), read again when it changes. Either this or `jwks_url`.
    pub jwks_file: Option<String>,
    /// Tokens: URL of the issuer's keys (JWKS); `https`, or `http` on a loopback address.
    pub jwks_url: Option<String>,
    /// Tokens: PEM file with the CA certificates for `jwks_url`, instead of the system's.
    pub jwks_ca: Option<String>,
    /// Tokens: how often the keys are fetched again. A withdrawn key is refused at most this much later.
    #[schemars(extend("default" = "15m"))]
    pub jwks_refresh: Option<Time>,
    /// Tokens: least time between two fetches, so that made-up key ids cannot load the issuer. A new key is seen after
    /// at most this time.
    #[schemars(extend("default" = "60s"))]
    pub jwks_cooldown: Option<Time>,
    /// Tokens: clock skew allowed for `exp` and `nbf`. 30 s covers machines that keep time with NTP.
    #[schemars(extend("default" = "30s"))]
    pub leeway: Option<Time>,
    /// Tokens: the claim that names the caller. `sub`, because it is the one that issuers keep stable.
    #[schemars(extend("default" = "sub"))]
    pub principal_claim: Option<String>,
    /// `mutualTLS`: which verified client certificates are admitted; `*` stands for any run of characters. Forms:
    /// `spiffe://…` or another URI, `dns:…`, `email:…`, `subject:…`.
    pub allow: Option<List<String>>,
    /// What the principal is made of, where that is not what the credential says by itself.
    pub principal: Option<RawMapping>,
}

/// What a principal is made of: expressions in CEL over `claims` (of a token), `attributes` (of a key or user: lists of texts by
/// name) or `certificate` (`subject`, `uris`, `dns_names`, `emails`, `fingerprint`), and over `name` and `scopes` as they are without a mapping.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "PrincipalMapping")]
pub struct RawMapping {
    /// The name in the principal's id: a text. Without one the caller is refused. By default `principal_claim` of a token, the id
    /// of a key, the name of a user, and of a certificate the name that `allow` admitted.
    pub name: Option<String>,
    /// The groups: a list of texts, or one. By default the claim or the attributes `groups`.
    pub groups: Option<String>,
    /// The scopes, instead of those that the credential carries: a list of texts, or one.
    pub scopes: Option<String>,
    /// Claims that are made, or replaced, by name, e.g. `tenant: claims.org.id`. What an expression cannot find is no claim.
    pub claims: Names<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum RawSchemeType {
    #[serde(rename = "apiKey")]
    ApiKey,
    #[serde(rename = "http")]
    Http,
    #[serde(rename = "oauth2")]
    OAuth2,
    #[serde(rename = "openIdConnect")]
    OpenIdConnect,
    #[serde(rename = "mutualTLS")]
    MutualTls,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum RawHttpScheme {
    Bearer,
    Basic,
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum RawKeyPlace {
    Header,
    Query,
    Cookie,
}

/// One accepted API key.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "ApiKey", extend("required" = ["id", "hash"]))]
pub struct RawKey {
    /// Names the caller: `key:<id>` in logs and as owner of tasks. Keep it when the key is exchanged.
    pub id: Option<String>,
    /// `sha256:<64 hex digits>` over the key, or `sha256:<salt in hex>:<64 hex digits>` over salt and key. The key itself
    /// never stands in a file of the gateway.
    pub hash: Option<String>,
    /// Scopes that the key carries. None by default.
    pub scopes: List<String>,
    /// What a policy may ask for beside the id, each as `name=value`, like a token's claims: e.g. `tenant=acme`. None by
    /// default.
    pub attributes: List<String>,
    /// When the key stops to be accepted, e.g. `2027-01-31T00:00:00Z`. Never by default.
    pub expires: Option<Moment>,
    /// For people: shown by `a2a-gateway key list`, and nowhere else.
    pub label: Option<String>,
}
