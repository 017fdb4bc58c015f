//! The members of cards that readers with a schema know: of A2A 1.0 as `a2a.proto` has them, of 0.3 as its JSON Schema does.

use Kind::{Flag, Free, List, Map, Object, Schemes, Text, Texts, TextsMap};
use Presence::{Explicit, Implicit, Required};
use serde_json::{Value, json};

pub struct Schema(pub &'static [Member]);

pub struct Member {
    /// In lowerCamelCase.
    pub name: &'static str,
    pub presence: Presence,
    pub kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    Required,
    /// What is set is told from what is not, also at its default.
    Explicit,
    /// Its default counts as absent.
    Implicit,
    /// So does this text.
    Default(&'static str),
    /// Said by nothing but its place.
    Never,
}

#[derive(Clone, Copy)]
pub enum Kind {
    Text,
    Flag,
    Texts,
    /// A map of texts.
    TextsMap,
    Object(&'static Schema),
    List(&'static Schema),
    Map(&'static Schema),
    /// What nobody's schema looks into.
    Free,
    /// Security schemes of 0.3 by their names, each with the members that its `type` says.
    Schemes,
}

impl Kind {
    /// What a required member is that is absent. `None`: an object, of which nothing can be said.
    pub fn default(self) -> Option<Value> {
        match self {
            Text => Some(json!("")),
            Flag => Some(json!(false)),
            Texts | List(_) => Some(json!([])),
            TextsMap | Map(_) | Schemes => Some(json!({})),
            Object(_) | Free => None,
        }
    }
}

const fn member(name: &'static str, presence: Presence, kind: Kind) -> Member {
    Member { name, presence, kind }
}

pub static V1_0: Schema = Schema(&[
    member("name", Required, Text),
    member("description", Required, Text),
    member("supportedInterfaces", Required, List(&INTERFACE)),
    member("provider", Explicit, Object(&PROVIDER)),
    member("version", Required, Text),
    member("documentationUrl", Explicit, Text),
    member("capabilities", Required, Object(&CAPABILITIES)),
    member("securitySchemes", Implicit, Map(&SCHEME)),
    member("securityRequirements", Implicit, List(&REQUIREMENT)),
    member("defaultInputModes", Required, Texts),
    member("defaultOutputModes", Required, Texts),
    member("skills", Required, List(&SKILL)),
    member("iconUrl", Explicit, Text),
]);

static INTERFACE: Schema = Schema(&[
    member("url", Required, Text),
    member("protocolBinding", Required, Text),
    member("tenant", Implicit, Text),
    member("protocolVersion", Required, Text),
]);

static PROVIDER: Schema = Schema(&[member("url", Required, Text), member("organization", Required, Text)]);

static CAPABILITIES: Schema = Schema(&[
    member("streaming", Explicit, Flag),
    member("pushNotifications", Explicit, Flag),
    member("extensions", Implicit, List(&EXTENSION)),
    member("extendedAgentCard", Explicit, Flag),
]);

static EXTENSION: Schema = Schema(&[
    member("uri", Implicit, Text),
    member("description", Implicit, Text),
    member("required", Implicit, Flag),
    member("params", Explicit, Free),
]);

static SCHEME: Schema = Schema(&[
    member("apiKeySecurityScheme", Explicit, Object(&API_KEY)),
    member("httpAuthSecurityScheme", Explicit, Object(&HTTP_AUTH)),
    member("oauth2SecurityScheme", Explicit, Object(&OAUTH2)),
    member("openIdConnectSecurityScheme", Explicit, Object(&OPEN_ID_CONNECT)),
    member("mtlsSecurityScheme", Explicit, Object(&DESCRIBED)),
]);

static API_KEY: Schema = Schema(&[
    member("description", Implicit, Text),
    member("location", Required, Text),
    member("name", Required, Text),
]);

static HTTP_AUTH: Schema = Schema(&[
    member("description", Implicit, Text),
    member("scheme", Required, Text),
    member("bearerFormat", Implicit, Text),
]);

static OAUTH2: Schema = Schema(&[
    member("description", Implicit, Text),
    member("flows", Required, Object(&FLOWS)),
    member("oauth2MetadataUrl", Implicit, Text),
]);

static OPEN_ID_CONNECT: Schema = Schema(&[
    member("description", Implicit, Text),
    member("openIdConnectUrl", Required, Text),
]);

static DESCRIBED: Schema = Schema(&[member("description", Implicit, Text)]);

static FLOWS: Schema = Schema(&[
    member("authorizationCode", Explicit, Object(&AUTHORIZATION_CODE)),
    member("clientCredentials", Explicit, Object(&CLIENT_CREDENTIALS)),
    member("implicit", Explicit, Object(&IMPLICIT)),
    member("password", Explicit, Object(&PASSWORD)),
    member("deviceCode", Explicit, Object(&DEVICE_CODE)),
]);

static AUTHORIZATION_CODE: Schema = Schema(&[
    member("authorizationUrl", Required, Text),
    member("tokenUrl", Required, Text),
    member("refreshUrl", Implicit, Text),
    member("scopes", Required, TextsMap),
    member("pkceRequired", Implicit, Flag),
]);

static CLIENT_CREDENTIALS: Schema = Schema(&[
    member("tokenUrl", Required, Text),
    member("refreshUrl", Implicit, Text),
    member("scopes", Required, TextsMap),
]);

static IMPLICIT: Schema = Schema(&[
    member("authorizationUrl", Implicit, Text),
    member("refreshUrl", Implicit, Text),
    member("scopes", Implicit, TextsMap),
]);

static PASSWORD: Schema = Schema(&[
    member("tokenUrl", Implicit, Text),
    member("refreshUrl", Implicit, Text),
    member("scopes", Implicit, TextsMap),
]);

static DEVICE_CODE: Schema = Schema(&[
    member("deviceAuthorizationUrl", Required, Text),
    member("tokenUrl", Required, Text),
    member("refreshUrl", Implicit, Text),
    member("scopes", Required, TextsMap),
]);

static REQUIREMENT: Schema = Schema(&[member("schemes", Implicit, Map(&SCOPES))]);

static SCOPES: Schema = Schema(&[member("list", Implicit, Texts)]);

static SKILL: Schema = Schema(&[
    member("id", Required, Text),
    member("name", Required, Text),
    member("description", Required, Text),
    member("tags", Required, Texts),
    member("examples", Implicit, Texts),
    member("inputModes", Implicit, Texts),
    member("outputModes", Implicit, Texts),
    member("securityRequirements", Implicit, List(&REQUIREMENT)),
]);

pub static V0_3: Schema = Schema(&[
    member("additionalInterfaces", Explicit, List(&INTERFACE_0_3)),
    member("capabilities", Required, Object(&CAPABILITIES_0_3)),
    member("defaultInputModes", Required, Texts),
    member("defaultOutputModes", Required, Texts),
    member("description", Required, Text),
    member("documentationUrl", Explicit, Text),
    member("iconUrl", Explicit, Text),
    member("name", Required, Text),
    member("preferredTransport", Presence::Default("JSONRPC"), Text),
    member("protocolVersion", Presence::Default("0.3.0"), Text),
    member("provider", Explicit, Object(&PROVIDER)),
    member("security", Explicit, Free),
    member("securitySchemes", Explicit, Schemes),
    member("skills", Required, List(&SKILL_0_3)),
    member("supportsAuthenticatedExtendedCard", Explicit, Flag),
    member("url", Required, Text),
    member("version", Required, Text),
]);

static INTERFACE_0_3: Schema = Schema(&[member("transport", Required, Text), member("url", Required, Text)]);

static CAPABILITIES_0_3: Schema = Schema(&[
    member("extensions", Explicit, List(&EXTENSION_0_3)),
    member("pushNotifications", Explicit, Flag),
    member("stateTransitionHistory", Explicit, Flag),
    member("streaming", Explicit, Flag),
]);

static EXTENSION_0_3: Schema = Schema(&[
    member("description", Explicit, Text),
    member("params", Explicit, Free),
    member("required", Explicit, Flag),
    member("uri", Required, Text),
]);

/// By its `type`; `None` for one that 0.3 does not have.
pub fn scheme_0_3(kind: &str) -> Option<&'static Schema> {
    Some(match kind {
        "apiKey" => &API_KEY_0_3,
        "http" => &HTTP_AUTH_0_3,
        "oauth2" => &OAUTH2_0_3,
        "openIdConnect" => &OPEN_ID_CONNECT_0_3,
        "mutualTLS" => &MUTUAL_TLS_0_3,
        _ => return None,
    })
}

static API_KEY_0_3: Schema = Schema(&[
    member("description", Explicit, Text),
    member("in", Required, Text),
    member("name", Required, Text),
    member("type", Presence::Never, Text),
]);

static HTTP_AUTH_0_3: Schema = Schema(&[
    member("bearerFormat", Explicit, Text),
    member("description", Explicit, Text),
    member("scheme", Required, Text),
    member("type", Presence::Never, Text),
]);

static OAUTH2_0_3: Schema = Schema(&[
    member("description", Explicit, Text),
    member("flows", Required, Object(&FLOWS_0_3)),
    member("oauth2MetadataUrl", Explicit, Text),
    member("type", Presence::Never, Text),
]);

static OPEN_ID_CONNECT_0_3: Schema = Schema(&[
    member("description", Explicit, Text),
    member("openIdConnectUrl", Required, Text),
    member("type", Presence::Never, Text),
]);

static MUTUAL_TLS_0_3: Schema = Schema(&[
    member("description", Explicit, Text),
    member("type", Presence::Never, Text),
]);

static FLOWS_0_3: Schema = Schema(&[
    member("authorizationCode", Explicit, Object(&FLOW_0_3)),
    member("clientCredentials", Explicit, Object(&TOKEN_FLOW_0_3)),
    member("implicit", Explicit, Object(&IMPLICIT_0_3)),
    member("password", Explicit, Object(&TOKEN_FLOW_0_3)),
]);

static FLOW_0_3: Schema = Schema(&[
    member("authorizationUrl", Required, Text),
    member("refreshUrl", Explicit, Text),
    member("scopes", Required, TextsMap),
    member("tokenUrl", Required, Text),
]);

static TOKEN_FLOW_0_3: Schema = Schema(&[
    member("refreshUrl", Explicit, Text),
    member("scopes", Required, TextsMap),
    member("tokenUrl", Required, Text),
]);

static IMPLICIT_0_3: Schema = Schema(&[
    member("authorizationUrl", Required, Text),
    member("refreshUrl", Explicit, Text),
    member("scopes", Required, TextsMap),
]);

static SKILL_0_3: Schema = Schema(&[
    member("description", Required, Text),
    member("examples", Explicit, Texts),
    member("id", Required, Text),
    member("inputModes", Explicit, Texts),
    member("name", Required, Text),
    member("outputModes", Explicit, Texts),
    member("security", Explicit, Free),
    member("tags", Required, Texts),
]);
