//! What is sealed, for whom it opens, and what is registered and shown of it.

use std::time::Duration;

use super::*;
use crate::a2a::model::wire::Text;
use crate::config::Secret;

const NOW: u64 = 1_800_000_000;
const BASE: &str = "https://gateway.example/agents/maps";
const URL: &str = "https://hooks.example.com/a?b=c";

fn config(keys: &[&str]) -> config::Push {
    config::Push {
        keys: keys.iter().map(|key| Secret::new((*key).to_owned())).collect(),
        url: None,
        hosts: Vec::new(),
        networks: Vec::new(),
        http: false,
        tls: UpstreamTls::default(),
        lifetime: Duration::from_secs(3600),
        timeout: Duration::from_secs(1),
        body_bytes: 1024,
        concurrent: 2,
        rate: (3, Duration::from_secs(3600)),
    }
}

fn relay_of(keys: &[&str], agent: &str, target: usize) -> Arc<Relay> {
    tls::install_provider();
    let config = config(keys);
    let common = Common::build(&config).unwrap().expect("switched on");
    Arc::new(Relay::new(&Arc::new(common), &config, &Arc::from(agent), BASE, target))
}

fn relay() -> Arc<Relay> {
    relay_of(&["one"], "maps", 8192)
}

fn desk(relay: &Arc<Relay>, caller: &str, owner: &str, task: Option<&str>) -> Desk {
    Desk {
        relay: relay.clone(),
        registrant: Arc::from(caller),
        owner: Arc::from(owner),
        task: task.map(TaskId::new),
        generation: Generation::V0_3,
        named: None,
        now: NOW,
        under_way: OnceLock::new(),
    }
}

fn webhook() -> PushConfig<'static> {
    PushConfig {
        id: Text::from("p1"),
        task_id: Text::from("t1"),
        url: Text::from(URL),
        token: Text::from("s3cret"),
        authentication: Some(model::Authentication {
            scheme: Text::from("Bearer"),
            credentials: Text::from("hunter2"),
        }),
        ..PushConfig::default()
    }
}

