//! What the envelope protocol makes the gateway remember: sessions, messages that it has taken, and callers who authenticated
//! in a message; and who may send in whose name.
//!
//! In memory of one gateway, across reloads. Bounded: see `table`. Answers of the gateway never tell somebody else's session from
//! one that does not exist. No lock is held across an await.

mod table;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ahash::RandomState;
use aws_lc_rs::{digest, rand};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use tokio_util::sync::DropGuard;

use crate::a2a::ContextId;
use crate::a2a::envelope::{Kind, Message};
use crate::authenticate::{Principal, Requirement, pattern};
use crate::config::{self, CallerPattern, RateLimit};
use crate::drain::Drain;
use crate::observe::{EnvelopeMetrics, Metrics};
use crate::ratelimit::RateLimiter;
use crate::route::AgentIndex;

use table::Table;

/// One configuration of the envelope protocol at work.
pub struct Desk {
    pub path: String,
    pub requirement: Requirement,
    pub limiters: Arc<Limiters>,
    pub authentication_bytes: usize,
    /// As much as any recipient takes.
    pub body_bytes: usize,
    pub memory: Arc<Memory>,
    recipients: HashMap<String, AgentIndex, RandomState>,
    senders: Vec<config::EnvelopeSender>,
    session_timeout: Duration,
    duplicates: Duration,
    authentication: Duration,
}

/// What is asked before a body is read; who works for it ends with it.
pub struct Limiters {
    pub known: RateLimiter,
    /// For callers who show nothing.
    pub unknown: RateLimiter,
    _jobs: DropGuard,
}

impl Limiters {
    /// Most distinct keys that each remembers.
    pub fn start(config: &config::Envelope, keys: usize, drain: &Drain) -> Self {
        let guesses = RateLimit::of_addresses("authentication", config.authentication_rate);
        let (scope, jobs) = drain.scope();
        let [known, unknown] = [&config.rate_limits[..], &[guesses]].map(|rules| {
            let limiter = RateLimiter::build(rules, keys);
            limiter.start(&scope);
            limiter
        });
        Self {
            known,
            unknown,
            _jobs: jobs,
        }
    }
}

/// What outlives a configuration.
pub struct Memory {
    sessions: Table<SessionKey, Session>,
    messages: Table<(Arc<str>, Box<str>), ()>,
    authenticated: Table<[u8; 32], Authenticated>,
    metrics: EnvelopeMetrics,
}

/// A session is of the two who talk in it: the same id between others is another one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SessionKey {
    creator: Box<str>,
    recipient: Box<str>,
    id: Box<str>,
}

struct Session {
    /// The principal that created it.
    owner: Arc<str>,
    /// With its recipient, whose endpoint is unknown while it is being created; and with its creator.
    recipient: Mutex<Side>,
    creator: Mutex<Side>,
}

/// One of the two who are talked to in a session.
#[derive(Default)]
struct Side {
    /// Where, once it was talked to.
    endpoint: Option<Arc<str>>,
    /// Of an A2A agent: the context of what was delegated to it.
    context: Option<ContextId>,
}

/// The live session that a message names. It does not run out before the message is done, and whatever becomes of it, the message
/// touches no other one of its name.
pub struct Found<'a> {
    sessions: &'a Table<SessionKey, Session>,
    key: SessionKey,
    session: Arc<Session>,
    /// The recipient of the session talks to its creator.
    back: bool,
}

impl Session {
    fn recipient(&self) -> MutexGuard<'_, Side> {
        self.recipient.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn creator(&self) -> MutexGuard<'_, Side> {
        self.creator.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Found<'_> {
    /// Where the recipient of the message is talked to in this session.
    pub fn endpoint(&self) -> Option<Arc<str>> {
        self.side().endpoint.clone()
    }

    /// Keeps the session with the recipient of the message at this endpoint, unless it is kept at one already, which it gives.
    pub fn bind(&self, endpoint: &Arc<str>) -> Arc<str> {
        self.side().endpoint.get_or_insert_with(|| endpoint.clone()).clone()
    }

    /// The context of what is delegated to the recipient of the message.
    pub fn context(&self) -> Option<ContextId> {
        self.side().context.clone()
    }

    /// What is delegated to it goes on in this context, unless there is one already.
    pub fn continue_in(&self, context: &ContextId) {
        self.side().context.get_or_insert_with(|| context.clone());
    }

