//! What of a caller's credential reaches the agent: nothing, unless `forward_credentials` says so (RFC 9110 §11.6.2, §17.16.1).

use serde_json::json;

use super::token_server::Issuer;
use crate::harness::{Agent, Gateway, KEY, OPEN, agent, call, config_of, send, with_upstream};

/// What the agent sees of a call with everything that a caller can show.
async fn seen(more: &str, upstream: &str) -> (String, String) {
    let folder = tempfile::tempdir().unwrap();
    let issuer = Issuer::new(folder.path());
    let agent = Agent::start(agent::tasks(|| "t".to_owned())).await;
    let yaml = config_of(&[agent.address], &format!("{OPEN}\n    {more}"), "")
        .replace(
            "security_schemes:\n",
            &format!("security_schemes:\n{}\n", Issuer::scheme()),
        )
        .replace("security: [ { key: [] } ]", "security: [ { token: [], key: [] } ]");
    let yaml = if upstream.is_empty() {
        yaml
    } else {
        with_upstream(&yaml, upstream)
    };
    let gateway = Gateway::start_in(&yaml, folder.path()).await;
    gateway.ready().await;
    let bearer = format!("Bearer {}", issuer.token("ann", json!({})));
    let fields = [
        ("authorization", &*bearer),
        ("x-api-key", KEY),
        ("cookie", "session=s3cret"),
        ("proxy-authorization", "Basic s3cret"),
        ("a2a-gateway-assertion", "s3cret"),
        ("content-type", "application/json"),
    ];
    let answer = call(gateway.address, "POST", "/agent", &fields, &send("1", "x")).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    (bearer, agent.received().pop().unwrap().head)
}

fn value<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    let mut values = head.lines().filter_map(|line| {
        let (known, value) = line.split_once(": ")?;
        known.eq_ignore_ascii_case(name).then_some(value)
    });
    let value = values.next();
    assert_eq!(values.next(), None, "{name} stands once: {head}");
    value
}

#[tokio::test]
async fn nothing_of_a_credential_goes_on_by_default() {
    let (bearer, head) = seen("", "").await;
    assert_eq!(value(&head, "authorization"), None);
    assert_eq!(value(&head, "x-api-key"), None);
    let lower = head.to_lowercase();
    assert!(
        !head.contains("s3cret") && !head.contains(KEY) && !head.contains(&bearer),
        "{head}"
    );
    assert!(!lower.contains("cookie") && !lower.contains("assertion"), "{head}");
}

#[tokio::test]
async fn credentials_go_on_where_that_is_said_but_no_cookie_and_nothing_that_the_gateway_writes() {
    let (bearer, head) = seen("forward_credentials: true", "").await;
    assert_eq!(value(&head, "authorization"), Some(&*bearer));
    assert_eq!(value(&head, "x-api-key"), Some(KEY));
    assert!(!head.contains("s3cret"), "{head}");
}

#[tokio::test]
async fn the_gateways_own_credential_stands_in_the_place_of_the_callers() {
    for more in ["", "forward_credentials: true"] {
        let (bearer, head) = seen(more, "credential: { bearer: { token: own } }").await;
        assert_eq!(value(&head, "authorization"), Some("Bearer own"), "{more}");
        assert!(!head.contains(&bearer), "{more}: {head}");
    }
}
