//! Endpoints that go, hang, flap and come back: who notices, and that no caller can make a working one go.

use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use super::{CREDENTIAL, JSON};
use crate::harness::agent::{self, Agent, CARD, Received, Reply, task_event};
use crate::harness::client::{open, read};
use crate::harness::{Gateway, KEY, OPEN, call, config_of, eventually, get, of_task, post, send, with_upstream};

/// What the admin listener says of the endpoint at this address.
async fn endpoint(gateway: &Gateway, address: SocketAddr) -> Value {
    let all = get(gateway.admin, "/agents/agent/endpoints").await.json();
    let url = format!("http://{address}/");
    let list = all["endpoints"].as_array().expect("a list");
    list.iter()
        .find(|one| one["url"] == url.as_str())
        .expect("listed")
        .clone()
}

async fn two(
    a: impl Fn(&Received) -> Reply + Send + Sync + 'static,
    b: impl Fn(&Received) -> Reply + Send + Sync + 'static,
    settings: &str,
) -> (Agent, Agent, Gateway) {
    let (a, b) = (Agent::start(a).await, Agent::start(b).await);
    let yaml = with_upstream(&config_of(&[a.address, b.address], "", ""), settings);
    let gateway = Gateway::start(&yaml).await;
    gateway.ready().await;
    (a, b, gateway)
}

fn named(name: &'static str) -> impl Fn(&Received) -> Reply + Send + Sync + 'static {
    agent::tasks(move || name.to_owned())
}

async fn made(gateway: &Gateway) -> String {
    let got = post(gateway.address, "/agent", &send("1", "x")).await;
    assert_eq!(got.status, 200, "{}", got.text());
    got.json()["result"]["task"]["id"].as_str().expect("a task").to_owned()
}

#[tokio::test]
async fn an_endpoint_that_dies_inside_a_stream_breaks_it_and_gets_nothing_more() {
    let (events, chunks) = mpsc::channel(4);
    let chunks = Mutex::new(Some(chunks));
    let stream = move |_: &Received| match chunks.lock().unwrap().take() {
        Some(chunks) => Reply::Stream(chunks),
        None => Reply::Silence,
    };
    let (dying, living, gateway) = two(stream, named("b"), "balance: round_robin").await;
    events.send(Some(task_event("1", "t"))).await.unwrap();
    let request = send("1", "x").replace("SendMessage", "SendStreamingMessage");
    let response = loop {
        let response = open(gateway.address, "POST", "/agent", &[JSON, CREDENTIAL], &request).await;
        if !dying.received().is_empty() {
            break response;
        }
    };
    let address = dying.address;
    drop(dying);
    let (text, clean) = read(response).await;
    assert!(text.contains("\"t\"") && !clean, "{text}");
    // The broken stream alone made the gateway look.
    eventually("the endpoint is known to be dead", || async {
        endpoint(&gateway, address).await["reachable"] == false
    })
    .await;
    let before = gateway.metric("a2a_gateway_upstream_failures_total").await;
    for _ in 0..6 {
        assert_eq!(made(&gateway).await, "b");
    }
    assert_eq!(
        gateway.metric("a2a_gateway_upstream_failures_total").await,
        before,
        "nobody met it"
    );
    assert_eq!(gateway.metric("a2a_gateway_endpoint_ejections_total").await, 1.0);
    // One call of its task a second finds out; the others are told at once.
    let mut reasons = Vec::new();
    for _ in 0..3 {
        let got = post(gateway.address, "/agent", &of_task("GetTask", "t")).await;
        assert_eq!((got.status, got.code()), (503, -31503), "{}", got.text());
        reasons.push(got.header("retry-after").map(str::to_owned));
    }
    assert!(reasons.iter().all(Option::is_some), "{reasons:?}");
    let met = gateway.metric("a2a_gateway_upstream_failures_total").await - before;
    assert!(met <= 2.0, "{met} of three calls went to the dead endpoint");
    drop(living);
}

#[tokio::test]
async fn a_black_hole_is_ejected_once_it_does_not_answer_the_gateway_either() {
    // Takes connections, and answers neither calls nor cards.
    let hole = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = hole.local_addr().unwrap();
    let job = tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((stream, _)) = hole.accept().await {
            open.push(stream);
        }
    });
    let living = Agent::start(named("b")).await;
    let settings = "balance: round_robin, send_timeout: 100ms, ejection: { consecutive_failures: 2 }";
    let yaml = with_upstream(&config_of(&[living.address, address], "", ""), settings);
    let gateway = Gateway::start(&yaml).await;
    gateway.ready().await;
    eventually("the black hole is ejected", || async {
        let got = post(gateway.address, "/agent", &send("1", "x")).await;
        assert!(got.status == 200 || got.status == 504, "{}", got.text());
        endpoint(&gateway, address).await["open"] == false
    })
    .await;
    for _ in 0..6 {
        assert_eq!(made(&gateway).await, "b");
    }
    job.abort();
}

