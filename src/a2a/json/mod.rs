//! JSON read in one pass, without a tree.
//!
//! A `Cursor` walks the whole body and hands the few members that somebody asks for to a closure, borrowed. Everything it
//! passes over is checked as well: RFC 8259 syntax, UTF-8, surrogates in escapes, nesting, the digits of numbers, and, in a
//! `Strict` walk, that no object has two members of one name (compared after unescaping), at any level. So what is forwarded
//! reads the same to every parser. A `Lenient` walk leaves repeated names out, and UTF-8 but in the text that somebody asks
//! for; it is for agents' answers, which nobody is authorised by.
//!
//! Allocates only for objects of more than `names::SMALL` members. Does not turn numbers into values, and deliberately
//! knows nothing of JSON-RPC.

mod block;
mod characters;
mod names;
mod scan;
#[cfg(test)]
mod tests;
mod text;

use std::fmt;

use fearless_simd::Level;
use names::Names;
use scan::Strings;
pub use text::{Name, Text, write_text};

/// A walk that refuses repeated member names.
pub type Strict<'a> = Cursor<'a, true>;

/// A walk that lets repeated member names pass.
pub type Lenient<'a> = Cursor<'a, false>;

/// How much a document may ask of whoever parses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most arrays and objects within each other; `MAX_DEPTH` at most.
    pub depth: usize,
    /// Most digits of one number, its exponent included.
    pub digits: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            depth: 128,
            digits: 308,
        }
    }
}

/// Nesting beyond this is refused whatever the configuration says: the walk recurses, on a stack of 2 MiB.
pub const MAX_DEPTH: usize = 512;

/// Documents beyond this are refused: positions of names are kept in 31 bits.
const MAX_BYTES: usize = (1 << 31) - 1;

/// Why a document is refused, and where in its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error {
    pub kind: ErrorKind,
    pub at: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// Not JSON (RFC 8259), or it ends too early; a byte order mark too (§8.1).
    Syntax,
    InvalidUtf8,
    /// Half of a surrogate pair in an escape: no text, and parsers differ on it.
    Surrogate,
    DuplicateName,
    TooDeep,
    NumberTooLong,
    /// Something stands after the end of the document.
    TrailingData,
    TooLong,
}

impl ErrorKind {
    pub const ALL: [Self; 8] = [
        Self::Syntax,
        Self::InvalidUtf8,
        Self::Surrogate,
        Self::DuplicateName,
        Self::TooDeep,
        Self::NumberTooLong,
        Self::TrailingData,
        Self::TooLong,
    ];

    /// The label in logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Syntax => "json_syntax",
            Self::InvalidUtf8 => "json_invalid_utf8",
            Self::Surrogate => "json_lone_surrogate",
            Self::DuplicateName => "json_duplicate_name",
            Self::TooDeep => "json_too_deep",
            Self::NumberTooLong => "json_number_too_long",
            Self::TrailingData => "json_trailing_data",
            Self::TooLong => "json_too_long",
        }
    }

    /// The text for whoever sent the document; quotes nothing of it.
    pub fn message(self) -> &'static str {
        match self {
            Self::Syntax => "the body is not valid JSON",
            Self::InvalidUtf8 => "the body is not valid UTF-8",
            Self::Surrogate => "the body has a lone surrogate in a string",
            Self::DuplicateName => "an object in the body has two members of one name",
            Self::TooDeep => "the body is nested too deeply",
            Self::NumberTooLong => "the body has a number with too many digits",
            Self::TrailingData => "the body goes on after its JSON value",
            Self::TooLong => "the body is too long",
        }
    }

    /// The document is JSON by its grammar, but more or less than one reading of it.
    pub fn is_well_formed(self) -> bool {
        match self {
            Self::DuplicateName | Self::TooDeep | Self::NumberTooLong | Self::TooLong => true,
            Self::Syntax | Self::InvalidUtf8 | Self::Surrogate | Self::TrailingData => false,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (byte {})", self.kind.message(), self.at)
    }
}

