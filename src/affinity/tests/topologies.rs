//! Sentinel, Cluster and TLS, with real servers.

use super::redis::{Server, free_port};
use super::servers::{Tls, cluster, sentinel};
use super::shared::*;
use super::*;
use crate::config::{RedisLogin, RedisServers, Secret, UpstreamTls};
use crate::shared::Away;

#[tokio::test(flavor = "multi_thread")]
async fn after_a_failover_the_new_master_is_used_and_has_everything() {
    let time = Time::new();
    let mut master = Server::start();
    let replica = Server::with(&[
        "--replicaof",
        &format!("127.0.0.1 {}", master.port),
        "--repl-diskless-sync-delay",
        "0",
    ]);
    eventually("the replica follows", || async {
        replica
            .ask::<String>(&["INFO", "replication"])
            .contains("master_link_status:up")
    })
    .await;
    let watch = format!(
        "sentinel monitor a2a 127.0.0.1 {} 1\nsentinel down-after-milliseconds a2a 500\nsentinel failover-timeout a2a 3000",
        master.port
    );
    let sentinel = sentinel(&watch);
    eventually("the Sentinel knows the replica", || async {
        sentinel.ask::<String>(&["INFO", "sentinel"]).contains("slaves=1")
    })
    .await;
    let gone = free_port();
    let config = config_to(RedisServers::Sentinel {
        sentinels: vec![address_of(gone), address(&sentinel)],
        master: "a2a".to_owned(),
        login: RedisLogin::default(),
    });
    let one = Gateway::bounded(config.clone(), &time, 1000).await;
    one.is_up().await;
    for number in 0..20 {
        let told = one.learn(A, &format!("before{number}"), WORKING).await;
        assert_eq!(told, (Learned::New, Some(Confirmed::Stored)));
    }
    master.kill();
    one.learn(A, "meanwhile", WORKING).await;
    one.is_away().await;
    one.is_up().await;
    one.told_everything().await;
    assert_eq!(replica.records().len(), 21);
    let other = Gateway::bounded(config, &time, 1000).await;
    other.is_up().await;
    assert_eq!(other.endpoint("meanwhile").await.as_deref(), Some(A));
    assert_eq!(other.endpoint("before7").await.as_deref(), Some(A));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_works_like_one_server() {
    let time = Time::new();
    let mut nodes = cluster([const { Vec::new() }; 3], None).await;
    // The others are found through one of them.
    let config = config_to(RedisServers::Cluster(vec![address(&nodes[0])]));
    let one = Gateway::bounded(config.clone(), &time, 1000).await;
    one.is_up().await;
    for number in 0..60 {
        let (task, context) = (format!("t{number}"), format!("c{number}"));
        let told = one.learn_of(A, "key:ann", Some(&task), Some(&context), WORKING).await;
        assert_eq!(told, (Learned::New, Some(Confirmed::Stored)), "in different slots");
    }
    let other = Gateway::bounded(config, &time, 1000).await;
    other.is_up().await;
    for number in 0..60 {
        assert_eq!(other.endpoint(&format!("t{number}")).await.as_deref(), Some(A));
    }
    let counts = nodes.each_ref().map(|node| node.records().len());
    assert_eq!(counts.iter().sum::<usize>(), 120);
    assert!(counts.iter().all(|&count| count > 0), "{counts:?}");

    // A node comes back without its records.
    nodes[1].kill();
    one.is_away().await;
    one.learn(A, "meanwhile", WORKING).await;
    nodes[1].start_again();
    one.is_up().await;
    assert_eq!(one.task("unknown").await, Err(Away), "perhaps it was on that node");
    one.told_everything().await;
    eventually("its records are back", || async {
        nodes.iter().map(|node| node.records().len()).sum::<usize>() == 121
    })
    .await;
    one.has_recovered().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn over_tls_both_sides_are_known() {
    let (tls, time) = (Tls::new(), Time::new());
    let server = tls.server();
    let config = |ca: &Tls, shows: bool| {
        let mut config = config_of(&server);
        config.secure = true;
        config.tls = UpstreamTls {
            ca: Some(ca.file("ca.pem")),
            client: tls.known().client.filter(|_| shows),
            server_name: None,
        };
        config
    };
    let one = Gateway::bounded(config(&tls, true), &time, 100).await;
    assert!(one.store.is_up(), "{:?}", one.store.outage());
    assert_eq!(one.learn(A, "t", WORKING).await.1, Some(Confirmed::Stored));
    let stranger = Tls::new();
    let misled = Gateway::bounded(config(&stranger, true), &time, 100).await;
    assert!(!misled.store.is_up(), "another CA");
    let nobody = Gateway::bounded(config(&tls, false), &time, 100).await;
    assert!(!nobody.store.is_up(), "without a certificate");
    let plain = Gateway::bounded(config_of(&server), &time, 100).await;
    assert!(!plain.store.is_up(), "without TLS");
}

/// Over TLS with everybody.
#[tokio::test(flavor = "multi_thread")]
async fn sentinels_and_their_master_are_asked_over_tls() {
    let (tls, time) = (Tls::new(), Time::new());
    let master = tls.server();
    let sentinel = tls.sentinel(&format!("sentinel monitor a2a 127.0.0.1 {} 1", master.port));
    let config = |tls: UpstreamTls| {
        let mut config = config_to(RedisServers::Sentinel {
            sentinels: vec![address(&sentinel)],
            master: "a2a".to_owned(),
            login: RedisLogin::default(),
        });
        config.secure = true;
        config.tls = tls;
        config
    };
    let one = Gateway::bounded(config(tls.known()), &time, 100).await;
    one.is_up().await;
    assert_eq!(one.learn(A, "t", WORKING).await.1, Some(Confirmed::Stored));
    let misled = Gateway::bounded(config(Tls::new().known()), &time, 100).await;
    assert!(!misled.store.is_up(), "another CA");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_node_of_a_cluster_is_asked_over_tls() {
    let (tls, time) = (Tls::new(), Time::new());
    let ports = [free_port(), free_port(), free_port()];
    let nodes = cluster(ports.map(|port| tls.listens(port)), Some(ports)).await;
    let config = |tls: UpstreamTls| {
        let mut config = config_to(RedisServers::Cluster(vec![address_of(ports[0])]));
        config.secure = true;
        config.tls = tls;
        config
    };
    let one = Gateway::bounded(config(tls.known()), &time, 100).await;
    one.is_up().await;
    in_every_node(&one, &nodes).await;
    let misled = Gateway::bounded(config(Tls::new().known()), &time, 100).await;
    assert!(!misled.store.is_up(), "another CA");
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_cluster_too_a_user_needs_only_what_is_documented() {
    let documented = [
        "+get +getex +set +expire +pttl +pexpire +zadd +zrem +zcard +zscore +zremrangebyscore +eval +evalsha +time +info +ping +hello +auth +select",
        "+cluster|slots +cluster|shards +cluster|nodes +readonly +asking",
    ];
    for rights in documented {
        assert!(
            include_str!("../../../deploy/README.md").contains(rights),
            "the operators' guide says the same"
        );
    }
    let time = Time::new();
    let nodes = cluster([const { Vec::new() }; 3], None).await;
    for node in &nodes {
        let fixed = "ACL SETUSER gateway on >secret ~a2a:* resetchannels -@all".split(' ');
        let command: Vec<&str> = fixed
            .chain(documented.iter().flat_map(|rights| rights.split(' ')))
            .collect();
        let _: () = node.ask(&command);
    }
    let mut config = config_to(RedisServers::Cluster(vec![address(&nodes[0])]));
    config.login = RedisLogin {
        username: Some("gateway".to_owned()),
        password: Some(Secret::new("secret".to_owned())),
    };
    let one = Gateway::bounded(config, &time, 100).await;
    assert!(one.store.is_up(), "{:?}", one.store.outage());
    in_every_node(&one, &nodes).await;
}

/// Enough records that each node has some, and what is not found is nobody's.
async fn in_every_node(gateway: &Gateway, nodes: &[Server]) {
    for number in 0..60 {
        let told = gateway.learn(A, &format!("t{number}"), WORKING).await;
        assert_eq!(told, (Learned::New, Some(Confirmed::Stored)));
    }
    for node in nodes {
        assert!(!node.records().is_empty());
    }
    assert_eq!(gateway.task("unknown").await, Ok(None));
}
