//! A credential that stands in a message, put where a request would have it. Nothing is verified here, and nothing of it goes
//! further than to the verifiers.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderValue, Request, Uri, header, request};

use super::api_key::Place;
use crate::a2a::envelope::Credential;

/// `places` are those where API keys are read. `None`: no request can hold it.
pub(super) fn showing<'p>(
    credential: &Credential<'_>,
    places: impl Iterator<Item = &'p Place>,
) -> Option<request::Parts> {
    let (mut parts, ()) = Request::new(()).into_parts();
    match credential {
        Credential::Token(token) => authorize(&mut parts.headers, "Bearer", token)?,
        Credential::Basic { username, password } => {
            // The first colon ends the name (RFC 7617 §2).
            if username.contains(':') {
                return None;
            }
            let both = STANDARD.encode(format!("{username}:{password}"));
            authorize(&mut parts.headers, "Basic", &both)?;
        }
        Credential::ApiKey(key) => {
            // Whichever scheme the key is of, it is shown to each, and the requirement decides.
            let mut query = String::new();
            for place in places {
                match place {
                    Place::Header(name) => {
                        parts.headers.insert(name, secret(key)?);
                    }
                    Place::Cookie(name) if key.bytes().all(is_of_cookie) => {
                        parts.headers.append(header::COOKIE, secret(&format!("{name}={key}"))?);
                    }
                    // It would be several cookies.
                    Place::Cookie(_) => {}
                    Place::Query(name) => {
                        let separator = if query.is_empty() { '?' } else { '&' };
                        query.push(separator);
                        encode(&mut query, name);
                        query.push('=');
                        encode(&mut query, key);
                    }
                }
            }
            parts.uri = format!("/{query}").parse::<Uri>().ok()?;
        }
    }
    Some(parts)
}

fn authorize(headers: &mut HeaderMap, scheme: &str, credential: &str) -> Option<()> {
    headers.insert(header::AUTHORIZATION, secret(&format!("{scheme} {credential}"))?);
    Some(())
}

fn secret(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// RFC 6265 §4.1.1.
fn is_of_cookie(byte: u8) -> bool {
    byte.is_ascii_graphic() && !matches!(byte, b'"' | b',' | b';' | b'\\')
}

fn encode(out: &mut String, text: &str) {
    for byte in text.bytes() {
        out.push_str(&format!("%{byte:02X}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(credential: Credential<'_>, expected: Option<&[(&str, &str)]>) {
        let places = [
            Place::Header(http::HeaderName::from_static("x-api-key")),
            Place::Query("key".to_owned()),
            Place::Cookie("session".to_owned()),
        ];
        let shown = showing(&credential, places.iter());
        let shown = shown.map(|parts| {
            let headers = parts.headers.iter();
            let mut all: Vec<_> = headers
                .map(|(name, value)| (name.as_str().to_owned(), value.to_str().unwrap().to_owned()))
                .collect();
            if let Some(query) = parts.uri.query() {
                all.push(("?".to_owned(), query.to_owned()));
            }
            all.sort();
            all
        });
        let expected = expected.map(|all| {
            let all = all.iter();
            all.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect::<Vec<_>>()
        });
        assert_eq!(shown, expected, "{credential:?}");
    }

    #[test]
    fn a_credential_stands_where_a_request_has_it() {
        check(Credential::Token("t".into()), Some(&[("authorization", "Bearer t")]));
        let basic = |username: &'static str| Credential::Basic {
            username: username.into(),
            password: "p:w".into(),
        };
        check(basic("ann"), Some(&[("authorization", "Basic YW5uOnA6dw==")]));
        check(basic("a:b"), None);
        check(
            Credential::ApiKey("k1".into()),
            Some(&[("?", "%6B%65%79=%6B%31"), ("cookie", "session=k1"), ("x-api-key", "k1")]),
        );
    }

    #[test]
    fn none_is_more_than_one_field() {
        check(Credential::Token("t\r\nx-api-key: k".into()), None);
        check(Credential::ApiKey("k\r\nx: y".into()), None);
        check(
            Credential::ApiKey("k; other=1".into()),
            Some(&[
                ("?", "%6B%65%79=%6B%3B%20%6F%74%68%65%72%3D%31"),
                ("x-api-key", "k; other=1"),
            ]),
        );
    }
}
