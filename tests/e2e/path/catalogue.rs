//! The lists of agents: the API catalogue (RFC 9727, RFC 9264), the AI Catalog, and the list with its search and its pages.

use serde_json::{Value, json};

use crate::harness::agent::{Agent, CARD, Reply};
use crate::harness::{Answer, Gateway, KEY, KEY_HASH, call, eventually, get};

const API: &str = "/.well-known/api-catalog";
const AI: &str = "/.well-known/ai-catalog.json";
const LIST: &str = "/agents";

/// One that has nothing to do.
pub async fn with_card(card: &str) -> Agent {
    Agent::with_card(card, |_| Reply::Silence).await
}

pub async fn named(name: &str, more: &str) -> Agent {
    let card = CARD.replace("\"name\":\"Fake\",", &format!("\"name\":\"{name}\",{more}"));
    with_card(&card).await
}

/// Agents by name, each with more of its keys; `top` are keys of the file.
pub async fn start(agents: &[(&str, &Agent, &str)], top: &str) -> Gateway {
    let gateway = Gateway::start(&yaml(agents, top)).await;
    gateway.ready().await;
    gateway
}

pub fn yaml(agents: &[(&str, &Agent, &str)], top: &str) -> String {
    let agents = agents.iter().map(|(name, agent, more)| {
        let route = if more.contains("host:") {
            String::new()
        } else {
            format!("path: /{name}, ")
        };
        format!(
            "  - {{ name: {name}, {route}upstream: {{ endpoints: [ {{ url: \"http://{}/\" }} ] }}, {more} }}\n",
            agent.address
        )
    });
    format!(
        r#"
public_url: https://gateway.example
listeners: [ {{ name: public, address: "127.0.0.1:0" }} ]
admin: {{ address: "127.0.0.1:0" }}
state: {{ store: memory }}
log: {{ format: json }}
security_schemes:
  key: {{ type: apiKey, in: header, name: X-API-Key, keys: [ {{ id: tester, hash: "{KEY_HASH}" }} ] }}
security: [ {{ key: [] }} ]
{top}
agents:
{}"#,
        agents.collect::<String>()
    )
}

pub async fn ask(gateway: &Gateway, path: &str, key: &str) -> Answer {
    let fields: &[(&str, &str)] = if key.is_empty() { &[] } else { &[("x-api-key", key)] };
    call(gateway.address, "GET", path, fields, "").await
}