#[tokio::test]
async fn an_endpoint_that_flaps_comes_back_by_a_call_of_its_task() {
    let living = Agent::start(named("b")).await;
    let flapping = Agent::start(named("a")).await;
    let address = flapping.address;
    let yaml = config_of(&[living.address, address], "", "");
    let gateway = Gateway::start(&with_upstream(&yaml, "balance: round_robin, ejection: { base: 5m }")).await;
    gateway.ready().await;
    while made(&gateway).await != "a" {}
    drop(flapping);
    // New work goes elsewhere meanwhile; nobody sees an error.
    eventually("the endpoint is known to be dead", || async {
        assert_eq!(post(gateway.address, "/agent", &send("1", "x")).await.status, 200);
        endpoint(&gateway, address).await["reachable"] == false
    })
    .await;
    let again = Agent::on(TcpListener::bind(address).await.unwrap(), CARD, named("a"));
    eventually("a call of its task gets through", || async {
        post(gateway.address, "/agent", &of_task("GetTask", "a")).await.status == 200
    })
    .await;
    assert_eq!(endpoint(&gateway, address).await["open"], true);
    let before = again.received().len();
    made(&gateway).await;
    made(&gateway).await;
    assert!(again.received().len() > before, "new work comes again");
}

#[tokio::test]
async fn all_endpoints_down_is_a_clear_error_and_none_for_longer_than_it_lasts() {
    let (a, b) = (Agent::start(named("a")).await, Agent::start(named("b")).await);
    let gateway = Gateway::of(&[a.address, b.address], "", "").await;
    let addresses = [a.address, b.address];
    drop((a, b));
    for _ in 0..12 {
        let got = post(gateway.address, "/agent", &send("1", "x")).await;
        assert_eq!((got.status, got.code()), (502, -31502), "{}", got.text());
        assert!(got.header("retry-after").is_some());
    }
    eventually("both are known to be dead", || async {
        endpoint(&gateway, addresses[0]).await["reachable"] == false
            && endpoint(&gateway, addresses[1]).await["reachable"] == false
    })
    .await;
    assert_eq!(post(gateway.address, "/agent", &send("1", "x")).await.status, 502);
    assert!(gateway.metric("a2a_gateway_balance_panics_total").await >= 1.0);
    let _again = Agent::on(TcpListener::bind(addresses[0]).await.unwrap(), CARD, named("a"));
    assert_eq!(
        made(&gateway).await,
        "a",
        "tried although it was dead: nothing else is left"
    );
}

