//! Cards that no sane server prints: whatever they hold, nothing of the agent's whereabouts is published.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;

/// Stands in every address that a generated card holds, and nowhere else.
const HOST: &str = "upstream.internal";

fn address() -> impl Strategy<Value = Value> {
    (0..4_u8, 0..3_u8).prop_map(|(host, path)| json!(format!("http://a{host}.{HOST}:80/{path}")))
}

fn junk() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        Just(json!("")),
        address(),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        let name = select(vec!["url", "schemes", "list", "x", "URL"]);
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(Value::from),
            vec((name, inner), 0..3).prop_map(|members| Value::Object(
                members
                    .into_iter()
                    .map(|(name, value)| (name.to_owned(), value))
                    .collect()
            )),
        ]
    })
}

/// One of some texts, or junk.
fn text(texts: &'static [&'static str]) -> impl Strategy<Value = Value> {
    prop_oneof![8 => select(texts).prop_map(Value::from), 1 => junk()]
}

fn version() -> impl Strategy<Value = Value> {
    text(&["0.1", "0.2.6", "0.3", "0.3.0", "1.0", "1", "1.1", "2.0", ""])
}

fn binding() -> impl Strategy<Value = Value> {
    text(&[
        "JSONRPC",
        "jsonrpc",
        "GRPC",
        "HTTP+JSON",
        "https://bindings.example/own",
        "",
    ])
}

