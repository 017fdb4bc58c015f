//! Several gateways on one Redis: they know what each other learned, and each goes on alone when it is gone.

use std::future::Future;

use super::redis::Server;
use super::*;
use crate::affinity::journal::record::MAX_ID;
use crate::config::{RedisAddress, RedisLogin, RedisServers, UpstreamTls};
use crate::drain::Drain;
use crate::observe::Metrics;
use crate::shared;

pub const A: &str = "http://a:1/";
pub const B: &str = "http://b:1/";
pub const WORKING: Option<TaskState> = Some(TaskState::Working);
const DONE: Option<TaskState> = Some(TaskState::Completed);

/// One of them.
pub struct Gateway {
    pub affinity: Arc<Affinity>,
    pub store: shared::Store,
    pub metrics: Metrics,
}

/// What became of a new task, and whether others know.
type Told = (Learned, Option<Confirmed>);

impl Gateway {
    pub async fn bounded(config: config::Redis, time: &Time, max_tasks: usize) -> Self {
        crate::tls::install_provider();
        let state = config::State {
            store: config::Store::Memory,
            max_tasks,
            retention: Duration::from_secs(7 * DAY),
        };
        let (drain, metrics) = (Drain::new(), Metrics::new().unwrap());
        let store = shared::Store::new(&config, state.retention, time.clock(), &metrics);
        store.start(&drain);
        store.attempted().await;
        let affinity = Affinity::open(&state, time.clock()).unwrap();
        let affinity = Arc::new(affinity.sharing(store.clone(), config.cache_ttl));
        affinity.start(&drain);
        Self {
            affinity,
            store,
            metrics,
        }
    }

    pub async fn of(server: &Server, time: &Time) -> Self {
        Self::bounded(config_of(server), time, 10_000).await
    }

    pub async fn learn(&self, endpoint: &str, task: &str, state: Option<TaskState>) -> Told {
        self.learn_of(endpoint, "key:ann", Some(task), None, state).await
    }

    pub async fn learn_of(
        &self,
        endpoint: &str,
        principal: &str,
        task: Option<&str>,
        context: Option<&str>,
        state: Option<TaskState>,
    ) -> Told {
        let revealed = revealed(task, context, state);
        let (endpoint, principal) = (Arc::from(endpoint), Arc::from(principal));
        let learned = self
            .affinity
            .learn("maps", &endpoint, &principal, Generation::V1_0, &revealed);
        match self.affinity.confirm("maps", &[revealed]) {
            Some(confirming) => (learned, Some(confirming.await)),
            None => (learned, None),
        }
    }

    /// The owner that a call finds; `Err` if nobody could be asked.
    pub async fn task(&self, task: &str) -> Result<Option<Owner>, shared::Away> {
        let task = TaskId::new(task);
        let partial = match self.affinity.inquire("maps", Some(&task), None) {
            Inquiry::Settled => false,
            Inquiry::Away => true,
            Inquiry::Asking(asking) => asking.await == Knowledge::Partial,
        };
        match self.affinity.task("maps", &task) {
            None if partial => Err(shared::Away),
            owner => Ok(owner),
        }
    }

    pub async fn endpoint(&self, task: &str) -> Option<String> {
        let owner = self.task(task).await.expect("somebody was asked");
        Some(owner?.endpoint.to_string())
    }

    pub async fn is_up(&self) {
        eventually("it is back", || async { self.store.is_up() }).await;
    }

    pub async fn is_away(&self) {
        eventually("it is away", || async { !self.store.is_up() }).await;
    }

    /// Everybody has written back what the store had lost: what is not found is nobody's.
    pub async fn has_recovered(&self) {
        eventually("what is not found is nobody's", || async {
            self.task("unknown").await == Ok(None)
        })
        .await;
    }

    pub async fn told_everything(&self) {
        eventually("everything is told", || async { self.affinity.stats().unwritten == 0 }).await;
    }
}

pub fn config_of(server: &Server) -> config::Redis {
    config_to(RedisServers::Standalone(address(server)))
}

