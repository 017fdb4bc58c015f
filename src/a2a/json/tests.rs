//! The strict JSON reader against the grammar of RFC 8259, each limit at its bound and one past it, and `serde_json` as the
//! second opinion on generated documents.

use proptest::prelude::*;
use serde_json::Value as Json;

use super::names::SMALL;
use super::*;

fn walk<const UNIQUE: bool>(body: &[u8], limits: Limits) -> Result<(), Error> {
    let mut cursor = Cursor::<UNIQUE>::new(body, limits)?;
    cursor.skip()?;
    cursor.finish()
}

fn check(body: impl AsRef<[u8]>, expected: Result<(), (ErrorKind, usize)>) {
    let body = body.as_ref();
    let shown = String::from_utf8_lossy(body.get(..80).unwrap_or(body)).into_owned();
    let expected = expected.map_err(|(kind, at)| Error { kind, at });
    assert_eq!(walk::<true>(body, Limits::default()), expected, "{shown}");
    let lenient = match expected {
        Err(Error {
            kind: ErrorKind::DuplicateName,
            ..
        }) => Ok(()),
        // Minded only where it is read.
        Err(Error {
            kind: ErrorKind::InvalidUtf8,
            ..
        }) => return,
        other => other,
    };
    assert_eq!(walk::<false>(body, Limits::default()), lenient, "{shown}");
}

fn refuse(body: impl AsRef<[u8]>, kind: ErrorKind, at: usize) {
    check(body, Err((kind, at)));
}

#[test]
fn documents_by_the_grammar_pass() {
    for body in [
        "{}",
        "[]",
        "null",
        "true",
        "false",
        "0",
        "-0",
        "\"\"",
        " \t\r\n{ \"a\" : [ 1 , -2.5e+10 , 0.1E-2 , true , false , null , \"x\" ] , \"b\" : { } } \n",
        r#""\"\\\/\b\f\n\r\t\u0000\u00e9\ud83d\ude00""#,
        "\"caf\u{e9} \u{1F6A2} \u{7f}\"",
        r#"{"a":{"a":{"a":1}},"b":[{"a":1},{"a":1}]}"#,
    ] {
        check(body, Ok(()));
    }
}

#[test]
fn broken_documents_are_refused_where_they_break() {
    use ErrorKind::{Syntax, TrailingData};
    for (body, kind, at) in [
        ("", Syntax, 0),
        ("  ", Syntax, 2),
        ("{", Syntax, 1),
        ("{\"a\"", Syntax, 4),
        ("{\"a\":", Syntax, 5),
        ("{\"a\":1", Syntax, 6),
        ("{\"a\":1,", Syntax, 7),
        ("{\"a\":1,}", Syntax, 7),
        ("{a:1}", Syntax, 1),
        ("{'a':1}", Syntax, 1),
        ("{\"a\" 1}", Syntax, 5),
        ("{,}", Syntax, 1),
        ("[1,]", Syntax, 3),
        ("[1 2]", Syntax, 3),
        ("[", Syntax, 1),
        ("]", Syntax, 0),
        ("tru", Syntax, 0),
        ("nul", Syntax, 0),
        ("NaN", Syntax, 0),
        ("Infinity", Syntax, 0),
        ("// x\n1", Syntax, 0),
        ("\"abc", Syntax, 4),
        ("\"a\nb\"", Syntax, 2),
        ("\"a\u{0}b\"", Syntax, 2),
        ("\"\\x\"", Syntax, 1),
        ("\"\\", Syntax, 1),
        ("\"\\u12", Syntax, 3),
        ("\"\\u12G4\"", Syntax, 3),
        ("\"\\u+123\"", Syntax, 3),
        ("-", Syntax, 1),
        ("+1", Syntax, 0),
        (".5", Syntax, 0),
        ("1.", Syntax, 2),
        ("1e", Syntax, 2),
        ("1e+", Syntax, 3),
        ("01", TrailingData, 1),
        ("-01", TrailingData, 2),
        ("0x10", TrailingData, 1),
        ("{} {}", TrailingData, 3),
        ("{}\u{0}", TrailingData, 2),
        ("truefalse", TrailingData, 4),
        ("\u{feff}{}", Syntax, 0),
        ("\u{a0}{}", Syntax, 0),
    ] {
        refuse(body, kind, at);
    }
}

