//! Tokens, and whoever is asked about credentials: keys of the issuer, discovery, introspection, an external check.

use std::path::PathBuf;
use std::time::Duration;

use super::super::model::{
    Asking, Client, ClientAuthentication, FetchedKeys, JwksSource, KeysPlace, SenderConstraint, TokenProfile,
    TokenProof, Tokens,
};
use super::super::raw::{
    RawCheck, RawClientAuthentication, RawIntrospection, RawScheme, RawSenderConstraint, RawTokenProfile,
};
use super::super::units::Time;
use super::super::{join, place};
use super::schemes::need;
use super::{Check, DAY, HOUR, MILLISECOND, SECOND, url};

const DEFAULT_JWKS_REFRESH: Duration = Duration::from_secs(15 * 60);
const DEFAULT_JWKS_COOLDOWN: Duration = Duration::from_secs(60);
const DEFAULT_LEEWAY: Duration = Duration::from_secs(30);
/// Leeway beyond this is a clock that needs repair.
const MAX_LEEWAY: Duration = Duration::from_secs(10 * 60);
const DEFAULT_DPOP_LIFETIME: Duration = Duration::from_secs(60);
/// Every proof is remembered for this long.
const LONGEST_DPOP_LIFETIME: Duration = Duration::from_secs(10 * 60);
const DEFAULT_PRINCIPAL_CLAIM: &str = "sub";
/// Each question under way is a connection of its own.
pub const MOST_QUESTIONS: u32 = 10_000;
/// A caller that waits longer for an answer about itself has gone.
pub const LONGEST_QUESTION: Duration = Duration::from_secs(60);

pub const TOKEN_KEYS: [&str; 13] = [
    "issuer",
    "audience",
    "jwks_file",
    "jwks_url",
    "jwks_ca",
    "jwks_refresh",
    "jwks_cooldown",
    "profile",
    "introspection",
    "sender_constraint",
    "dpop_lifetime",
    "leeway",
    "principal_claim",
];

/// `document` is the key and the URL of the discovery document that the scheme has, if it has one.
pub fn tokens(
    check: &mut Check<'_>,
    key: &str,
    kind: &str,
    raw: &RawScheme,
    document: Option<(&str, &str)>,
) -> Option<Tokens> {
    need(check, key, "issuer", kind, raw.issuer.is_some());
    // A server that is asked says for whom it answers.
    need(
        check,
        key,
        "audience",
        kind,
        raw.audience.is_some() || raw.introspection.is_some(),
    );
    let issuer = check.text(&join(key, "issuer"), raw.issuer.as_ref());
    let audience_key = join(key, "audience");
    let mut audience = Vec::new();
    if let Some(list) = &raw.audience {
        if list.is_empty() {
            check.problem(
                &audience_key,
                "is empty, so that no token could pass; name this gateway's audience",
            );
        }
        for (index, text) in list.items() {
            audience.extend(check.text(&place(&audience_key, index), Some(text)));
        }
    }
    let proof = match &raw.introspection {
        Some(introspection) => asked(check, key, raw, introspection),
        None => {
            let keys = jwks(check, key, raw, document, issuer.as_deref());
            let profile = match raw.profile {
                Some(RawTokenProfile::AccessToken) => TokenProfile::AccessToken,
                Some(RawTokenProfile::Jwt) | None => TokenProfile::Jwt,
            };
            keys.map(|keys| TokenProof::Signature { keys, profile })
        }
    };
    let leeway = raw.leeway.map_or(DEFAULT_LEEWAY, |leeway| {
        check.time(&join(key, "leeway"), leeway, Duration::ZERO, MAX_LEEWAY)
    });
    let sender = match raw.sender_constraint {
        None | Some(RawSenderConstraint::Optional) => SenderConstraint::Optional,
        Some(RawSenderConstraint::Mtls) => SenderConstraint::Mtls,
        Some(RawSenderConstraint::Dpop) => SenderConstraint::Dpop,
        Some(RawSenderConstraint::Required) => SenderConstraint::Required,
    };
    if raw.dpop_lifetime.is_some() && sender == SenderConstraint::Mtls {
        check.problem(
            &join(key, "dpop_lifetime"),
            "has no effect while `sender_constraint` is `mtls`: tokens are bound to certificates",
        );
    }
    let dpop_lifetime = raw.dpop_lifetime.map_or(DEFAULT_DPOP_LIFETIME, |lifetime| {
        check.time(&join(key, "dpop_lifetime"), lifetime, SECOND, LONGEST_DPOP_LIFETIME)
    });
    let principal_claim = match &raw.principal_claim {
        Some(claim) => check.text(&join(key, "principal_claim"), Some(claim))?,
        None => DEFAULT_PRINCIPAL_CLAIM.to_owned(),
    };
    Some(Tokens {
        issuer: issuer?,
        audience,
        proof: proof?,
        sender,
        dpop_lifetime,
        leeway,
        principal_claim,
        claims: Vec::new(),
    })
}

