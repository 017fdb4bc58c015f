//! Push notification configurations (A2A 0.1, `PushNotificationConfig`): one a task, without an id of its own.

use serde::{Deserialize, Serialize};

use crate::a2a::model;
use crate::a2a::model::wire::{Text, or_default};

/// What agents of later generations are told that the one configuration of a task is called: without a name each would make up its own.
pub(super) const ONLY: &str = "0.1";

#[derive(Serialize, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
pub(super) struct PushConfig<'a> {
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

/// `TaskPushNotificationConfig`: also the parameters of `tasks/pushNotification/set`.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(super) struct TaskPushConfig<'a> {
    #[serde(default, deserialize_with = "or_default")]
    id: Text<'a>,
    push_notification_config: PushConfig<'a>,
}

impl<'a> PushConfig<'a> {
    /// For the task of this name, which the agent gave it.
    pub(super) fn into_model(self, task: Text<'a>) -> model::PushConfig<'a> {
        model::PushConfig {
            id: Text::from(ONLY),
            task_id: task,
            url: self.url,
            token: self.token,
            // Of several schemes the first: 1.0 has one, and agents choose the first that they know.
            authentication: self.authentication.map(|authentication| model::Authentication {
                scheme: authentication.schemes.into_iter().next().unwrap_or_default(),
                credentials: authentication.credentials,
            }),
            ..model::PushConfig::default()
        }
    }
}

impl<'a> From<model::PushConfig<'a>> for PushConfig<'a> {
    fn from(config: model::PushConfig<'a>) -> Self {
        Self {
            url: config.url,
            token: config.token,
            authentication: config.authentication.map(|authentication| Authentication {
                schemes: Some(authentication.scheme)
                    .filter(|scheme| !scheme.is_empty())
                    .into_iter()
                    .collect(),
                credentials: authentication.credentials,
            }),
        }
    }
}

impl<'a> TaskPushConfig<'a> {
    /// As an agent tells it: the one configuration of a task has its id, in the official servers of all generations.
    pub(super) fn told(self) -> model::PushConfig<'a> {
        model::PushConfig {
            id: self.id.clone(),
            ..self.push_notification_config.into_model(self.id)
        }
    }

    pub(super) fn into_model(self, task: Text<'a>) -> model::PushConfig<'a> {
        self.push_notification_config.into_model(task)
    }

    /// `task` is the caller's name of it.
    pub(super) fn of(config: model::PushConfig<'a>, task: &'a str) -> Self {
        Self {
            id: Text::from(task),
            push_notification_config: config.into(),
        }
    }
}
