//! What calls ask for, but for push configurations (A2A 1.0 §3.1).

use serde::{Deserialize, Serialize};

use super::task::{is_unspecified, read_state, unspecified, write_state};
use super::wire::{Json, Text, is_false, or_default, whole};
use super::{Message, PushConfig};
use crate::a2a::TaskState;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub struct SendMessageRequest<'a> {
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Text::is_empty")]
    pub tenant: Text<'a>,
    pub message: Message<'a>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub configuration: Option<Configuration<'a>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Json<'a>>,
}

/// `SendMessageConfiguration`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub struct Configuration<'a> {
    #[serde(
        default,
        alias = "accepted_output_modes",
        deserialize_with = "or_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub accepted_output_modes: Vec<Text<'a>>,
    #[serde(
        default,
        alias = "task_push_notification_config",
        skip_serializing_if = "Option::is_none"
    )]
    pub task_push_notification_config: Option<PushConfig<'a>>,
    #[serde(
        default,
        alias = "history_length",
        deserialize_with = "whole",
        skip_serializing_if = "Option::is_none"
    )]
    pub history_length: Option<i32>,
    #[serde(
        default,
        alias = "return_immediately",
        deserialize_with = "or_default",
        skip_serializing_if = "is_false"
    )]
    pub return_immediately: bool,
}

/// `GetTaskRequest`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub struct GetTaskRequest<'a> {
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Text::is_empty")]
    pub tenant: Text<'a>,
    pub id: Text<'a>,
    #[serde(
        default,
        alias = "history_length",
        deserialize_with = "whole",
        skip_serializing_if = "Option::is_none"
    )]
    pub history_length: Option<i32>,
}

/// `CancelTaskRequest`; `SubscribeToTaskRequest` has no metadata.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
pub struct TaskRequest<'a> {
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Text::is_empty")]
    pub tenant: Text<'a>,
    pub id: Text<'a>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Json<'a>>,
}

/// `ListTasksRequest` (A2A 1.0 §3.1.4).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub struct ListTasksRequest<'a> {
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Text::is_empty")]
    pub tenant: Text<'a>,
    #[serde(
        default,
        alias = "context_id",
        deserialize_with = "or_default",
        skip_serializing_if = "Text::is_empty"
    )]
    pub context_id: Text<'a>,
    #[serde(
        default = "unspecified",
        serialize_with = "write_state",
        deserialize_with = "read_state",
        skip_serializing_if = "is_unspecified"
    )]
    pub status: TaskState,
    #[serde(
        default,
        alias = "page_size",
        deserialize_with = "whole",
        skip_serializing_if = "Option::is_none"
    )]
    pub page_size: Option<i32>,
    #[serde(
        default,
        alias = "page_token",
        deserialize_with = "or_default",
        skip_serializing_if = "Text::is_empty"
    )]
    pub page_token: Text<'a>,
    #[serde(
        default,
        alias = "history_length",
        deserialize_with = "whole",
        skip_serializing_if = "Option::is_none"
    )]
    pub history_length: Option<i32>,
    #[serde(
        default,
        alias = "status_timestamp_after",
        deserialize_with = "or_default",
        skip_serializing_if = "Text::is_empty"
    )]
    pub status_timestamp_after: Text<'a>,
    #[serde(
        default,
        alias = "include_artifacts",
        deserialize_with = "or_default",
        skip_serializing_if = "Option::is_none"
    )]
    pub include_artifacts: Option<bool>,
}

impl Default for ListTasksRequest<'_> {
    fn default() -> Self {
        Self {
            tenant: Text::default(),
            context_id: Text::default(),
            status: TaskState::Unknown,
            page_size: None,
            page_token: Text::default(),
            history_length: None,
            status_timestamp_after: Text::default(),
            include_artifacts: None,
        }
    }
}

/// `GetExtendedAgentCardRequest`.
#[derive(Serialize, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
pub(super) struct TenantOnly<'a> {
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Text::is_empty")]
    pub(super) tenant: Text<'a>,
}
