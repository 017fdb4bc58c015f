//! Push notification configurations (A2A 0.3 §6.8, `a2a.v1`): task and configuration stand in a resource name.

use crate::a2a::grpc::Error;
use crate::a2a::grpc::convert::{all, string};
use crate::a2a::grpc::name;
use crate::a2a::model;
use crate::a2a::model::wire::Text;

/// `PushNotificationConfig`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct PushConfig {
    #[prost(string, tag = "1")]
    id: String,
    #[prost(string, tag = "2")]
    url: String,
    #[prost(string, tag = "3")]
    token: String,
    #[prost(message, optional, tag = "4")]
    authentication: Option<Authentication>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Authentication {
    #[prost(string, repeated, tag = "1")]
    schemes: Vec<String>,
    #[prost(string, tag = "2")]
    credentials: String,
}

/// `TaskPushNotificationConfig`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct TaskPushConfig {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, optional, tag = "2")]
    push_notification_config: Option<PushConfig>,
}

/// `CreateTaskPushNotificationConfigRequest`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct CreateRequest {
    #[prost(string, tag = "1")]
    parent: String,
    #[prost(string, tag = "2")]
    config_id: String,
    #[prost(message, optional, tag = "3")]
    config: Option<TaskPushConfig>,
}

/// `ListTaskPushNotificationConfigResponse`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct PushPage {
    #[prost(message, repeated, tag = "1")]
    configs: Vec<TaskPushConfig>,
    #[prost(string, tag = "2")]
    next_page_token: String,
}

impl From<PushConfig> for model::PushConfig<'static> {
    fn from(config: PushConfig) -> Self {
        Self {
            id: Text::from(config.id),
            url: Text::from(config.url),
            token: Text::from(config.token),
            // Of several schemes the first: 1.0 has one, and agents choose the first that they know.
            authentication: config.authentication.map(|authentication| model::Authentication {
                scheme: Text::from(authentication.schemes.into_iter().next().unwrap_or_default()),
                credentials: Text::from(authentication.credentials),
            }),
            ..Self::default()
        }
    }
}

impl From<model::PushConfig<'_>> for PushConfig {
    fn from(config: model::PushConfig<'_>) -> Self {
        Self {
            id: string(config.id),
            url: string(config.url),
            token: string(config.token),
            authentication: config.authentication.map(|authentication| Authentication {
                schemes: vec![string(authentication.scheme)],
                credentials: string(authentication.credentials),
            }),
        }
    }
}

impl TryFrom<TaskPushConfig> for model::PushConfig<'static> {
    type Error = Error;

    fn try_from(config: TaskPushConfig) -> Result<Self, Error> {
        let task = name::task_of(&config.name).ok_or(Error::Malformed)?;
        let mut read = Self::from(config.push_notification_config.unwrap_or_default());
        if read.id.is_empty() {
            read.id = own_config(task, name::config_of(&config.name));
        }
        read.task_id = Text::from(task.to_owned());
        Ok(read)
    }
}

impl TryFrom<model::PushConfig<'_>> for TaskPushConfig {
    type Error = Error;

    fn try_from(config: model::PushConfig<'_>) -> Result<Self, Error> {
        let name = name::of_config(config.task_id.as_str(), config.id.as_str()).ok_or(Error::Malformed)?;
        Ok(Self {
            name,
            push_notification_config: Some(config.into()),
        })
    }
}

impl TryFrom<CreateRequest> for model::PushConfig<'static> {
    type Error = Error;

    fn try_from(request: CreateRequest) -> Result<Self, Error> {
        let CreateRequest {
            parent,
            config_id,
            config,
        } = request;
        let config = config.unwrap_or_default();
        // Clients of 0.2 leave the parent out.
        let parent = if parent.is_empty() { &config.name } else { &parent };
        let task = name::task_of(parent).ok_or(Error::Malformed)?;
        let mut read = Self::from(config.push_notification_config.unwrap_or_default());
        if read.id.is_empty() {
            read.id = match config_id {
                id if id.is_empty() => own_config(task, name::config_of(&config.name)),
                id => Text::from(id),
            };
        }
        read.task_id = Text::from(task.to_owned());
        Ok(read)
    }
}

impl TryFrom<model::PushConfig<'_>> for CreateRequest {
    type Error = Error;

    fn try_from(config: model::PushConfig<'_>) -> Result<Self, Error> {
        Ok(Self {
            parent: name::of_task(config.task_id.as_str()).ok_or(Error::Malformed)?,
            config_id: config.id.as_str().to_owned(),
            config: Some(config.try_into()?),
        })
    }
}

impl TryFrom<PushPage> for model::PushPage<'static> {
    type Error = Error;

    fn try_from(page: PushPage) -> Result<Self, Error> {
        Ok(Self {
            configs: all(page.configs)?,
            next_page_token: Text::from(page.next_page_token),
        })
    }
}

impl TryFrom<model::PushPage<'_>> for PushPage {
    type Error = Error;

    fn try_from(page: model::PushPage<'_>) -> Result<Self, Error> {
        Ok(Self {
            configs: all(page.configs)?,
            next_page_token: string(page.next_page_token),
        })
    }
}

/// The id in a name, unless it stands there because the configuration has none of its own.
fn own_config(task: &str, config: Option<&str>) -> Text<'static> {
    let config = config.filter(|config| *config != task).unwrap_or_default();
    Text::from(config.to_owned())
}