fn registered(desk: &Desk, mut config: PushConfig<'static>) -> Result<PushConfig<'static>, Error> {
    desk.register(&mut config).map(|()| config)
}

/// What stands in an address.
fn sealed_in<'a>(config: &'a PushConfig<'_>) -> &'a str {
    let path = config
        .url
        .as_str()
        .strip_prefix(BASE)
        .expect("the gateway's own address");
    sealed(path).expect("a sealed path")
}

#[test]
fn an_agent_is_given_an_address_and_no_secret() {
    let relay = relay();
    let config = registered(&desk(&relay, "key:ann", "key:ann", Some("t1")), webhook()).unwrap();
    assert_eq!((config.id.as_str(), config.task_id.as_str()), ("p1", "t1"));
    assert_eq!((config.token.as_str(), &config.authentication), ("", &None));
    let ticket = relay.open(sealed_in(&config), NOW).unwrap();
    let expected = Ticket {
        generation: Generation::V0_3,
        named: None,
        owner: Arc::from("key:ann"),
        registrant: Arc::from("key:ann"),
        task: Some(TaskId::new("t1")),
        webhook: Webhook {
            url: URL.to_owned(),
            token: "s3cret".to_owned(),
            authentication: Some(Authentication {
                scheme: "Bearer".to_owned(),
                credentials: "hunter2".to_owned(),
            }),
        },
    };
    assert_eq!(ticket, expected);
    assert!(!format!("{ticket:?}").contains("hooks"), "URLs have secrets");
    let again = registered(&desk(&relay, "key:ann", "key:ann", Some("t1")), webhook()).unwrap();
    assert_ne!(again.url, config.url, "no two are alike");
}

#[test]
fn an_address_holds_what_a_caller_of_0_1_calls_its_task() {
    let relay = relay();
    let named = |session: &str| v0_1::Named {
        task: Box::from("mine"),
        session: Box::from(session),
        message: Box::default(),
    };
    for session in ["", "my session"] {
        let desk = Desk {
            generation: Generation::V0_1,
            named: Some(Box::new(named(session))),
            ..desk(&relay, "key:ann", "key:ann", None)
        };
        let ticket = relay
            .open(sealed_in(&registered(&desk, webhook()).unwrap()), NOW)
            .unwrap();
        assert_eq!(
            (ticket.generation, ticket.named.as_deref()),
            (Generation::V0_1, Some(&named(session)))
        );
        assert_eq!(ticket.webhook.token, "s3cret");
    }
}

#[test]
fn an_address_opens_for_its_agent_while_it_holds() {
    let relay = relay();
    let config = registered(&desk(&relay, "key:ann", "key:ann", None), webhook()).unwrap();
    let address = sealed_in(&config);
    assert!(relay.open(address, NOW + 3600).is_ok());
    assert_eq!(relay.open(address, NOW + 3601), Err(Unknown::Expired));
    let forged = |relay: &Relay, address: &str| assert_eq!(relay.open(address, NOW), Err(Unknown::Forged), "{address}");
    forged(&relay_of(&["one"], "mail", 8192), address);
    forged(&relay_of(&["two"], "maps", 8192), address);
    for changed in [
        "",
        "AQ",
        &format!("{address}A"),
        address.get(1..).unwrap(),
        &"A".repeat(5000),
    ] {
        forged(&relay, changed);
    }
    assert!(
        relay_of(&["two", "one"], "maps", 8192).open(address, NOW).is_ok(),
        "an old key opens"
    );
}

#[test]
fn only_what_stands_in_a_path_is_taken_for_an_address() {
    let check = |path: &str, expected: Option<&str>| assert_eq!(sealed(path), expected, "{path}");
    check("/push/AQ-_9z", Some("AQ-_9z"));
    check("/push/", None);
    check("/push", None);
    check("/push/a/b", None);
    // A tenant of HTTP+JSON may have this name.
    check("/push/message:send", None);
    check("/push/a%2eb", None);
    check("/pushes/AQ", None);
}

#[test]
fn a_task_binds_the_address_where_its_name_is_certain() {
    let relay = relay();
    let check = |of_call: Option<&str>, of_config: &str, expected: Option<&str>| {
        let config = PushConfig {
            task_id: Text::from(of_config.to_owned()),
            ..webhook()
        };
        let config = registered(&desk(&relay, "a", "a", of_call), config).unwrap();
        let ticket = relay.open(sealed_in(&config), NOW).unwrap();
        assert_eq!(ticket.task, expected.map(TaskId::new), "{of_call:?} {of_config}");
    };
    check(Some("t1"), "t1", Some("t1"));
    check(Some("t1"), "", Some("t1"));
    check(Some("t1"), "t2", None);
    check(None, "", None);
}

#[test]
fn an_address_vouches_for_the_task_of_its_call_while_that_is_under_way() {
    let relay = relay();
    let makes = |address: &str, task: &str| relay.makes(address, &TaskId::new(task));
    let mut sending = desk(&relay, "a", "a", None);
    let config = registered(&sending, webhook()).unwrap();
    let address = sealed_in(&config);
    let under_way = sending.under_way.take();
    assert!(under_way.is_some());
    assert!(makes(address, "t1"), "the first that is told of");
    assert!(makes(address, "t1"), "again");
    assert!(!makes(address, "t2"), "a call makes one task");
    let another = registered(&desk(&relay, "a", "a", None), webhook()).unwrap();
    assert!(!makes(sealed_in(&another), "t2"), "that call is over");
    drop(under_way);
    assert!(!makes(address, "t1"), "the answer was learned from");
    let about = desk(&relay, "a", "a", Some("t1"));
    let config = registered(&about, webhook()).unwrap();
    assert!(
        about.under_way.get().is_none() && !makes(sealed_in(&config), "t1"),
        "makes none"
    );
}

#[test]
fn webhooks_that_cannot_be_called_are_refused_at_once() {
    let relay = relay();
    let check = |change: &dyn Fn(&mut PushConfig<'static>), cause: &'static str| {
        let mut config = webhook();
        change(&mut config);
        let refused = registered(&desk(&relay, "a", "a", None), config);
        assert_eq!(refused, Err(Error::Webhook(cause)));
    };
    check(
        &|it| it.url = Text::from("http://hooks.example.com/"),
        "the webhook's scheme is not allowed; use https",
    );
    check(
        &|it| it.url = Text::from("https://127.1/"),
        "the webhook's URL has no valid host",
    );
    check(
        &|it| it.url = Text::from("https://10.0.0.1/"),
        "the webhook's address is not public",
    );
    let header = "the webhook's token or credentials cannot stand in a header";
    check(&|it| it.token = Text::from("a\r\nx: y"), header);
    check(
        &|it| {
            it.authentication = Some(model::Authentication {
                scheme: Text::from("Bearer"),
                credentials: Text::from("a\nb"),
            });
        },
        header,
    );
}

#[test]
fn an_address_is_as_long_as_a_target_may_be() {
    let long = "the webhook's URL, token and credentials are too long together";
    let check = |relay: &Arc<Relay>, token: usize, expected: Result<usize, Error>| {
        let config = PushConfig {
            token: Text::from("x".repeat(token)),
            ..webhook()
        };
        let sealed = registered(&desk(relay, "a", "a", None), config).map(|it| sealed_in(&it).len());
        assert_eq!(sealed, expected, "{token}");
    };
    // Four characters for three bytes.
    check(&relay(), 2973, Ok(4096));
    check(&relay(), 2974, Err(Error::Webhook(long)));
    // `/agents/maps/push/` has 18.
    let narrow = relay_of(&["one"], "maps", 418);
    check(&narrow, 201, Ok(400));
    check(&narrow, 202, Err(Error::Webhook(long)));
}

#[test]
fn a_webhook_is_shown_to_whom_registered_it() {
    let relay = relay();
    let ann = desk(&relay, "key:ann", "key:ann", Some("t1"));
    let theirs = registered(&ann, webhook()).unwrap();
    let shown = |desk: &Desk, config: &PushConfig<'static>| {
        let mut config = config.clone();
        desk.show(&mut config);
        config
    };
    assert_eq!(shown(&ann, &theirs), webhook());
    // Also once it has expired, and under the address that the gateway had then.
    let late = Desk {
        now: NOW + 10_000,
        ..desk(&relay, "key:ann", "key:ann", None)
    };
    let moved = PushConfig {
        url: Text::from(format!("http://old.example/push/{}", sealed_in(&theirs))),
        ..theirs.clone()
    };
    assert_eq!(shown(&late, &moved), webhook());
    let bob = desk(&relay, "key:bob", "key:ann", Some("t1"));
    let hidden = |config: &PushConfig<'static>| PushConfig {
        url: Text::from(config.url.as_str().replace(sealed_in(config), "")),
        ..config.clone()
    };
    assert_eq!(shown(&bob, &theirs), hidden(&theirs), "with whom a task is shared");
    let own = registered(&bob, webhook()).unwrap();
    assert_eq!(shown(&bob, &own), webhook(), "on a task of somebody else");
    assert_eq!(shown(&ann, &own), hidden(&own));
    assert_eq!(relay.open(sealed_in(&own), NOW).unwrap().owner, Arc::from("key:ann"));
    for foreign in [
        "https://hooks.example.com/push/AQAA",
        "https://gateway.example/agents/maps/push/",
        "",
    ] {
        let config = PushConfig {
            url: Text::from(foreign),
            ..webhook()
        };
        assert_eq!(shown(&ann, &config), config);
    }
}

