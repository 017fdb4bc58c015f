//! Agents that are not there, or whose cards are wrong, when the gateway starts and later.

use std::net::SocketAddr;

use serde_json::{Value, json};
use socket2::{Domain, Socket, Type};
use tokio::net::TcpListener;

use crate::faults::JSON;
use crate::harness::agent::{Agent, CARD};
use crate::harness::{Gateway, agent, call, config_of, eventually, get, post, send};

const CARD_PATH: &str = "/agent/.well-known/agent-card.json";

/// An address that is taken, so that nobody else gets it, and refuses connections until somebody listens.
struct Later {
    socket: Socket,
    address: SocketAddr,
}

impl Later {
    fn new() -> Self {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        let address = socket.local_addr().unwrap().as_socket().unwrap();
        Self { socket, address }
    }

    fn listen(self) -> TcpListener {
        self.socket.listen(128).unwrap();
        self.socket.set_nonblocking(true).unwrap();
        TcpListener::from_std(self.socket.into()).unwrap()
    }
}

fn tasks() -> impl Fn(&agent::Received) -> agent::Reply + Send + Sync {
    agent::tasks(|| "t".to_owned())
}

/// What operators see, once `/ready` says something of this kind about the agent.
async fn told(gateway: &Gateway, agent: &str, member: &str) -> (u16, Value) {
    eventually(&format!("{member} is told of {agent}"), || async {
        let told = &get(gateway.admin, "/ready").await.json()["agents"][agent][member];
        !told.is_null()
    })
    .await;
    let answer = get(gateway.admin, "/ready").await;
    (answer.status, answer.json()["agents"][agent].clone())
}

/// Without `security`: what callers must show is what the card says.
fn by_card(address: SocketAddr) -> String {
    config_of(&[address], "card: { refresh: 1s }", "").replace("security: [ { key: [] } ]\n", "")
}

#[tokio::test]
async fn an_agent_that_cannot_be_reached_is_named_and_comes_into_service_by_itself() {
    let later = Later::new();
    let gateway = Gateway::start(&by_card(later.address)).await;
    let (status, told) = told(&gateway, "agent", "last_error").await;
    assert_eq!((status, &told["ready"]), (503, &json!(false)));
    let error = told["last_error"].as_str().unwrap();
    assert!(error.contains(&later.address.to_string()), "{error}");

    let got = post(gateway.address, "/agent", &send("\"q-7\"", "x")).await;
    assert_eq!(
        (got.status, got.code(), &got.json()["id"]),
        (503, -31503, &Value::Null),
        "{}",
        got.text()
    );
    assert!(got.header("retry-after").is_some(), "the caller may try again");
    assert_eq!(gateway.access(1).await[0]["outcome"], "agent_not_ready");
    let got = get(gateway.address, CARD_PATH).await;
    assert_eq!(
        (got.status, got.json()["error"]["status"].as_str()),
        (503, Some("UNAVAILABLE"))
    );

    let address = later.address;
    let agent = Agent::on(later.listen(), CARD, tasks());
    assert_eq!(agent.address, address);
    gateway.ready().await;
    assert_eq!(post(gateway.address, "/agent", &send("1", "x")).await.status, 200);
    assert_eq!(get(gateway.address, CARD_PATH).await.status, 200);
}

#[tokio::test]
async fn an_agent_with_a_requirement_of_its_own_is_tried_before_its_card_is_known() {
    let later = Later::new();
    let gateway = Gateway::start(&config_of(&[later.address], "", "")).await;
    let (status, _) = told(&gateway, "agent", "last_error").await;
    assert_eq!(status, 503);
    let got = call(gateway.address, "POST", "/agent", &[JSON], &send("1", "x")).await;
    assert_eq!(
        got.status,
        401,
        "what is enforced does not wait for the agent: {}",
        got.text()
    );
    let got = post(gateway.address, "/agent", &send("1", "x")).await;
    assert_eq!((got.status, got.code()), (502, -31502), "{}", got.text());
    assert_eq!(gateway.access(2).await[1]["outcome"], "upstream_connect");
    let _agent = Agent::on(later.listen(), CARD, tasks());
    gateway.ready().await;
    assert_eq!(post(gateway.address, "/agent", &send("1", "x")).await.status, 200);
}

#[tokio::test]
async fn one_agent_that_cannot_be_reached_does_not_make_the_gateway_unready() {
    let later = Later::new();
    let agent = Agent::start(tasks()).await;
    let other = format!(
        "  - {{ name: other, path: /other, upstream: {{ endpoints: [ {{ url: \"http://{}/\" }} ] }} }}\n",
        later.address
    );
    let gateway = Gateway::of(&[agent.address], "", &other).await;
    let (status, told) = told(&gateway, "other", "last_error").await;
    assert_eq!((status, &told["ready"]), (200, &json!(false)));
    assert_eq!(post(gateway.address, "/agent", &send("1", "x")).await.status, 200);
}