/// Everything that one caller can do to one endpoint, again and again.
#[tokio::test]
async fn garbage_leaving_and_slow_reading_eject_nobody() {
    let poison = |request: &Received| match request.json()["params"]["message"]["parts"][0]["text"].as_str() {
        Some("500") => Reply::Whole(500, "content-type: text/plain\r\n", "crashed".to_owned()),
        Some("400") => Reply::Whole(400, "content-type: text/plain\r\n", "no".to_owned()),
        Some("garbage") => Reply::Json("<html>".to_owned()),
        Some("reset") => Reply::Raw(Vec::new()),
        Some("error") => Reply::Json(format!(
            r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":-32603,"message":"m"}}}}"#,
            request.json()["id"]
        )),
        Some("hang") => Reply::Silence,
        _ => agent::tasks(|| "t".to_owned())(request),
    };
    let settings = "balance: round_robin, ejection: { consecutive_failures: 3 }";
    let (a, b, gateway) = two(poison, poison, settings).await;
    for text in ["500", "400", "garbage", "reset", "error"] {
        for _ in 0..10 {
            post(gateway.address, "/agent", &send("1", text)).await;
        }
    }
    // Not even JSON, and callers that leave: inside the head, the body, and while the agent works.
    for _ in 0..10 {
        post(gateway.address, "/agent", "{").await;
        let body = send("1", "hang");
        for bytes in [
            "POST /agent HT".to_owned(),
            format!(
                "POST /agent HTTP/1.1\r\nhost: a\r\nx-api-key: {KEY}\r\ncontent-type: application/json\r\ncontent-length: 999\r\n\r\n{{"
            ),
            format!(
                "POST /agent HTTP/1.1\r\nhost: a\r\nx-api-key: {KEY}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            ),
        ] {
            let mut stream = TcpStream::connect(gateway.address).await.unwrap();
            stream.write_all(bytes.as_bytes()).await.unwrap();
            let mut one = [0];
            let _silence = tokio::time::timeout(Duration::from_millis(10), stream.read(&mut one)).await;
        }
    }
    // The gateway asked by itself in between, and was answered.
    for agent in [&a, &b] {
        let state = endpoint(&gateway, agent.address).await;
        assert_eq!(state["open"], true, "{state}");
    }
    assert_eq!(gateway.metric("a2a_gateway_endpoint_ejections_total").await, 0.0);
    assert_eq!(made(&gateway).await, "t");
}

#[tokio::test]
async fn checks_take_an_endpoint_out_and_bring_it_back() {
    let (a, b) = (Agent::start(named("a")).await, Agent::start(named("b")).await);
    let yaml = config_of(&[a.address, b.address], "", "");
    let checks = "balance: round_robin, health: { interval: 100ms, timeout: 100ms, unhealthy_after: 2 }";
    let gateway = Gateway::start(&with_upstream(&yaml, checks)).await;
    gateway.ready().await;
    let address = a.address;
    drop(a);
    // No call has met it.
    eventually("the endpoint is unhealthy", || async {
        endpoint(&gateway, address).await["healthy"] == false
    })
    .await;
    for _ in 0..4 {
        assert_eq!(made(&gateway).await, "b");
    }
    assert_eq!(gateway.metric("a2a_gateway_upstream_failures_total").await, 0.0);
    assert!(
        gateway
            .metric("a2a_gateway_health_checks_total{agent=\"agent\",result=\"bad\"}")
            .await
            >= 2.0
    );
    assert_eq!(
        gateway
            .metric("a2a_gateway_endpoints{agent=\"agent\",state=\"unhealthy\"}")
            .await,
        1.0
    );
    let _again = Agent::on(TcpListener::bind(address).await.unwrap(), CARD, named("a"));
    eventually("the endpoint is healthy", || async {
        endpoint(&gateway, address).await["open"] == true
    })
    .await;
    let two = [made(&gateway).await, made(&gateway).await];
    assert!(two.contains(&"a".to_owned()), "{two:?}");
}

#[tokio::test]
async fn a_drained_endpoint_keeps_its_tasks_and_takes_no_new_ones() {
    let (a, b, gateway) = two(named("a"), named("b"), "balance: round_robin").await;
    while made(&gateway).await != "a" {}
    let set = |what: &'static str, method: &'static str| {
        let path = format!("/agents/agent/endpoints/{what}?url=http%3A%2F%2F{}%2F", a.address);
        let admin = gateway.admin;
        async move { call(admin, method, &path, &[JSON], "").await }
    };
    assert_eq!(set("drain", "GET").await.status, 405);
    assert_eq!(set("drain", "POST").await.status, 200);
    assert_eq!(endpoint(&gateway, a.address).await["draining"], true);
    for _ in 0..6 {
        assert_eq!(made(&gateway).await, "b");
    }
    let before = a.received().len();
    assert_eq!(
        post(gateway.address, "/agent", &of_task("GetTask", "a")).await.status,
        200
    );
    let more = send("1", "x").replace("\"messageId\"", "\"contextId\":\"ctx-a\",\"messageId\"");
    assert_eq!(post(gateway.address, "/agent", &more).await.status, 200);
    assert_eq!(a.received().len(), before + 2, "its task and its context");
    assert_eq!(set("undrain", "POST").await.status, 200);
    let two = [made(&gateway).await, made(&gateway).await];
    assert!(two.contains(&"a".to_owned()), "{two:?}");
    for (path, status) in [
        ("/agents/agent/endpoints/drain", 400),
        ("/agents/agent/endpoints/drain?url=http://nowhere/", 404),
        ("/agents/other/endpoints/drain?url=x", 404),
    ] {
        assert_eq!(
            call(gateway.admin, "POST", path, &[JSON], "").await.status,
            status,
            "{path}"
        );
    }
    let unasked = call(gateway.admin, "POST", "/agents/agent/endpoints/drain?url=x", &[], "").await;
    assert_eq!(unasked.status, 415, "what a page in a browser can send");
    assert_eq!(get(gateway.admin, "/agents/other/endpoints").await.status, 404);
    drop(b);
}

#[tokio::test]
async fn calls_past_the_bound_wait_in_line_and_past_the_line_are_refused() {
    let (release, held) = tokio::sync::oneshot::channel();
    let held = Mutex::new(Some(held));
    let agent = Agent::start(move |request| match held.lock().unwrap().take() {
        Some(held) => Reply::Later(held),
        None => agent::tasks(|| "t".to_owned())(request),
    })
    .await;
    let settings = "max_in_flight: 1, queue: { length: 1, timeout: 1m }";
    let gateway = Gateway::start(&with_upstream(&config_of(&[agent.address], "", ""), settings)).await;
    gateway.ready().await;
    let (address, admin) = (gateway.address, gateway.admin);
    let first = tokio::spawn(async move { post(address, "/agent", &send("\"first\"", "x")).await });
    eventually("the first call is under way", || async { agent.received().len() == 1 }).await;
    let second = tokio::spawn(async move { post(address, "/agent", &send("\"second\"", "x")).await });
    eventually("the second call waits", || async {
        get(admin, "/agents/agent/endpoints").await.json()["endpoints"][0]["queued"] == 1
    })
    .await;
    let third = post(address, "/agent", &send("\"third\"", "x")).await;
    assert_eq!((third.status, third.code()), (503, -31503), "{}", third.text());
    assert_eq!(third.header("retry-after"), Some("1"));
    // Who leaves makes room for another one.
    second.abort();
    eventually("nobody waits", || async {
        get(admin, "/agents/agent/endpoints").await.json()["endpoints"][0]["queued"] == 0
    })
    .await;
    let fourth = tokio::spawn(async move { post(address, "/agent", &send("\"fourth\"", "x")).await });
    eventually("the fourth call waits", || async {
        get(admin, "/agents/agent/endpoints").await.json()["endpoints"][0]["queued"] == 1
    })
    .await;
    let answer = r#"{"jsonrpc":"2.0","id":"first","result":{"task":{"id":"t","contextId":"c","status":{"state":"TASK_STATE_WORKING"}}}}"#;
    release.send(answer.to_owned()).unwrap();
    assert_eq!(first.await.unwrap().status, 200);
    assert_eq!(fourth.await.unwrap().json()["id"], "fourth");
    let ids: Vec<String> = agent.received().iter().map(Received::id).collect();
    assert_eq!(ids, ["\"first\"", "\"fourth\""]);
    assert!(gateway.metric("a2a_gateway_queued_calls_total").await >= 3.0);
}

#[tokio::test]
async fn retries_end_with_their_budget_and_reads_are_repeated_on_their_owner() {
    // The owner closes each read once.
    let closed = AtomicBool::new(false);
    let owner = Agent::start(move |request: &Received| {
        let is_read = request.json()["method"] == "GetTask";
        if is_read && !closed.swap(true, Ordering::SeqCst) {
            return Reply::Raw(Vec::new());
        }
        agent::tasks(|| "t".to_owned())(request)
    })
    .await;
    let gateway = Gateway::of(&[owner.address], "", "").await;
    made(&gateway).await;
    let got = post(gateway.address, "/agent", &of_task("GetTask", "t")).await;
    assert_eq!(got.status, 200, "{}", got.text());
    assert_eq!(gateway.metric("a2a_gateway_upstream_retries_total").await, 1.0);

    // The extended card, which belongs to no endpoint, comes from the other endpoint; past the budget it fails.
    let (a, b, gateway) = two(
        |_| Reply::Raw(Vec::new()),
        |_| Reply::Raw(Vec::new()),
        "retry_budget: 0%",
    )
    .await;
    for _ in 0..40 {
        let card = r#"{"jsonrpc":"2.0","id":"c","method":"GetExtendedAgentCard"}"#;
        let got = post(gateway.address, "/agent", card).await;
        assert_eq!(got.status, 502, "{}", got.text());
    }
    let retried = gateway.metric("a2a_gateway_upstream_retries_total").await;
    let refused = gateway.metric("a2a_gateway_upstream_retries_refused_total").await;
    assert_eq!(retried + refused, 40.0);
    assert!(refused >= 1.0, "thirty in ten seconds are free");
    let received = u32::try_from(a.received().len() + b.received().len()).expect("few");
    assert_eq!(f64::from(received), 40.0 + retried);
}

#[tokio::test]
async fn an_endpoint_without_a_card_of_its_own_is_not_ejected_by_one_caller() {
    let cards = Agent::start(|_| Reply::Silence).await;
    let script = |name: &'static str| {
        move |request: &Received| {
            if request.json()["params"]["message"]["parts"][0]["text"] == "break" {
                return Reply::Whole(500, "", "no".to_owned());
            }
            named(name)(request)
        }
    };
    let (a, b) = (Agent::start(script("a")).await, Agent::start(script("b")).await);
    let more = format!(
        "card: {{ url: \"http://{}/.well-known/agent-card.json\" }}",
        cards.address
    );
    let settings = "balance: round_robin, ejection: { consecutive_failures: 3 }";
    for agent in [&a, &b] {
        agent.hide_card();
    }
    let yaml = with_upstream(&config_of(&[a.address, b.address], &more, ""), settings);
    let gateway = Gateway::start(&yaml).await;
    gateway.ready().await;
    let asked = || a.cards() + b.cards();
    eventually("the gateway has asked an endpoint itself", || async {
        post(gateway.address, "/agent", &send("1", "break")).await;
        asked() >= 4
    })
    .await;
    assert_eq!(gateway.metric("a2a_gateway_endpoint_ejections_total").await, 0.0);
}

