//! Units, URLs and names: every form that is taken, its normal form, and what is none.

use std::time::Duration;

use super::super::check::url::Url;
use super::super::suggest;
use super::super::units::{ByteRate, Moment, Rate, Size, Time, Wait};

#[test]
fn durations() {
    let check = |text: &str, millis: u64, shown: &str| {
        let time = Time::parse(text).unwrap();
        assert_eq!(time.0, Duration::from_millis(millis), "{text}");
        assert_eq!(time.to_string(), shown, "{text}");
        assert_eq!(Time::parse(shown), Ok(time), "{shown} means what {text} means");
    };
    check("250ms", 250, "250ms");
    check("0s", 0, "0s");
    check("30s", 30_000, "30s");
    check("60s", 60_000, "60s");
    check("120s", 120_000, "2m");
    check("75s", 75_000, "75s");
    check("5m", 300_000, "5m");
    check("60m", 3_600_000, "1h");
    check("1h30m", 5_400_000, "90m");
    check("1d2h3m4s5ms", 93_784_005, "93784005ms");
    check("1d", 86_400_000, "24h");
    check("7d", 604_800_000, "7d");
    check("3650d", 315_360_000_000, "3650d");
}

#[test]
fn what_is_no_duration() {
    for text in [
        "",
        "s",
        "1",
        "1.5h",
        "-1s",
        "1 s",
        "1S",
        "1m1h",
        "1s1s",
        "1µs",
        "1w",
        "3651d",
        "99999999999999999999s",
        "18446744073709551615d",
        " 1s",
        "1h 30m",
        "none",
    ] {
        assert!(Time::parse(text).is_err(), "{text:?} is no duration");
    }
    assert_eq!(Wait::parse("none"), Ok(Wait(None)));
    assert_eq!(Wait::parse("1s"), Ok(Wait(Some(Duration::from_secs(1)))));
    assert!(Wait::parse("never").is_err());
}

#[test]
fn sizes() {
    let check = |text: &str, bytes: usize, shown: &str| {
        assert_eq!(Size::parse(text), Ok(Size(bytes)), "{text}");
        assert_eq!(Size(bytes).to_string(), shown, "{text}");
    };
    check("0B", 0, "0B");
    check("512B", 512, "512B");
    check("1024B", 1024, "1KiB");
    check("1025B", 1025, "1025B");
    check("64KiB", 65_536, "64KiB");
    check("4MiB", 4 << 20, "4MiB");
    check("1024GiB", 1 << 40, "1024GiB");
    for text in [
        "",
        "B",
        "1",
        "1KB",
        "1kib",
        "1.5MiB",
        "-1B",
        "1025GiB",
        "99999999999999999999B",
        "1 KiB",
    ] {
        assert!(Size::parse(text).is_err(), "{text:?} is no size");
    }
}

#[test]
fn moments() {
    let check = |text: &str, seconds: u64, shown: &str| {
        assert_eq!(Moment::parse(text), Ok(Moment(seconds)), "{text}");
        assert_eq!(Moment(seconds).to_string(), shown);
    };
    check("1970-01-01T00:00:00Z", 0, "1970-01-01T00:00:00Z");
    check("2027-01-15T08:00:00Z", 1_800_000_000, "2027-01-15T08:00:00Z");
    check("2027-01-15T10:00:00.9+02:00", 1_800_000_000, "2027-01-15T08:00:00Z");
    for text in [
        "",
        "2027-01-15",
        "2027-01-15T08:00:00",
        "2027-02-30T08:00:00Z",
        "1969-12-31T23:59:58Z",
        "2027-01-15T08:00:00Z[UTC]",
        "1800000000",
        "tomorrow",
    ] {
        assert!(Moment::parse(text).is_err(), "{text:?} is no time");
    }
}

#[test]
fn rates() {
    let check = |text: &str, count: u32, seconds: u64| {
        let rate = Rate {
            count,
            period: Duration::from_secs(seconds),
        };
        assert_eq!(Rate::parse(text), Ok(rate), "{text}");
        assert_eq!(rate.to_string(), text);
    };
    check("10/s", 10, 1);
    check("60/min", 60, 60);
    check("1000/h", 1000, 3600);
    check("4294967295/s", u32::MAX, 1);
    for text in [
        "",
        "/s",
        "60",
        "60/",
        "60/m",
        "0/s",
        "+1/s",
        "-1/s",
        "4294967296/s",
        "1 /s",
        "1/s/s",
    ] {
        assert!(Rate::parse(text).is_err(), "{text:?} is no rate");
    }
}

#[test]
fn byte_rates() {
    let check = |text: &str, bytes: u64, seconds: u64| {
        let rate = ByteRate {
            bytes,
            period: Duration::from_secs(seconds),
        };
        assert_eq!(ByteRate::parse(text), Ok(rate), "{text}");
        assert_eq!(rate.to_string(), text);
    };
    check("512B/s", 512, 1);
    check("100MiB/min", 100 << 20, 60);
    check("1024GiB/h", 1 << 40, 3600);
    for text in [
        "",
        "/s",
        "1KiB",
        "1KiB/",
        "1KiB/m",
        "1KiB/day",
        "0B/s",
        "1/s",
        "1.5KiB/s",
        "1025GiB/h",
        "1KiB/s/s",
    ] {
        assert!(ByteRate::parse(text).is_err(), "{text:?} is no byte rate");
    }
}

#[test]
fn urls_have_one_normal_form() {
    let check = |text: &str, normal: &str| {
        let url = Url::parse(text).unwrap_or_else(|cause| panic!("{text}: {cause:?}"));
        assert_eq!(url.text(), normal);
        assert_eq!(Url::parse(normal), Ok(url), "{normal} is normal");
    };
    check("http://a", "http://a/");
    check("HTTP://A.Example.COM:80", "http://a.example.com/");
    check("https://a:443/x", "https://a/x");
    check("https://a:80/X/", "https://a:80/X/");
    check("http://[::1]:8080/a%20b", "http://[::1]:8080/a%20b");
    check("http://10.0.0.1:9999", "http://10.0.0.1:9999/");
    check("http://my_agent.svc:1", "http://my_agent.svc:1/");
}

#[test]
fn only_loopback_is_loopback() {
    for (text, expected) in [
        ("http://localhost", true),
        ("http://a.localhost", true),
        ("http://127.1.2.3:1", true),
        ("http://[::1]", true),
        ("http://10.0.0.1", false),
        ("http://localhost.example.com", false),
        ("http://127.0.0.1.example.com", false),
    ] {
        assert_eq!(Url::parse(text).unwrap().is_loopback(), expected, "{text}");
    }
}

#[test]
fn near_names() {
    let check = |name: &str, known: &[&str], expected: Option<&str>| {
        assert_eq!(suggest::nearest(name, known), expected, "{name}");
    };
    check("adress", &["name", "address"], Some("address"));
    check("bodyBytes", &["body_bytes"], Some("body_bytes"));
    check("body-bytes", &["body_bytes"], Some("body_bytes"));
    check("rtae", &["rate", "burst"], Some("rate"));
    check("pth", &["path", "host"], Some("path"));
    check("x", &["in"], None);
    check("timeout", &["path", "host"], None);
    check("", &["in"], None);
}