pub fn address(server: &Server) -> RedisAddress {
    address_of(server.port)
}

pub fn address_of(port: u16) -> RedisAddress {
    RedisAddress {
        host: "127.0.0.1".to_owned(),
        port,
    }
}

pub fn config_to(servers: RedisServers) -> config::Redis {
    config::Redis {
        servers,
        secure: false,
        database: 0,
        login: RedisLogin::default(),
        tls: UpstreamTls::default(),
        timeout: Duration::from_millis(500),
        connect_timeout: Duration::from_secs(1),
        cache_ttl: Duration::from_secs(60),
        key_prefix: "a2a:".to_owned(),
    }
}

pub async fn eventually<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    for _ in 0..3000 {
        if holds().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("never: {what}");
}

fn told(learned: Learned) -> Told {
    (learned, Some(Confirmed::Stored))
}

#[tokio::test]
async fn what_one_learned_the_other_finds_at_once() {
    let (server, time) = (Server::start(), Time::new());
    let (one, other) = (Gateway::of(&server, &time).await, Gateway::of(&server, &time).await);
    assert_eq!(one.endpoint("t").await, None);
    assert_eq!(
        other.endpoint("t").await,
        None,
        "that nobody knows it is not remembered"
    );
    assert_eq!(one.learn(A, "t", WORKING).await, told(Learned::New));
    let owner = other.task("t").await.unwrap().expect("an owner");
    assert_eq!(
        (&*owner.endpoint, &*owner.principal, owner.state),
        (A, "key:ann", WORKING)
    );
    assert_eq!(
        other.learn(A, "t", WORKING).await,
        (Learned::Known, None),
        "no round trip for what is known"
    );
    assert_eq!(
        one.learn_of(B, "key:ben", Some("u"), Some("c"), None).await,
        told(Learned::New)
    );
    assert_eq!(server.records(), ["a2a:c:maps:c", "a2a:t:maps:t", "a2a:t:maps:u"]);
    let life: i64 = server.ask(&["TTL", "a2a:t:maps:t"]);
    assert!((1..=7 * 24 * 3600).contains(&life), "{life}");
}

#[tokio::test]
async fn the_first_owner_stays_and_both_see_the_conflict() {
    let (server, time) = (Server::start(), Time::new());
    let (one, other) = (Gateway::of(&server, &time).await, Gateway::of(&server, &time).await);
    assert_eq!(one.learn(A, "t", WORKING).await, told(Learned::New));
    assert_eq!(
        other.learn(B, "t", WORKING).await,
        (Learned::New, Some(Confirmed::Conflict)),
        "nobody has asked for it here"
    );
    assert_eq!(
        other.endpoint("t").await.as_deref(),
        Some(A),
        "the stored one is taken over"
    );
    assert_eq!(other.learn(B, "t", WORKING).await, (Learned::Conflict, None));
    assert_eq!(one.learn(B, "t", WORKING).await, (Learned::Conflict, None));
    assert_eq!(
        other.learn_of(A, "key:ben", Some("u"), None, None).await,
        told(Learned::New)
    );
    assert_eq!(
        one.learn_of(A, "key:ann", Some("u"), None, None).await,
        (Learned::New, Some(Confirmed::Conflict)),
        "made for somebody else"
    );
    assert_eq!(&*one.task("u").await.unwrap().unwrap().principal, "key:ben");
}

#[tokio::test]
async fn states_follow_and_an_end_is_final() {
    let (server, time) = (Server::start(), Time::new());
    let (one, other) = (Gateway::of(&server, &time).await, Gateway::of(&server, &time).await);
    one.learn(A, "t", WORKING).await;
    assert_eq!(
        one.learn(A, "t", DONE).await,
        (Learned::Updated, None),
        "no answer waits for a state"
    );
    one.told_everything().await;
    assert_eq!(other.task("t").await.unwrap().unwrap().state, DONE);
    // A third gateway that knows nothing, and an old answer.
    let third = Gateway::of(&server, &time).await;
    assert_eq!(third.learn(A, "t", WORKING).await, told(Learned::New));
    time.advance(61);
    assert_eq!(other.task("t").await.unwrap().unwrap().state, DONE);
    assert_eq!(
        third.task("t").await.unwrap().unwrap().state,
        DONE,
        "an end is not undone"
    );
}

