//! A request head as bytes: where it ends, whether it is clean, how its message is framed (RFC 9112 §2 to §6).

use memchr::{Memchr, memchr, memchr_iter};

use super::Bounds;
use crate::observe::Reason;

/// What follows a head.
pub enum Framing {
    None,
    Length(u64),
    Chunked,
}

/// Where the head that begins in `held` and goes on in `new` ends, counted in the two together.
///
/// Looks at `new` only, with the last three bytes before it, so that a head in many pieces costs no more than one in one.
pub fn head_end(held: &[u8], new: &[u8], bounds: Bounds) -> Result<Option<usize>, Reason> {
    let from = held.len().saturating_sub(3);
    let text = [held.get(from..).unwrap_or_default(), new].concat();
    let is_feed = |place: Option<usize>| place.is_some_and(|place| text.get(place) == Some(&b'\n'));
    // A bare line feed is refused when the head is read; an empty line made of one ends the head all the same.
    let end = memchr_iter(b'\n', &text)
        .find(|feed| is_feed(feed.checked_sub(1)) || (text.get(..*feed).is_some_and(|line| line.ends_with(b"\n\r"))))
        .map(|feed| from + feed + 1);
    let first_line = || memchr(b'\n', held).or_else(|| memchr(b'\n', new).map(|at| held.len() + at));
    check_size(end.unwrap_or(held.len() + new.len()), first_line, bounds)?;
    Ok(end)
}

/// `size`: of the head, or of what there is of it.
fn check_size(size: usize, first_line: impl Fn() -> Option<usize>, bounds: Bounds) -> Result<(), Reason> {
    if size <= bounds.header_bytes {
        return Ok(());
    }
    // A head whose first line alone is too long has a target that is.
    Err(match first_line() {
        Some(line) if line <= bounds.target_bytes + 32 => Reason::HeaderTooLarge,
        Some(_) | None => Reason::TargetTooLong,
    })
}

/// Checks the head that `bytes` begin with, and tells where it ends and how its message is framed. `None`: there is no whole
/// head yet.
pub fn read_head(bytes: &[u8], bounds: Bounds) -> Result<Option<(usize, Framing)>, Reason> {
    let mut lines = Lines::of(bytes);
    let Some(request_line) = lines.next()? else {
        check_size(bytes.len(), || None, bounds)?;
        return Ok(None);
    };
    // RFC 9112 §2.2 lets a server skip an empty line before a request; there is no reason to.
    let version = read_request_line(request_line, bounds)?;
    let mut fields = 0;
    let mut length: Option<u64> = None;
    let mut chunked = false;
    let mut hosts = 0;
    loop {
        let Some(line) = lines.next()? else {
            check_size(bytes.len(), || Some(request_line.len()), bounds)?;
            return Ok(None);
        };
        if line.is_empty() {
            break;
        }
        fields += 1;
        if fields > bounds.header_fields {
            return Err(Reason::HeaderTooLarge);
        }
        // No space before the colon, no continuation line, no empty name (RFC 9112 §5.1, §5.2).
        let colon = line.iter().position(|byte| !is_token(*byte)).unwrap_or(0);
        let (name, value) = line.split_at(colon);
        let Some(value) = value.strip_prefix(b":").filter(|_| !name.is_empty()) else {
            return Err(Reason::BadHead);
        };
        if name.eq_ignore_ascii_case(b"content-length") {
            if length.is_some() {
                return Err(Reason::BadHead);
            }
            length = Some(read_length(value.trim_ascii())?);
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            if chunked || !value.trim_ascii().eq_ignore_ascii_case(b"chunked") || version == Version::Http10 {
                return Err(Reason::BadHead);
            }
            chunked = true;
        } else if name.eq_ignore_ascii_case(b"host") {
            hosts += 1;
        }
    }
    check_size(lines.begin, || Some(request_line.len()), bounds)?;
    let head = bytes.get(..lines.begin).unwrap_or_default();
    // The request line, the fields and the empty line: each ends in the only carriage return of its own.
    let returns = memchr_iter(b'\r', head).count();
    if hosts != 1 || (chunked && length.is_some()) || returns != fields + 2 || has_controls(head) {
        return Err(Reason::BadHead);
    }
    let framing = match (chunked, length) {
        (true, _) => Framing::Chunked,
        (false, None | Some(0)) => Framing::None,
        (false, Some(length)) => Framing::Length(length),
    };
    Ok(Some((lines.begin, framing)))
}

