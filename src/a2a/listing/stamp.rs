//! Status timestamps as instants, so that those of different agents can be compared.
//!
//! RFC 3339 with any number of digits behind the second, and any offset: SDKs write three, six or nine digits, `Z` or an
//! offset. Digits behind the eighteenth are dropped. A leap second is the first moment of the next minute.

use std::fmt;

/// A moment. Later ones are greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp {
    /// Since 1970-01-01T00:00:00Z.
    pub seconds: i64,
    /// In units of 10^-18 seconds.
    pub fraction: u64,
}

const DIGITS: usize = 18;

impl Stamp {
    /// `None` for whatever is no RFC 3339 time: it orders like a task without one.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        let number = |from: usize, to: usize| digits(bytes.get(from..to)?);
        let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
        let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
        let separators = [(4, b'-'), (7, b'-'), (13, b':'), (16, b':')];
        let separated = separators.iter().all(|&(at, byte)| bytes.get(at) == Some(&byte));
        let separated = separated && matches!(bytes.get(10), Some(b'T' | b't' | b' '));
        let in_range = (1..=12).contains(&month) && (1..=days_of(year, month)).contains(&day);
        if !separated || !in_range || hour > 23 || minute > 59 || second > 60 {
            return None;
        }
        let (fraction, offset) = match bytes.get(19..)? {
            [b'.', rest @ ..] => {
                let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
                let (fraction, offset) = rest.split_at_checked(count)?;
                if count == 0 {
                    return None;
                }
                let padded = fraction.iter().chain(std::iter::repeat(&b'0')).take(DIGITS);
                let fraction = padded.fold(0, |sum: u64, digit| sum * 10 + u64::from(digit - b'0'));
                (fraction, offset)
            }
            offset => (0, offset),
        };
        let of_day = hour * 3600 + minute * 60 + second - offset_seconds(offset)?;
        Some(Self {
            seconds: days_since_epoch(year, month, day) * 86_400 + of_day,
            fraction,
        })
    }
}

impl fmt::Display for Stamp {
    /// RFC 3339 in UTC, with as many digits behind the second as the moment has, at most nine (ProtoJSON).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = date_of(self.seconds.div_euclid(86_400));
        let of_day = self.seconds.rem_euclid(86_400);
        let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")?;
        let digits = format!("{:0DIGITS$}", self.fraction);
        let digits = digits.get(..9).unwrap_or_default().trim_end_matches('0');
        if !digits.is_empty() {
            write!(f, ".{digits}")?;
        }
        f.write_str("Z")
    }
}

fn digits(bytes: &[u8]) -> Option<i64> {
    bytes.iter().try_fold(0, |sum: i64, byte| {
        byte.is_ascii_digit().then(|| sum * 10 + i64::from(byte - b'0'))
    })
}

fn offset_seconds(offset: &[u8]) -> Option<i64> {
    match offset {
        [b'Z' | b'z'] => Some(0),
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => {
            let (hours, minutes) = (digits(&[*h1, *h2])?, digits(&[*m1, *m2])?);
            let seconds = hours * 3600 + minutes * 60;
            (hours < 24 && minutes < 60).then_some(if *sign == b'-' { -seconds } else { seconds })
        }
        _ => None,
    }
}

fn days_of(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days of the Gregorian calendar, counted in years that begin in March, so that a leap day is the last of its year.
fn days_since_epoch(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let leap = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    year * 365 + leap + of_year - 719_468
}

/// The inverse of `days_since_epoch`.
fn date_of(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}
