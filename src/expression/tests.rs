//! What rules that people write give, what they read, and which mistakes are found before a request is.

use super::*;

fn compile(source: &str) -> Result<Expression, String> {
    Expression::compile(source, &Scope::policy(), &Type::Bool).map_err(|error| error.to_string())
}

fn principal() -> Value {
    let text = |text: &str| Value::text(text);
    let texts = |texts: &[&str]| Value::list(texts.iter().map(|text| Value::text(*text)));
    let claims = serde_json::json!({
        "tenant": "acme", "level": 3, "roles": ["a", "b"], "nested": { "x": { "y": true } }, "half": 0.5
    });
    Value::map([
        ("id".to_owned(), text("jwt:https://login.example.com#ann")),
        ("name".to_owned(), text("ann")),
        ("issuer".to_owned(), text("https://login.example.com")),
        ("anonymous".to_owned(), Value::bool(false)),
        ("schemes".to_owned(), texts(&["corp"])),
        ("scopes".to_owned(), texts(&["a2a.invoke", "a2a.read"])),
        ("groups".to_owned(), texts(&["ops", "people"])),
        ("claims".to_owned(), Value::json(&claims)),
    ])
}

fn variables(name: &str) -> Option<Value> {
    match name {
        "principal" => Some(principal()),
        "operation" => Some(Value::text("send")),
        "source" => Some(Value::map([("address".to_owned(), Value::text("10.1.2.3"))])),
        // Sunday, 22 November 2026, 20:00 UTC.
        "time" => Some(Value::time(1_795_377_600)),
        "message" => {
            let metadata = Value::json(&serde_json::json!({ "skill": "forecast", "list": [1, 2, 3] }));
            Some(Value::map([("metadata".to_owned(), metadata)]))
        }
        _ => None,
    }
}

fn gives(source: &str, expected: Result<bool, Failure>) {
    let expression = compile(source).unwrap();
    let given = expression.evaluate(variables);
    let given = given.map(|value| value.as_bool().unwrap());
    assert_eq!(given, expected, "{source}");
}

fn refused(source: &str, why: &str) {
    let error = compile(source).unwrap_err();
    assert!(error.contains(why), "{source}: {error}");
}

#[test]
fn rules_that_people_write_hold_as_they_read() {
    for source in [
        "'ops' in principal.groups",
        "principal.groups.exists(group, group.startsWith('op'))",
        "!principal.anonymous && principal.scopes.all(scope, scope.startsWith('a2a.'))",
        "principal.claims.tenant == 'acme'",
        "principal.claims['tenant'] == 'acme'",
        "principal.claims.level >= 3 && principal.claims.half < 1.0",
        "'a' in principal.claims.roles",
        "principal.claims.nested.x.y",
        "has(principal.claims.tenant) && !has(principal.claims.missing)",
        "'tenant' in principal.claims",
        "operation in ['send', 'stream']",
        "principal.issuer == 'https://login.example.com' ? operation == 'send' : false",
        "source.address.inNetwork('10.0.0.0/8') && !source.address.inNetwork('192.168.0.0/16')",
        "time.getHours() == 20 && time.getDayOfWeek() == 0",
        "time.getHours('Europe/Berlin') == 21",
        "time < timestamp('2027-01-01T00:00:00Z')",
        "time - timestamp('2026-11-22T19:00:00Z') == duration('1h')",
        "principal.name.matches('^[a-z]+$')",
        "message.metadata.skill == 'forecast'",
        "message.metadata.list.exists(i, i == 2)",
        "size(principal.groups) == 2 && principal.groups.size() == 2",
        "principal.groups.map(g, g + '!') == ['ops!', 'people!']",
        "principal.groups.filter(g, g != 'ops').size() == 1",
        "principal.groups.exists_one(g, g == 'ops')",
        "string(principal.claims.level) == '3' && int('3') == principal.claims.level",
    ] {
        gives(source, Ok(true));
    }
    gives("'ops' in principal.scopes", Ok(false));
}

#[test]
fn what_is_missing_or_of_another_type_is_a_failure() {
    gives("principal.claims.missing == 'x'", Err(Failure::Missing));
    gives(
        "principal.claims.level == 'x' || principal.claims.level.startsWith('3')",
        Err(Failure::Type),
    );
    gives("task.id == 'x'", Err(Failure::Missing));
    gives("message.metadata.list[7] == 1", Err(Failure::Range));
    // The other side decides.
    gives("principal.claims.missing == 'x' || operation == 'send'", Ok(true));
    gives("principal.claims.missing == 'x' && operation == 'get'", Ok(false));
}