/// The names of the agents of a page.
pub fn names(answer: &Answer) -> Vec<String> {
    assert_eq!(answer.status, 200, "{}", answer.text());
    let list = answer.json();
    let names = list["agents"].as_array().expect("agents").iter();
    names.map(|agent| agent["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn without_the_section_there_is_no_list() {
    let agent = named("a", "").await;
    let gateway = start(&[("a", &agent, "")], "").await;
    for path in [API, AI, LIST] {
        assert_eq!(get(gateway.address, path).await.status, 404, "{path}");
    }
}

/// RFC 9727 §2, §4.2; RFC 9264 §4.2; RFC 8631.
#[tokio::test]
async fn the_api_catalogue_links_to_what_each_public_agent_publishes() {
    let upstream = named("Upstream", "").await;
    let maps = named("Maps", "\"documentationUrl\":\"https://docs.example/maps\",").await;
    let own = format!("\"documentationUrl\":\"http://{}/docs\",", upstream.address);
    let search = named("Search", &own).await;
    search.set_card(&CARD.replace("\"name\":\"Fake\",", &format!("\"name\":\"Search\",{own}")));
    let hidden = named("Hidden", "").await;
    let gateway = start(
        &[
            ("search", &upstream, "host: search.example, security: []"),
            ("maps", &maps, ""),
            ("inner", &hidden, "listed: callers"),
            ("secret", &search, "listed: never"),
        ],
        "catalogue: {}",
    )
    .await;
    let got = get(gateway.address, API).await;
    assert_eq!(
        (got.status, got.header("content-type")),
        (
            200,
            Some("application/linkset+json; profile=\"https://www.rfc-editor.org/info/rfc9727\"")
        )
    );
    assert_eq!(got.header("cache-control"), Some("public, max-age=300"));
    assert_eq!(
        got.json(),
        json!({ "linkset": [
            {
                "anchor": "https://gateway.example/maps",
                "service-desc": [ {
                    "href": "https://gateway.example/maps/.well-known/agent-card.json",
                    "type": "application/json",
                    "title": "Maps",
                } ],
                "service-doc": [ { "href": "https://docs.example/maps" } ],
            },
            {
                "anchor": "https://search.example/",
                "service-desc": [ {
                    "href": "https://search.example/.well-known/agent-card.json",
                    "type": "application/json",
                    "title": "Upstream",
                } ],
            },
        ] })
    );
    let link = "<https://gateway.example/.well-known/api-catalog>; rel=\"api-catalog\"";
    let head = call(gateway.address, "HEAD", API, &[], "").await;
    assert_eq!(
        (head.status, head.header("link"), head.body.len()),
        (200, Some(link), 0)
    );
    assert_eq!(head.header("content-length"), Some(got.body.len().to_string().as_str()));
    let etag = got.header("etag").unwrap().to_owned();
    let known = call(gateway.address, "GET", API, &[("if-none-match", &etag)], "").await;
    assert_eq!((known.status, known.header("link")), (304, Some(link)));
    let posted = call(gateway.address, "POST", API, &[], "{}").await;
    assert_eq!((posted.status, posted.header("allow")), (405, Some("GET, HEAD")));
}

/// RFC 9728: where callers read how to get a token.
#[tokio::test]
async fn the_api_catalogue_links_to_metadata_where_tokens_are_asked_for() {
    let agent = named("Maps", "").await;
    let schemes = "catalogue: {}";
    let yaml = yaml(&[("maps", &agent, "")], schemes)
        .replace(
            "security_schemes:\n",
            "security_schemes:\n  corp: { type: http, scheme: bearer, issuer: \"https://idp.example\", audience: [ a2a ], jwks_file: keys.json }\n",
        )
        .replace("security: [ { key: [] } ]", "security: [ { corp: [] } ]");
    let folder = tempfile::tempdir().unwrap();
    // RFC 7517 A.1.
    let key = json!({ "kty": "EC", "crv": "P-256", "kid": "1", "alg": "ES256",
        "x": "MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4", "y": "4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM" });
    std::fs::write(folder.path().join("keys.json"), json!({ "keys": [key] }).to_string()).unwrap();
    let gateway = Gateway::start_in(&yaml, folder.path()).await;
    gateway.ready().await;
    let list = get(gateway.address, API).await.json();
    let meta = &list["linkset"][0]["service-meta"][0];
    assert_eq!(meta["type"], "application/json", "{list}");
    let url = meta["href"].as_str().unwrap();
    let path = url.strip_prefix("https://gateway.example").unwrap();
    assert_eq!(
        get(gateway.address, path).await.json()["resource"],
        "https://gateway.example/maps"
    );
}

#[tokio::test]
async fn the_ai_catalog_has_an_entry_for_each_public_card() {
    let card = CARD.replace(
        "\"skills\":[]",
        r#""skills":[{"id":"a","name":"A","description":"d","tags":["x","y"]},{"id":"b","name":"B","description":"d","tags":["y"]}]"#,
    );
    let (maps, inner) = (with_card(&card).await, named("Inner", "").await);
    let agents = [("maps", &maps, ""), ("inner", &inner, "listed: callers")];
    let gateway = start(&agents, "catalogue: { max_age: 1m }").await;
    let got = get(gateway.address, AI).await;
    assert_eq!(got.header("content-type"), Some("application/ai-catalog+json"));
    assert_eq!(got.header("cache-control"), Some("public, max-age=60"));
    assert_eq!(
        got.json(),
        json!({
            "specVersion": "1.0",
            "host": { "displayName": "gateway.example", "identifier": "gateway.example" },
            "entries": [ {
                "identifier": "urn:air:gateway.example:a2a:maps",
                "displayName": "Fake",
                "type": "application/a2a-agent-card+json",
                "url": "https://gateway.example/maps/.well-known/agent-card.json",
                "description": "d",
                "tags": [ "x", "y" ],
                "version": "1",
            } ],
        })
    );
}

#[tokio::test]
async fn an_entry_says_what_the_published_card_says_and_nothing_of_the_agents_servers() {
    let card = CARD
        .replace(
            "\"name\":\"Fake\",",
            r#""name":"<b>Maps</b>","x-internal":"http://agent.internal/x","provider":{"organization":"Example","url":"https://example.com","note":"http://agent.internal/y"},"iconUrl":"http://agent.internal/icon","documentationUrl":"https://docs.example/maps","#,
        )
        .replace(
            "\"skills\":[]",
            r#""skills":[{"id":"route","name":"Routes","description":"From here to there","tags":["maps"],"inputModes":["application/json"]}]"#,
        );
    let agent = with_card(&card).await;
    let gateway = start(&[("maps", &agent, "")], "catalogue: {}").await;
    let got = get(gateway.address, LIST).await;
    assert_eq!(got.header("content-type"), Some("application/json"));
    assert_eq!(
        got.json(),
        json!({ "agents": [ {
            "name": "<b>Maps</b>",
            "description": "d",
            "url": "https://gateway.example/maps",
            "cardUrl": "https://gateway.example/maps/.well-known/agent-card.json",
            "version": "1",
            "documentationUrl": "https://docs.example/maps",
            "provider": { "organization": "Example", "url": "https://example.com" },
            "protocolVersions": [ "0.3", "1.0" ],
            "protocolBindings": [ "JSONRPC", "HTTP+JSON" ],
            "capabilities": { "streaming": true, "pushNotifications": true, "extendedAgentCard": true },
            "defaultInputModes": [ "text/plain" ],
            "defaultOutputModes": [ "text/plain" ],
            "skills": [ {
                "id": "route",
                "name": "Routes",
                "description": "From here to there",
                "tags": [ "maps" ],
                "inputModes": [ "application/json" ],
            } ],
            "credentialRequired": true,
            "securitySchemes": [ "key" ],
        } ] })
    );
    for path in [API, AI, LIST] {
        let text = get(gateway.address, path).await.text();
        assert!(
            !text.contains("agent.internal") && !text.contains("127.0.0.1"),
            "{text}"
        );
    }
}

#[tokio::test]
async fn the_lists_follow_cards_and_leave_out_who_is_not_in_service() {
    let (a, b, c) = (named("A", "").await, named("B", "").await, named("C", "").await);
    b.set_card(&CARD.replace(
        "\"skills\":[]",
        r#""skills":[],"securityRequirements":[{"schemes":{"unknown":{}}}],"security":"broken""#,
    ));
    c.hide_card();
    let quick = "card: { refresh: 100ms }";
    let agents = [("a", &a, quick), ("b", &b, quick), ("c", &c, quick)];
    let yaml = yaml(&agents, "catalogue: {}").replace("security: [ { key: [] } ]\n", "");
    a.set_card(&CARD.replace("\"name\":\"Fake\"", "\"name\":\"A\""));
    let gateway = Gateway::start(&yaml).await;
    gateway.ready().await;
    assert_eq!(names(&get(gateway.address, LIST).await), ["A"]);
    let first = get(gateway.address, AI).await;
    a.set_card(&CARD.replace("\"name\":\"Fake\"", "\"name\":\"Other\""));
    c.set_card(&CARD.replace("\"name\":\"Fake\"", "\"name\":\"C\""));
    eventually("the lists have the new cards", || async {
        names(&get(gateway.address, LIST).await) == ["C", "Other"]
    })
    .await;
    let second = get(gateway.address, AI).await;
    assert_ne!(first.header("etag"), second.header("etag"));
    assert!(second.text().contains("Other") && get(gateway.address, API).await.text().contains("Other"));
    // Fetched again and the same.
    let cards = a.cards();
    eventually("the card is fetched again", || async { a.cards() > cards + 2 }).await;
    assert_eq!(get(gateway.address, AI).await.header("etag"), second.header("etag"));
}

#[tokio::test]
async fn the_public_list_may_be_kept_and_asked_about_again() {
    let (a, b) = (named("A", "").await, named("B", "").await);
    let agents = [("a", &a, ""), ("b", &b, "")];
    let gateway = start(&agents, "catalogue: { path: /list, page_size: 1 }").await;
    assert_eq!(get(gateway.address, LIST).await.status, 404);
    let got = get(gateway.address, "/list").await;
    assert_eq!(names(&got), ["A"]);
    assert_eq!(got.header("cache-control"), Some("public, max-age=300"));
    assert_eq!(got.header("vary"), Some("X-API-Key"), "others see something else");
    let etag = got.header("etag").unwrap().to_owned();
    let known = call(gateway.address, "GET", "/list", &[("if-none-match", &etag)], "").await;
    assert_eq!(
        (known.status, known.body.len()),
        (304, 0),
        "a page with more behind it, too"
    );
    let other = call(gateway.address, "GET", "/list?q=b", &[("if-none-match", &etag)], "").await;
    assert_eq!(names(&other), ["B"]);
    let head = call(gateway.address, "HEAD", "/list", &[], "").await;
    assert_eq!((head.status, head.body.len()), (200, 0));
    assert_eq!(head.header("content-length"), Some(got.body.len().to_string().as_str()));
    let posted = call(gateway.address, "POST", "/list", &[("x-api-key", KEY)], "{}").await;
    assert_eq!((posted.status, posted.header("allow")), (405, Some("GET, HEAD")));
    let records = gateway.access(6).await;
    let served = records.iter().filter(|record| record["outcome"] == "served").count();
    assert_eq!(served, 4, "{records:?}");
}

fn skilled(name: &str, skills: &Value) -> String {
    let card = CARD.replace("\"name\":\"Fake\"", &format!("\"name\":\"{name}\""));
    card.replace("\"skills\":[]", &format!("\"skills\":{skills}"))
}

#[tokio::test]
async fn agents_are_found_by_skill_tag_mode_and_text() {
    let maps = json!([
        { "id": "route", "name": "Straßen", "description": "d", "tags": ["Maps", "c++"], "outputModes": ["image/svg+xml"] },
        { "id": "poi", "name": "Places", "description": "needle", "tags": [] },
    ]);
    let mail = json!([{ "id": "send", "name": "Send", "description": "d", "tags": ["two words"] }]);
    let (maps, mail) = (
        with_card(&skilled("Maps", &maps)).await,
        with_card(&skilled("Mail", &mail)).await,
    );
    let gateway = start(&[("maps", &maps, ""), ("mail", &mail, "")], "catalogue: {}").await;
    for (query, expected) in [
        ("", &["Mail", "Maps"][..]),
        ("skill=route", &["Maps"]),
        ("skill=Route", &[]),
        ("skill=none", &[]),
        ("tag=Maps", &["Maps"]),
        ("tag=maps", &[]),
        ("tag=c%2B%2B", &["Maps"]),
        ("tag=two+words", &["Mail"]),
        ("tag=two%20words", &["Mail"]),
        ("mode=text/plain", &["Mail", "Maps"]),
        ("mode=Image/SVG+xml", &["Maps"]),
        ("mode=image%2Fsvg%2Bxml;q=1", &["Maps"]),
        ("mode=image/png", &[]),
        ("q=MA", &["Mail", "Maps"]),
        ("q=STRA%C3%9FEN", &["Maps"]),
        ("q=two+w", &["Mail"]),
        ("q=needle", &[]),
        ("q=", &["Mail", "Maps"]),
        ("skill=route&tag=two+words", &[]),
        ("skill=route&tag=Maps&mode=text/plain&q=maps&other=x&other=y", &["Maps"]),
        ("api_key=secret", &["Mail", "Maps"]),
    ] {
        let got = get(gateway.address, &format!("{LIST}?{query}")).await;
        assert_eq!(names(&got), expected, "{query}");
    }
}

#[tokio::test]
async fn a_bad_parameter_is_told() {
    let agent = named("A", "").await;
    let gateway = start(&[("a", &agent, "")], "catalogue: {}").await;
    for (query, expected) in [
        ("page_size=0", "page_size must be a number from 1"),
        ("page_size=-1", "page_size must be a number from 1"),
        ("page_size=ten", "page_size must be a number from 1"),
        ("page_size=99999999999999999999999", "page_size must be a number from 1"),
        ("q=a&q=b", "a parameter is given twice"),
        ("tag=%ff", "a parameter is no UTF-8"),
        ("mode=text", "mode must be a media type, as in text/plain"),
        ("mode=text/*", "mode must be a media type, as in text/plain"),
        (
            "page_token=x",
            "page_token is none of this gateway's for this caller and question",
        ),
    ] {
        for key in ["", KEY] {
            let got = ask(&gateway, &format!("{LIST}?{query}"), key).await;
            let error = &got.json()["error"];
            assert_eq!(
                (got.status, &error["status"]),
                (400, &json!("INVALID_ARGUMENT")),
                "{query}"
            );
            assert_eq!(error["message"], format!("Invalid parameters: {expected}"), "{query}");
        }
    }
}

#[tokio::test]
async fn pages_come_in_the_order_of_names() {
    // Of one name too: their addresses decide.
    let mut agents = Vec::new();
    for name in ["b", "A", "c", "c", "B2", "\u{e9}"] {
        agents.push(named(name, "").await);
    }
    let paths = ["p0", "p1", "p2", "p3", "p4", "p5"];
    let entries: Vec<_> = paths
        .iter()
        .zip(&agents)
        .map(|(path, agent)| (*path, agent, ""))
        .collect();
    let gateway = start(&entries, "catalogue: { page_size: 2, max_page_size: 4 }").await;
    let all = ["A", "b", "B2", "c", "c", "\u{e9}"];
    for key in ["", KEY] {
        for (size, pages) in [("", 3), ("page_size=1&", 6), ("page_size=4&", 2), ("page_size=100&", 2)] {
            let (mut seen, mut urls, mut token, mut count) = (Vec::new(), Vec::new(), String::new(), 0);
            loop {
                let page = ask(&gateway, &format!("{LIST}?{size}page_token={token}"), key).await;
                seen.extend(names(&page));
                let page = page.json();
                urls.extend(
                    page["agents"]
                        .as_array()
                        .unwrap()
                        .iter()
                        .map(|agent| agent["url"].to_string()),
                );
                count += 1;
                match page["nextPageToken"].as_str() {
                    Some(next) => next.clone_into(&mut token),
                    None => break,
                }
            }
            assert_eq!((seen, count), (all.map(str::to_owned).to_vec(), pages), "{size}");
            urls.sort();
            urls.dedup();
            assert_eq!(urls.len(), 6, "each once");
        }
    }
    let token = |answer: &Answer| answer.json()["nextPageToken"].as_str().unwrap().to_owned();
    let public = token(&get(gateway.address, LIST).await);
    let own = token(&ask(&gateway, LIST, KEY).await);
    let filtered = token(&get(gateway.address, &format!("{LIST}?mode=text/plain")).await);
    for (token, key, query) in [
        (&own, "", ""),
        (&public, KEY, ""),
        (&public, "", "q=c&"),
        (&filtered, "", ""),
        (&format!("{public}A"), "", ""),
    ] {
        let got = ask(&gateway, &format!("{LIST}?{query}page_token={token}"), key).await;
        assert_eq!(got.status, 400, "{query}{token}");
    }
    let sized = get(gateway.address, &format!("{LIST}?page_token={public}&page_size=1")).await;
    assert_eq!(names(&sized), ["B2"], "another size is the same question");
}

#[tokio::test]
async fn pages_of_browsers_may_read_what_is_public() {
    const PAGE: &str = "https://console.example";
    let agent = named("A", "").await;
    let cors = format!("catalogue: {{}}\ncors: {{ origins: [ \"{PAGE}\" ] }}");
    let gateway = start(&[("a", &agent, "")], &cors).await;
    for path in [API, AI, LIST] {
        let got = call(gateway.address, "GET", path, &[("origin", PAGE)], "").await;
        assert_eq!(got.header("access-control-allow-origin"), Some(PAGE), "{path}");
        let asks = [("origin", PAGE), ("access-control-request-method", "GET")];
        let asked = call(gateway.address, "OPTIONS", path, &asks, "").await;
        assert_eq!(
            (asked.status, asked.header("access-control-allow-origin")),
            (204, Some(PAGE))
        );
    }
    let fields = [("origin", PAGE), ("x-api-key", KEY)];
    let private = call(gateway.address, "GET", LIST, &fields, "").await;
    assert_eq!(
        (private.status, private.header("access-control-allow-origin")),
        (200, None)
    );
}

#[tokio::test]
async fn a_reload_opens_changes_and_closes_the_lists() {
    let agent = named("A", "").await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gateway.yaml");
    let write = |top: &str, more: &str| {
        let next = folder.path().join("next");
        std::fs::write(&next, yaml(&[("a", &agent, more)], top)).unwrap();
        std::fs::rename(next, &path).unwrap();
    };
    write("", "");
    let gateway = Gateway::from_file(&path).await;
    gateway.ready().await;
    let reload = async |top: &str, more: &str| {
        write(top, more);
        assert!(gateway.reload().await, "{top}");
    };
    assert_eq!(get(gateway.address, LIST).await.status, 404);
    reload("catalogue: { rate: 3/h }", "").await;
    assert_eq!(names(&get(gateway.address, LIST).await), ["A"]);
    reload("catalogue: { rate: 3/h }", "listed: callers").await;
    assert!(names(&get(gateway.address, LIST).await).is_empty());
    assert_eq!(get(gateway.address, AI).await.json()["entries"], json!([]));
    assert_eq!(names(&ask(&gateway, LIST, KEY).await), ["A"]);
    reload("catalogue: { rate: 3/h, path: /list }", "listed: callers").await;
    assert_eq!(get(gateway.address, LIST).await.status, 404);
    assert_eq!(
        get(gateway.address, "/list").await.status,
        429,
        "what is spent stays spent"
    );
    reload("catalogue: { rate: 4/h, path: /list }", "").await;
    assert_eq!(names(&get(gateway.address, "/list").await), ["A"]);
    reload("", "").await;
    for path in [API, AI, "/list"] {
        assert_eq!(get(gateway.address, path).await.status, 404, "{path}");
    }
}

#[tokio::test]
async fn operators_see_every_agent_and_why_one_is_not_listed() {
    let (good, bad, away) = (named("Good", "").await, named("Bad", "").await, named("Away", "").await);
    let broken = r#""security":"broken","skills":[]"#;
    bad.set_card(&CARD.replace("\"skills\":[]", broken));
    away.hide_card();
    let agents = [("good", &good, "listed: never"), ("bad", &bad, ""), ("away", &away, "")];
    let yaml = yaml(&agents, "catalogue: {}").replace("security: [ { key: [] } ]\n", "");
    let gateway = Gateway::start(&yaml).await;
    gateway.ready().await;
    let list = get(gateway.admin, "/agents").await;
    assert_eq!(list.status, 200);
    let list = list.json();
    let of = |name: &str| {
        list["agents"]
            .as_array()
            .unwrap()
            .iter()
            .find(|agent| agent["agent"] == name)
            .unwrap()
            .clone()
    };
    assert_eq!(
        (&of("good")["state"], &of("good")["listed"]),
        (&json!("ready"), &json!("never"))
    );
    assert_eq!(of("good")["entry"]["name"], "Good");
    assert_eq!(of("bad")["state"], "out of service");
    assert!(of("bad")["cause"].as_str().unwrap().contains("security"), "{list}");
    assert_eq!(
        (&of("away")["state"], of("away").get("entry")),
        (&json!("not ready"), None)
    );
}

/// A name is its agent's word, however long: those behind it in the list are found all the same.
#[tokio::test]
async fn a_long_name_hides_nobody_on_later_pages() {
    let long = "a".repeat(30_000);
    let (first, second) = (named(&long, "").await, named("b", "").await);
    let gateway = start(&[("a", &first, ""), ("b", &second, "")], "catalogue: { page_size: 1 }").await;
    for key in ["", KEY] {
        let page = ask(&gateway, LIST, key).await;
        assert_eq!(names(&page), [&*long]);
        let token = page.json()["nextPageToken"].as_str().unwrap().to_owned();
        let next = ask(&gateway, &format!("{LIST}?page_token={token}"), key).await;
        assert_eq!(names(&next), ["b"]);
    }
}

/// What one page holds in memory is bounded by bytes too, whatever cards say.
#[tokio::test]
async fn a_page_of_long_entries_ends_early() {
    let long = "d".repeat(900 * 1024);
    let card = CARD.replace("\"description\":\"d\"", &format!("\"description\":\"{long}\""));
    assert!(card.len() > long.len());
    let agent = with_card(&card).await;
    let entries = ["a", "b", "c", "d", "e", "f"].map(|name| (name, &agent, ""));
    let gateway = start(&entries, "catalogue: {}").await;
    for key in ["", KEY] {
        let page = ask(&gateway, LIST, key).await;
        assert_eq!(names(&page).len(), 5);
        let token = page.json()["nextPageToken"].as_str().unwrap().to_owned();
        let next = ask(&gateway, &format!("{LIST}?page_token={token}"), key).await;
        assert_eq!((names(&next).len(), next.json().get("nextPageToken")), (1, None));
    }
}

/// This gateway has one thread: while rules are asked about a thousand skills, others are served.
#[tokio::test]
async fn nobody_waits_for_a_list_of_many_skills() {
    let skills = (0..100).map(|n| json!({ "id": format!("s{n}"), "name": "n", "description": "d", "tags": [] }));
    let agent = with_card(&skilled("A", &skills.collect())).await;
    let rules = ["{ when: \"principal.id == 'nobody' && message.metadata.x == 'y'\" }"; 10].join(", ");
    let more = format!("policy: {{ skill: \"https://example.com/skill/v1\", allow: [ {rules} ] }}");
    let paths: Vec<String> = (0..20).map(|n| format!("a{n}")).collect();
    let entries: Vec<_> = paths.iter().map(|path| (&**path, &agent, &*more)).collect();
    let gateway = start(&entries, "catalogue: {}").await;
    let asking = ask(&gateway, LIST, KEY);
    tokio::pin!(asking);
    let mut others = 0;
    let list = loop {
        tokio::select! {
            list = &mut asking => break list,
            card = get(gateway.address, "/a0/.well-known/agent-card.json") => {
                assert_eq!(card.status, 200);
                others += 1;
            }
        }
    };
    assert!(names(&list).is_empty());
    assert!(others > 3, "{others} were served meanwhile");
}
