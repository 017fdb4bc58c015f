//! Who calls: checks what a caller shows against the requirement of the agent.
//!
//! `Verifiers` holds one verifier per configured scheme; `resolve` turns the requirement of an agent into a `Requirement`,
//! and `identify` turns that and the head of a request into a `Principal`. Fail closed: a scheme without a verifier is an
//! error, keys that were never loaded admit nobody, and a credential that is shown but wrong is refused even where
//! anonymous callers are admitted. Nothing of a body is read, nothing of HTTP status is known here, and neither errors
//! nor challenges repeat what the caller sent. No lock is held across an await.

mod api_key;
mod ask;
mod basic;
mod came;
mod certificate;
mod check;
mod claims;
mod discovery;
mod error;
mod facts;
mod head;
mod jwks;
pub mod keys;
pub mod pattern;
mod places;
mod remote;
mod replays;
mod requirement;
mod resource;
mod revoked;
mod signed;
mod token;
mod verifiers;

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::sync::Arc;

use http::{HeaderMap, HeaderValue, header};

use self::facts::{Facts, Reading};
use crate::config::Attribute;
use crate::expression::Value;

pub use came::keep;
pub use error::{Error, Invalid};
pub use places::CredentialPlaces;
pub use replays::prepare;
pub use requirement::{Requirement, identify, identify_each};
pub use resource::Resource;
pub use revoked::Revoked;
pub use signed::{PublicKeys, Unfit};
pub use verifiers::{Renewed, UnknownScheme, Verifiers};

use crate::http::asking::sha256;
use crate::tls::{Peer, PeerCertificate};

/// The id of a caller that showed nothing where nothing is required.
pub const ANONYMOUS: &str = "anonymous";

/// Who a caller proved to be.
#[derive(Clone, Debug, PartialEq)]
pub struct Principal {
    /// Stable: `key:partner-7`, `jwt:<issuer>#<sub>` of every token, signed or not, `basic:ann`, `http:<scheme>:<sub>` of other
    /// HTTP schemes, `mtls:spiffe://…`, or `anonymous`; with several schemes of one alternative the ids are joined by `+` in the
    /// order of the requirement. Visible ASCII only: any other character of a name, and `%` and `+`, stand percent-encoded,
    /// so that no name can pose as another or as a join.
    pub id: Arc<str>,
    /// The names of the schemes that it satisfied.
    pub schemes: Vec<Arc<str>>,
    /// What is known of it beside its id, each as `name=value`, encoded like the id: of a token the claims that a policy
    /// asks for, of a key or a user what its entry says.
    pub attributes: Vec<Arc<str>>,
    /// By what, one for each scheme: what can be asked again later without the secret.
    evidence: Vec<Evidence>,
    /// For policies.
    facts: Arc<Facts>,
}

/// What one scheme found good.
#[derive(Clone, Debug, PartialEq)]
struct Evidence {
    scheme: Arc<str>,
    /// The id that it proved.
    id: Arc<str>,
    facts: Arc<Facts>,
    credential: Credential,
}

impl Evidence {
    /// To what its token is bound, if it is one.
    fn bound(&self) -> Option<&Bound> {
        match &self.credential {
            Credential::Token { bound, .. } => Some(bound),
            Credential::Key { .. }
            | Credential::User { .. }
            | Credential::Vouched { .. }
            | Credential::Certificate(_) => None,
        }
    }
}

/// What who shows a token must have beside it; by default nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Bound {
    /// The SHA-256 of the certificate (RFC 8705 §3.1).
    certificate: Option<[u8; 32]>,
    /// The thumbprint of the key (RFC 9449 §6.1).
    key: Option<[u8; 32]>,
}

/// A credential as it is recognised in another configuration. Holds no secret.
#[derive(Clone, PartialEq, Eq)]
enum Credential {
    /// As the key is stored.
    Key {
        sha256: [u8; 32],
        salt: Vec<u8>,
        /// In seconds since 1970.
        expires: Option<u64>,
    },
    /// `hash` is a digest of the stored hash.
    User { name: Arc<str>, hash: [u8; 32] },
    /// Tokens are not kept.
    Token {
        audience: Vec<String>,
        /// In seconds since 1970; perhaps never, if the issuer was asked.
        expires: Option<u64>,
        bound: Bound,
        read: Arc<Reading>,
    },
    /// What somebody vouched for.
    Vouched {
        /// The URL where it was asked.
        by: Arc<str>,
        expires: Option<u64>,
        read: Arc<Reading>,
    },
    /// Whether its issuer is still believed, the listener knows.
    Certificate(Arc<PeerCertificate>),
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Key { .. } => "Key",
            Self::User { .. } => "User",
            Self::Token { .. } => "Token",
            Self::Vouched { .. } => "Vouched",
            Self::Certificate(_) => "Certificate",
        })
    }
}

