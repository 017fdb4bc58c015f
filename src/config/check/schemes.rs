//! Security schemes: which keys belong to which type, and that each has what its verifier needs.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::super::model::{
    ApiKey, ApiKeyPlace, Attribute, CertificateRule, JwksSource, Jwt, KeySource, Mapping, Scheme, SchemeKind,
};
use super::super::raw::{List, Names, RawHttpScheme, RawKey, RawKeyPlace, RawMapping, RawScheme, RawSchemeType};
use super::super::{join, place};
use super::names::{self, Unique};
use super::{Check, DAY, SECOND};
use crate::a2a::security::SchemeName;
use crate::expression::{Scope, Type};

const DEFAULT_JWKS_REFRESH: Duration = Duration::from_secs(15 * 60);
const DEFAULT_JWKS_COOLDOWN: Duration = Duration::from_secs(60);
const DEFAULT_LEEWAY: Duration = Duration::from_secs(30);
/// Leeway beyond this is a clock that needs repair.
const MAX_LEEWAY: Duration = Duration::from_secs(10 * 60);
const DEFAULT_PRINCIPAL_CLAIM: &str = "sub";
/// SHA-256 of nothing: somebody hashed an empty variable.
const EMPTY_HASH: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

const JWT_KEYS: [&str; 9] = [
    "issuer",
    "audience",
    "jwks_file",
    "jwks_url",
    "jwks_ca",
    "jwks_refresh",
    "jwks_cooldown",
    "leeway",
    "principal_claim",
];

pub fn schemes(check: &mut Check<'_>, raw: &Names<RawScheme>) -> Option<BTreeMap<SchemeName, Scheme>> {
    let mut schemes = BTreeMap::new();
    let mut complete = true;
    for (name, raw) in raw.items() {
        let key = join("security_schemes", name);
        if !names::is_name(name) {
            check.problem(
                &key,
                "the name must be letters, digits, `-`, `_` or `.`, beginning with a letter or digit",
            );
        }
        let kind = raw.and_then(|raw| kind(check, &key, raw));
        match (raw, kind) {
            (Some(raw), Some(kind)) => {
                let principal = raw.principal.as_ref();
                let principal = principal.map(|principal| mapping(check, &join(&key, "principal"), principal, &kind));
                let scheme = Scheme {
                    description: raw.description.clone(),
                    kind,
                    principal: principal.unwrap_or_default(),
                };
                check.sound.schemes.insert(name.clone(), scheme.clone());
                schemes.insert(name.clone(), scheme);
            }
            (Some(raw), None) => {
                complete = false;
                if let Some(kind) = files_of(check, raw) {
                    let scheme = Scheme {
                        description: None,
                        kind,
                        principal: Mapping::default(),
                    };
                    check.sound.schemes.insert(name.clone(), scheme);
                }
            }
            (None, _) => complete = false,
        }
    }
    complete.then_some(schemes)
}

