//! A distinguished name as RFC 4514 text.
//!
//! The most specific part first, no space between parts, as `openssl x509 -noout -subject -nameopt RFC2253,utf8,-esc_msb`
//! prints it, except that STREET is in capitals and old string types (BMPString, T61String) appear in hexadecimal. One text for one name: what could be taken for a separator is escaped, control characters too, so that no
//! value can imitate another name or another line of a log.

use std::fmt::Write as _;

use x509_parser::x509::{AttributeTypeAndValue, X509Name};

/// Names of RFC 4514 §3, and those that tools commonly print, by object identifier. Others appear as numbers.
const SHORT_NAMES: &[(&str, &str)] = &[
    ("2.5.4.3", "CN"),
    ("2.5.4.4", "SN"),
    ("2.5.4.5", "serialNumber"),
    ("2.5.4.6", "C"),
    ("2.5.4.7", "L"),
    ("2.5.4.8", "ST"),
    ("2.5.4.9", "STREET"),
    ("2.5.4.10", "O"),
    ("2.5.4.11", "OU"),
    ("2.5.4.12", "title"),
    ("2.5.4.42", "GN"),
    ("0.9.2342.19200300.100.1.1", "UID"),
    ("0.9.2342.19200300.100.1.25", "DC"),
    ("1.2.840.113549.1.9.1", "emailAddress"),
];

pub(super) fn rfc4514(name: &X509Name<'_>) -> String {
    let parts: Vec<_> = name.iter_rdn().collect();
    let mut text = String::new();
    for (index, part) in parts.iter().rev().enumerate() {
        if index > 0 {
            text.push(',');
        }
        let attributes: Vec<_> = part.iter().collect();
        for (index, attribute) in attributes.into_iter().rev().enumerate() {
            if index > 0 {
                text.push('+');
            }
            write_attribute(&mut text, attribute);
        }
    }
    text
}

fn write_attribute(text: &mut String, attribute: &AttributeTypeAndValue<'_>) {
    let oid = attribute.attr_type().to_id_string();
    let short = SHORT_NAMES
        .iter()
        .find_map(|(number, short)| (*number == oid).then_some(*short));
    text.push_str(short.unwrap_or(&oid));
    text.push('=');
    match (short, attribute.as_str()) {
        (Some(_), Ok(value)) => write_value(text, value),
        // §2.4: an attribute without a short name, or a value without a string form, is the BER in hexadecimal.
        _ => {
            text.push('#');
            let value = attribute.attr_value();
            if let Ok(encoded) = x509_parser::asn1_rs::ToDer::to_der_vec(value) {
                for byte in encoded {
                    write_hex(text, byte);
                }
            }
        }
    }
}

fn write_value(text: &mut String, value: &str) {
    let last = value.chars().count().saturating_sub(1);
    for (index, character) in value.chars().enumerate() {
        match character {
            '"' | '+' | ',' | ';' | '<' | '>' | '\\' => {
                text.push('\\');
                text.push(character);
            }
            ' ' if index == 0 || index == last => text.push_str("\\ "),
            '#' if index == 0 => text.push_str("\\#"),
            control if control.is_control() => {
                let mut buffer = [0; 4];
                for byte in control.encode_utf8(&mut buffer).bytes() {
                    text.push('\\');
                    write_hex(text, byte);
                }
            }
            other => text.push(other),
        }
    }
}

fn write_hex(text: &mut String, byte: u8) {
    // Writing to a string cannot fail.
    let _infallible = write!(text, "{byte:02X}");
}
