//! The copy of the audit trail for a collector (OTLP 1, OTLP/HTTP in JSON): all that stands in the file, in its order, whatever the
//! collector does; and that no call waits for it.

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use super::Server;
use super::audit::{ANN, Ground, JSON, yaml};
use crate::harness::agent::{Agent, Reply};
use crate::harness::authority::Authority;
use crate::harness::{Gateway, call, eventually, send};

const PLACE: &str = "/v1/logs";
const SENT: &str = "a2a_gateway_audit_exported_total";
const WAITING: &str = "a2a_gateway_audit_export_queued";
const LOST: &str = "a2a_gateway_audit_export_lost_total";

fn export(collector: &Server, more: &str) -> String {
    format!("otlp: {{ url: \"{}\", {more} }}", collector.url(PLACE))
}

/// The log records of every request, in the order of their coming.
fn records(collector: &Server) -> Vec<Value> {
    let bodies = collector.questions(PLACE).into_iter().map(|question| question.body);
    bodies.flat_map(|body| records_of(&body)).collect()
}

fn records_of(body: &[u8]) -> Vec<Value> {
    let request: Value = serde_json::from_slice(body).unwrap();
    let records = request["resourceLogs"][0]["scopeLogs"][0]["logRecords"].as_array();
    records.unwrap().clone()
}

fn lines(records: &[Value]) -> Vec<&str> {
    let body = |record: &'_ Value| record["body"]["stringValue"].as_str().is_some();
    assert!(records.iter().all(body));
    records
        .iter()
        .filter_map(|record| record["body"]["stringValue"].as_str())
        .collect()
}

fn attribute<'r>(record: &'r Value, name: &str) -> Option<&'r Value> {
    let attributes = record["attributes"].as_array().unwrap();
    let found = attributes.iter().find(|attribute| attribute["key"] == name);
    found.map(|attribute| &attribute["value"])
}

async fn refused(gateway: &Gateway, count: usize) {
    for _ in 0..count {
        let fields = [("X-API-Key", "wrong"), JSON];
        let answer = call(gateway.address, "POST", "/agent", &fields, &send("1", "x")).await;
        assert_eq!(answer.status, 401);
    }
}

#[tokio::test]
async fn what_stands_in_the_file_comes_to_the_collector_line_by_line() {
    let collector = Server::start().await;
    collector.says(PLACE, 200, json!({}));
    let ground = Ground::new(&export(
        &collector,
        "header: { name: X-Collector, value_file: collector }",
    ))
    .await;
    ground.write("collector", "s3cret-of-the-collector\n");
    let gateway = ground.start().await;
    let traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let fields = [("X-API-Key", ANN), JSON, ("traceparent", traceparent)];
    let made = call(gateway.address, "POST", "/agent", &fields, &send("1", "x")).await;
    assert_eq!(made.status, 200);
    refused(&gateway, 1).await;
    let seen = || {
        let records = records(&collector);
        let of = |event: &str| {
            let name = format!("a2a_gateway.audit.{event}");
            records.iter().find(|record| record["eventName"] == name).cloned()
        };
        of("task_created").zip(of("authentication_failed"))
    };
    eventually("both came", || async { seen().is_some() }).await;
    let (created, failed) = seen().unwrap();
    assert_eq!(created["severityText"], "INFO");
    assert_eq!(created["severityNumber"], 9);
    assert_eq!(created["traceId"], "0af7651916cd43dd8448eb211c80319c");
    assert_eq!(
        attribute(&created, "audit.principal").unwrap()["stringValue"],
        "key:ann"
    );
    assert_eq!(attribute(&created, "audit.task").unwrap()["stringValue"], "t-0");
    let number = attribute(&created, "audit.sequence").unwrap()["intValue"].as_str();
    assert!(number.unwrap().parse::<u64>().unwrap() > 1);
    assert_eq!(
        (failed["severityText"].as_str(), failed["severityNumber"].as_u64()),
        (Some("WARN"), Some(13))
    );
    let line: Value = serde_json::from_str(created["body"]["stringValue"].as_str().unwrap()).unwrap();
    let time: jiff::Timestamp = line["time"].as_str().unwrap().parse().unwrap();
    assert_eq!(created["timeUnixNano"], time.as_nanosecond().to_string());
    assert!(gateway.shutdown().await);

    let file = fs::read_to_string(ground.path("audit.log")).unwrap();
    let all = records(&collector);
    assert_eq!(
        lines(&all),
        file.lines().collect::<Vec<_>>(),
        "from the first line to the last"
    );
    assert!(lines(&all).last().unwrap().contains("trail_closed"));
    for question in collector.questions(PLACE) {
        assert_eq!(question.field("x-collector"), Some("s3cret-of-the-collector"));
        assert_eq!(question.field("content-type"), Some("application/json"));
        assert!(!String::from_utf8_lossy(&question.body).contains("s3cret"));
    }
}

