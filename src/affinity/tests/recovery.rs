//! A shared store that was emptied: until every gateway has written back what it knows, nothing there is nobody's.

use super::redis::Server;
use super::shared::*;
use super::*;
use crate::config::{RedisLogin, Secret};
use crate::shared::{Away, Command, Purpose, Reply};

const DECLARED: &str = "a2a:recovering";

fn is_declared(server: &Server) -> bool {
    server.ask(&["EXISTS", DECLARED])
}

fn has_marks(server: &Server) -> bool {
    !server.ask::<Vec<String>>(&["KEYS", "a2a:g:*"]).is_empty()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_knows_is_not_nobodys_to_the_other_when_the_server_was_emptied() {
    let (server, time) = (Server::start(), Time::new());
    let (one, other) = (Gateway::of(&server, &time).await, Gateway::of(&server, &time).await);
    one.learn(A, "t", WORKING).await;
    assert_eq!(other.task("unknown").await, Ok(None), "nothing was lost yet");
    let _: () = server.ask(&["FLUSHALL"]);
    // Before the marks told of it, or after.
    assert_ne!(other.task("t").await, Ok(None));
    assert_eq!(other.task("unknown").await, Err(Away));
    eventually("the other finds it", || async {
        other
            .task("t")
            .await
            .is_ok_and(|owner| owner.is_some_and(|owner| &*owner.endpoint == A))
    })
    .await;
    assert_eq!(other.task("unknown").await, Err(Away), "there may be more");
    let late = Gateway::of(&server, &time).await;
    assert_eq!(
        late.task("unknown").await,
        Err(Away),
        "told to those who start meanwhile"
    );
    assert!(late.affinity.stats().recovering);
    let life: i64 = server.ask(&["TTL", DECLARED]);
    assert!((1..=10).contains(&life), "it ends by itself: {life}");
    for gateway in [&one, &other, &late] {
        gateway.has_recovered().await;
        assert_eq!(gateway.endpoint("t").await.as_deref(), Some(A));
        eventually("it is shown", || async { !gateway.affinity.stats().recovering }).await;
    }
    assert_eq!(one.affinity.stats().unwritten, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_emptied_server_recovers_by_itself_where_nobody_knows_anything() {
    let (server, time) = (Server::start(), Time::new());
    let one = Gateway::of(&server, &time).await;
    assert_eq!(one.task("unknown").await, Ok(None), "a new server has lost nothing");
    assert!(!is_declared(&server));
    let _: () = server.ask(&["FLUSHALL"]);
    assert_eq!(one.task("unknown").await, Err(Away));
    eventually("it is declared", || async { is_declared(&server) }).await;
    eventually("it is shown", || async { one.affinity.stats().recovering }).await;
    one.has_recovered().await;
    assert!(!is_declared(&server) && has_marks(&server));
    assert!(one.store.is_up(), "the connection never broke");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_comes_back_empty_is_not_believed_before_it_counts_as_up() {
    let (mut server, time) = (Server::start(), Time::new());
    let one = Gateway::of(&server, &time).await;
    server.kill();
    one.is_away().await;
    server.start_again();
    one.is_up().await;
    assert_eq!(one.task("unknown").await, Err(Away));
    assert!(is_declared(&server));
    one.has_recovered().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_kept_its_records_is_believed_at_once() {
    let (server, time) = (Server::start(), Time::new());
    let one = Gateway::of(&server, &time).await;
    one.learn(A, "t", WORKING).await;
    server.freeze();
    one.is_away().await;
    server.thaw();
    one.is_up().await;
    assert_eq!(one.task("unknown").await, Ok(None));
    assert!(!is_declared(&server));
}

/// Who may leave marks and cannot write records has not written them back.
#[tokio::test(flavor = "multi_thread")]
async fn a_loss_is_declared_again_while_there_is_something_to_write_back() {
    let (server, time) = (Server::start(), Time::new());
    let user = |keys: &[&str]| {
        let fixed = ["ACL", "SETUSER", "gateway", "on", ">secret", "resetkeys", "+@all"];
        let _: () = server.ask(&[&fixed, keys].concat());
    };
    user(&["~a2a:*"]);
    let mut config = config_of(&server);
    config.login = RedisLogin {
        username: Some("gateway".to_owned()),
        password: Some(Secret::new("secret".to_owned())),
    };
    let one = Gateway::bounded(config, &time, 100).await;
    one.learn(A, "t", WORKING).await;
    user(&["~a2a:g:*", "~a2a:probe*", &format!("~{DECLARED}")]);
    let _: () = server.ask(&["FLUSHALL"]);
    for _ in 0..3 {
        eventually("it is declared", || async {
            is_declared(&server) && has_marks(&server)
        })
        .await;
        let _: () = server.ask(&["DEL", DECLARED]);
    }
    eventually("it is declared", || async { is_declared(&server) }).await;
    assert!(server.records().is_empty());
    user(&["~a2a:*"]);
    one.told_everything().await;
    assert_eq!(server.records(), ["a2a:t:maps:t"]);
    one.has_recovered().await;
    assert!(!is_declared(&server));
}

/// Where the marks cannot be left, nothing can be declared either.
#[tokio::test(flavor = "multi_thread")]
async fn an_emptied_server_that_takes_nothing_is_not_believed() {
    let (server, time) = (Server::start(), Time::new());
    let one = Gateway::of(&server, &time).await;
    one.learn(A, "t", WORKING).await;
    let _: () = server.ask(&["CONFIG", "SET", "maxmemory", "1"]);
    let _: () = server.ask(&["FLUSHALL"]);
    assert_eq!(one.task("unknown").await, Err(Away));
    eventually("it is full", || async { !one.store.takes_records() }).await;
    assert_eq!(one.task("unknown").await, Err(Away));
    assert!(one.store.is_up());
    let _: () = server.ask(&["CONFIG", "SET", "maxmemory", "0"]);
    eventually("it is written back", || async { server.records().len() == 1 }).await;
    one.has_recovered().await;
}

/// Else a question between a new mark and the declaration would find that nothing was lost.
#[tokio::test]
async fn a_mark_that_shows_a_loss_stays_until_it_is_left_anyway() {
    let (server, time) = (Server::start(), Time::new());
    let one = Gateway::of(&server, &time).await;
    let key = "a2a:g:test:0";
    let leave = async |mark: u32, after: u32| {
        let command = Command::Mark {
            key: key.into(),
            mark,
            after,
            keep: 60,
        };
        let before = one.store.ask(Purpose::Flush, &[command]).await.unwrap();
        (before, server.ask::<Option<u32>>(&["GET", key]))
    };
    let stood = |mark: &str| vec![Reply::Bytes(mark.into())];
    assert_eq!(leave(10, 9).await, (vec![Reply::Nothing], None), "gone");
    assert_eq!(leave(10, 0).await, (vec![Reply::Nothing], Some(10)), "anyway");
    assert_eq!(leave(11, 10).await, (stood("10"), Some(11)));
    assert_eq!(leave(13, 12).await, (stood("11"), Some(11)), "older");
    assert_eq!(leave(12, 10).await, (stood("11"), Some(12)), "that one had no answer");
    assert_eq!(leave(11, 10).await, (stood("12"), Some(12)), "comes late");
    assert_eq!(leave(5, 12).await, (stood("12"), Some(5)), "the clock was set back");
    let life: i64 = server.ask(&["TTL", key]);
    assert!((1..=60).contains(&life), "{life}");
}
