//! Events that come in pieces, where tasks have owners: each is judged before anything of it goes on.

use std::sync::{Arc, Mutex};

use tokio::sync::mpsc;

use super::ownership::{ANN, BOB, by, start, yaml};
use crate::harness::agent::{Agent, Received, Reply, event, task_event};
use crate::harness::client::{open, read};
use crate::harness::{Gateway, OPEN, send, with_upstream};

/// What `event_bytes` is in the tests of it.
const MOST: usize = 2048;

/// An agent whose only task so far is Ann's, and that sends these pieces on each stream.
async fn streaming() -> (Agent, Arc<Mutex<Vec<String>>>) {
    let pieces: Arc<Mutex<Vec<String>>> = Arc::default();
    let sent = pieces.clone();
    let agent = Agent::start(move |request: &Received| {
        if request.json()["method"] != "SendStreamingMessage" {
            let task = r#"{"task":{"id":"anns","contextId":"x","status":{"state":"TASK_STATE_WORKING"}}}"#;
            return Reply::Json(format!(r#"{{"jsonrpc":"2.0","id":1,"result":{task}}}"#));
        }
        let pieces = sent.lock().unwrap().clone();
        let (events, chunks) = mpsc::channel(pieces.len().max(1));
        for piece in pieces {
            events.try_send(Some(piece)).expect("room");
        }
        Reply::Stream(chunks)
    })
    .await;
    (agent, pieces)
}

/// What Bob gets of a stream that the agent sends so, and whether it ends clean.
async fn got(gateway: &Gateway, pieces: &Mutex<Vec<String>>, sent: &[&str]) -> (String, bool) {
    *pieces.lock().unwrap() = sent.iter().map(|&piece| piece.to_owned()).collect();
    let fields = [("X-API-Key", BOB), ("content-type", "application/json")];
    let body = send("1", "x").replace("SendMessage", "SendStreamingMessage");
    read(open(gateway.address, "POST", "/agent", &fields, &body).await).await
}

fn update(task: &str, text: &str) -> String {
    let artifact = format!(r#"{{"artifactId":"a","parts":[{{"text":"{text}"}}]}}"#);
    event(
        "1",
        &format!(r#"{{"artifactUpdate":{{"artifact":{artifact},"taskId":"{task}","contextId":"ctx-bobs"}}}}"#),
    )
}

#[tokio::test]
async fn an_event_of_somebody_elses_task_is_withheld_however_it_is_cut() {
    let (agent, pieces) = streaming().await;
    let gateway = start(&agent, "").await;
    assert_eq!(by(ANN, &gateway, &send("1", "x")).await.status, 200);
    let (first, own, foreign) = (task_event("1", "bobs"), update("bobs", "his"), update("anns", "hidden"));
    for cut in [1, 7, foreign.len() / 2, foreign.len() - 4, foreign.len() - 1] {
        let (front, back) = foreign.split_at(cut);
        let (text, clean) = got(&gateway, &pieces, &[&first, &own, front, back, &own]).await;
        assert_eq!((text, clean), (format!("{first}{own}"), false), "cut at {cut}");
    }
    // The same where it begins behind the end of another.
    let plain = foreign.replace("\r\n", "\n");
    for cut in [1, 7, plain.len() / 2, plain.len() - 2, plain.len() - 1] {
        let (front, back) = plain.split_at(cut);
        let (text, clean) = got(&gateway, &pieces, &[&first, &format!("{own}{front}"), back]).await;
        assert_eq!((text, clean), (format!("{first}{own}"), false), "cut at {cut}");
    }
    let each: Vec<String> = foreign.chars().map(String::from).collect();
    let each: Vec<&str> = [first.as_str()]
        .into_iter()
        .chain(each.iter().map(String::as_str))
        .collect();
    assert_eq!(got(&gateway, &pieces, &each).await, (first, false), "byte by byte");
}

#[tokio::test]
async fn the_callers_own_events_pass_untouched_however_they_are_cut() {
    let (agent, pieces) = streaming().await;
    let gateway = start(&agent, "").await;
    let stream = [
        &*task_event("1", "bobs"),
        ": a comment\n\n",
        &update("bobs", "one").replace("\r\n", "\n"),
        "id: 7\nevent: message\n",
        &update("bobs", "two"),
        ": a last one\n",
    ]
    .concat();
    for cut in 1..stream.len() {
        let (front, back) = stream.split_at(cut);
        assert_eq!(
            got(&gateway, &pieces, &[front, back]).await,
            (stream.clone(), true),
            "cut at {cut}"
        );
    }
    // What goes on behind the end of an event is no reason to keep the event.
    let own = update("bobs", "three");
    let begun = format!("{}{own}data: {{", task_event("1", "bobs"));
    assert_eq!(
        got(&gateway, &pieces, &[&begun]).await,
        (begun.strip_suffix("data: {").expect("its end").to_owned(), false)
    );
}

#[tokio::test]
async fn an_event_that_cannot_be_read_ends_a_stream_where_tasks_have_owners() {
    let (agent, pieces) = streaming().await;
    let (owned, open) = (start(&agent, "").await, start(&agent, OPEN).await);
    let (first, own) = (task_event("1", "bobs"), update("bobs", "his"));
    let foreign = update("anns", "hidden");
    let result = foreign
        .trim_end()
        .replacen("data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":", "", 1);
    let result = result.strip_suffix('}').expect("its end");
    let both = format!(r#"{{"statusUpdate":{{"taskId":"bobs"}},{}"#, &result[1..]);
    let unreadable = [
        format!("data: {{\"id\":1,\"result\":{{\"task\":{{\"id\":\"bobs\"}}}},\"result\":{result}}}\n\n"),
        foreign.replace("\"taskId\"", "\"taskId\":\"bobs\",\"taskId\""),
        format!("data: {{\"id\":1,\"result\":{result}}} \0\n\n"),
        format!("data: [{{\"id\":1,\"result\":{result}}}]\n\n"),
        format!("data: \u{feff}{{\"id\":1,\"result\":{result}}}\n\n"),
        format!("data: {result}\n\n"),
        event("1", &both),
        event(
            "1",
            r#"{"kind":"artifact-update","taskId":"anns","artifact":{"artifactId":"a","parts":[]}}"#,
        ),
        event("1", &format!("[{result}]")),
    ];
    for event in &unreadable {
        let sent = [&*first, &own, event, &own];
        let whole = sent.concat();
        assert_eq!(
            got(&owned, &pieces, &sent).await,
            (format!("{first}{own}"), false),
            "{event}"
        );
        assert_eq!(got(&open, &pieces, &sent).await, (whole, true), "{event}");
    }
    let records = owned.access(unreadable.len()).await;
    for record in &records {
        assert_eq!(
            (&record["outcome"], &record["detail"]),
            (&"stream_broken".into(), &"event_unreadable".into())
        );
    }
    // What names no task passes, and so does every kind of answer.
    let error = "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32603,\"message\":\"x\"}}\n\n";
    let sent = [
        &*first,
        ": a comment\n\nretry: 10\n\ndata:\n\n",
        "data: [DONE]\n\ndata: ping\n\n",
        &event("1", r#"{"message":{"messageId":"m","role":"ROLE_AGENT","parts":[]}}"#),
        &event(
            "1",
            r#"{"statusUpdate":{"taskId":"bobs","contextId":"ctx-bobs","status":{}}}"#,
        ),
        &event("1", "null"),
        &own,
        &first,
        error,
    ];
    assert_eq!(got(&owned, &pieces, &sent).await, (sent.concat(), true));
}

#[tokio::test]
async fn an_event_waits_up_to_its_bound_and_one_beyond_ends_the_stream() {
    let (agent, pieces) = streaming().await;
    let start = async |more: &str| {
        let yaml = with_upstream(&yaml(&[agent.address], more), &format!("event_bytes: {MOST}B"));
        let gateway = Gateway::start(&yaml).await;
        gateway.ready().await;
        gateway
    };
    let (owned, open) = (start("").await, start(OPEN).await);
    let first = task_event("1", "bobs");
    // As it comes, but for the empty line.
    let line = update("bobs", "").len() - 2;
    let of = |size: usize| update("bobs", &"a".repeat(size - line));
    let mut broken = 0;
    for (size, passes) in [(MOST, true), (MOST + 1, false)] {
        let crlf = of(size);
        let lf = of(size + 1).replace("\r\n", "\n");
        // As many bytes in three lines.
        let lines = of(size - 2 * "\r\ndata: ".len()).replacen(
            "{\"artifactUpdate\"",
            "\r\ndata: {\r\ndata: \"artifactUpdate\"",
            1,
        );
        for large in [crlf, lf, lines] {
            let cuts = [1, 9, MOST / 2].into_iter().chain(large.len() - 6..large.len());
            for cut in cuts {
                let (front, back) = large.split_at(cut);
                let sent = [&*first, front, back];
                let whole = sent.concat();
                let (text, clean) = got(&owned, &pieces, &sent).await;
                let expected = if passes { &whole } else { &first };
                assert_eq!((clean, &text), (passes, expected), "{size} at {cut}");
                assert_eq!(got(&open, &pieces, &sent).await, (whole, true), "{size} without owners");
                broken += usize::from(!passes);
            }
        }
    }
    // Comments within an event count too, those before it do not.
    let before = format!(": {}", "a".repeat(MOST));
    let sent = [&*first, &before, "\n", &before[..9], "\r\n", &of(MOST)];
    assert_eq!(got(&owned, &pieces, &sent).await, (sent.concat(), true));
    let comment = format!(": {}\n", "a".repeat(MOST / 2));
    let sent = [&*first, "event: message\n", &comment, &comment, &of(line)];
    assert_eq!(got(&owned, &pieces, &sent).await, (first.clone(), false));
    assert_eq!(got(&open, &pieces, &sent).await, (sent.concat(), true));
    let records = owned.access(2 * broken + 2).await;
    let ended = records.iter().filter(|record| record["outcome"] == "stream_broken");
    assert_eq!(
        ended.filter(|record| record["detail"] == "event_too_large").count(),
        broken + 1,
        "{records:?}"
    );
}