impl std::error::Error for Error {}

/// What the value under the cursor begins as; it may still turn out to be broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Object,
    Array,
    Text,
    Number,
    Bool,
    Null,
    /// No value begins here.
    Nothing,
}

/// A value of which only text matters.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    Null,
    Text(Text<'a>),
    /// A value of another kind, checked and passed over.
    Other,
}

/// A position in a document; always at the first byte of a value when a closure gets it.
///
/// After an error the cursor must not be used further, except for `level` and `at`.
pub struct Cursor<'a, const UNIQUE: bool> {
    bytes: &'a [u8],
    at: usize,
    level: usize,
    limits: Limits,
    strings: Strings<UNIQUE>,
}

impl<'a, const UNIQUE: bool> Cursor<'a, UNIQUE> {
    /// Stands at the document's value.
    pub fn new(body: &'a [u8], limits: Limits) -> Result<Self, Error> {
        if body.len() > MAX_BYTES {
            return Err(Error {
                kind: ErrorKind::TooLong,
                at: MAX_BYTES,
            });
        }
        let mut cursor = Self {
            bytes: body,
            at: 0,
            level: 0,
            limits: Limits {
                depth: limits.depth.min(MAX_DEPTH),
                digits: limits.digits,
            },
            strings: Strings::new(Level::new()),
        };
        cursor.space();
        Ok(cursor)
    }

    /// The byte under the cursor.
    pub fn at(&self) -> usize {
        self.at
    }

    /// How many arrays and objects are open around the cursor.
    pub fn level(&self) -> usize {
        self.level
    }

    pub fn kind(&self) -> Kind {
        match self.peek() {
            Some(b'{') => Kind::Object,
            Some(b'[') => Kind::Array,
            Some(b'"') => Kind::Text,
            Some(b'-' | b'0'..=b'9') => Kind::Number,
            Some(b't' | b'f') => Kind::Bool,
            Some(b'n') => Kind::Null,
            Some(_) | None => Kind::Nothing,
        }
    }

    /// Reads an object: `member` gets every name with the cursor at its value, which it must consume, and no more.
    pub fn object<E: From<Error>>(
        &mut self,
        mut member: impl FnMut(&mut Self, Name<'a>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.open(b'{')?;
        if self.eat(b'}') {
            self.level -= 1;
            return Ok(());
        }
        let mut names = Names::new();
        loop {
            let at = self.at;
            let (start, end, escaped) = self.string()?;
            let name = Name::new(self.bytes.get(start..end).unwrap_or_default(), escaped);
            if UNIQUE && !names.insert(self.bytes, start, name) {
                return Err(self.refuse(ErrorKind::DuplicateName, at).into());
            }
            self.space();
            self.expect(b':')?;
            self.space();
            member(self, name)?;
            self.space();
            if self.eat(b',') {
                self.space();
            } else {
                self.expect(b'}')?;
                self.level -= 1;
                return Ok(());
            }
        }
    }

    /// Reads an array: `element` gets the cursor at each value, which it must consume, and no more.
    pub fn array<E: From<Error>>(&mut self, mut element: impl FnMut(&mut Self) -> Result<(), E>) -> Result<(), E> {
        self.open(b'[')?;
        if self.eat(b']') {
            self.level -= 1;
            return Ok(());
        }
        loop {
            element(self)?;
            self.space();
            if self.eat(b',') {
                self.space();
            } else {
                self.expect(b']')?;
                self.level -= 1;
                return Ok(());
            }
        }
    }

    /// Reads a string.
    pub fn text(&mut self) -> Result<Text<'a>, Error> {
        let (start, end, escaped) = self.string()?;
        Ok(Text::new(self.slice(start, end)?, escaped))
    }

    /// Passes over a string; gives where it begins and ends between its quotes, and whether it has escapes.
    #[inline]
    fn string(&mut self) -> Result<(usize, usize, bool), Error> {
        self.expect(b'"')?;
        let start = self.at;
        let (end, escaped) = self.strings.end(self.bytes, start)?;
        self.at = end + 1;
        Ok((start, end, escaped))
    }

    /// Reads any value of which only text matters.
    pub fn value(&mut self) -> Result<Value<'a>, Error> {
        match self.kind() {
            Kind::Text => self.text().map(Value::Text),
            Kind::Null => self.skip().map(|()| Value::Null),
            Kind::Object | Kind::Array | Kind::Number | Kind::Bool | Kind::Nothing => {
                self.skip().map(|()| Value::Other)
            }
        }
    }

