//! What the gateway shows agents, of itself and of callers, as users write it.

use schemars::JsonSchema;
use serde::Deserialize;

use super::super::units::{SecretText, Time};
use super::List;

/// What the gateway shows the agent; exactly one of the five.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Credential")]
pub struct RawCredential {
    /// A header with a fixed value.
    pub header: Option<RawHeaderCredential>,
    /// `Authorization: Bearer`.
    pub bearer: Option<RawBearerCredential>,
    /// `Authorization: Basic`.
    pub basic: Option<RawBasicCredential>,
    /// `Authorization: Bearer` with a token that the gateway gets for itself from a token server (OAuth 2.0 client credentials,
    /// RFC 6749 §4.4). Got in time before the last one ends; without one nothing is sent to the agent.
    pub client_credentials: Option<RawClientCredentials>,
    /// `Authorization: Bearer` with a token that a token server gives for the caller's (OAuth 2.0 token exchange, RFC 8693).
    /// Callers who show no bearer token are refused; what the gateway asks for no caller, health checks and cards, goes
    /// without a credential.
    pub token_exchange: Option<RawTokenExchange>,
}

/// A header with a fixed value.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "HeaderCredential", extend("required" = ["name"]))]
pub struct RawHeaderCredential {
    /// Name of the header.
    pub name: Option<String>,
    /// Its value; from the environment with `${NAME}`. Either this or `value_file`.
    pub value: Option<SecretText>,
    /// File with its value; one newline at the end is dropped. Read again when it changes.
    pub value_file: Option<String>,
}

/// A bearer token.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "BearerCredential")]
pub struct RawBearerCredential {
    /// The token; from the environment with `${NAME}`. Either this or `token_file`.
    pub token: Option<SecretText>,
    /// File with the token; one newline at the end is dropped. Read again when it changes.
    pub token_file: Option<String>,
}

/// A user name and password.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "BasicCredential", extend("required" = ["username"]))]
pub struct RawBasicCredential {
    /// The user name; without a colon.
    pub username: Option<String>,
    /// The password; from the environment with `${NAME}`. Either this or `password_file`.
    pub password: Option<SecretText>,
    /// File with the password; one newline at the end is dropped. Read again when it changes.
    pub password_file: Option<String>,
}

/// A token for the gateway itself (OAuth 2.0 client credentials, RFC 6749 §4.4).
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "ClientCredentials", extend("required" = ["token_url", "client_id"]))]
pub struct RawClientCredentials {
    /// Where tokens are asked for. https, because the secret and the token go there; http only on a loopback address. No redirect
    /// is followed.
    pub token_url: Option<String>,
    /// The gateway's id at the token server.
    pub client_id: Option<String>,
    /// Its secret; from the environment with `${NAME}`. Either this or `client_secret_file`.
    pub client_secret: Option<SecretText>,
    /// File with its secret; one newline at the end is dropped. Read again when it changes, and a token is got with it at once.
    pub client_secret_file: Option<String>,
    /// How id and secret are shown: `basic`, in `Authorization`, or `post`, in the body. `basic`, which every server must take
    /// (RFC 6749 §2.3.1).
    pub authentication: RawClientAuthentication,
    /// The scopes to ask for; the server's own choice by default.
    pub scopes: List<String>,
    /// For whom the token is, where the server goes by `audience`.
    pub audience: Option<String>,
    /// For which resource the token is, an absolute URI (RFC 8707).
    pub resource: Option<String>,
    /// PEM file with CA certificates to believe at `token_url` instead of the system's. Read again when it changes.
    pub ca: Option<String>,
    /// For one request, connecting included; calls wait as long at most while there is no token. Ten seconds, as for key sets.
    pub timeout: Time,
    /// How long a token is used of which the server does not say how long it holds (`expires_in`). Five minutes, the shortest
    /// that servers usually give.
    pub default_lifetime: Time,
    /// Least time between two requests for a token because the agent answered 401: an agent that refuses every token, or a
    /// caller who makes it do so, must not load the token server.
    pub cooldown: Time,
}

impl Default for RawClientCredentials {
    fn default() -> Self {
        Self {
            token_url: None,
            client_id: None,
            client_secret: None,
            client_secret_file: None,
            authentication: RawClientAuthentication::Basic,
            scopes: List::default(),
            audience: None,
            resource: None,
            ca: None,
            timeout: Time::seconds(10),
            default_lifetime: Time::seconds(5 * 60),
            cooldown: Time::seconds(10),
        }
    }
}

