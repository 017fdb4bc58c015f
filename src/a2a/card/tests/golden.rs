//! Cards recorded from real servers, with what is published from them.

use std::path::PathBuf;

use super::*;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/cards")
}

fn file(name: &str) -> Vec<u8> {
    std::fs::read(folder().join(name)).unwrap()
}

fn check_text(name: &str, value: &Value) {
    let expected = String::from_utf8(file(&format!("{name}.published.json"))).unwrap();
    assert_eq!(format!("{value:#}\n"), expected, "{name}");
}

fn check(name: &str, generations: &[Generation], security: Security) {
    let bytes = file(&format!("{name}.json"));
    let card = read(&bytes).unwrap();
    assert_eq!(card.generations(Binding::JsonRpc), generations, "{name}");
    assert_eq!(card.security, Ok(security), "{name}");
    assert!(card.schemes.values().all(Option::is_some), "{name}");
    // What the agent itself speaks; of 0.1 everything is served.
    let of_0_1 = generations == [Generation::V0_1];
    let spoken = if of_0_1 { &Generation::SPOKEN } else { generations };
    let input = Publication {
        served: spoken.to_vec(),
        written: card.written(None),
        ..publication()
    };
    let published = publish(&card, &input);
    assert!(
        !published.value.to_string().contains("127.0.0.1"),
        "{name}: an address of the agent is published"
    );
    check_text(name, &published.value);
    let again = publish(&read(&published.bytes).unwrap(), &input);
    assert_eq!(again.bytes, published.bytes, "{name}: not idempotent");
}

fn harbour() -> Security {
    security(&[&[("bearer", &[])], &[("apiKey", &[]), ("oidc", &["openid"])]])
}

fn bearer() -> Security {
    security(&[&[("bearer", &[])]])
}

#[test]
fn python_0_1() {
    check(
        "0.1",
        &[Generation::V0_1],
        security(&[&[("Bearer", &[])], &[("ApiKey", &[])]]),
    );
}

#[test]
fn python_0_2() {
    check("0.2", &[Generation::V0_3], harbour());
}

#[test]
fn python_0_3() {
    check("0.3", &[Generation::V0_3], harbour());
}

#[test]
fn javascript_0_3_with_a_requirement_in_the_form_of_1_0() {
    check("0.3-js-requirement-of-1.0", &[Generation::V0_3], bearer());
}

#[test]
fn python_1_0() {
    check("1.0", &[Generation::V1_0], harbour());
}

#[test]
fn javascript_1_0() {
    check("1.0-js", &[Generation::V1_0], bearer());
}

#[test]
fn signed_1_0() {
    assert!(read(&file("1.0-signed.json")).unwrap().is_signed());
    assert!(!read(&file("1.0-js.json")).unwrap().is_signed());
    check("1.0-signed", &[Generation::V1_0], bearer());
}

#[test]
fn python_hybrid() {
    check("hybrid", &Generation::SPOKEN, harbour());
}

#[test]
fn javascript_hybrid() {
    check("hybrid-js", &Generation::SPOKEN, bearer());
}

#[test]
fn javascript_hybrid_asked_for_1_0() {
    check("hybrid-js-asked-for-1.0", &Generation::SPOKEN, bearer());
}

fn check_answer(name: &str, served: &[Generation]) {
    let bytes = Bytes::from(file(&format!("{name}.json")));
    let input = Publication {
        served: served.to_vec(),
        ..publication()
    };
    let rewritten = rewrite_extended_answer(&bytes, &input, plain()).unwrap();
    let value: Value = serde_json::from_slice(&rewritten).unwrap();
    assert!(!value.to_string().contains("127.0.0.1"), "{name}");
    check_text(name, &value);
}

#[test]
fn extended_card_0_3() {
    check_answer("answer-0.3", &[Generation::V0_3]);
}

#[test]
fn extended_card_1_0() {
    check_answer("answer-1.0", &[Generation::V1_0]);
}

#[test]
fn extended_card_0_3_of_a_python_hybrid() {
    check_answer("answer-hybrid", &[Generation::V0_3]);
}

#[test]
fn extended_card_0_3_of_a_javascript_hybrid() {
    check_answer("answer-hybrid-js-0.3", &[Generation::V0_3]);
}

#[test]
fn extended_card_refused() {
    let bytes = Bytes::from(file("answer-error.json"));
    assert_eq!(rewrite_extended_answer(&bytes, &publication(), plain()), Ok(bytes));
}
