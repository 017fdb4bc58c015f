//! One piece of a message or an artifact (A2A 1.0 §4.1.6).

use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};

use super::wire::{Json, Text, even_null, or_default};

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "Members<'a>", bound(deserialize = "'de: 'a"))]
pub struct Part<'a> {
    pub content: Content<'a>,
    pub metadata: Option<Json<'a>>,
    pub filename: Text<'a>,
    pub media_type: Text<'a>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Content<'a> {
    Text(Text<'a>),
    /// Base64, in either alphabet.
    Raw(Text<'a>),
    Url(Text<'a>),
    Data(Json<'a>),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct Members<'a> {
    #[serde(default)]
    text: Option<Text<'a>>,
    #[serde(default)]
    raw: Option<Text<'a>>,
    #[serde(default)]
    url: Option<Text<'a>>,
    #[serde(default, deserialize_with = "even_null")]
    data: Option<Json<'a>>,
    #[serde(default)]
    metadata: Option<Json<'a>>,
    #[serde(default, deserialize_with = "or_default")]
    filename: Text<'a>,
    #[serde(default, alias = "media_type", deserialize_with = "or_default")]
    media_type: Text<'a>,
}

impl<'a> TryFrom<Members<'a>> for Part<'a> {
    type Error = &'static str;

    fn try_from(members: Members<'a>) -> Result<Self, Self::Error> {
        let Members {
            text,
            raw,
            url,
            data,
            metadata,
            filename,
            media_type,
        } = members;
        // Writers that print every member print null for those that a part does not have.
        let data = data.filter(|data| data.get() != "null" || (text.is_none() && raw.is_none() && url.is_none()));
        let content = match (text, raw, url, data) {
            (Some(text), None, None, None) => Content::Text(text),
            (None, Some(raw), None, None) => Content::Raw(raw),
            (None, None, Some(url), None) => Content::Url(url),
            (None, None, None, Some(data)) => Content::Data(data),
            _ => return Err("a part is not exactly one of text, raw, url and data"),
        };
        Ok(Self {
            content,
            metadata,
            filename,
            media_type,
        })
    }
}

impl Serialize for Part<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut members = serializer.serialize_map(None)?;
        match &self.content {
            Content::Text(text) => members.serialize_entry("text", text)?,
            Content::Raw(raw) => members.serialize_entry("raw", raw)?,
            Content::Url(url) => members.serialize_entry("url", url)?,
            Content::Data(data) => members.serialize_entry("data", data)?,
        }
        if let Some(metadata) = &self.metadata {
            members.serialize_entry("metadata", metadata)?;
        }
        if !self.filename.is_empty() {
            members.serialize_entry("filename", &self.filename)?;
        }
        if !self.media_type.is_empty() {
            members.serialize_entry("mediaType", &self.media_type)?;
        }
        members.end()
    }
}
