//! Messages and their parts (A2A 0.1, `Message`, `Part`).

use serde::{Deserialize, Serialize};

use super::Error;
use crate::a2a::model::wire::{Json, Text, even_null, or_default};
use crate::a2a::model::{self, Content, Role};
use crate::a2a::v0_3::{standard, unwrap, wrap};

#[derive(Serialize, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
pub(super) struct Message<'a> {
    #[serde(default, deserialize_with = "or_default")]
    role: Text<'a>,
    #[serde(default, deserialize_with = "or_default")]
    parts: Vec<Part<'a>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    metadata: Option<Json<'a>>,
}

/// Of three types that `type` tells; read by its members where it is missing.
#[derive(Serialize, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
pub(super) struct Part<'a> {
    #[serde(default, deserialize_with = "or_default")]
    r#type: Text<'a>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<Text<'a>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    file: Option<File<'a>>,
    #[serde(default, deserialize_with = "even_null", skip_serializing_if = "Option::is_none")]
    data: Option<Json<'a>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    metadata: Option<Json<'a>>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct File<'a> {
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Text::is_empty")]
    name: Text<'a>,
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Text::is_empty")]
    mime_type: Text<'a>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bytes: Option<Text<'a>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    uri: Option<Text<'a>>,
}

impl<'a> TryFrom<Message<'a>> for model::Message<'a> {
    type Error = Error;

    fn try_from(message: Message<'a>) -> Result<Self, Error> {
        let role = match message.role.as_str() {
            "user" => Role::User,
            "agent" => Role::Agent,
            _ => return Err(Error::Malformed),
        };
        let parts = message.parts.into_iter().map(TryInto::try_into);
        Ok(Self {
            role,
            parts: parts.collect::<Result<_, _>>()?,
            metadata: message.metadata,
            ..Self::default()
        })
    }
}

impl<'a> TryFrom<model::Message<'a>> for Message<'a> {
    type Error = Error;

    fn try_from(message: model::Message<'a>) -> Result<Self, Error> {
        let role = match message.role {
            Role::User => "user",
            // What an agent says without a role is its own.
            Role::Agent | Role::Unspecified => "agent",
        };
        Ok(Self {
            role: Text::from(role),
            parts: parts(message.parts)?,
            metadata: message.metadata,
        })
    }
}

pub(super) fn parts(parts: Vec<model::Part<'_>>) -> Result<Vec<Part<'_>>, Error> {
    parts.into_iter().map(TryInto::try_into).collect()
}

impl<'a> TryFrom<Part<'a>> for model::Part<'a> {
    type Error = Error;

    fn try_from(part: Part<'a>) -> Result<Self, Error> {
        let Part {
            r#type,
            text,
            file,
            data,
            metadata,
        } = part;
        let plain = |content, metadata| Self {
            content,
            metadata,
            filename: Text::default(),
            media_type: Text::default(),
        };
        match (r#type.as_str(), text, file, data) {
            ("text" | "", Some(text), _, _) => Ok(plain(Content::Text(text), metadata)),
            ("file" | "", _, Some(file), _) => Ok(Self {
                content: match (file.bytes, file.uri) {
                    (Some(bytes), None) => Content::Raw(bytes),
                    (None, Some(uri)) => Content::Url(uri),
                    (Some(_), Some(_)) | (None, None) => return Err(Error::Malformed),
                },
                metadata,
                filename: file.name,
                media_type: file.mime_type,
            }),
            ("data" | "", _, _, Some(data)) => {
                let (data, metadata) = unwrap(data, metadata);
                Ok(plain(Content::Data(data), metadata))
            }
            _ => Err(Error::Malformed),
        }
    }
}

impl<'a> TryFrom<model::Part<'a>> for Part<'a> {
    type Error = Error;

    fn try_from(part: model::Part<'a>) -> Result<Self, Error> {
        let of = |name| Self {
            r#type: Text::from(name),
            text: None,
            file: None,
            data: None,
            metadata: None,
        };
        let file = File {
            name: part.filename,
            mime_type: part.media_type,
            ..File::default()
        };
        Ok(match part.content {
            Content::Text(text) => Self {
                text: Some(text),
                metadata: part.metadata,
                ..of("text")
            },
            Content::Raw(bytes) => Self {
                file: Some(File {
                    bytes: Some(standard(bytes)),
                    ..file
                }),
                metadata: part.metadata,
                ..of("file")
            },
            Content::Url(uri) => Self {
                file: Some(File { uri: Some(uri), ..file }),
                metadata: part.metadata,
                ..of("file")
            },
            Content::Data(data) => {
                let (data, metadata) = wrap(data, part.metadata)?;
                Self {
                    data: Some(data),
                    metadata,
                    ..of("data")
                }
            }
        })
    }
}
