//! Places, conditional requests, and the refresh loop against a scripted source on a paused clock: no sockets here.

use std::collections::VecDeque;
use std::sync::Mutex;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use http::{Method, Request, StatusCode};
use serde_json::json;
use tokio::sync::Notify;
use tokio::time::{Instant, advance};

use super::refresh::{jittered, pause_after};
use super::*;
use crate::a2a::Generation;
use crate::a2a::card::{CardError, Edits, Flaws, flaws};
use crate::a2a::security::{SchemeUse, Security};
use crate::config::{ApiKey, Endpoint, KeySource, Mapping};

const MAX_AGE: Duration = Duration::from_secs(300);

#[test]
fn the_well_known_paths_are_looked_for_below_the_endpoint_and_at_the_root() {
    fn check(endpoint: &str, expected: &[&str]) {
        let endpoint = Endpoint {
            url: endpoint.to_owned(),
            drain: false,
        };
        let found = places(&[endpoint], None);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].urls, expected);
    }
    let root = [
        "http://h:1/.well-known/agent-card.json",
        "http://h:1/.well-known/agent.json",
    ];
    check("http://h:1", &root);
    check("http://h:1/", &root);
    check("http://h:1?tenant=a/b", &root);
    let below = |base: &str| root.map(|url| url.replace("http://h:1", base));
    for endpoint in ["http://h:1/a/rpc", "http://h:1/a/rpc/?x=/y"] {
        let [new, old] = below("http://h:1/a/rpc");
        check(endpoint, &[&new, &old, root[0], root[1]]);
    }
    let [new, old] = below("http://[::1]:1");
    check("http://[::1]:1/", &[&new, &old]);
}

#[test]
fn the_extended_card_of_0_2_is_below_or_beside_the_url() {
    fn check(endpoint: &str, bases: &[&str]) {
        let expected: Vec<_> = (bases.iter())
            .map(|base| format!("{base}/agent/authenticatedExtendedCard"))
            .collect();
        assert_eq!(extended_places(endpoint), expected, "{endpoint}");
    }
    check("http://h:1", &["http://h:1"]);
    check("http://h:1/", &["http://h:1"]);
    check("https://h?tenant=a/b", &["https://h"]);
    check("http://h/rpc", &["http://h/rpc", "http://h"]);
    check("http://h/a/rpc/?x=/y", &["http://h/a/rpc", "http://h/a"]);
}

#[test]
fn a_configured_url_is_the_only_place() {
    let endpoint = Endpoint {
        url: "http://h:1".to_owned(),
        drain: false,
    };
    let found = places(&[endpoint], Some("http://cards/maps.json"));
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].urls, ["http://cards/maps.json"]);
}

fn request(method: Method, if_none_match: &[&str]) -> http::request::Parts {
    let mut request = Request::builder().method(method);
    for value in if_none_match {
        request = request.header(IF_NONE_MATCH, *value);
    }
    request.body(()).unwrap().into_parts().0
}

#[test]
fn the_entity_tag_is_the_hash_of_the_body() {
    let published = Published::new(Bytes::from_static(b"abc"), MAX_AGE);
    assert_eq!(
        published.etag,
        "\"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\""
    );
    assert_eq!(published.cache_control, "public, max-age=300");
}

#[test]
fn a_known_entity_tag_is_answered_without_a_body() {
    let published = Published::new(Bytes::from_static(b"abc"), MAX_AGE);
    let ours = published.etag.to_str().unwrap();
    let check = |if_none_match: &[&str], expected: StatusCode| {
        for (method, body) in [(Method::GET, 3), (Method::HEAD, 0)] {
            let response = serve(&published, &request(method.clone(), if_none_match));
            assert_eq!(response.status(), expected, "{if_none_match:?}");
            let header = |name| response.headers().get(name).map(|value| value.to_str().unwrap());
            assert_eq!(header(ETAG), Some(ours));
            assert_eq!(header(CACHE_CONTROL), Some("public, max-age=300"));
            let whole = expected == StatusCode::OK;
            assert_eq!(header(CONTENT_TYPE), whole.then_some("application/json"));
            assert_eq!(header(CONTENT_LENGTH), whole.then_some("3"), "{method}");
            let body = if whole { body } else { 0 };
            assert_eq!(response.body().len() as u64, body, "{method}");
        }
    };
    let weak = format!("W/{ours}");
    let known = StatusCode::NOT_MODIFIED;
    check(&[], StatusCode::OK);
    check(&["*"], known);
    check(&[" * "], known);
    check(&[ours], known);
    check(&[&weak], known);
    check(&[&format!("\"a,b\" ,\t{weak}, \"c\"")], known);
    check(&["\"a\"", ours], known);
    check(&[&format!("\"\",{ours}")], known);
    check(&["\"a\", \"b\""], StatusCode::OK);
    check(&["", ",", "W/", "\""], StatusCode::OK);
    check(&[ours.trim_matches('"')], StatusCode::OK);
    check(&[&format!("w/{ours}")], StatusCode::OK);
    check(&[&format!("junk {ours}")], StatusCode::OK);
    check(&[&format!("\"a\" {ours}")], StatusCode::OK);
}

