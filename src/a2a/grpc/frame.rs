//! Messages on a gRPC stream: a byte that says whether one is compressed, its length in four bytes, and the message
//! (gRPC over HTTP/2, "Length-Prefixed-Message").
//!
//! No compression is negotiated, so none is accepted. A message that arrives whole is not copied. What is held is what was
//! given and not yet taken, never what a length promises.

use std::fmt;

use bytes::{Buf, BufMut, Bytes, BytesMut};

/// Why a stream is none of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FrameError {
    TooLarge,
    /// The message is compressed, which nobody has offered to read.
    Compressed,
    /// The first byte is neither 0 nor 1.
    Flag,
    /// Nothing, a part of a message, or more than one, where one is all that there may be.
    NotOne,
}

impl FrameError {
    /// The label in logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::TooLarge => "message_too_large",
            Self::Compressed => "message_compressed",
            Self::Flag => "bad_message_flag",
            Self::NotOne => "not_one_message",
        }
    }

    /// The text for the caller.
    pub fn message(self) -> &'static str {
        match self {
            Self::TooLarge => "the message is too large",
            Self::Compressed => "the message is compressed, and no compression was agreed on",
            Self::Flag => "the message does not begin as gRPC messages do",
            Self::NotOne => "a call is one message, and the body is not",
        }
    }
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

impl std::error::Error for FrameError {}

/// Bytes before each message.
pub const PREFIX_BYTES: usize = 5;

/// Takes messages out of a stream of bytes that comes in pieces of any size.
#[derive(Debug)]
pub struct Frames {
    most: usize,
    /// What has been given before `rest` and is no whole message by itself.
    begun: BytesMut,
    rest: Bytes,
}

impl Frames {
    /// `most`: the longest message, without its prefix.
    pub fn new(most: usize) -> Self {
        Self {
            most,
            begun: BytesMut::new(),
            rest: Bytes::new(),
        }
    }

    /// Gives the next piece. To hold no more than one message and one piece, take all messages before the next.
    pub fn push(&mut self, bytes: Bytes) {
        self.begun.extend_from_slice(&self.rest);
        self.rest = bytes;
    }

    /// Takes the next message, if all of it is there. An error stays.
    pub fn take(&mut self) -> Result<Option<Bytes>, FrameError> {
        if self.begun.is_empty() {
            if let Some(length) = self.length(&self.rest)?
                && self.rest.len() - PREFIX_BYTES >= length
            {
                self.rest.advance(PREFIX_BYTES);
                return Ok(Some(self.rest.split_to(length)));
            }
        } else {
            self.fill(PREFIX_BYTES);
            if let Some(length) = self.length(&self.begun)? {
                self.fill(PREFIX_BYTES + length);
                if self.begun.len() - PREFIX_BYTES >= length {
                    self.begun.advance(PREFIX_BYTES);
                    return Ok(Some(self.begun.split_to(length).freeze()));
                }
            }
        }
        // The piece may be a small part of a large buffer, which would be held with it.
        self.fill(usize::MAX);
        Ok(None)
    }

    /// The stream has ended within a message, if it ended here. To be asked after `take` has given its last.
    pub fn has_partial(&self) -> bool {
        !self.begun.is_empty() || !self.rest.is_empty()
    }

    /// Moves what `begun` lacks of this length, as far as it is there.
    fn fill(&mut self, length: usize) {
        let lacking = length.saturating_sub(self.begun.len()).min(self.rest.len());
        self.begun.extend_from_slice(&self.rest.split_to(lacking));
    }

    /// The length of the message that begins here, if its prefix is there.
    fn length(&self, bytes: &[u8]) -> Result<Option<usize>, FrameError> {
        let (flag, length) = match bytes {
            [flag, a, b, c, d, ..] => (flag, Some(u32::from_be_bytes([*a, *b, *c, *d]))),
            [flag, ..] => (flag, None),
            [] => return Ok(None),
        };
        match flag {
            0 => {}
            1 => return Err(FrameError::Compressed),
            _ => return Err(FrameError::Flag),
        }
        let Some(length) = length else {
            return Ok(None);
        };
        match usize::try_from(length) {
            Ok(length) if length <= self.most => Ok(Some(length)),
            Ok(_) | Err(_) => Err(FrameError::TooLarge),
        }
    }
}

/// The message that is all of a body: no method of A2A takes several, and where one answers a stream, it is read as one.
pub fn only_message(body: Bytes, most: usize) -> Result<Bytes, FrameError> {
    let mut frames = Frames::new(most);
    frames.push(body);
    let message = frames.take()?.ok_or(FrameError::NotOne)?;
    if frames.has_partial() {
        return Err(FrameError::NotOne);
    }
    Ok(message)
}

/// A message with its prefix.
pub fn frame(message: &[u8]) -> Result<Bytes, FrameError> {
    let length = u32::try_from(message.len()).map_err(|_| FrameError::TooLarge)?;
    let mut out = BytesMut::with_capacity(PREFIX_BYTES + message.len());
    out.put_u8(0);
    out.put_u32(length);
    out.extend_from_slice(message);
    Ok(out.freeze())
}
