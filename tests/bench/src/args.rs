//! The arguments of the benchmark's programs: an optional mode, then `--name value` or `--name`.
//!
//! Every program says which names it knows; another one, or a value that does not parse, is an error and not a default.

use std::collections::HashMap;
use std::error::Error;
use std::fmt::Display;
use std::str::FromStr;

pub struct Args {
    /// The first argument, when it does not begin with `--`.
    pub mode: String,
    values: HashMap<String, String>,
}

impl Args {
    /// Reads the process's arguments. `switches` take no value, `options` take one.
    pub fn read(switches: &[&str], options: &[&str]) -> Result<Self, Box<dyn Error>> {
        Self::parse(std::env::args().skip(1), switches, options)
    }

    fn parse(words: impl Iterator<Item = String>, switches: &[&str], options: &[&str]) -> Result<Self, Box<dyn Error>> {
        let mut words = words.peekable();
        let mode = words.next_if(|word| !word.starts_with("--")).unwrap_or_default();
        let mut values = HashMap::new();
        while let Some(word) = words.next() {
            let Some(name) = word.strip_prefix("--") else {
                return Err(format!("'{word}' stands where an option was expected").into());
            };
            let value = if switches.contains(&name) {
                String::new()
            } else if options.contains(&name) {
                words.next().ok_or_else(|| format!("--{name} needs a value"))?
            } else {
                return Err(format!(
                    "there is no --{name}; options: {}; switches: {}",
                    options.join(", "),
                    switches.join(", ")
                )
                .into());
            };
            values.insert(name.to_owned(), value);
        }
        Ok(Self { mode, values })
    }

    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// The value of `name`, or `default` when it was not given.
    pub fn or<T>(&self, name: &str, default: T) -> Result<T, Box<dyn Error>>
    where
        T: FromStr,
        T::Err: Display,
    {
        self.text(name).map_or(Ok(default), |value| {
            value
                .parse()
                .map_err(|error| format!("--{name} {value}: {error}").into())
        })
    }

    /// The value of `name`, which must have been given.
    pub fn need<T>(&self, name: &str) -> Result<T, Box<dyn Error>>
    where
        T: FromStr,
        T::Err: Display,
    {
        let value = self.text(name).ok_or_else(|| format!("--{name} is missing"))?;
        value
            .parse()
            .map_err(|error| format!("--{name} {value}: {error}").into())
    }
}
