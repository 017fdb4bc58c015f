//! A shared store that dies, forgets, freezes, fills up or refuses: calls go on, and nothing is lost.

use super::redis::Server;
use super::servers::Way;
use super::shared::*;
use super::*;
use crate::config::{RedisLogin, RedisServers, Secret};
use crate::shared::Away;

/// Tasks that this gateway has learned, each with whether others know.
async fn learn_many(gateway: &Gateway, names: &str, count: usize) -> Vec<Option<Confirmed>> {
    let mut told = Vec::new();
    for number in 0..count {
        let (learned, confirmed) = gateway.learn(A, &format!("{names}{number}"), WORKING).await;
        assert_eq!(learned, Learned::New);
        told.push(confirmed);
    }
    told
}

async fn finds(gateway: &Gateway, names: &str, count: usize) {
    for number in 0..count {
        let found = gateway.endpoint(&format!("{names}{number}")).await;
        assert_eq!(found.as_deref(), Some(A), "{names}{number}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_comes_back_empty_gets_everything_again() {
    let (mut server, time) = (Server::start(), Time::new());
    let one = Gateway::of(&server, &time).await;
    assert_eq!(learn_many(&one, "before", 300).await, [Some(Confirmed::Stored); 300]);
    server.kill();
    let told = learn_many(&one, "meanwhile", 300).await;
    assert!(!told.contains(&Some(Confirmed::Stored)));
    assert!(told[1..].iter().all(Option::is_none), "only the first waits");
    one.is_away().await;
    assert!(one.store.outage().is_some());
    assert!(one.affinity.stats().degraded);
    assert_eq!(one.affinity.stats().unwritten, 300);
    finds(&one, "before", 300).await;
    assert_eq!(one.task("unknown").await, Err(Away), "not the same as nobody's");

    server.start_again();
    one.is_up().await;
    one.told_everything().await;
    assert!(!one.affinity.stats().degraded);
    assert_eq!(one.affinity.stats().dropped, 0);
    assert_eq!(server.records().len(), 600);
    let other = Gateway::of(&server, &time).await;
    finds(&other, "before", 300).await;
    finds(&other, "meanwhile", 300).await;
    one.has_recovered().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_caller_left_behind_is_told_all_the_same() {
    let (server, time) = (Server::start(), Time::new());
    let one = Gateway::of(&server, &time).await;
    let revealed = revealed(Some("t"), Some("c"), WORKING);
    let (endpoint, principal) = (Arc::from(A), Arc::from("key:ann"));
    one.affinity
        .learn("maps", &endpoint, &principal, Generation::V1_0, &revealed);
    drop(one.affinity.confirm("maps", &[revealed]));
    assert_eq!(one.affinity.stats().unwritten, 2);
    time.advance(2);
    one.told_everything().await;
    assert_eq!(server.records(), ["a2a:c:maps:c", "a2a:t:maps:t"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_left_at_the_end_of_the_process_is_told() {
    let (server, time) = (Server::start(), Time::new());
    let one = Gateway::of(&server, &time).await;
    one.learn(A, "t", WORKING).await;
    one.learn(A, "t", Some(TaskState::Completed)).await;
    one.affinity.last_words().await;
    let other = Gateway::of(&server, &time).await;
    assert_eq!(
        other.task("t").await.unwrap().unwrap().state,
        Some(TaskState::Completed)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_was_emptied_gets_everything_again() {
    let (server, time) = (Server::start(), Time::new());
    let one = Gateway::of(&server, &time).await;
    learn_many(&one, "t", 200).await;
    let _: () = server.ask(&["FLUSHALL"]);
    eventually("all is written again", || async { server.records().len() == 200 }).await;
    assert!(one.store.is_up(), "the connection never broke");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_freezes_costs_one_wait() {
    let (server, time) = (Server::start(), Time::new());
    let one = Gateway::of(&server, &time).await;
    learn_many(&one, "before", 1).await;
    server.freeze();
    // Whoever asks first waits for `timeout`, unless the mark was faster.
    let first = one.learn(A, "meanwhile0", WORKING).await;
    assert_ne!(first.1, Some(Confirmed::Stored));
    assert!(!one.store.is_up(), "nobody waits from now on");
    assert_eq!(one.learn(A, "meanwhile1", WORKING).await, (Learned::New, None));
    assert_eq!(one.task("unknown").await, Err(Away));
    finds(&one, "before", 1).await;
    let timeouts = one.metrics.store_errors.with_label_values(&["timeout"]).get();
    assert!(timeouts >= 1);
    server.thaw();
    one.is_up().await;
    one.told_everything().await;
    let other = Gateway::of(&server, &time).await;
    finds(&other, "before", 1).await;
    finds(&other, "meanwhile", 2).await;
}

/// The other gateway goes on. Of an id that both learned meanwhile, the store's owner holds.
#[tokio::test(flavor = "multi_thread")]
async fn behind_a_partition_one_goes_on_alone_and_joins_again() {
    let (server, time) = (Server::start(), Time::new());
    let way = Way::to(&server).await;
    let config = config_to(RedisServers::Standalone(address_of(way.port)));
    let one = Gateway::bounded(config, &time, 1000).await;
    let other = Gateway::of(&server, &time).await;
    learn_many(&one, "before", 3).await;
    way.cut();
    assert_ne!(one.learn(A, "of-one", WORKING).await.1, Some(Confirmed::Stored));
    assert_eq!(one.learn(A, "of-both", WORKING).await, (Learned::New, None));
    assert!(!one.store.is_up(), "one wait for all");
    assert_eq!(other.learn(B, "of-both", WORKING).await.1, Some(Confirmed::Stored));
    assert_eq!(other.learn(B, "of-the-other", WORKING).await.1, Some(Confirmed::Stored));
    finds(&one, "before", 3).await;
    assert_eq!(one.task("of-the-other").await, Err(Away), "not the same as nobody's");
    assert_eq!(one.endpoint("of-both").await.as_deref(), Some(A), "as far as it knows");
    finds(&other, "before", 3).await;
    assert_eq!(other.task("of-one").await, Ok(None), "it cannot know");

    way.mend();
    one.is_up().await;
    one.told_everything().await;
    for gateway in [&one, &other] {
        assert_eq!(gateway.endpoint("of-one").await.as_deref(), Some(A));
        assert_eq!(gateway.endpoint("of-both").await.as_deref(), Some(B));
        assert_eq!(gateway.endpoint("of-the-other").await.as_deref(), Some(B));
        assert_eq!(gateway.task("unknown").await, Ok(None), "the store has lost nothing");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_server_is_waited_for_within_the_timeout_only() {
    let (server, time) = (Server::start(), Time::new());
    let mut patient = config_of(&server);
    patient.timeout = Duration::from_secs(20);
    let patient = Gateway::bounded(patient, &time, 100).await;
    let hasty = Gateway::of(&server, &time).await;
    // Everything that writes waits, and the look for a record prolongs it.
    let _: () = server.ask(&["CLIENT", "PAUSE", "3000", "WRITE"]);
    let (waited, given_up) = tokio::join!(patient.learn(A, "t", WORKING), hasty.learn(A, "u", WORKING));
    assert_eq!(waited, (Learned::New, Some(Confirmed::Stored)));
    assert!(patient.store.is_up());
    assert_ne!(given_up.1, Some(Confirmed::Stored));
    hasty.is_up().await;
    hasty.told_everything().await;
    assert_eq!(server.records(), ["a2a:t:maps:t", "a2a:t:maps:u"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_server_is_read_on_and_written_when_it_has_room() {
    let (server, time) = (Server::start(), Time::new());
    let one = Gateway::of(&server, &time).await;
    learn_many(&one, "before", 1).await;
    let other = Gateway::of(&server, &time).await;
    let _: () = server.ask(&["CONFIG", "SET", "maxmemory", "1"]);
    assert_ne!(one.learn(A, "meanwhile0", WORKING).await.1, Some(Confirmed::Stored));
    assert!(one.store.is_up() && !one.store.takes_records());
    assert_eq!(
        one.learn(A, "meanwhile1", WORKING).await,
        (Learned::New, None),
        "nobody tries in vain"
    );
    finds(&other, "before", 1).await;
    assert_eq!(other.task("unknown").await, Ok(None), "it can be asked");
    let _: () = server.ask(&["CONFIG", "SET", "maxmemory", "0"]);
    eventually("it has them", || async { server.records().len() == 3 }).await;
    one.told_everything().await;
    assert!(!one.affinity.stats().degraded);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_fit_while_it_is_away_goes_first_in_first_out() {
    let (mut server, time) = (Server::start(), Time::new());
    let one = Gateway::bounded(config_of(&server), &time, 2).await;
    server.kill();
    one.is_away().await;
    for number in 0..5 {
        time.advance(1);
        one.learn(A, &format!("t{number}"), WORKING).await;
    }
    let stats = one.affinity.stats();
    assert_eq!((stats.unwritten, stats.dropped), (2, 3));
    server.start_again();
    eventually("what is left is written", || async {
        server.records() == ["a2a:t:maps:t3", "a2a:t:maps:t4"]
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_may_change_while_the_gateway_runs() {
    let (server, time) = (Server::with(&["--requirepass", "new"]), Time::new());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("password");
    std::fs::write(&file, "old\n").unwrap();
    let mut config = config_of(&server);
    config.login = RedisLogin {
        username: None,
        password: Some(Secret::read(file.clone()).unwrap()),
    };
    let one = Gateway::bounded(config, &time, 100).await;
    assert!(!one.store.is_up(), "it starts all the same");
    let outage = one.store.outage().unwrap();
    assert!(
        outage.contains("WRONGPASS") || outage.to_lowercase().contains("password"),
        "{outage}"
    );
    assert!(!outage.contains("old"), "{outage}");
    assert_eq!(one.learn(A, "t", WORKING).await, (Learned::New, None));
    std::fs::write(&file, "new\n").unwrap();
    one.is_up().await;
    one.told_everything().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_needs_only_what_is_documented() {
    let (server, time) = (Server::start(), Time::new());
    let documented = "+get +getex +set +expire +pttl +pexpire +zadd +zrem +zcard +zscore +zremrangebyscore +eval +evalsha +time +info +ping +hello +auth +select";
    assert!(
        include_str!("../../../deploy/README.md").contains(documented),
        "the operators' guide says the same"
    );
    let create = |name: &str, rights: &str| {
        let rights: Vec<&str> = rights.split(' ').collect();
        let fixed = [
            "ACL",
            "SETUSER",
            name,
            "on",
            ">secret",
            "~a2a:*",
            "resetchannels",
            "-@all",
        ];
        let _: () = server.ask(&[&fixed[..], &rights].concat());
    };
    create("enough", documented);
    create("less", &documented.replace("+evalsha ", ""));
    let as_user = |name: &str| {
        let mut config = config_of(&server);
        config.login = RedisLogin {
            username: Some(name.to_owned()),
            password: Some(Secret::new("secret".to_owned())),
        };
        Gateway::bounded(config, &time, 100)
    };
    let enough = as_user("enough").await;
    assert!(enough.store.is_up(), "{:?}", enough.store.outage());
    assert_eq!(enough.learn(A, "t", WORKING).await.1, Some(Confirmed::Stored));
    assert!(enough.endpoint("t").await.is_some());
    let less = as_user("less").await;
    assert!(!less.store.is_up());
    let outage = less.store.outage().unwrap();
    assert!(outage.contains("evalsha"), "says what is missing: {outage}");
}

#[tokio::test]
async fn what_another_version_wrote_is_left_alone() {
    let (server, time) = (Server::start(), Time::new());
    let one = Gateway::of(&server, &time).await;
    let _: () = server.ask(&["SET", "a2a:t:maps:t", "\u{7f}of-the-future"]);
    assert_eq!(one.task("t").await, Err(Away), "it has an owner that cannot be read");
    one.learn(A, "t", WORKING).await;
    one.told_everything().await;
    let value: String = server.ask(&["GET", "a2a:t:maps:t"]);
    assert_eq!(value, "\u{7f}of-the-future");
}