    /// Checks a value, and gives it as it is written.
    pub fn raw(&mut self) -> Result<&'a str, Error> {
        let start = self.at;
        self.skip()?;
        self.slice(start, self.at)
    }

    fn slice(&self, start: usize, end: usize) -> Result<&'a str, Error> {
        utf8(self.bytes.get(start..end).unwrap_or_default(), start)
    }

    /// Checks a value and passes over it.
    pub fn skip(&mut self) -> Result<(), Error> {
        match self.peek() {
            Some(b'"') => {
                let (end, _) = self.strings.end(self.bytes, self.at + 1)?;
                self.at = end + 1;
                Ok(())
            }
            Some(b'{') => self.object(|cursor, _| cursor.skip()),
            Some(b'[') => self.array(Self::skip),
            Some(b't') => self.literal(b"true"),
            Some(b'f') => self.literal(b"false"),
            Some(b'n') => self.literal(b"null"),
            Some(b'-' | b'0'..=b'9') => {
                self.at = scan::number(self.bytes, self.at, self.limits.digits)?;
                Ok(())
            }
            Some(_) | None => Err(self.refuse(ErrorKind::Syntax, self.at)),
        }
    }

    /// Nothing but white space may follow the document's value.
    pub fn finish(mut self) -> Result<(), Error> {
        self.space();
        if self.peek().is_none() {
            Ok(())
        } else {
            Err(self.refuse(ErrorKind::TrailingData, self.at))
        }
    }

    fn open(&mut self, bracket: u8) -> Result<(), Error> {
        if self.level >= self.limits.depth {
            return Err(self.refuse(ErrorKind::TooDeep, self.at));
        }
        self.expect(bracket)?;
        self.level += 1;
        self.space();
        Ok(())
    }

    fn literal(&mut self, literal: &[u8]) -> Result<(), Error> {
        let end = self.at + literal.len();
        if self.bytes.get(self.at..end) == Some(literal) {
            self.at = end;
            Ok(())
        } else {
            Err(self.refuse(ErrorKind::Syntax, self.at))
        }
    }

    fn expect(&mut self, byte: u8) -> Result<(), Error> {
        if self.eat(byte) {
            Ok(())
        } else {
            Err(self.refuse(ErrorKind::Syntax, self.at))
        }
    }

    fn eat(&mut self, byte: u8) -> bool {
        let hit = self.peek() == Some(byte);
        self.at += usize::from(hit);
        hit
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    fn refuse(&self, kind: ErrorKind, at: usize) -> Error {
        Error { kind, at }
    }
}

impl Lenient<'_> {
    /// Passes over a value that nobody reads; of an object or array only the end is looked for.
    pub fn leap(&mut self) -> Result<(), Error> {
        match self.peek() {
            Some(b'{' | b'[') => {
                self.at = scan::leap(Level::new(), self.bytes, self.at)?;
                Ok(())
            }
            Some(_) | None => self.skip(),
        }
    }
}

/// Bytes that begin at `start` of the document, as text.
fn utf8(bytes: &[u8], start: usize) -> Result<&str, Error> {
    simdutf8::compat::from_utf8(bytes).map_err(|error| Error {
        kind: ErrorKind::InvalidUtf8,
        at: start + error.valid_up_to(),
    })
}