#[test]
fn sealed_addresses_are_shown_to_nobody() {
    let relay = relay();
    let ann = desk(&relay, "key:ann", "key:ann", Some("t1"));
    let theirs = registered(&ann, webhook()).unwrap();
    let url = theirs.url.as_str();
    let place = url.replace(sealed_in(&theirs), "");
    let answer = |url: &str| format!(r#"{{"id":1,"result":{{"configs":[{{"url":{url},"id":"p"}}]}}}}"#);
    let escaped = format!("\"{}\"", url.replace('/', "\\/").replacen('p', "\\u0070", 1));
    for spelled in [format!("\"{url}\""), escaped] {
        for (registrant, expected) in [("key:ann", webhook().url.as_str()), ("key:bob", &*place)] {
            let shown = relay
                .conceal(answer(&spelled).as_bytes(), registrant)
                .unwrap()
                .expect("a change");
            let shown: serde_json::Value = serde_json::from_slice(&shown).unwrap();
            let config = serde_json::json!({"url": expected, "id": "p"});
            assert_eq!(
                shown,
                serde_json::json!({"id": 1, "result": {"configs": [config]}}),
                "{spelled}"
            );
        }
    }
    for other in ["\"https://hooks.example.com/push/AQAA\"", "7", "null"] {
        assert_eq!(relay.conceal(answer(other).as_bytes(), "key:ann").unwrap(), None);
    }
    assert!(relay.conceal(b"{", "key:ann").is_err());
}

#[test]
fn a_flood_is_refused() {
    let relay = relay();
    let places = [relay.enter(), relay.enter()];
    assert!(places.iter().all(Option::is_some));
    assert!(relay.enter().is_none(), "one past the bound");
    drop(places);
    assert!(relay.enter().is_some());
    assert!((0..3).all(|_| relay.admit()));
    assert!(!relay.admit(), "one past the rate");
}

#[test]
fn what_no_header_carries_is_left_out() {
    let check = |scheme: &str, credentials: &str, expected: Option<&str>| {
        let webhook = Webhook {
            url: String::new(),
            token: String::new(),
            authentication: Some(Authentication {
                scheme: scheme.to_owned(),
                credentials: credentials.to_owned(),
            }),
        };
        assert_eq!(
            webhook.authorization().as_ref().map(HeaderValue::as_bytes),
            expected.map(str::as_bytes)
        );
        assert_eq!(webhook.token(), None);
    };
    check("Bearer", "x", Some("Bearer x"));
    check("Bearer", "", None);
    check("", "x", None);
}
