//! The wire format of protobuf, as far as ids are read from it: fields one after the other, borrowed from the message.
//!
//! Nothing is allocated, and nothing below the fields that are asked for is looked at. Stricter than the format in one
//! thing: a field that is known and has another wire type than its own is refused, where readers of other languages skip
//! it, so that nobody can be shown one id while another is acted on.

use std::fmt;

/// Why bytes are no protobuf message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WireError {
    /// It ends within a field, or a length points behind its end.
    Cut,
    /// A number of more than 64 bits, or a field number that there cannot be.
    Number,
    /// A wire type that there is not, or not the field's.
    Kind,
    /// A string that is not UTF-8.
    Text,
    /// Groups in groups without end.
    Deep,
}

impl WireError {
    /// The label in logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cut => "cut_off",
            Self::Number => "bad_number",
            Self::Kind => "bad_wire_type",
            Self::Text => "not_utf8",
            Self::Deep => "too_deep",
        }
    }

    pub(super) fn message(self) -> &'static str {
        match self {
            Self::Cut => "the protobuf message is cut off",
            Self::Number => "the protobuf message has a number that there cannot be",
            Self::Kind => "a protobuf field has a wrong wire type",
            Self::Text => "a protobuf string is not UTF-8",
            Self::Deep => "the protobuf message is nested too deeply",
        }
    }
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

impl std::error::Error for WireError {}

/// Deepest nesting of groups; that of protobuf readers for messages.
const MAX_GROUPS: usize = 100;

/// The content of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field<'a> {
    Varint(u64),
    /// A string, bytes or a message.
    Bytes(&'a [u8]),
    /// Fixed widths and groups, which nothing here has.
    Other,
}

impl<'a> Field<'a> {
    pub(super) fn text(self) -> Result<&'a str, WireError> {
        std::str::from_utf8(self.message()?).map_err(|_| WireError::Text)
    }

    pub(super) fn message(self) -> Result<&'a [u8], WireError> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            Self::Varint(_) | Self::Other => Err(WireError::Kind),
        }
    }

    /// Of an enum, which has 32 bits: readers drop the others.
    pub(super) fn enumerated(self) -> Result<u64, WireError> {
        match self {
            Self::Varint(number) => Ok(number & u64::from(u32::MAX)),
            Self::Bytes(_) | Self::Other => Err(WireError::Kind),
        }
    }
}

/// Calls back with each field of a message, in its order.
pub(super) fn walk<'a, E: From<WireError>>(
    message: &'a [u8],
    mut each: impl FnMut(u32, Field<'a>) -> Result<(), E>,
) -> Result<(), E> {
    let mut rest = Rest(message);
    while !rest.0.is_empty() {
        let (number, kind) = rest.tag()?;
        each(number, rest.field(number, kind, 0)?)?;
    }
    Ok(())
}

/// The same with each field as it is written, its tag included.
pub(super) fn pieces<'a>(message: &'a [u8], mut each: impl FnMut(u32, &'a [u8])) -> Result<(), WireError> {
    let mut rest = Rest(message);
    while !rest.0.is_empty() {
        let before = rest.0;
        let (number, kind) = rest.tag()?;
        rest.field(number, kind, 0)?;
        each(number, before.get(..before.len() - rest.0.len()).unwrap_or_default());
    }
    Ok(())
}

/// Appends a field that is text.
pub(super) fn put_text(out: &mut Vec<u8>, number: u8, text: &str) {
    out.push(number << 3 | 2);
    let mut length = text.len();
    loop {
        let seven = u8::try_from(length & 0x7f).unwrap_or_default();
        length >>= 7;
        out.push(if length > 0 { seven | 0x80 } else { seven });
        if length == 0 {
            break;
        }
    }
    out.extend_from_slice(text.as_bytes());
}

struct Rest<'a>(&'a [u8]);

const END_GROUP: u8 = 4;

impl<'a> Rest<'a> {
    fn tag(&mut self) -> Result<(u32, u8), WireError> {
        let tag = u32::try_from(self.varint()?).map_err(|_| WireError::Number)?;
        let number = tag >> 3;
        if number == 0 {
            return Err(WireError::Number);
        }
        Ok((number, (tag & 7) as u8))
    }

    fn field(&mut self, number: u32, kind: u8, depth: usize) -> Result<Field<'a>, WireError> {
        Ok(match kind {
            0 => Field::Varint(self.varint()?),
            1 => {
                self.take(8)?;
                Field::Other
            }
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_| WireError::Cut)?;
                Field::Bytes(self.take(length)?)
            }
            3 => {
                self.group(number, depth + 1)?;
                Field::Other
            }
            5 => {
                self.take(4)?;
                Field::Other
            }
            _ => return Err(WireError::Kind),
        })
    }

    /// Skips to behind the end of a group.
    fn group(&mut self, number: u32, depth: usize) -> Result<(), WireError> {
        if depth > MAX_GROUPS {
            return Err(WireError::Deep);
        }
        loop {
            let (inner, kind) = self.tag()?;
            if kind == END_GROUP {
                return if inner == number { Ok(()) } else { Err(WireError::Kind) };
            }
            self.field(inner, kind, depth)?;
        }
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], WireError> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(WireError::Cut)?;
        self.0 = rest;
        Ok(taken)
    }

    fn varint(&mut self) -> Result<u64, WireError> {
        let mut number = 0;
        for (index, &byte) in self.0.iter().enumerate().take(10) {
            // Of the tenth byte one bit is left.
            if index == 9 && byte > 1 {
                return Err(WireError::Number);
            }
            number |= u64::from(byte & 0x7f) << (7 * index);
            if byte < 0x80 {
                self.take(index + 1)?;
                return Ok(number);
            }
        }
        Err(if self.0.len() < 10 {
            WireError::Cut
        } else {
            WireError::Number
        })
    }
}
