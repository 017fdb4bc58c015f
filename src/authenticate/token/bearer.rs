//! Where a token stands: the `Authorization` field alone (RFC 6750 §2.1, RFC 9449 §7.1). A token in a query or a body (RFC 6750
//! §2.2, §2.3) ends in logs.

use http::request;

use super::super::{Authorization, Invalid, authorization};
use super::sender::Presented;

/// Refused before it is parsed; header sections are bounded at 64 KiB, tokens of issuers rarely pass 4 KiB.
pub(in super::super) const MAX_TOKEN: usize = 8 * 1024;

/// The token of the field and how it is shown, `None` if the field is absent or for another scheme.
pub(super) fn token(parts: &request::Parts) -> Result<Option<(Presented, &[u8])>, Invalid> {
    match authorization(&parts.headers) {
        Authorization::Absent => Ok(None),
        Authorization::Repeated => Err(Invalid::Ambiguous),
        Authorization::One { scheme, credentials } => {
            let presented = match scheme {
                scheme if scheme.eq_ignore_ascii_case(b"bearer") => Presented::Bearer,
                scheme if scheme.eq_ignore_ascii_case(b"dpop") => Presented::Dpop,
                _ => return Ok(None),
            };
            if credentials.len() > MAX_TOKEN {
                return Err(Invalid::TooLong);
            }
            if !is_b64token(credentials) {
                return Err(Invalid::Malformed);
            }
            Ok(Some((presented, credentials)))
        }
    }
}

/// RFC 6750 §2.1: `1*( ALPHA / DIGIT / "-" / "." / "_" / "~" / "+" / "/" ) *"="`.
fn is_b64token(token: &[u8]) -> bool {
    let padding = token.iter().rev().take_while(|byte| **byte == b'=').count();
    let text = token.get(..token.len().saturating_sub(padding)).unwrap_or_default();
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~+/".contains(byte);
    !text.is_empty() && text.iter().all(plain)
}
