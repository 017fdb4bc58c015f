//! Push notification configurations, whose task and id stand in a resource name.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::super::push::PushConfig;
use super::Error;
use super::name::{self, ResourceName};
use crate::a2a::model;
use crate::a2a::model::wire::{Text, or_default};

/// `TaskPushNotificationConfig`.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(super) struct TaskPushConfig<'a> {
    #[serde(default, deserialize_with = "or_default")]
    name: Text<'a>,
    #[serde(alias = "push_notification_config")]
    push_notification_config: PushConfig<'a>,
}

/// `CreateTaskPushNotificationConfigRequest`; or the configuration alone, which is the body that the annotation in the
/// protobuf names.
#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(super) struct CreateConfig<'a> {
    #[serde(default, deserialize_with = "or_default")]
    parent: Text<'a>,
    #[serde(
        default,
        alias = "config_id",
        deserialize_with = "or_default",
        skip_serializing_if = "Text::is_empty"
    )]
    config_id: Text<'a>,
    #[serde(default)]
    config: Option<TaskPushConfig<'a>>,
    #[serde(default, deserialize_with = "or_default", skip_serializing)]
    name: Text<'a>,
    #[serde(default, alias = "push_notification_config", skip_serializing)]
    push_notification_config: Option<PushConfig<'a>>,
}

/// `ListTaskPushNotificationConfigResponse`.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(super) struct ConfigPage<'a> {
    #[serde(default, deserialize_with = "or_default")]
    configs: Vec<TaskPushConfig<'a>>,
    #[serde(
        default,
        alias = "next_page_token",
        deserialize_with = "or_default",
        skip_serializing_if = "Text::is_empty"
    )]
    next_page_token: Text<'a>,
}

impl<'a> From<TaskPushConfig<'a>> for model::PushConfig<'a> {
    fn from(config: TaskPushConfig<'a>) -> Self {
        let read: Self = config.push_notification_config.into();
        let task_id = part_of(&config.name, |name| name.task);
        let id = Some(read.id).filter(|id| !id.is_empty());
        Self {
            id: id.unwrap_or_else(|| part_of(&config.name, |name| name.config)),
            task_id,
            ..read
        }
    }
}

fn part_of<'a>(name: &Text<'a>, which: fn(ResourceName<'_>) -> &str) -> Text<'a> {
    match &name.0 {
        Cow::Borrowed(name) => Text::from(which(ResourceName::read(name))),
        Cow::Owned(name) => Text::from(which(ResourceName::read(name)).to_owned()),
    }
}

impl<'a> From<model::PushConfig<'a>> for TaskPushConfig<'a> {
    fn from(config: model::PushConfig<'a>) -> Self {
        Self {
            name: Text::from(name::of_config(config.task_id.as_str(), config.id.as_str())),
            push_notification_config: config.into(),
        }
    }
}

impl<'a> TryFrom<CreateConfig<'a>> for model::PushConfig<'a> {
    type Error = Error;

    fn try_from(request: CreateConfig<'a>) -> Result<Self, Error> {
        let alone = request.push_notification_config.map(|config| TaskPushConfig {
            name: request.name,
            push_notification_config: config,
        });
        let read: Self = match (request.config, alone) {
            (Some(config), None) | (None, Some(config)) => config.into(),
            (Some(_), Some(_)) | (None, None) => return Err(Error::Malformed),
        };
        let id = Some(read.id).filter(|id| !id.is_empty());
        Ok(Self {
            id: id.unwrap_or(request.config_id),
            ..read
        })
    }
}

impl<'a> From<model::PushConfig<'a>> for CreateConfig<'a> {
    fn from(config: model::PushConfig<'a>) -> Self {
        Self {
            parent: Text::from(name::of_task(config.task_id.as_str())),
            config_id: config.id.clone(),
            config: Some(config.into()),
            ..Self::default()
        }
    }
}

impl<'a> From<ConfigPage<'a>> for model::PushPage<'a> {
    fn from(page: ConfigPage<'a>) -> Self {
        Self {
            configs: page.configs.into_iter().map(Into::into).collect(),
            next_page_token: page.next_page_token,
        }
    }
}

impl<'a> From<model::PushPage<'a>> for ConfigPage<'a> {
    fn from(page: model::PushPage<'a>) -> Self {
        Self {
            configs: page.configs.into_iter().map(Into::into).collect(),
            next_page_token: page.next_page_token,
        }
    }
}
