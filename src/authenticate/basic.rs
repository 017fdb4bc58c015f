//! HTTP Basic (RFC 7617) against a file of users with Argon2id hashes.
//!
//! A check costs milliseconds and megabytes by design, so it runs on the blocking pool, at most one per core at a time,
//! with a bounded queue in front, of which one address gets a part; what was right is remembered for a minute. An unknown user costs the same check as a
//! known one. What is remembered is forgotten with the users that it was checked against.

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ahash::RandomState;
use argon2::password_hash::phc::PasswordHash;
use argon2::{Argon2, PasswordVerifier};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::request;
use quick_cache::sync::Cache;
use serde::Deserialize;
use tokio::sync::Semaphore;
use zeroize::Zeroizing;

use super::facts::{Facts, Given};
use super::verifiers::read_yaml;
use super::{Authorization, Credential, Invalid, Proof, Shown, authorization, sha256};
use crate::clock::Clock;
use crate::config::{Mapping, Problem, files};
use crate::http::asking::Queue;

/// How long a password that was right is remembered: a stolen cache entry is a salted hash in memory only.
pub(super) const REMEMBERED_SECONDS: u64 = 60;
const MAX_REMEMBERED: usize = 1_000;
/// The field after base64; RFC 7617 sets no bound, people's passwords do.
const MAX_CREDENTIAL: usize = 1024;
/// Checks that may wait for a core; at 20 ms each the last one waits about two seconds on one core.
pub(super) const MAX_WAITING: usize = 100;
/// Of these for one address, so that nobody alone fills the queue against everybody else.
pub(super) const MAX_WAITING_OF_ONE: usize = MAX_WAITING / 4;
/// OWASP asks for 19 MiB; this is the most that one check may take.
const MAX_MEMORY_KIB: u32 = 256 * 1024;
const MAX_PASSES: u32 = 16;
const MAX_LANES: u32 = 16;
/// Checked when the file has no user at all; nothing matches it.
const NOBODY: &str = "$argon2id$v=19$m=19456,t=2,p=1$bm9ib2R5bm9ib2R5$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

pub(super) struct Verifier {
    scheme: Arc<str>,
    path: PathBuf,
    mapping: Mapping,
    clock: Clock,
    users: Arc<Users>,
    /// Of the process: a digest in the cache is worth nothing elsewhere.
    salt: [u8; 16],
    remembered: Cache<[u8; 32], Remembered>,
    /// Shared with the verifiers of other readings of the file.
    checks: Arc<Checks>,
}

/// The checks under way.
struct Checks {
    cores: Arc<Semaphore>,
    /// Who waits for a core.
    queue: Arc<Queue>,
}

#[derive(Clone)]
struct Remembered {
    proof: Arc<Proof>,
    until: u64,
}

struct Users {
    users: HashMap<String, User, RandomState>,
    /// Stands in for the hash of a user that does not exist: one of the file's own, so that it costs the same.
    stand_in: PasswordHash,
    digest: [u8; 32],
}

struct User {
    hash: PasswordHash,
    /// Of the hash as it is written.
    digest: [u8; 32],
    proof: Arc<Proof>,
}

impl Verifier {
    pub(super) fn load(
        scheme: &Arc<str>,
        key: &str,
        path: &Path,
        mapping: &Mapping,
        clock: &Clock,
    ) -> Result<Self, Vec<Problem>> {
        let users = Users::load(scheme, key, path, mapping)?;
        let mut salt = [0; 16];
        aws_lc_rs::rand::fill(&mut salt).map_err(|_| vec![Problem::new(key, "the system gives no random bytes")])?;
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Ok(Self {
            scheme: Arc::clone(scheme),
            path: path.to_owned(),
            mapping: mapping.clone(),
            clock: clock.clone(),
            users: Arc::new(users),
            salt,
            remembered: Cache::new(MAX_REMEMBERED),
            checks: Arc::new(Checks {
                cores: Arc::new(Semaphore::new(cores)),
                queue: Queue::new(MAX_WAITING, MAX_WAITING_OF_ONE),
            }),
        })
    }

