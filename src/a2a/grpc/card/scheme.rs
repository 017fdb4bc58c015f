//! Security schemes and what requires them: one message for both generations, whose JSON differs.
//!
//! The protobuf form has one OAuth flow a scheme in both generations; of several the first one written is kept, as in
//! `a2a::card`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::is_default;

/// As 1.0 writes it: a member that says which it is.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
pub(super) struct Scheme {
    #[prost(oneof = "Kind", tags = "1, 2, 3, 4, 5")]
    #[serde(flatten)]
    kind: Option<Kind>,
}

/// As 0.3 writes it: told apart by `type`.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
#[serde(from = "Typed", into = "Typed")]
pub(super) struct OldScheme {
    #[prost(oneof = "Kind", tags = "1, 2, 3, 4, 5")]
    kind: Option<Kind>,
}

#[derive(Clone, PartialEq, prost::Oneof, Serialize, Deserialize)]
enum Kind {
    #[prost(message, tag = "1")]
    #[serde(rename = "apiKeySecurityScheme")]
    ApiKey(ApiKey),
    #[prost(message, tag = "2")]
    #[serde(rename = "httpAuthSecurityScheme")]
    Http(HttpAuth),
    #[prost(message, tag = "3")]
    #[serde(rename = "oauth2SecurityScheme")]
    OAuth2(OAuth2),
    #[prost(message, tag = "4")]
    #[serde(rename = "openIdConnectSecurityScheme")]
    OpenIdConnect(OpenIdConnect),
    #[prost(message, tag = "5")]
    #[serde(rename = "mtlsSecurityScheme")]
    MutualTls(MutualTls),
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
#[serde(default)]
struct ApiKey {
    #[prost(string, tag = "1")]
    #[serde(skip_serializing_if = "is_default")]
    description: String,
    /// `in` in 0.3.
    #[prost(string, tag = "2")]
    location: String,
    #[prost(string, tag = "3")]
    name: String,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct HttpAuth {
    #[prost(string, tag = "1")]
    #[serde(skip_serializing_if = "is_default")]
    description: String,
    #[prost(string, tag = "2")]
    scheme: String,
    #[prost(string, tag = "3")]
    #[serde(skip_serializing_if = "is_default")]
    bearer_format: String,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
#[serde(default)]
struct OAuth2 {
    #[prost(string, tag = "1")]
    #[serde(skip_serializing_if = "is_default")]
    description: String,
    #[prost(message, required, tag = "2")]
    flows: Flows,
    #[prost(string, tag = "3")]
    #[serde(rename = "oauth2MetadataUrl", skip_serializing_if = "is_default")]
    metadata_url: String,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct OpenIdConnect {
    #[prost(string, tag = "1")]
    #[serde(skip_serializing_if = "is_default")]
    description: String,
    #[prost(string, tag = "2")]
    open_id_connect_url: String,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
#[serde(default)]
struct MutualTls {
    #[prost(string, tag = "1")]
    #[serde(skip_serializing_if = "is_default")]
    description: String,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
#[serde(from = "Map<String, Value>")]
struct Flows {
    #[prost(oneof = "Flow", tags = "1, 2, 3, 4, 5")]
    #[serde(flatten)]
    flow: Option<Flow>,
}

#[derive(Clone, PartialEq, prost::Oneof, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Flow {
    #[prost(message, tag = "1")]
    AuthorizationCode(AuthorizationCode),
    #[prost(message, tag = "2")]
    ClientCredentials(TokenFlow),
    #[prost(message, tag = "3")]
    Implicit(Implicit),
    #[prost(message, tag = "4")]
    Password(TokenFlow),
    /// Not in 0.3.
    #[prost(message, tag = "5")]
    DeviceCode(DeviceCode),
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct AuthorizationCode {
    #[prost(string, tag = "1")]
    authorization_url: String,
    #[prost(string, tag = "2")]
    token_url: String,
    #[prost(string, tag = "3")]
    #[serde(skip_serializing_if = "is_default")]
    refresh_url: String,
    #[prost(btree_map = "string, string", tag = "4")]
    scopes: BTreeMap<String, String>,
    /// Not in 0.3.
    #[prost(bool, tag = "5")]
    #[serde(skip_serializing_if = "is_default")]
    pkce_required: bool,
}

/// `ClientCredentialsOAuthFlow` and `PasswordOAuthFlow`.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct TokenFlow {
    #[prost(string, tag = "1")]
    token_url: String,
    #[prost(string, tag = "2")]
    #[serde(skip_serializing_if = "is_default")]
    refresh_url: String,
    #[prost(btree_map = "string, string", tag = "3")]
    scopes: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Implicit {
    #[prost(string, tag = "1")]
    authorization_url: String,
    #[prost(string, tag = "2")]
    #[serde(skip_serializing_if = "is_default")]
    refresh_url: String,
    #[prost(btree_map = "string, string", tag = "3")]
    scopes: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct DeviceCode {
    #[prost(string, tag = "1")]
    device_authorization_url: String,
    #[prost(string, tag = "2")]
    token_url: String,
    #[prost(string, tag = "3")]
    #[serde(skip_serializing_if = "is_default")]
    refresh_url: String,
    #[prost(btree_map = "string, string", tag = "4")]
    scopes: BTreeMap<String, String>,
}

impl From<Map<String, Value>> for Flows {
    /// The first one that is a flow.
    fn from(flows: Map<String, Value>) -> Self {
        let mut flows = flows.into_iter().map(|flow| Value::Object(Map::from_iter([flow])));
        Self {
            flow: flows.find_map(|flow| serde_json::from_value(flow).ok()),
        }
    }
}

/// The schemes of 0.3 in JSON.
#[derive(Clone, Serialize, Deserialize)]
#[serde(untagged)]
enum Typed {
    Known(TypedKind),
    /// A type that is not known, or no scheme in the message.
    Unknown {},
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase")]
enum TypedKind {
    ApiKey {
        #[serde(default, skip_serializing_if = "is_default")]
        description: String,
        #[serde(default, rename = "in")]
        location: String,
        #[serde(default)]
        name: String,
    },
    Http(HttpAuth),
    #[serde(rename = "oauth2")]
    OAuth2(OAuth2),
    OpenIdConnect(OpenIdConnect),
    #[serde(rename = "mutualTLS")]
    MutualTls(MutualTls),
}

impl From<Typed> for OldScheme {
    fn from(typed: Typed) -> Self {
        let Typed::Known(typed) = typed else {
            return Self { kind: None };
        };
        let kind = match typed {
            TypedKind::ApiKey {
                description,
                location,
                name,
            } => Kind::ApiKey(ApiKey {
                description,
                location,
                name,
            }),
            TypedKind::Http(scheme) => Kind::Http(scheme),
            TypedKind::OAuth2(mut scheme) => {
                scheme.flows.drop_new();
                Kind::OAuth2(scheme)
            }
            TypedKind::OpenIdConnect(scheme) => Kind::OpenIdConnect(scheme),
            TypedKind::MutualTls(scheme) => Kind::MutualTls(scheme),
        };
        Self { kind: Some(kind) }
    }
}

impl From<OldScheme> for Typed {
    fn from(scheme: OldScheme) -> Self {
        let Some(kind) = scheme.kind else {
            return Self::Unknown {};
        };
        Self::Known(match kind {
            Kind::ApiKey(ApiKey {
                description,
                location,
                name,
            }) => TypedKind::ApiKey {
                description,
                location,
                name,
            },
            Kind::Http(scheme) => TypedKind::Http(scheme),
            Kind::OAuth2(mut scheme) => {
                scheme.flows.drop_new();
                TypedKind::OAuth2(scheme)
            }
            Kind::OpenIdConnect(scheme) => TypedKind::OpenIdConnect(scheme),
            Kind::MutualTls(scheme) => TypedKind::MutualTls(scheme),
        })
    }
}

impl Flows {
    /// What 0.3 does not have.
    fn drop_new(&mut self) {
        match &mut self.flow {
            Some(Flow::DeviceCode(_)) => self.flow = None,
            Some(Flow::AuthorizationCode(flow)) => flow.pkce_required = false,
            Some(Flow::ClientCredentials(_) | Flow::Implicit(_) | Flow::Password(_)) | None => {}
        }
    }
}

/// Schemes that are all required, with their scopes, as 1.0 writes them. Other members are refused: what is left without
/// them would let anybody in.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Requirement {
    #[prost(btree_map = "string, message", tag = "1")]
    schemes: BTreeMap<String, Scopes>,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Scopes {
    #[prost(string, repeated, tag = "1")]
    #[serde(skip_serializing_if = "is_default")]
    list: Vec<String>,
}

/// As 0.3 writes them.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
#[serde(from = "Plain", into = "Plain")]
pub(super) struct OldRequirement {
    #[prost(btree_map = "string, message", tag = "1")]
    schemes: BTreeMap<String, Scopes>,
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Plain {
    Plain(BTreeMap<String, Vec<String>>),
    /// Of 1.0, as some SDKs write it in a card of 0.3.
    Wrapped(Requirement),
}

impl From<Plain> for OldRequirement {
    fn from(plain: Plain) -> Self {
        let schemes = match plain {
            Plain::Plain(schemes) => schemes
                .into_iter()
                .map(|(name, list)| (name, Scopes { list }))
                .collect(),
            Plain::Wrapped(requirement) => requirement.schemes,
        };
        Self { schemes }
    }
}

impl From<OldRequirement> for Plain {
    fn from(requirement: OldRequirement) -> Self {
        let schemes = requirement.schemes.into_iter();
        Self::Plain(schemes.map(|(name, scopes)| (name, scopes.list)).collect())
    }
}
