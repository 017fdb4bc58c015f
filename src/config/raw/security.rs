//! Security schemes and requirements as users write them.

use schemars::JsonSchema;
use serde::Deserialize;

use super::super::units::{Moment, SecretText, Time};
use super::{List, Names, RawClientAuthentication};

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
    /// `http`: the HTTP authentication scheme: `bearer`, `basic`, or another one, e.g. `digest`, which `check` is asked about.
    pub scheme: Option<String>,
    /// `http` with `bearer`: a hint for callers that published cards carry.
    #[serde(rename = "bearerFormat")]
    pub bearer_format: Option<String>,
    /// `http` with `basic`: file with users and password hashes (`users: [ { name, password_hash, scopes, attributes } ]`), read again
    /// when it changes.
    pub users_file: Option<String>,
    /// `http` with another scheme than `bearer` and `basic`: who is asked whether a credential is good.
    pub check: Option<RawCheck>,
    /// `oauth2`: the flows as cards publish them, passed as they are.
    pub flows: Option<serde_json::Map<String, serde_json::Value>>,
    /// `oauth2`: URL of the authorisation server's metadata (RFC 8414), for cards. Where no other key says how tokens are
    /// verified, the issuer's keys are found through it; then it must be `https`, or `http` on a loopback address.
    #[serde(rename = "oauth2MetadataUrl")]
    pub oauth2_metadata_url: Option<String>,
    /// `openIdConnect`: URL of the provider's discovery document, for cards. Where no other key says how tokens are
    /// verified, the issuer's keys are found through it; then it must be `https`, or `http` on a loopback address.
    #[serde(rename = "openIdConnectUrl")]
    pub open_id_connect_url: Option<String>,
    /// Tokens: the only accepted `iss`. Required with `http`/`bearer`, `oauth2` and `openIdConnect`.
    pub issuer: Option<String>,
    /// Tokens: any of these must be in `aud`. Required, so that a token for another service does not open this one; but not
    /// with `introspection`, where the server says whether a token is good for the client that asks.
    pub audience: Option<List<String>>,
    /// Tokens: file with the issuer's keys (JWKS), read again when it changes. At most one of this, `jwks_url` and
    /// `introspection`; without any, `openIdConnectUrl` or `oauth2MetadataUrl` says where the keys are.
    pub jwks_file: Option<String>,
    /// Tokens: URL of the issuer's keys (JWKS); `https`, or `http` on a loopback address.
    pub jwks_url: Option<String>,
    /// Tokens: PEM file with the CA certificates for `jwks_url`, or for the discovery document and the keys that it names,
    /// instead of the system's.
    pub jwks_ca: Option<String>,
    /// Tokens: how often the keys, and the discovery document if they are found through one, are fetched again. A withdrawn
    /// key is refused at most this much later.
    #[schemars(extend("default" = "15m"))]
    pub jwks_refresh: Option<Time>,
    /// Tokens: least time between two fetches, so that made-up key ids cannot load the issuer. A new key is seen after
    /// at most this time.
    #[schemars(extend("default" = "60s"))]
    pub jwks_cooldown: Option<Time>,
    /// Tokens: what a signed token must be. `jwt`: any JWT with `iss`, `aud` and `exp`, because most issuers write no more;
    /// `at+jwt`: an access token by RFC 9068, with that `typ` and every claim that it requires, so that an ID token of the
    /// same issuer is none.
    #[schemars(extend("default" = "jwt"))]
    pub profile: Option<RawTokenProfile>,
    /// Tokens: asks the issuer about each token (RFC 7662) instead of checking a signature, for tokens that are opaque and for
    /// those that can be revoked.
    pub introspection: Option<RawIntrospection>,
    /// Tokens: to what a token must be bound, so that who finds it cannot use it. `optional`: to nothing, because most issuers do
    /// not bind; `mtls`: to the client certificate of the connection (`cnf.x5t#S256`, RFC 8705 §3); `dpop`: to a key, of which
    /// each request has a proof (`cnf.jkt`, RFC 9449); `required`: to one of the two. A token that is bound is never good without
    /// what it is bound to, whatever stands here.
    #[schemars(extend("default" = "optional"))]
    pub sender_constraint: Option<RawSenderConstraint>,
    /// Tokens: how long after it was made (`iat`) a DPoP proof is taken, `leeway` beside it. 60 s: clients make one for each
    /// request, and each is remembered for this long, so that none is taken twice.
    #[schemars(extend("default" = "60s"))]
    pub dpop_lifetime: Option<Time>,
    /// Tokens: clock skew allowed for `exp` and `nbf`. 30 s covers machines that keep time with NTP.
    #[schemars(extend("default" = "30s"))]
    pub leeway: Option<Time>,
    /// Tokens: the claim that names the caller. `sub`, because it is the one that issuers keep stable.
    #[schemars(extend("default" = "sub"))]
    pub principal_claim: Option<String>,
    /// `mutualTLS`: which verified client certificates are admitted; `*` stands for any run of characters. Forms:
    /// `spiffe://…` or another URI, `dns:…`, `email:…`, `subject:…`; or `fingerprint:…`, the SHA-256 of the whole certificate.
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
#[schemars(inline)]
pub enum RawTokenProfile {
    #[serde(rename = "jwt")]
    Jwt,
    #[serde(rename = "at+jwt")]
    AccessToken,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum RawSenderConstraint {
    Optional,
    Mtls,
    Dpop,
    Required,
}

/// Where the issuer is asked about a token (RFC 7662), and as whom.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Introspection", extend("required" = ["url", "client_id"]))]
pub struct RawIntrospection {
    /// URL of the introspection endpoint: `https`, or `http` on a loopback address, because every token goes there.
    pub url: Option<String>,
    /// The gateway's own client id there.
    pub client_id: Option<String>,
    /// Its secret; from the environment with `${NAME}`. Either this or `client_secret_file`.
    pub client_secret: Option<SecretText>,
    /// File with the secret; one newline at the end is dropped. Read again when it changes.
    pub client_secret_file: Option<String>,
    /// How id and secret are shown (RFC 6749 §2.3.1): `basic` in the `Authorization` field, which every server must know, or
    /// `post` in the body.
    pub authentication: RawClientAuthentication,
    /// PEM file with the CA certificates for `url`, instead of the system's.
    pub ca: Option<String>,
    /// For one question, connecting included; then the caller is told to come again. Two seconds: a server that works answers
    /// in some milliseconds, and callers wait meanwhile.
    pub timeout: Time,
    /// How long a token that the server called active is taken without another question, and never after its `exp`. 30 s: a
    /// revoked token goes on for this long, and a busy caller costs two questions a minute. `0s` asks about every request.
    pub cache_ttl: Time,
    /// How long a token that the server called inactive is refused without another question. 5 s: a wrong token that is sent
    /// again and again costs little, and one that becomes good is not refused for long.
    pub negative_ttl: Time,
    /// Most questions under way; callers who would need one more are told to come again. 64 at two seconds each are 32 a
    /// second at the slowest, and no more connections than that at the server.
    pub concurrent: u32,
}

impl Default for RawIntrospection {
    fn default() -> Self {
        Self {
            url: None,
            client_id: None,
            client_secret: None,
            client_secret_file: None,
            authentication: RawClientAuthentication::Basic,
            ca: None,
            timeout: Time::seconds(2),
            cache_ttl: Time::seconds(30),
            negative_ttl: Time::seconds(5),
            concurrent: 64,
        }
    }
}

/// A service that knows the credentials of an HTTP scheme which the gateway does not. It gets a GET with the caller's
/// `Authorization` field as it came, `X-Forwarded-Method` and `X-Forwarded-Uri` (the path alone), and nothing else of the
/// request. 200 with a JSON object admits the caller that `sub` names; 401 and 403 refuse; all else is no answer.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "CredentialCheck", extend("required" = ["url"]))]
pub struct RawCheck {
    /// URL of the service: `https`, or `http` on a loopback address, because every credential goes there.
    pub url: Option<String>,
    /// PEM file with the CA certificates for `url`, instead of the system's.
    pub ca: Option<String>,
    /// For one question, connecting included; then the caller is told to come again. Two seconds: a service that works answers
    /// in some milliseconds, and callers wait meanwhile.
    pub timeout: Time,
    /// How long a credential that was good is taken without another question, for the same method and path. `0s` asks about
    /// every request: what many schemes send is good once only, which nobody but the service can tell.
    pub cache_ttl: Time,
    /// How long a credential that was refused is refused without another question. 5 s: a wrong one that is sent again and
    /// again costs little.
    pub negative_ttl: Time,
    /// Most questions under way; callers who would need one more are told to come again. 64 at two seconds each are 32 a
    /// second at the slowest, and no more connections than that at the service.
    pub concurrent: u32,
}

impl Default for RawCheck {
    fn default() -> Self {
        Self {
            url: None,
            ca: None,
            timeout: Time::seconds(2),
            cache_ttl: Time::seconds(0),
            negative_ttl: Time::seconds(5),
            concurrent: 64,
        }
    }
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
