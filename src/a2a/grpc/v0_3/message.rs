//! Messages and their parts (A2A 0.3 §6.4, §6.5, `a2a.v1`).

use crate::a2a::grpc::Error;
use crate::a2a::grpc::convert::{all, base64, bytes, fields, metadata, role, string, strings, texts};
use crate::a2a::grpc::value::Struct;
use crate::a2a::model::wire::Text;
use crate::a2a::model::{self, Content};
use crate::a2a::v0_3::{unwrap, wrap};

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
    content: Vec<Part>,
    #[prost(message, optional, tag = "6")]
    metadata: Option<Struct>,
    #[prost(string, repeated, tag = "7")]
    extensions: Vec<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Part {
    #[prost(oneof = "PartContent", tags = "1, 2, 3")]
    part: Option<PartContent>,
    /// Not in the protocol's own definition, but in those of the SDKs.
    #[prost(message, optional, tag = "4")]
    metadata: Option<Struct>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum PartContent {
    #[prost(string, tag = "1")]
    Text(String),
    #[prost(message, tag = "2")]
    File(FilePart),
    #[prost(message, tag = "3")]
    Data(DataPart),
}

#[derive(Clone, PartialEq, prost::Message)]
struct FilePart {
    #[prost(oneof = "File", tags = "1, 2")]
    file: Option<File>,
    #[prost(string, tag = "3")]
    mime_type: String,
    /// Of the SDKs, too.
    #[prost(string, tag = "4")]
    name: String,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum File {
    #[prost(string, tag = "1")]
    Uri(String),
    #[prost(bytes, tag = "2")]
    Bytes(Vec<u8>),
}

#[derive(Clone, PartialEq, prost::Message)]
struct DataPart {
    #[prost(message, optional, tag = "1")]
    data: Option<Struct>,
}

impl TryFrom<Message> for model::Message<'static> {
    type Error = Error;

    fn try_from(message: Message) -> Result<Self, Error> {
        Ok(Self {
            message_id: Text::from(message.message_id),
            context_id: Text::from(message.context_id),
            task_id: Text::from(message.task_id),
            role: role(message.role),
            parts: all(message.content)?,
            metadata: metadata(message.metadata)?,
            extensions: texts(message.extensions),
            reference_task_ids: Vec::new(),
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
            content: all(message.parts)?,
            metadata: fields(message.metadata)?,
            extensions: strings(message.extensions),
        })
    }
}

impl TryFrom<Part> for model::Part<'static> {
    type Error = Error;

    fn try_from(part: Part) -> Result<Self, Error> {
        let metadata = metadata(part.metadata)?;
        let plain = |content, metadata| Self {
            content,
            metadata,
            filename: Text::default(),
            media_type: Text::default(),
        };
        // Without content, or with one of a later version: a part of nothing.
        Ok(match part.part.ok_or(Error::Malformed)? {
            PartContent::Text(text) => plain(Content::Text(Text::from(text)), metadata),
            PartContent::File(file) => Self {
                content: match file.file.ok_or(Error::Malformed)? {
                    File::Uri(uri) => Content::Url(Text::from(uri)),
                    File::Bytes(bytes) => Content::Raw(base64(&bytes)),
                },
                metadata,
                filename: Text::from(file.name),
                media_type: Text::from(file.mime_type),
            },
            PartContent::Data(data) => {
                let (data, metadata) = unwrap(data.data.unwrap_or_default().write()?, metadata);
                plain(Content::Data(data), metadata)
            }
        })
    }
}

impl TryFrom<model::Part<'_>> for Part {
    type Error = Error;

    fn try_from(part: model::Part<'_>) -> Result<Self, Error> {
        let (file, metadata) = match part.content {
            Content::Text(text) => {
                return Ok(Self {
                    part: Some(PartContent::Text(string(text))),
                    metadata: fields(part.metadata)?,
                });
            }
            Content::Data(data) => {
                let (data, metadata) = wrap(data, part.metadata)?;
                let data = Some(Struct::read(&data)?);
                return Ok(Self {
                    part: Some(PartContent::Data(DataPart { data })),
                    metadata: fields(metadata)?,
                });
            }
            Content::Raw(raw) => (File::Bytes(bytes(&raw)?), part.metadata),
            Content::Url(url) => (File::Uri(string(url)), part.metadata),
        };
        Ok(Self {
            part: Some(PartContent::File(FilePart {
                file: Some(file),
                mime_type: string(part.media_type),
                name: string(part.filename),
            })),
            metadata: fields(metadata)?,
        })
    }
}
