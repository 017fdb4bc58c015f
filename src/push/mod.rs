//! Webhooks of callers whose generation their agent does not speak: the agent is given an address of the gateway, which
//! tells the caller's webhook in the caller's own generation what comes there.
//!
//! Nothing is kept: the address has the webhook sealed in it (`ticket`), for its agent alone and until it expires. It is the
//! credential of whoever posts to it. The gateway connects to no address that the configuration does not allow (`rules`):
//! what was judged is what is connected to, no redirect is followed, and everything about it is bounded. Nothing is queued: the
//! agent hears that a notification was taken only after the webhook took it, and tries again by its own rules if not.
//!
//! Knows nothing of bodies (`a2a::translate`) and of whose a task is (`authorize`); `pipeline` puts them together.

mod calls;
mod rules;
#[cfg(test)]
mod tests;
mod ticket;

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use governor::{DefaultDirectRateLimiter, Quota};
use http::{HeaderName, HeaderValue, header};
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::a2a::model::{self, PushConfig};
use crate::a2a::translate::{Error, Webhooks};
use crate::a2a::{Generation, TaskId, v0_1};
use crate::config::{self, Problem, UpstreamTls};
use crate::http::fetch::{self, Fetcher};
use crate::http::hygiene;
use crate::seal::{self, Keys};
use crate::tls;

use self::calls::Calls;
pub use self::calls::UnderWay;
use self::rules::Rules;
pub use self::ticket::{Authentication, Ticket, Webhook};

const X_A2A_NOTIFICATION_TOKEN: HeaderName = HeaderName::from_static("x-a2a-notification-token");
/// Below an agent's path.
pub const PLACE: &str = "/push/";
/// Longest sealed address: half of what servers take as a target by default, `limits.target_bytes` among them. Room for a
/// webhook with a token of 2 KiB.
pub const MAX_SEALED: usize = 4096;
/// Of a webhook's answer: the status counts.
const ANSWER_HEAD: usize = 16 * 1024;

/// What every agent's webhooks are relayed with.
pub struct Common {
    keys: Keys,
    rules: Rules,
    fetcher: Fetcher,
    lifetime: Duration,
    options: fetch::Options,
    pub body_bytes: usize,
    /// What the files of `tls` held.
    digest: Option<[u8; 32]>,
    tls: UpstreamTls,
}

/// Why an address leads to no webhook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// None that was ever given to this agent, as far as the keys tell.
    Forged,
    Expired,
}

impl Unknown {
    /// The label in access records.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Forged => "webhook_forged",
            Self::Expired => "webhook_expired",
        }
    }
}

/// Why a webhook did not take a notification.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error("the webhook is not reached")]
    Exchange(#[source] fetch::Error),
    #[error("the webhook answered {0}")]
    Refused(u16),
    /// The rules have become stricter since it was registered.
    #[error("the webhook is not allowed: {0}")]
    Forbidden(&'static str),
}

impl Failure {
    /// The label in access records.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Exchange(fetch::Error::Forbidden { .. }) | Self::Forbidden(_) => "webhook_forbidden",
            Self::Exchange(fetch::Error::Timeout { .. }) => "webhook_slow",
            Self::Exchange(fetch::Error::Redirect { .. }) | Self::Refused(_) => "webhook_refused",
            Self::Exchange(_) => "webhook_unreachable",
        }
    }
}

impl Common {
    /// `None` where it is switched off. Blocking: reads files.
    pub fn build(config: &config::Push) -> Result<Option<Self>, Vec<Problem>> {
        if config.keys.is_empty() {
            return Ok(None);
        }
        // First: what is written in between is another content to the next reading.
        let digest = tls::client::digest(&config.tls);
        let tls = tls::client::client_config(&config.tls, &["http/1.1"], "push")?;
        let keys = Keys::build(&config.keys).map_err(|error| vec![Problem::new("push.keys", error.to_string())])?;
        Ok(Some(Self {
            keys,
            rules: Rules::of(config),
            fetcher: Fetcher::new(tls),
            lifetime: config.lifetime,
            options: fetch::Options {
                timeout: config.timeout,
                max_bytes: 0,
                max_header_bytes: ANSWER_HEAD,
                ..fetch::Options::default()
            },
            body_bytes: config.body_bytes,
            digest,
            tls: config.tls.clone(),
        }))
    }

    /// The files are what they were. Blocking.
    pub fn is_fresh(&self) -> bool {
        tls::client::named_files(&self.tls).is_empty()
            || (self.digest.is_some() && self.digest == tls::client::digest(&self.tls))
    }