#[tokio::test]
async fn reads_that_a_caller_breaks_leave_retries_for_others() {
    let script = |name: &'static str| {
        move |request: &Received| {
            if request.json()["params"]["historyLength"] == 7 {
                return Reply::Raw(Vec::new());
            }
            named(name)(request)
        }
    };
    let (a, b, gateway) = two(script("a"), script("b"), "balance: round_robin").await;
    let task = made(&gateway).await;
    let poison = of_task("GetTask", &task).replace("\"params\":{", "\"params\":{\"historyLength\":7,");
    for _ in 0..80 {
        post(gateway.address, "/agent", &poison).await;
    }
    assert!(gateway.metric("a2a_gateway_upstream_retries_refused_total").await > 0.0);
    drop(a);
    for _ in 0..4 {
        assert_eq!(made(&gateway).await, "b");
    }
    drop(b);
}

#[tokio::test]
async fn what_the_gateway_asks_all_endpoints_is_repeated_within_the_budget() {
    let broken = |_: &Received| Reply::Raw(Vec::new());
    let list = r#"{"jsonrpc":"2.0","id":1,"method":"ListTasks","params":{}}"#.to_owned();
    for (body, more) in [(list, ""), (of_task("GetTask", "t"), OPEN)] {
        let (a, b) = (Agent::start(broken).await, Agent::start(broken).await);
        let settings = "retry_budget: 0%, ejection: { enabled: false }";
        let yaml = with_upstream(&config_of(&[a.address, b.address], more, ""), settings);
        let gateway = Gateway::start(&yaml).await;
        gateway.ready().await;
        for _ in 0..30 {
            assert_eq!(post(gateway.address, "/agent", &body).await.status, 503, "{body}");
        }
        let retried = gateway.metric("a2a_gateway_upstream_retries_total").await;
        let refused = gateway.metric("a2a_gateway_upstream_retries_refused_total").await;
        assert_eq!(retried + refused, 60.0, "{body}");
        assert!(refused >= 1.0, "fifteen in ten seconds are free: {body}");
        let received = u32::try_from(a.received().len() + b.received().len()).expect("few");
        assert_eq!(f64::from(received), 60.0 + retried, "{body}");
    }
}

