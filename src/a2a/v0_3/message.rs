//! Messages and their parts (A2A 0.3 §6.4, §6.5).

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Error;
use crate::a2a::model::wire::{Json, Text, even_null, or_default};
use crate::a2a::model::{self, Content, Role};

const KIND: &str = "message";

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(super) struct Message<'a> {
    #[serde(default, deserialize_with = "or_default")]
    kind: Text<'a>,
    #[serde(default, deserialize_with = "or_default")]
    #[serde(alias = "message_id")]
    message_id: Text<'a>,
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Text::is_empty")]
    #[serde(alias = "context_id")]
    context_id: Text<'a>,
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Text::is_empty")]
    #[serde(alias = "task_id")]
    task_id: Text<'a>,
    #[serde(default, deserialize_with = "or_default")]
    role: Text<'a>,
    #[serde(default, deserialize_with = "or_default")]
    parts: Vec<Part<'a>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    metadata: Option<Json<'a>>,
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    extensions: Vec<Text<'a>>,
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    #[serde(alias = "reference_task_ids")]
    reference_task_ids: Vec<Text<'a>>,
}

#[derive(Serialize, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
pub(super) struct Part<'a> {
    #[serde(default, deserialize_with = "or_default")]
    kind: Text<'a>,
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bytes: Option<Text<'a>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    uri: Option<Text<'a>>,
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Text::is_empty")]
    #[serde(alias = "mime_type")]
    mime_type: Text<'a>,
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Text::is_empty")]
    name: Text<'a>,
}

impl<'a> TryFrom<Message<'a>> for model::Message<'a> {
    type Error = Error;

    fn try_from(message: Message<'a>) -> Result<Self, Error> {
        let role = match message.role.as_str() {
            "user" => Role::User,
            "agent" => Role::Agent,
            _ => return Err(Error::Malformed),
        };
        Ok(Self {
            message_id: message.message_id,
            context_id: message.context_id,
            task_id: message.task_id,
            role,
            parts: message
                .parts
                .into_iter()
                .map(TryInto::try_into)
                .collect::<Result<_, _>>()?,
            metadata: message.metadata,
            extensions: message.extensions,
            reference_task_ids: message.reference_task_ids,
        })
    }
}

impl<'a> TryFrom<model::Message<'a>> for Message<'a> {
    type Error = Error;

    fn try_from(message: model::Message<'a>) -> Result<Self, Error> {
        let role = match message.role {
            Role::User => "user",
            // What an agent says without a role is its own; a send without one is refused before.
            Role::Agent | Role::Unspecified => "agent",
        };
        Ok(Self {
            kind: Text::from(KIND),
            message_id: message.message_id,
            context_id: message.context_id,
            task_id: message.task_id,
            role: Text::from(role),
            parts: message
                .parts
                .into_iter()
                .map(TryInto::try_into)
                .collect::<Result<_, _>>()?,
            metadata: message.metadata,
            extensions: message.extensions,
            reference_task_ids: message.reference_task_ids,
        })
    }
}

impl<'a> TryFrom<Part<'a>> for model::Part<'a> {
    type Error = Error;

    fn try_from(part: Part<'a>) -> Result<Self, Error> {
        let Part {
            kind,
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
        match (kind.as_str(), text, file, data) {
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
        let none = Self {
            kind: Text::default(),
            text: None,
            file: None,
            data: None,
            metadata: part.metadata,
        };
        let kind = Text::from;
        Ok(match part.content {
            Content::Text(text) => Self {
                kind: kind("text"),
                text: Some(text),
                ..none
            },
            Content::Raw(bytes) => Self {
                kind: kind("file"),
                file: Some(File {
                    bytes: Some(standard(bytes)),
                    uri: None,
                    mime_type: part.media_type,
                    name: part.filename,
                }),
                ..none
            },
            Content::Url(uri) => Self {
                kind: kind("file"),
                file: Some(File {
                    bytes: None,
                    uri: Some(uri),
                    mime_type: part.media_type,
                    name: part.filename,
                }),
                ..none
            },
            Content::Data(data) => {
                let (data, metadata) = wrap(data, none.metadata)?;
                Self {
                    kind: kind("data"),
                    data: Some(data),
                    metadata,
                    ..none
                }
            }
        })
    }
}

/// The mark that the official translation layers leave in a part's metadata.
const WRAPPED: &str = "data_part_compat";

/// The data of 0.3 are objects; another value goes in one, marked, so that it can be taken out again.
pub(in crate::a2a) fn wrap<'a>(
    data: Json<'a>,
    metadata: Option<Json<'a>>,
) -> Result<(Json<'a>, Option<Json<'a>>), Error> {
    if data.is_object() {
        return Ok((data, metadata));
    }
    let wrapped = wrap_object(data)?;
    let mut members: Members<'_> = match &metadata {
        Some(metadata) => serde_json::from_str(metadata.get())?,
        None => Members::new(),
    };
    let mark = Json::owned("true".to_owned()).ok_or(Error::Malformed)?;
    members.insert(Text::from(WRAPPED), mark);
    Ok((wrapped, write(&members)))
}

/// Data that are an object: themselves, or in one.
pub(super) fn wrap_object(data: Json<'_>) -> Result<Json<'_>, Error> {
    if data.is_object() {
        return Ok(data);
    }
    Json::owned(format!(r#"{{"value":{}}}"#, data.get())).ok_or(Error::Malformed)
}

/// Undoes `wrap`; leaves alone what does not look like it.
pub(in crate::a2a) fn unwrap<'a>(data: Json<'a>, metadata: Option<Json<'a>>) -> (Json<'a>, Option<Json<'a>>) {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields, bound(deserialize = "'de: 'a"))]
    struct Wrapped<'a> {
        value: Json<'a>,
    }
    let marked = metadata.as_ref().filter(|metadata| metadata.get().contains(WRAPPED));
    let Some(mut members) = marked.and_then(|metadata| serde_json::from_str::<Members<'_>>(metadata.get()).ok()) else {
        return (data, metadata);
    };
    let Ok(inner) = serde_json::from_str::<Wrapped<'_>>(data.get()) else {
        return (data, metadata);
    };
    if members
        .remove(&Text::from(WRAPPED))
        .is_none_or(|mark| mark.get() != "true")
    {
        return (data, metadata);
    }
    let inner = Json(Cow::Owned(inner.value.0.into_owned()));
    let metadata = (!members.is_empty()).then(|| write(&members)).flatten();
    (inner, metadata)
}

/// Of an object, their values as they are written.
type Members<'a> = BTreeMap<Text<'a>, Json<'a>>;

fn write(members: &Members<'_>) -> Option<Json<'static>> {
    Json::owned(serde_json::to_string(members).ok()?)
}

/// ProtoJSON takes base64 in either alphabet, padded or not; readers of 0.3 know the standard one alone (RFC 4648 §4).
pub(in crate::a2a) fn standard(base64: Text<'_>) -> Text<'_> {
    let text = base64.as_str();
    if text.len().is_multiple_of(4) && !text.contains(['-', '_']) {
        return base64;
    }
    let mut text = text.replace('-', "+").replace('_', "/");
    while !text.len().is_multiple_of(4) {
        text.push('=');
    }
    Text::from(text)
}