    async fn post(&self, webhook: &Webhook, generation: Generation, body: Bytes) -> Result<(), Failure> {
        self.rules.check(&webhook.url).map_err(Failure::Forbidden)?;
        let mut options = self.options.clone();
        let headers = &mut options.headers;
        let media_type = match generation {
            Generation::V0_1 | Generation::V0_3 => "application/json",
            Generation::V1_0 => "application/a2a+json",
        };
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
        if generation == Generation::V1_0 {
            headers.insert(hygiene::A2A_VERSION, HeaderValue::from_static("1.0"));
        }
        // What no header can carry was refused when it was registered.
        if let Some(token) = webhook.token() {
            headers.insert(X_A2A_NOTIFICATION_TOKEN, token);
        }
        if let Some(authorization) = webhook.authorization() {
            headers.insert(header::AUTHORIZATION, authorization);
        }
        let may = |address: IpAddr| self.rules.may_connect(address);
        let status = self.fetcher.post(&webhook.url, body, may, &options).await;
        match status.map_err(Failure::Exchange)? {
            status if status.is_success() => Ok(()),
            status => Err(Failure::Refused(status.as_u16())),
        }
    }
}

/// The webhooks of one agent's callers.
pub struct Relay {
    common: Arc<Common>,
    agent: Arc<str>,
    /// Where the agent reaches the gateway, up to what is sealed.
    base: String,
    /// Longest sealed text that this gateway would take as a target again.
    most: usize,
    calls: Arc<Calls>,
    places: Arc<Semaphore>,
    rate: DefaultDirectRateLimiter,
}

impl Relay {
    /// `base` is where the agent reaches the gateway's address of itself; `target` how long a target may be.
    pub fn new(common: &Arc<Common>, config: &config::Push, agent: &Arc<str>, base: &str, target: usize) -> Self {
        let base = format!("{}{PLACE}", base.trim_end_matches('/'));
        let path = base
            .split_once("://")
            .and_then(|(_, rest)| rest.find('/').map(|at| rest.len() - at));
        let (count, period) = config.rate;
        let count = std::num::NonZeroU32::new(count).unwrap_or(std::num::NonZeroU32::MIN);
        let quota = Quota::with_period(period / count.get()).unwrap_or(Quota::per_second(count));
        Self {
            common: common.clone(),
            agent: agent.clone(),
            most: MAX_SEALED.min(target.saturating_sub(path.unwrap_or(0))),
            base,
            calls: Arc::default(),
            places: Arc::new(Semaphore::new(config.concurrent)),
            rate: DefaultDirectRateLimiter::direct(quota.allow_burst(count)),
        }
    }

    /// The other is for the same addresses, and made of the same: what is under way may be counted on.
    pub fn is_like(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.common, &other.common) && self.base == other.base && self.most == other.most
    }

    /// Largest notification.
    pub fn body_bytes(&self) -> usize {
        self.common.body_bytes
    }

    /// What was sealed into an address of this agent. `now` in Unix seconds.
    pub fn open(&self, sealed: &str, now: u64) -> Result<Ticket, Unknown> {
        let (ticket, until) = self.read(sealed).ok_or(Unknown::Forged)?;
        if until < now { Err(Unknown::Expired) } else { Ok(ticket) }
    }

    /// What an address of this agent holds, and the address without it: whatever address the gateway was reached under when it
    /// was sealed.
    fn sealed_in<'a>(&self, url: &'a str) -> Option<(&'a str, Ticket)> {
        let at = url.rfind(PLACE)? + PLACE.len();
        let (place, sealed) = url.split_at_checked(at)?;
        Some((place, self.read(sealed)?.0))
    }

    /// An answer that goes on as it came, without addresses that were sealed for callers of another generation: their
    /// registrant sees its webhook, others that there is one. `None`: there is none in it.
    pub fn conceal(&self, body: &[u8], registrant: &str) -> serde_json::Result<Option<Bytes>> {
        // Addresses may be spelled with escapes.
        let mut value = serde_json::from_slice(body)?;
        let concealed = self.conceal_in(&mut value, registrant);
        Ok(concealed.then(|| Bytes::from(value.to_string())))
    }

    fn conceal_in(&self, value: &mut Value, registrant: &str) -> bool {
        match value {
            Value::String(text) => {
                let Some((place, ticket)) = self.sealed_in(text) else {
                    return false;
                };
                *text = if *ticket.registrant == *registrant {
                    ticket.webhook.url
                } else {
                    place.to_owned()
                };
                true
            }
            Value::Array(items) => self.conceal_all(items, registrant),
            Value::Object(members) => self.conceal_all(members.values_mut(), registrant),
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
    }

    fn conceal_all<'a>(&self, values: impl IntoIterator<Item = &'a mut Value>, registrant: &str) -> bool {
        // All of them: not only up to the first.
        let concealed = values
            .into_iter()
            .filter_map(|value| self.conceal_in(value, registrant).then_some(()));
        concealed.count() > 0
    }

    fn read(&self, sealed: &str) -> Option<(Ticket, u64)> {
        if sealed.len() > MAX_SEALED {
            return None;
        }
        let bytes = self.common.keys.open(&ticket::purpose(&self.agent), sealed)?;
        Ticket::read(&bytes)
    }

    fn seal(&self, ticket: &Ticket, now: u64) -> Result<String, Error> {
        let until = now.saturating_add(self.common.lifetime.as_secs());
        let sealed = self
            .common
            .keys
            .seal(&ticket::purpose(&self.agent), ticket.write(until));
        let sealed = sealed.map_err(|seal::Error| Error::Push)?;
        if sealed.len() > self.most {
            return Err(Error::Webhook(
                "the webhook's URL, token and credentials are too long together",
            ));
        }
        Ok(sealed)
    }

    /// Whether this was sealed for a call that is under way here, and makes this task.
    pub fn makes(&self, sealed: &str, task: &TaskId) -> bool {
        self.calls.makes(sealed, task)
    }

    /// One more notification within `push.rate`.
    pub fn admit(&self) -> bool {
        self.rate.check().is_ok()
    }

    /// A place among those under way; `None`: all are taken.
    pub fn enter(&self) -> Option<OwnedSemaphorePermit> {
        self.places.clone().try_acquire_owned().ok()
    }

    /// Tells a webhook; it has taken the notification once this is `Ok`.
    pub async fn post(&self, ticket: &Ticket, body: Bytes) -> Result<(), Failure> {
        self.common.post(&ticket.webhook, ticket.generation, body).await
    }
}

