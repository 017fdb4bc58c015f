//! Limits at the front door: its own, those of the agents behind it, and what does not cost their callers anything.

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use super::{ANN, WEATHER, by, making, sends, start, two, yaml};
use crate::harness::agent::{Agent, Reply};
use crate::harness::tasks::{Tasks, task};
use crate::harness::{OPEN, call, eventually};

const LIST: &str = r#"{"jsonrpc":"2.0","id":"l","method":"ListTasks","params":{}}"#;
const CARD: &str = r#"{"jsonrpc":"2.0","id":"e","method":"GetExtendedAgentCard","params":{}}"#;

/// Carl is nobody to maps, and weather takes his key alone, twice an hour from an address.
const APART: (&str, &str) = (
    "security: [ { key: [] }, { other: [] } ]",
    "security: [ { other: [] } ]\n    limits: [ { per: address, rate: 2/h } ]",
);

/// Nobody has more under way than it may by leaving early, neither by the limit of the agent nor by that of the front door.
#[tokio::test]
async fn who_leaves_early_keeps_its_place() {
    let limit = "limits: [ { per: principal, concurrent: 1 } ]";
    for (front, of_agent) in [("default: maps", limit), (&*format!("default: maps, {limit}"), "")] {
        let (pieces, answer) = mpsc::channel::<Option<String>>(2);
        let answer = std::sync::Mutex::new(Some(answer));
        let maps = Agent::with_card(super::MAPS, move |_| match answer.lock().unwrap().take() {
            Some(answer) => Reply::Pieces(answer),
            None => Reply::Json(MADE.to_owned()),
        })
        .await;
        let weather = making("w", WEATHER).await;
        let gateway = start(&yaml(&maps, &weather, front, of_agent)).await;
        let body = sends("", "");
        let head = format!(
            "POST / HTTP/1.1\r\nHost: gateway.example\r\nX-API-Key: {ANN}\r\nA2A-Version: 1.0\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let mut caller = TcpStream::connect(gateway.address).await.unwrap();
        caller.write_all(head.as_bytes()).await.unwrap();
        pieces.send(Some(MADE[..20].to_owned())).await.unwrap();
        eventually("the agent answers", || async { maps.received().len() == 1 }).await;
        // The agent's head has come when a piece of its body has.
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        drop(caller);
        let gone = gateway.access(1).await;
        assert_eq!(gone[0]["outcome"], "downstream_gone", "{gone:?}");
        let second = by(ANN, &gateway, &sends("", "")).await;
        assert_eq!(second.status, 429, "{front} {of_agent}: {}", second.text());
        pieces.send(Some(MADE[20..].to_owned())).await.unwrap();
        drop(pieces);
        eventually("its place is free", || async {
            by(ANN, &gateway, &sends("", "")).await.status == 200
        })
        .await;
    }
}

const MADE: &str =
    r#"{"jsonrpc":"2.0","id":1,"result":{"task":{"id":"t","contextId":"c","status":{"state":"TASK_STATE_WORKING"}}}}"#;

/// As at the agent's own address.
#[tokio::test]
async fn what_an_agent_lists_is_of_its_budget_of_bytes() {
    for path in ["/agents/maps", "/"] {
        let many = (0..30).map(|number| task(&format!("t-{number}"), None));
        let maps = Agent::with_card(super::MAPS, Tasks::of(many).script("m")).await;
        let weather = making("w", WEATHER).await;
        let more = format!("{OPEN}\n    limits: [ {{ per: principal, bytes_out: 1KiB/h }} ]");
        let gateway = start(&yaml(&maps, &weather, "agents: [ maps ]", &more)).await;
        let fields = [
            ("X-API-Key", ANN),
            ("content-type", "application/json"),
            ("A2A-Version", "1.0"),
        ];
        let first = call(gateway.address, "POST", path, &fields, LIST).await;
        assert_eq!(first.status, 200, "{path}: {}", first.text());
        let second = call(gateway.address, "POST", path, &fields, LIST).await;
        assert_eq!(second.status, 429, "{path}: {}", second.text());
    }
}

/// Who shows nothing for an agent guesses nothing of it.
#[tokio::test]
async fn lists_and_cards_cost_nothing_at_agents_that_they_are_not_about() {
    // Weather takes another key, or another one beside the one that maps takes.
    let both = APART.1.replace("{ other: [] }", "{ key: [], other: [] }");
    for apart in [APART.1, &both] {
        let maps = Agent::with_card(super::MAPS, Tasks::default().script("m")).await;
        let weather = making("w", WEATHER).await;
        let gateway = start(&yaml(&maps, &weather, "default: maps", "").replace(APART.0, apart)).await;
        for number in 0..3 {
            let card = by(ANN, &gateway, CARD).await;
            assert_eq!(card.status, 200, "{}", card.text());
            assert!(card.text().contains("maps/route") && !card.text().contains("weather/route"));
            let listed = by(ANN, &gateway, LIST).await;
            assert_eq!(listed.status, 200, "{}", listed.text());
            let fresh = by(ANN, &gateway, &sends("", &format!(r#""contextId":"c-{number}""#))).await;
            assert_eq!(fresh.status, 200, "{}", fresh.text());
        }
        let refused = r#"a2a_gateway_rejects_total{reason="unauthenticated""#;
        assert_eq!(gateway.metric(refused).await, 0.0, "nobody was refused");
        let fields = [
            ("X-API-Key", ANN),
            ("X-Weather-Key", "carl-key"),
            ("content-type", "application/json"),
        ];
        for _ in 0..2 {
            let own = call(gateway.address, "POST", "/agents/weather", &fields, &sends("", "")).await;
            assert_eq!(own.status, 200, "{}", own.text());
        }
        // Nothing is left there, and that is nobody else's affair.
        let fresh = by(ANN, &gateway, &sends("", r#""contextId":"mine""#)).await;
        assert_eq!(fresh.status, 200, "{}", fresh.text());
    }
}

/// Whatever limits the front door has: at the third of two guesses even the right one is none.
#[tokio::test]
async fn wrong_credentials_cost_what_they_cost_at_the_agents_they_are_shown_to() {
    let (maps, weather) = two().await;
    let gateway = start(&yaml(&maps, &weather, "", "").replace(APART.0, APART.1)).await;
    let guess = |key: &'static str| {
        let gateway = &gateway;
        async move {
            let fields = [
                ("X-Weather-Key", key),
                ("content-type", "application/json"),
                ("A2A-Version", "1.0"),
            ];
            call(gateway.address, "POST", "/", &fields, CARD).await
        }
    };
    for wrong in ["a", "b"] {
        assert_eq!(guess(wrong).await.status, 401);
    }
    let (wrong, right) = (guess("c").await, guess("carl-key").await);
    assert_eq!((wrong.status, right.status), (429, 429), "{}", right.text());
    // Whoever is known elsewhere is served there.
    assert_eq!(by(ANN, &gateway, &sends(r#""tenant":"maps""#, "")).await.status, 200);
    // Who shows nothing guesses nothing.
    let fields = [("content-type", "application/json")];
    assert_eq!(call(gateway.address, "POST", "/", &fields, CARD).await.status, 401);
}

#[tokio::test]
async fn a_limit_of_the_front_door_is_counted_when_it_is_reached() {
    let (maps, weather) = two().await;
    let front = "default: maps, limits: [ { per: principal, rate: 1/h } ]";
    let gateway = start(&yaml(&maps, &weather, front, "")).await;
    assert_eq!(by(ANN, &gateway, &sends("", "")).await.status, 200);
    assert_eq!(by(ANN, &gateway, &sends("", "")).await.status, 429);
    let reached = r#"a2a_gateway_limits_reached_total{agent="front door",kind="rate"}"#;
    assert_eq!(gateway.metric(reached).await, 1.0);
}

/// One question has one name, in the log and at every agent that is asked.
#[tokio::test]
async fn a_list_of_several_agents_has_one_id() {
    let maps = Agent::with_card(super::MAPS, Tasks::default().script("m")).await;
    let weather = Agent::with_card(WEATHER, Tasks::default().script("w")).await;
    let gateway = start(&yaml(&maps, &weather, "", "")).await;
    let listed = by(ANN, &gateway, LIST).await;
    let id = listed.header("x-request-id").unwrap();
    for agent in [&maps, &weather] {
        assert_eq!(agent.received()[0].field("x-request-id"), Some(id));
    }
    let records = gateway.access(3).await;
    assert!(records.iter().all(|record| record["request"] == id), "{records:?}");
}

/// Carl's conversation is with weather, whatever else he shows and however often he may still show it.
#[tokio::test]
async fn a_conversation_goes_to_no_other_agent_because_of_a_limit() {
    let (maps, weather) = two().await;
    let gateway = start(&yaml(&maps, &weather, "default: maps", "").replace(APART.0, APART.1)).await;
    let fields = [
        ("X-API-Key", ANN),
        ("X-Weather-Key", "carl-key"),
        ("content-type", "application/json"),
        ("A2A-Version", "1.0"),
    ];
    let gateway = &gateway;
    let ask = async |body: String| call(gateway.address, "POST", "/", &fields, &body).await;
    let task = super::task_of(&ask(sends(r#""tenant":"weather""#, "")).await);
    for _ in 0..3 {
        let follows = ask(sends("", &format!(r#""contextId":"ctx-{task}""#))).await;
        assert_eq!(follows.status, 429, "{}", follows.text());
        let got = ask(crate::harness::of_task("GetTask", &task)).await;
        assert_eq!(got.status, 429, "{}", got.text());
    }
    // Nor does that tell whether there is such a context.
    let unknown = ask(sends("", r#""contextId":"nobodys""#)).await;
    assert_eq!(unknown.status, 429, "{}", unknown.text());
    assert!(maps.received().is_empty());
    // Who shows nothing for weather is not concerned.
    let fresh = by(ANN, gateway, &sends("", r#""contextId":"mine""#)).await;
    assert_eq!(fresh.status, 200, "{}", fresh.text());
}