/// What is published of a card whose agent serves these generations.
fn current(served: &[Generation], by_version: bool) -> Current {
    let store = CardStore::new("maps", MAX_AGE);
    let origin = a2a::card::read(card("one").as_bytes()).unwrap();
    let publication = Publication {
        served: served.to_vec(),
        by_version,
        ..store.decide(&origin).unwrap()
    };
    Current::new("u", origin, publication, MAX_AGE, None)
}

#[test]
fn callers_of_0_1_have_a_card_where_they_are_served_and_it_can_say_what_they_must_show() {
    let check = |v0_1: bool, alternatives: &[&str], expected: bool| {
        let Current {
            origin, publication, ..
        } = current(&Generation::SPOKEN, false);
        let alternatives = alternatives.iter().map(|scheme| {
            vec![SchemeUse {
                scheme: (*scheme).to_owned(),
                scopes: Vec::new(),
            }]
        });
        let publication = Publication {
            v0_1,
            enforced: Security {
                alternatives: alternatives.collect(),
            },
            ..publication
        };
        let current = Current::new("u", origin, publication, MAX_AGE, None);
        let card = current
            .v0_1
            .map(|card| serde_json::from_slice::<serde_json::Value>(&card.body).unwrap());
        assert_eq!(card.is_some(), expected, "{v0_1}");
        if let Some(card) = card {
            assert_ne!(card["capabilities"]["pushNotifications"], true, "{card}");
            assert_eq!(card.get("supportedInterfaces"), None);
        }
    };
    check(true, &[], true);
    check(false, &[], false);
    // A scheme without a name that 0.1 knows.
    check(true, &["client-certificate"], false);
}

#[test]
fn callers_of_each_version_have_a_card_of_their_own() {
    let both = current(&Generation::SPOKEN, true);
    assert!(both.varies());
    let check = |asked: Option<&str>, expected: Option<&str>| {
        let found = both.asked(asked.map(str::as_bytes));
        let said = found.map(|published| {
            let card: serde_json::Value = serde_json::from_slice(&published.body).unwrap();
            match (card.get("protocolVersion"), card.get("supportedInterfaces")) {
                (Some(_), None) => "0.3",
                (None, Some(_)) => "1.0",
                other => panic!("{other:?}"),
            }
        });
        assert_eq!(said.ok(), expected, "{asked:?}");
    };
    check(None, Some("0.3"));
    check(Some("0.3"), Some("0.3"));
    check(Some("0.2"), Some("0.3"));
    check(Some("1.0"), Some("1.0"));
    check(Some("1"), Some("1.0"));
    for unknown in ["0.1", "1.1", "2.0", "?", "v1.0"] {
        check(Some(unknown), None);
    }
    let tags = [b"0.3", b"1.0"].map(|version| both.asked(Some(version)).unwrap().etag.clone());
    assert_ne!(tags[0], tags[1]);
    for (tag, other) in [(&tags[0], &tags[1]), (&tags[1], &tags[0])] {
        let new = both
            .versions
            .iter()
            .find(|(_, published)| published.etag == tag)
            .unwrap();
        let known = request(Method::GET, &[tag.to_str().unwrap()]);
        let response = serve(&new.1, &known);
        assert_eq!(
            (response.status(), &response.headers()["vary"]),
            (StatusCode::NOT_MODIFIED, &"A2A-Version".parse().unwrap())
        );
        let of_other = request(Method::GET, &[other.to_str().unwrap()]);
        assert_eq!(serve(&new.1, &of_other).status(), StatusCode::OK);
    }
}

