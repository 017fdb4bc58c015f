//! Records that an operator gave to another owner: a store that loses the transfer gets it back, whoever writes first.

use super::redis::Server;
use super::servers::Way;
use super::shared::*;
use super::*;
use crate::config::RedisServers;
use crate::shared::{Command, Purpose, Reply};

const KEY: &str = "a2a:t:maps:t";

impl Gateway {
    /// As an operator's word does it.
    async fn transfer(&self, owner: &str) {
        let (task, owner) = (TaskId::new("t"), Arc::from(owner));
        self.look_again().await;
        self.affinity.tell_task_owner("maps", &task, &owner).await.unwrap();
        self.affinity.transfer_task("maps", &task, &owner).unwrap();
    }

    async fn look_again(&self) {
        match self.affinity.inquire_anew("maps", [&TaskId::new("t")], None) {
            Inquiry::Asking(asking) => assert_eq!(asking.await, Knowledge::Whole),
            Inquiry::Settled | Inquiry::Away => panic!("there is a store to ask"),
        }
    }

    async fn principal(&self) -> String {
        self.task("t").await.unwrap().unwrap().principal.to_string()
    }
}

/// Generation 1.0, and texts of less than 256 bytes.
fn value(state: u8, transfers: u8, endpoint: &str, principal: &str) -> Vec<u8> {
    let mut value = vec![1, 2, state, transfers];
    for text in [endpoint, principal] {
        value.extend([u8::try_from(text.len()).unwrap(), 0]);
        value.extend(text.as_bytes());
    }
    value
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transfer_survives_an_emptied_store() {
    let (server, time) = (Server::start(), Time::new());
    let way = Way::to(&server).await;
    let one = Gateway::bounded(config_to(RedisServers::Standalone(address_of(way.port))), &time, 100).await;
    let other = Gateway::of(&server, &time).await;
    // The former owner made it through the other gateway, where nobody has named it since.
    other.learn_of(A, "key:mallory", Some("t"), None, WORKING).await;
    one.transfer("key:alice").await;
    time.advance(3600);
    // The other one writes back first.
    way.cut();
    let _: () = server.ask(&["FLUSHALL"]);
    eventually("the other wrote back", || async { server.records().len() == 1 }).await;
    way.mend();
    one.is_up().await;
    one.has_recovered().await;
    one.told_everything().await;
    assert_eq!(one.principal().await, "key:alice");
    // Believed for as long as after the transfer itself.
    time.advance(60);
    assert_eq!(other.principal().await, "key:alice");
}

#[tokio::test]
async fn what_a_store_has_from_before_a_transfer_is_not_believed() {
    let (server, time) = (Server::start(), Time::new());
    let (one, other) = (Gateway::of(&server, &time).await, Gateway::of(&server, &time).await);
    one.learn_of(A, "key:mallory", Some("t"), None, WORKING).await;
    let before: Vec<u8> = server.ask(&["GET", KEY]);
    one.transfer("key:alice").await;
    let after: Vec<u8> = server.ask(&["GET", KEY]);
    assert_eq!((before[3], after[3]), (0, 1));
    assert_eq!(other.principal().await, "key:alice");
    // As after a failover to a server that lagged.
    one.store.ask(Purpose::Flush, &[put(before)]).await.unwrap();
    time.advance(60);
    assert_eq!(other.principal().await, "key:alice");
    other.told_everything().await;
    assert_eq!(server.ask::<Vec<u8>>(&["GET", KEY]), after, "it has it again");
}

#[tokio::test]
async fn a_transfer_counts_on_from_what_other_gateways_gave_away() {
    let (server, time) = (Server::start(), Time::new());
    let (one, other) = (Gateway::of(&server, &time).await, Gateway::of(&server, &time).await);
    one.learn_of(A, "key:mallory", Some("t"), None, WORKING).await;
    assert_eq!(other.principal().await, "key:mallory");
    for owner in ["key:alice", "key:bob"] {
        one.transfer(owner).await;
    }
    // It knows of none of them.
    other.transfer("key:carol").await;
    assert_eq!(server.ask::<Vec<u8>>(&["GET", KEY])[3], 3);
    one.look_again().await;
    assert_eq!(one.principal().await, "key:carol");
}

/// Given away and back again, the owner is the same and yet newer.
#[tokio::test]
async fn who_learns_that_nothing_changed_learns_how_often_it_did() {
    let (server, time) = (Server::start(), Time::new());
    let (one, other) = (Gateway::of(&server, &time).await, Gateway::of(&server, &time).await);
    one.learn(A, "t", None).await;
    assert_eq!(other.principal().await, "key:ann");
    for owner in ["key:ben", "key:ann"] {
        other.transfer(owner).await;
    }
    one.learn(A, "t", WORKING).await;
    one.told_everything().await;
    assert_eq!(server.ask::<Vec<u8>>(&["GET", KEY])[3], 2, "a state takes nothing back");
    // From what it has learned by that, without asking.
    let (task, ben) = (TaskId::new("t"), Arc::from("key:ben"));
    one.affinity.tell_task_owner("maps", &task, &ben).await.unwrap();
    assert_eq!(server.ask::<Vec<u8>>(&["GET", KEY])[3], 3);
}

fn put(record: Vec<u8>) -> Command {
    Command::Put {
        key: KEY.into(),
        record,
        keep: 60,
    }
}

#[tokio::test]
async fn the_owner_after_more_transfers_holds_and_of_equals_the_first() {
    let (server, time) = (Server::start(), Time::new());
    let one = Gateway::of(&server, &time).await;
    let check = async |held: &[u8], new: &[u8], expected: &[u8]| {
        let learn = Command::Learn {
            key: KEY.into(),
            record: new.to_vec(),
            keep: 3600,
        };
        let replies = one
            .store
            .ask(Purpose::Learn, &[put(held.to_vec()), learn])
            .await
            .unwrap();
        assert_eq!(replies, [Reply::Nothing, Reply::Bytes(held.to_vec())]);
        assert_eq!(server.ask::<Vec<u8>>(&["GET", KEY]), expected, "{held:?}, then {new:?}");
        assert!(server.ask::<i64>(&["TTL", KEY]) > 60, "it is seen");
    };
    let (ann, ben) = (
        |state, transfers| value(state, transfers, A, "key:ann"),
        |state, transfers| value(state, transfers, A, "key:ben"),
    );
    let elsewhere = |state, transfers| value(state, transfers, B, "key:ben");
    for (held, new, expected) in [
        (ann(2, 0), ben(2, 1), ben(2, 1)),
        (ann(2, 1), ben(2, u8::MAX), ben(2, u8::MAX)),
        (ann(2, 0), elsewhere(2, 1), elsewhere(2, 1)),
        (ann(2, 1), ben(2, 0), ann(2, 1)),
        (ann(2, u8::MAX), ben(2, u8::MAX), ann(2, u8::MAX)),
        (ann(2, 0), ben(3, 0), ann(2, 0)),
        (ann(2, 1), elsewhere(3, 1), ann(2, 1)),
        // The same owner: the most of both.
        (ann(2, 2), ann(3, 0), ann(3, 2)),
        (ann(2, 0), ann(3, 2), ann(3, 2)),
        (ann(5, 0), ann(3, 2), ann(5, 2)),
        (ann(5, 2), ann(3, 0), ann(5, 2)),
        // An end is final, of the same task.
        (ann(5, 0), ben(2, 1), ben(5, 1)),
        (ann(2, 0), ben(0, 1), ben(2, 1)),
        (ann(2, 0), ben(5, 1), ben(5, 1)),
        (ann(5, 0), elsewhere(2, 1), elsewhere(2, 1)),
        // What is no record of this version stays.
        (vec![2, 3, 2, 0, 9], ann(2, 1), vec![2, 3, 2, 0, 9]),
        (Vec::new(), ann(2, 1), Vec::new()),
        (vec![1], ann(2, 1), ann(2, 1)),
        (ann(2, 0), Vec::new(), ann(2, 0)),
    ] {
        check(&held, &new, &expected).await;
    }
}