#[test]
fn an_expression_tells_what_it_reads() {
    let source = "principal.claims.tenant == 'a' && principal.claims['org'] == 'b' && 'x' in principal.claims \
                  && principal.groups.exists(time, time == operation)";
    let expression = compile(source).unwrap();
    assert_eq!(expression.members().collect::<Vec<_>>(), ["org", "tenant", "x"]);
    assert!(expression.reads("principal") && expression.reads("operation") && !expression.reads("time"));
    assert!(expression.reads_only(&["principal", "operation"]) && !expression.reads_only(&["principal"]));
}

#[test]
fn mistakes_are_found_before_any_request() {
    refused("principle.id == 'x'", "there is no `principle`");
    refused("principal.group == 'x'", "there is no member `group`");
    refused("principal['group'] == 'x'", "there is no member `group`");
    refused("principal.id == 1", "never equal");
    refused("principal.groups == 'ops'", "never equal");
    refused("principal.id in 'ops'", "never in string");
    refused("1 in principal.groups", "never in list(string)");
    refused("principal.groups.exists(g, g == 1)", "never equal");
    refused(
        "principal.groups.startsWith('x')",
        "`startsWith` does not take list(string), string",
    );
    refused("operation.startsWith('x', 'y')", "does not take");
    refused("upper(operation) == 'X'", "no function `upper`");
    refused("operation && true", "is string instead of bool");
    refused("!operation", "is string instead of bool");
    refused("operation ? true : false", "is string instead of bool");
    refused("operation", "gives string instead of bool");
    refused("operation + 1 == 'x'", "`+` does not take string and int");
    refused("principal < principal", "no order");
    refused("-operation == 'x'", "no sign");
    refused("operation.exists(x, true)", "string has no elements");
    refused("operation.x == 'x'", "string has no members");
    refused("operation.matches(principal.id)", "must stand here as text");
    refused("operation.matches('(')", "can read");
    refused("source.address.inNetwork('10.0.0.0/33')", "can read");
    refused("time < timestamp('yesterday')", "can read");
    refused("principal.claims[operation] == 'x'", "claims must be named");
    refused("principal.claims.size() == 1", "does not take");
    refused("operation ==", "is no expression");
    refused("", "is no expression");
    refused("a.b{c: 1} == 1", "messages cannot be made");
    refused("[1].exists(a, [1].exists(b, [1].exists(c, true)))", "2 deep");
    refused("1/0 == 'x'", "never equal");
}

#[test]
fn sources_are_bounded_in_length_and_depth() {
    let long = format!("operation == '{}'", "x".repeat(MAX_SOURCE));
    refused(&long, "longer than");
    let deep = format!("{}true{}", "(!".repeat(600), ")".repeat(600));
    assert!(compile(&deep).is_err());
    let chain = vec!["operation"; 400].join(" + ");
    assert!(compile(&format!("{chain} == ''")).is_err());
    // As deep as may be, on the stack of a test's thread.
    let sum = vec!["1"; 22].join(" + ");
    gives(&format!("{sum} == 22"), Ok(true));
    let and = vec!["operation == 'send'"; 120].join(" && ");
    gives(&and, Ok(true));
}

#[test]
fn mappings_give_texts() {
    let scope = Scope::credential().only(&["claims"]);
    let compile = |source: &str, wanted: &Type| Expression::compile(source, &scope, wanted);
    let claims = Value::json(&serde_json::json!({ "realm": { "roles": ["a", "b"] }, "azp": "c", "n": 1 }));
    let evaluate = |source: &str| {
        let expression = compile(source, &Type::list(Type::Text)).unwrap();
        expression.evaluate(|_| Some(claims.clone())).map(Value::into_texts)
    };
    let both = Some(vec!["a".to_owned(), "b".to_owned()]);
    assert_eq!(evaluate("claims.realm.roles"), Ok(both));
    assert_eq!(evaluate("[claims.azp]"), Ok(Some(vec!["c".to_owned()])));
    assert_eq!(evaluate("[claims.n]"), Ok(None));
    assert_eq!(evaluate("claims.other"), Err(Failure::Missing));
    assert!(compile("certificate.subject", &Type::Text).is_err());
    assert!(compile("size(claims)", &Type::list(Type::Text)).is_err());
}

