//! Keys and values of the shared store.
//!
//! A key is `<prefix>t:<agent>:<id>` for a task, `<prefix>c:<agent>:<id>` for a context, `<prefix>a:<agent>:<hash>` for an
//! alias; see `crate::shared::key`.
//!
//! A value is `version (1) generation (1) state (1) transfers (1)`, then endpoint and principal, each as `length (2,
//! little-endian) text`: some 80 bytes. The scripts of `crate::shared` know the places of the first four, that the rest is
//! the owner, and that it begins with the endpoint. A version that is not known here is not read, and not overwritten.

use crate::a2a::{Generation, TaskState};
use crate::affinity::journal::record::{
    Kind, MAX_NAME, generation_code, generation_of, push_text, state_code, state_of, take, take_text,
};
use crate::shared;

const VERSION: u8 = 1;

/// What the store holds of a task or a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::affinity) struct Held<'a> {
    pub endpoint: &'a str,
    pub principal: &'a str,
    pub generation: Generation,
    pub state: Option<TaskState>,
    /// How often it was given to another owner; 0 as it was learned. Of two owners the one with more holds.
    pub transfers: u8,
}

pub(super) fn key(prefix: &str, kind: Kind, agent: &str, id: &str) -> Vec<u8> {
    let letter = match kind {
        Kind::Task => 't',
        Kind::Context => 'c',
        Kind::Alias => 'a',
    };
    shared::key(prefix, letter, &[agent, id])
}

/// `None` for what breaks a bound, which nothing does that was learned.
pub(super) fn encode(held: &Held<'_>) -> Option<Vec<u8>> {
    let (generation, state) = (generation_code(held.generation), state_code(held.state));
    let mut value = vec![VERSION, generation, state, held.transfers];
    let whole = push_text(&mut value, held.endpoint) && push_text(&mut value, held.principal);
    whole.then_some(value)
}

/// `None` for what another version wrote, or somebody else.
pub(super) fn decode(value: &[u8]) -> Option<Held<'_>> {
    let mut rest = value;
    let [version, generation, state, transfers] = *take(&mut rest)?;
    if version != VERSION {
        return None;
    }
    let held = Held {
        generation: generation_of(generation)?,
        state: state_of(state)?,
        transfers,
        endpoint: take_text(&mut rest)?,
        principal: take_text(&mut rest)?,
    };
    let within = held.endpoint.len() <= MAX_NAME && held.principal.len() <= MAX_NAME;
    (rest.is_empty() && within).then_some(held)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn named(agent: &str, id: &str, expected: &str) {
        let key = key("a2a:", Kind::Task, agent, id);
        assert_eq!(String::from_utf8(key).unwrap(), expected);
    }

    #[test]
    fn keys_are_plain_and_tell_ids_apart() {
        named("maps", "t-1", "a2a:t:maps:t-1");
        named("maps", "a:b", "a2a:t:maps:a%3Ab");
        named("maps:a", "b", "a2a:t:maps%3Aa:b");
        named("maps", "{tag}", "a2a:t:maps:%7Btag%7D");
        named("maps", "%7Btag%7D", "a2a:t:maps:%257Btag%257D");
        named("maps", "ü\r\n", "a2a:t:maps:%C3%BC%0D%0A");
        named("maps", &"x".repeat(96), &format!("a2a:t:maps:{}", "x".repeat(96)));
        let hashed = |id: &str| String::from_utf8(key("", Kind::Context, "maps", id)).unwrap();
        let (one, other) = (hashed(&"x".repeat(97)), hashed(&"x".repeat(98)));
        assert!(one.starts_with("c:maps:#") && one.len() == 8 + 64, "{one}");
        assert_ne!(one, other);
        // 33 bytes that take three places each.
        assert!(hashed(&":".repeat(33)).starts_with("c:maps:#"));
    }

    #[test]
    fn a_value_says_what_was_encoded() {
        let states = (0..10).map(|code| state_of(code).unwrap());
        for state in states {
            let generations = [Generation::V0_1, Generation::V0_3, Generation::V1_0];
            for (generation, transfers) in generations.into_iter().zip([0, 1, u8::MAX]) {
                let held = Held {
                    endpoint: "http://a:1/",
                    principal: "key:änn",
                    generation,
                    state,
                    transfers,
                };
                let value = encode(&held).unwrap();
                assert_eq!(decode(&value), Some(held));
                assert_eq!(value.get(3), Some(&transfers), "the scripts know its place");
                assert!(
                    value[4..].starts_with(b"\x0b\0http://a:1/"),
                    "the scripts know the endpoint"
                );
                let place = value.get(2).copied().unwrap();
                let ended = state.is_some_and(TaskState::is_terminal);
                assert_eq!(
                    (5..=8).contains(&place),
                    ended,
                    "the scripts know an end by its number: {state:?}"
                );
            }
        }
    }

    #[test]
    fn what_is_no_value_of_this_version_is_not_read() {
        let held = Held {
            endpoint: "http://a:1/",
            principal: "p",
            generation: Generation::V1_0,
            state: None,
            transfers: 0,
        };
        let value = encode(&held).unwrap();
        for length in 0..value.len() {
            assert_eq!(decode(&value[..length]), None, "cut off at {length}");
        }
        let changed = |place: usize, byte: u8| {
            let mut value = value.clone();
            value[place] = byte;
            value
        };
        assert_eq!(decode(&changed(0, 2)), None, "another version");
        assert_eq!(decode(&changed(1, 9)), None, "no generation");
        assert_eq!(decode(&changed(2, 10)), None, "no state");
        assert_eq!(decode(&changed(6, 0xff)), None, "no text");
        assert_eq!(decode(&[value.clone(), vec![0]].concat()), None, "something after it");
        let long = "x".repeat(MAX_NAME + 1);
        let long = Held {
            endpoint: &long,
            ..held
        };
        assert_eq!(decode(&encode(&long).unwrap()), None, "over the bound");
        let longer = "x".repeat(70_000);
        assert_eq!(
            encode(&Held {
                endpoint: &longer,
                ..held
            }),
            None
        );
    }
}
