//! What callers compose stays data: one record a request, one valid line a record, no secret in it, and no metric series.

use super::site::{BOTH, CREDENTIAL, GENERATIONS, Http, JSON, Site, rpc};
use crate::harness::{KEY, get};

/// Stands in everything that this file sends, and in no line that the gateway may write.
const MARK: &str = "h0stile";

async fn nothing_composed(site: &Site, expected: usize) {
    let records = site.gateway.access(expected).await;
    assert_eq!(records.len(), expected, "one line a request");
    for record in &records {
        assert_eq!(record["kind"], "access", "{record}");
        assert!(!record.to_string().contains(KEY), "{record}");
    }
    let metrics = get(site.gateway.admin, "/metrics").await.text();
    assert!(
        !metrics.contains(MARK) && !metrics.contains(KEY),
        "no series with a caller's words"
    );
}

#[tokio::test]
async fn hostile_ids_stay_inside_their_line() {
    let site = Site::usual().await;
    let mut sent = 0;
    for (names, http) in GENERATIONS.iter().zip(BOTH) {
        for id in [
            r#"a\n{\"kind\":\"access\",\"outcome\":\"ok\",\"h0stile\":1}"#,
            r#"a\r\nh0stile"#,
            r#"a\"},{\"h0stile\":\"1"#,
            r"a\\",
            r"\u0000\u0001\u001b[31mh0stile\u007f\u2028\u2029\u0085",
            "a\u{202e}h0stile\u{feff}",
            r"${jndi:ldap://h0stile/}",
            "%n%s<script>h0stile</script>",
        ] {
            let body = names.call(names.get, &format!("{{\"id\":\"{id}\"}}"));
            let answer = site.post(http, &[JSON, CREDENTIAL], &body).await;
            site.passed(id, &answer);
            sent += 1;
            let expected: serde_json::Value = serde_json::from_str(&format!("\"{id}\"")).expect("JSON");
            let record = site.record(answer.header("x-request-id").expect("an id")).await;
            assert_eq!(record["task"], expected, "the id and nothing beside it");
            let body = names.sending(&format!(",\"contextId\":\"{id}\""));
            let answer = site.post(http, &[JSON, CREDENTIAL], &body).await;
            site.passed(id, &answer);
            sent += 1;
        }
        let long = names.call(names.get, &format!("{{\"id\":\"{}\"}}", "é".repeat(512)));
        let answer = site.post(http, &[JSON, CREDENTIAL], &long).await;
        site.passed("a long one", &answer);
        sent += 1;
        let record = site.record(answer.header("x-request-id").expect("an id")).await;
        assert!(record["task"].as_str().expect("a task").len() <= 128, "{record}");
    }
    nothing_composed(&site, sent).await;
    site.done().await;
}

#[tokio::test]
async fn what_else_a_caller_says_is_in_no_log_and_no_metric() {
    let site = Site::usual().await;
    let mut sent = 0;
    for http in BOTH {
        let words = [
            ("x-h0stile", "h0stile"),
            ("user-agent", "h0stile\" outcome=ok"),
            ("x-request-id", "h0stile"),
            ("x-forwarded-for", "h0stile"),
            ("traceparent", "h0stile"),
            ("a2a-extensions", "h0stile"),
        ];
        let fields: Vec<_> = words.into_iter().chain([JSON, ("x-api-key", "h0stile")]).collect();
        let answer = site.request(http, "POST", "/agent?x=h0stile", &fields, "{}").await;
        site.is_refusal("a stranger", &answer, rpc("unauthenticated", "null"));
        let fields: Vec<_> = words.into_iter().chain([JSON, CREDENTIAL]).collect();
        let answer = site.request(http, "POST", "/h0stile", &fields, "{}").await;
        site.is_refusal("a path", &answer, rpc("no_route", "null"));
        let body = r#"{"jsonrpc":"2.0","id":"h0stile","method":"h0stile","params":{"h0stile":1}}"#;
        let answer = site.post(http, &fields, body).await;
        site.is_refusal("a method", &answer, rpc("unknown_method", "\"h0stile\""));
        let answer = site.post(http, &fields, r#"{"h0stile":1,"h0stile":2}"#).await;
        site.is_refusal("a body", &answer, rpc("parse_error", "null"));
        sent += 4;
    }
    let records = site.gateway.access(sent).await;
    for record in &records {
        assert!(!record.to_string().contains(MARK), "{record}");
    }
    nothing_composed(&site, sent).await;
    site.done().await;
}

#[tokio::test]
async fn a_method_that_nobody_knows_has_no_name_in_the_log() {
    let site = Site::usual().await;
    let long = format!("H0STILE{}", "A".repeat(8000));
    for http in BOTH {
        for method in ["H0STILE", "test-key", &long] {
            let answer = site.request(http, method, "/agent", &[], "").await;
            site.is_refusal(method, &answer, super::site::plain("method_not_allowed"));
            let record = site.record(answer.header("x-request-id").expect("an id")).await;
            assert_eq!(record["method"], "other", "{record}");
        }
    }
    let answer = site.request(Http::One, "DELETE", "/agent", &[], "").await;
    site.is_refusal("a known one", &answer, super::site::plain("method_not_allowed"));
    assert_eq!(
        site.record(answer.header("x-request-id").expect("an id")).await["method"],
        "DELETE"
    );
    nothing_composed(&site, 7).await;
    site.done().await;
}