fn kind(check: &mut Check<'_>, key: &str, raw: &RawScheme) -> Option<SchemeKind> {
    let (kind, own): (&str, &[&str]) = match (raw.kind?, raw.scheme) {
        (RawSchemeType::ApiKey, _) => ("apiKey", &["in", "name", "keys", "keys_file"]),
        (RawSchemeType::Http, Some(RawHttpScheme::Bearer)) => ("http with bearer", &["scheme", "bearerFormat"]),
        (RawSchemeType::Http, Some(RawHttpScheme::Basic)) => ("http with basic", &["scheme", "users_file"]),
        (RawSchemeType::Http, None) => {
            need(check, key, "scheme", "http", false);
            return None;
        }
        (RawSchemeType::OAuth2, _) => ("oauth2", &["flows", "oauth2MetadataUrl"]),
        (RawSchemeType::OpenIdConnect, _) => ("openIdConnect", &["openIdConnectUrl"]),
        (RawSchemeType::MutualTls, _) => ("mutualTLS", &["allow"]),
    };
    let takes_tokens = matches!(kind, "http with bearer" | "oauth2" | "openIdConnect");
    for (name, given) in given(raw) {
        let belongs = own.contains(&name) || (takes_tokens && JWT_KEYS.contains(&name));
        if given && !belongs {
            check.problem(&join(key, name), format!("does not belong to the type {kind}"));
        }
    }
    match (raw.kind?, raw.scheme) {
        (RawSchemeType::ApiKey, _) => api_key(check, key, raw),
        (RawSchemeType::Http, Some(RawHttpScheme::Basic)) => {
            need(check, key, "users_file", kind, raw.users_file.is_some());
            let users_file = check.optional_path(&join(key, "users_file"), raw.users_file.as_ref());
            Some(SchemeKind::Basic {
                users_file: users_file?,
            })
        }
        (RawSchemeType::Http, _) => Some(SchemeKind::Bearer {
            bearer_format: raw.bearer_format.clone(),
            jwt: jwt(check, key, kind, raw)?,
        }),
        (RawSchemeType::OAuth2, _) => oauth2(check, key, kind, raw),
        (RawSchemeType::OpenIdConnect, _) => {
            let url = published_url(check, key, "openIdConnectUrl", raw.open_id_connect_url.as_ref());
            let is_given = raw.open_id_connect_url.is_some();
            need(check, key, "openIdConnectUrl", kind, is_given);
            let jwt = jwt(check, key, kind, raw);
            Some(SchemeKind::OpenIdConnect { url: url?, jwt: jwt? })
        }
        (RawSchemeType::MutualTls, _) => mutual_tls(check, key, raw),
    }
}

/// What reads the files of a scheme that is not complete.
fn files_of(check: &mut Check<'_>, raw: &RawScheme) -> Option<SchemeKind> {
    let stand_in = || "x".to_owned();
    let path = |text: &Option<String>| Some(check.base.join(text.as_ref().filter(|text| !text.is_empty())?));
    match (raw.kind?, raw.scheme) {
        (RawSchemeType::ApiKey, _) if raw.keys.is_none() => Some(SchemeKind::ApiKey {
            place: ApiKeyPlace::Header,
            name: stand_in(),
            keys: KeySource::File(path(&raw.keys_file)?),
        }),
        (RawSchemeType::Http, Some(RawHttpScheme::Basic)) => Some(SchemeKind::Basic {
            users_file: path(&raw.users_file)?,
        }),
        (RawSchemeType::Http, Some(RawHttpScheme::Bearer))
        | (RawSchemeType::OAuth2 | RawSchemeType::OpenIdConnect, _) => {
            let keys = match (path(&raw.jwks_file), path(&raw.jwks_ca)) {
                (Some(file), None) => JwksSource::File(file),
                (None, Some(ca)) => JwksSource::Url {
                    url: "https://localhost/".to_owned(),
                    ca: Some(ca),
                    refresh: DEFAULT_JWKS_REFRESH,
                    cooldown: DEFAULT_JWKS_COOLDOWN,
                },
                (Some(_), Some(_)) | (None, None) => return None,
            };
            Some(SchemeKind::Bearer {
                bearer_format: None,
                jwt: Jwt {
                    issuer: stand_in(),
                    audience: vec![stand_in()],
                    keys,
                    leeway: DEFAULT_LEEWAY,
                    principal_claim: stand_in(),
                    claims: Vec::new(),
                },
            })
        }
        (RawSchemeType::ApiKey | RawSchemeType::Http | RawSchemeType::MutualTls, _) => None,
    }
}

