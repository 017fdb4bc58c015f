//! Signatures of agents' own cards (A2A 1.0 §8.4): whether somebody who is believed signed the card, and how much of it.
//!
//! Keys come from where the configuration says: a file, a URL, or the `jku` of a signature that the configuration names to the
//! letter. Every one is read or fetched when a card is looked at, at most once a card, and a fetched set is kept: it is fetched
//! again when it is old or does not have what is needed, and goes on while it cannot be had. A card is believed as far as a
//! signature covers it for some reader (`a2a::card::readings`); what no such reader looks at is left out, so that nobody can
//! put the members of another generation into it. Knows nothing of what the card demands: `Keeper` decides that.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::StatusCode;
use serde_json::{Map, Value};
use tokio::time::Instant;

use crate::a2a::card::{OriginCard, Reading, Signature, covered, readings};
use crate::authenticate::PublicKeys;
use crate::clock::Clock;
use crate::config::{CardKeys, CardVerify, Problem, files, with_causes};
use crate::http::asking::{System, Trust};
use crate::http::fetch;

/// More are not looked at: each costs a check for each reader, and whoever writes the card says how many there are.
const MAX_SIGNATURES: usize = 16;
/// Sets of keys have some KiB.
const MAX_BYTES: usize = 1024 * 1024;
const MAX_HEADER_BYTES: usize = 64 * 1024;
const FETCH_TIMEOUT: Duration = Duration::from_secs(10);
/// A key that was taken out of its set is believed no longer.
const OLD: Duration = Duration::from_secs(5 * 60);

pub struct Verifier {
    config: CardVerify,
    clock: Clock,
    /// By URL, each of them in the configuration.
    fetched: Mutex<BTreeMap<String, Fetched>>,
}

/// The places that were looked at for one card, with what was there.
type Asked = Vec<(CardKeys, Result<Arc<PublicKeys>, String>)>;

#[derive(Clone)]
struct Fetched {
    keys: Arc<PublicKeys>,
    at: Instant,
}

/// Texts name upstream addresses: for the log and the admin listener only.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unverified {
    #[error("{0}")]
    Untrusted(String),
    /// The keys cannot be had.
    #[error("{0}")]
    Unknown(String),
}

/// Of the protected header, what matters.
struct Header {
    algorithm: String,
    key_id: Option<String>,
    place: Option<String>,
    expires: Option<u64>,
}

/// Its keys say nothing to people.
impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verifier").finish_non_exhaustive()
    }
}

