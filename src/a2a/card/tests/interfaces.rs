//! Where cards say that their agent can be called, and what of it is taken.

use super::*;

#[test]
fn interfaces_are_read_from_both_forms() {
    fn check(card: Value, expected: &[(Generation, &str, Option<&str>)]) {
        let read = origin(&card);
        let found: Vec<_> = read
            .interfaces
            .iter()
            .map(|interface| {
                (
                    interface.generation,
                    interface.url.as_str(),
                    interface.tenant.as_deref(),
                )
            })
            .collect();
        assert_eq!(found, expected, "{card}");
    }
    use Generation::{V0_1, V0_3, V1_0};

    check(json!({}), &[]);
    check(json!({"url": "u"}), &[(V0_3, "u", None)]);
    check(json!({"url": "u", "protocolVersion": "0.3.0"}), &[(V0_3, "u", None)]);
    check(json!({"url": "u", "protocolVersion": "0.2.6"}), &[(V0_3, "u", None)]);
    check(json!({"url": "u", "protocolVersion": "1.0"}), &[(V1_0, "u", None)]);
    check(json!({"url": "u", "protocolVersion": "0.1.0"}), &[(V0_1, "u", None)]);
    check(json!({"url": "u", "protocolVersion": "0.1"}), &[(V0_1, "u", None)]);
    check(json!({"url": "u", "protocolVersion": "0.10"}), &[]);
    check(json!({"url": "u", "protocolVersion": "2.0"}), &[]);
    // Only 0.1 has it, unless there is more that 0.1 has not.
    let of_0_1 = json!({"url": "u", "authentication": {"schemes": ["Bearer"]}});
    check(of_0_1.clone(), &[(V0_1, "u", None)]);
    for (later, value) in [
        ("preferredTransport", json!("JSONRPC")),
        ("additionalInterfaces", json!([])),
        ("securitySchemes", json!({})),
        ("security", json!([])),
    ] {
        let mut card = of_0_1.clone();
        card[later] = value;
        check(card, &[]);
    }
    check(json!({"authentication": {"schemes": ["Bearer"]}}), &[]);
    let newer = json!([{"url": "a", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}]);
    for mut card in [of_0_1, json!({"url": "u", "protocolVersion": "0.1"})] {
        card["supportedInterfaces"] = newer.clone();
        check(card, &[(V1_0, "a", None)]);
    }
    check(json!({"url": 7}), &[]);
    check(json!({"url": ""}), &[]);
    check(
        json!({"url": "u:1", "preferredTransport": "GRPC"}),
        &[(V0_3, "u:1", None)],
    );
    check(json!({"url": "u", "preferredTransport": "carrier-pigeon"}), &[]);
    check(
        json!({"url": "u", "preferredTransport": "GRPC", "additionalInterfaces": [
            7, {"url": "g", "transport": "GRPC"}, {"url": "j", "transport": "JSONRPC"}, {"url": "n"}]}),
        &[(V0_3, "u", None), (V0_3, "g", None), (V0_3, "j", None)],
    );
    check(
        json!({"url": "u", "additionalInterfaces": [{"url": "u", "transport": "JSONRPC"}]}),
        &[(V0_3, "u", None)],
    );
    check(
        json!({"supportedInterfaces": [
            {"url": "a", "protocolBinding": "GRPC", "protocolVersion": "1.0"},
            {"url": "b", "protocolBinding": "JSONRPC", "protocolVersion": "1.0", "tenant": "quay-7"},
            {"url": "c", "protocolBinding": "JSONRPC", "protocolVersion": "0.3", "tenant": ""},
            {"url": "d", "protocolBinding": "JSONRPC", "protocolVersion": "1.1"},
            {"url": "e", "protocolBinding": "JSONRPC"},
            {"protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
            "junk"]}),
        &[
            (V1_0, "a", None),
            (V1_0, "b", Some("quay-7")),
            (V0_3, "c", None),
            (V1_0, "e", None),
        ],
    );
    // Old drafts of 1.0 kept `url`; without a version it says nothing of 0.3.
    check(
        json!({"url": "u", "supportedInterfaces": [
            {"url": "a", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}]}),
        &[(V1_0, "a", None)],
    );
    // ProtoJSON readers take these for the lowerCamelCase names.
    check(
        json!({"supported_interfaces": [
            {"url": "a", "protocol_binding": "JSONRPC", "protocol_version": "1.0"}]}),
        &[(V1_0, "a", None)],
    );
}

#[test]
fn of_several_bindings_the_first_is_taken() {
    let check = |offered: &[&str], expected: Option<Binding>| {
        let interface = |binding| json!({"url": "u", "protocolBinding": binding, "protocolVersion": "1.0"});
        let card = json!({ "supportedInterfaces": offered.iter().map(interface).collect::<Vec<_>>() });
        assert_eq!(origin(&card).binding(), expected, "{offered:?}");
    };
    check(&["GRPC", "HTTP+JSON", "JSONRPC"], Some(Binding::JsonRpc));
    check(&["GRPC", "HTTP+JSON"], Some(Binding::HttpJson));
    check(&["x", "grpc"], Some(Binding::Grpc));
    check(&["x"], None);
}
