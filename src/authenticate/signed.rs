//! Public keys for what is signed beside tokens: the same sets, the same algorithms, the same refusals.

use jsonwebtoken::{Algorithm, crypto};

use super::Invalid;
use super::jwks::{self, Key, KeySet};

pub struct PublicKeys(KeySet);

/// A key of a set, for one algorithm.
pub struct Check<'a> {
    key: &'a Key,
    algorithm: Algorithm,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// Also `none` and the symmetric ones.
    #[error("its algorithm is not taken")]
    Algorithm,
    #[error("its key is not known")]
    UnknownKey,
    #[error("its key is for another algorithm")]
    OtherKey,
}

impl PublicKeys {
    /// Of a JSON Web Key Set (RFC 7517).
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        KeySet::parse(bytes).map(Self).map_err(|error| error.to_string())
    }

    /// The key of this id, or the only one that fits where there is none.
    pub fn select(&self, id: Option<&str>, algorithm: &str) -> Result<Check<'_>, Unfit> {
        let algorithm = jwks::algorithm(algorithm).ok_or(Unfit::Algorithm)?;
        match self.0.select(id, algorithm) {
            Ok(key) => Ok(Check { key, algorithm }),
            Err(Invalid::BadAlgorithm) => Err(Unfit::OtherKey),
            Err(_) => Err(Unfit::UnknownKey),
        }
    }
}

impl Check<'_> {
    /// `signature` in base64url.
    pub fn holds(&self, text: &[u8], signature: &str) -> bool {
        crypto::verify(signature, text, &self.key.decoding, self.algorithm).unwrap_or(false)
    }
}