/// What is sealed by the gateway in front of what comes below an agent's path, if that is what this is.
pub fn sealed(path: &str) -> Option<&str> {
    let sealed = path.strip_prefix(PLACE)?;
    let is_code = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (!sealed.is_empty() && sealed.bytes().all(is_code)).then_some(sealed)
}

impl Webhook {
    fn token(&self) -> Option<HeaderValue> {
        sensitive(&self.token)
    }

    fn authorization(&self) -> Option<HeaderValue> {
        let Authentication { scheme, credentials } = self.authentication.as_ref()?;
        // A scheme alone means that the sender is to find a credential: the gateway has none of its own.
        if scheme.is_empty() || credentials.is_empty() {
            return None;
        }
        sensitive(&format!("{scheme} {credentials}"))
    }
}

fn sensitive(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(text).ok().filter(|_| !text.is_empty())?;
    value.set_sensitive(true);
    Some(value)
}

/// The webhooks of one call.
pub struct Desk {
    pub relay: Arc<Relay>,
    /// To whom tasks belong that the call makes.
    pub registrant: Arc<str>,
    /// To whom the task belongs that the call names.
    pub owner: Arc<str>,
    pub task: Option<TaskId>,
    pub generation: Generation,
    /// What a caller of 0.1 calls the task.
    pub named: Option<Box<v0_1::Named>>,
    /// In Unix seconds.
    pub now: u64,
    /// A call that may make a task, with a webhook for it.
    pub under_way: OnceLock<UnderWay>,
}

impl Webhooks for Desk {
    fn register(&self, config: &mut PushConfig<'_>) -> Result<(), Error> {
        let webhook = Webhook {
            url: config.url.as_str().to_owned(),
            token: config.token.as_str().to_owned(),
            authentication: config.authentication.as_ref().map(|authentication| Authentication {
                scheme: authentication.scheme.as_str().to_owned(),
                credentials: authentication.credentials.as_str().to_owned(),
            }),
        };
        self.relay.common.rules.check(&webhook.url).map_err(Error::Webhook)?;
        let sent = |text: &str| text.is_empty() || HeaderValue::from_str(text).is_ok();
        let authentication = webhook.authentication.as_ref();
        let parts = authentication.map(|it| [it.scheme.as_str(), it.credentials.as_str()]);
        if !sent(&webhook.token) || !parts.into_iter().flatten().all(sent) {
            return Err(Error::Webhook(
                "the webhook's token or credentials cannot stand in a header",
            ));
        }
        // Of two that differ the agent chooses.
        let named = config.task_id.as_str();
        let task = self
            .task
            .as_ref()
            .filter(|task| named.is_empty() || task.as_str() == named);
        let ticket = Ticket {
            generation: self.generation,
            named: self.named.clone(),
            owner: self.owner.clone(),
            registrant: self.registrant.clone(),
            task: task.cloned(),
            webhook,
        };
        let sealed = self.relay.seal(&ticket, self.now)?;
        if self.task.is_none() {
            self.under_way.get_or_init(|| self.relay.calls.begin(&sealed));
        }
        config.url = format!("{}{sealed}", self.relay.base).into();
        config.token = model::wire::Text::default();
        config.authentication = None;
        Ok(())
    }

    fn show(&self, config: &mut PushConfig<'_>) {
        let Some((place, ticket)) = self.relay.sealed_in(config.url.as_str()) else {
            return;
        };
        // Somebody with whom the task is shared sees that there is a webhook, not whose secrets; nor the address, by which
        // anybody could tell it something.
        if ticket.registrant != self.registrant {
            config.url = place.to_owned().into();
            return;
        }
        let Webhook {
            url,
            token,
            authentication,
        } = ticket.webhook;
        config.url = url.into();
        config.token = token.into();
        config.authentication = authentication.map(|it| model::Authentication {
            scheme: it.scheme.into(),
            credentials: it.credentials.into(),
        });
    }
}
