//! Security schemes: which keys belong to which type, and that each has what its verifier needs.

use std::collections::{BTreeMap, BTreeSet};

use super::super::model::{ApiKey, ApiKeyPlace, Attribute, CertificateRule, KeySource, Mapping, Scheme, SchemeKind};
use super::super::raw::{List, Names, RawKey, RawKeyPlace, RawMapping, RawScheme, RawSchemeType};
use super::super::{join, place};
use super::Check;
use super::names::{self, Unique};
use super::tokens::{self, TOKEN_KEYS};
use crate::a2a::security::SchemeName;
use crate::expression::{Scope, Type};

/// SHA-256 of nothing: somebody hashed an empty variable.
const EMPTY_HASH: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// Which of the keys and rules a scheme has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    ApiKey,
    Bearer,
    Basic,
    /// `http` with any other scheme.
    Http,
    OAuth2,
    OpenIdConnect,
    MutualTls,
}

impl Kind {
    /// `None`: `http` without a scheme.
    fn of(kind: RawSchemeType, scheme: Option<&str>) -> Option<Self> {
        Some(match kind {
            RawSchemeType::ApiKey => Self::ApiKey,
            // The name of an HTTP scheme has no case (RFC 9110 §11.1).
            RawSchemeType::Http => match scheme?.to_ascii_lowercase().as_str() {
                "bearer" => Self::Bearer,
                "basic" => Self::Basic,
                _ => Self::Http,
            },
            RawSchemeType::OAuth2 => Self::OAuth2,
            RawSchemeType::OpenIdConnect => Self::OpenIdConnect,
            RawSchemeType::MutualTls => Self::MutualTls,
        })
    }

    /// As messages name it, and the keys that only it has.
    fn described(self) -> (&'static str, &'static [&'static str]) {
        match self {
            Self::ApiKey => ("apiKey", &["in", "name", "keys", "keys_file"]),
            Self::Bearer => ("http with bearer", &["scheme", "bearerFormat"]),
            Self::Basic => ("http with basic", &["scheme", "users_file"]),
            Self::Http => ("http with another scheme than bearer and basic", &["scheme", "check"]),
            Self::OAuth2 => ("oauth2", &["flows", "oauth2MetadataUrl"]),
            Self::OpenIdConnect => ("openIdConnect", &["openIdConnectUrl"]),
            Self::MutualTls => ("mutualTLS", &["allow"]),
        }
    }

    fn takes_tokens(self) -> bool {
        match self {
            Self::Bearer | Self::OAuth2 | Self::OpenIdConnect => true,
            Self::ApiKey | Self::Basic | Self::Http | Self::MutualTls => false,
        }
    }
}

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
    let Some(kind) = Kind::of(raw.kind?, raw.scheme.as_deref()) else {
        need(check, key, "scheme", "http", false);
        return None;
    };
    let (described, own) = kind.described();
    for (name, given) in given(raw) {
        let belongs = own.contains(&name) || (kind.takes_tokens() && TOKEN_KEYS.contains(&name));
        if given && !belongs {
            check.problem(&join(key, name), format!("does not belong to the type {described}"));
        }
    }
    match kind {
        Kind::ApiKey => api_key(check, key, raw),
        Kind::Basic => {
            need(check, key, "users_file", described, raw.users_file.is_some());
            let users_file = check.optional_path(&join(key, "users_file"), raw.users_file.as_ref());
            Some(SchemeKind::Basic {
                users_file: users_file?,
            })
        }
        Kind::Bearer => Some(SchemeKind::Bearer {
            bearer_format: raw.bearer_format.clone(),
            tokens: tokens::tokens(check, key, described, raw, None)?,
        }),
        Kind::Http => http(check, key, described, raw),
        Kind::OAuth2 => oauth2(check, key, described, raw),
        Kind::OpenIdConnect => {
            let name = "openIdConnectUrl";
            let url = published_url(check, key, name, raw.open_id_connect_url.as_ref());
            need(check, key, name, described, raw.open_id_connect_url.is_some());
            let document = raw.open_id_connect_url.as_deref().map(|url| (name, url));
            let tokens = tokens::tokens(check, key, described, raw, document);
            Some(SchemeKind::OpenIdConnect {
                url: url?,
                tokens: tokens?,
            })
        }
        Kind::MutualTls => mutual_tls(check, key, raw),
    }
}