#[tokio::test]
async fn a_list_waits_for_a_place_like_every_call() {
    let (events, chunks) = mpsc::channel(4);
    let chunks = Mutex::new(Some(chunks));
    let agent = Agent::start(move |request: &Received| {
        if request.json()["method"] == "SendStreamingMessage" {
            return Reply::Stream(chunks.lock().unwrap().take().expect("one stream"));
        }
        let page = r#"{"tasks":[],"nextPageToken":"","pageSize":100,"totalSize":0}"#;
        Reply::Json(format!(r#"{{"jsonrpc":"2.0","id":{},"result":{page}}}"#, request.id()))
    })
    .await;
    let settings = "max_in_flight: 1, queue: { timeout: 30s }";
    let gateway = Gateway::start(&with_upstream(&config_of(&[agent.address], "", ""), settings)).await;
    gateway.ready().await;
    events.send(Some(task_event("1", "t"))).await.unwrap();
    let request = send("1", "x").replace("SendMessage", "SendStreamingMessage");
    let stream = open(gateway.address, "POST", "/agent", &[JSON, CREDENTIAL], &request).await;
    let address = gateway.address;
    let list = tokio::spawn(async move {
        let list = r#"{"jsonrpc":"2.0","id":1,"method":"ListTasks","params":{}}"#;
        post(address, "/agent", list).await
    });
    eventually("the list waits", || async {
        list.is_finished() || gateway.metric("a2a_gateway_queued_calls_total").await >= 1.0
    })
    .await;
    drop(stream);
    let list = list.await.unwrap();
    assert_eq!(list.status, 200, "{}", list.text());
    assert!(list.json()["result"]["tasks"].is_array(), "{}", list.text());
}
