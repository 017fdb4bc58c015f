//! What is signed of a card: against RFC 8785, the recorded answers of the SDKs (`tests/interop/signatures.py --record`), and
//! the signed cards of the corpus.

use std::path::Path;

use super::super::canonical::{
    Reading, Style, covered, payloads, readings, resolved, sdk_0_3, sdk_1_0, standard, whole,
};
use super::*;

fn folder(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name)
}

fn members(value: Value) -> Map<String, Value> {
    let Value::Object(members) = value else {
        panic!("not an object: {value}")
    };
    members
}

fn jcs(text: &str) -> String {
    Style::Jcs.write(&members(serde_json::from_str(text).unwrap()))
}

fn python(text: &str) -> String {
    Style::Python.write(&members(serde_json::from_str(text).unwrap()))
}

#[test]
fn the_examples_of_rfc_8785() {
    // §3.2.2 and §3.2.3
    let example = r#"{
        "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
        "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
        "literals": [null, true, false]
    }"#;
    let expected = "{\"literals\":[null,true,false],\"numbers\":[333333333.3333333,1e+30,4.5,0.002,1e-27],\
                    \"string\":\"\u{20ac}$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\"}";
    assert_eq!(jcs(example), expected);
    let order = r#"{"\u20ac":"Euro Sign","\r":"Carriage Return","\ufb33":"Hebrew Letter Dalet With Dagesh","1":"One",
        "\ud83d\ude00":"Emoji: Grinning Face","\u0080":"Control","\u00f6":"Latin Small Letter O With Diaeresis"}"#;
    let expected = "{\"\\r\":\"Carriage Return\",\"1\":\"One\",\"\u{80}\":\"Control\",\"\u{f6}\":\"Latin Small Letter O With \
                    Diaeresis\",\"\u{20ac}\":\"Euro Sign\",\"\u{1f600}\":\"Emoji: Grinning Face\",\"\u{fb33}\":\"Hebrew Letter \
                    Dalet With Dagesh\"}";
    assert_eq!(jcs(order), expected);
}

