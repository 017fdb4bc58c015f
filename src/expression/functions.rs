//! The functions that expressions may call: those of CEL's standard library that need nothing but their arguments, and one for
//! addresses.
//!
//! `matches` is not the library's, which reads its pattern again for each text: in a macro over a caller's metadata that would
//! cost a call seconds.

use std::net::IpAddr;
use std::sync::LazyLock;

use cel::common::types::{CelBool, CelString};
use cel::{Env, ExecutionError};
use ipnet::IpNet;
use quick_cache::sync::Cache;
use regex::Regex;

use super::scope::Type;

/// Name of the function that tells whether an address is of a network.
pub(super) const IN_NETWORK: &str = "inNetwork";

pub(super) const MATCHES: &str = "matches";
/// Patterns stand in the configuration, some dozens of them; the least used one is read again.
const MAX_PATTERNS: usize = 1_000;

static PATTERNS: LazyLock<Cache<String, Regex>> = LazyLock::new(|| Cache::new(MAX_PATTERNS));

/// One way to call a function. A method has its target as its first argument.
pub(super) struct Signature {
    pub name: &'static str,
    pub method: bool,
    pub arguments: Vec<Type>,
    pub result: Type,
}

/// Every function but operators.
pub(super) fn signatures() -> Vec<Signature> {
    use Type::{Bool, Bytes, Double, Duration, Dyn, Int, Text, Timestamp, Uint};
    let mut all = Vec::new();
    let mut add = |name, method, arguments: &[Type], result: Type| {
        all.push(Signature {
            name,
            method,
            arguments: arguments.to_vec(),
            result,
        });
    };
    for sized in [Text, Bytes, Type::list(Dyn), Type::map(Dyn)] {
        add("size", true, std::slice::from_ref(&sized), Int);
        add("size", false, &[sized], Int);
    }
    for name in ["contains", "startsWith", "endsWith", MATCHES, IN_NETWORK] {
        add(name, true, &[Text, Text], Bool);
    }
    for name in [
        "getFullYear",
        "getMonth",
        "getDayOfYear",
        "getDayOfMonth",
        "getDate",
        "getDayOfWeek",
        "getHours",
        "getMinutes",
        "getSeconds",
        "getMilliseconds",
    ] {
        add(name, true, &[Timestamp], Int);
        // With the name of a time zone, or an offset.
        add(name, true, &[Timestamp, Text], Int);
    }
    for from in [Text, Int, Uint, Double, Bool, Timestamp, Duration] {
        add("string", false, &[from], Text);
    }
    for from in [Text, Int, Uint, Double, Timestamp] {
        add("int", false, &[from], Int);
    }
    for from in [Text, Int, Uint, Double] {
        add("double", false, std::slice::from_ref(&from), Double);
        add("uint", false, &[from], Uint);
    }
    add("timestamp", false, &[Text], Timestamp);
    add("duration", false, &[Text], Duration);
    all
}

#[expect(clippy::expect_used, reason = "the names are new to the library, which a test sees")]
pub(super) fn environment() -> Env {
    let mut environment = Env::stdlib().with_optional_support(false);
    cel::add_member_overload!(environment, fn in_network: (CelString, CelString) -> Result<CelBool>)
        .expect("the library has no such function");
    cel::add_member_overload!(environment, fn matches: (CelString, CelString) -> Result<CelBool>)
        .expect("the library has it with a feature alone");
    environment
}

/// What is no address is of no network.
fn in_network(address: &CelString<'_>, network: &CelString<'_>) -> Result<CelBool, ExecutionError> {
    let network: IpNet = network
        .inner()
        .parse()
        .map_err(|_| ExecutionError::function_error(IN_NETWORK, "no network"))?;
    let address = address.inner().parse::<IpAddr>();
    Ok(CelBool::from(address.is_ok_and(|address| network.contains(&address))))
}

/// Of a part of the text, as in RE2.
fn matches(text: &CelString<'_>, pattern: &CelString<'_>) -> Result<CelBool, ExecutionError> {
    let pattern = pattern.inner();
    let known = PATTERNS.get_or_insert_with(pattern, || Regex::new(pattern));
    let known = known.map_err(|_| ExecutionError::function_error(MATCHES, "no pattern"))?;
    Ok(CelBool::from(known.is_match(text.inner())))
}
