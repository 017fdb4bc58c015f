//! Messages and their parts.

use serde::{Deserialize, Serialize};

use super::Error;
use crate::a2a::model::wire::{Json, Text, or_default};
use crate::a2a::model::{self, Content, Role};
use crate::a2a::v0_3::message::{standard, wrap_object};

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(super) struct Message<'a> {
    #[serde(default, alias = "message_id", deserialize_with = "or_default")]
    message_id: Text<'a>,
    #[serde(
        default,
        alias = "context_id",
        deserialize_with = "or_default",
        skip_serializing_if = "Text::is_empty"
    )]
    context_id: Text<'a>,
    #[serde(
        default,
        alias = "task_id",
        deserialize_with = "or_default",
        skip_serializing_if = "Text::is_empty"
    )]
    task_id: Text<'a>,
    #[serde(default)]
    role: Role,
    #[serde(default, deserialize_with = "or_default")]
    content: Vec<Part<'a>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    metadata: Option<Json<'a>>,
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    extensions: Vec<Text<'a>>,
}

/// Exactly one of its members.
#[derive(Default, Serialize, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
pub(super) struct Part<'a> {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<Text<'a>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    file: Option<FilePart<'a>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    data: Option<DataPart<'a>>,
}

/// Has no name in the protobuf.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct FilePart<'a> {
    #[serde(default, alias = "file_with_uri", skip_serializing_if = "Option::is_none")]
    file_with_uri: Option<Text<'a>>,
    #[serde(default, alias = "file_with_bytes", skip_serializing_if = "Option::is_none")]
    file_with_bytes: Option<Text<'a>>,
    #[serde(
        default,
        alias = "mime_type",
        deserialize_with = "or_default",
        skip_serializing_if = "Text::is_empty"
    )]
    mime_type: Text<'a>,
}

#[derive(Serialize, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct DataPart<'a> {
    data: Json<'a>,
}

impl<'a> TryFrom<Message<'a>> for model::Message<'a> {
    type Error = Error;

    fn try_from(message: Message<'a>) -> Result<Self, Error> {
        Ok(Self {
            message_id: message.message_id,
            context_id: message.context_id,
            task_id: message.task_id,
            role: message.role,
            parts: read_parts(message.content)?,
            metadata: message.metadata,
            extensions: message.extensions,
            reference_task_ids: Vec::new(),
        })
    }
}

impl<'a> TryFrom<model::Message<'a>> for Message<'a> {
    type Error = Error;

    fn try_from(message: model::Message<'a>) -> Result<Self, Error> {
        Ok(Self {
            message_id: message.message_id,
            context_id: message.context_id,
            task_id: message.task_id,
            role: match message.role {
                Role::User => Role::User,
                // What an agent says without a role is its own; a send without one is refused before.
                Role::Agent | Role::Unspecified => Role::Agent,
            },
            content: write_parts(message.parts)?,
            metadata: message.metadata,
            extensions: message.extensions,
        })
    }
}

pub(super) fn read_parts(parts: Vec<Part<'_>>) -> Result<Vec<model::Part<'_>>, Error> {
    parts.into_iter().map(TryInto::try_into).collect()
}

pub(super) fn write_parts(parts: Vec<model::Part<'_>>) -> Result<Vec<Part<'_>>, Error> {
    parts.into_iter().map(TryInto::try_into).collect()
}

impl<'a> TryFrom<Part<'a>> for model::Part<'a> {
    type Error = Error;

    fn try_from(part: Part<'a>) -> Result<Self, Error> {
        let (content, media_type) = match (part.text, part.file, part.data) {
            (Some(text), None, None) => (Content::Text(text), Text::default()),
            (None, Some(file), None) => {
                let content = match (file.file_with_uri, file.file_with_bytes) {
                    (Some(uri), None) => Content::Url(uri),
                    (None, Some(bytes)) => Content::Raw(bytes),
                    (Some(_), Some(_)) | (None, None) => return Err(Error::Malformed),
                };
                (content, file.mime_type)
            }
            (None, None, Some(data)) => (Content::Data(data.data), Text::default()),
            _ => return Err(Error::Malformed),
        };
        Ok(Self {
            content,
            metadata: None,
            filename: Text::default(),
            media_type,
        })
    }
}

impl<'a> TryFrom<model::Part<'a>> for Part<'a> {
    type Error = Error;

    fn try_from(part: model::Part<'a>) -> Result<Self, Error> {
        let file = |uri, bytes| {
            Some(FilePart {
                file_with_uri: uri,
                file_with_bytes: bytes,
                mime_type: part.media_type,
            })
        };
        Ok(match part.content {
            Content::Text(text) => Self {
                text: Some(text),
                ..Self::default()
            },
            Content::Raw(bytes) => Self {
                file: file(None, Some(standard(bytes))),
                ..Self::default()
            },
            Content::Url(uri) => Self {
                file: file(Some(uri), None),
                ..Self::default()
            },
            Content::Data(data) => Self {
                data: Some(DataPart {
                    data: wrap_object(data)?,
                }),
                ..Self::default()
            },
        })
    }
}
