//! What of `Via` is read and written.

use http::{HeaderValue, Request, Version, header};

use crate::http::hops::{Hops, Loop, MOST};

fn passed(version: Version, fields: &[&str]) -> Result<String, Loop> {
    let mut request = Request::builder().version(version);
    for field in fields {
        request = request.header(header::VIA, HeaderValue::from_bytes(field.as_bytes()).unwrap());
    }
    let (mut parts, ()) = request.body(()).unwrap().into_parts();
    Hops::new(0xab).pass(&mut parts)?;
    assert_eq!(parts.headers.get_all(header::VIA).iter().count(), 1);
    Ok(parts.headers[header::VIA].to_str().unwrap().to_owned())
}

const OWN: &str = "a2a-gateway-00000000000000ab";
const OTHER: &str = "a2a-gateway-00000000000000cd";

#[test]
fn each_gateway_adds_itself_and_keeps_others_of_its_kind() {
    let check = |fields: &[&str], expected: &str| {
        assert_eq!(passed(Version::HTTP_11, fields), Ok(expected.to_owned()), "{fields:?}");
    };
    check(&[], &format!("1.1 {OWN}"));
    check(
        &["1.1 proxy.internal:3128 (squid)", "garbage", "\u{ff}"],
        &format!("1.1 {OWN}"),
    );
    check(&[&format!("2 {OTHER}")], &format!("2 {OTHER}, 1.1 {OWN}"));
    check(
        &[
            &format!("1.0 fred,1.1  {OTHER} (comment)"),
            &format!("9 {OTHER}, 2 {OTHER}x, 2 {OTHER}"),
        ],
        &format!("1.1 {OTHER}, 2 {OTHER}, 1.1 {OWN}"),
    );
    assert_eq!(passed(Version::HTTP_2, &[]), Ok(format!("2 {OWN}")));
    assert_eq!(passed(Version::HTTP_10, &[]), Ok(format!("1.0 {OWN}")));
}

#[test]
fn a_circle_is_found() {
    let check = |fields: &[&str], expected| assert_eq!(passed(Version::HTTP_11, fields), Err(expected), "{fields:?}");
    check(&[&format!("1.1 {OWN}")], Loop::Again);
    check(&["1.1 a", &format!("1.1 {OTHER}, 2 {OWN} (x), 1.1 b")], Loop::Again);
    let many = |count: usize| vec![format!("1.1 {OTHER}"); count].join(", ");
    assert!(passed(Version::HTTP_11, &[&many(MOST - 1)]).is_ok());
    check(&[&many(MOST)], Loop::TooMany);
}
