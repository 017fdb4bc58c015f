//! A request head as bytes: where it ends, whether it is clean, how its message is framed (RFC 9112 §2 to §6).

use memchr::memchr;

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
    let tail_from = held.len().saturating_sub(3);
    let tail = held.get(tail_from..).unwrap_or_default();
    let seam: Vec<u8>;
    let (text, from) = if tail.is_empty() {
        (new, held.len())
    } else {
        seam = [tail, new].concat();
        (seam.as_slice(), tail_from)
    };
    let mut at = 0;
    let mut end = None;
    while let Some(found) = text.get(at..).and_then(|rest| memchr(b'\n', rest)) {
        let feed = at + found;
        let before = |back: usize| feed.checked_sub(back).and_then(|place| text.get(place)).copied();
        // A bare line feed is refused when the head is read; an empty line made of one ends the head all the same.
        if before(1) == Some(b'\n') || (before(1) == Some(b'\r') && before(2) == Some(b'\n')) {
            end = Some(from + feed + 1);
            break;
        }
        at = feed + 1;
    }
    let size = end.unwrap_or(held.len() + new.len());
    if size > bounds.header_bytes {
        // A head whose first line alone is too long has a target that is.
        let first_line = memchr(b'\n', held).or_else(|| memchr(b'\n', new).map(|at| held.len() + at));
        return Err(match first_line {
            Some(line) if line <= bounds.target_bytes + 32 => Reason::HeaderTooLarge,
            _ => Reason::TargetTooLong,
        });
    }
    Ok(end)
}

/// Checks one whole head and tells how its message is framed.
pub fn read_head(head: &[u8], bounds: Bounds) -> Result<Framing, Reason> {
    let mut lines = Lines(head);
    // RFC 9112 §2.2 lets a server skip an empty line before a request; there is no reason to.
    let request_line = lines.next().ok_or(Reason::BadHead)??;
    let version = read_request_line(request_line, bounds)?;
    let mut fields = 0;
    let mut length: Option<u64> = None;
    let mut chunked = false;
    let mut hosts = 0;
    for line in lines {
        let line = line?;
        if line.is_empty() {
            break;
        }
        fields += 1;
        if fields > bounds.header_fields {
            return Err(Reason::HeaderTooLarge);
        }
        let colon = memchr(b':', line).ok_or(Reason::BadHead)?;
        let (name, value) = line.split_at(colon);
        // No space before the colon, no continuation line, no empty name (RFC 9112 §5.1, §5.2).
        if name.is_empty() || !name.iter().all(|byte| is_token(*byte)) {
            return Err(Reason::BadHead);
        }
        let value = value.get(1..).unwrap_or_default().trim_ascii();
        // Without a branch inside, so that the compiler makes vector instructions of it.
        let forbidden = |byte: u8| ((byte < 0x20) & (byte != b'\t')) | (byte == 0x7f);
        if value.iter().fold(false, |found, byte| found | forbidden(*byte)) {
            return Err(Reason::BadHead);
        }
        if name.eq_ignore_ascii_case(b"content-length") {
            if length.is_some() {
                return Err(Reason::BadHead);
            }
            length = Some(read_length(value)?);
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            if chunked || !value.eq_ignore_ascii_case(b"chunked") || version == Version::Http10 {
                return Err(Reason::BadHead);
            }
            chunked = true;
        } else if name.eq_ignore_ascii_case(b"host") {
            hosts += 1;
        }
    }
    if hosts != 1 || (chunked && length.is_some()) {
        return Err(Reason::BadHead);
    }
    Ok(match (chunked, length) {
        (true, _) => Framing::Chunked,
        (false, None | Some(0)) => Framing::None,
        (false, Some(length)) => Framing::Length(length),
    })
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

/// The lines of a head without their ends; a bare line feed or carriage return is an error.
struct Lines<'a>(&'a [u8]);

impl<'a> Iterator for Lines<'a> {
    type Item = Result<&'a [u8], Reason>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let feed = memchr(b'\n', self.0)?;
        let (line, rest) = self.0.split_at(feed);
        self.0 = rest.get(1..).unwrap_or_default();
        Some(match line.split_last() {
            Some((b'\r', line)) if memchr(b'\r', line).is_none() => Ok(line),
            _ => Err(Reason::BadHead),
        })
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