/// A token for each caller, for the one that it showed (OAuth 2.0 token exchange, RFC 8693).
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "TokenExchange", extend("required" = ["token_url", "client_id"]))]
pub struct RawTokenExchange {
    /// Where tokens are exchanged. https, because tokens go there; http only on a loopback address. No redirect is followed.
    pub token_url: Option<String>,
    /// The gateway's id at the token server.
    pub client_id: Option<String>,
    /// Its secret; from the environment with `${NAME}`. Either this or `client_secret_file`.
    pub client_secret: Option<SecretText>,
    /// File with its secret; one newline at the end is dropped. Read again when it changes.
    pub client_secret_file: Option<String>,
    /// How id and secret are shown: `basic`, in `Authorization`, or `post`, in the body. `basic`, which every server must take
    /// (RFC 6749 §2.3.1).
    pub authentication: RawClientAuthentication,
    /// The scopes to ask for; the server's own choice by default.
    pub scopes: List<String>,
    /// The logical name of the agent at the token server (RFC 8693 §2.1).
    pub audience: Option<String>,
    /// The URI of the agent at the token server, absolute (RFC 8693 §2.1).
    pub resource: Option<String>,
    /// The type of token to ask for, a URI, e.g. `urn:ietf:params:oauth:token-type:jwt`. The server's own choice by default;
    /// only access tokens and JWTs are taken then.
    pub requested_token_type: Option<String>,
    /// PEM file with CA certificates to believe at `token_url` instead of the system's. Read again when it changes.
    pub ca: Option<String>,
    /// For one exchange, connecting included; the call waits as long at most. Ten seconds, as for key sets.
    pub timeout: Time,
    /// How long a token is used of which the server does not say how long it holds (`expires_in`). Five minutes, the shortest
    /// that servers usually give. No token is used longer than the caller's own holds.
    pub default_lifetime: Time,
    /// Least time between two exchanges of one token because the agent answered 401.
    pub cooldown: Time,
    /// How long it is remembered that the server refused a caller's token: its calls are refused meanwhile. Short, because a
    /// right may be given at any moment; long enough that a caller who tries without pause does not load the server.
    pub refused_for: Time,
    /// Most exchanges under way; calls beyond are told to come again. One caller has at most half of them, rounded up. Enough for
    /// 640 new callers a second at a server that takes a tenth of a second.
    pub concurrent: u32,
    /// Most tokens kept; beyond, those that were used least recently go, and are got again when they are needed. About 2 KiB each.
    pub tokens: u32,
}

impl Default for RawTokenExchange {
    fn default() -> Self {
        Self {
            token_url: None,
            client_id: None,
            client_secret: None,
            client_secret_file: None,
            authentication: RawClientAuthentication::Basic,
            scopes: List::default(),
            audience: None,
            resource: None,
            requested_token_type: None,
            ca: None,
            timeout: Time::seconds(10),
            default_lifetime: Time::seconds(5 * 60),
            cooldown: Time::seconds(10),
            refused_for: Time::seconds(10),
            concurrent: 64,
            tokens: 10_000,
        }
    }
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum RawClientAuthentication {
    Basic,
    Post,
}

/// Tells the agent who calls, by a token that the gateway signs for each call of a caller who is known.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "UpstreamAssertion")]
pub struct RawUpstreamAssertion {
    /// The header that it stands in, alone. Callers never get a header of this name through, to whatever agent.
    pub header: String,
    /// For whom it is (`aud`). By default the origin of the endpoint's URL, e.g. `https://10.0.0.11:9443`: no other server takes
    /// it then. Set it where the agent does not know under which address the gateway calls it.
    pub audience: Option<String>,
    /// How long it holds. A minute: it is made for one call and looked at when the call comes, clocks that differ a little
    /// included; never longer than the caller's own credential.
    pub lifetime: Time,
    /// Names of claims of the caller's token, or `attributes` of its key or user, to pass on under `attributes`. None by
    /// default: the agent learns what it is meant to.
    pub claims: List<String>,
}

impl Default for RawUpstreamAssertion {
    fn default() -> Self {
        Self {
            header: "A2A-Gateway-Assertion".to_owned(),
            audience: None,
            lifetime: Time::seconds(60),
            claims: List::default(),
        }
    }
}

/// How the gateway signs what it tells agents of callers (`agents[].upstream.assertion`). Whoever checks it finds the public
/// keys at `/.well-known/jwks.json` of every listener (RFC 7517).
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Assertions")]
pub struct RawAssertions {
    /// Who signs (`iss`); `public_url` by default.
    pub issuer: Option<String>,
    /// The first signs, the public halves of all of them are published. None by default: then nothing is published. To change a
    /// key, put the new one behind the old one, wait until nobody has an older set (`max_age`), put it before the old one, and
    /// take the old one away after the longest `lifetime`.
    pub keys: List<RawSigningKey>,
    /// How long others may keep the set of public keys (`Cache-Control: max-age`).
    pub max_age: Time,
}

impl Default for RawAssertions {
    fn default() -> Self {
        Self {
            issuer: None,
            keys: List::default(),
            max_age: Time::seconds(5 * 60),
        }
    }
}

/// How the gateway signs the cards that it publishes. Whoever checks them finds the public keys at `/.well-known/jwks.json` of
/// every listener, together with those of `assertions` (RFC 7517, A2A 1.0 §8.4).
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "CardSignatures")]
pub struct RawCardSignatures {
    /// The first of each algorithm signs, the public halves of all of them are published. None by default: then cards are
    /// published without signatures. To change a key, put the new one behind the old one, wait until nobody has an older set
    /// (`assertions.max_age`), put it before the old one, and take the old one away when nobody keeps a card that it signed
    /// (`agents[].card.max_age`).
    pub keys: List<RawSigningKey>,
}

/// A key that the gateway signs with.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "SigningKey", extend("required" = ["private_key"]))]
pub struct RawSigningKey {
    /// PEM file with a private key on the curve P-256 (signs by ES256), of Ed25519 (EdDSA) or, for cards alone, of RSA from 2048
    /// bits (RS256). Read again when it changes.
    pub private_key: Option<String>,
    /// Its `kid`; by default its thumbprint (RFC 7638).
    pub id: Option<String>,
}
