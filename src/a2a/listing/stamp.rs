//! Status timestamps as instants, so that those of different agents can be compared.
//!
//! RFC 3339 with any number of digits behind the second, and any offset: SDKs write three, six or nine digits, `Z` or an
//! offset. Digits behind the eighteenth are dropped. A leap second is the first moment of the next minute.

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
