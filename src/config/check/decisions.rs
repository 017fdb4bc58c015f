//! Decision points: whom nobody on the way can pose as, and who are there where a policy names them.

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::model::{DecisionKind, DecisionPoint};
use super::super::raw::{Names, Raw, RawDecisionKind, RawDecisionPoint};
use super::super::{join, place};
use super::tokens::{LONGEST_QUESTION, MOST_QUESTIONS, private_url};
use super::{Check, HOUR, MILLISECOND, credential, names, policy};

const SECTION: &str = "decision_points";

pub fn points(check: &mut Check<'_>, raw: &Raw) -> Option<BTreeMap<String, DecisionPoint>> {
    let mut points = BTreeMap::new();
    let mut complete = true;
    for (name, raw) in raw.decision_points.items() {
        let key = join(SECTION, name);
        if !names::is_name(name) {
            check.problem(
                &key,
                "the name must be letters, digits, `-`, `_` or `.`, beginning with a letter or digit",
            );
        }
        match raw.and_then(|raw| point(check, &key, raw)) {
            Some(point) => {
                check.sound.points.insert(name.clone(), point.clone());
                points.insert(name.clone(), point);
            }
            None => complete = false,
        }
    }
    complete.then_some(points)
}

fn point(check: &mut Check<'_>, key: &str, raw: &RawDecisionPoint) -> Option<DecisionPoint> {
    let url_key = join(key, "url");
    let url = raw.url.as_deref();
    let parsed = url.and_then(|url| private_url(check, &url_key, url, "who answers in its place decides"));
    if raw.ca.is_some() && parsed.as_ref().is_some_and(|url| !url.secure) {
        check.problem(&join(key, "ca"), "has no effect: `url` is http");
    }
    let ca = check.optional_path(&join(key, "ca"), raw.ca.as_ref());
    let token = match (&raw.token, &raw.token_file) {
        (None, None) => Some(None),
        (value, file) => credential::secret(check, key, "token", value.as_ref(), file.as_ref()).map(Some),
    };
    let timeout = check.time(&join(key, "timeout"), raw.timeout, MILLISECOND, LONGEST_QUESTION);
    let cache_ttl = check.time(&join(key, "cache_ttl"), raw.cache_ttl, Duration::ZERO, HOUR);
    let concurrent = check.count(&join(key, "concurrent"), raw.concurrent, 1, MOST_QUESTIONS);
    let claims_key = join(key, "claims");
    let claims = raw.claims.items();
    let claims = claims.filter_map(|(index, name)| check.text(&place(&claims_key, index), Some(name)));
    let claims: Vec<String> = claims.collect();
    let kind = match raw.kind? {
        RawDecisionKind::Opa => DecisionKind::Opa,
        RawDecisionKind::ExtAuthz => {
            if !raw.claims.is_empty() {
                check.problem(
                    &claims_key,
                    "has no effect with `kind: ext_authz`, which is told no claims",
                );
            }
            DecisionKind::ExtAuthz
        }
    };
    parsed?;
    Some(DecisionPoint {
        kind,
        url: url?.to_owned(),
        ca,
        token: token?,
        timeout,
        cache_ttl,
        concurrent,
        claims,
    })
}

/// The claims that are read for any of them.
pub fn claims(points: &BTreeMap<String, DecisionPoint>) -> impl Iterator<Item = &str> {
    let told = points.values().filter(|point| point.kind == DecisionKind::Opa);
    told.flat_map(|point| point.claims.iter().map(String::as_str).chain([policy::GROUPS]))
}

/// The one that a policy names, if it is there.
pub fn named(
    check: &mut Check<'_>,
    key: &str,
    name: Option<&String>,
    points: &Names<RawDecisionPoint>,
) -> Option<String> {
    let name = name?;
    if !points.has(name) && !check.was_given_up_whole(SECTION) {
        check.problem(key, format!("there is no `{SECTION}.{name}`"));
    }
    Some(name.clone())
}