#[tokio::test]
async fn what_is_no_card_keeps_the_last_good_one_in_service() {
    let agent = Agent::start(tasks()).await;
    let gateway = Gateway::of(&[agent.address], "card: { refresh: 1s }", "").await;
    let card = get(gateway.address, CARD_PATH).await;
    assert_eq!(card.status, 200);
    for garbage in ["<html>we are upgrading</html>", "{\"name\":", "[]", ""] {
        agent.set_card(garbage);
        let (status, told) = told(&gateway, "agent", "last_error").await;
        assert_eq!((status, &told["ready"]), (200, &json!(true)), "{garbage}");
        assert_eq!(get(gateway.address, CARD_PATH).await.body, card.body, "{garbage}");
        assert_eq!(
            post(gateway.address, "/agent", &send("1", "x")).await.status,
            200,
            "{garbage}"
        );
        agent.set_card(CARD);
        eventually("the card is read again", || async {
            get(gateway.admin, "/ready").await.json()["agents"]["agent"]["last_error"].is_null()
        })
        .await;
    }
    agent.set_card(&CARD.replace("Fake", "Renamed"));
    eventually("a changed card is published", || async {
        get(gateway.address, CARD_PATH).await.json()["name"] == "Renamed"
    })
    .await;
}

/// A card that demands what `scheme` verifies.
fn demanding(scheme: &str) -> String {
    CARD.replace(
        "\"capabilities\"",
        &format!(
            r#""securitySchemes":{{"{scheme}":{{"apiKeySecurityScheme":{{"location":"header","name":"X-API-Key"}}}}}},"securityRequirements":[{{"schemes":{{"{scheme}":{{"list":[]}}}}}}],"capabilities""#
        ),
    )
}

#[tokio::test]
async fn an_agent_with_a_demand_that_nothing_verifies_stays_out_of_service_and_others_go_on() {
    let closed = Agent::with_card(&demanding("corp"), tasks()).await;
    let open = Agent::start(tasks()).await;
    let other = format!(
        "  - {{ name: open, path: /open, upstream: {{ endpoints: [ {{ url: \"http://{}/\" }} ] }} }}\n",
        open.address
    );
    let gateway = Gateway::start(&(by_card(closed.address) + &other)).await;
    gateway.ready().await;
    let (status, told) = told(&gateway, "agent", "out_of_service").await;
    assert_eq!((status, &told["ready"]), (200, &json!(false)), "the other one is ready");
    assert_eq!(
        told["out_of_service"],
        "no verifier is configured for the security schemes corp; add them to `security_schemes`, or set `security` for \
         this agent"
    );

    let got = post(gateway.address, "/agent", &send("1", "x")).await;
    assert_eq!((got.status, got.code()), (503, -31503), "{}", got.text());
    assert!(
        !got.text().contains("corp"),
        "nothing of it is told to callers: {}",
        got.text()
    );
    let got = get(gateway.address, CARD_PATH).await;
    assert_eq!(
        (got.status, got.json()["error"]["status"].as_str()),
        (503, Some("UNAVAILABLE"))
    );
    assert!(closed.received().is_empty());

    let got = call(gateway.address, "POST", "/open", &[JSON], &send("1", "x")).await;
    assert_eq!(got.status, 200, "{}", got.text());
    eventually("the metric says which", || async {
        gateway.metric("a2a_gateway_agent_ready{agent=\"agent\"}").await == 0.0
            && gateway.metric("a2a_gateway_agent_ready{agent=\"open\"}").await == 1.0
    })
    .await;
}

#[tokio::test]
async fn an_agent_that_begins_to_demand_what_nothing_verifies_leaves_service_until_it_stops() {
    let agent = Agent::with_card(&demanding("key"), tasks()).await;
    let gateway = Gateway::start(&by_card(agent.address)).await;
    gateway.ready().await;
    let got = call(gateway.address, "POST", "/agent", &[JSON], &send("1", "x")).await;
    assert_eq!(got.status, 401, "the card's demand is enforced: {}", got.text());
    assert_eq!(post(gateway.address, "/agent", &send("1", "x")).await.status, 200);

    agent.set_card(&demanding("corp"));
    let (status, told) = told(&gateway, "agent", "out_of_service").await;
    assert_eq!(status, 503, "{told}");
    let got = post(gateway.address, "/agent", &send("1", "x")).await;
    assert_eq!((got.status, got.code()), (503, -31503), "{}", got.text());
    assert_eq!(get(gateway.address, CARD_PATH).await.status, 503);
    assert_eq!(agent.received().len(), 1);

    agent.set_card(&demanding("key"));
    gateway.ready().await;
    assert_eq!(post(gateway.address, "/agent", &send("1", "x")).await.status, 200);
}

#[tokio::test]
async fn a_card_that_stops_demanding_anything_opens_the_agent() {
    let agent = Agent::with_card(&demanding("key"), tasks()).await;
    let gateway = Gateway::start(&by_card(agent.address)).await;
    gateway.ready().await;
    let unknown = || async {
        call(gateway.address, "POST", "/agent", &[JSON], &send("1", "x"))
            .await
            .status
    };
    assert_eq!(unknown().await, 401);
    agent.set_card(CARD);
    eventually("the new demand is enforced", || async { unknown().await == 200 }).await;
    let card = get(gateway.address, CARD_PATH).await.json();
    assert!(
        card["securityRequirements"].as_array().is_none_or(Vec::is_empty),
        "and published: {card}"
    );
}