#[tokio::test]
async fn what_is_known_is_asked_for_again_after_a_while() {
    let (server, time) = (Server::start(), Time::new());
    let (one, other) = (Gateway::of(&server, &time).await, Gateway::of(&server, &time).await);
    one.learn(A, "t", WORKING).await;
    assert_eq!(other.endpoint("t").await.as_deref(), Some(A));
    // An operator gives the task to another endpoint.
    let _: () = server.ask(&["DEL", "a2a:t:maps:t"]);
    let third = Gateway::of(&server, &time).await;
    third.learn(B, "t", WORKING).await;
    time.advance(59);
    assert_eq!(other.endpoint("t").await.as_deref(), Some(A), "believed for a minute");
    time.advance(1);
    assert_eq!(other.endpoint("t").await.as_deref(), Some(B));
    // What the store lost and nobody has made anew is written again by whoever knows it.
    let _: () = server.ask(&["DEL", "a2a:t:maps:t"]);
    time.advance(60);
    assert_eq!(other.endpoint("t").await.as_deref(), Some(B));
    other.told_everything().await;
    assert_eq!(server.records(), ["a2a:t:maps:t"]);
}

#[tokio::test]
async fn ids_of_any_text_are_told_apart() {
    let (server, time) = (Server::start(), Time::new());
    let (one, other) = (Gateway::of(&server, &time).await, Gateway::of(&server, &time).await);
    let long = "x".repeat(MAX_ID);
    let ids = ["a:b", "a%3Ab", "{a}", "a b", "a\r\nb", "ü", "*", long.as_str()];
    for (number, id) in ids.iter().enumerate() {
        let endpoint = format!("http://{number}/");
        assert_eq!(one.learn(&endpoint, id, None).await, told(Learned::New), "{id:?}");
    }
    for (number, id) in ids.iter().enumerate() {
        assert_eq!(other.endpoint(id).await, Some(format!("http://{number}/")), "{id:?}");
    }
    assert_eq!(
        one.learn(A, &"x".repeat(MAX_ID + 1), None).await,
        (Learned::TooLong, None)
    );
}

#[tokio::test]
async fn an_operators_transfer_is_seen_by_all() {
    let (server, time) = (Server::start(), Time::new());
    let (one, other) = (Gateway::of(&server, &time).await, Gateway::of(&server, &time).await);
    one.learn(A, "t", WORKING).await;
    let principal = async |gateway: &Gateway| gateway.task("t").await.unwrap().unwrap().principal.to_string();
    assert_eq!(principal(&other).await, "key:ann");
    let (task, ben) = (TaskId::new("t"), Arc::from("key:ben"));
    one.affinity.tell_task_owner("maps", &task, &ben).await.unwrap();
    one.affinity.transfer_task("maps", &task, &ben).unwrap();
    assert_eq!(principal(&one).await, "key:ben");
    assert_eq!(principal(&other).await, "key:ann", "believed for a minute");
    match other.affinity.inquire_anew("maps", [&task], None) {
        Inquiry::Asking(asking) => assert_eq!(asking.await, Knowledge::Whole),
        Inquiry::Settled | Inquiry::Away => panic!("what is known is asked for too"),
    }
    assert_eq!(principal(&other).await, "key:ben");
    other.affinity.transferred().await;
    assert_eq!(
        one.learn(A, "t", DONE).await.0,
        Learned::Foreign,
        "an answer to the old owner"
    );
    one.told_everything().await;
    time.advance(60);
    assert_eq!(principal(&other).await, "key:ben");
    assert_eq!(other.task("t").await.unwrap().unwrap().state, DONE);
}