#[test]
fn one_card_is_for_every_version() {
    for (served, by_version) in [(&Generation::SPOKEN[..], false), (&[Generation::V1_0], true)] {
        let one = current(served, by_version);
        assert!(!one.varies());
        let response = serve(&one.published, &request(Method::GET, &[]));
        assert_eq!(response.headers().get("vary"), None);
    }
}

#[test]
fn pauses_grow_up_to_a_minute() {
    let seconds: Vec<_> = (1..=8).map(|n| pause_after(n).as_secs()).collect();
    assert_eq!(seconds, [1, 2, 4, 8, 16, 32, 60, 60]);
    assert_eq!(pause_after(32).as_secs(), 60);
    assert_eq!(pause_after(u32::MAX).as_secs(), 60);
    let minute = Duration::from_secs(60);
    assert_eq!(jittered(minute, 0.0), minute);
    assert_eq!(jittered(minute, 0.5), Duration::from_millis(52_500));
}

#[test]
fn a_configured_scheme_publishes_nothing_of_its_keys() {
    let scheme = Scheme {
        description: Some("partners".to_owned()),
        kind: SchemeKind::ApiKey {
            place: ApiKeyPlace::Query,
            name: "key".to_owned(),
            keys: KeySource::Inline(vec![ApiKey {
                id: "partner-7".to_owned(),
                sha256: [7; 32],
                salt: Vec::new(),
                scopes: Vec::new(),
                attributes: Vec::new(),
                expires: None,
                label: String::new(),
            }]),
        },
        principal: Mapping::default(),
    };
    let expected = SchemeForm {
        description: Some("partners".to_owned()),
        kind: SchemeFormKind::ApiKey {
            place: KeyPlace::Query,
            name: "key".to_owned(),
        },
    };
    assert_eq!(scheme_form(&scheme), expected);
}

/// Answers from a list, in order, and remembers what it was asked; when the list is empty it never answers.
#[derive(Clone, Default)]
struct Script {
    answers: Arc<Mutex<VecDeque<Result<Bytes, FetchError>>>>,
    asked: Arc<Mutex<Vec<(String, Instant)>>>,
}

impl Script {
    fn then(&self, answer: Result<&str, FetchError>) -> &Self {
        let answer = answer.map(|text| Bytes::from(text.to_owned()));
        self.answers.lock().unwrap().push_back(answer);
        self
    }

    fn asked(&self) -> Vec<String> {
        let mut asked = self.asked.lock().unwrap();
        asked.drain(..).map(|(url, _)| url).collect()
    }
}

impl Source for Script {
    async fn fetch(&self, url: &str) -> Result<Bytes, FetchError> {
        let asked = (url.to_owned(), Instant::now());
        self.asked.lock().unwrap().push(asked);
        let answer = self.answers.lock().unwrap().pop_front();
        match answer {
            Some(answer) => answer,
            None => std::future::pending().await,
        }
    }
}

fn failed() -> Result<&'static str, FetchError> {
    Err(FetchError::Failed("connection refused".to_owned()))
}

fn whole(name: &str) -> serde_json::Value {
    json!({
        "name": name, "description": "", "version": "1", "url": "http://10.0.0.1/", "protocolVersion": "0.3.0",
        "defaultInputModes": [], "defaultOutputModes": [], "skills": [],
    })
}

fn card(name: &str) -> String {
    whole(name).to_string()
}

/// Serves what is offered; a card named "locked" demands what nobody can verify.
impl Keeper for CardStore {
    fn store(&self) -> &CardStore {
        self
    }

    fn demands<'a>(&'a self, origin: &'a OriginCard) -> Result<&'a Security, CardError> {
        origin.security.as_ref().map_err(|error| *error)
    }

    fn flaws(&self, origin: &OriginCard) -> Flaws {
        flaws(origin, &Edits::default(), origin.written(None))
    }

    fn decide(&self, origin: &OriginCard) -> Result<Publication, OutOfService> {
        if origin.name() == Some("locked") {
            return Err(OutOfService("no verifier for scheme `corp`".to_owned()));
        }
        Ok(Publication {
            public_url: "https://agents.example.com/maps".to_owned(),
            served: vec![Generation::V0_3],
            by_version: false,
            original: false,
            v0_1: false,
            written: origin.written(None),
            bindings: vec![crate::a2a::Binding::JsonRpc],
            spoken: crate::a2a::Binding::JsonRpc,
            enforced: origin.security.clone()?,
            schemes: std::collections::BTreeMap::new(),
            streaming: true,
            push: true,
            push_v0_1: false,
            extended: true,
            upstream: Vec::new(),
            edits: Edits::default(),
        })
    }
}

