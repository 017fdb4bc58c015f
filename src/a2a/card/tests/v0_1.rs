//! The card in the form of 0.1.

use super::*;

fn old(card: &Value, change: impl FnOnce(&mut Publication)) -> Option<Value> {
    let mut input = publication();
    change(&mut input);
    publish_v0_1(&publish(&origin(card), &input), &input).map(|published| {
        assert_eq!(published.bytes, published.value.to_string());
        published.value
    })
}

#[test]
fn it_has_the_members_of_0_1_alone() {
    let skill = json!({"id": "berth", "name": "Allot a berth", "description": "d", "tags": ["port"],
        "examples": ["e"], "inputModes": ["text/plain"], "outputModes": ["text/plain"]});
    let mut in_full = skill.clone();
    in_full["securityRequirements"] = json!([{"schemes": {"bearer": {}}}]);
    let card = json!({"name": "n", "description": "d", "version": "4.1.0", "iconUrl": "https://icons.example/a",
        "documentationUrl": "https://docs.example/", "provider": {"organization": "o", "url": "https://o.example"},
        "supportedInterfaces": [{"url": "http://10.0.0.9:9999/rpc", "protocolBinding": "JSONRPC",
            "protocolVersion": "1.0"}],
        "capabilities": {"streaming": true, "pushNotifications": true, "extendedAgentCard": true,
            "extensions": [{"uri": "u"}]},
        "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"], "skills": [in_full], "other": 1});
    let expected = json!({"name": "n", "description": "d", "version": "4.1.0",
        "documentationUrl": "https://docs.example/", "provider": {"organization": "o", "url": "https://o.example"},
        "url": PUBLIC, "capabilities": {"streaming": true, "pushNotifications": false},
        "authentication": {"schemes": ["Bearer"]},
        "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"], "skills": [skill]});
    assert_eq!(old(&card, |input| input.push = false), Some(expected));
}

#[test]
fn overrides_and_hidden_links_are_those_of_the_other_card() {
    let card = json!({"name": "n", "documentationUrl": "http://10.0.0.9:9999/docs"});
    let got = old(&card, |input| {
        input.edits.overrides.insert("name".to_owned(), "other".into());
    });
    let got = got.unwrap();
    assert_eq!((&got["name"], got.get("documentationUrl")), (&json!("other"), None));
}

#[test]
fn what_callers_must_show_is_said_by_name_or_not_at_all() {
    fn check(enforced: Alternatives<'_>, expected: Option<Option<Value>>) {
        let got = old(&json!({"name": "n"}), |input| {
            input.enforced = security(enforced);
            let other = SchemeFormKind::HttpOther {
                scheme: "Digest".to_owned(),
            };
            input.schemes.insert("other".to_owned(), scheme(other));
        });
        let got = got.map(|card| card.get("authentication").map(|it| it["schemes"].clone()));
        assert_eq!(got, expected, "{enforced:?}");
    }
    check(&[], Some(None));
    check(&[&[("bearer", &[])], &[]], Some(None));
    check(&[&[("bearer", &[])]], Some(Some(json!(["Bearer"]))));
    check(&[&[("other", &[])]], Some(Some(json!(["Digest"]))));
    check(
        &[
            &[("key", &[])],
            &[("berthOauth", &["berth.write"])],
            &[("bearer", &[])],
            &[("unused", &[])],
        ],
        Some(Some(json!(["ApiKey", "Bearer", "Basic"]))),
    );
    // Both at once, or a certificate: nothing that a name could say.
    check(
        &[&[("key", &[]), ("mtls", &[])], &[("bearer", &[])]],
        Some(Some(json!(["Bearer"]))),
    );
    check(&[&[("key", &[]), ("mtls", &[])]], None);
    check(&[&[("mtls", &[])]], None);
    check(&[&[("unknown", &[])]], None);
}

#[test]
fn it_reads_as_the_same_agent() {
    let card = json!({"name": "n", "capabilities": {"streaming": true}, "skills": [{"id": "s"}]});
    let got = old(&card, |input| input.push = false).unwrap();
    let read = origin(&got);
    assert_eq!(
        read.capabilities,
        Capabilities {
            streaming: true,
            ..Capabilities::default()
        }
    );
    assert_eq!(read.security, Ok(security(&[&[("Bearer", &[])]])));
    assert_eq!(read.generations(Binding::JsonRpc), [Generation::V0_1]);
}
