//! Answers that are none.

use super::refused;
use crate::harness::agent::{Agent, Reply};
use crate::harness::{Gateway, config_of, of_task, post, send, with_upstream};

const TYPE: &str = "content-type: application/json\r\n";

fn task(id: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"result":{{"task":{{"id":"t","contextId":"c","status":{{"state":"TASK_STATE_WORKING"}}}}}}}}"#
    )
}

#[tokio::test]
async fn error_pages_do_not_pass() {
    let html = || "<html>secret stack</html>".to_owned();
    refused(
        move |_| Reply::Whole(500, "content-type: text/html\r\n", html()),
        "",
        502,
        "upstream_bad_answer",
    )
    .await;
    refused(
        move |_| Reply::Whole(200, "content-type: text/html\r\n", html()),
        "",
        502,
        "upstream_bad_answer",
    )
    .await;
    refused(|_| Reply::Whole(503, "", String::new()), "", 502, "upstream_bad_answer").await;
}

#[tokio::test]
async fn redirects_are_not_followed_nor_passed() {
    let to = "location: http://127.0.0.1:1/\r\n";
    refused(
        move |_| Reply::Whole(302, to, String::new()),
        "",
        502,
        "upstream_bad_answer",
    )
    .await;
}

#[tokio::test]
async fn a_refusal_of_the_gateways_own_credential_is_no_business_of_the_caller() {
    let demand = "www-authenticate: Bearer realm=\"inner\"\r\n";
    refused(
        move |_| Reply::Whole(401, demand, String::new()),
        "",
        502,
        "upstream_refused",
    )
    .await;
    refused(
        |_| Reply::Whole(403, TYPE, "{}".to_owned()),
        "",
        502,
        "upstream_refused",
    )
    .await;
}

#[tokio::test]
async fn an_answer_to_another_request_does_not_pass() {
    refused(|_| Reply::Json(task("\"other\"")), "", 502, "upstream_bad_answer").await;
    refused(
        |_| Reply::Json(r#"{"jsonrpc":"2.0","id":"q-7"}"#.to_owned()),
        "",
        502,
        "upstream_bad_answer",
    )
    .await;
    refused(|_| Reply::Json("[]".to_owned()), "", 502, "upstream_bad_answer").await;
    refused(
        |_| Reply::Json(task("\"q-7\"")[..40].to_owned()),
        "",
        502,
        "upstream_bad_answer",
    )
    .await;
}

#[tokio::test]
async fn an_answer_cut_in_its_body_does_not_pass() {
    let cut = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 500\r\n\r\n{\"jsonrpc\":".to_vec();
    refused(move |_| Reply::Raw(cut.clone()), "", 502, "upstream_closed").await;
}

#[tokio::test]
async fn no_answer_at_all() {
    refused(|_| Reply::Raw(Vec::new()), "", 502, "upstream_closed").await;
}

#[tokio::test]
async fn bytes_that_are_not_http() {
    refused(
        |_| Reply::Raw(b"SSH-2.0-OpenSSH\r\n\r\n".to_vec()),
        "",
        502,
        "upstream_bad_answer",
    )
    .await;
}

#[tokio::test]
async fn a_header_without_end_is_bounded() {
    let mut head = b"HTTP/1.1 200 OK\r\n".to_vec();
    for _ in 0..4000 {
        head.extend_from_slice(b"x-filler: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n");
    }
    refused(move |_| Reply::Raw(head.clone()), "", 502, "upstream_bad_answer").await;
}

#[tokio::test]
async fn answers_are_bounded_and_pass_at_the_bound() {
    let pad = |size: usize| {
        let bare = task("1").len() + r#","x":"""#.len();
        let task = task("1");
        format!("{},\"x\":\"{}\"}}", &task[..task.len() - 1], "a".repeat(size - bare))
    };
    for (size, status) in [(2048, 200), (2049, 502)] {
        let answer = pad(size);
        assert_eq!(answer.len(), size);
        let agent = Agent::start(move |_| Reply::Json(answer.clone())).await;
        let yaml = with_upstream(&config_of(&[agent.address], "", ""), "answer_bytes: 2KiB");
        let gateway = Gateway::start(&yaml).await;
        gateway.ready().await;
        let got = post(gateway.address, "/agent", &send("1", "x")).await;
        assert_eq!(got.status, status, "{size}: {}", got.text());
        if status == 502 {
            assert_eq!(gateway.access(1).await[0]["outcome"], "upstream_answer_too_large");
        }
    }
}

#[tokio::test]
async fn a_silent_agent_is_given_up_for_reads_and_waited_for_on_sends() {
    let agent = Agent::start(|_| Reply::Silence).await;
    let timeouts = "first_byte_timeout: 200ms, send_timeout: 400ms";
    let yaml = with_upstream(
        &config_of(&[agent.address], "policy: { task_owner: none }", ""),
        timeouts,
    );
    let gateway = Gateway::start(&yaml).await;
    gateway.ready().await;
    for body in [of_task("GetTask", "t"), send("\"c\"", "x")] {
        let got = post(gateway.address, "/agent", &body).await;
        assert_eq!((got.status, got.code()), (504, -31504), "{}", got.text());
        assert_eq!(got.json()["id"], "c");
    }
    assert_eq!(agent.received().len(), 2, "nobody was asked twice");
}
