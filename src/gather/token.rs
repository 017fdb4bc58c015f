//! The gateway's own page tokens: where a walk stands, sealed, so that the caller carries it and nobody reads or changes it.
//!
//! A token is what `seal` makes of the endpoints' cursors. Agent, principal and question are bound to it as additional data,
//! not written into it: a token of another one of them does not open.
//!
//! Endpoints are named by marks of their URLs: an order or a URL is nobody's business. Bounded by `MAX_CURSOR` an endpoint.

use std::time::Duration;

use super::walk::{Last, Mark, Place};
use crate::a2a::listing::Stamp;
use crate::config;
use crate::seal::{self, Keys};

/// Longest cursor of an endpoint. Those of the official SDKs have about a hundred bytes.
pub const MAX_CURSOR: usize = 4096;
/// Longest token that is looked into: room for the longest cursors of a hundred endpoints.
const MAX_TOKEN: usize = 1024 * 1024;

pub struct Tokens {
    keys: Keys,
    lifetime: Duration,
}

/// What a token holds for, and nothing else.
#[derive(Clone, Copy, Debug)]
pub struct Binding<'a> {
    pub agent: &'a str,
    pub principal: &'a str,
    pub question: &'a [u8],
}

/// A walk between two pages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Walked {
    /// Tasks listed so far.
    pub listed: u64,
    pub endpoints: Vec<Stood>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stood {
    pub endpoint: Mark,
    pub total: Option<u64>,
    /// `None` when all its tasks were listed.
    pub place: Option<Place>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("the page token is none of this gateway's for this agent, caller and question")]
    Invalid,
    #[error("the page token has expired")]
    Expired,
    #[error("no key can be made")]
    Key,
    #[error("the page token would be too long")]
    TooLong,
}

impl Tokens {
    /// Without keys one is made, which lasts as long as the process.
    pub fn build(config: &config::PageTokens) -> Result<Self, Error> {
        let keys = Keys::build(&config.keys).map_err(|seal::Error| Error::Key)?;
        Ok(Self {
            keys,
            lifetime: config.lifetime,
        })
    }

    /// `now` in Unix seconds.
    pub fn seal(&self, binding: Binding<'_>, walked: &Walked, now: u64) -> Result<String, Error> {
        let bytes = walked.write(now.saturating_add(self.lifetime.as_secs()));
        let sealed = self.keys.seal(&binding.purpose(), bytes);
        let token = sealed.map_err(|seal::Error| Error::Key)?;
        if token.len() > MAX_TOKEN {
            return Err(Error::TooLong);
        }
        Ok(token)
    }

    /// Where a caller stands in a list of something else than tasks, by whatever that list goes. The same place gives the same token,
    /// for as long as there is the key.
    pub fn seal_place(&self, binding: Binding<'_>, place: &[u8]) -> Result<String, Error> {
        let sealed = self.keys.seal_alike(&binding.purpose(), place.to_vec());
        sealed.map_err(|seal::Error| Error::Key)
    }

    pub fn open_place(&self, binding: Binding<'_>, token: &str) -> Result<Vec<u8>, Error> {
        let opened = (token.len() <= MAX_TOKEN).then(|| self.keys.open(&binding.purpose(), token));
        opened.flatten().ok_or(Error::Invalid)
    }

    pub fn open(&self, binding: Binding<'_>, token: &str, now: u64) -> Result<Walked, Error> {
        if token.len() > MAX_TOKEN {
            return Err(Error::Invalid);
        }
        let opened = self.keys.open(&binding.purpose(), token).ok_or(Error::Invalid)?;
        let (walked, until) = Walked::read(&opened).ok_or(Error::Invalid)?;
        if until < now { Err(Error::Expired) } else { Ok(walked) }
    }
}

impl Binding<'_> {
    fn purpose(self) -> Vec<u8> {
        let mut out = Vec::new();
        for part in [self.agent.as_bytes(), self.principal.as_bytes(), self.question] {
            seal::put(&mut out, part);
        }
        out
    }
}

fn put(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(&number.to_be_bytes());
}

const HAS_TOTAL: u8 = 1;
const HAS_PLACE: u8 = 2;
const HAS_LAST: u8 = 4;
const HAS_STAMP: u8 = 8;

impl Walked {
    fn write(&self, until: u64) -> Vec<u8> {
        let mut out = Vec::new();
        put(&mut out, until);
        put(&mut out, self.listed);
        for stood in &self.endpoints {
            let last = stood.place.as_ref().and_then(|place| place.last);
            let stamp = last.and_then(|last| last.changed);
            let has = |flag: u8, there: bool| if there { flag } else { 0 };
            out.extend_from_slice(&stood.endpoint);
            out.push(
                has(HAS_TOTAL, stood.total.is_some())
                    | has(HAS_PLACE, stood.place.is_some())
                    | has(HAS_LAST, last.is_some())
                    | has(HAS_STAMP, stamp.is_some()),
            );
            if let Some(total) = stood.total {
                put(&mut out, total);
            }
            if let Some(place) = &stood.place {
                put(&mut out, place.used as u64);
                put(&mut out, place.cursor.len() as u64);
                out.extend_from_slice(place.cursor.as_bytes());
            }
            if let Some(last) = last {
                out.extend_from_slice(&last.task);
            }
            if let Some(stamp) = stamp {
                out.extend_from_slice(&stamp.seconds.to_be_bytes());
                put(&mut out, stamp.fraction);
            }
        }
        out
    }

    /// With the moment until which it holds.
    fn read(bytes: &[u8]) -> Option<(Self, u64)> {
        let mut reader = Reader(bytes);
        let until = reader.number()?;
        let listed = reader.number()?;
        let mut endpoints = Vec::new();
        while !reader.0.is_empty() {
            endpoints.push(reader.stood()?);
        }
        Some((Self { listed, endpoints }, until))
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*array)
    }

    fn number(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    fn stood(&mut self) -> Option<Stood> {
        let endpoint = self.array()?;
        let [flags] = self.array()?;
        let total = if flags & HAS_TOTAL == 0 {
            None
        } else {
            Some(self.number()?)
        };
        let mut place = None;
        if flags & HAS_PLACE != 0 {
            let used = usize::try_from(self.number()?).ok()?;
            let length = usize::try_from(self.number()?).ok()?;
            let (cursor, rest) = self.0.split_at_checked(length)?;
            self.0 = rest;
            place = Some(Place {
                cursor: String::from_utf8(cursor.to_vec()).ok()?,
                used,
                last: None,
            });
        }
        if flags & HAS_LAST != 0 {
            let task = self.array()?;
            let changed = if flags & HAS_STAMP == 0 {
                None
            } else {
                Some(Stamp {
                    seconds: self.array().map(i64::from_be_bytes)?,
                    fraction: self.number()?,
                })
            };
            place.as_mut()?.last = Some(Last { task, changed });
        }
        Some(Stood { endpoint, total, place })
    }
}
