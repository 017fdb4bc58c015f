//! Policies and mappings, with their expressions as they were written.

use serde_json::{Map, Value, json};

use super::super::model::{
    Allow, CallerPattern, DecisionKind, DecisionPoint, Mapping, Policy, TaskAccess, TaskOwner, TaskSharing,
};
use super::{BLANK, add, path, time};
use crate::expression::Expression;

pub(super) fn policy(policy: &Policy) -> Value {
    let mut shown = json!({
        "allow": rules(&policy.allow),
        "decision_point": policy.decision_point,
        "skill": policy.skill,
    });
    let owner = policy.task_owner.as_ref().map(|owner| match owner {
        TaskOwner::Principal => "principal".to_owned(),
        TaskOwner::Claim(name) => format!("claim:{name}"),
        TaskOwner::Nobody => "none".to_owned(),
    });
    add(&mut shown, "task_owner", owner);
    let shared: Vec<Value> = policy.task_sharing.iter().map(sharing).collect();
    add(&mut shown, "task_sharing", shared);
    shown
}

pub(super) fn point(point: &DecisionPoint) -> Value {
    json!({
        "kind": match point.kind {
            DecisionKind::Opa => "opa",
            DecisionKind::ExtAuthz => "ext_authz",
        },
        "url": point.url,
        "ca": point.ca.as_deref().map(path),
        "token": point.token.as_ref().map(|_| BLANK),
        "timeout": time(point.timeout),
        "cache_ttl": time(point.cache_ttl),
        "concurrent": point.concurrent,
        "claims": point.claims,
    })
}

pub(super) fn rules(allow: &[Allow]) -> Vec<Value> {
    let rule = |rule: &Allow| {
        let operations: Vec<_> = rule.operations.iter().map(|operation| operation.as_str()).collect();
        let when = rule.when.as_ref().map(Expression::source);
        json!({ "name": &*rule.name, "operations": operations, "skills": rule.skills, "when": when })
    };
    allow.iter().map(rule).collect()
}

fn sharing(sharing: &TaskSharing) -> Value {
    let with: Vec<&str> = (sharing.with.iter())
        .map(|pattern| match pattern {
            CallerPattern::Id(text) | CallerPattern::Attribute(text) => text.as_str(),
        })
        .collect();
    let access = match sharing.access {
        TaskAccess::Read => "read",
        TaskAccess::Full => "full",
    };
    json!({ "with": with, "owners": sharing.owners, "access": access })
}

pub(super) fn mapping(mapping: &Mapping) -> Value {
    let source = |expression: &Option<Expression>| expression.as_ref().map(|it| it.source().to_owned());
    let claims: Map<String, Value> = (mapping.claims.iter())
        .map(|(name, expression)| (name.clone(), expression.source().into()))
        .collect();
    json!({
        "name": source(&mapping.name),
        "groups": source(&mapping.groups),
        "scopes": source(&mapping.scopes),
        "claims": claims,
    })
}
