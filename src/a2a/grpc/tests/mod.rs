//! The gRPC binding: tables, and generated messages and bytes.

use proptest::prelude::*;

use super::*;
use crate::a2a::Generation;
use crate::a2a::Generation::{V0_3, V1_0};

mod answers;
mod calls;
mod cards;
mod faults;
mod frames;
mod generated;
mod losses;

fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(u8::try_from(number & 0x7f).unwrap() | 0x80);
        number >>= 7;
    }
    bytes.push(u8::try_from(number).unwrap());
    bytes
}

/// A field that is a number.
fn number(field: u64, value: u64) -> Vec<u8> {
    [varint(field << 3), varint(value)].concat()
}

/// A field that is a string, or bytes.
fn text(field: u64, value: impl AsRef<[u8]>) -> Vec<u8> {
    let value = value.as_ref();
    [&*varint(field << 3 | 2), &*varint(value.len() as u64), value].concat()
}

/// A field that is a message of these fields.
fn message<const N: usize>(field: u64, fields: [Vec<u8>; N]) -> Vec<u8> {
    text(field, fields.concat())
}

/// Bytes that look like messages more often than any would.
fn wire_like() -> impl Strategy<Value = Vec<u8>> {
    let leaf = prop_oneof![
        (1_u64..10, any::<u64>()).prop_map(|(field, value)| number(field, value)),
        (1_u64..10, "[a-z/]{0,8}|tasks/[a-z]{1,4}").prop_map(|(field, value)| text(field, value)),
        (1_u64..10, 0_u64..8, proptest::collection::vec(any::<u8>(), 0..10)).prop_map(|(field, kind, rest)| [
            varint(field << 3 | kind),
            rest
        ]
        .concat()),
    ];
    leaf.prop_recursive(5, 24, 6, |inner| {
        (1_u64..10, proptest::collection::vec(inner, 0..6)).prop_map(|(field, fields)| text(field, fields.concat()))
    })
}
