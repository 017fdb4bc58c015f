//! Schemes, and what agents are shown: without keys, secrets and hashes.

use serde_json::{Value, json};

use super::super::model::*;
use super::super::units::Moment;
use super::{BLANK, add, path, time};

pub(super) fn scheme(scheme: &Scheme) -> Value {
    let mut shown = match &scheme.kind {
        SchemeKind::ApiKey {
            place,
            name,
            keys: source,
        } => {
            let mut shown = json!({
                "type": "apiKey",
                "in": match place {
                    ApiKeyPlace::Header => "header",
                    ApiKeyPlace::Query => "query",
                    ApiKeyPlace::Cookie => "cookie",
                },
                "name": name,
            });
            match source {
                KeySource::File(file) => add(&mut shown, "keys_file", path(file)),
                KeySource::Inline(keys) => add(&mut shown, "keys", keys.iter().map(key).collect::<Vec<_>>()),
            }
            shown
        }
        SchemeKind::Bearer {
            bearer_format,
            tokens: one,
        } => {
            let mut shown = json!({ "type": "http", "scheme": "bearer", "bearerFormat": bearer_format });
            tokens(&mut shown, one);
            shown
        }
        SchemeKind::Basic { users_file } => {
            json!({ "type": "http", "scheme": "basic", "users_file": path(users_file) })
        }
        SchemeKind::Http { scheme, check, .. } => {
            let mut shown = json!({ "type": "http", "scheme": scheme });
            add(&mut shown, "check", asking(check));
            shown
        }
        SchemeKind::OAuth2 {
            flows,
            metadata_url,
            tokens: one,
        } => {
            let mut shown = json!({ "type": "oauth2", "flows": flows, "oauth2MetadataUrl": metadata_url });
            tokens(&mut shown, one);
            shown
        }
        SchemeKind::OpenIdConnect { url, tokens: one } => {
            let mut shown = json!({ "type": "openIdConnect", "openIdConnectUrl": url });
            tokens(&mut shown, one);
            shown
        }
        SchemeKind::MutualTls { allow } => {
            json!({ "type": "mutualTLS", "allow": allow.iter().map(rule).collect::<Vec<_>>() })
        }
    };
    add(&mut shown, "description", scheme.description.clone());
    if scheme.principal != Mapping::default() {
        add(&mut shown, "principal", super::policy::mapping(&scheme.principal));
    }
    shown
}

fn key(key: &ApiKey) -> Value {
    let mut shown = json!({ "id": key.id, "hash": BLANK, "scopes": key.scopes });
    if let Some(expires) = key.expires {
        add(&mut shown, "expires", Moment(expires).to_string());
    }
    shown
}

fn rule(rule: &CertificateRule) -> String {
    match rule {
        CertificateRule::Uri(pattern) => pattern.clone(),
        CertificateRule::Dns(pattern) => format!("dns:{pattern}"),
        CertificateRule::Email(pattern) => format!("email:{pattern}"),
        CertificateRule::Subject(pattern) => format!("subject:{pattern}"),
        CertificateRule::Fingerprint(digits) => format!("fingerprint:{digits}"),
    }
}

fn tokens(shown: &mut Value, tokens: &Tokens) {
    add(shown, "issuer", tokens.issuer.clone());
    if !tokens.audience.is_empty() {
        add(shown, "audience", tokens.audience.clone());
    }
    match &tokens.proof {
        TokenProof::Signature { keys, profile } => {
            jwks(shown, keys);
            let profile = match profile {
                TokenProfile::Jwt => "jwt",
                TokenProfile::AccessToken => "at+jwt",
            };
            add(shown, "profile", profile);
        }
        TokenProof::Introspection { asking: one, client } => {
            let mut introspection = asking(one);
            add(&mut introspection, "client_id", client.id.clone());
            add(&mut introspection, "client_secret", BLANK);
            let authentication = match client.authentication {
                ClientAuthentication::Basic => "basic",
                ClientAuthentication::Post => "post",
            };
            add(&mut introspection, "authentication", authentication);
            add(shown, "introspection", introspection);
        }
    }
    let constraint = match tokens.sender {
        SenderConstraint::Optional => "optional",
        SenderConstraint::Mtls => "mtls",
        SenderConstraint::Dpop => "dpop",
        SenderConstraint::Required => "required",
    };
    add(shown, "sender_constraint", constraint);
    if tokens.sender != SenderConstraint::Mtls {
        add(shown, "dpop_lifetime", time(tokens.dpop_lifetime));
    }
    add(shown, "leeway", time(tokens.leeway));
    add(shown, "principal_claim", tokens.principal_claim.clone());
}

