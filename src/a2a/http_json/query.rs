//! Parameters in the query (A2A 1.0 §11.5): camelCase as specified, snake_case as ProtoJSON readers take it too.
//!
//! No parameter of A2A is a list, so each stands there once. Those that a call does not have are none of ours and are passed
//! over, `A2A-Version` among them.

use std::borrow::Cow;

use super::percent;
use crate::a2a::jsonrpc::{RequestErrorKind, is_look_alike};
use crate::a2a::{Generation, Operation};

/// The parameters of a call that its query has.
#[derive(Default)]
pub(super) struct Query<'a>(Vec<Parameter<'a>>);

struct Parameter<'a> {
    /// In camelCase.
    name: &'static str,
    spelling: Cow<'a, str>,
    value: Cow<'a, str>,
}

impl<'a> Query<'a> {
    pub(super) fn read(
        query: Option<&'a str>,
        generation: Generation,
        operation: Operation,
    ) -> Result<Self, RequestErrorKind> {
        let known = known(generation, operation);
        let mut read = Self::default();
        for pair in query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let spelling = percent::decode_form(name).ok_or(RequestErrorKind::InvalidParams)?;
            let Some(name) = known.iter().copied().find(|known| spells(&spelling, known)) else {
                // What some readers take for a structure or a list goes by the name before its bracket.
                let folded = spelling.split(['[', '.']).next().unwrap_or_default().replace('_', "");
                if is_look_alike(folded.as_bytes(), known) {
                    return Err(RequestErrorKind::LookAlikeParam);
                }
                continue;
            };
            let value = percent::decode_form(value).ok_or(RequestErrorKind::InvalidParams)?;
            match read.0.iter().find(|parameter| parameter.name == name) {
                Some(first) if first.spelling == spelling => return Err(RequestErrorKind::RepeatedParam),
                Some(first) if first.value != value => return Err(RequestErrorKind::ConflictingSpellings),
                Some(_) | None => read.0.push(Parameter { name, spelling, value }),
            }
        }
        Ok(read)
    }

    /// A parameter that is there and not empty; the default value is as good as none.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|parameter| parameter.name == name)?;
        Some(&*found.value).filter(|value| !value.is_empty())
    }

    pub(super) fn take(&mut self, name: &str) -> Option<Cow<'a, str>> {
        let found = self.0.iter_mut().find(|parameter| parameter.name == name)?;
        Some(std::mem::take(&mut found.value)).filter(|value| !value.is_empty())
    }
}

/// What the messages of protobuf have, but for what only a body carries.
fn known(generation: Generation, operation: Operation) -> &'static [&'static str] {
    use Generation::{V0_1, V0_3, V1_0};
    match (operation, generation) {
        (Operation::Send | Operation::Stream | Operation::ExtendedCard, V1_0) => &["tenant"],
        (Operation::Send | Operation::Stream | Operation::ExtendedCard, V0_1 | V0_3) => &[],
        (Operation::Get, V1_0) => &["tenant", "id", "historyLength"],
        (Operation::Get, V0_1 | V0_3) => &["name", "historyLength"],
        (Operation::List, _) => &[
            "tenant",
            "contextId",
            "status",
            "pageSize",
            "pageToken",
            "historyLength",
            "statusTimestampAfter",
            "includeArtifacts",
        ],
        (Operation::Cancel | Operation::Subscribe, V1_0) => &["tenant", "id"],
        (Operation::Cancel | Operation::Subscribe, V0_1 | V0_3) => &["name"],
        (Operation::PushCreate, V1_0) => &["tenant", "taskId"],
        (Operation::PushCreate, V0_1 | V0_3) => &["parent", "configId"],
        (Operation::PushGet | Operation::PushDelete, V1_0) => &["tenant", "taskId", "id"],
        (Operation::PushGet | Operation::PushDelete, V0_1 | V0_3) => &["name"],
        (Operation::PushList, V1_0) => &["tenant", "taskId", "pageSize", "pageToken"],
        (Operation::PushList, V0_1 | V0_3) => &["parent", "pageSize", "pageToken"],
    }
}

/// The name in camelCase or in snake_case.
fn spells(spelling: &str, name: &str) -> bool {
    if spelling == name {
        return true;
    }
    let mut rest = spelling.bytes();
    let matches = name.bytes().all(|byte| {
        if byte.is_ascii_uppercase() {
            rest.next() == Some(b'_') && rest.next() == Some(byte.to_ascii_lowercase())
        } else {
            rest.next() == Some(byte)
        }
    });
    matches && rest.next().is_none()
}

/// Writes a query; parameters without a value are left out.
#[derive(Default)]
pub(super) struct Writer(String);

impl Writer {
    pub(super) fn put(&mut self, name: &str, value: &str) {
        if value.is_empty() {
            return;
        }
        if !self.0.is_empty() {
            self.0.push('&');
        }
        self.0.push_str(name);
        self.0.push('=');
        percent::encode(value, &mut self.0);
    }

    pub(super) fn put_number(&mut self, name: &str, value: Option<i32>) {
        if let Some(value) = value {
            self.put(name, &value.to_string());
        }
    }

    pub(super) fn finish(self) -> Option<String> {
        Some(self.0).filter(|query| !query.is_empty())
    }
}
