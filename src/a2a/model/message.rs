//! Messages and who speaks (A2A 1.0 §4.1.4, §4.1.5).

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Part;
use super::wire::{Json, Text, enumerated, or_default};

/// Who speaks (A2A 1.0 §4.1.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    #[default]
    Unspecified,
    User,
    Agent,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub struct Message<'a> {
    #[serde(default, alias = "message_id", deserialize_with = "or_default")]
    pub message_id: Text<'a>,
    #[serde(
        default,
        alias = "context_id",
        deserialize_with = "or_default",
        skip_serializing_if = "Text::is_empty"
    )]
    pub context_id: Text<'a>,
    #[serde(
        default,
        alias = "task_id",
        deserialize_with = "or_default",
        skip_serializing_if = "Text::is_empty"
    )]
    pub task_id: Text<'a>,
    #[serde(default)]
    pub role: Role,
    #[serde(default, deserialize_with = "or_default")]
    pub parts: Vec<Part<'a>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Json<'a>>,
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub extensions: Vec<Text<'a>>,
    #[serde(
        default,
        alias = "reference_task_ids",
        deserialize_with = "or_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub reference_task_ids: Vec<Text<'a>>,
}

impl Role {
    fn from_name(name: &str) -> Self {
        match name {
            "ROLE_USER" => Self::User,
            "ROLE_AGENT" => Self::Agent,
            _ => Self::Unspecified,
        }
    }

    pub fn from_number(number: u64) -> Self {
        match number {
            1 => Self::User,
            2 => Self::Agent,
            _ => Self::Unspecified,
        }
    }

    /// The number of the protobuf enum, the same in all generations.
    pub fn number(self) -> i32 {
        match self {
            Self::Unspecified => 0,
            Self::User => 1,
            Self::Agent => 2,
        }
    }
}

impl Serialize for Role {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(match self {
            Self::Unspecified => "ROLE_UNSPECIFIED",
            Self::User => "ROLE_USER",
            Self::Agent => "ROLE_AGENT",
        })
    }
}

impl<'de> Deserialize<'de> for Role {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        enumerated(deserializer, Self::from_name, Self::from_number)
    }
}
