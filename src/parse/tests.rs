//! Which media types are JSON-RPC.

use super::*;

#[test]
fn another_charset_is_another_media_type() {
    let check = |media_type: &str, expected: bool| {
        let (mut parts, ()) = http::Request::new(()).into_parts();
        parts
            .headers
            .insert(header::CONTENT_TYPE, media_type.parse().expect("a header value"));
        assert_eq!(is_json(&parts), expected, "{media_type}");
    };
    for good in [
        "application/json",
        "application/json; charset=utf-8",
        "Application/JSON;Charset=\"UTF-8\"",
        "application/json; charset=utf8; x=y",
        "application/json; profile",
    ] {
        check(good, true);
    }
    for bad in [
        "application/json; charset=utf-7",
        "application/json;charset=utf-16",
        "application/json; charset=\"shift_jis\"",
        "application/json; charset=utf-8; charset=gbk",
        "application/json; charset = utf-7",
        "application/jsonx",
        "text/plain",
    ] {
        check(bad, false);
    }
}
