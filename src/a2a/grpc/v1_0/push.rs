//! Push notification configurations (A2A 1.0 §4.3).

use crate::a2a::grpc::convert::string;
use crate::a2a::model;
use crate::a2a::model::wire::Text;

/// `TaskPushNotificationConfig`: also the request that creates it.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct PushConfig {
    #[prost(string, tag = "1")]
    tenant: String,
    #[prost(string, tag = "2")]
    id: String,
    #[prost(string, tag = "3")]
    task_id: String,
    #[prost(string, tag = "4")]
    url: String,
    #[prost(string, tag = "5")]
    token: String,
    #[prost(message, optional, tag = "6")]
    authentication: Option<Authentication>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Authentication {
    #[prost(string, tag = "1")]
    scheme: String,
    #[prost(string, tag = "2")]
    credentials: String,
}

/// `ListTaskPushNotificationConfigsResponse`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct PushPage {
    #[prost(message, repeated, tag = "1")]
    configs: Vec<PushConfig>,
    #[prost(string, tag = "2")]
    next_page_token: String,
}

impl From<PushConfig> for model::PushConfig<'static> {
    fn from(config: PushConfig) -> Self {
        Self {
            tenant: Text::from(config.tenant),
            id: Text::from(config.id),
            task_id: Text::from(config.task_id),
            url: Text::from(config.url),
            token: Text::from(config.token),
            authentication: config.authentication.map(|authentication| model::Authentication {
                scheme: Text::from(authentication.scheme),
                credentials: Text::from(authentication.credentials),
            }),
        }
    }
}

impl From<model::PushConfig<'_>> for PushConfig {
    fn from(config: model::PushConfig<'_>) -> Self {
        Self {
            tenant: string(config.tenant),
            id: string(config.id),
            task_id: string(config.task_id),
            url: string(config.url),
            token: string(config.token),
            authentication: config.authentication.map(|authentication| Authentication {
                scheme: string(authentication.scheme),
                credentials: string(authentication.credentials),
            }),
        }
    }
}

impl From<PushPage> for model::PushPage<'static> {
    fn from(page: PushPage) -> Self {
        Self {
            configs: page.configs.into_iter().map(Into::into).collect(),
            next_page_token: Text::from(page.next_page_token),
        }
    }
}

impl From<model::PushPage<'_>> for PushPage {
    fn from(page: model::PushPage<'_>) -> Self {
        Self {
            configs: page.configs.into_iter().map(Into::into).collect(),
            next_page_token: string(page.next_page_token),
        }
    }
}