#[test]
fn the_numbers_of_rfc_8785() {
    // Appendix B
    for (bits, expected) in [
        (0_u64, "0"),
        (0x8000_0000_0000_0000, "0"),
        (1, "5e-324"),
        (0x8000_0000_0000_0001, "-5e-324"),
        (0x7fef_ffff_ffff_ffff, "1.7976931348623157e+308"),
        (0xffef_ffff_ffff_ffff, "-1.7976931348623157e+308"),
        (0x4340_0000_0000_0000, "9007199254740992"),
        (0xc340_0000_0000_0000, "-9007199254740992"),
        (0x4430_0000_0000_0000, "295147905179352830000"),
        (0x44b5_2d02_c7e1_4af5, "9.999999999999997e+22"),
        (0x44b5_2d02_c7e1_4af6, "1e+23"),
        (0x44b5_2d02_c7e1_4af7, "1.0000000000000001e+23"),
        (0x444b_1ae4_d6e2_ef4e, "999999999999999700000"),
        (0x444b_1ae4_d6e2_ef4f, "999999999999999900000"),
        (0x444b_1ae4_d6e2_ef50, "1e+21"),
        (0x3eb0_c6f7_a0b5_ed8c, "9.999999999999997e-7"),
        (0x3eb0_c6f7_a0b5_ed8d, "0.000001"),
        (0x41b3_de43_5555_5553, "333333333.3333332"),
        (0x41b3_de43_5555_5557, "333333333.33333343"),
        (0xbecb_f647_612f_3696, "-0.0000033333333333333333"),
        (0x4314_3ff3_c1cb_0959, "1424953923781206.2"),
    ] {
        let text = jcs(&json!({ "n": f64::from_bits(bits) }).to_string());
        assert_eq!(text, format!("{{\"n\":{expected}}}"), "{bits:x}");
    }
    assert_eq!(
        jcs(r#"{"n":[10,-1,12345678901234567]}"#),
        r#"{"n":[10,-1,12345678901234568]}"#
    );
}

#[test]
fn texts_as_python_writes_them() {
    let written = python(r#"{"\ufb01":1,"\ud83d\ude00":"\u00e4\u007f\n","a":[1.0,1e16,0.0001,1e-5,1e100,-2.5,3]}"#);
    let expected =
        "{\"a\":[1.0,1e+16,0.0001,1e-05,1e+100,-2.5,3],\"\\ufb01\":1,\"\\ud83d\\ude00\":\"\\u00e4\\u007f\\n\"}";
    assert_eq!(written, expected);
}

/// By SDK; `null`: it cannot read that card.
#[test]
fn each_sdk_signs_what_it_reads() {
    let cards = folder("cards");
    let recorded = std::fs::read(cards.join("signing/canonical.json")).unwrap();
    let recorded: BTreeMap<String, BTreeMap<String, Option<String>>> = serde_json::from_slice(&recorded).unwrap();
    assert!(recorded.len() > 20, "all cards are looked at");
    let mut checked = 0;
    for (name, by_sdk) in &recorded {
        let card = serde_json::from_slice(&std::fs::read(cards.join(name)).unwrap()).unwrap();
        let card = members(card);
        for (sdk, expected) in by_sdk {
            let found = match sdk.as_str() {
                "javascript-1.x" => sdk_1_0(&card),
                "python-1.x" => sdk_1_0(&resolved(&card)),
                "python-0.3" => sdk_0_3(&card, Style::Python),
                other => panic!("{other}"),
            };
            if let Some(expected) = expected {
                assert_eq!(&found, expected, "{name} in {sdk}");
                checked += 1;
            }
        }
    }
    assert!(checked > 45, "{checked}");
}

fn signed(name: &str) -> OriginCard {
    read(&std::fs::read(folder("corpus/1.0/signing").join(name)).unwrap()).unwrap()
}

#[test]
fn the_signed_card_of_the_corpus() {
    let text = |name: &str| std::fs::read_to_string(folder("corpus/1.0/signing").join(name)).unwrap();
    let card = signed("card.signed.json");
    assert_eq!(sdk_1_0(&card.members), text("card.canonical-python.json").trim_end());
    assert_eq!(sdk_1_0(&card.members), text("card.canonical-js.json").trim_end());
    assert_eq!(
        standard(&card.members),
        text("card.canonical-spec-reading.json").trim_end()
    );
    let forms = payloads(&card.members, &[Generation::V1_0]);
    assert_eq!(forms, [standard(&card.members), sdk_1_0(&card.members)]);
    // Nothing in it that readers could disagree about: one payload.
    let mut plain = card.members.clone();
    plain.shift_remove("securityRequirements");
    plain.insert(
        "skills".to_owned(),
        json!([{ "id": "berth", "name": "Allot a berth", "description": "d", "tags": ["t"] }]),
    );
    assert_eq!(payloads(&plain, &[Generation::V1_0]).len(), 1);
    assert_eq!(payloads(&plain, &[Generation::V0_1]), [""; 0]);
}

#[test]
fn a_card_of_both_generations_has_a_payload_for_each_reader() {
    let card = std::fs::read(folder("cards/signing/hybrid.json")).unwrap();
    let card = members(serde_json::from_slice(&card).unwrap());
    let found = payloads(&card, &Generation::SPOKEN);
    assert_eq!(
        found,
        [
            standard(&card),
            sdk_1_0(&card),
            sdk_0_3(&card, Style::Python),
            whole(&card)
        ]
    );
}

#[test]
fn what_no_reading_looks_at_is_not_left() {
    let mut card = signed("card.signed.json");
    card.members
        .insert("url".to_owned(), json!("https://attacker.example/"));
    card.members.insert("protocolVersion".to_owned(), json!("0.3.0"));
    card.members.insert("x".to_owned(), json!(1));
    let card = read(Value::Object(card.members).to_string().as_bytes()).unwrap();
    assert_eq!(card.interfaces.len(), 2);
    let known = |reading| readings(&card).iter().any(|(known, _)| *known == reading);
    assert!(known(Reading::Whole) && known(Reading::Sdk(Generation::V0_3)));
    let left = covered(&card, &[Reading::Sdk(Generation::V1_0)]).unwrap();
    assert_eq!(left.interfaces.len(), 1);
    assert!(left.interfaces.iter().all(|one| one.generation == Generation::V1_0));
    assert!(!left.members.contains_key("x") && !left.members.contains_key("url"));
    assert_eq!(left.security, card.security);
    let both = covered(&card, &[Reading::Sdk(Generation::V1_0), Reading::Sdk(Generation::V0_3)]).unwrap();
    assert_eq!(both.interfaces.len(), 2);
    assert!(!both.members.contains_key("x"));
    assert_eq!(covered(&card, &[Reading::Whole]), Ok(card));
}
