//! Mistakes in decision points, and in policies that name them: each with exactly its text.

use super::invalid::{agent_key, listener, section};

const URL: &str = "url: https://opa.example.com/v1/data/a2a/allow";

#[track_caller]
fn point(text: &str, expected: &str) {
    section(
        "decision_points",
        &format!("{{ p: {{ {text} }} }}"),
        &format!("decision_points.p{expected}"),
    );
}

#[test]
fn decision_points() {
    point(
        "",
        ".kind (line 5): is required\n\
         decision_points.p.url (line 5): is required",
    );
    point(
        &format!("kind: rego, {URL}"),
        ".kind (line 5): expected `opa` or `ext_authz`, found `rego`",
    );
    point(
        "kind: opa, url: http://opa.example.com",
        ".url (line 5): must be https: who answers in its place decides; http only on a loopback address",
    );
    point(
        "kind: opa, url: http://127.0.0.1:8181, ca: b",
        ".ca (line 5): has no effect: `url` is http",
    );
    point(
        &format!("kind: opa, {URL}, token: hunter2, token_file: b"),
        " (line 5): has both `token` and `token_file`; keep one of them",
    );
    point(
        &format!("kind: opa, {URL}, token: \"${{BREAK}}\""),
        ".token (line 5): contains a character that a header cannot carry, such as a line break",
    );
    point(
        &format!("kind: opa, {URL}, token: \"${{EMPTY}}\""),
        ".token (line 5): is empty",
    );
    point(
        &format!("kind: opa, {URL}, timeout: 0s"),
        ".timeout (line 5): must be from 1ms to 60s, found 0s",
    );
    point(
        &format!("kind: opa, {URL}, cache_ttl: 2h"),
        ".cache_ttl (line 5): must be from 0s to 1h, found 2h",
    );
    point(
        &format!("kind: opa, {URL}, concurrent: 0"),
        ".concurrent (line 5): must be from 1 to 10000, found 0",
    );
    point(
        &format!("kind: opa, {URL}, claims: [ \"\" ]"),
        ".claims[0] (line 5): is empty",
    );
    point(
        &format!("kind: ext_authz, {URL}, claims: [ tenant ]"),
        ".claims (line 5): has no effect with `kind: ext_authz`, which is told no claims",
    );
    point(
        &format!("kind: opa, {URL}, negative_ttl: 5s"),
        ".negative_ttl (line 5): unknown key; known here: `kind`, `url`, `ca`, `token`, `token_file`, `timeout`, `cache_ttl`, `concurrent` or `claims`",
    );
    section(
        "decision_points",
        &format!("{{ \"a b\": {{ kind: opa, {URL} }} }}"),
        "decision_points.a b (line 5): the name must be letters, digits, `-`, `_` or `.`, beginning with a letter or digit",
    );
}

#[test]
fn policies_name_decision_points_that_are_there() {
    agent_key(
        "policy: { decision_point: p }",
        "agents[0].policy.decision_point (line 4): there is no `decision_points.p`",
    );
    listener(
        "policy: { decision_point: p }",
        "listeners[0].policy.decision_point (line 2): there is no `decision_points.p`",
    );
}