fn jwks(shown: &mut Value, keys: &JwksSource) {
    match keys {
        JwksSource::File(file) => add(shown, "jwks_file", path(file)),
        JwksSource::Fetched(fetched) => {
            match &fetched.place {
                KeysPlace::Url(url) => add(shown, "jwks_url", url.clone()),
                // A key of the scheme itself.
                KeysPlace::Discovery { .. } => {}
            }
            add(shown, "jwks_ca", fetched.ca.as_deref().map(path));
            add(shown, "jwks_refresh", time(fetched.refresh));
            add(shown, "jwks_cooldown", time(fetched.cooldown));
        }
    }
}

fn asking(asking: &Asking) -> Value {
    json!({
        "url": asking.url,
        "ca": asking.ca.as_deref().map(path),
        "timeout": time(asking.timeout),
        "cache_ttl": time(asking.cache_ttl),
        "negative_ttl": time(asking.negative_ttl),
        "concurrent": asking.concurrent,
    })
}

pub(super) fn credential(credential: &UpstreamCredential) -> Value {
    match credential {
        UpstreamCredential::Header { name, value: _ } => {
            json!({ "header": { "name": name.as_str(), "value": BLANK } })
        }
        UpstreamCredential::Bearer(_) => json!({ "bearer": { "token": BLANK } }),
        UpstreamCredential::Basic { username, password: _ } => {
            json!({ "basic": { "username": username, "password": BLANK } })
        }
        UpstreamCredential::ClientCredentials(server) => json!({ "client_credentials": token_server(server) }),
        UpstreamCredential::TokenExchange(exchange) => {
            let mut shown = token_server(&exchange.server);
            add(
                &mut shown,
                "requested_token_type",
                exchange.requested_token_type.clone(),
            );
            add(&mut shown, "refused_for", time(exchange.refused_for));
            add(&mut shown, "concurrent", exchange.concurrent);
            add(&mut shown, "tokens", exchange.tokens);
            json!({ "token_exchange": shown })
        }
    }
}

fn token_server(server: &TokenServer) -> Value {
    json!({
        "token_url": server.url,
        "client_id": server.client_id,
        "client_secret": BLANK,
        "authentication": match server.authentication {
            ClientAuthentication::Basic => "basic",
            ClientAuthentication::Post => "post",
        },
        "scopes": server.scopes,
        "audience": server.audience,
        "resource": server.resource,
        "ca": server.ca.as_deref().map(path),
        "timeout": time(server.timeout),
        "default_lifetime": time(server.default_lifetime),
        "cooldown": time(server.cooldown),
    })
}

pub(super) fn assertion(assertion: &UpstreamAssertion) -> Value {
    json!({
        "header": assertion.header.as_str(),
        "audience": assertion.audience,
        "lifetime": time(assertion.lifetime),
        "claims": assertion.claims,
    })
}

pub(super) fn assertions(assertions: &Assertions) -> Value {
    json!({
        "issuer": assertions.issuer,
        "keys": signing_keys(&assertions.keys),
        "max_age": time(assertions.max_age),
    })
}

pub(super) fn card_signatures(signatures: &CardSignatures) -> Value {
    json!({ "keys": signing_keys(&signatures.keys) })
}

fn signing_keys(keys: &[SigningKey]) -> Value {
    let key = |key: &SigningKey| json!({ "private_key": path(&key.private_key), "id": key.id });
    keys.iter().map(key).collect()
}
