//! Mistakes in how tokens are got for agents, and in what agents are told of callers: each with exactly its text.

use super::invalid::{check, environment, file, upstream};

#[test]
fn token_servers() {
    for grant in ["client_credentials", "token_exchange"] {
        let server = |text: &str, place: &str, cause: &str| {
            let all = [
                ("token_url:", "token_url: https://t.example/token"),
                ("client_id:", "client_id: gateway"),
                ("client_secret", "client_secret: hunter2"),
            ];
            let rest: Vec<_> = all
                .iter()
                .filter(|(name, _)| !text.contains(name))
                .map(|(_, rest)| *rest)
                .collect();
            upstream(
                &format!("credential: {{ {grant}: {{ {text}, {} }} }}", rest.join(", ")),
                &format!("agents[0].upstream.credential.{grant}{place} (line 4): {cause}"),
            );
        };
        server(
            "token_url: http://t.example/token",
            ".token_url",
            "must be https: the secret and tokens go there; http only on a loopback address",
        );
        server(
            "token_url: \"https://a:hunter2@t.example/\"",
            ".token_url",
            "must not contain user information (`user:password@`); credentials have their own keys",
        );
        server(
            "token_url: http://127.0.0.1:1/, ca: a.pem",
            ".ca",
            "has no effect: `token_url` is http",
        );
        server("client_id: \"\"", ".client_id", "is empty");
        server(
            "client_id: \"gätewäy\"",
            ".client_id",
            "must be of visible ASCII characters and spaces",
        );
        server(
            "client_secret: hunter2, client_secret_file: b",
            "",
            "has both `client_secret` and `client_secret_file`; keep one of them",
        );
        server(
            "scopes: [ \"a b\" ]",
            ".scopes[0]",
            "`a b` is no scope: visible ASCII without spaces, `\"` and `\\`",
        );
        for text in ["agent", "https://a#b", "\"https://a b\""] {
            server(
                &format!("resource: {text}"),
                ".resource",
                "must be an absolute URI without a fragment",
            );
        }
        server("timeout: 2h", ".timeout", "must be from 1ms to 1h, found 2h");
        server(
            "default_lifetime: 10ms",
            ".default_lifetime",
            "must be from 1s to 24h, found 10ms",
        );
    }
    let exchange = |text: &str, place: &str, cause: &str| {
        upstream(
            &format!(
                "credential: {{ token_exchange: {{ token_url: https://t, client_id: g, client_secret: s, {text} }} }}"
            ),
            &format!("agents[0].upstream.credential.token_exchange{place} (line 4): {cause}"),
        );
    };
    exchange("concurrent: 0", ".concurrent", "must be from 1 to 10000, found 0");
    exchange("tokens: 0", ".tokens", "must be from 1 to 10000000, found 0");
    exchange(
        "requested_token_type: jwt",
        ".requested_token_type",
        "must be an absolute URI without a fragment",
    );
}

#[test]
fn assertions() {
    let assertion = |text: &str, place: &str, cause: &str| {
        let agents = format!(
            "[ {{ name: a, path: /a, upstream: {{ endpoints: [ {{ url: http://a }} ], assertion: {{ {text} }} }} }} ]"
        );
        let sections = [
            ("agents", &*agents),
            ("assertions", "{ keys: [ { private_key: a.pem } ] }"),
        ];
        let expected = format!("agents[0].upstream.assertion{place} (line 4): {cause}");
        check(&file(&sections), &environment(), &expected);
    };
    assertion(
        "header: Authorization",
        ".header",
        "`authorization` is a header that callers send, who get none of this name through",
    );
    assertion(
        "header: Host",
        ".header",
        "`host` is written by the gateway and cannot be a credential",
    );
    assertion("audience: \"\"", ".audience", "is empty");
    assertion("lifetime: 2h", ".lifetime", "must be from 1s to 1h, found 2h");
    assertion(
        "claims: [ \"a=b\" ]",
        ".claims[0]",
        "must be the name of a claim or attribute, without `=`",
    );
    upstream(
        "assertion: {}",
        "agents[0].upstream.assertion (line 4): needs `assertions.keys`: there is nothing to sign with",
    );
}

#[test]
fn keys_that_sign() {
    for section in ["assertions", "card_signatures"] {
        let keys = |text: &str, expected: &str| super::invalid::section(section, text, expected);
        keys(
            "{ keys: [ { id: a } ] }",
            &format!("{section}.keys[0].private_key (line 5): is required"),
        );
        keys(
            "{ keys: [ { private_key: a, id: x }, { private_key: b, id: x } ] }",
            &format!("{section}.keys[1].id (line 5): `x` is already used by {section}.keys[0].id"),
        );
        keys(
            "{ keys: [ { private_key: a, id: \"\" } ] }",
            &format!("{section}.keys[0].id (line 5): is empty"),
        );
    }
}

#[test]
fn keys_of_cards() {
    let verify = |text: &str, place: &str, cause: &str| {
        let agents = format!(
            "[ {{ name: a, path: /a, upstream: {{ endpoints: [ {{ url: http://a }} ] }}, card: {{ verify: {{ {text} }} }} }} ]"
        );
        let expected = format!("agents[0].card.verify{place} (line 4): {cause}");
        check(&file(&[("agents", &*agents)]), &environment(), &expected);
    };
    verify(
        "",
        "",
        "needs one of `jwks_file`, `jwks_url` and `jku`: nobody's signature would be believed",
    );
    verify(
        "jwks_file: a, jwks_url: https://k",
        "",
        "has both `jwks_file` and `jwks_url`; keep one of them",
    );
    verify(
        "jwks_url: http://k.example",
        ".jwks_url",
        "must be https: whoever can change these keys can sign cards; http only on a loopback address",
    );
    verify(
        "jku: [ http://k.example ]",
        ".jku[0]",
        "must be https: whoever can change these keys can sign cards; http only on a loopback address",
    );
    verify(
        "jwks_file: a, jwks_ca: b",
        ".jwks_ca",
        "belongs to `jwks_url` and `jku`",
    );
}
