//! ListTasks over several endpoints: one list, in order, each task once.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::Value;

use crate::harness::agent::{Agent, CARD, Received, Reply};
use crate::harness::tasks::{Tasks, error, task};
use crate::harness::{Answer, Gateway, OPEN, config_of, eventually, of_task, post, with_upstream};

pub fn list(params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":"l","method":"ListTasks","params":{{{params}}}}}"#)
}

/// A page's ids and its token.
pub fn page(answer: &Answer) -> (Vec<String>, String) {
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let answer = answer.json();
    assert_eq!(answer["id"], "l");
    let tasks = answer["result"]["tasks"]
        .as_array()
        .unwrap_or_else(|| panic!("{answer}"));
    let ids = tasks
        .iter()
        .map(|task| task["id"].as_str().unwrap().to_owned())
        .collect();
    (ids, answer["result"]["nextPageToken"].as_str().unwrap().to_owned())
}

/// Walks to the end: the ids of each page.
async fn walk(gateway: &Gateway, params: &str) -> Vec<Vec<String>> {
    let mut pages = Vec::new();
    let mut token = String::new();
    loop {
        let with_token = match token.as_str() {
            "" => params.to_owned(),
            token if params.is_empty() => format!(r#""pageToken":"{token}""#),
            token => format!(r#"{params},"pageToken":"{token}""#),
        };
        let (ids, next) = page(&post(gateway.address, "/agent", &list(&with_token)).await);
        pages.push(ids);
        if next.is_empty() {
            return pages;
        }
        assert!(!next.contains("cursor"), "no endpoint's cursor is shown: {next}");
        assert!(pages.len() < 1000, "the walk ends");
        token = next;
    }
}

/// The same moment in one of the many ways to write it.
fn written(millis: i64) -> String {
    let moment = jiff::Timestamp::from_millisecond(millis).unwrap();
    let offset = jiff::tz::offset(i8::try_from(millis.rem_euclid(5) - 2).unwrap());
    let zoned = moment.to_zoned(offset.to_time_zone());
    let format = match millis.rem_euclid(3) {
        0 => "%Y-%m-%dT%H:%M:%S%.3f%:z",
        1 => "%Y-%m-%dT%H:%M:%S%.f%:z",
        _ => "%Y-%m-%dT%H:%M:%S%.9f%:z",
    };
    zoned.strftime(format).to_string()
}

#[tokio::test]
async fn a_walk_gives_each_task_once_and_in_order() {
    // Two hundred tasks, some of one moment, some of none.
    let mut all: Vec<(Option<i64>, usize, String)> = (0..200)
        .map(|number| {
            let millis = 1_790_000_000_000 + fastrand::i64(0..100_000);
            let millis = (number % 17 != 0).then_some(millis);
            (millis, fastrand::usize(..3), format!("t{number}"))
        })
        .collect();
    // Latest first, without a timestamp last; each agent keeps its own order of equals.
    all.sort_by(|one, other| other.0.cmp(&one.0).then(one.1.cmp(&other.1)));
    let of = |agent: usize| {
        let own = all.iter().filter(|(_, of, _)| *of == agent);
        Tasks::of(own.map(|(millis, _, id)| task(id, millis.map(written).as_deref())))
    };
    let agents = [
        Agent::start(of(0).script("a")).await,
        Agent::start(of(1).script("b")).await,
        Agent::start(of(2).script("c")).await,
    ];
    let addresses = agents.each_ref().map(|agent| agent.address);
    let gateway = Gateway::of(&addresses, OPEN, "").await;
    let expected: Vec<&str> = all.iter().map(|(_, _, id)| id.as_str()).collect();
    for size in [1, 7, 50, 99, 100] {
        let pages = walk(&gateway, &format!(r#""pageSize":{size}"#)).await;
        let (last, full) = pages.split_last().unwrap();
        assert!(full.iter().all(|ids| ids.len() == size), "full pages of {size}");
        assert!(!last.is_empty() && last.len() <= size);
        assert_eq!(pages.concat(), expected, "pages of {size}");
    }
    let pages = walk(&gateway, "").await;
    assert_eq!(pages.iter().map(Vec::len).collect::<Vec<_>>(), [50, 50, 50, 50]);
    assert!(
        gateway
            .metric(r#"a2a_gateway_lists_total{agent="agent",result="whole"}"#)
            .await
            >= 4.0
    );
    assert_eq!(gateway.metric("a2a_gateway_owner_conflicts_total").await, 0.0);
}

#[tokio::test]
async fn the_size_of_a_page_may_change_on_the_way() {
    let tasks = |name: &str, from: i64| {
        let tasks = (0..60).map(|number| task(&format!("{name}{number}"), Some(&written(from - number * 10))));
        Tasks::of(tasks.collect::<Vec<_>>())
    };
    let a = Agent::start(tasks("a", 1_790_000_000_000).script("a")).await;
    let b = Agent::start(tasks("b", 1_790_000_000_003).script("b")).await;
    let gateway = Gateway::of(&[a.address, b.address], OPEN, "").await;
    let mut ids = Vec::new();
    let mut token = String::new();
    for size in [3, 100, 1, 2, 100] {
        let params = format!(r#""pageSize":{size},"pageToken":"{token}""#);
        let (more, next) = page(&post(gateway.address, "/agent", &list(&params)).await);
        ids.extend(more);
        token = next;
    }
    assert_eq!(token, "");
    assert_eq!((ids.len(), ids.iter().collect::<HashSet<_>>().len()), (120, 120));
}

#[tokio::test]
async fn tasks_keep_their_bytes_and_the_page_says_how_many_there_are() {
    let (old, new) = (
        task("old", Some("2026-01-01T00:00:00.5Z")),
        task("new", Some("2026-01-01T01:00:01+00:30")),
    );
    let a = Agent::start(Tasks::of([old.clone()]).script("a")).await;
    let b = Agent::start(Tasks::of([new.clone()]).script("b")).await;
    let gateway = Gateway::of(&[a.address, b.address], OPEN, "").await;
    let params = r#""page_size":9, "x-unknown":[1.0e2] ,"historyLength":0"#;
    let got = post(gateway.address, "/agent", &list(params)).await;
    let expected = format!(
        r#"{{"jsonrpc":"2.0","id":"l","result":{{"tasks":[{new},{old}],"nextPageToken":"","pageSize":9,"totalSize":2}}}}"#
    );
    assert_eq!(got.text(), expected);
    assert_eq!(got.header("a2a-gateway-partial"), None);
    for agent in [&a, &b] {
        let received = agent.received();
        assert_eq!(received.len(), 1);
        assert_eq!(
            String::from_utf8_lossy(&received[0].body),
            list(r#""x-unknown":[1.0e2],"historyLength":0,"pageSize":9"#),
            "what is unknown goes on as it is written"
        );
    }
}

#[tokio::test]
async fn one_endpoint_answers_for_itself() {
    let answer =
        r#"{ "jsonrpc":"2.0","id":"l", "result":{"tasks":[ ],"nextPageToken":"its own","pageSize":1,"totalSize":0}}"#;
    let agent = Agent::start(move |_| Reply::Json(answer.to_owned())).await;
    let gateway = Gateway::of(&[agent.address], OPEN, "").await;
    let asked = list(r#""pageToken":"anything", "pageSize": 1000"#);
    let got = post(gateway.address, "/agent", &asked).await;
    assert_eq!(got.text(), answer);
    assert_eq!(String::from_utf8_lossy(&agent.received()[0].body), asked);
}

#[tokio::test]
async fn what_is_listed_is_learned() {
    let a = Agent::start(Tasks::of([task("of-a", None)]).script("a")).await;
    let b = Agent::start(Tasks::of([task("of-b", None)]).script("b")).await;
    let gateway = Gateway::of(&[a.address, b.address], OPEN, "").await;
    page(&post(gateway.address, "/agent", &list("")).await);
    for (name, agent) in [("of-a", &a), ("of-b", &b)] {
        let before = (a.received().len() + b.received().len(), agent.received().len());
        let got = post(gateway.address, "/agent", &of_task("GetTask", name)).await;
        assert_eq!(got.json()["result"]["id"], name);
        let after = (a.received().len() + b.received().len(), agent.received().len());
        assert_eq!(after, (before.0 + 1, before.1 + 1), "nobody else was asked for {name}");
        // A conversation's tasks are asked for where the conversation is.
        let (ids, _) = page(
            &post(
                gateway.address,
                "/agent",
                &list(&format!(r#""contextId":"ctx-{name}""#)),
            )
            .await,
        );
        assert_eq!(ids, [name]);
        let last = (a.received().len() + b.received().len(), agent.received().len());
        assert_eq!(
            last,
            (after.0 + 1, after.1 + 1),
            "nobody else was asked for the context of {name}"
        );
    }
}

#[tokio::test]
async fn of_two_tasks_with_one_id_the_owners_is_listed() {
    let own = Tasks::of([task("same", Some("2026-01-01T00:00:00Z"))]);
    let other = Tasks::default();
    let a = Agent::start(other.script("a")).await;
    let b = Agent::start(own.script("b")).await;
    let gateway = Gateway::of(&[a.address, b.address], OPEN, "").await;
    page(&post(gateway.address, "/agent", &list("")).await);
    other.set(vec![task("same", Some("2027-01-01T00:00:00Z")), task("more", None)]);
    let got = post(gateway.address, "/agent", &list("")).await;
    let (ids, _) = page(&got);
    assert_eq!(ids, ["same", "more"]);
    assert!(got.text().contains("2026-01-01"), "{}", got.text());
}

#[tokio::test]
async fn a_task_that_moves_to_the_front_hides_no_other() {
    let at = |second: u32| format!("2026-01-01T00:00:{second:02}Z");
    let tasks = Tasks::of((0..4).map(|number| task(&format!("t{number}"), Some(&at(50 - number)))));
    let a = Agent::start(tasks.script("a")).await;
    let b = Agent::start(Tasks::default().script("b")).await;
    let gateway = Gateway::of(&[a.address, b.address], OPEN, "").await;
    // The first page of the endpoint has four, of which two are used.
    let (ids, token) = page(&post(gateway.address, "/agent", &list(r#""pageSize":2"#)).await);
    assert_eq!(ids, ["t0", "t1"]);
    let moved = [("t1", 59), ("t0", 50), ("t2", 48), ("t3", 47)];
    tasks.set(moved.iter().map(|(id, second)| task(id, Some(&at(*second)))).collect());
    let params = format!(r#""pageSize":4,"pageToken":"{token}""#);
    let (ids, next) = page(&post(gateway.address, "/agent", &list(&params)).await);
    assert!(ids.ends_with(&["t2".to_owned(), "t3".to_owned()]), "{ids:?}");
    assert_eq!(next, "");
}

// Endpoints that do not answer.

async fn nobody() -> std::net::SocketAddr {
    let socket = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    socket.local_addr().unwrap()
}

#[tokio::test]
async fn an_endpoint_that_is_away_fails_the_list() {
    let a = Agent::start(Tasks::of([task("t", None)]).script("a")).await;
    let gateway = Gateway::of(&[a.address, nobody().await], OPEN, "").await;
    let got = post(gateway.address, "/agent", &list("")).await;
    assert_eq!((got.status, got.code()), (503, -31503), "{}", got.text());
    assert!(got.header("retry-after").is_some());
    assert_eq!(got.json()["id"], "l");
    assert_eq!(
        gateway
            .metric(r#"a2a_gateway_lists_total{agent="agent",result="failed"}"#)
            .await,
        1.0
    );
    assert_eq!(
        gateway
            .metric(r#"a2a_gateway_rejects_total{fault="upstream",reason="endpoint_unavailable"}"#)
            .await,
        1.0
    );
}

#[tokio::test]
async fn a_partial_list_says_what_it_lacks() {
    let tasks = |name: &str| {
        Tasks::of((0..3).map(|number| task(&format!("{name}{number}"), Some(&written(1_790_000_000_000 - number)))))
    };
    let a = Agent::start(tasks("a").script("a")).await;
    let away = nobody().await;
    let yaml = with_upstream(&config_of(&[away, a.address], OPEN, ""), "list: { partial: true }");
    let gateway = Gateway::start(&yaml).await;
    gateway.ready().await;
    let got = post(gateway.address, "/agent", &list(r#""pageSize":2"#)).await;
    assert_eq!(got.header("a2a-gateway-partial"), Some("1"));
    let (ids, token) = page(&got);
    assert_eq!(ids, ["a0", "a1"]);
    assert_eq!(got.json()["result"]["totalSize"], 3, "of whoever answered");
    assert_eq!(
        gateway
            .metric(r#"a2a_gateway_lists_total{agent="agent",result="partial"}"#)
            .await,
        1.0
    );

    // Still away: the walk ends with what there is.
    let rest = list(&format!(r#""pageSize":2,"pageToken":"{token}""#));
    let got = post(gateway.address, "/agent", &rest).await;
    assert_eq!(got.header("a2a-gateway-partial"), Some("1"));
    assert_eq!(page(&got), (vec!["a2".to_owned()], String::new()));

    // Back in time for the second page: nothing of it is lost.
    let socket = tokio::net::TcpListener::bind(away).await.unwrap();
    let _back = Agent::on(socket, CARD, tasks("b").script("b"));
    eventually("the gateway has found that it is back", || async {
        let got = post(gateway.address, "/agent", &list("")).await;
        got.header("a2a-gateway-partial").is_none()
    })
    .await;
    let mut listed = Vec::new();
    let mut asked = rest;
    loop {
        let got = post(gateway.address, "/agent", &asked).await;
        assert_eq!(got.header("a2a-gateway-partial"), None);
        let (ids, token) = page(&got);
        listed.extend(ids);
        if token.is_empty() {
            break;
        }
        asked = list(&format!(r#""pageSize":2,"pageToken":"{token}""#));
    }
    assert_eq!(listed, ["b0", "b1", "b2", "a2"]);
}

#[tokio::test]
async fn a_list_that_nobody_answers_is_no_partial_one() {
    let yaml = config_of(&[nobody().await, nobody().await], OPEN, "");
    let gateway = Gateway::start(&with_upstream(&yaml, "list: { partial: true }")).await;
    let got = post(gateway.address, "/agent", &list("")).await;
    assert_eq!(got.status, 503, "{}", got.text());
    assert_eq!(gateway.access(1).await[0]["outcome"], "endpoint_unavailable");
    assert_eq!(got.header("a2a-gateway-partial"), None);
}

#[tokio::test]
async fn an_endpoint_that_hangs_or_lies_is_one_that_is_away() {
    let good = Agent::start(Tasks::of([task("t", None)]).script("good")).await;
    type Script = fn(&Value) -> Reply;
    let scripts: [(&str, Script); 6] = [
        ("an error", |call| error(call, -32603, "no")),
        ("no page", |call| {
            Reply::Json(format!(
                r#"{{"jsonrpc":"2.0","id":{},"result":{{"tasks":5}}}}"#,
                call["id"]
            ))
        }),
        ("a task without an id", |call| {
            Reply::Json(format!(
                r#"{{"jsonrpc":"2.0","id":{},"result":{{"tasks":[{{}}]}}}}"#,
                call["id"]
            ))
        }),
        ("two ids", |call| {
            let tasks = r#"[{"id":"a","id":"b"}]"#;
            Reply::Json(format!(
                r#"{{"jsonrpc":"2.0","id":{},"result":{{"tasks":{tasks}}}}}"#,
                call["id"]
            ))
        }),
        ("a long cursor", |call| {
            let cursor = "c".repeat(4097);
            Reply::Json(format!(
                r#"{{"jsonrpc":"2.0","id":{},"result":{{"tasks":[],"nextPageToken":"{cursor}"}}}}"#,
                call["id"]
            ))
        }),
        ("silence", |_| Reply::Silence),
    ];
    for (what, script) in scripts {
        let bad = Agent::start(move |request| script(&request.json())).await;
        for partial in [false, true] {
            let settings = format!("first_byte_timeout: 500ms, list: {{ partial: {partial} }}");
            let gateway = Gateway::start(&with_upstream(
                &config_of(&[good.address, bad.address], OPEN, ""),
                &settings,
            ))
            .await;
            gateway.ready().await;
            let got = post(gateway.address, "/agent", &list("")).await;
            if partial {
                assert_eq!(page(&got), (vec!["t".to_owned()], String::new()), "{what}");
                assert_eq!(got.header("a2a-gateway-partial"), Some("1"), "{what}");
            } else {
                assert_eq!(got.status, 503, "{what}: {}", got.text());
            }
        }
    }
}

#[tokio::test]
async fn an_error_of_every_endpoint_is_the_callers() {
    let script = |request: &Received| error(&request.json(), -32602, "no such status");
    let (a, b) = (Agent::start(script).await, Agent::start(script).await);
    let gateway = Gateway::of(&[a.address, b.address], OPEN, "").await;
    let got = post(gateway.address, "/agent", &list(r#""status":"?""#)).await;
    assert_eq!((got.status, got.code()), (200, -32602));
    assert_eq!(got.json()["error"]["message"], "no such status");
    let records = gateway.access(1).await;
    assert_eq!(records[0]["outcome"], "agent_error");
}

#[tokio::test]
async fn a_page_has_a_size_that_the_protocol_allows() {
    let a = Agent::start(Tasks::default().script("a")).await;
    let b = Agent::start(Tasks::default().script("b")).await;
    let gateway = Gateway::of(&[a.address, b.address], OPEN, "").await;
    for size in ["0", "101", "-1", "1.5", "\"x\"", "[]"] {
        let got = post(gateway.address, "/agent", &list(&format!(r#""pageSize":{size}"#))).await;
        assert_eq!((got.status, got.code()), (200, -32602), "{size}");
    }
    assert!(a.received().is_empty(), "nobody was asked");
    for (size, expected) in [("1", 1), ("100", 100), ("\"7\"", 7), ("null", 50)] {
        let got = post(gateway.address, "/agent", &list(&format!(r#""pageSize":{size}"#))).await;
        assert_eq!(got.json()["result"]["pageSize"], expected, "{size}");
    }
}

#[tokio::test]
async fn a_page_ends_where_one_answer_would_be_too_large() {
    let tasks = |name: &str| {
        Tasks::of((0..30).map(|number| {
            task(
                &format!("{name}{number:0>200}"),
                Some(&written(1_790_000_000_000 - number)),
            )
        }))
    };
    let a = Agent::start(tasks("a").script("a")).await;
    let b = Agent::start(tasks("b").script("b")).await;
    let yaml = with_upstream(&config_of(&[a.address, b.address], OPEN, ""), "answer_bytes: 20KiB");
    let gateway = Gateway::start(&yaml).await;
    gateway.ready().await;
    let pages = walk(&gateway, "").await;
    assert_eq!(pages.concat().into_iter().collect::<HashSet<_>>().len(), 60);
    assert!(pages[0].len() < 50, "{}", pages[0].len());
    assert!(
        gateway
            .metric(r#"a2a_gateway_lists_total{agent="agent",result="short"}"#)
            .await
            >= 1.0
    );
    eventually("no call is left", || async {
        gateway.access(pages.len()).await.len() >= pages.len()
    })
    .await;
}

#[tokio::test]
async fn a_call_asks_only_so_often() {
    let endless = |request: &Received| {
        let id = &request.json()["id"];
        Reply::Json(format!(
            r#"{{"jsonrpc":"2.0","id":{id},"result":{{"tasks":[],"nextPageToken":"n"}}}}"#
        ))
    };
    let a = Agent::start(endless).await;
    let b = Agent::start(Tasks::of([task("t", None)]).script("b")).await;
    let gateway = Gateway::of(&[a.address, b.address], OPEN, "").await;
    let (ids, token) = page(&post(gateway.address, "/agent", &list("")).await);
    assert!(
        ids.is_empty(),
        "nobody is overtaken by an endpoint that says that it has more: {ids:?}"
    );
    assert!(!token.is_empty(), "the next call goes on");
    assert_eq!((a.received().len(), b.received().len()), (8, 1));
    assert_eq!(
        gateway
            .metric(r#"a2a_gateway_lists_total{agent="agent",result="short"}"#)
            .await,
        1.0
    );
    page(&post(gateway.address, "/agent", &list(&format!(r#""pageToken":"{token}""#))).await);
    assert_eq!((a.received().len(), b.received().len()), (16, 2));
}

#[tokio::test]
async fn a_page_ends_when_its_time_is_over() {
    let slow = |request: &Received| {
        let call = request.json();
        if call["params"]["pageToken"].is_null() {
            let task = task("t", None);
            let page = format!(r#"{{"tasks":[{task}],"nextPageToken":"n"}}"#);
            return Reply::Json(format!(r#"{{"jsonrpc":"2.0","id":{},"result":{page}}}"#, call["id"]));
        }
        Reply::Silence
    };
    let a = Agent::start(slow).await;
    let b = Agent::start(Tasks::default().script("b")).await;
    let yaml = with_upstream(
        &config_of(&[a.address, b.address], OPEN, ""),
        "first_byte_timeout: 500ms",
    );
    let gateway = Gateway::start(&yaml).await;
    gateway.ready().await;
    let (ids, token) = page(&post(gateway.address, "/agent", &list("")).await);
    assert_eq!(ids, ["t"], "what came in time");
    let got = post(gateway.address, "/agent", &list(&format!(r#""pageToken":"{token}""#))).await;
    assert_eq!(got.status, 503, "nothing came in time: {}", got.text());
}

#[tokio::test]
async fn not_all_of_many_endpoints_are_asked_at_once() {
    let (asked, waiting) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
    let mut agents = Vec::new();
    for _ in 0..10 {
        let (asked, waiting) = (asked.clone(), waiting.clone());
        let script = move |_: &Received| {
            asked.fetch_add(1, Ordering::SeqCst);
            let (answer, later) = tokio::sync::oneshot::channel();
            waiting.lock().unwrap().push(answer);
            Reply::Later(later)
        };
        agents.push(Agent::start(script).await);
    }
    let addresses: Vec<_> = agents.iter().map(|agent| agent.address).collect();
    let gateway = Gateway::of(&addresses, OPEN, "").await;
    let address = gateway.address;
    let call = tokio::spawn(async move { post(address, "/agent", &list("")).await });
    let answers = || -> Vec<tokio::sync::oneshot::Sender<String>> { std::mem::take(&mut waiting.lock().unwrap()) };
    let count = |count: usize| {
        let asked = asked.clone();
        async move {
            eventually("the agents are asked", || async {
                asked.load(Ordering::SeqCst) == count
            })
            .await
        }
    };
    count(8).await;
    let mut held = answers();
    let empty = || r#"{"jsonrpc":"2.0","id":"l","result":{"tasks":[]}}"#.to_owned();
    held.pop().unwrap().send(empty()).unwrap();
    count(9).await;
    held.extend(answers());
    for answer in held {
        answer.send(empty()).unwrap();
    }
    count(10).await;
    for answer in answers() {
        answer.send(empty()).unwrap();
    }
    assert_eq!(page(&call.await.unwrap()), (Vec::new(), String::new()));
}

#[tokio::test]
async fn the_tasks_of_a_context_whose_endpoint_is_gone_are_not_none() {
    let folder = tempfile::tempdir().unwrap();
    let a = Agent::start(Tasks::of([task("t", None)]).script("a")).await;
    let b = Agent::start(Tasks::default().script("b")).await;
    let c = Agent::start(Tasks::default().script("c")).await;
    let start = async |endpoints: &[std::net::SocketAddr]| {
        let store = format!("state: {{ store: embedded, path: \"{}\" }}", folder.path().display());
        let yaml = config_of(endpoints, OPEN, "").replace("state: { store: memory }", &store);
        let gateway = Gateway::start(&yaml).await;
        gateway.ready().await;
        gateway
    };
    let gateway = start(&[a.address, b.address]).await;
    page(&post(gateway.address, "/agent", &list("")).await);
    gateway.shutdown().await;
    let gateway = start(&[b.address, c.address]).await;
    let got = post(gateway.address, "/agent", &list(r#""contextId":"ctx-t""#)).await;
    assert_eq!(got.status, 503, "{}", got.text());
    assert!(got.text().contains("holds this task"), "{}", got.text());
}
