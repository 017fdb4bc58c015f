//! Push notification configurations (A2A 0.3 §6.8, §6.10).

use serde::{Deserialize, Serialize};

use crate::a2a::model;
use crate::a2a::model::wire::{Text, or_default};

/// `PushNotificationConfig`.
#[derive(Serialize, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
pub(super) struct PushConfig<'a> {
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Text::is_empty")]
    id: Text<'a>,
    #[serde(default, deserialize_with = "or_default")]
    url: Text<'a>,
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Text::is_empty")]
    token: Text<'a>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    authentication: Option<Authentication<'a>>,
}

#[derive(Serialize, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct Authentication<'a> {
    #[serde(default, deserialize_with = "or_default")]
    schemes: Vec<Text<'a>>,
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Text::is_empty")]
    credentials: Text<'a>,
}

/// `TaskPushNotificationConfig`: also the parameters of `tasks/pushNotificationConfig/set`.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(super) struct TaskPushConfig<'a> {
    #[serde(default, deserialize_with = "or_default")]
    #[serde(alias = "task_id")]
    task_id: Text<'a>,
    #[serde(alias = "push_notification_config")]
    push_notification_config: PushConfig<'a>,
}

impl<'a> From<PushConfig<'a>> for model::PushConfig<'a> {
    fn from(config: PushConfig<'a>) -> Self {
        Self {
            id: config.id,
            url: config.url,
            token: config.token,
            // Of several schemes the first: 1.0 has one, and agents choose the first that they know.
            authentication: config.authentication.map(|authentication| model::Authentication {
                scheme: authentication.schemes.into_iter().next().unwrap_or_default(),
                credentials: authentication.credentials,
            }),
            ..Self::default()
        }
    }
}

impl<'a> From<model::PushConfig<'a>> for PushConfig<'a> {
    fn from(config: model::PushConfig<'a>) -> Self {
        Self {
            id: config.id,
            url: config.url,
            token: config.token,
            authentication: config.authentication.map(|authentication| Authentication {
                schemes: vec![authentication.scheme],
                credentials: authentication.credentials,
            }),
        }
    }
}

impl<'a> From<TaskPushConfig<'a>> for model::PushConfig<'a> {
    fn from(config: TaskPushConfig<'a>) -> Self {
        Self {
            task_id: config.task_id,
            ..config.push_notification_config.into()
        }
    }
}

impl<'a> From<model::PushConfig<'a>> for TaskPushConfig<'a> {
    fn from(mut config: model::PushConfig<'a>) -> Self {
        Self {
            task_id: std::mem::take(&mut config.task_id),
            push_notification_config: config.into(),
        }
    }
}
