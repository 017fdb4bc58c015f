//! The texts of gRPC's headers: `grpc-message` and `grpc-timeout` (gRPC over HTTP/2, "Requests", "Responses").

// Of `std::time` nothing else is pure.
use core::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_PAD_INDIFFERENT;
use bytes::Bytes;

/// How a call ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// `grpc-status`.
    pub code: u32,
    /// `grpc-message`, decoded (`decode_message`).
    pub message: String,
    /// A `google.rpc.Status`, decoded from `grpc-status-details-bin` (`decode_details`).
    pub details: Option<Bytes>,
}

/// A `grpc-message` as it stands in the header: whatever is no printable ASCII, and `%`, as the hex digits of its bytes.
pub fn encode_message(message: &str) -> String {
    const HEX: [char; 16] = [
        '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'A', 'B', 'C', 'D', 'E', 'F',
    ];
    let digit = |value: u8| HEX.get(usize::from(value)).copied().unwrap_or_default();
    let mut out = String::with_capacity(message.len());
    for byte in message.bytes() {
        if matches!(byte, b' '..=b'~') && byte != b'%' {
            out.push(char::from(byte));
        } else {
            out.extend(['%', digit(byte >> 4), digit(byte & 15)]);
        }
    }
    out
}

/// Never fails: what is no encoding stays as it is, what is not UTF-8 is replaced, as the standard wants it.
pub fn decode_message(header: &[u8]) -> String {
    let mut bytes = Vec::with_capacity(header.len());
    let mut rest = header;
    while let [first, after @ ..] = rest {
        let decoded = match rest {
            [b'%', high, low, ..] => hex(*high).zip(hex(*low)).map(|(high, low)| high << 4 | low),
            _ => None,
        };
        bytes.push(decoded.unwrap_or(*first));
        rest = if decoded.is_some() {
            rest.get(3..).unwrap_or_default()
        } else {
            after
        };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit)
        .to_digit(16)
        .and_then(|value| u8::try_from(value).ok())
}

/// `grpc-status-details-bin`, padded or not.
pub fn decode_details(header: &[u8]) -> Option<Bytes> {
    STANDARD_PAD_INDIFFERENT.decode(header).ok().map(Bytes::from)
}

/// Without padding, as the standard wants it of writers.
pub fn encode_details(details: &[u8]) -> String {
    let mut text = STANDARD_PAD_INDIFFERENT.encode(details);
    text.truncate(text.trim_end_matches('=').len());
    text
}

/// A `grpc-timeout` of whole milliseconds, or of seconds where those are too many: never none, which would be no time at all.
pub fn write_timeout(left: Duration) -> String {
    const MOST: u128 = 99_999_999;
    match left.as_millis() {
        milliseconds @ 0..=MOST => format!("{}m", milliseconds.max(1)),
        milliseconds => format!("{}S", (milliseconds / 1000).min(MOST)),
    }
}

/// A `grpc-timeout`: at most eight digits and a unit.
pub fn read_timeout(value: &str) -> Option<Duration> {
    let (unit, digits) = value.as_bytes().split_last()?;
    if digits.is_empty() || digits.len() > 8 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let amount: u64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    Some(match unit {
        b'H' => Duration::from_secs(amount * 3600),
        b'M' => Duration::from_secs(amount * 60),
        b'S' => Duration::from_secs(amount),
        b'm' => Duration::from_millis(amount),
        b'u' => Duration::from_micros(amount),
        b'n' => Duration::from_nanos(amount),
        _ => return None,
    })
}
