//! Instants, parameters and pages: tables, the recorded answers of real agents, and nothing that panics.

use proptest::prelude::*;

use super::*;
use crate::a2a::RpcId;
use crate::a2a::json::{Limits, Strict};

// Instants.

#[test]
fn instants_are_read_whatever_their_form() {
    let check = |text: &str, seconds: i64, fraction: u64| {
        assert_eq!(Stamp::parse(text), Some(Stamp { seconds, fraction }), "{text}");
    };
    check("1970-01-01T00:00:00Z", 0, 0);
    check("2026-11-21T04:18:32.893076Z", 1_795_234_712, 893_076_000_000_000_000);
    check("2026-11-21t04:18:32.5z", 1_795_234_712, 500_000_000_000_000_000);
    check("2026-11-21 06:18:32+02:00", 1_795_234_712, 0);
    check("2026-11-20T20:48:32-07:30", 1_795_234_712, 0);
    check("2000-02-29T23:59:60Z", 951_868_800, 0);
    check("1969-12-31T23:59:59.9Z", -1, 900_000_000_000_000_000);
    check(
        "2026-11-21T04:18:32.1234567890123456789Z",
        1_795_234_712,
        123_456_789_012_345_678,
    );
    check("0000-03-01T00:00:00Z", -62_162_035_200, 0);
}

#[test]
fn what_is_no_instant_is_none() {
    for text in [
        "",
        "now",
        "2026-11-21",
        "2026-11-21T04:18:32",
        "2026-11-21T04:18Z",
        "2026-11-21T04:18:32.Z",
        "2026-11-21T04:18:32+0200",
        "2026-11-21T04:18:32+24:00",
        "2026-11-21T04:18:32+02:60",
        "2026-11-21T04:18:32ZZ",
        "2026-11-21T24:00:00Z",
        "2026-11-21T04:60:00Z",
        "2026-11-21T04:18:61Z",
        "2026-13-21T04:18:32Z",
        "2026-00-21T04:18:32Z",
        "2026-02-29T04:18:32Z",
        "1900-02-29T04:18:32Z",
        "2026-04-31T04:18:32Z",
        "2026-11-00T04:18:32Z",
        "2026/11/21T04:18:32Z",
        "2026-11-21_04:18:32Z",
        "-026-11-21T04:18:32Z",
        "２026-11-21T04:18:32Z",
    ] {
        assert_eq!(Stamp::parse(text), None, "{text}");
    }
}

proptest! {
    #[test]
    fn instants_agree_with_a_calendar(seconds in -62_135_596_800_i64..253_402_207_200, nanos in 0_u32..1_000_000_000, hours in -23_i8..=23) {
        let moment = jiff::Timestamp::new(seconds, 0).unwrap() + jiff::SignedDuration::from_nanos(nanos.into());
        let zoned = moment.to_zoned(jiff::tz::offset(hours).to_time_zone());
        // Years of four digits on both sides of the offset.
        if (0..=9999).contains(&zoned.year()) {
            let text = zoned.strftime("%Y-%m-%dT%H:%M:%S%.f%:z").to_string();
            let expected = Stamp { seconds, fraction: u64::from(nanos) * 1_000_000_000 };
            prop_assert_eq!(Stamp::parse(&text), Some(expected), "{}", text);
            prop_assert_eq!(expected.to_string(), moment.to_string());
        }
    }

    #[test]
    fn nothing_panics(text in ".*", body in proptest::collection::vec(any::<u8>(), 0..64)) {
        let _stamp = Stamp::parse(&text);
        let _page = read_page(&body);
        let _listing = read_listing(&body, Limits::default());
    }
}

// Parameters.

fn body(params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ListTasks","params":{params},"x":[ ]}}"#)
}

