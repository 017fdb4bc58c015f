//! Agent cards: reads the *origin* card of an agent, writes the *public* card that the gateway serves (A2A 0.3 §5, 1.0 §8).
//!
//! Invariants: in the members that say where an agent is and what it demands, a public card holds nothing of the origin;
//! they are written anew from what the gateway serves and enforces. It claims no capability that the origin does not
//! claim. Members that the gateway does not know pass unchanged. Publishing a public card again changes nothing.
//!
//! Links to documents that lead to the agent's own servers are left out (`links`).
//!
//! What signatures of a card are over is written down in `canonical`; keys are nobody's business here.
//!
//! Deliberately absent: rewriting of other links and of extension URIs (they name documents and identifiers, not the
//! agent).

mod canonical;
mod diff;
mod edits;
mod extended;
pub mod gather;
mod links;
mod names;
mod publish;
mod read;
mod requirement;
mod scheme;
mod skills;
mod structure;
mod summary;
#[cfg(test)]
mod tests;
mod v0_1;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use bytes::Bytes;
use serde_json::{Map, Value};

use super::security::{SchemeName, Security};
use super::{Binding, Generation};

pub use canonical::{Reading, covered, payloads, readings};
pub use diff::{Difference, Differences, differences, unapproved};
pub use edits::Edits;
pub use extended::{
    Finish, Shown, answer_extended, read_extended_answer, rewrite_extended_answer, rewrite_extended_card,
};
pub use names::{forbidden_overrides, is_forbidden_override, is_required};
pub use publish::publish;
pub use read::{generation, read};
pub use scheme::{KeyPlace, SchemeForm, SchemeFormKind};
pub use skills::SkillPattern;
pub use structure::{Flaw, Flaws, flaws};
pub use summary::{Provider, SkillSummary, Summary};
pub use v0_1::publish_v0_1;

/// Deepest nesting of a card. Real cards stay below 10; the bound keeps recursion over a hostile one shallow.
pub const MAX_DEPTH: usize = 64;

/// A card as its agent wrote it, and what the gateway reads from it.
#[derive(Clone, Debug, PartialEq)]
pub struct OriginCard {
    /// All members, unknown ones included, in the order of the document.
    pub(in crate::a2a::card) members: Map<String, Value>,
    /// The interfaces of the generations that the gateway speaks. `supportedInterfaces` come first, in their
    /// order, then `url`, then `additionalInterfaces`.
    pub interfaces: Vec<Interface>,
    pub capabilities: Capabilities,
    /// What the card demands from callers, or why that cannot be told: then the agent may only be served with a requirement
    /// from elsewhere, never without one. Within one alternative the schemes are sorted by name: protobuf maps have no
    /// order, and a principal's id must not depend on how one process happened to print its card.
    pub security: Result<Security, CardError>,
    /// The schemes that the card defines; `None` for one that the gateway cannot read.
    pub schemes: BTreeMap<SchemeName, Option<SchemeForm>>,
    /// The skills that were left out of `members`, because another one before them has the same id, and where they stood.
    pub duplicate_skills: Vec<(usize, Value)>,
    /// How somebody signed it who is believed, if not as a whole; nothing else is left of it then.
    pub signed: Vec<Reading>,
    /// When its signatures hold no more for all that they are over, as seconds since 1970; `None`: never, or nobody looked.
    pub until: Option<u64>,
    /// The bytes as they were fetched, where somebody kept them.
    pub document: Option<Bytes>,
}

impl OriginCard {
    /// As JSON.
    pub fn to_bytes(&self) -> Bytes {
        Bytes::from(Value::Object(self.members.clone()).to_string())
    }

    /// What people would take for another card: all of it but the signatures, in one form (RFC 8785).
    pub fn unsigned(&self) -> String {
        canonical::whole(&self.members)
    }

    pub fn name(&self) -> Option<&str> {
        self.members.get("name").and_then(Value::as_str)
    }