impl Verifier {
    /// Blocking: reads files.
    pub fn build(config: &CardVerify, key: &str, clock: &Clock) -> Result<Self, Vec<Problem>> {
        let mut problems = Vec::new();
        if let Some(CardKeys::File(path)) = &config.keys
            && let Err(cause) = read_keys(path)
        {
            problems.push(Problem::new(format!("{key}.jwks_file"), cause));
        }
        if let Some(ca) = &config.ca
            && let Err(cause) = Trust::load(Some(ca), System::Unneeded)
        {
            problems.push(Problem::new(format!("{key}.jwks_ca"), cause));
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        Ok(Self {
            config: config.clone(),
            clock: clock.clone(),
            fetched: Mutex::default(),
        })
    }

    /// In `until` of a card, time has come.
    pub fn has_ended(&self, until: u64) -> bool {
        self.clock.unix_seconds() >= until
    }

    pub fn left(&self, until: u64) -> Duration {
        Duration::from_secs(until.saturating_sub(self.clock.unix_seconds()))
    }

    /// The card as far as it is signed.
    pub async fn verify(&self, origin: OriginCard) -> Result<OriginCard, Unverified> {
        let signatures = origin
            .signatures()
            .ok_or_else(|| untrusted("its `signatures` cannot be read"))?;
        if signatures.is_empty() {
            return Err(untrusted("the card is not signed"));
        }
        let readings: Vec<(Reading, String)> = readings(&origin)
            .into_iter()
            .map(|(reading, payload)| (reading, URL_SAFE_NO_PAD.encode(payload)))
            .collect();
        let mut held = Vec::new();
        let (mut reasons, mut missing) = (Vec::new(), None);
        let mut asked = Asked::new();
        for (index, signature) in signatures.iter().take(MAX_SIGNATURES).enumerate() {
            let mut refuse = |reason: &str| reasons.push(format!("signature {}: {reason}", index + 1));
            let header = match self.header(signature) {
                Ok(header) => header,
                Err(reason) => {
                    refuse(reason);
                    continue;
                }
            };
            let place = match (&header.place, &self.config.keys) {
                (Some(place), _) if self.config.jku.contains(place) => CardKeys::Url(place.clone()),
                (_, Some(keys)) => keys.clone(),
                (Some(_), None) => {
                    refuse("its `jku` is not one that the configuration allows");
                    continue;
                }
                (None, None) => {
                    refuse("it has no `jku`");
                    continue;
                }
            };
            match self.held(&place, &mut asked, &header, signature, &readings).await {
                Ok(Ok(found)) => {
                    held.extend(found.into_iter().map(|reading| (reading, header.expires)));
                }
                Ok(Err(reason)) => refuse(&reason),
                Err(error) => missing = Some(error),
            }
        }
        if held.is_empty() {
            return Err(match missing {
                Some(error) => Unverified::Unknown(format!("the keys of its signatures cannot be had: {error}")),
                None => untrusted(&format!("no signature of the card holds ({})", reasons.join("; "))),
            });
        }
        let (until, held) = (until(&held), held.into_iter().map(|(reading, _)| reading));
        let mut signed = covered(&origin, &held.collect::<Vec<_>>()).map_err(|error| untrusted(&error.to_string()))?;
        signed.document = origin.document;
        signed.until = until;
        Ok(signed)
    }

    fn header(&self, signature: &Signature) -> Result<Header, &'static str> {
        let bytes = URL_SAFE_NO_PAD.decode(&signature.protected).ok();
        let header: Option<Map<String, Value>> = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let header = header.ok_or("its protected header cannot be read")?;
        // RFC 7515 §4.1.11: whoever does not understand what it names must refuse.
        if header.contains_key("crit") {
            return Err("its header has `crit`");
        }
        let text = |name: &str| match header.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err("its protected header cannot be read"),
        };
        let expires = match header.get("exp") {
            None => None,
            Some(end) => Some(end.as_u64().ok_or("its `exp` cannot be read")?),
        };
        if expires.is_some_and(|end| self.has_ended(end)) {
            return Err("it has expired");
        }
        Ok(Header {
            algorithm: text("alg")?.ok_or("its header has no `alg`")?,
            key_id: text("kid")?,
            place: text("jku")?,
            expires,
        })
    }

    /// The readings that a signature holds for.
    async fn held(
        &self,
        place: &CardKeys,
        asked: &mut Asked,
        header: &Header,
        signature: &Signature,
        readings: &[(Reading, String)],
    ) -> Result<Result<Vec<Reading>, String>, String> {
        let try_with = |keys: &PublicKeys| -> Result<Vec<Reading>, String> {
            let check = keys.select(header.key_id.as_deref(), &header.algorithm);
            let check = check.map_err(|unfit| unfit.to_string())?;
            let holds = |payload: &str| {
                let text = format!("{}.{payload}", signature.protected);
                check.holds(text.as_bytes(), &signature.signature)
            };
            let found = readings.iter().filter(|(_, payload)| holds(payload));
            let found: Vec<_> = found.map(|(reading, _)| *reading).collect();
            if found.is_empty() {
                return Err("it does not match the card".to_owned());
            }
            Ok(found)
        };
        if let Some((_, given)) = asked.iter().find(|(one, _)| one == place) {
            return given.as_ref().map(|keys| try_with(keys)).map_err(Clone::clone);
        }
        if let Some(known) = self.known(place).filter(|known| known.at.elapsed() < OLD) {
            let tried = try_with(&known.keys);
            if tried.is_ok() {
                return Ok(tried);
            }
        }
        let given = match (self.read(place).await, self.known(place)) {
            (Err(error), Some(known)) => {
                tracing::warn!(
                    error,
                    "the keys of agent cards cannot be had; those that are known go on"
                );
                Ok(known.keys)
            }
            (given, _) => given,
        };
        asked.push((place.clone(), given.clone()));
        given.map(|keys| try_with(&keys))
    }

    fn known(&self, place: &CardKeys) -> Option<Fetched> {
        let CardKeys::Url(url) = place else { return None };
        let fetched = self.fetched.lock().unwrap_or_else(PoisonError::into_inner);
        fetched.get(url).cloned()
    }

    async fn read(&self, place: &CardKeys) -> Result<Arc<PublicKeys>, String> {
        let url = match place {
            CardKeys::File(path) => {
                let path: PathBuf = path.clone();
                return blocking(move || read_keys(&path)).await.map(Arc::new);
            }
            CardKeys::Url(url) => url,
        };
        let (ca, system) = (self.config.ca.clone(), System::of(url));
        let trust = blocking(move || Trust::load(ca.as_deref(), system)).await?;
        let options = fetch::Options {
            max_bytes: MAX_BYTES,
            max_header_bytes: MAX_HEADER_BYTES,
            timeout: FETCH_TIMEOUT,
            ..fetch::Options::default()
        };
        let answer = trust.now().fetcher.get(url, &options).await;
        let answer = answer.map_err(|error| with_causes(&error))?;
        if answer.status != StatusCode::OK {
            return Err(format!("the answer has status {} instead of 200", answer.status));
        }
        let keys = Arc::new(PublicKeys::parse(&answer.body)?);
        let known = Fetched {
            keys: keys.clone(),
            at: Instant::now(),
        };
        let mut fetched = self.fetched.lock().unwrap_or_else(PoisonError::into_inner);
        fetched.insert(url.clone(), known);
        Ok(keys)
    }
}

/// When the first of the readings has no signature any more.
fn until(held: &[(Reading, Option<u64>)]) -> Option<u64> {
    let last = |reading: Reading| {
        let ends = held.iter().filter(|(known, _)| *known == reading);
        ends.map(|(_, end)| end.unwrap_or(u64::MAX)).max()
    };
    let first = held.iter().filter_map(|(reading, _)| last(*reading)).min();
    first.filter(|end| *end < u64::MAX)
}

fn untrusted(reason: &str) -> Unverified {
    Unverified::Untrusted(reason.to_owned())
}

fn read_keys(path: &Path) -> Result<PublicKeys, String> {
    let bytes = files::read(path).map_err(|error| with_causes(&error))?;
    PublicKeys::parse(&bytes).map_err(|error| format!("{} is refused: {error}", path.display()))
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, String> + Send + 'static) -> Result<T, String> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|_| Err("the gateway stops".to_owned()))
}
