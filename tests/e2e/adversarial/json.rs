//! Bodies: what two parsers could read differently never reaches an agent, in every generation and over every HTTP.

use super::site::{BOTH, CREDENTIAL, GENERATIONS, Http, JSON, Names, Refusal, Site, good, rpc};

async fn refuse_all(cases: impl Fn(&Names) -> Vec<(&'static str, Vec<u8>, Refusal)>) {
    let site = Site::usual().await;
    for names in &GENERATIONS {
        for http in BOTH {
            for (what, body, expected) in cases(names) {
                let what = format!("{what}, A2A {}, {http:?}", names.version);
                println!("{what}");
                let answer = site.post(http, &[JSON, CREDENTIAL], &body).await;
                site.is_refusal(&what, &answer, expected);
            }
            site.works().await;
            site.agent_saw_only_what_passed();
        }
    }
    site.done().await;
}

fn case(
    what: &'static str,
    body: impl Into<Vec<u8>>,
    reason: &'static str,
    id: &'static str,
) -> (&'static str, Vec<u8>, Refusal) {
    (what, body.into(), rpc(reason, id))
}

#[tokio::test]
async fn what_is_no_json_is_a_parse_error_without_an_id() {
    refuse_all(|names| {
        let good = names.sending("");
        let mut bad_utf8 = good.clone().into_bytes();
        let at = good.find("hi").expect("the text");
        bad_utf8[at] = 0xff;
        let mut overlong = good.clone().into_bytes();
        overlong.splice(at..at + 2, [0xc0, 0xaf]);
        vec![
            case("nothing", "", "parse_error", "null"),
            case("cut off", &good[..good.len() - 1], "parse_error", "null"),
            case("no JSON at all", "jsonrpc=2.0&id=7", "parse_error", "null"),
            case("single quotes", good.replace('"', "'"), "parse_error", "null"),
            case(
                "a comma too many",
                good.replace("\"id\":7,", "\"id\":7,,"),
                "parse_error",
                "null",
            ),
            case(
                "a comment",
                good.replace("\"id\":7,", "\"id\":7,/**/"),
                "parse_error",
                "null",
            ),
            case("NaN", good.replace("\"hi\"", "NaN"), "parse_error", "null"),
            case(
                "a raw control character",
                good.replace("hi", "h\u{1}i"),
                "parse_error",
                "null",
            ),
            case("a byte order mark", format!("\u{feff}{good}"), "parse_error", "null"),
            case("two documents", format!("{good}{good}"), "parse_error", "null"),
            case("a NUL behind the end", format!("{good}\0"), "parse_error", "null"),
            case("a byte that is no UTF-8", bad_utf8, "parse_error", "null"),
            case("an overlong slash", overlong, "parse_error", "null"),
            case(
                "half a surrogate pair",
                good.replace("hi", "\\ud83d"),
                "parse_error",
                "null",
            ),
            case("the other half", good.replace("hi", "\\ude00"), "parse_error", "null"),
            case(
                "the halves turned round",
                good.replace("hi", "\\ude00\\ud83d"),
                "parse_error",
                "null",
            ),
        ]
    })
    .await;
}

#[tokio::test]
async fn what_is_no_single_request_is_an_invalid_request() {
    refuse_all(|names| {
        let good = names.sending("");
        vec![
            case("a batch", format!("[{good}]"), "batch", "null"),
            case("a batch of nothing", "[]", "batch", "null"),
            case(
                "a batch behind spaces",
                format!(" \r\n\t[{good},{good}]"),
                "batch",
                "null",
            ),
            case("a notification", good.replace("\"id\":7,", ""), "notification", "null"),
            case("a number", "7", "invalid_request", "null"),
            case("null", "null", "invalid_request", "null"),
            case("a text", "\"SendMessage\"", "invalid_request", "null"),
            case(
                "another version",
                good.replace("\"2.0\"", "\"1.0\""),
                "invalid_request",
                "7",
            ),
            case(
                "a version that is a number",
                good.replace("\"2.0\"", "2.0"),
                "invalid_request",
                "7",
            ),
            case(
                "no version",
                good.replace("\"jsonrpc\":\"2.0\",", ""),
                "invalid_request",
                "7",
            ),
            case(
                "an id that is an object",
                good.replace("\"id\":7", "\"id\":{\"a\":7}"),
                "invalid_request",
                "null",
            ),
            case(
                "an id that is true",
                good.replace("\"id\":7", "\"id\":true"),
                "invalid_request",
                "null",
            ),
            case(
                "an id with a fraction",
                good.replace("\"id\":7", "\"id\":7.5"),
                "invalid_request",
                "null",
            ),
            case(
                "an id of 5 KB",
                good.replace("\"id\":7", &format!("\"id\":\"{}\"", "x".repeat(5000))),
                "invalid_request",
                "null",
            ),
            case(
                "no method",
                good.replace(&format!("\"method\":\"{}\",", names.send), ""),
                "invalid_request",
                "7",
            ),
            case(
                "a method that is a list",
                good.replace(&format!("\"{}\"", names.send), &format!("[\"{}\"]", names.send)),
                "invalid_request",
                "7",
            ),
            case(
                "an unknown method",
                good.replace(names.send, "DropTables"),
                "unknown_method",
                "7",
            ),
            case(
                "a method in another case",
                good.replace(names.send, &names.send.to_ascii_uppercase()),
                "unknown_method",
                "7",
            ),
            case(
                "a method with a space",
                good.replace(names.send, &format!("{} ", names.send)),
                "unknown_method",
                "7",
            ),
            case(
                "params that are a list",
                names.call(names.send, "[]"),
                "invalid_params",
                "7",
            ),
            case(
                "an id that a double would lose",
                good.replace("\"id\":7", "\"id\":123456789012345678901")
                    .replace(names.send, "None"),
                "unknown_method",
                "123456789012345678901",
            ),
            case(
                "an id behind the error",
                format!(
                    r#"{{"jsonrpc":"2.0","method":"{}x","params":{{}},"id":"late"}}"#,
                    names.send
                ),
                "unknown_method",
                "\"late\"",
            ),
        ]
    })
    .await;
}

#[tokio::test]
async fn a_name_that_stands_twice_is_refused_at_every_level() {
    refuse_all(|names| {
        let good = names.sending("");
        let method = format!("\"method\":\"{}\",", names.send);
        // The id is certain only if the duplicate is not among its neighbours.
        vec![
            case(
                "method",
                good.replace(&method, &format!("{method}\"method\":\"CancelTask\",")),
                "parse_error",
                "null",
            ),
            case(
                "method, equal",
                good.replace(&method, &format!("{method}{method}")),
                "parse_error",
                "null",
            ),
            case(
                "method, escaped",
                good.replace(&method, &format!("{method}\"\\u006dethod\":\"CancelTask\",")),
                "parse_error",
                "null",
            ),
            case(
                "id",
                good.replace("\"id\":7,", "\"id\":7,\"id\":8,"),
                "parse_error",
                "null",
            ),
            case(
                "id, escaped",
                good.replace("\"id\":7,", "\"id\":7,\"\\u0069\\u0064\":8,"),
                "parse_error",
                "null",
            ),
            case(
                "params",
                good.replace("\"params\":", "\"params\":{},\"params\":"),
                "parse_error",
                "null",
            ),
            case(
                "an unknown member",
                good.replace("\"id\":7,", "\"id\":7,\"x\":1,\"x\":2,"),
                "parse_error",
                "null",
            ),
            case(
                "the task",
                names.call(names.get, r#"{"id":"mine","id":"yours"}"#),
                "parse_error",
                "7",
            ),
            case(
                "the task, escaped",
                names.call(names.get, r#"{"id":"mine","\u0069d":"yours"}"#),
                "parse_error",
                "7",
            ),
            case(
                "the message",
                names.call(names.send, r#"{"message":{},"message":{}}"#),
                "parse_error",
                "7",
            ),
            case(
                "the task of a message",
                names.sending(r#","taskId":"mine","taskId":"yours""#),
                "parse_error",
                "7",
            ),
            case(
                "the task of a message, escaped",
                names.sending(r#","taskId":"mine","\u0074askId":"yours""#),
                "parse_error",
                "7",
            ),
            case(
                "something deep in the metadata",
                names.sending(r#","metadata":{"a":[{"b":{"c":1,"c":1}}]}"#),
                "parse_error",
                "7",
            ),
        ]
    })
    .await;
}

#[tokio::test]
async fn two_spellings_of_one_thing_and_look_alikes_are_refused() {
    refuse_all(|names| {
        let good = names.sending("");
        vec![
            case(
                "taskId and task_id",
                names.sending(r#","taskId":"mine","task_id":"yours""#),
                "invalid_params",
                "7",
            ),
            case(
                "one of them null",
                names.sending(r#","taskId":"mine","task_id":null"#),
                "invalid_params",
                "7",
            ),
            case(
                "contextId and context_id",
                names.sending(r#","contextId":"mine","context_id":"yours""#),
                "invalid_params",
                "7",
            ),
            case(
                "both lists of references",
                names.sending(r#","referenceTaskIds":["a"],"reference_task_ids":["b"]"#),
                "invalid_params",
                "7",
            ),
            case(
                "both tasks of a push",
                names.call(names.push_create, r#"{"taskId":"mine","task_id":"yours"}"#),
                "invalid_params",
                "7",
            ),
            case(
                "Method",
                good.replace("\"id\":7,", "\"id\":7,\"Method\":\"CancelTask\","),
                "invalid_request",
                "7",
            ),
            case(
                "ID",
                good.replace("\"id\":7,", "\"id\":7,\"ID\":8,"),
                "invalid_request",
                "7",
            ),
            case(
                "Params",
                good.replace("\"id\":7,", "\"id\":7,\"Params\":{},"),
                "invalid_request",
                "7",
            ),
            case(
                "JSONRPC",
                good.replace("\"id\":7,", "\"id\":7,\"JSONRPC\":\"2.0\","),
                "invalid_request",
                "7",
            ),
            case(
                "Id of a task",
                names.call(names.get, r#"{"id":"mine","Id":"yours"}"#),
                "invalid_params",
                "7",
            ),
            case(
                "Id alone",
                names.call(names.get, r#"{"Id":"yours"}"#),
                "invalid_params",
                "7",
            ),
            case(
                "Message",
                names.call(names.send, r#"{"message":{},"Message":{}}"#),
                "invalid_params",
                "7",
            ),
            case(
                "TaskID of a message",
                names.sending(r#","taskId":"mine","TaskID":"yours""#),
                "invalid_params",
                "7",
            ),
            case(
                "TASK_ID of a message",
                names.sending(r#","TASK_ID":"yours""#),
                "invalid_params",
                "7",
            ),
            case(
                "a Kelvin sign",
                names.sending(",\"tas\u{212a}Id\":\"yours\""),
                "invalid_params",
                "7",
            ),
            case(
                "a Kelvin sign, escaped",
                names.sending(r#","tas\u212aId":"yours""#),
                "invalid_params",
                "7",
            ),
            case(
                "a long s",
                names.sending(",\"ta\u{17f}kId\":\"yours\""),
                "invalid_params",
                "7",
            ),
        ]
    })
    .await;
}

#[tokio::test]
async fn ids_that_cannot_be_looked_up_are_invalid_params() {
    refuse_all(|names| {
        let references: Vec<String> = (0..257).map(|index| format!("\"{index}\"")).collect();
        vec![
            case("no task", names.call(names.get, "{}"), "invalid_params", "7"),
            case("no params", names.call(names.get, "null"), "invalid_params", "7"),
            case(
                "an empty task",
                names.call(names.get, r#"{"id":""}"#),
                "invalid_params",
                "7",
            ),
            case(
                "a task that is a number",
                names.call(names.get, r#"{"id":1}"#),
                "invalid_params",
                "7",
            ),
            case(
                "a task that is a list",
                names.call(names.get, r#"{"id":["mine"]}"#),
                "invalid_params",
                "7",
            ),
            case(
                "a task of 1025 bytes",
                names.call(names.get, &format!("{{\"id\":\"{}\"}}", "t".repeat(1025))),
                "invalid_params",
                "7",
            ),
            case(
                "a message that is a text",
                names.call(names.send, r#"{"message":"hi"}"#),
                "invalid_params",
                "7",
            ),
            case(
                "a message's task that is an object",
                names.sending(r#","taskId":{"id":"mine"}"#),
                "invalid_params",
                "7",
            ),
            case(
                "references that are a text",
                names.sending(r#","referenceTaskIds":"mine""#),
                "invalid_params",
                "7",
            ),
            case(
                "257 references",
                names.sending(&format!(",\"referenceTaskIds\":[{}]", references.join(","))),
                "invalid_params",
                "7",
            ),
        ]
    })
    .await;
}

/// The message's own three levels count.
fn nested(levels: usize) -> String {
    format!(",\"metadata\":{}{}", "[".repeat(levels - 3), "]".repeat(levels - 3))
}

fn number(digits: usize) -> String {
    format!(",\"metadata\":[{}]", "9".repeat(digits))
}

#[tokio::test]
async fn depth_and_digits_hold_at_the_bound_and_not_past_it() {
    refuse_all(|names| {
        vec![
            case("129 levels", names.sending(&nested(129)), "parse_error", "7"),
            case("200 levels", names.sending(&nested(200)), "parse_error", "7"),
            case("100,000 levels", names.sending(&nested(100_000)), "parse_error", "7"),
            case(
                "100,000 levels that never close",
                names.sending(&format!(",\"metadata\":{}", "{\"a\":".repeat(100_000))),
                "parse_error",
                "7",
            ),
            case("309 digits", names.sending(&number(309)), "parse_error", "7"),
            case("400 digits", names.sending(&number(400)), "parse_error", "7"),
            case(
                "400 digits of an exponent",
                names.sending(&format!(",\"metadata\":[1e{}]", "9".repeat(400))),
                "parse_error",
                "7",
            ),
        ]
    })
    .await;
    let site = Site::usual().await;
    for names in &GENERATIONS {
        for http in BOTH {
            for (what, more) in [("128 levels", nested(128)), ("308 digits", number(308))] {
                let body = names.sending(&more);
                site.passed(what, &site.post(http, &[JSON, CREDENTIAL], &body).await);
                let received = site.agent.received().pop().expect("received");
                assert_eq!(String::from_utf8_lossy(&received.body), body, "{what}, untouched");
            }
        }
    }
    site.done().await;
}

#[tokio::test]
async fn a_body_that_is_not_declared_as_plain_json_is_not_read() {
    let site = Site::usual().await;
    let gzip = ("content-encoding", "gzip");
    let cases: [(&str, &[(&str, &str)]); 10] = [
        ("no type", &[]),
        ("an empty type", &[("content-type", "")]),
        ("text", &[("content-type", "text/plain")]),
        ("a form", &[("content-type", "application/x-www-form-urlencoded")]),
        ("a name that begins with it", &[("content-type", "application/jsonp")]),
        ("a type of its family", &[("content-type", "application/vnd.api+json")]),
        (
            "two types in one field",
            &[("content-type", "application/json, text/plain")],
        ),
        ("two fields", &[JSON, ("content-type", "text/plain")]),
        ("gzip", &[JSON, gzip]),
        ("gzip behind identity", &[JSON, ("content-encoding", "identity"), gzip]),
    ];
    for http in BOTH {
        for (what, fields) in cases {
            let fields: Vec<_> = fields.iter().copied().chain([CREDENTIAL]).collect();
            let answer = site.post(http, &fields, good()).await;
            site.refused(
                &format!("{what}, {http:?}"),
                &answer,
                rpc("unsupported_media_type", "null"),
            )
            .await;
        }
        for kind in [
            "application/json;charset=utf-8",
            "Application/JSON",
            "application/json ; x=1",
        ] {
            let answer = site.post(http, &[("content-type", kind), CREDENTIAL], good()).await;
            site.passed(kind, &answer);
        }
    }
    site.done().await;
}

#[tokio::test]
async fn a_version_that_is_not_served_or_not_certain_is_refused() {
    let site = Site::usual().await;
    for http in BOTH {
        let asking = |version: &'static str| [JSON, CREDENTIAL, ("a2a-version", version)];
        let legacy = GENERATIONS[1].sending("");
        for version in ["1.0", "9.9", "\"0.3\"", "latest"] {
            let answer = site.post(http, &asking(version), &legacy).await;
            site.refused(version, &answer, rpc("version_not_supported", "7")).await;
        }
        let twice = [JSON, CREDENTIAL, ("a2a-version", "1.0"), ("a2a-version", "0.3")];
        let answer = site.post(http, &twice, good()).await;
        site.refused("two versions", &answer, rpc("bad_head", "null")).await;
        let answer = site
            .request(http, "POST", "/agent?A2A-Version=0.3", &asking("1.0"), good())
            .await;
        site.refused("another one in the query", &answer, rpc("bad_head", "null"))
            .await;
    }
    site.done().await;
}

#[tokio::test]
async fn the_form_of_http_does_not_matter_for_a_good_call() {
    let site = Site::usual().await;
    for names in &GENERATIONS {
        for http in [Http::One, Http::Two] {
            site.passed(
                names.version,
                &site.post(http, &[JSON, CREDENTIAL], names.sending("")).await,
            );
        }
    }
    site.done().await;
}