    /// What the skills demand that demand anything, by their ids.
    pub fn skill_security(&self) -> impl Iterator<Item = (&str, Result<Security, CardError>)> {
        let skills = self
            .members
            .get("skills")
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        skills.filter_map(Value::as_object).filter_map(|skill| {
            let id = skill.get("id").and_then(Value::as_str)?;
            Some((id, requirement::read(skill).transpose()?))
        })
    }

    /// The generations offered over a binding, oldest first.
    pub fn generations(&self, binding: Binding) -> Vec<Generation> {
        Generation::ALL
            .into_iter()
            .filter(|generation| self.interface(*generation, binding).is_some())
            .collect()
    }

    /// The binding to call the agent in, whichever generation it is offered in.
    pub fn binding(&self) -> Option<Binding> {
        Binding::ALL
            .into_iter()
            .find(|binding| self.interfaces.iter().any(|interface| interface.binding == *binding))
    }

    /// The generation that says what the card must have. Cards of 1.0 and 0.3 in one are printed by libraries of 1.0; `configured`
    /// says what the card itself may not tell.
    pub fn written(&self, configured: Option<Generation>) -> Generation {
        let offers = |generation| {
            self.interfaces
                .iter()
                .any(|interface| interface.generation == generation)
        };
        match configured {
            _ if offers(Generation::V1_0) => Generation::V1_0,
            Some(configured) => configured,
            None if offers(Generation::V0_1) => Generation::V0_1,
            None => Generation::V0_3,
        }
    }

    /// The interface that the agent prefers for a generation over a binding.
    pub fn interface(&self, generation: Generation, binding: Binding) -> Option<&Interface> {
        self.interfaces
            .iter()
            .find(|interface| (interface.generation, interface.binding) == (generation, binding))
    }

    /// The extended card is fetched with a GET beside the agent's URL: up to 0.2 there is no call for it. Before 0.2.5 cards
    /// say no version.
    pub fn is_extended_fetched(&self) -> bool {
        let version = self.members.get("protocolVersion").and_then(Value::as_str);
        let is_old = version.is_none_or(|version| version == "0.2" || version.starts_with("0.2."));
        let calls = [Generation::V0_3, Generation::V1_0]
            .map(|generation| self.interface(generation, Binding::JsonRpc).is_some());
        self.capabilities.extended && is_old && calls == [true, false]
    }

    /// `None` where they are no list of signatures.
    pub fn signatures(&self) -> Option<Vec<Signature>> {
        let Some(list) = self.members.get("signatures").filter(|list| !list.is_null()) else {
            return Some(Vec::new());
        };
        let one = |value: &Value| {
            let text = |name: &str| value.get(name)?.as_str().map(str::to_owned);
            Some(Signature {
                protected: text("protected")?,
                signature: text("signature")?,
            })
        };
        list.as_array()?.iter().map(one).collect()
    }

    /// Whether the card carries signatures. They never survive publishing: every rewrite breaks them.
    pub fn is_signed(&self) -> bool {
        self.members
            .get("signatures")
            .and_then(Value::as_array)
            .is_some_and(|signatures| !signatures.is_empty())
    }
}

/// A signature of a card (RFC 7515 §7.2.2), both parts in base64url.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    pub protected: String,
    pub signature: String,
}

/// A place where the agent itself says that it can be called.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Interface {
    pub generation: Generation,
    pub binding: Binding,
    pub url: String,
    /// Never empty: an empty `tenant` means none.
    pub tenant: Option<String>,
}

/// What the card claims; anything but `true` is no claim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    pub streaming: bool,
    pub push: bool,
    /// `capabilities.extendedAgentCard` or `supportsAuthenticatedExtendedCard`.
    pub extended: bool,
}

