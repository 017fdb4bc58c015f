//! The head of an answer (RFC 9112 §4 to §6), and how its body is framed.
//!
//! Wherever two readers could find two ends, the answer is broken: a length beside a coding, lengths that differ, a coding
//! that is not `chunked` alone. Bare line feeds end lines, as they do for most readers; lines that go on in the next one
//! do not.

use std::mem::MaybeUninit;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Response, Version, header, response};

/// Fields of a head; hyper allows as many.
const FIELDS: usize = 100;

// What these say of the bytes on the connection; what they say of a call is `respond`'s.
const SWITCHING_PROTOCOLS: u16 = 101;
const NO_CONTENT: u16 = 204;
const NOT_MODIFIED: u16 = 304;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("not HTTP/1")]
    Syntax(#[source] httparse::Error),
    #[error("larger than {0} bytes")]
    TooLarge(usize),
    #[error("a field that HTTP does not allow")]
    Field,
    #[error("another protocol that nobody asked for")]
    Upgrade,
    #[error("too many interim answers")]
    Interim,
    #[error("a length that is none, or several that differ")]
    Length,
    #[error("a transfer coding that is not chunked alone, or beside a length, or a body where none can be")]
    Coding,
}

pub struct Head {
    pub parts: response::Parts,
    pub framing: Framing,
    /// The connection may serve another exchange after this one.
    pub persists: bool,
}

/// Where a body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    Length(u64),
    Chunked,
    /// With the connection.
    Close,
}

/// Takes a whole head off the input, if there is one. `seen` is kept between calls: so far no head ends.
pub fn read(input: &mut Bytes, seen: &mut usize, most: usize) -> Result<Option<Head>, Error> {
    if input.is_empty() || (*seen > 0 && !may_end(input, *seen)) {
        return partial(input, seen, most);
    }
    let mut fields = [const { MaybeUninit::uninit() }; FIELDS];
    let mut answer = httparse::Response::new(&mut []);
    let whole = input.clone();
    let parsed = httparse::ParserConfig::default()
        .parse_response_with_uninit_headers(&mut answer, &whole, &mut fields)
        .map_err(Error::Syntax)?;
    let httparse::Status::Complete(size) = parsed else {
        drop(whole);
        return partial(input, seen, most);
    };
    if size > most {
        return Err(Error::TooLarge(most));
    }
    let head = head(&whole, &answer)?;
    *input = whole.slice(size..);
    *seen = 0;
    Ok(Some(head))
}

fn partial(input: &Bytes, seen: &mut usize, most: usize) -> Result<Option<Head>, Error> {
    *seen = input.len();
    if input.len() < most {
        Ok(None)
    } else {
        Err(Error::TooLarge(most))
    }
}

/// Whether an empty line came behind what was seen. A head that comes byte by byte is not parsed as often.
fn may_end(input: &[u8], seen: usize) -> bool {
    let news = input.get(seen.saturating_sub(3)..).unwrap_or_default();
    memchr::memchr_iter(b'\n', news).any(|at| match news.get(at + 1..) {
        Some([b'\n', ..] | [b'\r', b'\n', ..]) => true,
        Some(_) | None => false,
    })
}

fn head(whole: &Bytes, answer: &httparse::Response<'_, '_>) -> Result<Head, Error> {
    let code = answer.code.unwrap_or_default();
    let empty = Response::builder().status(code).body(());
    let (mut parts, ()) = empty.map_err(|_| Error::Syntax(httparse::Error::Status))?.into_parts();
    if code == SWITCHING_PROTOCOLS {
        return Err(Error::Upgrade);
    }
    let is_old = answer.version == Some(0);
    parts.version = if is_old { Version::HTTP_10 } else { Version::HTTP_11 };
    parts.headers.reserve(answer.headers.len());
    for field in answer.headers.iter() {
        let name = HeaderName::from_bytes(field.name.as_bytes()).map_err(|_| Error::Field)?;
        let value = HeaderValue::from_maybe_shared(whole.slice_ref(field.value)).map_err(|_| Error::Field)?;
        parts.headers.append(name, value);
    }
    let (framing, is_doubtful) = framing(&parts, is_old)?;
    let persists = !is_old && !is_doubtful && framing != Framing::Close && !says_close(&parts.headers);
    Ok(Head {
        parts,
        framing,
        persists,
    })
}

/// RFC 9112 §6.3; and whether something may follow all the same, which some servers send where no body can be.
fn framing(parts: &response::Parts, is_old: bool) -> Result<(Framing, bool), Error> {
    let length = length(&parts.headers)?;
    let mut codings = parts.headers.get_all(header::TRANSFER_ENCODING).iter();
    let coding = codings.next();
    if let Some(coding) = coding {
        let is_chunked = coding.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked");
        if !is_chunked || codings.next().is_some() || length.is_some() || is_old {
            return Err(Error::Coding);
        }
    }
    let code = parts.status.as_u16();
    let empty = parts.status.is_informational() || matches!(code, NO_CONTENT | NOT_MODIFIED);
    let is_announced = coding.is_some() || length.is_some_and(|length| length > 0);
    if parts.status.is_informational() && is_announced {
        // Behind it comes an answer or a body.
        return Err(Error::Coding);
    }
    let framing = match length {
        _ if empty => Framing::Length(0),
        Some(length) => Framing::Length(length),
        None if coding.is_some() => Framing::Chunked,
        None => Framing::Close,
    };
    Ok((framing, empty && is_announced))
}

/// The length, which may be said several times as long as it is the same.
fn length(headers: &HeaderMap) -> Result<Option<u64>, Error> {
    let mut found = None;
    for value in headers.get_all(header::CONTENT_LENGTH) {
        for value in value.as_bytes().split(|byte| *byte == b',') {
            let length = decimal(value.trim_ascii()).ok_or(Error::Length)?;
            if found.is_some_and(|found| found != length) {
                return Err(Error::Length);
            }
            found = Some(length);
        }
    }
    Ok(found)
}

fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |number, digit| {
        let digit = char::from(*digit).to_digit(10)?;
        number.checked_mul(10)?.checked_add(digit.into())
    })
}

fn says_close(headers: &HeaderMap) -> bool {
    headers
        .get_all(header::CONNECTION)
        .iter()
        .flat_map(|value| value.as_bytes().split(|byte| *byte == b','))
        .any(|option| option.trim_ascii().eq_ignore_ascii_case(b"close"))
}
