//! Messages and their parts (A2A 1.0 §4.1.4, §4.1.6).

use crate::a2a::grpc::Error;
use crate::a2a::grpc::convert::{all, base64, bytes, fields, metadata, role, string, strings, texts};
use crate::a2a::grpc::value::{Struct, Value};
use crate::a2a::model::wire::Text;
use crate::a2a::model::{self, Content};

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Message {
    #[prost(string, tag = "1")]
    message_id: String,
    #[prost(string, tag = "2")]
    context_id: String,
    #[prost(string, tag = "3")]
    task_id: String,
    #[prost(int32, tag = "4")]
    role: i32,
    #[prost(message, repeated, tag = "5")]
    parts: Vec<Part>,
    #[prost(message, optional, tag = "6")]
    metadata: Option<Struct>,
    #[prost(string, repeated, tag = "7")]
    extensions: Vec<String>,
    #[prost(string, repeated, tag = "8")]
    reference_task_ids: Vec<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Part {
    #[prost(oneof = "PartContent", tags = "1, 2, 3, 4")]
    content: Option<PartContent>,
    #[prost(message, optional, tag = "5")]
    metadata: Option<Struct>,
    #[prost(string, tag = "6")]
    filename: String,
    #[prost(string, tag = "7")]
    media_type: String,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum PartContent {
    #[prost(string, tag = "1")]
    Text(String),
    #[prost(bytes, tag = "2")]
    Raw(Vec<u8>),
    #[prost(string, tag = "3")]
    Url(String),
    #[prost(message, tag = "4")]
    Data(Value),
}

impl TryFrom<Message> for model::Message<'static> {
    type Error = Error;

    fn try_from(message: Message) -> Result<Self, Error> {
        Ok(Self {
            message_id: Text::from(message.message_id),
            context_id: Text::from(message.context_id),
            task_id: Text::from(message.task_id),
            role: role(message.role),
            parts: all(message.parts)?,
            metadata: metadata(message.metadata)?,
            extensions: texts(message.extensions),
            reference_task_ids: texts(message.reference_task_ids),
        })
    }
}

impl TryFrom<model::Message<'_>> for Message {
    type Error = Error;

    fn try_from(message: model::Message<'_>) -> Result<Self, Error> {
        Ok(Self {
            message_id: string(message.message_id),
            context_id: string(message.context_id),
            task_id: string(message.task_id),
            role: message.role.number(),
            parts: all(message.parts)?,
            metadata: fields(message.metadata)?,
            extensions: strings(message.extensions),
            reference_task_ids: strings(message.reference_task_ids),
        })
    }
}

impl TryFrom<Part> for model::Part<'static> {
    type Error = Error;

    fn try_from(part: Part) -> Result<Self, Error> {
        Ok(Self {
            // Without content, or with one of a later version: a part of nothing.
            content: match part.content.ok_or(Error::Malformed)? {
                PartContent::Text(text) => Content::Text(Text::from(text)),
                PartContent::Raw(raw) => Content::Raw(base64(&raw)),
                PartContent::Url(url) => Content::Url(Text::from(url)),
                PartContent::Data(data) => Content::Data(data.write()?),
            },
            metadata: metadata(part.metadata)?,
            filename: Text::from(part.filename),
            media_type: Text::from(part.media_type),
        })
    }
}

impl TryFrom<model::Part<'_>> for Part {
    type Error = Error;

    fn try_from(part: model::Part<'_>) -> Result<Self, Error> {
        Ok(Self {
            content: Some(match part.content {
                Content::Text(text) => PartContent::Text(string(text)),
                Content::Raw(raw) => PartContent::Raw(bytes(&raw)?),
                Content::Url(url) => PartContent::Url(string(url)),
                Content::Data(data) => PartContent::Data(Value::read(&data)?),
            }),
            metadata: fields(part.metadata)?,
            filename: string(part.filename),
            media_type: string(part.media_type),
        })
    }
}
