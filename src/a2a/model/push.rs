//! Push notification configurations (A2A 1.0 §4.3).

use serde::{Deserialize, Serialize};

use super::wire::{Text, or_default, whole};

/// `TaskPushNotificationConfig`: also the request that creates it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub struct PushConfig<'a> {
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Text::is_empty")]
    pub tenant: Text<'a>,
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Text::is_empty")]
    pub id: Text<'a>,
    #[serde(
        default,
        alias = "task_id",
        deserialize_with = "or_default",
        skip_serializing_if = "Text::is_empty"
    )]
    pub task_id: Text<'a>,
    #[serde(default, deserialize_with = "or_default")]
    pub url: Text<'a>,
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Text::is_empty")]
    pub token: Text<'a>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authentication: Option<Authentication<'a>>,
}

/// `AuthenticationInfo`: what the receiver of push notifications wants to see.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
pub struct Authentication<'a> {
    #[serde(default, deserialize_with = "or_default")]
    pub scheme: Text<'a>,
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Text::is_empty")]
    pub credentials: Text<'a>,
}

/// Names one push configuration of one task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub struct PushName<'a> {
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Text::is_empty")]
    pub tenant: Text<'a>,
    #[serde(alias = "task_id")]
    pub task_id: Text<'a>,
    #[serde(default, deserialize_with = "or_default")]
    pub id: Text<'a>,
}

/// `ListTaskPushNotificationConfigsRequest`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub struct PushListRequest<'a> {
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Text::is_empty")]
    pub tenant: Text<'a>,
    #[serde(alias = "task_id")]
    pub task_id: Text<'a>,
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
}

/// `ListTaskPushNotificationConfigsResponse`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub struct PushPage<'a> {
    #[serde(default, deserialize_with = "or_default")]
    pub configs: Vec<PushConfig<'a>>,
    #[serde(default, alias = "next_page_token", deserialize_with = "or_default")]
    pub next_page_token: Text<'a>,
}