impl Principal {
    pub fn anonymous() -> Self {
        Self {
            id: Arc::from(ANONYMOUS),
            schemes: Vec::new(),
            attributes: Vec::new(),
            evidence: Vec::new(),
            facts: Arc::default(),
        }
    }

    /// Somebody in whose name the gateway works, and who shows nothing: no scheme vouches for it.
    pub fn absent(id: &Arc<str>) -> Self {
        Self {
            id: id.clone(),
            ..Self::anonymous()
        }
    }

    /// Somebody with a key.
    #[cfg(test)]
    pub fn of_key(id: &str, scopes: &[&str], attributes: &[&str]) -> Arc<Self> {
        let attributes: Vec<_> = attributes.iter().filter_map(|text| Attribute::parse(text)).collect();
        let given = facts::Given::Entry {
            attributes: &attributes,
        };
        let scopes = scopes.iter().map(|scope| (*scope).to_owned()).collect();
        let facts = Facts::new(&crate::config::Mapping::default(), id, scopes, &given).unwrap_or_default();
        let credential = Credential::Key {
            sha256: [0; 32],
            salt: Vec::new(),
            expires: None,
        };
        Proof::new(&Arc::from("key"), "key", facts, credential)
            .principal
            .clone()
    }

    pub fn is_anonymous(&self) -> bool {
        self.schemes.is_empty()
    }

    /// Whether the connection shows the certificate that it showed, if any: nothing that can be copied stands for one.
    pub fn is_at(&self, peer: &Peer) -> bool {
        self.evidence.iter().all(|evidence| match &evidence.credential {
            Credential::Certificate(shown) => peer.certificate.as_ref() == Some(shown),
            // A key is shown with each request, not by a connection.
            Credential::Token { bound, .. } => {
                let shown = peer.certificate.as_ref().map(|shown| shown.fingerprint);
                bound.key.is_none() && (bound.certificate.is_none() || bound.certificate == shown)
            }
            Credential::Key { .. } | Credential::User { .. } | Credential::Vouched { .. } => true,
        })
    }

    /// When the first of its credentials is not good any more, of those that end, in seconds since 1970.
    pub fn expires(&self) -> Option<u64> {
        self.ends().min()
    }

    /// The same of those that are good at this moment, and of the certificate of the connection where a token is bound to it.
    pub fn expires_after(&self, now: u64, peer: &Peer) -> Option<u64> {
        let shown = peer.certificate.as_ref().filter(|_| self.is_bound_to_certificate());
        let shown = shown.and_then(|shown| end_of(shown));
        self.ends().chain(shown).filter(|end| *end > now).min()
    }

    fn ends(&self) -> impl Iterator<Item = u64> {
        self.evidence.iter().filter_map(|evidence| match &evidence.credential {
            Credential::Token { expires, .. }
            | Credential::Vouched { expires, .. }
            | Credential::Key { expires, .. } => *expires,
            Credential::Certificate(certificate) => end_of(certificate),
            Credential::User { .. } => None,
        })
    }

    fn is_bound_to_certificate(&self) -> bool {
        let mut bound = self.evidence.iter().filter_map(Evidence::bound);
        bound.any(|bound| bound.certificate.is_some())
    }

    /// A token that is bound to the certificate of the connection is not good longer than that.
    pub fn outlives(&self, peer: &Peer, now: u64) -> bool {
        let end = peer.certificate.as_ref().and_then(|shown| end_of(shown));
        self.is_bound_to_certificate() && end.is_some_and(|end| end <= now)
    }

    pub fn scopes(&self) -> &[String] {
        &self.facts.scopes
    }

    pub fn groups(&self) -> &[String] {
        &self.facts.groups
    }

    /// The variable `principal` of policies.
    pub fn value(&self) -> Value {
        self.facts.value(&self.id, &self.schemes)
    }

    /// The same as JSON, for decision points: of the claims only these.
    pub fn told(&self, claims: &[String]) -> serde_json::Value {
        self.facts.told(&self.id, &self.schemes, claims)
    }

    /// The attribute of this name, as `name=value`; `None` also where it has several values.
    pub fn attribute(&self, name: &str) -> Option<&Arc<str>> {
        let name = encode(name);
        let mut named = self
            .attributes
            .iter()
            .filter(|attribute| attribute.strip_prefix(&*name).is_some_and(|rest| rest.starts_with('=')));
        named.next().filter(|_| named.next().is_none())
    }
}