const INTERVAL: Duration = Duration::from_secs(600);

/// The loop under test, polled by hand so that it needs no job of its own.
struct Bench {
    store: Arc<CardStore>,
    script: Script,
    at_once: Arc<Notify>,
    refreshing: std::pin::Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl Bench {
    fn new(places: &[&[&str]]) -> Self {
        let store = Arc::new(CardStore::new("maps", MAX_AGE));
        let script = Script::default();
        let places = places.iter().map(|urls| Place {
            urls: urls.iter().map(|url| (*url).to_owned()).collect(),
        });
        let at_once = Arc::new(Notify::new());
        let keeper = Arc::clone(&store);
        let keeper = move || Arc::clone(&keeper);
        let refreshing = refresh_loop(script.clone(), places.collect(), INTERVAL, Arc::clone(&at_once), keeper);
        Self {
            store,
            script,
            at_once,
            refreshing: Box::pin(refreshing),
        }
    }

    /// Lets the loop run until it has to wait.
    fn run(&mut self) {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(self.refreshing.as_mut().poll(&mut context).is_pending());
    }

    async fn after(&mut self, pause: Duration) {
        advance(pause + Duration::from_millis(1)).await;
        self.run();
    }

    fn etag(&self) -> Option<http::HeaderValue> {
        Some(self.store.current()?.published.etag.clone())
    }

    fn state(&self) -> String {
        match self.store.state().as_ref() {
            CardState::NotFetched { last_error } => format!("not fetched {last_error:?}"),
            CardState::Ready { last_error, .. } => format!("ready {last_error:?}"),
            CardState::OutOfService { reason } => format!("out {reason}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_card_that_is_asked_for_is_fetched_at_once() {
    let mut bench = Bench::new(&[&["u"]]);
    bench.script.then(failed()).then(Ok(&card("maps")));
    bench.run();
    bench.run();
    assert_eq!(bench.script.asked(), ["u"], "it waits");
    bench.at_once.notify_one();
    bench.run();
    assert_eq!(bench.script.asked(), ["u"]);
    assert_eq!(bench.state(), "ready None");
}

#[tokio::test(start_paused = true)]
async fn the_last_good_card_stays_until_a_better_one_comes() {
    let mut bench = Bench::new(&[&["u"]]);
    assert_eq!(bench.state(), "not fetched None");
    let (first, second) = (card("one"), card("two"));
    bench.script.then(failed()).then(failed()).then(Ok(&first));
    bench.run();
    assert_eq!(bench.state(), r#"not fetched Some("u: connection refused")"#);
    assert_eq!(bench.etag(), None);
    bench.after(Duration::from_secs(1)).await;
    assert_eq!(bench.etag(), None);
    bench.after(Duration::from_secs(2)).await;
    assert_eq!(bench.state(), "ready None");
    let etag = bench.etag();
    assert!(etag.is_some());

    bench.script.then(Ok("<html>")).then(Ok(&first)).then(Ok(&second));
    bench.after(INTERVAL).await;
    assert_eq!(
        bench.state(),
        r#"ready Some("u: the card is not JSON (line 1, column 1)")"#
    );
    assert_eq!(bench.etag(), etag, "garbage replaced the last good card");
    // A failed refresh is repeated sooner than a good one.
    bench.after(Duration::from_secs(1)).await;
    assert_eq!(bench.state(), "ready None");
    assert_eq!(bench.etag(), etag, "the same card has the same entity tag");
    bench.after(INTERVAL).await;
    assert!(bench.etag().is_some());
    assert_ne!(bench.etag(), etag, "another card has another entity tag");
    let current = bench.store.current().unwrap();
    assert_eq!(current.origin.name(), Some("two"));
    assert_eq!(current.place, "u");
    assert_eq!(current.publication.enforced, Security::default());
    assert!(!String::from_utf8_lossy(&current.published.body).contains("10.0.0.1"));
}

#[tokio::test(start_paused = true)]
async fn a_card_that_cannot_be_trusted_takes_the_agent_out_of_service() {
    let mut contradictory = whole("one");
    contradictory["security"] = json!([{"a": []}]);
    contradictory["securityRequirements"] = json!([{"schemes": {"b": {}}}]);
    let contradictory = contradictory.to_string();
    let ambiguous = json!({"url": "u", "URL": "v"}).to_string();
    let (good, locked) = (card("one"), card("locked"));
    let mut bench = Bench::new(&[&["u"], &["other"]]);
    bench.script.then(Ok(&good)).then(Ok(&locked));
    bench.run();
    assert_eq!(bench.state(), "ready None");
    bench.after(INTERVAL).await;
    assert_eq!(bench.state(), "out no verifier for scheme `corp`");
    assert!(bench.store.current().is_none());

    // No card at all says nothing new.
    bench.script.then(failed()).then(failed());
    bench.after(Duration::from_secs(1)).await;
    assert_eq!(bench.state(), "out no verifier for scheme `corp`");
    bench.script.then(Ok(&contradictory));
    bench.after(Duration::from_secs(2)).await;
    assert!(bench.state().starts_with("out the card demands different things"));
    bench.script.then(Ok(&ambiguous));
    bench.after(Duration::from_secs(4)).await;
    assert!(bench.state().starts_with("out u: the card spells the member `url`"));
    bench.script.asked();
    bench.script.then(Ok(&good));
    bench.after(Duration::from_secs(8)).await;
    assert_eq!(bench.state(), "ready None");
    assert_eq!(bench.script.asked(), ["u"]);
}

#[tokio::test(start_paused = true)]
async fn places_are_asked_in_order() {
    fn check(answers: &[Result<&str, FetchError>], asked: &[&str], place: Option<&str>) {
        let mut bench = Bench::new(&[&["a1", "a2"], &["b1", "b2"]]);
        for answer in answers {
            bench.script.then(answer.clone());
        }
        bench.run();
        assert_eq!(bench.script.asked(), asked);
        let found = bench.store.current().map(|current| current.place.clone());
        assert_eq!(found.as_deref(), place);
    }
    let good = card("one");
    let ambiguous = r#"{"URL":"u"}"#;
    let absent = || Err(FetchError::Absent);
    check(&[Ok(&good)], &["a1"], Some("a1"));
    check(&[absent(), Ok(&good)], &["a1", "a2"], Some("a2"));
    check(&[Ok("<html>"), Ok(&good)], &["a1", "a2"], Some("a2"));
    // A server that fails is asked once only.
    check(&[failed(), Ok(&good)], &["a1", "b1"], Some("b1"));
    check(
        &[absent(), absent(), absent(), Ok(&good)],
        &["a1", "a2", "b1", "b2"],
        Some("b2"),
    );
    check(&[failed(), failed()], &["a1", "b1"], None);
    // Another card must not outvote one that cannot be trusted.
    check(&[Ok(ambiguous)], &["a1"], None);
}

#[tokio::test(start_paused = true)]
async fn a_secret_in_the_url_is_sent_and_not_shown() {
    let url = "http://a/card?key=hunter2";
    let good = card("one");
    for answer in [
        Ok(good.as_str()),
        Ok("<html>"),
        Ok(r#"{"URL":"u"}"#),
        failed(),
        Err(FetchError::Absent),
    ] {
        let mut bench = Bench::new(&[&[url]]);
        bench.script.then(answer);
        bench.run();
        assert_eq!(bench.script.asked(), [url]);
        let shown = format!("{:?}", bench.store.state());
        assert!(
            !shown.contains("hunter2") && shown.contains("http://a/card?redacted"),
            "{shown}"
        );
    }
}

/// Whose cards are signed until then, and for good what comes later.
struct Ending {
    script: Script,
    end: Instant,
}

impl Source for Ending {
    async fn fetch(&self, url: &str) -> Result<Bytes, FetchError> {
        self.script.fetch(url).await
    }

    async fn verify(&self, mut origin: OriginCard) -> Result<OriginCard, Unverified> {
        origin.until = Some(if Instant::now() < self.end { 1 } else { 2 });
        Ok(origin)
    }

    fn left(&self, until: u64) -> Duration {
        match until {
            1 => self.end.saturating_duration_since(Instant::now()),
            _ => Duration::MAX,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_card_whose_signature_has_ended_does_not_stay() {
    let script = Script::default();
    script.then(Ok(&card("maps")));
    for _ in 0..100 {
        script.then(failed());
    }
    let end = Instant::now() + Duration::from_secs(30);
    let source = Ending {
        script: script.clone(),
        end,
    };
    let store = Arc::new(CardStore::new("maps", MAX_AGE));
    let keeper = Arc::clone(&store);
    let places = vec![Place {
        urls: vec!["https://maps.example/card".to_owned()],
    }];
    let refreshing = refresh_loop(source, places, INTERVAL, Arc::default(), move || Arc::clone(&keeper));
    let mut refreshing = Box::pin(refreshing);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    for _ in 0..40 {
        assert!(refreshing.as_mut().poll(&mut context).is_pending());
        if Instant::now() < end {
            assert!(store.current().is_some(), "it is good until then");
        }
        advance(Duration::from_secs(1)).await;
    }
    assert!(INTERVAL > Duration::from_secs(40), "it was looked for before its time");
    let CardState::OutOfService { reason } = &*store.state() else {
        panic!("in service")
    };
    assert!(reason.contains("has expired"), "{reason}");
}

#[tokio::test(start_paused = true)]
async fn an_agent_whose_signature_has_ended_is_asked_less_and_less() {
    let script = Script::default();
    script.then(Ok(&card("maps")));
    for _ in 0..1000 {
        script.then(failed());
    }
    let source = Ending {
        script: script.clone(),
        end: Instant::now() + Duration::from_secs(30),
    };
    let store = Arc::new(CardStore::new("maps", MAX_AGE));
    let keeper = Arc::clone(&store);
    let places = vec![Place {
        urls: vec!["u".to_owned()],
    }];
    let refreshing = refresh_loop(source, places, INTERVAL, Arc::default(), move || Arc::clone(&keeper));
    let mut refreshing = Box::pin(refreshing);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    for _ in 0..600 {
        assert!(refreshing.as_mut().poll(&mut context).is_pending());
        advance(Duration::from_secs(1)).await;
    }
    assert!(store.current().is_none());
    let asked = script.asked().len();
    assert!(asked < 30, "{asked} times in ten minutes");
}

#[tokio::test(start_paused = true)]
async fn a_card_whose_signature_has_ended_does_not_stay_because_another_one_is_held() {
    let yaml = "public_url: https://g.example\nlisteners: [ { name: public, address: \"127.0.0.1:0\" } ]\nstate: { store: memory }\nagents:\n  - name: maps\n    path: /maps\n    \
                security: []\n    card: { on_change: hold }\n    policy: { task_owner: none }\n    \
                upstream: { endpoints: [ { url: \"http://127.0.0.1:1/\" } ] }\n";
    let config = config::parse(yaml, std::path::Path::new("/"), &config::Environment::default());
    let config = config.unwrap_or_else(|problems| panic!("{}", config::render(&problems)));
    let store = Arc::new(CardStore::new("maps", MAX_AGE).approving(&config.agents[0].card));
    let script = Script::default();
    let elsewhere = card("maps").replace("10.0.0.1", "10.0.0.2");
    script.then(Ok(&card("maps")));
    for _ in 0..100 {
        script.then(Ok(&elsewhere));
    }
    let end = Instant::now() + Duration::from_secs(30);
    let source = Ending {
        script: script.clone(),
        end,
    };
    let keeper = Arc::clone(&store);
    let places = vec![Place {
        urls: vec!["u".to_owned()],
    }];
    let refreshing = refresh_loop(source, places, INTERVAL, Arc::default(), move || Arc::clone(&keeper));
    let mut refreshing = Box::pin(refreshing);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let mut seconds = async |count: u32| {
        for _ in 0..count {
            advance(Duration::from_secs(1)).await;
            assert!(refreshing.as_mut().poll(&mut context).is_pending());
        }
    };
    seconds(29).await;
    assert!(store.current().is_some(), "it is good until then");
    seconds(5).await;
    for _ in 0..100 {
        seconds(1).await;
        assert!(store.current().is_none(), "neither the ended one nor the held one");
    }
    let CardState::OutOfService { reason } = &*store.state() else {
        panic!("in service")
    };
    assert!(
        reason.contains("of the approved one has expired"),
        "it is not put in service for a moment each time: {reason}"
    );
    assert!(store.approval().differing().is_some_and(|differing| differing.held));
    // Signed anew.
    script.answers.lock().unwrap().clear();
    script.then(Ok(&card("maps")));
    seconds(61).await;
    assert!(store.current().is_some());
}