/// What a mapping may read follows from what the scheme verifies.
fn mapping(check: &mut Check<'_>, key: &str, raw: &RawMapping, kind: &SchemeKind) -> Mapping {
    let scope = Scope::credential().only(match kind {
        SchemeKind::ApiKey { .. } | SchemeKind::Basic { .. } => &["attributes", "name", "scopes"],
        SchemeKind::Bearer { .. } | SchemeKind::OAuth2 { .. } | SchemeKind::OpenIdConnect { .. } => {
            &["claims", "name", "scopes"]
        }
        SchemeKind::MutualTls { .. } => &["certificate", "name"],
    });
    let texts = Type::list(Type::Text);
    let mut expression = |name: &str, source: Option<&String>, wanted: &Type| {
        check.expression(&join(key, name), source?, &scope, wanted)
    };
    let name = expression("name", raw.name.as_ref(), &Type::Text);
    let groups = expression("groups", raw.groups.as_ref(), &texts);
    let scopes = expression("scopes", raw.scopes.as_ref(), &texts);
    let claims_key = join(key, "claims");
    let claims = raw.claims.items().filter_map(|(name, source)| {
        let expression = check.expression(&join(&claims_key, name), source?, &scope, &Type::Dyn)?;
        Some((name.clone(), expression))
    });
    Mapping {
        name,
        groups,
        scopes,
        claims: claims.collect(),
    }
}

