//! Pages that may read what is published: origins as browsers write them.

use std::time::Duration;

use super::super::model::Cors;
use super::super::place;
use super::super::raw::RawCors;
use super::{Check, DAY};

const ORIGINS: &str = "cors.origins";

/// The outer `None`: something is wrong with it.
pub fn cors(check: &mut Check<'_>, raw: Option<&RawCors>) -> Option<Option<Cors>> {
    let Some(raw) = raw else {
        return Some(None);
    };
    let max_age = check.time("cors.max_age", raw.max_age, Duration::ZERO, DAY);
    let mut named: Vec<(usize, &str)> = raw
        .origins
        .items()
        .map(|(index, text)| (index, text.as_str()))
        .collect();
    if named.is_empty() {
        check.problem(
            ORIGINS,
            "is empty, so that no page could read anything; name origins, or `*`",
        );
        return None;
    }
    let everybody = named.iter().position(|(_, text)| *text == "*");
    if everybody.is_some() {
        if named.len() > 1 {
            check.problem(ORIGINS, "has `*` beside others; keep `*` alone, or take it out");
            return None;
        }
        named.clear();
    }
    let origins: Option<Vec<String>> = named
        .into_iter()
        .map(|(index, text)| {
            let key = place(ORIGINS, index);
            let url = check.url(&key, text)?;
            if url.path != "/" || text.ends_with('/') {
                check.problem(
                    &key,
                    "must be an origin: scheme, host and port without a path, as browsers write it",
                );
                return None;
            }
            Some(url.text().trim_end_matches('/').to_owned())
        })
        .collect();
    Some(Some(Cors {
        origins: origins?,
        max_age,
    }))
}
