//! Security schemes in both forms: told apart by `type` in 0.2 and 0.3, by a wrapper member in 1.0.
//!
//! Lossy in one place. A 1.0 scheme has exactly one OAuth flow; of several, the first one written is published there,
//! so that whoever writes the scheme decides which. All of them are published in the 0.3 form, except the device flow,
//! which 0.3 does not have. Splitting a scheme instead would publish names that nothing else knows.

use serde_json::{Map, Value};

use super::requirement::one_member;
use crate::a2a::Generation;

/// A security scheme as cards describe it: nothing of how it is verified.
#[derive(Clone, Debug, PartialEq)]
pub struct SchemeForm {
    pub description: Option<String>,
    pub kind: SchemeFormKind,
}

#[derive(Clone, Debug, PartialEq)]
pub enum SchemeFormKind {
    ApiKey {
        place: KeyPlace,
        name: String,
    },
    HttpBearer {
        bearer_format: Option<String>,
    },
    HttpBasic,
    /// Any other HTTP scheme by its name.
    HttpOther {
        scheme: String,
    },
    OAuth2 {
        /// The `flows` object, in the order in which it was written.
        flows: Map<String, Value>,
        metadata_url: Option<String>,
    },
    OpenIdConnect {
        url: String,
    },
    MutualTls,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyPlace {
    Header,
    Query,
    Cookie,
}

/// The flows that 1.0 knows; `deviceCode` is not in 0.3.
const FLOWS: [&str; 5] = [
    "authorizationCode",
    "clientCredentials",
    DEVICE_FLOW,
    "implicit",
    "password",
];
const DEVICE_FLOW: &str = "deviceCode";

impl KeyPlace {
    fn as_str(self) -> &'static str {
        match self {
            Self::Header => "header",
            Self::Query => "query",
            Self::Cookie => "cookie",
        }
    }

    fn read(text: &str) -> Option<Self> {
        [Self::Header, Self::Query, Self::Cookie]
            .into_iter()
            .find(|place| place.as_str() == text)
    }
}

impl SchemeForm {
    /// The scheme in the forms of these generations, side by side in one object.
    pub(super) fn write(&self, forms: &[Generation]) -> Value {
        let mut members = Map::new();
        if forms.contains(&Generation::V0_3) {
            members.insert("type".to_owned(), Value::from(self.type_name()));
            members.extend(self.members(Generation::V0_3));
        }
        if forms.contains(&Generation::V1_0) {
            // An empty object (mutual TLS without a description) is a value and stays.
            let wrapped = Value::Object(self.members(Generation::V1_0));
            members.insert(self.wrapper().to_owned(), wrapped);
        }
        Value::Object(members)
    }

    /// Reads any known form, including the wrapper that JavaScript servers print (`scheme` with `$case`). `None`: unknown
    /// or incomplete.
    pub(super) fn read(value: &Value) -> Option<Self> {
        let members = value.as_object()?;
        if let Some(name) = text(members, "type") {
            return Self::read_kind(name, members);
        }
        if let Some(scheme) = members.get("scheme").and_then(Value::as_object) {
            let wrapper = text(scheme, "$case")?;
            let inner = scheme.get("value").or_else(|| scheme.get(wrapper))?;
            return Self::read_kind(type_of(wrapper)?, inner.as_object()?);
        }
        members
            .iter()
            .find_map(|(wrapper, inner)| Self::read_kind(type_of(wrapper)?, inner.as_object()?))
    }

    fn read_kind(type_name: &str, members: &Map<String, Value>) -> Option<Self> {
        let owned = |name: &str| text(members, name).map(str::to_owned);
        let kind = match type_name {
            "apiKey" => SchemeFormKind::ApiKey {
                place: KeyPlace::read(text(members, "in").or_else(|| text(members, "location"))?)?,
                name: owned("name")?,
            },
            // The name of an HTTP scheme has no case (RFC 9110 §11.1).
            "http" => match text(members, "scheme")?.to_ascii_lowercase().as_str() {
                "" => return None,
                "bearer" => SchemeFormKind::HttpBearer {
                    bearer_format: owned("bearerFormat").or_else(|| owned("bearer_format")),
                },
                "basic" => SchemeFormKind::HttpBasic,
                _ => SchemeFormKind::HttpOther {
                    scheme: owned("scheme")?,
                },
            },
            "oauth2" => SchemeFormKind::OAuth2 {
                flows: members.get("flows").and_then(Value::as_object)?.clone(),
                metadata_url: owned("oauth2MetadataUrl").or_else(|| owned("oauth2_metadata_url")),
            },
            "openIdConnect" => SchemeFormKind::OpenIdConnect {
                url: owned("openIdConnectUrl").or_else(|| owned("open_id_connect_url"))?,
            },
            "mutualTLS" => SchemeFormKind::MutualTls,
            _ => return None,
        };
        Some(Self {
            description: owned("description"),
            kind,
        })
    }

