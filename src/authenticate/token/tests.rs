//! Proofs of possession against the examples of their standard.

use http::{HeaderValue, Method, Request};

use super::super::resource::Resource;
use super::dpop::{self, Window};

/// RFC 9449 §7.1.
const TOKEN: &[u8] = b"Kz~8mXK1EalYznwH-LC-1fBAo.4Ljp~zsPE_NeO.gxU";
const PROOF: &str = "eyJ0eXAiOiJkcG9wK2p3dCIsImFsZyI6IkVTMjU2IiwiandrIjp7Imt0eSI6IkVDIiwieCI6Imw4dEZyaHgtMzR0VjNoUklDUkRZOXpDa0RscEJoRjQyVVFVZldWQVdCRnMiLCJ5IjoiOVZFNGpmX09rX282NHpiVFRsY3VOSmFqSG10NnY5VERWclUwQ2R2R1JEQSIsImNydiI6IlAtMjU2In19.eyJqdGkiOiJlMWozVl9iS2ljOC1MQUVCIiwiaHRtIjoiR0VUIiwiaHR1IjoiaHR0cHM6Ly9yZXNvdXJjZS5leGFtcGxlLm9yZy9wcm90ZWN0ZWRyZXNvdXJjZSIsImlhdCI6MTU2MjI2MjYxOCwiYXRoIjoiZlVIeU8ycjJaM0RaNTNFc05yV0JiMHhXWG9hTnk1OUlpS0NBcWtzbVFFbyJ9.2oW9RP35yRqzhrtNP86L-Ey71EOptxRimPPToA1plemAgR6pxHF8y6-yqyVnmcw6Fy1dqd-jfxSYoMxhAJpLjA";
const MADE: u64 = 1_562_262_618;
/// The `jkt` of §6.1.
const THUMBPRINT: &str = "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I";

fn check(method: &Method, path: &str, token: &[u8], now: u64, expected: bool) {
    let (mut parts, ()) = Request::new(()).into_parts();
    parts.method = method.clone();
    parts.uri = path.parse().unwrap();
    parts.headers.insert(dpop::FIELD, HeaderValue::from_static(PROOF));
    let window = Window {
        lifetime: 60,
        leeway: 30,
        now,
    };
    let at = Resource::unnamed("https://resource.example.org/");
    let proof = dpop::check(&parts, token, &at, &window);
    assert_eq!(proof.is_ok(), expected, "{method} {path} at {now}");
    if let Ok(proof) = proof {
        use base64::Engine as _;
        let thumbprint = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(proof.key);
        assert_eq!(thumbprint, THUMBPRINT);
        assert_eq!(proof.until, MADE + 90);
    }
}

#[test]
fn the_example_of_the_standard_is_a_proof() {
    let path = "/protectedresource";
    check(&Method::GET, path, TOKEN, MADE, true);
    check(&Method::GET, "/protectedresource?x=1", TOKEN, MADE, true);
    check(&Method::POST, path, TOKEN, MADE, false);
    check(&Method::GET, "/other", TOKEN, MADE, false);
    check(&Method::GET, path, b"other", MADE, false);
}

#[test]
fn a_proof_is_good_for_its_time_to_the_second() {
    let path = "/protectedresource";
    for (now, expected) in [
        (MADE - 31, false),
        (MADE - 30, true),
        (MADE + 90, true),
        (MADE + 91, false),
    ] {
        check(&Method::GET, path, TOKEN, now, expected);
    }
}