/// The first second in which a certificate is not good any more: it is in its last (RFC 5280 §4.1.2.5).
fn end_of(certificate: &PeerCertificate) -> Option<u64> {
    u64::try_from(certificate.not_after.saturating_add(1)).ok()
}

/// A credential that was checked: whom it names and what it may be used for.
#[derive(Debug, PartialEq)]
struct Proof {
    principal: Arc<Principal>,
}

impl Proof {
    /// `kind` is one of the prefixes that `Principal::id` documents; names and attributes are encoded here.
    fn new(scheme: &Arc<str>, kind: &str, facts: Facts, credential: Credential) -> Arc<Self> {
        let name = match &facts.issuer {
            Some(issuer) => Cow::Owned(format!("{issuer}#{}", facts.name)),
            None => Cow::Borrowed(&*facts.name),
        };
        let id: Arc<str> = Arc::from(format!("{kind}:{}", encode(&name)));
        let evidence = Evidence {
            scheme: Arc::clone(scheme),
            id,
            facts: Arc::new(facts),
            credential,
        };
        Self::repeated(&evidence)
    }

    /// The same again of something that cannot be shown again.
    fn repeated(evidence: &Evidence) -> Arc<Self> {
        Arc::new(Self {
            principal: Arc::new(Principal {
                id: Arc::clone(&evidence.id),
                schemes: vec![Arc::clone(&evidence.scheme)],
                attributes: evidence.facts.attributes(),
                facts: Arc::clone(&evidence.facts),
                evidence: vec![evidence.clone()],
            }),
        })
    }

    fn covers(&self, needed: &[String]) -> bool {
        needed.iter().all(|scope| self.principal.facts.scopes.contains(scope))
    }
}

impl Attribute {
    fn text(&self) -> Arc<str> {
        Arc::from(format!("{}={}", encode(&self.name), encode(&self.value)))
    }
}

/// What a request shows to one verifier.
#[derive(Clone, Debug, PartialEq)]
enum Shown {
    Nothing,
    Proof(Arc<Proof>),
    Refused(Invalid),
    /// Something was shown, but it cannot be checked at the moment.
    Unknowable,
}

/// Percent-encodes everything in a name that is not visible ASCII, and the two characters that ids use themselves.
///
/// `=` stays: the name of an attribute has none, so the first one ends it.
fn encode(name: &str) -> Cow<'_, str> {
    const HEX: [char; 16] = [
        '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'A', 'B', 'C', 'D', 'E', 'F',
    ];
    let plain = |byte: u8| byte.is_ascii_graphic() && byte != b'%' && byte != b'+';
    if name.bytes().all(plain) {
        return Cow::Borrowed(name);
    }
    let mut encoded = String::with_capacity(name.len() + 16);
    for byte in name.bytes() {
        if plain(byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push('%');
            for digit in [byte >> 4, byte & 15] {
                encoded.extend(HEX.get(usize::from(digit)));
            }
        }
    }
    Cow::Owned(encoded)
}

fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
            let _always = write!(text, "{byte:02x}");
            text
        })
}

/// The token of a request by which its principal was proved, and when that ends, in seconds since 1970. One that was shown beside
/// what proved the caller is nobody's.
pub fn bearer<'h>(principal: &Principal, headers: &'h HeaderMap) -> Option<(&'h str, u64)> {
    if !principal.evidence.iter().any(|evidence| evidence.bound().is_some()) {
        return None;
    }
    // What its issuer vouches for without an end is asked about again.
    let expires = principal.expires().unwrap_or(u64::MAX);
    match authorization(headers) {
        Authorization::One { scheme, credentials }
            if scheme.eq_ignore_ascii_case(b"bearer") || scheme.eq_ignore_ascii_case(b"dpop") =>
        {
            let token = std::str::from_utf8(credentials).ok()?;
            (!token.is_empty()).then_some((token, expires))
        }
        Authorization::One { .. } | Authorization::Absent | Authorization::Repeated => None,
    }
}

/// The `Authorization` field, of which RFC 9110 §11.6.2 allows one.
enum Authorization<'a> {
    Absent,
    Repeated,
    One { scheme: &'a [u8], credentials: &'a [u8] },
}

fn authorization(headers: &HeaderMap) -> Authorization<'_> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let Some(value) = values.next() else {
        return Authorization::Absent;
    };
    if values.next().is_some() {
        return Authorization::Repeated;
    }
    let mut parts = HeaderValue::as_bytes(value).trim_ascii().splitn(2, |b| *b == b' ');
    Authorization::One {
        scheme: parts.next().unwrap_or_default(),
        credentials: parts.next().unwrap_or_default().trim_ascii(),
    }
}