    /// The verifier of what the file holds by now, if that is something else.
    pub(super) fn renewed(&self, key: &str) -> Result<Option<Self>, Vec<Problem>> {
        let users = Users::load(&self.scheme, key, &self.path, &self.mapping)?;
        Ok((users.digest != self.users.digest).then(|| Self {
            scheme: Arc::clone(&self.scheme),
            path: self.path.clone(),
            mapping: self.mapping.clone(),
            clock: self.clock.clone(),
            users: Arc::new(users),
            salt: self.salt,
            remembered: Cache::new(MAX_REMEMBERED),
            checks: Arc::clone(&self.checks),
        }))
    }

    /// What a user whose password was right before proves here: nothing, if the password is another one.
    pub(super) fn again(&self, name: &str, hash: &[u8; 32]) -> Option<Arc<Proof>> {
        let user = self.users.users.get(name).filter(|user| user.digest == *hash)?;
        Some(Arc::clone(&user.proof))
    }

    pub(super) async fn verify(&self, client: IpAddr, parts: &request::Parts) -> Shown {
        let credential = match read(parts) {
            Ok(Some(credential)) => credential,
            Ok(None) => return Shown::Nothing,
            Err(reason) => return Shown::Refused(reason),
        };
        let digest = sha256(&[&self.salt, &credential]);
        let now = self.clock.unix_seconds();
        if let Some(known) = self.remembered.get(&digest)
            && now < known.until
        {
            return Shown::Proof(known.proof);
        }
        let Some(waiting) = self.checks.queue.enter(client) else {
            return Shown::Unknowable;
        };
        let Ok(core) = Arc::clone(&self.checks.cores).acquire_owned().await else {
            return Shown::Unknowable;
        };
        drop(waiting);
        let checking = Arc::clone(&self.users);
        // The permit goes along: a caller that leaves does not end the check, so it must not free the core either.
        let checked = tokio::task::spawn_blocking(move || {
            let proof = checking.check(&credential);
            drop(core);
            proof
        });
        match checked.await {
            Ok(Some(proof)) => {
                let remembered = Remembered {
                    proof: Arc::clone(&proof),
                    until: now.saturating_add(REMEMBERED_SECONDS),
                };
                self.remembered.insert(digest, remembered);
                Shown::Proof(proof)
            }
            Ok(None) => Shown::Refused(Invalid::BadPassword),
            // The runtime is shutting down.
            Err(_) => Shown::Unknowable,
        }
    }
}

/// `user:password`, decoded.
fn read(parts: &request::Parts) -> Result<Option<Zeroizing<Vec<u8>>>, Invalid> {
    match authorization(&parts.headers) {
        Authorization::Absent => Ok(None),
        Authorization::Repeated => Err(Invalid::Ambiguous),
        Authorization::One { scheme, .. } if !scheme.eq_ignore_ascii_case(b"basic") => Ok(None),
        Authorization::One { credentials, .. } => {
            if credentials.len() > MAX_CREDENTIAL {
                return Err(Invalid::TooLong);
            }
            let decoded = Zeroizing::new(STANDARD.decode(credentials).map_err(|_| Invalid::Malformed)?);
            let text = std::str::from_utf8(&decoded).map_err(|_| Invalid::Malformed)?;
            // RFC 7617 §2: no control characters, and a colon ends the name.
            if !text.contains(':') || text.chars().any(char::is_control) {
                return Err(Invalid::Malformed);
            }
            Ok(Some(decoded))
        }
    }
}

impl Users {
    fn load(scheme: &Arc<str>, key: &str, path: &Path, mapping: &Mapping) -> Result<Self, Vec<Problem>> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct RawFile {
            users: Vec<RawUser>,
        }

        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct RawUser {
            name: String,
            password_hash: String,
            #[serde(default)]
            scopes: Vec<String>,
            #[serde(default)]
            attributes: Vec<String>,
        }

