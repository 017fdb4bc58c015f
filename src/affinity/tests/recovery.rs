//! A shared store that was emptied: until every gateway has written back what it knows, nothing there is nobody's.

use super::redis::Server;
use super::servers::{Way, cluster};
use super::shared::*;
use super::*;
use crate::config::{RedisLogin, RedisServers, Secret};
use crate::shared::{Away, Command, Purpose, Reply};

const DECLARED: &str = "a2a:recovering";

fn is_declared(server: &Server) -> bool {
    server.ask(&["EXISTS", DECLARED])
}

/// A gateway that reaches the server on a way that can be cut.
async fn on(way: &Way, time: &Time) -> Gateway {
    let config = config_to(RedisServers::Standalone(address_of(way.port)));
    Gateway::bounded(config, time, 100).await
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

/// The clock stands: whatever is written, the last mark is as old.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_written_after_the_last_mark_is_not_nobodys_after_a_restart() {
    let (mut server, time) = (Server::start(), Time::new());
    let way = Way::to(&server).await;
    let (one, other) = (on(&way, &time).await, Gateway::of(&server, &time).await);
    let _: () = server.ask(&["SAVE"]);
    let told = one.learn_of(A, "key:alice", Some("t"), Some("c"), WORKING).await;
    assert_eq!(told.1, Some(Confirmed::Stored));
    way.cut();
    server.kill();
    other.is_away().await;
    server.start_again();
    assert!(has_marks(&server) && server.records().is_empty());
    other.is_up().await;
    assert_eq!(other.task("t").await, Err(Away));
    assert!(is_declared(&server));
    way.mend();
    eventually("it is written back", || async {
        other
            .task("t")
            .await
            .is_ok_and(|owner| owner.is_some_and(|owner| &*owner.principal == "key:alice"))
    })
    .await;
    one.has_recovered().await;
    assert_eq!(one.endpoint("t").await.as_deref(), Some(A));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_does_not_say_whether_it_was_restarted_is_not_believed() {
    let (server, time) = (Server::start(), Time::new());
    let _: () = server.ask(&["ACL", "SETUSER", "gateway", "on", ">secret", "~a2a:*", "+@all", "-info"]);
    let mut config = config_of(&server);
    config.login = RedisLogin {
        username: Some("gateway".to_owned()),
        password: Some(Secret::new("secret".to_owned())),
    };
    let one = Gateway::bounded(config, &time, 100).await;
    assert_eq!(one.task("unknown").await, Ok(None), "a new server has lost nothing");
    server.freeze();
    one.is_away().await;
    server.thaw();
    one.is_up().await;
    assert_eq!(one.task("unknown").await, Err(Away));
    assert!(is_declared(&server));
    one.has_recovered().await;
}

/// The snapshot has a newer mark than the last one.
#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_was_ahead_hides_no_loss() {
    let (mut server, time) = (Server::start(), Time::new());
    let (one, other) = (Gateway::of(&server, &time).await, Gateway::of(&server, &time).await);
    let all_marks_are = async |now: u64| {
        time.set(now);
        eventually("all marks are of now", || async {
            let keys: Vec<String> = server.ask(&["KEYS", "a2a:g:*"]);
            let mut marks = keys.iter().map(|key| server.ask::<u64>(&["GET", key]));
            marks.all(|mark| mark == now)
        })
        .await;
    };
    all_marks_are(START + 3600).await;
    let _: () = server.ask(&["SAVE"]);
    all_marks_are(START + 5).await;
    time.set(START + 10);
    one.learn(A, "t", WORKING).await;
    all_marks_are(START + 60).await;
    server.kill();
    for gateway in [&one, &other] {
        gateway.is_away().await;
    }
    server.start_again();
    other.is_up().await;
    assert_ne!(other.task("t").await, Ok(None));
    eventually("it is written back", || async { server.records() == ["a2a:t:maps:t"] }).await;
    for gateway in [&one, &other] {
        gateway.has_recovered().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_in_doubt_is_written_again_when_a_full_server_has_room() {
    let (server, time) = (Server::start(), Time::new());
    let way = Way::to(&server).await;
    let one = on(&way, &time).await;
    one.learn(A, "t", WORKING).await;
    way.cut();
    one.is_away().await;
    let _: () = server.ask(&["DEL", "a2a:t:maps:t"]);
    let _: () = server.ask(&["CONFIG", "SET", "maxmemory", "1"]);
    way.mend();
    one.is_up().await;
    assert!(!one.store.takes_records());
    assert_eq!(
        one.task("unknown").await,
        Ok(None),
        "the network failed, not the server"
    );
    let _: () = server.ask(&["CONFIG", "SET", "maxmemory", "0"]);
    eventually("it is written again", || async { server.records().len() == 1 }).await;
    assert!(!is_declared(&server));
}

/// It cannot be declared there.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_was_restarted_and_takes_nothing_is_not_believed() {
    let (mut server, time) = (Server::start(), Time::new());
    let way = Way::to(&server).await;
    let one = on(&way, &time).await;
    let _: () = server.ask(&["SAVE"]);
    one.learn(A, "t", WORKING).await;
    way.cut();
    server.kill();
    one.is_away().await;
    server.start_again();
    let _: () = server.ask(&["CONFIG", "SET", "maxmemory", "1"]);
    way.mend();
    one.is_up().await;
    assert!(!one.store.takes_records() && !is_declared(&server));
    assert_eq!(one.task("unknown").await, Err(Away));
    let _: () = server.ask(&["CONFIG", "SET", "maxmemory", "0"]);
    eventually("it is written back", || async { server.records().len() == 1 }).await;
    one.has_recovered().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_cluster_a_node_that_was_restarted_is_not_believed_and_one_that_was_slow_is() {
    let time = Time::new();
    let mut nodes = cluster([const { Vec::new() }; 3], None).await;
    let config = config_to(RedisServers::Cluster(nodes.each_ref().map(address).to_vec()));
    let one = Gateway::bounded(config, &time, 1000).await;
    one.is_up().await;
    nodes[1].freeze();
    one.is_away().await;
    nodes[1].thaw();
    one.is_up().await;
    assert_eq!(one.task("unknown").await, Ok(None));
    let _: () = nodes[1].ask(&["SAVE"]);
    // Whether the gateway's connection to it breaks meanwhile or is made anew unnoticed.
    nodes[1].kill();
    nodes[1].start_again();
    eventually("it is found", || async { one.store.is_recovering() }).await;
    one.has_recovered().await;
}
