//! The card of 1.0, whose JSON is the ProtoJSON of its message.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::scheme::{Requirement, Scheme};
use super::{Extension, Provider, Signature, is_default};

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Card {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    description: String,
    #[prost(message, repeated, tag = "3")]
    supported_interfaces: Vec<Interface>,
    #[prost(message, optional, tag = "4")]
    #[serde(skip_serializing_if = "is_default")]
    provider: Option<Provider>,
    #[prost(string, tag = "5")]
    version: String,
    #[prost(string, optional, tag = "6")]
    #[serde(skip_serializing_if = "is_default")]
    documentation_url: Option<String>,
    #[prost(message, required, tag = "7")]
    capabilities: Capabilities,
    #[prost(btree_map = "string, message", tag = "8")]
    #[serde(skip_serializing_if = "is_default")]
    security_schemes: BTreeMap<String, Scheme>,
    #[prost(message, repeated, tag = "9")]
    #[serde(skip_serializing_if = "is_default")]
    security_requirements: Vec<Requirement>,
    #[prost(string, repeated, tag = "10")]
    default_input_modes: Vec<String>,
    #[prost(string, repeated, tag = "11")]
    default_output_modes: Vec<String>,
    #[prost(message, repeated, tag = "12")]
    skills: Vec<Skill>,
    #[prost(message, repeated, tag = "13")]
    #[serde(skip_serializing_if = "is_default")]
    signatures: Vec<Signature>,
    #[prost(string, optional, tag = "14")]
    #[serde(skip_serializing_if = "is_default")]
    icon_url: Option<String>,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Interface {
    #[prost(string, tag = "1")]
    url: String,
    #[prost(string, tag = "2")]
    protocol_binding: String,
    #[prost(string, tag = "3")]
    #[serde(skip_serializing_if = "is_default")]
    tenant: String,
    #[prost(string, tag = "4")]
    protocol_version: String,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Capabilities {
    #[prost(bool, optional, tag = "1")]
    #[serde(skip_serializing_if = "is_default")]
    streaming: Option<bool>,
    #[prost(bool, optional, tag = "2")]
    #[serde(skip_serializing_if = "is_default")]
    push_notifications: Option<bool>,
    #[prost(message, repeated, tag = "3")]
    #[serde(skip_serializing_if = "is_default")]
    extensions: Vec<Extension>,
    #[prost(bool, optional, tag = "4")]
    #[serde(skip_serializing_if = "is_default")]
    extended_agent_card: Option<bool>,
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
    security_requirements: Vec<Requirement>,
}