        const EXPECTED: &str = "expected a list `users` of `{ name, password_hash, scopes, attributes }`";
        let key = format!("{key}.users_file");
        let text =
            files::read_text(path).map_err(|error| vec![Problem::new(&*key, super::api_key::describe(&error))])?;
        let raw: RawFile = read_yaml(&key, path, &text, EXPECTED).map_err(|problem| vec![problem])?;
        let mut problems = Vec::new();
        let mut users = HashMap::with_hasher(RandomState::new());
        let mut stand_in = None;
        for (index, raw) in raw.users.into_iter().enumerate() {
            let mut wrong = |field: &str, cause: &str| {
                problems.push(Problem::new(
                    &*key,
                    format!("users[{index}].{field} in {}: {cause}", path.display()),
                ));
            };
            if raw.name.is_empty()
                || raw.name.len() > 255
                || raw.name.contains(':')
                || raw.name.chars().any(char::is_control)
            {
                wrong(
                    "name",
                    "must have 1 to 255 characters, no colon and no control characters",
                );
                continue;
            }
            // The value is not repeated: it may be the password.
            let hash = match parse_hash(&raw.password_hash) {
                Ok(hash) => hash,
                Err(cause) => {
                    wrong("password_hash", cause);
                    continue;
                }
            };
            stand_in.get_or_insert_with(|| hash.clone());
            let attributes = super::api_key::attributes(&raw.attributes, |cause| wrong("attributes", cause));
            let digest = sha256(&[raw.password_hash.as_bytes()]);
            let credential = Credential::User {
                name: Arc::from(raw.name.as_str()),
                hash: digest,
            };
            let given = Given::Entry {
                attributes: &attributes,
            };
            let Ok(facts) = Facts::new(mapping, &raw.name, raw.scopes, &given) else {
                wrong("name", "the scheme's `principal.name` gives no name for this user");
                continue;
            };
            let proof = Proof::new(scheme, "basic", facts, credential);
            if users.insert(raw.name, User { hash, digest, proof }).is_some() {
                wrong("name", "the same name stands above");
            }
        }
        let stand_in = stand_in.or_else(|| PasswordHash::new(NOBODY).ok());
        match stand_in {
            Some(stand_in) if problems.is_empty() => Ok(Self {
                users,
                stand_in,
                digest: sha256(&[text.as_bytes()]),
            }),
            Some(_) | None => Err(problems),
        }
    }

    /// Blocking, for as long as the hash asks for.
    fn check(&self, credential: &[u8]) -> Option<Arc<Proof>> {
        let colon = memchr::memchr(b':', credential)?;
        let (name, password) = credential.split_at_checked(colon)?;
        let (_, password) = password.split_first()?;
        let user = std::str::from_utf8(name).ok().and_then(|name| self.users.get(name));
        let hash = user.map_or(&self.stand_in, |user| &user.hash);
        let right = Argon2::default().verify_password(password, hash).is_ok();
        // The stand-in may be somebody's hash: its password must not open the door to every unknown name.
        user.filter(|_| right).map(|user| Arc::clone(&user.proof))
    }
}

fn parse_hash(text: &str) -> Result<PasswordHash, &'static str> {
    const FORM: &str = "must be an Argon2id hash in PHC form, `$argon2id$v=19$m=…,t=…,p=…$…$…`; passwords never stand \
                        here in the clear: `argon2 SALT -id -e` makes one";
    let hash = PasswordHash::new(text).map_err(|_| FORM)?;
    let complete = hash.salt.is_some() && hash.hash.is_some();
    if hash.algorithm.as_str() != "argon2id" || !complete {
        return Err(FORM);
    }
    let params = argon2::Params::try_from(&hash).map_err(|_| FORM)?;
    if params.m_cost() > MAX_MEMORY_KIB || params.t_cost() > MAX_PASSES || params.p_cost() > MAX_LANES {
        return Err("asks for more than 256 MiB, 16 passes or 16 lanes for one check");
    }
    Ok(hash)
}
