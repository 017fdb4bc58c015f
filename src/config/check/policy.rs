//! Policies: rules that can be evaluated, owners of tasks that can be known, and sharing that means somebody.

use std::sync::Arc;

use super::super::model::{Allow, CallerPattern, Policy, TaskAccess, TaskOwner, TaskSharing};
use super::super::raw::{
    List, Names, OperationName, RawAllow, RawDecisionPoint, RawPolicy, RawTaskAccess, RawTaskSharing,
};
use super::super::{join, place};
use super::names::{self, Unique};
use super::{Check, decisions};
use crate::a2a::Operation;
use crate::expression::{Expression, Scope, Type};

pub fn policy(check: &mut Check<'_>, key: &str, raw: &RawPolicy, points: &Names<RawDecisionPoint>) -> Policy {
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
    let skill = check.text(&join(key, "skill"), raw.skill.as_ref());
    let allow = allow(check, &join(key, "allow"), &raw.allow);
    if skill.is_none() && raw.skill.is_none() {
        for (index, _) in raw.allow.items().filter(|(_, rule)| !rule.skills.is_empty()) {
            check.problem(
                &join(&place(&join(key, "allow"), index), "skills"),
                "has no effect without `policy.skill`, which says where calls name their skill",
            );
        }
    }
    let point_key = join(key, "decision_point");
    Policy {
        task_owner,
        task_sharing,
        allow,
        decision_point: decisions::named(check, &point_key, raw.decision_point.as_ref(), points),
        skill,
    }
}

/// The rules that can be read.
pub fn allow(check: &mut Check<'_>, key: &str, raw: &List<RawAllow>) -> Vec<Allow> {
    let mut unique = Unique::default();
    let mut rules = Vec::new();
    for (index, raw) in raw.items() {
        let key = place(key, index);
        let name = match &raw.name {
            Some(_) => names::name(check, &join(&key, "name"), raw.name.as_ref()),
            None => Some(format!("allow[{index}]")),
        };
        if let Some(name) = &name {
            unique.claim(check, &join(&key, "name"), name);
        }
        let operations = operations(check, &join(&key, "operations"), &raw.operations);
        let skills_key = join(&key, "skills");
        let skills = raw.skills.items();
        let skills = skills.filter_map(|(index, text)| check.text(&place(&skills_key, index), Some(text)));
        let skills = skills.collect();
        let when = match &raw.when {
            Some(source) => check.expression(&join(&key, "when"), source, &Scope::policy(), &Type::Bool),
            None => None,
        };
        // One that cannot be read would allow more without its condition.
        if raw.when.is_some() != when.is_some() {
            continue;
        }
        rules.push(Allow {
            name: Arc::from(name.unwrap_or_default()),
            operations,
            skills,
            when,
        });
    }
    rules
}

/// Each once.
pub fn operations(check: &mut Check<'_>, key: &str, raw: &List<OperationName>) -> Vec<Operation> {
    let mut operations = Vec::new();
    for (index, name) in raw.items() {
        let operation = Operation::ALL
            .into_iter()
            .find(|operation| operation.as_str() == name.0);
        if operation.is_some_and(|operation| operations.contains(&operation)) {
            check.problem(&place(key, index), format!("`{}` is named twice", name.0));
        }
        operations.extend(operation);
    }
    operations
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

/// The claims that the policy of any agent, the rules of a listener, a rule for other `callers`, or another expression, ask for, each once:
/// the owners', those in front of a `=` in a pattern, those that an expression names, and where one reads principals their groups.
pub fn claims<'a>(
    policies: impl Iterator<Item = &'a Policy>,
    rules: impl Iterator<Item = &'a Allow>,
    callers: impl Iterator<Item = &'a CallerPattern>,
    others: impl Iterator<Item = &'a Expression>,
) -> Vec<String> {
    let mut claims: Vec<String> = Vec::new();
    let mut want = |name: &str| {
        if !name.is_empty() && !claims.iter().any(|known| known == name) {
            claims.push(name.to_owned());
        }
    };
    let mut patterns: Vec<&CallerPattern> = callers.collect();
    let mut rules: Vec<&Allow> = rules.collect();
    for policy in policies {
        if let Some(TaskOwner::Claim(name)) = &policy.task_owner {
            want(name);
        }
        patterns.extend(policy.task_sharing.iter().flat_map(|sharing| &sharing.with));
        rules.extend(&policy.allow);
    }
    for pattern in patterns {
        if let CallerPattern::Attribute(text) = pattern
            && let Some((name, _)) = text.split_once('=')
            && is_attribute_name(name)
        {
            want(name);
        }
    }
    let expressions = rules.iter().filter_map(|rule| rule.when.as_ref()).chain(others);
    for expression in expressions.filter(|expression| expression.reads("principal")) {
        expression.members().for_each(&mut want);
        want(GROUPS);
    }
    claims
}

/// The claim that lists a caller's groups.
pub const GROUPS: &str = "groups";

fn is_attribute_name(name: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '*'])
}