    pub fn end(&self) {
        self.sessions.remove(&self.key, &self.session);
    }

    fn side(&self) -> MutexGuard<'_, Side> {
        if self.back {
            self.session.creator()
        } else {
            self.session.recipient()
        }
    }
}

impl Drop for Found<'_> {
    fn drop(&mut self) {
        self.sessions.touch(&self.key, &self.session, Instant::now());
    }
}

struct Authenticated {
    principal: Arc<Principal>,
    /// In whose name it sends.
    agent_id: Box<str>,
}

/// A message that is not taken a second time.
pub struct Taken {
    key: (Arc<str>, Box<str>),
    entry: Arc<()>,
}

/// Who sends a message.
#[derive(Clone, Debug)]
pub struct Caller {
    pub principal: Arc<Principal>,
    /// The one sender that it authenticated as, if it did so in a message.
    pub agent_id: Option<Box<str>>,
}

/// No random numbers are to be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no token can be made")]
pub struct NoToken;

impl Memory {
    pub fn new(metrics: &Metrics) -> Self {
        let metrics = metrics.envelope();
        let table = |name: &str| metrics.table(name);
        let (sessions, messages, authenticated) = (table("sessions"), table("messages"), table("authentications"));
        Self {
            sessions: Table::new(0, sessions.0, sessions.1),
            messages: Table::new(0, messages.0, messages.1),
            authenticated: Table::new(0, authenticated.0, authenticated.1),
            metrics,
        }
    }
}

impl Desk {
    pub fn build(
        whole: &config::Config,
        config: &config::Envelope,
        requirement: Requirement,
        limiters: Arc<Limiters>,
        memory: Arc<Memory>,
    ) -> Self {
        let takers = whole.agents.iter().filter(|agent| agent.envelope.is_some());
        let body_bytes = takers.map(|agent| agent.body_bytes).max().unwrap_or_default();
        let recipients = whole.agents.iter().enumerate().filter_map(|(index, agent)| {
            let own = agent.envelope.as_ref()?;
            Some((own.agent_id.clone(), AgentIndex(index)))
        });
        memory.sessions.set_most(config.max_sessions);
        memory.messages.set_most(config.max_messages);
        memory.authenticated.set_most(config.max_authentications);
        Self {
            path: config.path.clone(),
            requirement,
            limiters,
            authentication_bytes: config.authentication_bytes,
            body_bytes,
            recipients: recipients.collect(),
            senders: config.senders.clone(),
            session_timeout: config.session_timeout,
            duplicates: config.duplicate_window,
            authentication: config.authentication_lifetime,
            memory,
        }
    }

    /// The agent that a message is for.
    pub fn recipient(&self, message: &Message<'_>) -> Option<AgentIndex> {
        self.recipients.get(&*message.recipient.agent_id).copied()
    }

    pub fn count(&self, kind: &Kind<'_>) {
        self.memory.metrics.message(kind.as_str());
    }

    /// Whether this caller may send in this name. Without a rule only in the name that is the principal's own id.
    pub fn may_send(&self, principal: &Principal, agent_id: &str) -> bool {
        let matches = |pattern: &str, name: &str| pattern::matches(pattern.as_bytes(), name.as_bytes());
        let is_caller = |caller: &CallerPattern| match caller {
            CallerPattern::Id(id) => matches(id, &principal.id),
            CallerPattern::Attribute(wanted) => principal.attributes.iter().any(|has| matches(wanted, has)),
        };
        *principal.id == *agent_id
            || self
                .senders
                .iter()
                .any(|rule| matches(&rule.agent_id, agent_id) && rule.callers.iter().any(is_caller))
    }

    /// The token of a caller who authenticated in a message, and how long it holds: never longer than the credential.
    pub fn admit(&self, caller: &Principal, agent_id: &str, unix: u64) -> Result<(String, Duration), NoToken> {
        let mut random = [0; 32];
        rand::fill(&mut random).map_err(|_| NoToken)?;
        let token = URL_SAFE_NO_PAD.encode(random);
        let left = caller.expires().map(|at| Duration::from_secs(at.saturating_sub(unix)));
        let lifetime = left.map_or(self.authentication, |left| left.min(self.authentication));
        let authenticated = Authenticated {
            principal: Arc::new(caller.clone()),
            agent_id: Box::from(agent_id),
        };
        let table = &self.memory.authenticated;
        table.insert(hash(&token), &caller.id, authenticated, lifetime, Instant::now());
        Ok((token, lifetime))
    }

