//! Values as the one text that is signed: JSON Canonicalization Scheme (RFC 8785), and what Python's `json.dumps` writes with
//! sorted keys, which differs beyond ASCII and in numbers with a fraction.

use std::fmt::Write as _;

use serde_json::{Map, Number, Value};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    Jcs,
    Python,
}

impl Style {
    pub fn write(self, members: &Map<String, Value>) -> String {
        let mut text = String::with_capacity(1024);
        self.object(members, &mut text);
        text
    }

    fn value(self, value: &Value, text: &mut String) {
        match value {
            Value::Null => text.push_str("null"),
            Value::Bool(true) => text.push_str("true"),
            Value::Bool(false) => text.push_str("false"),
            Value::Number(number) => self.number(number, text),
            Value::String(string) => self.string(string, text),
            Value::Array(list) => {
                text.push('[');
                for (index, value) in list.iter().enumerate() {
                    if index > 0 {
                        text.push(',');
                    }
                    self.value(value, text);
                }
                text.push(']');
            }
            Value::Object(members) => self.object(members, text),
        }
    }

    fn object(self, members: &Map<String, Value>, text: &mut String) {
        let mut sorted: Vec<_> = members.iter().collect();
        match self {
            // RFC 8785 §3.2.3: by the units of UTF-16, which put what is beyond the first plane before its end.
            Self::Jcs => sorted.sort_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16())),
            Self::Python => sorted.sort_by_key(|(name, _)| *name),
        }
        text.push('{');
        for (index, (name, value)) in sorted.into_iter().enumerate() {
            if index > 0 {
                text.push(',');
            }
            self.string(name, text);
            text.push(':');
            self.value(value, text);
        }
        text.push('}');
    }

    fn string(self, string: &str, text: &mut String) {
        text.push('"');
        for character in string.chars() {
            let short = match character {
                '"' => '"',
                '\\' => '\\',
                '\u{8}' => 'b',
                '\t' => 't',
                '\n' => 'n',
                '\u{c}' => 'f',
                '\r' => 'r',
                _ => {
                    if character < ' ' || (self == Self::Python && character > '~') {
                        for unit in character.encode_utf16(&mut [0; 2]) {
                            let _infallible = write!(text, "\\u{unit:04x}");
                        }
                    } else {
                        text.push(character);
                    }
                    continue;
                }
            };
            text.push('\\');
            text.push(short);
        }
        text.push('"');
    }

    fn number(self, number: &Number, text: &mut String) {
        if self == Self::Python && !number.is_f64() {
            let _infallible = write!(text, "{number}");
            return;
        }
        if let Some(double) = number.as_f64() {
            self.double(double, text);
        }
    }

    /// The shortest digits that name the double (ECMA-262 `Number::toString`, Python's `repr`); the two write them with other
    /// exponents.
    fn double(self, double: f64, text: &mut String) {
        let Decimal { digits, exponent } = Decimal::of(double);
        let (fixed, whole) = match self {
            Self::Jcs => (-6..21, ""),
            Self::Python => (-4..16, ".0"),
        };
        // RFC 8785 has no negative zero.
        if double.is_sign_negative() && (double != 0.0 || self == Self::Python) {
            text.push('-');
        }
        let count = i32::try_from(digits.len()).unwrap_or(i32::MAX);
        if !fixed.contains(&exponent) {
            let (first, rest) = digits.split_at_checked(1).unwrap_or((&digits, ""));
            text.push_str(first);
            if !rest.is_empty() {
                text.push('.');
                text.push_str(rest);
            }
            let _infallible = match self {
                Self::Jcs => write!(text, "e{exponent:+}"),
                Self::Python => write!(text, "e{exponent:+03}"),
            };
        } else if exponent < 0 {
            text.push_str("0.");
            text.extend((exponent + 1..0).map(|_| '0'));
            text.push_str(&digits);
        } else {
            let point = usize::try_from(exponent + 1).unwrap_or_default();
            match digits.split_at_checked(point) {
                Some((before, after)) if !after.is_empty() => {
                    text.push_str(before);
                    text.push('.');
                    text.push_str(after);
                }
                Some(_) | None => {
                    text.push_str(&digits);
                    text.extend((count..exponent + 1).map(|_| '0'));
                    text.push_str(whole);
                }
            }
        }
    }
}

/// `d.igits` times ten to the power of `exponent`; the first and the last digit are not 0, but for zero.
struct Decimal {
    digits: String,
    exponent: i32,
}

impl Decimal {
    /// Of its absolute value. The digits are those of `serde_json`, which takes the even one where two are as near; the
    /// standard library does not.
    fn of(double: f64) -> Self {
        let written = Number::from_f64(double.abs()).map_or_else(|| "0".to_owned(), |number| number.to_string());
        let (mantissa, exponent) = written.split_once(['e', 'E']).unwrap_or((&written, "0"));
        let exponent: i32 = exponent.parse().unwrap_or_default();
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let all = format!("{whole}{fraction}");
        let digits = all.trim_start_matches('0');
        let point = i32::try_from(whole.len()).unwrap_or_default();
        let zeros = i32::try_from(all.len() - digits.len()).unwrap_or_default();
        match digits.trim_end_matches('0') {
            "" => Self {
                digits: "0".to_owned(),
                exponent: 0,
            },
            digits => Self {
                digits: digits.to_owned(),
                exponent: exponent + point - zeros - 1,
            },
        }
    }
}
