//! Forms as servers of OAuth 2.0 want them, and how a client shows itself to them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::HeaderValue;
use http::header::InvalidHeaderValue;
use zeroize::Zeroizing;

/// The media type.
pub const MEDIA_TYPE: HeaderValue = HeaderValue::from_static("application/x-www-form-urlencoded");

/// `application/x-www-form-urlencoded` (RFC 6749 Appendix B). May hold secrets.
#[derive(Clone, Default)]
pub struct Form(Zeroizing<String>);

impl Form {
    pub fn add(&mut self, name: &str, value: &str) {
        if !self.0.is_empty() {
            self.0.push('&');
        }
        encode(&mut self.0, name);
        self.0.push('=');
        encode(&mut self.0, value);
    }

    pub fn to_bytes(&self) -> Bytes {
        Bytes::copy_from_slice(self.0.as_bytes())
    }
}

/// A client's id and secret as `Authorization: Basic`. Both are encoded as in a form first (RFC 6749 §2.3.1), so that a colon in the id ends nothing.
pub fn basic(client_id: &str, secret: &str) -> Result<HeaderValue, InvalidHeaderValue> {
    let mut both = Zeroizing::new(String::new());
    encode(&mut both, client_id);
    both.push(':');
    encode(&mut both, secret);
    let text = Zeroizing::new(format!("Basic {}", STANDARD.encode(both.as_bytes())));
    let mut value = HeaderValue::from_str(&text)?;
    value.set_sensitive(true);
    Ok(value)
}

fn encode(out: &mut String, text: &str) {
    for byte in text.bytes() {
        match byte {
            b' ' => out.push('+'),
            b'*' | b'-' | b'.' | b'_' => out.push(char::from(byte)),
            _ if byte.is_ascii_alphanumeric() => out.push(char::from(byte)),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_a_meaning_in_forms_is_encoded() {
        let mut form = Form::default();
        form.add("a b", "c&d=e+f%*-._~ü");
        form.add("x", "");
        assert_eq!(&form.to_bytes()[..], b"a+b=c%26d%3De%2Bf%25*-._%7E%C3%BC&x=");
    }

    #[test]
    fn an_id_and_its_secret_are_encoded_before_they_are_joined() {
        let value = basic("a:b", "c d").unwrap();
        assert!(value.is_sensitive());
        assert_eq!(value, format!("Basic {}", STANDARD.encode("a%3Ab:c+d")).as_str());
    }
}