#[test]
fn every_control_character_is_refused_at_every_offset() {
    for len in 0..200 {
        for control in 0..0x20_u8 {
            let mut body = vec![b'"'];
            body.resize(1 + len, b'x');
            body.push(control);
            body.extend_from_slice(b"yyyyyyyyyyyyyyyyyyyyyyyyyyy\"");
            refuse(body, ErrorKind::Syntax, 1 + len);
        }
    }
}

#[test]
fn strings_of_every_length_end_at_their_quote() {
    for len in 0..300 {
        for filler in ["x", "\u{e9}", "\\\"", "\\u0041"] {
            let body = format!("[\"{}\",1]", filler.repeat(len));
            let mut cursor = Strict::new(body.as_bytes(), Limits::default()).unwrap();
            let mut seen = Vec::new();
            cursor
                .array::<Error>(|cursor| {
                    seen.push(cursor.raw()?.len());
                    Ok(())
                })
                .unwrap();
            assert_eq!(seen, [filler.len() * len + 2, 1], "{len} of {filler}");
        }
    }
}

#[test]
fn invalid_utf8_is_refused_anywhere() {
    for (body, at) in [
        (&b"{\"a\":\"\xff\"}"[..], 6),
        (b"{\"\xc3\":1}", 2),
        (b"\"\xc0\xaf\"", 1),
        (b"\"\xed\xa0\x80\"", 1),
        (b"\"\xf4\x90\x80\x80\"", 1),
    ] {
        refuse(body, ErrorKind::InvalidUtf8, at);
        let read = Lenient::new(body, Limits::default()).unwrap().raw();
        assert_eq!(
            read.unwrap_err(),
            Error {
                kind: ErrorKind::InvalidUtf8,
                at
            }
        );
    }
    // Outside of strings it is no JSON before anything else.
    for (body, kind, at) in [
        (&b"{}\xff"[..], ErrorKind::TrailingData, 2),
        (b"\xff{}", ErrorKind::Syntax, 0),
        (b"{\"a\":\xc3\xa9}", ErrorKind::Syntax, 5),
    ] {
        refuse(body, kind, at);
    }
}

/// Every two bytes, and what of three and four the bounds of UTF-8 tell apart, wherever a block ends.
#[test]
fn strings_are_utf8_wherever_a_block_ends() {
    const EDGES: [u8; 26] = [
        0x20, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC1, 0xC2, 0xCF, 0xD0, 0xDF, 0xE0, 0xE1, 0xEC, 0xED,
        0xEE, 0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5, 0xFF,
    ];
    let same = |text: &[u8], before: usize, after: usize| {
        let filler = |len| std::iter::repeat_n(b'x', len);
        let mut body: Vec<u8> = std::iter::once(b'"').chain(filler(before)).collect();
        body.extend_from_slice(text);
        body.extend(filler(after));
        body.push(b'"');
        let expected = std::str::from_utf8(&body).map(|_| ()).map_err(|error| Error {
            kind: ErrorKind::InvalidUtf8,
            at: error.valid_up_to(),
        });
        assert_eq!(
            walk::<true>(&body, Limits::default()),
            expected,
            "{text:x?} after {before}, {after} behind"
        );
    };
    let pairs = (0x80..=0xFF_u8).flat_map(|first| (0x20..=0xFF).map(move |second| [first, second]));
    for pair in pairs.filter(|pair| pair[1] != b'"' && pair[1] != b'\\') {
        for before in [0, 61, 62, 63] {
            same(&pair, before, 3);
        }
    }
    let lasts = [0x20, 0x7F, 0x80, 0xBF, 0xC2];
    for (first, second) in EDGES.iter().flat_map(|&first| EDGES.map(|second| (first, second))) {
        for (third, fourth) in lasts.iter().flat_map(|&third| lasts.map(|fourth| (third, fourth))) {
            for before in [1, 60, 61, 62, 63] {
                same(&[first, second, third, fourth], before, 0);
            }
            same(&[first, second, third, fourth], 62, 70);
        }
    }
}

