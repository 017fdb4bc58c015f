//! Values that carry their unit: durations, sizes and rates, and text that must not show.
//!
//! Each is its own type, reads itself from text with a message that says what to write instead, shows itself in the same
//! form, and tells the JSON Schema its pattern and, under `x-unit`, the name by which `shape` finds its reader.
//! A number without a unit is refused: nobody should have to know whether `30` means seconds.

use std::fmt;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Longest duration: ten years. Far beyond any sense, and far below what an `Instant` can hold.
const MAX_TIME: Duration = Duration::from_secs(3650 * 24 * 60 * 60);
/// Largest size: what a 32-bit counter on the wire can hold and any real limit stays under.
const MAX_SIZE: u64 = 1 << 40;

/// From the largest to the smallest, the order in which they may be combined.
const TIME_UNITS: [(&str, u64); 5] = [
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
    ("ms", 1),
];
const SIZE_UNITS: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];
const PERIODS: [(&str, u64); 3] = [("h", 3600), ("min", 60), ("s", 1)];

/// A duration: `30s`, `5m`, `1h30m`, `250ms`, `7d`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time(pub Duration);

/// A duration, or `none` for no bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait(pub Option<Duration>);

/// A number of bytes: `512B`, `64KiB`, `4MiB`, `1GiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(pub usize);

/// So many in a period: `10/s`, `60/min`, `1000/h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    pub count: u32,
    pub period: Duration,
}

/// So many bytes in a period: `512KiB/s`, `100MiB/min`, `1GiB/h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteRate {
    pub bytes: u64,
    pub period: Duration,
}

/// A share of a whole: `50%`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Percent(pub u32);

/// A point in time, to the second: `2027-01-31T00:00:00Z` (RFC 3339), in Unix seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(pub u64);

/// Text that is a secret; never serialised, blank in `Debug`.
#[derive(Clone, Deserialize)]
#[serde(transparent)]
pub struct SecretText(pub String);

/// Reads text of the unit that `x-unit` of the schema names; `None` for a name that is no unit.
pub fn verify(unit: &str, text: &str) -> Option<Result<(), String>> {
    match unit {
        Time::UNIT => Some(Time::parse(text).map(drop)),
        Wait::UNIT => Some(Wait::parse(text).map(drop)),
        Size::UNIT => Some(Size::parse(text).map(drop)),
        Rate::UNIT => Some(Rate::parse(text).map(drop)),
        ByteRate::UNIT => Some(ByteRate::parse(text).map(drop)),
        Percent::UNIT => Some(Percent::parse(text).map(drop)),
        Moment::UNIT => Some(Moment::parse(text).map(drop)),
        _ => None,
    }
}

impl Time {
    const UNIT: &'static str = "duration";
    const PATTERN: &'static str = "^([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?$";

    pub const fn milliseconds(milliseconds: u64) -> Self {
        Self(Duration::from_millis(milliseconds))
    }

    pub const fn seconds(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }

    pub fn parse(text: &str) -> Result<Self, String> {
        let expected = || {
            format!(
                "`{text}` is not a duration; write whole numbers with the units d, h, m, s and ms, e.g. `30s`, `250ms` or `1h30m`"
            )
        };
        if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(format!("`{text}` has no unit; write e.g. `{text}s` or `{text}ms`"));
        }
        let mut rest = text;
        let mut millis: u64 = 0;
        let mut smaller = TIME_UNITS.as_slice();
        while !rest.is_empty() {
            let (number, after) = leading_number(rest).ok_or_else(expected)?;
            let letters = after.bytes().take_while(u8::is_ascii_alphabetic).count();
            let (unit, after) = after.split_at_checked(letters).ok_or_else(expected)?;
            let place = smaller
                .iter()
                .position(|(name, _)| *name == unit)
                .ok_or_else(expected)?;
            let (_, worth) = smaller.get(place).ok_or_else(expected)?;
            smaller = smaller.get(place + 1..).unwrap_or_default();
            millis = number
                .checked_mul(*worth)
                .and_then(|part| millis.checked_add(part))
                .ok_or_else(|| too_long(text))?;
            rest = after;
        }
        if text.is_empty() {
            return Err(expected());
        }
        let time = Duration::from_millis(millis);
        if time > MAX_TIME {
            return Err(too_long(text));
        }
        Ok(Self(time))
    }
}

impl Wait {
    const UNIT: &'static str = "duration or none";
    const PATTERN: &'static str = "^(none|([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?)$";

    pub fn parse(text: &str) -> Result<Self, String> {
        if text == "none" {
            return Ok(Self(None));
        }
        match Time::parse(text) {
            Ok(time) => Ok(Self(Some(time.0))),
            Err(cause) => Err(format!("{cause}, or `none`")),
        }
    }
}

impl Size {
    const UNIT: &'static str = "size";
    const PATTERN: &'static str = "^[0-9]+(B|KiB|MiB|GiB)$";

    pub const fn kib(count: usize) -> Self {
        Self(count << 10)
    }

    pub const fn mib(count: usize) -> Self {
        Self(count << 20)
    }

    pub fn parse(text: &str) -> Result<Self, String> {
        let expected = || {
            format!(
                "`{text}` is not a size; write a whole number with B, KiB, MiB or GiB, e.g. `512B`, `64KiB` or `4MiB`"
            )
        };
        let (number, unit) = leading_number(text).ok_or_else(expected)?;
        if unit.is_empty() {
            return Err(format!("`{text}` has no unit; write e.g. `{text}B` or `{text}KiB`"));
        }
        let (_, worth) = SIZE_UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(expected)?;
        number
            .checked_mul(*worth)
            .filter(|bytes| *bytes <= MAX_SIZE)
            .and_then(|bytes| usize::try_from(bytes).ok())
            .map(Self)
            .ok_or_else(|| format!("`{text}` is too large; at most 1024GiB"))
    }
}

