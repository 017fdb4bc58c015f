//! A chunked body (RFC 9112 §7.1), decoded strictly and without copying.
//!
//! Only CRLF ends a line. Extensions and trailers are bounded and thrown away.

use bytes::{Buf, Bytes};

use super::Error;

/// Extensions of one chunk; nobody honest sends any.
const EXTENSION: u16 = 256;
/// All trailers together.
const TRAILERS: u16 = 8 * 1024;
/// Hexadecimal digits of a size: more bytes than there are.
const DIGITS: u8 = 15;

/// Where in a chunked body the stream stands.
#[derive(Clone, Copy, Debug)]
pub enum Chunks {
    Size {
        size: u64,
        digits: u8,
    },
    Extension {
        size: u64,
        bytes: u16,
    },
    SizeFeed {
        size: u64,
    },
    Data {
        left: u64,
    },
    DataReturn,
    DataFeed,
    /// At the end of a line that says nothing, all is over.
    Trailer {
        bytes: u16,
        line: bool,
    },
    TrailerFeed {
        bytes: u16,
        line: bool,
    },
    End,
    Broken,
}

impl Chunks {
    pub const START: Self = Self::Size { size: 0, digits: 0 };

    /// The next data in the input, up to the end of a chunk; `None`: all of the input was taken, or the body is over. What
    /// follows the data and is no data is taken with it, so that the end is known as soon as it is here; if it is malformed,
    /// the next look says so.
    pub fn next(&mut self, input: &mut Bytes) -> Result<Option<Bytes>, Error> {
        self.skip(input)?;
        let Self::Data { left } = self else { return Ok(None) };
        let size = usize::try_from(*left).unwrap_or(usize::MAX).min(input.len());
        if size == 0 {
            return Ok(None);
        }
        *left -= size as u64;
        if *left == 0 {
            *self = Self::DataReturn;
        }
        let data = input.split_to(size);
        if self.skip(input).is_err() {
            *self = Self::Broken;
        }
        Ok(Some(data))
    }

    /// Goes on to data, or to the end.
    fn skip(&mut self, input: &mut Bytes) -> Result<(), Error> {
        let mut taken = 0;
        for byte in input.iter() {
            if matches!(self, Self::Data { .. } | Self::End) {
                break;
            }
            *self = self.after(*byte).ok_or(Error::Chunk)?;
            taken += 1;
        }
        input.advance(taken);
        Ok(())
    }

    /// Where it stands after a byte that is no data.
    fn after(self, byte: u8) -> Option<Self> {
        Some(match (self, byte) {
            (Self::Size { size, digits: 1.. }, b'\r') => Self::SizeFeed { size },
            (Self::Size { size, digits: 1.. }, b';') => Self::Extension { size, bytes: 0 },
            (Self::Size { size, digits }, byte) if digits < DIGITS => Self::Size {
                size: size * 16 + u64::from(char::from(byte).to_digit(16)?),
                digits: digits + 1,
            },
            (Self::Extension { size, .. }, b'\r') => Self::SizeFeed { size },
            (Self::Extension { size, bytes }, byte) if byte != b'\n' && bytes < EXTENSION => {
                Self::Extension { size, bytes: bytes + 1 }
            }
            (Self::SizeFeed { size: 0 }, b'\n') => Self::Trailer { bytes: 0, line: false },
            (Self::SizeFeed { size: left }, b'\n') => Self::Data { left },
            (Self::DataReturn, b'\r') => Self::DataFeed,
            (Self::DataFeed, b'\n') => Self::START,
            (Self::Trailer { bytes, line }, b'\r') => Self::TrailerFeed { bytes, line },
            (Self::Trailer { bytes, .. }, byte) if byte != b'\n' && bytes < TRAILERS => Self::Trailer {
                bytes: bytes + 1,
                line: true,
            },
            (Self::TrailerFeed { line: false, .. }, b'\n') => Self::End,
            (Self::TrailerFeed { bytes, line: true }, b'\n') => Self::Trailer { bytes, line: false },
            _ => return None,
        })
    }
}