/// Rules convert and compute with what callers write.
#[test]
fn nothing_that_a_caller_writes_ends_more_than_its_rule() {
    let texts = [
        "",
        "0",
        "-",
        "h",
        "1h",
        "-1h",
        "--1h",
        "+1h",
        "infh",
        "-infh",
        "nans",
        "1e308h",
        "-1e308h",
        "9223372036854775807h",
        "-9223372036854775808ns",
        "9223372036854775807ns",
        "9223372036854775808ns",
        "1h1h1h",
        "0001-01-01T00:00:00Z",
        "0001-01-01T00:00:00+23:59",
        "0000-01-01T00:00:00Z",
        "9999-12-31T23:59:59.999999999Z",
        "9999-12-31T23:59:59-23:59",
        "10000-01-01T00:00:00Z",
        "2024-02-29T00:00:60Z",
        "-9223372036854775808",
        "18446744073709551615",
        "1e400",
        "NaN",
        "UTC",
        "Europe/Berlin",
        "+99:99",
        "-23:59",
        "23:59:59",
        ":",
        "\u{0}",
        "\u{1F600}",
    ];
    let json = serde_json::json!([
        null, true, 0, -1, i64::MIN, i64::MAX, u64::MAX, 1e308, -1e308, 5e-324, -0.0, [], {}, [[[]]], { "a": { "b": [1] } }
    ]);
    let values: Vec<Value> = texts
        .into_iter()
        .map(Value::text)
        .chain(json.as_array().unwrap().iter().map(Value::json))
        .collect();
    for source in [
        "time + duration(message.metadata.v) > time",
        "time - duration(message.metadata.v) < time",
        "duration(message.metadata.v) + duration(message.metadata.v) > duration('1h')",
        "timestamp(message.metadata.v) + duration('2000000h') > time",
        "timestamp(message.metadata.v) - duration('2000000h') < time",
        "timestamp(message.metadata.v) - time < duration('1h')",
        "timestamp(message.metadata.v).getDayOfYear() == 1",
        "timestamp(message.metadata.v).getFullYear('-23:59') == 1",
        "string(timestamp(message.metadata.v)) == ''",
        "int(timestamp(message.metadata.v)) == 0",
        "time.getHours(message.metadata.v) == 1",
        "int(message.metadata.v) + 1 > 0",
        "int(message.metadata.v) * 2 > 0",
        "int(message.metadata.v) / -1 > 0",
        "int(message.metadata.v) % -1 > 0",
        "-int(message.metadata.v) > 0",
        "-message.metadata.v > 0",
        "uint(message.metadata.v) - 1u > 0u",
        "double(message.metadata.v) > 0.0",
        "string(message.metadata.v) == ''",
        "[1][int(message.metadata.v)] == 1",
        "[1][message.metadata.v] == 1",
        "{'a': 1}[message.metadata.v] == 1",
        "message.metadata.v[0] == 1",
        "message.metadata.v.a.b[0] == 1",
        "has(message.metadata.v.a) && has(message.metadata.v.a.b)",
        "size(message.metadata.v) > 0",
        "message.metadata.v < message.metadata.v",
        "message.metadata.v == message.metadata.v",
        "message.metadata.v + message.metadata.v == message.metadata.v",
        "message.metadata.v in message.metadata.v",
        "message.metadata.v.exists(x, x == message.metadata.v)",
        "message.metadata.v.map(x, x + x).all(y, y == y)",
        "message.metadata.v.matches('^a')",
        "message.metadata.v.startsWith(message.metadata.v)",
        "message.metadata.v.inNetwork('10.0.0.0/8')",
        "source.address.inNetwork(message.metadata.v)",
    ] {
        let expression = compile(source).unwrap();
        for value in &values {
            let given = expression.evaluate(|name| match name {
                "message" => {
                    let metadata = Value::map([("v".to_owned(), value.clone())]);
                    Some(Value::map([("metadata".to_owned(), metadata)]))
                }
                _ => variables(name),
            });
            // Whatever it gives, it gives something.
            assert!(
                given.is_err() || given.is_ok_and(|given| given.as_bool().is_some()),
                "{source}"
            );
        }
    }
}

/// A pattern is read once, not for each text: two hundred texts would take as long as two hundred patterns.
#[test]
fn a_pattern_is_read_once() {
    let expression = compile(r"message.metadata.tags.all(tag, tag.matches('^[\\w-]{1,64}$'))").unwrap();
    let tags = Value::list((0..256).map(|tag| Value::text(format!("tag-{tag}"))));
    let metadata = Value::map([("tags".to_owned(), tags)]);
    let message = Value::map([("metadata".to_owned(), metadata)]);
    for _ in 0..100 {
        let given = expression.evaluate(|name| (name == "message").then(|| message.clone()));
        assert_eq!(given.map(|given| given.as_bool()), Ok(Some(true)));
    }
}