#[test]
fn size_and_token_are_read() {
    let check = |params: &str, size: usize, token: Option<&str>| {
        let body = body(params);
        let listing = read_listing(body.as_bytes(), Limits::default()).unwrap();
        assert_eq!((listing.size, listing.token.as_deref()), (size, token), "{params}");
    };
    check("{}", 50, None);
    check("null", 50, None);
    check(r#"{"pageSize":1}"#, 1, None);
    check(r#"{"page_size":"100"}"#, 100, None);
    check(r#"{"pageSize":null,"pageToken":null}"#, 50, None);
    check(r#"{"pageToken":""}"#, 50, None);
    check(r#"{"page_token":"a\u0062"}"#, 50, Some("ab"));
    check(r#"{"page\u0053ize":3}"#, 3, None);
}

#[test]
fn what_could_be_read_in_two_ways_is_refused() {
    let check = |params: &str, expected: ListingError| {
        let body = body(params);
        let read = read_listing(body.as_bytes(), Limits::default());
        assert_eq!(read.map(|_| ()), Err(expected), "{params}");
    };
    for size in [
        "0",
        "101",
        "-1",
        "1.0",
        "1e1",
        "true",
        "[1]",
        "\"\"",
        "99999999999999999999999",
    ] {
        check(&format!(r#"{{"pageSize":{size}}}"#), ListingError::PageSize);
    }
    check(r#"{"pageToken":1}"#, ListingError::PageToken);
    check(r#"{"pageSize":1,"page_size":1}"#, ListingError::Names);
    check(r#"{"pageToken":"a","page_token":"a"}"#, ListingError::Names);
    check(r#"{"PageSize":1}"#, ListingError::Names);
    check(r#"{"PAGETOKEN":"a"}"#, ListingError::Names);
    check(r#"{"Status":"a"}"#, ListingError::Names);
    check("{\"page\u{17F}ize\":1}", ListingError::Names);
}

#[test]
fn an_endpoint_is_asked_what_the_caller_asks() {
    let check = |body: &str, cursor: &str, expected: &str| {
        let listing = read_listing(body.as_bytes(), Limits::default()).unwrap();
        let request = listing.request(7, cursor);
        assert_eq!(std::str::from_utf8(&request).unwrap(), expected, "{body}");
        Strict::new(&request, Limits::default()).unwrap().skip().unwrap();
    };
    check(
        &body(r#"{ "pageSize" : 3, "x\u0041":1.0e2 , "contextId":"c","pageToken":"mine" }"#),
        "",
        &body(r#"{"x\u0041":1.0e2,"contextId":"c","pageSize":7}"#),
    );
    check(&body("{}"), "a\"b", &body(r#"{"pageSize":7,"pageToken":"a\"b"}"#));
    check(&body("null"), "c", &body(r#"{"pageSize":7,"pageToken":"c"}"#));
    check(
        r#" {"method":"ListTasks","id":1,"jsonrpc":"2.0"}"#,
        "c",
        r#" {"params":{"pageSize":7,"pageToken":"c"},"method":"ListTasks","id":1,"jsonrpc":"2.0"}"#,
    );
}

#[test]
fn the_question_is_everything_but_size_and_token() {
    let question = |params: &str| {
        let body = body(params);
        read_listing(body.as_bytes(), Limits::default()).unwrap().question()
    };
    let same = |one: &str, other: &str| assert_eq!(question(one), question(other), "{one} {other}");
    let differ = |one: &str, other: &str| assert_ne!(question(one), question(other), "{one} {other}");
    same("{}", "null");
    same("{}", r#"{"pageSize":3,"pageToken":"t","status":null}"#);
    same(r#"{"a":1,"status":"s"}"#, r#"{ "status" : "s", "\u0061":1}"#);
    differ(r#"{"status":"s"}"#, "{}");
    differ(r#"{"status":"s"}"#, r#"{"status":"t"}"#);
    differ(r#"{"status":"s"}"#, r#"{"tenant":"s"}"#);
    differ(r#"{"a":"b","c":"d"}"#, r#"{"a":"b\"c\"d"}"#);
    differ(r#"{"includeArtifacts":true}"#, "{}");
}

// Pages.

macro_rules! recorded {
    ($name:literal) => {
        include_bytes!(concat!("../../../tests/corpus/1.0/", $name, ".res.json")).as_slice()
    };
}

#[test]
fn recorded_pages_are_taken_apart_and_put_together() {
    let check = |answer: &[u8], tasks: usize, goes_on: bool, total: u64| {
        let page = read_page(answer).unwrap();
        assert_eq!(
            (page.tasks.len(), page.total, !page.next.is_empty()),
            (tasks, Some(total), goes_on)
        );
        let tree: serde_json::Value = serde_json::from_slice(answer).unwrap();
        let mut raw = Vec::new();
        for (at, task) in page.tasks.iter().enumerate() {
            let expected = &tree["result"]["tasks"][at];
            assert_eq!(task.id.as_str(), expected["id"]);
            let changed = expected["status"]["timestamp"].as_str().and_then(Stamp::parse);
            assert_eq!(task.changed, changed);
            if at > 0 {
                assert!(task.changed <= page.tasks[at - 1].changed, "latest first");
                raw.push(b',');
            }
            raw.extend_from_slice(&answer[task.at.clone()]);
        }
        let id = RpcId(bytes::Bytes::from_static(b"7"));
        let written = write_page(&id, &raw, &page.next, 3, total);
        let again: serde_json::Value = serde_json::from_slice(&written).unwrap();
        assert_eq!(again["result"]["tasks"], tree["result"]["tasks"]);
        assert_eq!(again["result"]["nextPageToken"], page.next);
        assert_eq!(read_page(&written).unwrap().tasks.len(), tasks);
    };
    check(recorded!("jsonrpc/list"), 3, true, 9);
    check(recorded!("jsonrpc/list-empty"), 0, false, 0);
    check(recorded!("jsonrpc/list-by-status"), 1, false, 1);
    check(recorded!("jsonrpc-js/list"), 2, true, 3);
}

#[test]
fn what_protojson_leaves_out_is_the_default() {
    let check = |result: &str, expected: Page| {
        let answer = format!(r#"{{"result":{result}}}"#);
        assert_eq!(read_page(answer.as_bytes()), Ok(expected), "{result}");
    };
    check("{}", Page::default());
    check(r#"{"tasks":null,"nextPageToken":null}"#, Page::default());
    let more = Page {
        next: "n".to_owned(),
        total: Some(3),
        ..Page::default()
    };
    check(r#"{"next_page_token":"n","total_size":"3","x":[{}]}"#, more);
    check(r#"{"totalSize":-1}"#, Page::default());
}

#[test]
fn what_is_no_page_is_refused() {
    let check = |answer: &str, expected: PageError| assert_eq!(read_page(answer.as_bytes()), Err(expected), "{answer}");
    check("{}", PageError::Shape);
    check("[]", PageError::Shape);
    check(r#"{"result":null}"#, PageError::Shape);
    check(r#"{"result":{"tasks":{}}}"#, PageError::Shape);
    check(r#"{"result":{"tasks":[1]}}"#, PageError::Shape);
    check(r#"{"result":{"nextPageToken":1}}"#, PageError::Shape);
    check(r#"{"result":{"tasks":[{}]}}"#, PageError::NoId);
    check(r#"{"result":{"tasks":[{"id":""}]}}"#, PageError::NoId);
    check(r#"{"result":{"tasks":[{"id":5}]}}"#, PageError::NoId);
    let many = format!(
        r#"{{"result":{{"tasks":[{}{{"id":"a"}}]}}}}"#,
        r#"{"id":"a"},"#.repeat(1024)
    );
    check(&many, PageError::TooManyTasks);
    for twice in [
        r#"{"result":{"tasks":[{"id":"a","id":"b"}]}}"#,
        r#"{"result":{"tasks":[{"id":"a","x":{"y":1,"y":2}}]}}"#,
        r#"{"result":{},"result":{}}"#,
        r#"{"result":{"tasks":[{"id":"a"}]}} x"#,
        r#"{"result":{"tasks":[{"id":"a" "b":1}]}}"#,
    ] {
        assert!(
            matches!(read_page(twice.as_bytes()), Err(PageError::Json(_))),
            "{twice}"
        );
    }
}

#[test]
fn a_task_without_a_readable_time_has_none() {
    for status in [r#""x""#, "null", "{}", r#"{"timestamp":5}"#, r#"{"timestamp":"soon"}"#] {
        let answer = format!(r#"{{"result":{{"tasks":[{{"id":"a","status":{status}}}]}}}}"#);
        assert_eq!(read_page(answer.as_bytes()).unwrap().tasks[0].changed, None, "{status}");
    }
}