    fn type_name(&self) -> &'static str {
        match self.kind {
            SchemeFormKind::ApiKey { .. } => "apiKey",
            SchemeFormKind::HttpBearer { .. } | SchemeFormKind::HttpBasic | SchemeFormKind::HttpOther { .. } => "http",
            SchemeFormKind::OAuth2 { .. } => "oauth2",
            SchemeFormKind::OpenIdConnect { .. } => "openIdConnect",
            SchemeFormKind::MutualTls => "mutualTLS",
        }
    }

    fn wrapper(&self) -> &'static str {
        match self.kind {
            SchemeFormKind::ApiKey { .. } => "apiKeySecurityScheme",
            SchemeFormKind::HttpBearer { .. } | SchemeFormKind::HttpBasic | SchemeFormKind::HttpOther { .. } => {
                "httpAuthSecurityScheme"
            }
            SchemeFormKind::OAuth2 { .. } => "oauth2SecurityScheme",
            SchemeFormKind::OpenIdConnect { .. } => "openIdConnectSecurityScheme",
            SchemeFormKind::MutualTls => "mtlsSecurityScheme",
        }
    }

    fn members(&self, form: Generation) -> Map<String, Value> {
        let mut members = Map::new();
        let mut put = |name: &str, value: Value| {
            members.insert(name.to_owned(), value);
        };
        if let Some(description) = &self.description {
            put("description", Value::from(description.as_str()));
        }
        match &self.kind {
            SchemeFormKind::ApiKey { place, name } => {
                let place_member = match form {
                    Generation::V0_1 | Generation::V0_3 => "in",
                    Generation::V1_0 => "location",
                };
                put(place_member, Value::from(place.as_str()));
                put("name", Value::from(name.as_str()));
            }
            SchemeFormKind::HttpBearer { bearer_format } => {
                put("scheme", Value::from("bearer"));
                if let Some(format) = bearer_format {
                    put("bearerFormat", Value::from(format.as_str()));
                }
            }
            SchemeFormKind::HttpBasic => put("scheme", Value::from("basic")),
            SchemeFormKind::HttpOther { scheme } => put("scheme", Value::from(scheme.as_str())),
            SchemeFormKind::OAuth2 { flows, metadata_url } => {
                put("flows", published_flows(flows, form));
                if let Some(url) = metadata_url {
                    put("oauth2MetadataUrl", Value::from(url.as_str()));
                }
            }
            SchemeFormKind::OpenIdConnect { url } => {
                put("openIdConnectUrl", Value::from(url.as_str()));
            }
            SchemeFormKind::MutualTls => {}
        }
        members
    }
}

fn published_flows(flows: &Map<String, Value>, form: Generation) -> Value {
    let mut known = flows.iter().filter(|(name, _)| FLOWS.contains(&name.as_str()));
    match form {
        Generation::V0_1 | Generation::V0_3 => Value::Object(
            known
                .filter(|(name, _)| *name != DEVICE_FLOW)
                .map(|(name, flow)| (name.clone(), flow.clone()))
                .collect(),
        ),
        Generation::V1_0 => match known.next() {
            Some((name, flow)) => one_member(name, flow.clone()),
            None => Value::Object(Map::new()),
        },
    }
}

/// The `type` of 0.3 for a wrapper member of 1.0, in its lowerCamelCase or protobuf spelling.
fn type_of(wrapper: &str) -> Option<&'static str> {
    Some(match wrapper {
        "apiKeySecurityScheme" | "api_key_security_scheme" => "apiKey",
        "httpAuthSecurityScheme" | "http_auth_security_scheme" => "http",
        "oauth2SecurityScheme" | "oauth2_security_scheme" => "oauth2",
        "openIdConnectSecurityScheme" | "open_id_connect_security_scheme" => "openIdConnect",
        "mtlsSecurityScheme" | "mtls_security_scheme" => "mutualTLS",
        _ => return None,
    })
}

fn text<'a>(members: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    members
        .get(name)
        .and_then(Value::as_str)
        .filter(|text| !text.is_empty())
}