/// The head has control characters besides tabs and ends of lines.
fn has_controls(head: &[u8]) -> bool {
    // Without a branch inside, so that the compiler makes vector instructions of it.
    let forbidden = |byte: u8| ((byte < 0x20) & (byte != b'\t') & (byte != b'\r') & (byte != b'\n')) | (byte == 0x7f);
    head.iter().fold(false, |found, byte| found | forbidden(*byte))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    Http10,
    Http11,
}

fn read_request_line(line: &[u8], bounds: Bounds) -> Result<Version, Reason> {
    let mut words = line.split(|byte| *byte == b' ');
    let (Some(method), Some(target), Some(version), None) = (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(Reason::BadHead);
    };
    if method.is_empty() || !method.iter().all(|byte| is_token(*byte)) {
        return Err(Reason::BadHead);
    }
    if target.len() > bounds.target_bytes {
        return Err(Reason::TargetTooLong);
    }
    // No fragment (RFC 9112 §3.2 has none), nothing outside visible ASCII.
    if target.is_empty() || !target.iter().all(|byte| byte.is_ascii_graphic() && *byte != b'#') {
        return Err(Reason::BadHead);
    }
    match version {
        b"HTTP/1.1" => Ok(Version::Http11),
        b"HTTP/1.0" => Ok(Version::Http10),
        _ => Err(Reason::BadHead),
    }
}

/// Digits only: no sign, no list, no space inside (RFC 9112 §6.2).
fn read_length(value: &[u8]) -> Result<u64, Reason> {
    if value.is_empty() || value.len() > 18 || !value.iter().all(u8::is_ascii_digit) {
        return Err(Reason::BadHead);
    }
    std::str::from_utf8(value)
        .ok()
        .and_then(|text| text.parse().ok())
        .ok_or(Reason::BadHead)
}

/// The lines of a head without their ends; one that ends in a bare line feed is an error.
struct Lines<'a> {
    bytes: &'a [u8],
    feeds: Memchr<'a>,
    /// Where the next line begins.
    begin: usize,
}

impl<'a> Lines<'a> {
    fn of(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            feeds: memchr_iter(b'\n', bytes),
            begin: 0,
        }
    }

    /// `None`: there is no whole line.
    fn next(&mut self) -> Result<Option<&'a [u8]>, Reason> {
        let Some(feed) = self.feeds.next() else { return Ok(None) };
        let line = self.bytes.get(self.begin..feed).unwrap_or_default();
        self.begin = feed + 1;
        line.strip_suffix(b"\r").map(Some).ok_or(Reason::BadHead)
    }
}

/// RFC 9110 §5.6.2.
fn is_token(byte: u8) -> bool {
    TOKEN.get(usize::from(byte)).is_some_and(|token| *token)
}

/// A look-up, because every byte of every field name is asked.
const TOKEN: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        #[expect(clippy::cast_possible_truncation, reason = "below 256")]
        let character = byte as u8;
        #[expect(clippy::indexing_slicing, reason = "below 256; evaluated by the compiler")]
        {
            table[byte] = character.is_ascii_alphanumeric()
                || matches!(
                    character,
                    b'!' | b'#'
                        | b'$'
                        | b'%'
                        | b'&'
                        | b'\''
                        | b'*'
                        | b'+'
                        | b'-'
                        | b'.'
                        | b'^'
                        | b'_'
                        | b'`'
                        | b'|'
                        | b'~'
                );
        }
        byte += 1;
    }
    table
};
