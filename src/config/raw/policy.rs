//! Policies as users write them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{List, OperationName};

/// Who may make which calls of an agent, and use which of its tasks.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Policy")]
pub struct RawPolicy {
    /// To whom a task and a context belong. `principal`: to the caller that made them. `claim:<name>`: to everybody with the
    /// same value of this claim of the token (or `attributes` of the key or user), e.g. `claim:tenant`; callers without
    /// exactly one value are refused. `none`: to everybody who may call the agent. What belongs to somebody else is
    /// answered like a task that does not exist. By default `principal` where the agent requires authentication, because
    /// behind a gateway an agent sees one caller; `none` where callers may be anonymous, because those are nobody.
    #[schemars(regex(pattern = r"^(principal|none|claim:.+)$"))]
    pub task_owner: Option<String>,
    /// Lets callers use tasks of others. None by default.
    pub task_sharing: List<RawTaskSharing>,
    /// Which calls are allowed: those that any of these rules allows, and no others. Without a rule everybody may make every call
    /// who meets the agent's `security`.
    pub allow: List<RawAllow>,
    /// The decision point that must allow every call, too: a name of `decision_points`. Asked after the rules have allowed the call.
    /// None by default.
    pub decision_point: Option<String>,
    /// The key of a message's `metadata`, or else of the call's, in which callers name the skill that they want, e.g.
    /// `https://example.com/skill/v1`: in A2A no call names one by itself. A call that names a skill needs what the agent's card demands for
    /// it, too, and a rule for this skill, if there is any. None by default, and then no call has a skill.
    pub skill: Option<String>,
}

/// Which calls of a listener are allowed, whatever agent they are for.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "ListenerPolicy")]
pub struct RawListenerPolicy {
    /// Those that any of these rules allows, and no others; the agent's own rules must allow them, too. Without a rule all are.
    pub allow: List<RawAllow>,
    /// The decision point that must allow every call that comes in here, too: a name of `decision_points`. None by default.
    pub decision_point: Option<String>,
}

/// One rule that allows calls. What stands in it must all hold.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Allow")]
pub struct RawAllow {
    /// The rule's name in logs and explanations. By default its place, e.g. `allow[0]`.
    pub name: Option<String>,
    /// The operations that it allows. All by default.
    pub operations: List<OperationName>,
    /// The skills for which it stands. By default it stands for calls without a skill, and for those whose skill no other rule names.
    pub skills: List<String>,
    /// What must hold: an expression in CEL over `principal`, `agent`, `operation`, `generation`, `binding`, `skill`, `task`,
    /// `message`, `source` and `time` that gives true or false. One that cannot be evaluated, because it reads something that is
    /// not there, allows nothing. Always by default.
    pub when: Option<String>,
}

/// Callers that may use tasks of certain owners.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "TaskSharing", extend("required" = ["with"]))]
pub struct RawTaskSharing {
    /// The callers: ids of principals (`key:support-*`) or claims and attributes (`groups=support`); `*` stands for any
    /// run of characters. Any one suffices.
    pub with: List<String>,
    /// The owners whose tasks they may use, as they stand in task records: ids of principals, or `tenant=acme` where a claim
    /// owns. Any one suffices; all owners by default.
    pub owners: Option<List<String>>,
    /// `read` allows what changes nothing: get, list, subscribe, reading push configurations. `full` allows to send, cancel
    /// and configure too. `read` by default, because it does no harm by mistake.
    pub access: RawTaskAccess,
}

impl Default for RawTaskSharing {
    fn default() -> Self {
        Self {
            with: List::default(),
            owners: None,
            access: RawTaskAccess::Read,
        }
    }
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum RawTaskAccess {
    Read,
    Full,
}