fn given(raw: &RawScheme) -> [(&'static str, bool); 20] {
    [
        ("in", raw.place.is_some()),
        ("name", raw.name.is_some()),
        ("keys", raw.keys.is_some()),
        ("keys_file", raw.keys_file.is_some()),
        ("scheme", raw.scheme.is_some()),
        ("bearerFormat", raw.bearer_format.is_some()),
        ("users_file", raw.users_file.is_some()),
        ("flows", raw.flows.is_some()),
        ("oauth2MetadataUrl", raw.oauth2_metadata_url.is_some()),
        ("openIdConnectUrl", raw.open_id_connect_url.is_some()),
        ("issuer", raw.issuer.is_some()),
        ("audience", raw.audience.is_some()),
        ("jwks_file", raw.jwks_file.is_some()),
        ("jwks_url", raw.jwks_url.is_some()),
        ("jwks_ca", raw.jwks_ca.is_some()),
        ("jwks_refresh", raw.jwks_refresh.is_some()),
        ("jwks_cooldown", raw.jwks_cooldown.is_some()),
        ("leeway", raw.leeway.is_some()),
        ("principal_claim", raw.principal_claim.is_some()),
        ("allow", raw.allow.is_some()),
    ]
}

fn need(check: &mut Check<'_>, key: &str, name: &str, kind: &str, is_given: bool) {
    if !is_given {
        check.problem(&join(key, name), format!("is required with the type {kind}"));
    }
}

fn api_key(check: &mut Check<'_>, key: &str, raw: &RawScheme) -> Option<SchemeKind> {
    need(check, key, "in", "apiKey", raw.place.is_some());
    need(check, key, "name", "apiKey", raw.name.is_some());
    let name = raw.name.as_ref().and_then(|name| {
        // Header, parameter and cookie names alike: RFC 9110 §5.6.2 `token`.
        if http::HeaderName::from_bytes(name.as_bytes()).is_err() {
            check.problem(
                &join(key, "name"),
                format!("`{name}` cannot be the name of a header, parameter or cookie"),
            );
            return None;
        }
        Some(name.clone())
    });
    let keys = match (&raw.keys, &raw.keys_file) {
        (Some(keys), None) => inline_keys(check, &join(key, "keys"), keys).map(KeySource::Inline),
        (None, Some(file)) => check.path(&join(key, "keys_file"), file).map(KeySource::File),
        (Some(_), Some(_)) => {
            check.problem(key, "has both `keys` and `keys_file`; keep one of them");
            None
        }
        (None, None) => {
            check.problem(key, "needs `keys` or `keys_file`");
            None
        }
    };
    let place = match raw.place? {
        RawKeyPlace::Header => ApiKeyPlace::Header,
        RawKeyPlace::Query => ApiKeyPlace::Query,
        RawKeyPlace::Cookie => ApiKeyPlace::Cookie,
    };
    Some(SchemeKind::ApiKey {
        place,
        name: name?,
        keys: keys?,
    })
}

fn inline_keys(check: &mut Check<'_>, key: &str, raw: &List<RawKey>) -> Option<Vec<ApiKey>> {
    if raw.is_empty() {
        check.problem(key, "is empty, so that nobody could call; add a key");
    }
    let mut ids = Unique::default();
    let mut hashes = BTreeSet::new();
    let mut keys = Vec::new();
    let mut complete = true;
    for (index, raw) in raw.items() {
        let key = place(key, index);
        let id_key = join(&key, "id");
        let id = check.text(&id_key, raw.id.as_ref());
        if let Some(id) = &id {
            ids.claim(check, &id_key, id);
        }
        let hash = raw.hash.as_ref().and_then(|text| {
            let hash_key = join(&key, "hash");
            let hash = ApiKey::parse_hash(text);
            match &hash {
                None => check.problem(
                    &hash_key,
                    "must be `sha256:<64 hex digits>` or `sha256:<salt in hex>:<64 hex digits>`",
                ),
                Some(_) if text.to_ascii_lowercase().ends_with(&format!("sha256:{EMPTY_HASH}")) => {
                    check.problem(&hash_key, "is the hash of an empty key");
                }
                Some(hash) if !hashes.insert(hash.clone()) => {
                    check.problem(&hash_key, "is already the hash of another key");
                }
                Some(_) => {}
            }
            hash
        });
        let attributes_key = join(&key, "attributes");
        let mut attributes = Vec::new();
        for (index, text) in raw.attributes.items() {
            match Attribute::parse(text) {
                Some(attribute) => attributes.push(attribute),
                None => check.problem(&place(&attributes_key, index), Attribute::EXPECTED),
            }
        }
        match (id, hash) {
            (Some(id), Some((salt, sha256))) => keys.push(ApiKey {
                id,
                sha256,
                salt,
                scopes: raw.scopes.items().map(|(_, scope)| scope.clone()).collect(),
                attributes,
                expires: raw.expires.map(|moment| moment.0),
                label: raw.label.clone().unwrap_or_default(),
            }),
            (Some(_) | None, _) => complete = false,
        }
    }
    complete.then_some(keys)
}

fn oauth2(check: &mut Check<'_>, key: &str, kind: &str, raw: &RawScheme) -> Option<SchemeKind> {
    need(check, key, "flows", kind, raw.flows.is_some());
    if raw.flows.as_ref().is_some_and(serde_json::Map::is_empty) {
        check.problem(&join(key, "flows"), "is empty; cards need at least one flow");
    }
    let metadata_url = published_url(check, key, "oauth2MetadataUrl", raw.oauth2_metadata_url.as_ref());
    let jwt = jwt(check, key, kind, raw);
    Some(SchemeKind::OAuth2 {
        flows: raw.flows.clone()?.into(),
        metadata_url,
        jwt: jwt?,
    })
}

fn published_url(check: &mut Check<'_>, key: &str, name: &str, text: Option<&String>) -> Option<String> {
    let text = text?;
    check.plain_url(&join(key, name), text).map(|_| text.clone())
}

fn jwt(check: &mut Check<'_>, key: &str, kind: &str, raw: &RawScheme) -> Option<Jwt> {
    need(check, key, "issuer", kind, raw.issuer.is_some());
    need(check, key, "audience", kind, raw.audience.is_some());
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
    let keys = jwks(check, key, raw);
    let leeway = raw.leeway.map_or(DEFAULT_LEEWAY, |leeway| {
        check.time(&join(key, "leeway"), leeway, Duration::ZERO, MAX_LEEWAY)
    });
    if raw.principal_claim.is_some() && raw.principal.as_ref().is_some_and(|mapping| mapping.name.is_some()) {
        check.problem(&join(key, "principal_claim"), "has no effect beside `principal.name`");
    }
    let principal_claim = match &raw.principal_claim {
        Some(claim) => check.text(&join(key, "principal_claim"), Some(claim))?,
        None => DEFAULT_PRINCIPAL_CLAIM.to_owned(),
    };
    Some(Jwt {
        issuer: issuer?,
        audience,
        keys: keys?,
        leeway,
        principal_claim,
        claims: Vec::new(),
    })
}

fn jwks(check: &mut Check<'_>, key: &str, raw: &RawScheme) -> Option<JwksSource> {
    for (name, given) in [
        ("jwks_ca", raw.jwks_ca.is_some()),
        ("jwks_refresh", raw.jwks_refresh.is_some()),
        ("jwks_cooldown", raw.jwks_cooldown.is_some()),
    ] {
        if given && raw.jwks_url.is_none() && !check.was_given_up(&join(key, "jwks_url")) {
            check.problem(&join(key, name), "belongs to `jwks_url`");
        }
    }
    let url = match (&raw.jwks_file, &raw.jwks_url) {
        (Some(file), None) => {
            return check.path(&join(key, "jwks_file"), file).map(JwksSource::File);
        }
        (None, Some(url)) => url,
        (Some(_), Some(_)) => {
            check.problem(key, "has both `jwks_file` and `jwks_url`; keep one of them");
            return None;
        }
        (None, None) => {
            check.problem(
                key,
                "needs `jwks_file` or `jwks_url` (discovery documents and cards are not followed to find keys)",
            );
            return None;
        }
    };
    let url_key = join(key, "jwks_url");
    let parsed = check.plain_url(&url_key, url);
    if let Some(parsed) = &parsed {
        if !parsed.secure && !parsed.is_loopback() {
            check.problem(
                &url_key,
                "must be https: whoever can change these keys can make tokens; http only on a loopback address",
            );
        }
        if !parsed.secure && raw.jwks_ca.is_some() {
            check.problem(&join(key, "jwks_ca"), "has no effect: `jwks_url` is http");
        }
    }
    let refresh = raw.jwks_refresh.map_or(DEFAULT_JWKS_REFRESH, |refresh| {
        check.time(&join(key, "jwks_refresh"), refresh, SECOND, DAY)
    });
    let cooldown = raw.jwks_cooldown.map_or(DEFAULT_JWKS_COOLDOWN, |cooldown| {
        check.time(&join(key, "jwks_cooldown"), cooldown, SECOND, DAY)
    });
    let ca = check.optional_path(&join(key, "jwks_ca"), raw.jwks_ca.as_ref());
    parsed?;
    Some(JwksSource::Url {
        url: url.clone(),
        ca,
        refresh,
        cooldown,
    })
}

fn mutual_tls(check: &mut Check<'_>, key: &str, raw: &RawScheme) -> Option<SchemeKind> {
    need(check, key, "allow", "mutualTLS", raw.allow.is_some());
    let key = join(key, "allow");
    let list = raw.allow.as_ref()?;
    if list.is_empty() {
        check.problem(&key, "is empty, so that no certificate could pass");
    }
    let mut allow = Vec::new();
    for (index, text) in list.items() {
        match certificate_rule(text) {
            Some(rule) => allow.push(rule),
            None => check.problem(
                &place(&key, index),
                format!(
                    "`{text}` is no rule for certificates; write a URI (`spiffe://…`), `dns:…`, `email:…` or `subject:…`"
                ),
            ),
        }
    }
    Some(SchemeKind::MutualTls { allow })
}

fn certificate_rule(text: &str) -> Option<CertificateRule> {
    let rule: (fn(String) -> CertificateRule, &str) = if let Some(rest) = text.strip_prefix("dns:") {
        (CertificateRule::Dns, rest)
    } else if let Some(rest) = text.strip_prefix("email:") {
        (CertificateRule::Email, rest)
    } else if let Some(rest) = text.strip_prefix("subject:") {
        (CertificateRule::Subject, rest)
    } else {
        let (scheme, rest) = text.split_once("://")?;
        (
            CertificateRule::Uri,
            if scheme.is_empty() || rest.is_empty() { "" } else { text },
        )
    };
    let (kind, pattern) = rule;
    (!pattern.is_empty()).then(|| kind(pattern.to_owned()))
}