fn object(members: impl Strategy<Value = Vec<(&'static str, Option<Value>)>>) -> impl Strategy<Value = Value> {
    members.prop_map(|members| {
        Value::Object(
            members
                .into_iter()
                .filter_map(|(name, value)| Some((name.to_owned(), value?)))
                .collect(),
        )
    })
}

fn supported() -> impl Strategy<Value = Value> {
    let tenant = option::of(text(&["", "quay-7"]));
    let entry = (address(), binding(), option::of(version()), tenant);
    object(entry.prop_map(|(url, binding, version, tenant)| {
        vec![
            ("url", Some(url)),
            ("protocolBinding", Some(binding)),
            ("protocolVersion", version),
            ("tenant", tenant),
        ]
    }))
}

fn additional() -> impl Strategy<Value = Value> {
    object(
        (address(), option::of(binding()))
            .prop_map(|(url, transport)| vec![("url", Some(url)), ("transport", transport)]),
    )
}

fn list(entry: impl Strategy<Value = Value> + 'static) -> impl Strategy<Value = Value> {
    let entries = vec(prop_oneof![8 => entry, 1 => junk()], 0..4).prop_map(Value::from);
    prop_oneof![8 => entries, 1 => junk()]
}

fn flags() -> impl Strategy<Value = Value> {
    let flag = || option::of(prop_oneof![any::<bool>().prop_map(Value::from), Just(json!("true"))]);
    object((flag(), flag(), flag(), flag()).prop_map(|(a, b, c, d)| {
        vec![
            ("streaming", a),
            ("pushNotifications", b),
            ("extendedAgentCard", c),
            ("stateTransitionHistory", d),
        ]
    }))
}

fn requirement() -> impl Strategy<Value = Value> {
    select(vec![
        json!([]),
        json!([{}]),
        json!([{"bearer": []}]),
        json!([{"bearer": ["a"], "elsewhere": []}]),
        json!([{"schemes": {"bearer": {"list": ["a"]}}}]),
        json!([{"schemes": {"elsewhere": {}}}]),
        json!([{"bearer": 1}]),
        json!("junk"),
    ])
}

fn skill() -> impl Strategy<Value = Value> {
    let requirement = || option::of(requirement());
    let id = select(vec!["s", "t", "debug-1", "debug-2"]);
    object(
        (id, requirement(), requirement(), requirement()).prop_map(|(id, a, b, c)| {
            vec![
                ("id", Some(json!(id))),
                ("security", a),
                ("securityRequirements", b),
                ("security_requirements", c),
            ]
        }),
    )
}

/// Names that some reader takes for the place of an agent, and names that nobody knows.
fn member() -> impl Strategy<Value = (String, Value)> {
    let named =
        |name: &'static str, value: BoxedStrategy<Value>| value.prop_map(move |value| (name.to_owned(), value)).boxed();
    let scheme_map = || {
        let scheme = prop_oneof![Just(json!({"type": "http", "scheme": "bearer"})), junk()];
        vec(scheme, 0..2)
            .prop_map(|list| Value::Object(list.into_iter().map(|scheme| ("bearer".to_owned(), scheme)).collect()))
    };
    let stranger = select(vec![
        "url",
        "URL",
        "Url",
        "preferred_transport",
        "SupportedInterfaces",
        "\u{17f}ecurity",
        "additional_interfaces",
        "signatures",
        "authentication",
        "protocol_version",
    ]);
    prop_oneof![
        4 => named("url", address().boxed()),
        4 => named("protocolVersion", version().boxed()),
        2 => named("preferredTransport", binding().boxed()),
        4 => named("additionalInterfaces", list(additional()).boxed()),
        4 => named("supportedInterfaces", list(supported()).boxed()),
        2 => named("supported_interfaces", list(supported()).boxed()),
        2 => named("capabilities", flags().boxed()),
        2 => named("securitySchemes", scheme_map().boxed()),
        2 => named("security", requirement().boxed()),
        2 => named("securityRequirements", requirement().boxed()),
        2 => named("supportsAuthenticatedExtendedCard", any::<bool>().prop_map(Value::from).boxed()),
        2 => named("skills", list(skill()).boxed()),
        2 => named("name", Just(json!("Harbour")).boxed()),
        2 => named("x-unknown", Just(json!({"kept": [1, {"as": "is"}]})).boxed()),
        1 => (stranger.prop_map(str::to_owned), junk()),
    ]
}

/// As text, so that members may come twice.
fn card() -> impl Strategy<Value = String> {
    vec(member(), 0..10).prop_map(|members| {
        let members: Vec<_> = members
            .iter()
            .map(|(name, value)| format!("{}:{value}", Value::from(name.as_str())))
            .collect();
        format!("{{{}}}", members.join(","))
    })
}

fn input() -> impl Strategy<Value = Publication> {
    let served = select(vec![
        vec![],
        vec![Generation::V0_3],
        vec![Generation::V1_0],
        Generation::SPOKEN.to_vec(),
    ]);
    let enforced = select(vec![
        security(&[]),
        security(&[&[]]),
        security(&[&[("bearer", &[])], &[("unknown", &["a"])]]),
        publication().enforced,
    ]);
    let overrides = vec(member(), 0..2);
    (served, enforced, any::<[bool; 3]>(), overrides).prop_map(
        |(served, enforced, [streaming, push, extended], overrides)| Publication {
            served,
            enforced,
            streaming,
            push,
            extended,
            // The configuration's own values may name what they like where they may stand at all.
            edits: Edits {
                overrides: overrides
                    .into_iter()
                    .filter(|(name, value)| is_forbidden_override(name) || !value.to_string().contains(HOST))
                    .collect(),
                ..Edits::default()
            },
            ..publication()
        },
    )
}

/// Skills and capabilities are passed with their junk; addresses in them name nothing that a client would call.
fn outside_of_passed_members(card: &Value) -> String {
    let members = card.as_object().unwrap().iter();
    let governed = members.filter(|(name, _)| *name != "skills" && *name != "capabilities");
    Value::Object(governed.map(|(name, value)| (name.clone(), value.clone())).collect()).to_string()
}

/// Members of links, of which some lead to a server of the agent.
fn linked() -> impl Strategy<Value = (String, Value)> {
    let link = || prop_oneof![3 => address(), 1 => Just(json!("https://docs.example.com/a")), 1 => junk()];
    prop_oneof![
        4 => member(),
        1 => link().prop_map(|url| ("documentationUrl".to_owned(), url)),
        1 => link().prop_map(|url| ("icon_url".to_owned(), url)),
        1 => link().prop_map(|url| ("provider".to_owned(), json!({"organization": "o", "url": url}))),
    ]
}

/// Every text in it.
fn texts(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) => vec![text],
        Value::Array(list) => list.iter().flat_map(texts).collect(),
        Value::Object(members) => members.values().flat_map(texts).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => Vec::new(),
    }
}

/// The servers that a card says its agent can be called at.
fn named(card: &OriginCard) -> Vec<String> {
    let places = ["url", "additionalInterfaces", "supportedInterfaces"];
    let places = card
        .members
        .iter()
        .filter(|(name, _)| places.iter().any(|place| names::same(place, name)));
    let urls = places.flat_map(|(_, value)| match value.as_array() {
        Some(entries) => entries.iter().filter_map(|entry| entry.get("url")?.as_str()).collect(),
        None => value.as_str().into_iter().collect::<Vec<_>>(),
    });
    urls.filter_map(|url| Some(url.strip_prefix("http://")?.split('/').next()?.to_owned()))
        .collect()
}

/// The names of schemes that a card, or a skill of it, names anywhere.
fn schemes(value: &Value) -> Vec<String> {
    let Some(members) = value.as_object() else {
        return Vec::new();
    };
    let defined = members.get("securitySchemes").and_then(Value::as_object);
    let mut found: Vec<String> = defined.into_iter().flat_map(Map::keys).cloned().collect();
    let demanded = requirement::read(members).ok().flatten().unwrap_or_default();
    found.extend(demanded.alternatives.into_iter().flatten().map(|wanted| wanted.scheme));
    let skills = members.get("skills").and_then(Value::as_array);
    found.extend(skills.into_iter().flatten().flat_map(schemes));
    found
}

