//! Where a chunked body stands (RFC 9112 §7.1), followed byte by byte and never decoded.

use memchr::memchr;

/// Where in a chunked body the stream stands (RFC 9112 §7.1).
pub struct Chunks {
    line: Vec<u8>,
    place: Place,
}

enum Place {
    Size,
    Data { left: u64 },
    DataEnd { cr: bool },
    Trailer { bytes: usize },
}

/// A chunk-size line with its extensions; hyper allows 16 KiB of extensions in all, no sane caller sends any.
const MAX_CHUNK_LINE: usize = 256;
const MAX_TRAILER: usize = 8 * 1024;

/// What is no chunk.
pub struct BrokenChunk;

impl Chunks {
    pub fn new() -> Self {
        Self {
            line: Vec::new(),
            place: Place::Size,
        }
    }

    /// Returns how many bytes belong to this body and whether it ended with them.
    pub fn follow(&mut self, bytes: &[u8]) -> Result<(usize, bool), BrokenChunk> {
        let mut at = 0;
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            match &mut self.place {
                Place::Data { left } => {
                    let step = usize::try_from(*left).unwrap_or(usize::MAX).min(rest.len());
                    *left -= step as u64;
                    at += step;
                    if *left == 0 {
                        self.place = Place::DataEnd { cr: false };
                    }
                }
                Place::DataEnd { cr } => {
                    match (*cr, rest.first()) {
                        (false, Some(b'\r')) => *cr = true,
                        (true, Some(b'\n')) => self.place = Place::Size,
                        _ => return Err(BrokenChunk),
                    }
                    at += 1;
                }
                Place::Size => {
                    let Some(step) = self.take_line(rest, MAX_CHUNK_LINE)? else {
                        return Ok((bytes.len(), false));
                    };
                    at += step;
                    let size = read_chunk_size(&self.line)?;
                    self.line = Vec::new();
                    self.place = if size == 0 {
                        Place::Trailer { bytes: 0 }
                    } else {
                        Place::Data { left: size }
                    };
                }
                Place::Trailer { bytes: seen } => {
                    let seen = *seen;
                    let Some(step) = self.take_line(rest, MAX_TRAILER - seen)? else {
                        return Ok((bytes.len(), false));
                    };
                    at += step;
                    let last = self.line.is_empty();
                    let seen = seen + self.line.len() + 2;
                    self.line = Vec::new();
                    if last {
                        return Ok((at, true));
                    }
                    if seen >= MAX_TRAILER {
                        return Err(BrokenChunk);
                    }
                    self.place = Place::Trailer { bytes: seen };
                }
            }
        }
        Ok((at, false))
    }

    /// Collects a line into `self.line` without its CRLF; `None` when it has not ended yet.
    fn take_line(&mut self, bytes: &[u8], most: usize) -> Result<Option<usize>, BrokenChunk> {
        let feed = memchr(b'\n', bytes);
        let part = bytes.get(..feed.unwrap_or(bytes.len())).unwrap_or_default();
        if self.line.len() + part.len() > most {
            return Err(BrokenChunk);
        }
        self.line.extend_from_slice(part);
        let Some(feed) = feed else { return Ok(None) };
        if self.line.pop() != Some(b'\r') || memchr(b'\r', &self.line).is_some() {
            return Err(BrokenChunk);
        }
        Ok(Some(feed + 1))
    }
}

fn read_chunk_size(line: &[u8]) -> Result<u64, BrokenChunk> {
    let digits = line.split(|byte| *byte == b';').next().unwrap_or_default();
    if digits.is_empty() || digits.len() > 15 || !digits.iter().all(u8::is_ascii_hexdigit) {
        return Err(BrokenChunk);
    }
    let text = std::str::from_utf8(digits).map_err(|_| BrokenChunk)?;
    u64::from_str_radix(text, 16).map_err(|_| BrokenChunk)
}