    /// Whose token this is, if the credential behind it is still good.
    pub fn holder(&self, token: &str) -> Option<Caller> {
        let known = self.memory.authenticated.look(&hash(token), Instant::now())?;
        Some(Caller {
            principal: self.requirement.readmit(&known.principal)?,
            agent_id: Some(known.agent_id.clone()),
        })
    }

    /// `None`: the caller has sent a message of this id before. From then on it has.
    pub fn take(&self, caller: &Caller, message: &Message<'_>) -> Option<Taken> {
        let owner = &caller.principal.id;
        let key = (owner.clone(), message.id.clone());
        let messages = &self.memory.messages;
        let entry = messages.insert(key.clone(), owner, (), self.duplicates, Instant::now())?;
        Some(Taken { key, entry })
    }

    /// The message reached nobody and may come again.
    pub fn forget(&self, taken: &Taken) {
        self.memory.messages.remove(&taken.key, &taken.entry);
    }

    /// The session that a message names, if it is one of its sender: created by the same principal, or with the sender as
    /// its recipient. `None`: there is none, or it is somebody else's.
    pub fn session(&self, caller: &Caller, message: &Message<'_>) -> Option<Found<'_>> {
        let sessions = &self.memory.sessions;
        let now = Instant::now();
        let forth = key(message, false)?;
        let (key, session, back) = match sessions.look(&forth, now) {
            Some(session) if session.owner != caller.principal.id => return None,
            Some(session) => (forth, session, false),
            None => {
                let key = key(message, true)?;
                let session = sessions.look(&key, now)?;
                (key, session, true)
            }
        };
        // Nobody has a session that is not there yet.
        session.recipient().endpoint.as_ref()?;
        sessions.touch(&key, &session, now);
        Some(Found {
            sessions,
            key,
            session,
            back,
        })
    }

    /// Begins the session that a message creates. `None`: somebody has one of this name, or is about to.
    pub fn begin(&self, caller: &Caller, message: &Message<'_>, timeout: Option<u64>) -> Option<Beginning<'_>> {
        let asked = timeout.map(Duration::from_secs).filter(|asked| !asked.is_zero());
        let idle = asked.map_or(self.session_timeout, |asked| asked.min(self.session_timeout));
        let owner = &caller.principal.id;
        let session = Session {
            owner: owner.clone(),
            recipient: Mutex::default(),
            creator: Mutex::default(),
        };
        let sessions = &self.memory.sessions;
        let key = key(message, false)?;
        let session = sessions.insert(key.clone(), owner, session, idle, Instant::now())?;
        Some(Beginning {
            sessions,
            key,
            session,
            idle,
            kept: false,
        })
    }
}

/// A session that nobody can use yet; given up on drop.
pub struct Beginning<'a> {
    sessions: &'a Table<SessionKey, Session>,
    key: SessionKey,
    session: Arc<Session>,
    idle: Duration,
    kept: bool,
}

impl Beginning<'_> {
    /// The session is kept at this endpoint. Gives how long it may idle.
    pub fn keep(mut self, endpoint: &Arc<str>) -> Duration {
        self.session.recipient().endpoint = Some(endpoint.clone());
        self.sessions.touch(&self.key, &self.session, Instant::now());
        self.kept = true;
        self.idle
    }
}

impl Drop for Beginning<'_> {
    fn drop(&mut self) {
        if !self.kept {
            self.sessions.remove(&self.key, &self.session);
        }
    }
}

fn key(message: &Message<'_>, back: bool) -> Option<SessionKey> {
    let (sender, recipient) = (&message.sender.agent_id, &message.recipient.agent_id);
    let (creator, recipient) = if back { (recipient, sender) } else { (sender, recipient) };
    Some(SessionKey {
        creator: creator.clone(),
        recipient: recipient.clone(),
        id: message.session.clone()?,
    })
}

/// Tokens are not kept.
fn hash(token: &str) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest::digest(&digest::SHA256, token.as_bytes()).as_ref());
    bytes
}