/// What the gateway serves and enforces for one agent: the only source of what a public card says about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Publication {
    /// The absolute URL of this agent at the gateway.
    pub public_url: String,
    /// The generations that callers may use, oldest first; the card takes the form of these.
    pub served: Vec<Generation>,
    /// Callers of each generation have a card of their own, in its form alone.
    pub by_version: bool,
    /// Callers of 0.1 have a card, in its form, at the place where they look for one.
    pub v0_1: bool,
    /// The generation in which the agent wrote its card (`OriginCard::written`).
    pub written: Generation,
    /// The bindings that callers may use, the preferred one first.
    pub bindings: Vec<Binding>,
    /// The one that the agent is called in, whose interfaces say what it wants to be told.
    pub spoken: Binding,
    pub enforced: Security,
    /// May hold more than `enforced` names; only named ones are published.
    pub schemes: BTreeMap<SchemeName, SchemeForm>,
    pub streaming: bool,
    pub push: bool,
    /// The same to callers of 0.1.
    pub push_v0_1: bool,
    pub extended: bool,
    /// The URLs of the agent's own servers, to which no link of the card may lead.
    pub upstream: Vec<String>,
    /// The card is also published as its agent wrote it.
    pub original: bool,
    pub edits: Edits,
}

impl Publication {
    /// The generations that have a card of their own, where one is not like the other.
    pub fn versions(&self) -> &[Generation] {
        match self.served.as_slice() {
            several @ [_, _, ..] if self.by_version => several,
            _ => &[],
        }
    }

    /// For callers of one generation.
    pub fn of(&self, generation: Generation) -> Cow<'_, Self> {
        if !self.versions().contains(&generation) {
            return Cow::Borrowed(self);
        }
        Cow::Owned(Self {
            served: vec![generation],
            ..self.clone()
        })
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct PublishedCard {
    pub value: Value,
    pub bytes: Bytes,
}

/// Why a card cannot be used. Names members of the protocol only, never text of the card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CardError {
    NotJson {
        line: usize,
        column: usize,
    },
    NotObject,
    TooDeep,
    /// An object with two members of one name.
    DuplicateMember,
    /// The same member in two spellings, or in a spelling that only some readers take for it.
    Ambiguous {
        member: &'static str,
    },
    /// A requirement that cannot be read; never taken for none.
    Malformed {
        member: &'static str,
    },
    /// `security` and `securityRequirements` demand different things.
    SecurityDisagrees,
    /// Not the JSON-RPC answer to a request for the extended card.
    NotAnAnswer,
}

impl CardError {
    /// What was read is no card at all, so it says nothing about the agent. The other errors are about a card that the
    /// agent did write and that cannot be trusted.
    pub fn is_no_card(self) -> bool {
        match self {
            Self::NotJson { .. } | Self::NotObject | Self::TooDeep | Self::NotAnAnswer => true,
            Self::DuplicateMember | Self::Ambiguous { .. } | Self::Malformed { .. } | Self::SecurityDisagrees => false,
        }
    }
}

impl fmt::Display for CardError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotJson { line, column } => {
                write!(f, "the card is not JSON (line {line}, column {column})")
            }
            Self::NotObject => f.write_str("the card is not a JSON object"),
            Self::DuplicateMember => f.write_str("the card has an object with two members of one name"),
            Self::TooDeep => write!(f, "the card is nested deeper than {MAX_DEPTH} levels"),
            Self::Ambiguous { member } => write!(
                f,
                "the card spells the member `{member}` differently or more than once, so that readers disagree about it; \
                 correct the agent's card"
            ),
            Self::Malformed { member } => write!(
                f,
                "the requirement in `{member}` of the card cannot be read; correct the agent's card, or set `security` \
                 for this agent"
            ),
            Self::SecurityDisagrees => f.write_str(
                "the card demands different things in `security` and `securityRequirements`; correct the agent's card, or \
                 set `security` for this agent",
            ),
            Self::NotAnAnswer => f.write_str("not a JSON-RPC answer with an extended card"),
        }
    }
}

impl std::error::Error for CardError {}
