//! What is sealed into the address that an agent is given: all that a notification needs to reach its webhook.
//!
//! Nothing is kept here: whoever has the key serves every address that was sealed with it. An address is a credential, and
//! holds for one agent; what it says of its caller, the agent cannot read.

use std::fmt;
use std::sync::Arc;

use crate::a2a::{Generation, TaskId, v0_1};
use crate::seal;

/// A caller's webhook, as it registered it.
#[derive(Clone, PartialEq, Eq)]
pub struct Webhook {
    pub url: String,
    /// By which it knows the sender; perhaps empty.
    pub token: String,
    pub authentication: Option<Authentication>,
}

#[derive(Clone, PartialEq, Eq)]
pub struct Authentication {
    pub scheme: String,
    pub credentials: String,
}

/// URLs have secrets too, in their paths and queries.
impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Webhook")
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// What the webhook expects.
    pub generation: Generation,
    /// What a caller of 0.1 calls the task.
    pub named: Option<Box<v0_1::Named>>,
    /// To whom the task belongs.
    pub owner: Arc<str>,
    /// To whom tasks belong that the caller makes: who may see the webhook.
    pub registrant: Arc<str>,
    /// The task that the webhook is for, where it was named.
    pub task: Option<TaskId>,
    pub webhook: Webhook,
}

/// So that nothing else that the same key seals is taken for one.
const PURPOSE: &[u8] = b"webhook";
/// Of what is written.
const FORM: u8 = 1;
const AUTHENTICATED: u8 = 1;

pub fn purpose(agent: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(32 + agent.len());
    seal::put(&mut out, PURPOSE);
    seal::put(&mut out, agent.as_bytes());
    out
}

impl Ticket {
    /// With the moment until which it holds, in Unix seconds.
    pub fn write(&self, until: u64) -> Vec<u8> {
        let Webhook {
            url,
            token,
            authentication,
        } = &self.webhook;
        let mut out = Vec::with_capacity(128 + url.len() + token.len());
        out.push(FORM);
        out.extend_from_slice(&until.to_be_bytes());
        out.push(match self.generation {
            Generation::V0_3 => 0,
            Generation::V1_0 => 1,
            Generation::V0_1 => 2,
        });
        out.push(authentication.as_ref().map_or(0, |_| AUTHENTICATED));
        // The same as the owner, but where a task is shared.
        let registrant = if self.registrant == self.owner {
            ""
        } else {
            &self.registrant
        };
        let task = self.task.as_ref().map_or("", TaskId::as_str);
        for part in [&self.owner, registrant, task, url, token] {
            put(&mut out, part);
        }
        if let Some(Authentication { scheme, credentials }) = authentication {
            put(&mut out, scheme);
            put(&mut out, credentials);
        }
        if self.generation == Generation::V0_1 {
            let v0_1::Told { task, session } = self.named.as_deref().map(v0_1::Named::told).unwrap_or_default();
            put(&mut out, task);
            put(&mut out, session);
        }
        out
    }

    pub fn read(bytes: &[u8]) -> Option<(Self, u64)> {
        let (&[FORM], rest) = bytes.split_first_chunk()? else {
            return None;
        };
        let (until, rest) = rest.split_first_chunk()?;
        let (&[generation, authenticated], mut rest) = rest.split_first_chunk()?;
        let generation = match generation {
            0 => Generation::V0_3,
            1 => Generation::V1_0,
            2 => Generation::V0_1,
            _ => return None,
        };
        let mut text = || take(&mut rest);
        let owner: Arc<str> = Arc::from(text()?);
        let registrant = text()?;
        let task = text()?;
        let (url, token) = (text()?, text()?);
        let authentication = if authenticated == AUTHENTICATED {
            Some(Authentication {
                scheme: text()?,
                credentials: text()?,
            })
        } else {
            None
        };
        let named = if generation == Generation::V0_1 {
            Some(Box::new(v0_1::Named {
                task: text()?.into(),
                session: text()?.into(),
                message: Box::default(),
            }))
        } else {
            None
        };
        let ticket = Self {
            generation,
            named,
            registrant: if registrant.is_empty() {
                owner.clone()
            } else {
                Arc::from(registrant)
            },
            owner,
            task: (!task.is_empty()).then(|| TaskId::new(&task)),
            webhook: Webhook {
                url,
                token,
                authentication,
            },
        };
        rest.is_empty().then_some((ticket, u64::from_be_bytes(*until)))
    }
}

/// Two bytes of length: an address is short, and most parts are.
fn put(out: &mut Vec<u8>, text: &str) {
    // What is longer makes an address that is too long.
    let length = u16::try_from(text.len()).unwrap_or(u16::MAX);
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(text.as_bytes());
}

fn take(rest: &mut &[u8]) -> Option<String> {
    let (length, after) = rest.split_first_chunk()?;
    let (text, after) = after.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
    *rest = after;
    String::from_utf8(text.to_vec()).ok()
}