proptest! {
    #[test]
    fn no_form_of_a_card_names_the_agents_servers_foreign_schemes_or_hidden_skills(
        members in vec(linked(), 0..12),
        input in input(),
        by_version in any::<bool>(),
    ) {
        let members: Vec<_> = members.iter().map(|(name, value)| format!("{}:{value}", json!(name))).collect();
        let Ok(origin) = read(format!("{{{}}}", members.join(",")).as_bytes()) else {
            return Ok(());
        };
        let configured = format!("a0.{HOST}:80");
        let input = Publication {
            by_version,
            v0_1: true,
            upstream: vec![format!("http://{configured}/rpc")],
            edits: Edits {
                hidden_skills: vec![SkillPattern::new("debug-*")],
                ..Edits::default()
            },
            ..input
        };
        let answer = Bytes::from(Value::Object(origin.members.clone()).to_string());
        let mut forms = vec![publish(&origin, &input)];
        for generation in Generation::SPOKEN {
            let of = input.of(generation);
            forms.push(publish(&origin, &of));
            let extended = rewrite_extended_card(&answer, &of, showing(&|id| id != "t")).unwrap();
            let value: Value = serde_json::from_slice(&extended).unwrap();
            let skills = value["skills"].as_array().into_iter().flatten();
            prop_assert!(skills.filter_map(|skill| skill["id"].as_str()).all(|id| id == "s"), "{}", value);
            forms.push(PublishedCard { value, bytes: extended });
        }
        forms.extend(publish_v0_1(&forms[0], &input));
        let servers: Vec<String> = named(&origin).into_iter().chain([configured]).collect();
        let enforced: Vec<&String> = input.enforced.alternatives.iter().flatten().map(|wanted| &wanted.scheme).collect();
        for form in &forms {
            let members = form.value.as_object().unwrap().iter();
            let told = members.filter(|(name, _)| !["skills", "capabilities"].contains(&name.as_str()));
            for (name, value) in told.filter(|(name, _)| !name.starts_with("x-")) {
                let leak = texts(value).into_iter().find(|text| servers.iter().any(|server| text.contains(server)));
                prop_assert_eq!(leak, None, "{}: {}", name, form.value);
            }
            for scheme in schemes(&form.value) {
                prop_assert!(enforced.contains(&&scheme), "{}: {}", scheme, form.value);
            }
            let skills = form.value["skills"].as_array().into_iter().flatten();
            let mut ids = skills.filter_map(|skill| skill["id"].as_str());
            prop_assert!(ids.all(|id| !id.starts_with("debug-")), "{}", form.value);
        }
    }

    #[test]
    fn nothing_of_the_agents_place_is_published(card in card(), input in input()) {
        let Ok(origin) = read(card.as_bytes()) else {
            return Ok(());
        };
        let once = publish(&origin, &input);
        prop_assert!(!outside_of_passed_members(&once.value).contains(HOST), "{}", once.value);
        prop_assert_eq!(&serde_json::from_slice::<Value>(&once.bytes).unwrap(), &once.value);

        // The public card is one that the gateway itself accepts, with the requirement that is enforced.
        let again = read(&once.bytes).unwrap();
        prop_assert!(again.interfaces.iter().all(|interface| interface.url == PUBLIC));
        prop_assert!(again.generations(Binding::JsonRpc).iter().all(|generation| input.served.contains(generation)));
        prop_assert_eq!(again.generations(Binding::JsonRpc).is_empty(), input.served.is_empty());
        if !input.served.is_empty() {
            let demanded = again.security.clone().unwrap();
            prop_assert_eq!(demanded.alternatives.len(), input.enforced.alternatives.len());
            prop_assert_eq!(demanded.is_open(), input.enforced.is_open());
        }
        let (claimed, offered) = (again.capabilities, origin.capabilities);
        prop_assert!(!claimed.streaming || (offered.streaming && input.streaming));
        prop_assert!(!claimed.push || (offered.push && input.push));
        prop_assert!(!claimed.extended || (offered.extended && input.extended && !input.enforced.is_open()));
        prop_assert_eq!(&publish(&again, &input).bytes, &once.bytes);
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in vec(any::<u8>(), 0..200)) {
        if let Ok(origin) = read(&bytes) {
            publish(&origin, &publication());
        }
        let _refused = rewrite_extended_answer(&Bytes::from(bytes), &publication(), plain());
    }
}