/// What reads the files of tokens whose scheme is not complete.
pub fn files_of(jwks_file: Option<PathBuf>, jwks_ca: Option<PathBuf>) -> Option<Tokens> {
    let stand_in = || "x".to_owned();
    let keys = match (jwks_file, jwks_ca) {
        (Some(file), None) => JwksSource::File(file),
        (None, Some(ca)) => JwksSource::Fetched(FetchedKeys {
            place: KeysPlace::Url("https://localhost/".to_owned()),
            ca: Some(ca),
            refresh: DEFAULT_JWKS_REFRESH,
            cooldown: DEFAULT_JWKS_COOLDOWN,
        }),
        (Some(_), Some(_)) | (None, None) => return None,
    };
    Some(Tokens {
        issuer: stand_in(),
        audience: vec![stand_in()],
        proof: TokenProof::Signature {
            keys,
            profile: TokenProfile::Jwt,
        },
        sender: SenderConstraint::Optional,
        dpop_lifetime: DEFAULT_DPOP_LIFETIME,
        leeway: DEFAULT_LEEWAY,
        principal_claim: stand_in(),
        claims: Vec::new(),
    })
}

fn jwks(
    check: &mut Check<'_>,
    key: &str,
    raw: &RawScheme,
    document: Option<(&str, &str)>,
    issuer: Option<&str>,
) -> Option<JwksSource> {
    let is_fetched = raw.jwks_url.is_some() || (raw.jwks_file.is_none() && document.is_some());
    for (name, given) in [
        ("jwks_ca", raw.jwks_ca.is_some()),
        ("jwks_refresh", raw.jwks_refresh.is_some()),
        ("jwks_cooldown", raw.jwks_cooldown.is_some()),
    ] {
        if given && !is_fetched && !check.was_given_up(&join(key, "jwks_url")) {
            check.problem(&join(key, name), "belongs to `jwks_url`");
        }
    }
    let (name, url) = match (&raw.jwks_file, &raw.jwks_url) {
        (Some(file), None) => {
            return check.path(&join(key, "jwks_file"), file).map(JwksSource::File);
        }
        (None, Some(url)) => ("jwks_url", url.as_str()),
        (Some(_), Some(_)) => {
            check.problem(key, "has both `jwks_file` and `jwks_url`; keep one of them");
            return None;
        }
        (None, None) => match document {
            Some(document) => document,
            None => {
                check.problem(
                    key,
                    "needs one of `jwks_file`, `jwks_url` and `introspection` (only `openIdConnectUrl` and `oauth2MetadataUrl` are \
                     followed to find keys, cards never are)",
                );
                return None;
            }
        },
    };
    let parsed = private_url(
        check,
        &join(key, name),
        url,
        "whoever can change these keys can make tokens",
    );
    let is_named = name == "jwks_url";
    // A document on a loopback address may name keys elsewhere.
    if parsed.as_ref().is_some_and(|url| !url.secure) && is_named && raw.jwks_ca.is_some() {
        check.problem(&join(key, "jwks_ca"), "has no effect: `jwks_url` is http");
    }
    let refresh = raw.jwks_refresh.map_or(DEFAULT_JWKS_REFRESH, |refresh| {
        check.time(&join(key, "jwks_refresh"), refresh, SECOND, DAY)
    });
    let cooldown = raw.jwks_cooldown.map_or(DEFAULT_JWKS_COOLDOWN, |cooldown| {
        check.time(&join(key, "jwks_cooldown"), cooldown, SECOND, DAY)
    });
    let ca = check.optional_path(&join(key, "jwks_ca"), raw.jwks_ca.as_ref());
    parsed?;
    let url = url.to_owned();
    let place = if is_named {
        KeysPlace::Url(url)
    } else {
        let issuer = issuer?.to_owned();
        KeysPlace::Discovery { url, issuer }
    };
    Some(JwksSource::Fetched(FetchedKeys {
        place,
        ca,
        refresh,
        cooldown,
    }))
}