/// What reads the files of a scheme that is not complete.
fn files_of(check: &mut Check<'_>, raw: &RawScheme) -> Option<SchemeKind> {
    let path = |text: &Option<String>| Some(check.base.join(text.as_ref().filter(|text| !text.is_empty())?));
    match Kind::of(raw.kind?, raw.scheme.as_deref())? {
        Kind::ApiKey if raw.keys.is_none() => Some(SchemeKind::ApiKey {
            place: ApiKeyPlace::Header,
            name: "x".to_owned(),
            keys: KeySource::File(path(&raw.keys_file)?),
        }),
        Kind::Basic => Some(SchemeKind::Basic {
            users_file: path(&raw.users_file)?,
        }),
        Kind::Bearer | Kind::OAuth2 | Kind::OpenIdConnect => {
            let tokens = tokens::files_of(path(&raw.jwks_file), path(&raw.jwks_ca))?;
            Some(SchemeKind::Bearer {
                bearer_format: None,
                tokens,
            })
        }
        Kind::ApiKey | Kind::Http | Kind::MutualTls => None,
    }
}

/// What a mapping may read follows from what the scheme verifies.
fn mapping(check: &mut Check<'_>, key: &str, raw: &RawMapping, kind: &SchemeKind) -> Mapping {
    let scope = Scope::credential().only(match kind {
        SchemeKind::ApiKey { .. } | SchemeKind::Basic { .. } => &["attributes", "name", "scopes"],
        SchemeKind::Bearer { .. }
        | SchemeKind::OAuth2 { .. }
        | SchemeKind::OpenIdConnect { .. }
        | SchemeKind::Http { .. } => &["claims", "name", "scopes"],
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

fn given(raw: &RawScheme) -> [(&'static str, bool); 25] {
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
        ("profile", raw.profile.is_some()),
        ("introspection", raw.introspection.is_some()),
        ("check", raw.check.is_some()),
        ("sender_constraint", raw.sender_constraint.is_some()),
        ("dpop_lifetime", raw.dpop_lifetime.is_some()),
        ("leeway", raw.leeway.is_some()),
        ("principal_claim", raw.principal_claim.is_some()),
        ("allow", raw.allow.is_some()),
    ]
}

pub fn need(check: &mut Check<'_>, key: &str, name: &str, kind: &str, is_given: bool) {
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

fn http(check: &mut Check<'_>, key: &str, kind: &str, raw: &RawScheme) -> Option<SchemeKind> {
    let scheme = raw.scheme.as_ref()?;
    // RFC 9110 §11.1: it is a `token`, as names of fields are.
    let is_name = http::HeaderName::from_bytes(scheme.as_bytes()).is_ok();
    if !is_name {
        check.problem(
            &join(key, "scheme"),
            format!("`{scheme}` cannot be the name of an HTTP authentication scheme"),
        );
    }
    need(check, key, "check", kind, raw.check.is_some());
    let asking = tokens::check(check, &join(key, "check"), raw.check.as_ref()?);
    is_name.then_some(SchemeKind::Http {
        scheme: scheme.clone(),
        check: asking?,
        claims: Vec::new(),
    })
}

fn oauth2(check: &mut Check<'_>, key: &str, kind: &str, raw: &RawScheme) -> Option<SchemeKind> {
    need(check, key, "flows", kind, raw.flows.is_some());
    if raw.flows.as_ref().is_some_and(serde_json::Map::is_empty) {
        check.problem(&join(key, "flows"), "is empty; cards need at least one flow");
    }
    let name = "oauth2MetadataUrl";
    let metadata_url = published_url(check, key, name, raw.oauth2_metadata_url.as_ref());
    let document = raw.oauth2_metadata_url.as_deref().map(|url| (name, url));
    let tokens = tokens::tokens(check, key, kind, raw, document);
    Some(SchemeKind::OAuth2 {
        flows: raw.flows.clone()?.into(),
        metadata_url,
        tokens: tokens?,
    })
}

fn published_url(check: &mut Check<'_>, key: &str, name: &str, text: Option<&String>) -> Option<String> {
    let text = text?;
    check.plain_url(&join(key, name), text).map(|_| text.clone())
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
                    "`{text}` is no rule for certificates; write a URI (`spiffe://…`), `dns:…`, `email:…`, `subject:…` or \
                     `fingerprint:` with 64 hexadecimal digits"
                ),
            ),
        }
    }
    Some(SchemeKind::MutualTls { allow })
}

fn certificate_rule(text: &str) -> Option<CertificateRule> {
    if let Some(digits) = text.strip_prefix("fingerprint:") {
        return fingerprint(digits).map(CertificateRule::Fingerprint);
    }
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

/// SHA-256 in hexadecimal, with or without colons, as programs print it; in lower case.
fn fingerprint(text: &str) -> Option<String> {
    let digits = text.replace(':', "").to_ascii_lowercase();
    let is_whole = digits.len() == 64 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_whole.then_some(digits)
}
