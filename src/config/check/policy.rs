//! Policies: owners of tasks that can be known, and sharing that means somebody.

use super::super::model::{CallerPattern, Policy, TaskAccess, TaskOwner, TaskSharing};
use super::super::raw::{List, RawPolicy, RawTaskAccess, RawTaskSharing};
use super::super::{join, place};
use super::Check;

pub fn policy(check: &mut Check<'_>, key: &str, raw: &RawPolicy) -> Policy {
    let owner_key = join(key, "task_owner");
    let task_owner = raw.task_owner.as_deref().and_then(|text| match text {
        "principal" => Some(TaskOwner::Principal),
        "none" => Some(TaskOwner::Nobody),
        _ => match text.strip_prefix("claim:") {
            Some(name) if is_attribute_name(name) => Some(TaskOwner::Claim(name.to_owned())),
            Some(_) => {
                check.problem(
                    &owner_key,
                    "needs the name of a claim behind `claim:`, without `=`, e.g. `claim:tenant`",
                );
                None
            }
            None => {
                check.problem(
                    &owner_key,
                    format!("`{text}` is none of `principal`, `claim:<name>` and `none`"),
                );
                None
            }
        },
    });
    let sharing_key = join(key, "task_sharing");
    if task_owner == Some(TaskOwner::Nobody) && !raw.task_sharing.is_empty() {
        check.problem(
            &sharing_key,
            "has no effect: with `task_owner: none` every caller may use every task",
        );
    }
    let task_sharing = raw
        .task_sharing
        .items()
        .map(|(index, raw)| sharing(check, &place(&sharing_key, index), raw))
        .collect();
    Policy {
        task_owner,
        task_sharing,
    }
}

fn sharing(check: &mut Check<'_>, key: &str, raw: &RawTaskSharing) -> TaskSharing {
    TaskSharing {
        with: callers(check, &join(key, "with"), &raw.with),
        owners: match &raw.owners {
            Some(owners) => patterns(check, &join(key, "owners"), owners),
            None => vec!["*".to_owned()],
        },
        access: match raw.access {
            RawTaskAccess::Read => TaskAccess::Read,
            RawTaskAccess::Full => TaskAccess::Full,
        },
    }
}

pub fn callers(check: &mut Check<'_>, key: &str, raw: &List<String>) -> Vec<CallerPattern> {
    patterns(check, key, raw).into_iter().map(caller).collect()
}

/// An id begins with its kind and may contain `=`.
fn caller(text: String) -> CallerPattern {
    let kinds = ["key:", "jwt:", "basic:", "http:", "mtls:"];
    // Names of claims may be URLs; an id has the name of an HTTP scheme there, which has no `/`.
    let is_id = kinds.iter().any(|kind| text.starts_with(kind)) && !text.starts_with("http://");
    if !is_id && text.contains('=') {
        CallerPattern::Attribute(text)
    } else {
        CallerPattern::Id(text)
    }
}

fn patterns(check: &mut Check<'_>, key: &str, raw: &List<String>) -> Vec<String> {
    if raw.is_empty() {
        check.problem(key, "is empty, so that it would mean nobody");
    }
    raw.items()
        .filter_map(|(index, text)| check.text(&place(key, index), Some(text)))
        .collect()
}

/// The claims that the policy of any agent, or a rule for other `callers`, asks for, each once: the owners', and those in front of
/// a `=` in a pattern.
pub fn claims<'a>(
    policies: impl Iterator<Item = &'a Policy>,
    callers: impl Iterator<Item = &'a CallerPattern>,
) -> Vec<String> {
    let mut claims: Vec<String> = Vec::new();
    let mut want = |name: &str| {
        if is_attribute_name(name) && !claims.iter().any(|known| known == name) {
            claims.push(name.to_owned());
        }
    };
    let mut patterns: Vec<&CallerPattern> = callers.collect();
    for policy in policies {
        if let Some(TaskOwner::Claim(name)) = &policy.task_owner {
            want(name);
        }
        patterns.extend(policy.task_sharing.iter().flat_map(|sharing| &sharing.with));
    }
    for pattern in patterns {
        if let CallerPattern::Attribute(text) = pattern
            && let Some((name, _)) = text.split_once('=')
        {
            want(name);
        }
    }
    claims
}

fn is_attribute_name(name: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '*'])
}
