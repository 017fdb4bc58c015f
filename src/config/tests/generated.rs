//! Whatever the text is: a configuration or problems, never a panic.

use std::path::Path;
use std::time::Duration;

use proptest::prelude::*;

use super::super::units::{Size, Time};
use super::super::{Environment, parse};

/// Lines of the user's own kind in any order and number: either a configuration or a list of problems.
fn lines() -> impl Strategy<Value = String> {
    let key = prop_oneof![
        Just("public_url"),
        Just("listeners"),
        Just("agents"),
        Just("limits"),
        Just("security"),
        Just("security_schemes"),
        Just("name"),
        Just("path"),
        Just("upstream"),
        Just("endpoints"),
        Just("url"),
        Just("tls"),
        Just("type"),
        Just("<<"),
    ];
    let value = prop_oneof![
        Just(""),
        Just("x"),
        Just("1"),
        Just("1.0"),
        Just("~"),
        Just("[]"),
        Just("{}"),
        Just("[ { } ]"),
        Just("http://a"),
        Just("/a"),
        Just("&a"),
        Just("*a"),
        Just("\"${X}\""),
        Just("apiKey"),
        Just("[ { name: a, path: /a, upstream: { endpoints: [ 1 ] } } ]"),
    ];
    let line = (0..4_usize, any::<bool>(), key, value).prop_map(|(depth, item, key, value)| {
        format!("{}{}{key}: {value}\n", "  ".repeat(depth), if item { "- " } else { "" })
    });
    prop::collection::vec(line, 0..12).prop_map(|lines| lines.concat())
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in any::<String>()) {
        let _outcome = parse(&text, Path::new(""), &Environment::default());
    }

    #[test]
    fn no_lines_make_it_panic(text in lines()) {
        if let Err(problems) = parse(&text, Path::new(""), &Environment::default()) {
            prop_assert!(!problems.is_empty());
        }
    }

    #[test]
    fn units_show_what_they_read(millis in 0..315_360_000_000_u64, bytes in 0..(1_usize << 40)) {
        let time = Time(Duration::from_millis(millis));
        prop_assert_eq!(Time::parse(&time.to_string()), Ok(time));
        prop_assert_eq!(Size::parse(&Size(bytes).to_string()), Ok(Size(bytes)));
    }
}
