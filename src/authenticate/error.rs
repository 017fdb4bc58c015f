//! Why a caller was not identified, with the challenges that belong into the answer.
//!
//! The values for `WWW-Authenticate` are composed from the configuration when a requirement is resolved (RFC 9110
//! §11.6.1, RFC 6750 §3); nothing that a caller or an agent sent stands in them, except scopes that are scope-tokens.

use std::fmt;
use std::sync::Arc;

use http::HeaderValue;

pub(super) type Challenges = Arc<[HeaderValue]>;

#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    #[error("no credential that the agent's requirement asks for was shown")]
    Missing { challenges: Challenges },
    #[error("the credential for {scheme} is refused: {reason}")]
    Invalid {
        scheme: Arc<str>,
        reason: Invalid,
        challenges: Challenges,
    },
    /// The caller is known, but its credential was not issued for this use.
    #[error("the credential lacks a scope that the agent's requirement asks for")]
    MissingScope {
        principal: Arc<str>,
        scopes: Arc<[String]>,
        challenges: Challenges,
    },
    /// No key could be loaded yet, who knows did not answer, or too many credentials are being checked; later may help.
    #[error("the credential for {scheme} cannot be checked at the moment")]
    Unavailable { scheme: Arc<str> },
}

impl Error {
    /// The values for `WWW-Authenticate`, one field each.
    pub fn challenges(&self) -> &[HeaderValue] {
        match self {
            Self::Missing { challenges } | Self::Invalid { challenges, .. } | Self::MissingScope { challenges, .. } => {
                challenges
            }
            Self::Unavailable { .. } => &[],
        }
    }

    /// The label in metrics and logs.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Missing { .. } => "missing",
            Self::Invalid { reason, .. } => reason.as_str(),
            Self::MissingScope { .. } => "missing-scope",
            Self::Unavailable { .. } => "unavailable",
        }
    }
}

/// What is wrong with a credential that was shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Invalid {
    /// The credential stands more than once in the request.
    Ambiguous,
    Malformed,
    TooLong,
    /// No such API key.
    UnknownKey,
    /// No such user, or a wrong password; deliberately not told apart.
    BadPassword,
    BadAlgorithm,
    /// The token brings its own key, names a place to fetch one from, or has critical extensions.
    ForbiddenHeader,
    /// `typ` names something that is not an access token.
    WrongType,
    UnknownKeyId,
    BadSignature,
    MissingClaim,
    WrongIssuer,
    WrongAudience,
    Expired,
    NotYetValid,
    /// The issuer was asked about the token, and calls it none of its own, expired or revoked.
    Inactive,
    /// Whoever was asked about the credential refuses it.
    Denied,
    /// It is on the list of `revocations_file`.
    Revoked,
    /// The token is for somebody who has a certificate or a key, and who shows it has not proved to be that; or it is for
    /// everybody who has it, where that is not enough.
    NotBound,
    /// The token is bound to something that cannot be checked here.
    UnknownBinding,
    /// There is no proof of possession, or it is not for this token and this request.
    BadProof,
    /// The proof of possession was shown before.
    ReplayedProof,
    CertificateMissing,
    CertificateNotAllowed,
    CertificateExpired,
}

impl Invalid {
    pub const ALL: [Self; 25] = [
        Self::Ambiguous,
        Self::Malformed,
        Self::TooLong,
        Self::UnknownKey,
        Self::BadPassword,
        Self::BadAlgorithm,
        Self::ForbiddenHeader,
        Self::WrongType,
        Self::UnknownKeyId,
        Self::BadSignature,
        Self::MissingClaim,
        Self::WrongIssuer,
        Self::WrongAudience,
        Self::Expired,
        Self::NotYetValid,
        Self::Inactive,
        Self::Denied,
        Self::Revoked,
        Self::NotBound,
        Self::UnknownBinding,
        Self::BadProof,
        Self::ReplayedProof,
        Self::CertificateMissing,
        Self::CertificateNotAllowed,
        Self::CertificateExpired,
    ];

    /// It is about a proof of possession, not about the token.
    pub(super) fn is_of_proof(self) -> bool {
        matches!(self, Self::BadProof | Self::ReplayedProof)
    }

    /// The label in metrics and logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ambiguous => "ambiguous",
            Self::Malformed => "malformed",
            Self::TooLong => "too-long",
            Self::UnknownKey => "unknown-key",
            Self::BadPassword => "bad-password",
            Self::BadAlgorithm => "bad-algorithm",
            Self::ForbiddenHeader => "forbidden-header",
            Self::WrongType => "wrong-type",
            Self::UnknownKeyId => "unknown-key-id",
            Self::BadSignature => "bad-signature",
            Self::MissingClaim => "missing-claim",
            Self::WrongIssuer => "wrong-issuer",
            Self::WrongAudience => "wrong-audience",
            Self::Expired => "expired",
            Self::NotYetValid => "not-yet-valid",
            Self::Inactive => "inactive",
            Self::Denied => "denied",
            Self::Revoked => "revoked",
            Self::NotBound => "not-bound",
            Self::UnknownBinding => "unknown-binding",
            Self::BadProof => "bad-proof",
            Self::ReplayedProof => "replayed-proof",
            Self::CertificateMissing => "certificate-missing",
            Self::CertificateNotAllowed => "certificate-not-allowed",
            Self::CertificateExpired => "certificate-expired",
        }
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
