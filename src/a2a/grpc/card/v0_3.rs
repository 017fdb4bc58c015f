//! The card of 0.3, whose JSON differs from its message in the security schemes and in what requires them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::scheme::{OldRequirement, OldScheme};
use super::{Extension, Provider, Signature, is_default};

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Card {
    #[prost(string, tag = "16")]
    protocol_version: String,
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    description: String,
    #[prost(string, tag = "3")]
    url: String,
    #[prost(string, tag = "14")]
    #[serde(skip_serializing_if = "is_default")]
    preferred_transport: String,
    #[prost(message, repeated, tag = "15")]
    #[serde(skip_serializing_if = "is_default")]
    additional_interfaces: Vec<Interface>,
    /// Not in the protocol's own definition, but in those of the SDKs.
    #[prost(string, tag = "18")]
    #[serde(skip_serializing_if = "is_default")]
    icon_url: String,
    #[prost(message, optional, tag = "4")]
    #[serde(skip_serializing_if = "is_default")]
    provider: Option<Provider>,
    #[prost(string, tag = "5")]
    version: String,
    #[prost(string, tag = "6")]
    #[serde(skip_serializing_if = "is_default")]
    documentation_url: String,
    #[prost(message, required, tag = "7")]
    capabilities: Capabilities,
    #[prost(btree_map = "string, message", tag = "8")]
    #[serde(skip_serializing_if = "is_default")]
    security_schemes: BTreeMap<String, OldScheme>,
    #[prost(message, repeated, tag = "9")]
    #[serde(skip_serializing_if = "is_default")]
    security: Vec<OldRequirement>,
    #[prost(string, repeated, tag = "10")]
    default_input_modes: Vec<String>,
    #[prost(string, repeated, tag = "11")]
    default_output_modes: Vec<String>,
    #[prost(message, repeated, tag = "12")]
    skills: Vec<Skill>,
    #[prost(bool, tag = "13")]
    #[serde(skip_serializing_if = "is_default")]
    supports_authenticated_extended_card: bool,
    #[prost(message, repeated, tag = "17")]
    #[serde(skip_serializing_if = "is_default")]
    signatures: Vec<Signature>,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
#[serde(default)]
struct Interface {
    #[prost(string, tag = "1")]
    url: String,
    #[prost(string, tag = "2")]
    transport: String,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Capabilities {
    #[prost(bool, tag = "1")]
    streaming: bool,
    #[prost(bool, tag = "2")]
    push_notifications: bool,
    #[prost(message, repeated, tag = "3")]
    #[serde(skip_serializing_if = "is_default")]
    extensions: Vec<Extension>,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Skill {
    #[prost(string, tag = "1")]
    id: String,
    #[prost(string, tag = "2")]
    name: String,
    #[prost(string, tag = "3")]
    description: String,
    #[prost(string, repeated, tag = "4")]
    tags: Vec<String>,
    #[prost(string, repeated, tag = "5")]
    #[serde(skip_serializing_if = "is_default")]
    examples: Vec<String>,
    #[prost(string, repeated, tag = "6")]
    #[serde(skip_serializing_if = "is_default")]
    input_modes: Vec<String>,
    #[prost(string, repeated, tag = "7")]
    #[serde(skip_serializing_if = "is_default")]
    output_modes: Vec<String>,
    #[prost(message, repeated, tag = "8")]
    #[serde(skip_serializing_if = "is_default")]
    security: Vec<OldRequirement>,
}