#[tokio::test]
async fn a_collector_that_is_away_holds_up_nobody_and_misses_nothing() {
    let collector = Server::start().await;
    let asked = AtomicUsize::new(0);
    collector.does(PLACE, move |_| match asked.fetch_add(1, Ordering::SeqCst) {
        0 => Reply::Whole(503, "retry-after: 1\r\n", String::new()),
        1 => Reply::Raw(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{".to_vec()),
        _ => Reply::Json("{}".to_owned()),
    });
    let ground = Ground::new(&export(&collector, "")).await;
    let gateway = ground.start().await;
    refused(&gateway, 20).await;
    eventually("it was asked a third time", || async { collector.asked(PLACE) >= 3 }).await;
    eventually("nothing waits", || async { gateway.metric(WAITING).await == 0.0 }).await;
    assert_eq!(gateway.metric(LOST).await, 0.0);
    assert!(gateway.shutdown().await);
    let questions = collector.questions(PLACE);
    assert_eq!(questions[0].body, questions[1].body, "what was not taken comes again");
    let taken: Vec<Value> = questions[2..]
        .iter()
        .flat_map(|question| records_of(&question.body))
        .collect();
    let file = fs::read_to_string(ground.path("audit.log")).unwrap();
    assert_eq!(lines(&taken), file.lines().collect::<Vec<_>>());
}

#[tokio::test]
async fn what_waits_is_bounded_and_what_is_lost_is_counted() {
    let collector = Server::start().await;
    collector.says(PLACE, 503, "");
    let ground = Ground::new(&export(&collector, "queue: 16")).await;
    let gateway = ground.start().await;
    // With the first lines of the trail more than fit.
    refused(&gateway, 16).await;
    ground.of("authentication_failed", 16).await;
    ground.of("card_published", 2).await;
    let written = ground.lines().len() as f64;
    eventually("each waits or is counted", || async {
        gateway.metric(WAITING).await + gateway.metric(LOST).await == written
    })
    .await;
    assert_eq!(gateway.metric(WAITING).await, 16.0);
    let lost = gateway.metric(LOST).await;
    collector.says(PLACE, 200, json!({}));
    eventually("it goes on", || async { gateway.metric(SENT).await == 16.0 }).await;
    refused(&gateway, 1).await;
    eventually("later ones come, too", || async { gateway.metric(SENT).await == 17.0 }).await;
    assert_eq!(gateway.metric(LOST).await, lost);
}

#[tokio::test]
async fn what_the_collector_refuses_is_given_up_and_counted() {
    let collector = Server::start().await;
    collector.says(PLACE, 400, json!({ "message": "never shown: s3cret" }));
    let ground = Ground::new(&export(&collector, "")).await;
    let gateway = ground.start().await;
    eventually("given up", || async { gateway.metric(LOST).await >= 3.0 }).await;
    eventually("nothing waits", || async { gateway.metric(WAITING).await == 0.0 }).await;
    let lost = gateway.metric(LOST).await;
    // The numbers of the JSON form are texts.
    collector.says(
        PLACE,
        200,
        json!({ "partialSuccess": { "rejectedLogRecords": "1", "errorMessage": "too old" } }),
    );
    refused(&gateway, 1).await;
    eventually("one was not taken", || async {
        gateway.metric(LOST).await == lost + 1.0
    })
    .await;
    assert_eq!(gateway.metric(SENT).await, 0.0);
    collector.says(PLACE, 200, json!({}));
    refused(&gateway, 1).await;
    eventually("the next one was", || async { gateway.metric(SENT).await == 1.0 }).await;
}

#[tokio::test]
async fn a_credential_that_is_put_right_loses_nothing() {
    let collector = Server::start().await;
    collector.does(PLACE, |question| match question.field("x-collector") {
        Some("right") => Reply::Json("{}".to_owned()),
        _ => Reply::Whole(401, "", String::new()),
    });
    let ground = Ground::new(&export(
        &collector,
        "header: { name: X-Collector, value_file: collector }",
    ))
    .await;
    ground.write("collector", "wrong");
    let gateway = ground.start().await;
    eventually("it was refused", || async { collector.asked(PLACE) >= 1 }).await;
    ground.write("collector", "right");
    assert!(gateway.reload().await);
    eventually("everything came", || async {
        gateway.metric(WAITING).await == 0.0 && gateway.metric(SENT).await >= 3.0
    })
    .await;
    assert_eq!(gateway.metric(LOST).await, 0.0);

    // Without the section nothing is sent any more, and nothing waits.
    ground.write("gateway.yaml", &yaml(&ground.agent, ""));
    assert!(gateway.reload().await);
    let sent = gateway.metric(SENT).await;
    let asked = collector.asked(PLACE);
    refused(&gateway, 3).await;
    ground.of("authentication_failed", 3).await;
    assert_eq!((gateway.metric(SENT).await, gateway.metric(WAITING).await), (sent, 0.0));
    assert!(gateway.shutdown().await);
    assert_eq!(collector.asked(PLACE), asked);
}

/// Who the collector is its certificate says, by the CA of the configuration, which may be exchanged.
#[tokio::test]
async fn a_collector_is_believed_by_its_certificate_alone() {
    let (first, second) = (Authority::new(), Authority::new());
    let collector = Agent::over_tls(second.open_server("localhost"), |_| Reply::Json("{}".to_owned())).await;
    let url = format!("https://localhost:{}{PLACE}", collector.address.port());
    let ground = Ground::new(&format!("otlp: {{ url: \"{url}\", ca: collector-ca.pem }}")).await;
    ground.write("collector-ca.pem", &first.issuer.pem());
    let gateway = ground.start().await;
    eventually("it is not believed", || async {
        let records = gateway.metric(WAITING).await;
        records >= 3.0 && gateway.metric(SENT).await == 0.0
    })
    .await;
    assert!(collector.received().is_empty());
    ground.write("collector-ca.pem", "no certificate");
    assert!(!gateway.reload().await, "what cannot be read changes nothing");
    ground.write("collector-ca.pem", &second.issuer.pem());
    assert!(gateway.reload().await);
    eventually("everything came", || async {
        gateway.metric(WAITING).await == 0.0 && gateway.metric(SENT).await >= 3.0
    })
    .await;
    assert_eq!(gateway.metric(LOST).await, 0.0);
}