impl Rate {
    const UNIT: &'static str = "rate";
    const PATTERN: &'static str = "^[0-9]+/(s|min|h)$";

    pub fn parse(text: &str) -> Result<Self, String> {
        let expected = || {
            format!(
                "`{text}` is not a rate; write a whole number a second, minute or hour, e.g. `10/s`, `60/min` or `1000/h`"
            )
        };
        let (count, period) = text.split_once('/').ok_or_else(expected)?;
        if count.is_empty() || !count.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(expected());
        }
        let (_, seconds) = PERIODS.iter().find(|(name, _)| *name == period).ok_or_else(expected)?;
        match count.parse() {
            Ok(0) => Err(format!("`{text}` would admit nothing; at least 1")),
            Ok(count) => Ok(Self {
                count,
                period: Duration::from_secs(*seconds),
            }),
            Err(_) => Err(format!("`{text}` is too large; at most {}", u32::MAX)),
        }
    }
}

impl ByteRate {
    const UNIT: &'static str = "byte rate";
    const PATTERN: &'static str = "^[0-9]+(B|KiB|MiB|GiB)/(s|min|h)$";

    pub fn parse(text: &str) -> Result<Self, String> {
        let expected = || {
            format!(
                "`{text}` is no number of bytes in a period; write a size a second, minute or hour, e.g. `512KiB/s`, `100MiB/min` or `1GiB/h`"
            )
        };
        let (size, period) = text.split_once('/').ok_or_else(expected)?;
        let (_, seconds) = PERIODS.iter().find(|(name, _)| *name == period).ok_or_else(expected)?;
        match Size::parse(size)?.0 {
            0 => Err(format!("`{text}` would admit nothing; at least 1B")),
            bytes => Ok(Self {
                bytes: bytes as u64,
                period: Duration::from_secs(*seconds),
            }),
        }
    }
}

impl Percent {
    const UNIT: &'static str = "percentage";
    const PATTERN: &'static str = "^[0-9]+ ?%$";

    pub fn parse(text: &str) -> Result<Self, String> {
        let number = text
            .strip_suffix('%')
            .map(|number| number.strip_suffix(' ').unwrap_or(number));
        number
            .filter(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
            .and_then(|number| number.parse().ok())
            .map(Self)
            .ok_or_else(|| format!("`{text}` is not a percentage; write a whole number with %, e.g. `50%`"))
    }
}

impl Moment {
    const UNIT: &'static str = "time";
    const PATTERN: &'static str =
        "^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(\\.[0-9]+)?([Zz]|[+-][0-9]{2}:[0-9]{2})$";

    pub fn parse(text: &str) -> Result<Self, String> {
        // Of the forms that are read here, those of RFC 3339 have no brackets, and no offset in seconds.
        let plain = text.len() <= 40 && !text.contains('[');
        let time = text.parse::<jiff::Timestamp>().ok().filter(|_| plain);
        time.and_then(|time| u64::try_from(time.as_second()).ok())
            .map(Self)
            .ok_or_else(|| {
                format!("`{text}` is not a time since 1970; write it with its offset, e.g. `2027-01-31T00:00:00Z`")
            })
    }
}

fn too_long(text: &str) -> String {
    format!("`{text}` is too long; at most 3650d")
}

fn leading_number(text: &str) -> Option<(u64, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) = text.split_at_checked(digits)?;
    Some((number.parse().ok()?, rest))
}

/// In the largest unit that divides it, as people say it: `90s` but `2m`, `60s` but `1h`, `24h` but `7d`.
impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.0.as_millis();
        for (name, worth) in TIME_UNITS {
            let worth = u128::from(worth);
            let count = millis / worth;
            let is_usual = count > 1 || worth <= 1000 || (count == 1 && name == "h");
            if millis.is_multiple_of(worth) && is_usual {
                return write!(f, "{count}{name}");
            }
        }
        write!(f, "{millis}ms")
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(time) => Time(time).fmt(f),
            None => f.write_str("none"),
        }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        size(self.0 as u64, f)
    }
}

fn size(bytes: u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for (name, worth) in SIZE_UNITS {
        if bytes >= worth && bytes.is_multiple_of(worth) {
            return write!(f, "{}{name}", bytes / worth);
        }
    }
    write!(f, "{bytes}B")
}

fn period(period: Duration, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let seconds = period.as_secs();
    match PERIODS.iter().find(|(_, worth)| *worth == seconds) {
        Some((name, _)) => write!(f, "/{name}"),
        None => write!(f, "/{}", Time(period)),
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.count)?;
        period(self.period, f)
    }
}

impl fmt::Display for ByteRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        size(self.bytes, f)?;
        period(self.period, f)
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", self.0)
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = i64::try_from(self.0).map(jiff::Timestamp::from_second);
        match time {
            Ok(Ok(time)) => time.fmt(f),
            Ok(Err(_)) | Err(_) => self.0.fmt(f),
        }
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

impl JsonSchema for SecretText {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Secret".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string" })
    }
}

macro_rules! unit_text {
    ($($name:ident)*) => {$(
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Self::parse(&String::deserialize(deserializer)?).map_err(de::Error::custom)
            }
        }

        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "string", "pattern": Self::PATTERN, "x-unit": Self::UNIT })
            }
        }
    )*};
}

unit_text! { Time Wait Size Rate ByteRate Percent Moment }
