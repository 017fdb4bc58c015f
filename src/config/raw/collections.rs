//! Lists and maps whose contents may have been given up by `shape`.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize;

/// A list whose elements may have been given up by `shape`; the places of the others stay as in the file.
#[derive(Clone, Debug, Deserialize)]
#[serde(transparent)]
pub struct List<T>(Vec<Option<T>>);

impl<T> List<T> {
    /// The elements that could be read, with their places.
    pub fn items(&self) -> impl Iterator<Item = (usize, &T)> {
        self.0
            .iter()
            .enumerate()
            .filter_map(|(index, item)| Some((index, item.as_ref()?)))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<T> Default for List<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: JsonSchema> JsonSchema for List<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        Vec::<T>::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Vec::<T>::json_schema(generator)
    }
}

/// A map by names that the user chooses; a name whose content was given up is still there.
#[derive(Clone, Debug, Deserialize)]
#[serde(transparent)]
pub struct Names<T>(BTreeMap<String, Option<T>>);

impl<T> Names<T> {
    pub fn items(&self) -> impl Iterator<Item = (&String, Option<&T>)> {
        self.0.iter().map(|(name, item)| (name, item.as_ref()))
    }

    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    pub fn item(&self, name: &str) -> Option<&T> {
        self.0.get(name)?.as_ref()
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

impl<T> Default for Names<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T: JsonSchema> JsonSchema for Names<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        BTreeMap::<String, T>::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        BTreeMap::<String, T>::json_schema(generator)
    }
}