fn asked(check: &mut Check<'_>, key: &str, raw: &RawScheme, introspection: &RawIntrospection) -> Option<TokenProof> {
    for (name, given) in [
        ("jwks_file", raw.jwks_file.is_some()),
        ("jwks_url", raw.jwks_url.is_some()),
        ("jwks_ca", raw.jwks_ca.is_some()),
        ("jwks_refresh", raw.jwks_refresh.is_some()),
        ("jwks_cooldown", raw.jwks_cooldown.is_some()),
        ("profile", raw.profile.is_some()),
    ] {
        if given {
            check.problem(
                &join(key, name),
                "has no effect beside `introspection`: the issuer is asked about each token; keep one of them",
            );
        }
    }
    let key = join(key, "introspection");
    let client_id = check.text(&join(&key, "client_id"), introspection.client_id.as_ref());
    let secret = check.secret(
        &key,
        "client_secret",
        introspection.client_secret.as_ref(),
        introspection.client_secret_file.as_ref(),
    );
    let asking = asking(
        check,
        &key,
        introspection.url.as_deref(),
        introspection.ca.as_ref(),
        "every token goes there",
        &Bounds {
            timeout: introspection.timeout,
            cache_ttl: introspection.cache_ttl,
            negative_ttl: introspection.negative_ttl,
            concurrent: introspection.concurrent,
        },
    );
    let (_, secret) = secret?;
    Some(TokenProof::Introspection {
        asking: asking?,
        client: Client {
            id: client_id?,
            secret,
            authentication: match introspection.authentication {
                RawClientAuthentication::Basic => ClientAuthentication::Basic,
                RawClientAuthentication::Post => ClientAuthentication::Post,
            },
        },
    })
}

/// Who knows the credentials of a scheme that the gateway does not.
pub fn check(check: &mut Check<'_>, key: &str, raw: &RawCheck) -> Option<Asking> {
    asking(
        check,
        key,
        raw.url.as_deref(),
        raw.ca.as_ref(),
        "every credential goes there",
        &Bounds {
            timeout: raw.timeout,
            cache_ttl: raw.cache_ttl,
            negative_ttl: raw.negative_ttl,
            concurrent: raw.concurrent,
        },
    )
}

struct Bounds {
    timeout: Time,
    cache_ttl: Time,
    negative_ttl: Time,
    concurrent: u32,
}

fn asking(
    check: &mut Check<'_>,
    key: &str,
    url: Option<&str>,
    ca: Option<&String>,
    why_private: &str,
    bounds: &Bounds,
) -> Option<Asking> {
    let url_key = join(key, "url");
    let parsed = url.and_then(|url| private_url(check, &url_key, url, why_private));
    if ca.is_some() && parsed.as_ref().is_some_and(|url| !url.secure) {
        check.problem(&join(key, "ca"), "has no effect: `url` is http");
    }
    let ca = check.optional_path(&join(key, "ca"), ca);
    let timeout = check.time(&join(key, "timeout"), bounds.timeout, MILLISECOND, LONGEST_QUESTION);
    let cache_ttl = check.time(&join(key, "cache_ttl"), bounds.cache_ttl, Duration::ZERO, HOUR);
    let negative_ttl = check.time(&join(key, "negative_ttl"), bounds.negative_ttl, Duration::ZERO, HOUR);
    let concurrent = check.count(&join(key, "concurrent"), bounds.concurrent, 1, MOST_QUESTIONS);
    parsed?;
    Some(Asking {
        url: url?.to_owned(),
        ca,
        timeout,
        cache_ttl,
        negative_ttl,
        concurrent,
    })
}

/// A URL that is fetched, and that nobody on the way may read or change.
pub fn private_url(check: &mut Check<'_>, key: &str, text: &str, why: &str) -> Option<url::Url> {
    let url = check.plain_url(key, text)?;
    if !url.secure && !url.is_loopback() {
        check.problem(key, format!("must be https: {why}; http only on a loopback address"));
        return None;
    }
    Some(url)
}