/// Of several strings, also those that begin in a block that was looked at before.
#[test]
fn every_string_is_utf8_after_others() {
    for len in 0..70 {
        for (text, is_text) in [
            ("\u{e9}", true),
            ("\u{20ac}", true),
            ("\u{1F6A2}", true),
            ("\u{e9}", false),
        ] {
            let bytes = text.as_bytes();
            let bytes = if is_text { bytes } else { &bytes[..1] };
            for tail in [0, 40, 100] {
                let mut body = format!("[\"{}\",\"", "\u{e9}".repeat(len)).into_bytes();
                let at = body.len();
                body.extend_from_slice(bytes);
                body.extend(std::iter::repeat_n(b'x', tail));
                body.extend_from_slice(b"\"]");
                let expected = if is_text {
                    Ok(())
                } else {
                    Err((ErrorKind::InvalidUtf8, at))
                };
                check(&body, expected);
            }
        }
    }
}

#[test]
fn half_surrogates_are_refused() {
    for (body, at) in [
        (r#""\ud800""#, 1),
        (r#""\udc00""#, 1),
        (r#""\udbffx""#, 1),
        (r#""\ud83d\n""#, 1),
        (r#""\ud83d\u0041""#, 1),
        (r#""\ud83d\ud83d\ude00""#, 1),
        (r#""\ude00\ud83d""#, 1),
        (r#"{"\ud800":1}"#, 2),
    ] {
        refuse(body, ErrorKind::Surrogate, at);
    }
}

#[test]
fn one_level_has_no_two_members_of_one_name() {
    for (body, at) in [
        (r#"{"a":1,"a":2}"#, 7),
        (r#"{"":1,"":2}"#, 6),
        (r#"{"a":1,"b":2,"\u0061":3}"#, 13),
        (r#"{"\u0061":1,"\u0061":2}"#, 12),
        (r#"{"\/":1,"/":2}"#, 8),
        (r#"[[{"x":{"a":1,"a":1}}]]"#, 14),
        (r#"{"é":1,"\u00e9":2}"#, 8),
        (r#"{"😀":1,"\uD83D\uDE00":2}"#, 10),
        (
            r#"{"a member of more than eight":1,"a member of more than eight":2}"#,
            33,
        ),
    ] {
        refuse(body, ErrorKind::DuplicateName, at);
    }
    check(
        r#"{"a":1,"A":1,"aa":1,"a ":1,"a\u0000":1,"":1,"abcdefgh":1,"abcdefgi":1,"abcdefg":1}"#,
        Ok(()),
    );
}

/// At sizes around the change of the method and of the table.
#[test]
fn large_levels_are_told_apart_too() {
    for count in (1..=70).chain([127, 128, 129, 1000]) {
        let members: Vec<String> = (0..count).map(|i| format!("\"member{i}\":{i}")).collect();
        check(format!("{{{}}}", members.join(",")), Ok(()));
        for repeated in [0, count / 2, count - 1] {
            let begin = format!("{{{},", members.join(","));
            for again in [format!("member{repeated}"), format!("m\\u0065mber{repeated}")] {
                refuse(format!("{begin}\"{again}\":0}}"), ErrorKind::DuplicateName, begin.len());
            }
        }
    }
    // Empty and escaped names survive the change.
    let members: Vec<String> = (0..SMALL).map(|i| format!("\"\\u00{:x}\":0", 0x41 + i)).collect();
    check(format!("{{\"\":0,{}}}", members.join(",")), Ok(()));
    let begin = format!("{{\"\":0,{},", members.join(","));
    for again in ["", "A", "P"] {
        refuse(format!("{begin}\"{again}\":0}}"), ErrorKind::DuplicateName, begin.len());
    }
}

#[test]
fn nesting_ends_at_its_limit() {
    let nested = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
    check(nested(128), Ok(()));
    refuse(nested(129), ErrorKind::TooDeep, 128);
    refuse("{\"a\":".repeat(129), ErrorKind::TooDeep, 128 * 5);
    // Ends without filling the stack, whatever the configuration says.
    let unlimited = Limits {
        depth: usize::MAX,
        digits: 308,
    };
    for (open, close, len) in [("[", "]", 1), ("{\"a\":[", "]}", 3)] {
        let levels = MAX_DEPTH / open.matches(['[', '{']).count();
        let body = open.repeat(levels) + &close.repeat(levels);
        assert_eq!(walk::<true>(body.as_bytes(), unlimited), Ok(()), "{len}");
        let error = walk::<true>(open.repeat(100_000).as_bytes(), unlimited).unwrap_err();
        assert_eq!(error.kind, ErrorKind::TooDeep);
    }
}

#[test]
fn a_number_has_so_many_digits() {
    check("1".repeat(308), Ok(()));
    check(format!("-{}", "1".repeat(308)), Ok(()));
    check(format!("0.{}e-{}", "1".repeat(300), "1".repeat(7)), Ok(()));
    refuse("1".repeat(309), ErrorKind::NumberTooLong, 0);
    refuse(
        format!("[0.{}e-{}]", "1".repeat(300), "1".repeat(8)),
        ErrorKind::NumberTooLong,
        1,
    );
}

#[test]
fn text_is_borrowed_unless_it_is_escaped() {
    let body = r#"["plain café","a\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00z"]"#;
    let mut texts = Vec::new();
    Strict::new(body.as_bytes(), Limits::default())
        .unwrap()
        .array::<Error>(|cursor| {
            texts.push(cursor.text()?.decode());
            Ok(())
        })
        .unwrap();
    assert!(matches!(texts[0], std::borrow::Cow::Borrowed("plain café")));
    assert_eq!(texts[1], "a\"\\/\u{8}\u{c}\n\r\té😀z");
}

#[test]
fn closures_get_the_members_and_raw_values() {
    let body = r#" {"skipped":{"id":9},"id" : [1, "x"] ,"text":"t","none":null,"n":1.5} "#;
    let mut cursor = Strict::new(body.as_bytes(), Limits::default()).unwrap();
    assert_eq!(cursor.kind(), Kind::Object);
    let mut seen = Vec::new();
    cursor
        .object::<Error>(|cursor, name| {
            let value = match name.raw() {
                b"id" => cursor.raw()?.to_owned(),
                _ => match cursor.value()? {
                    Value::Text(text) => text.decode().into_owned(),
                    Value::Null => "null".to_owned(),
                    Value::Other => "other".to_owned(),
                },
            };
            seen.push(format!("{}={value}", String::from_utf8_lossy(name.raw())));
            Ok(())
        })
        .unwrap();
    cursor.finish().unwrap();
    assert_eq!(
        seen,
        ["skipped=other", "id=[1, \"x\"]", "text=t", "none=null", "n=other"]
    );
}

#[test]
fn written_text_reads_back() {
    let text: String = (0..0x100)
        .filter_map(char::from_u32)
        .chain(['\u{2028}', '😀'])
        .collect();
    let mut out = Vec::new();
    write_text(&mut out, &text);
    assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), text);
    assert!(out.iter().all(|&byte| byte >= 0x20 && byte != 0x7F));
}

#[test]
fn messages_quote_nothing() {
    for kind in ErrorKind::ALL {
        let text = Error { kind, at: 7 }.to_string();
        assert!(text.ends_with("(byte 7)"), "{text}");
    }
}

/// Any document, printed by serde_json; its objects cannot have duplicates.
fn documents() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        any::<i64>().prop_map(Json::from),
        any::<f64>().prop_map(Json::from),
        ".*".prop_map(Json::from),
        "[a-z\"\\\\\u{0}-\u{1f}é😀]{0,100}".prop_map(Json::from),
    ];
    leaf.prop_recursive(5, 200, 24, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Json::from),
            prop::collection::vec(("[a-f]{0,3}|[a-zé\"\n]{0,12}", inner), 0..24)
                .prop_map(|members| Json::Object(members.into_iter().collect())),
        ]
    })
}

/// Adds a member again, under the name of one that is there, somewhere in the document.
fn repeat_a_member(document: &Json, out: &mut String, left: &mut usize) {
    match document {
        Json::Object(members) => {
            out.push('{');
            for (index, (name, value)) in members.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                out.push_str(&Json::from(name.as_str()).to_string());
                out.push(':');
                repeat_a_member(value, out, left);
            }
            if let Some(name) = members.keys().nth(*left % members.len().max(1)) {
                if *left < 8 {
                    out.push(',');
                    // Escaped, so that only the decoded names are equal.
                    out.push('"');
                    for unit in name.encode_utf16() {
                        out.push_str(&format!("\\u{unit:04x}"));
                    }
                    out.push_str("\":0");
                }
                *left = left.saturating_sub(8);
            }
            out.push('}');
        }
        Json::Array(elements) => {
            out.push('[');
            for (index, element) in elements.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                repeat_a_member(element, out, left);
            }
            out.push(']');
        }
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => {
            out.push_str(&document.to_string());
        }
    }
}

fn has_members(document: &Json) -> bool {
    match document {
        Json::Object(members) => !members.is_empty(),
        Json::Array(elements) => elements.iter().any(has_members),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => false,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn documents_without_duplicates_pass(document in documents(), pretty: bool) {
        let body = if pretty {
            serde_json::to_string_pretty(&document).unwrap()
        } else {
            document.to_string()
        };
        prop_assert_eq!(walk::<true>(body.as_bytes(), Limits::default()), Ok(()));
    }

    #[test]
    fn a_repeated_member_is_found_at_any_level(document in documents(), left in 0_usize..20) {
        prop_assume!(has_members(&document));
        let mut body = String::new();
        let mut left = left;
        repeat_a_member(&document, &mut body, &mut left);
        let unchanged = document.to_string();
        prop_assume!(body != unchanged);
        let error = walk::<true>(body.as_bytes(), Limits::default()).unwrap_err();
        prop_assert_eq!(error.kind, ErrorKind::DuplicateName);
        prop_assert_eq!(walk::<false>(body.as_bytes(), Limits::default()), Ok(()));
    }

    /// Wherever a value begins, a leap ends where a checking walk does.
    #[test]
    fn leaps_end_where_walks_end(document in documents(), pretty: bool, shift in 0_usize..130) {
        let text = if pretty { format!("{document:#}") } else { document.to_string() };
        let body = format!("[{}{text} ,{text},{{}}]]}}", " ".repeat(shift));
        let mut walk = Lenient::new(body.as_bytes(), Limits::default()).unwrap();
        walk.array(|cursor| {
            let start = cursor.at();
            cursor.skip()?;
            let mut leap = Lenient::new(&body.as_bytes()[start..], Limits::default()).unwrap();
            leap.leap()?;
            assert_eq!(start + leap.at(), cursor.at(), "{body}");
            Ok::<_, Error>(())
        }).unwrap();
        let cut = body.rfind("]]").unwrap();
        prop_assert_eq!(scan::leap(Level::new(), body.as_bytes(), 0).unwrap(), cut + 1);
        prop_assert_eq!(scan::leap(Level::new(), &body.as_bytes()[..cut], 0).unwrap_err().at, cut);
    }

    /// Old processors read as new ones do.
    #[test]
    fn every_level_of_vectors_reads_the_same(
        bytes in prop::collection::vec(prop::sample::select(b"\\\"u00d8abnz[]{}\x01 \xc3\xa9\xe2\x82\xac".to_vec()), 0..300),
    ) {
        let ends = |level| scan::Strings::<false>::new(level).end(&bytes, 0);
        prop_assert_eq!(ends(Level::baseline()), ends(Level::new()));
        let text = [b"\"", bytes.as_slice()].concat();
        let ends = |level| scan::Strings::<true>::new(level).end(&text, 1);
        prop_assert_eq!(ends(Level::baseline()), ends(Level::new()));
        let array = [b"[", bytes.as_slice()].concat();
        let leap = |level| scan::leap(level, &array, 0);
        prop_assert_eq!(leap(Level::baseline()), leap(Level::new()));
    }

    /// One byte replaced, removed or added: what passes is what serde_json takes, numbers out of its range excepted.
    #[test]
    fn damaged_documents_pass_as_they_do_elsewhere(
        document in documents(),
        at: prop::sample::Index,
        byte in prop_oneof![any::<u8>(), prop::sample::select(b"{}[]\",:\\0e.-u ".to_vec())],
        how in 0..3,
    ) {
        let mut body = document.to_string().into_bytes();
        let at = at.index(body.len());
        match how {
            0 => body[at] = byte,
            1 => drop(body.remove(at)),
            _ => body.insert(at, byte),
        }
        let theirs = serde_json::from_slice::<Json>(&body);
        let ours = walk::<false>(&body, Limits::default());
        let out_of_range = theirs.as_ref().is_err_and(|error| error.to_string().contains("out of range"));
        if !out_of_range {
            let is_text = std::str::from_utf8(&body).is_ok();
            prop_assert_eq!(ours.is_ok() && is_text, theirs.is_ok(), "{:?} {:?} {}", ours, theirs, String::from_utf8_lossy(&body));
        }
        if walk::<true>(&body, Limits::default()).is_ok() {
            prop_assert!(ours.is_ok());
        }
    }
}
