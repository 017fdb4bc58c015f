//! May they: first the route, when only the caller is known; later the call, when the body is; at last its tasks, when
//! their owners are.
//!
//! `Admitted` and `Checked` have one maker each, so a body cannot be read, nor a task be looked for, without the check. A
//! `Permit` to call an agent is made for a caller, at last of a `Pending` where decision points are to be asked (`point`), or, to get one task, for an agent that told of it (`Notified`). Somebody else's task is answered exactly like one that does not exist.

mod judgement;
mod ownership;
mod point;
mod policy;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use bytes::Bytes;
use http::HeaderValue;

pub use self::judgement::{Again, Asks, Judgement};
pub use self::ownership::Ownership;
pub use self::point::{NextPoints, Point, Points, Refused, Why};
pub use self::policy::{Asked, Asking, Came, Decision, Judged, Policies, Rules, condition_holds};
use crate::a2a::{Binding, Call, Generation, Operation, RpcId, TaskId};
use crate::authenticate::Principal;
use crate::route::RouteMatch;

/// The caller may address this route. Needed before a body byte is read.
#[derive(Clone, Debug)]
pub struct Admitted {
    route: RouteMatch,
    principal: Arc<Principal>,
    owner: Arc<str>,
}

impl Admitted {
    pub fn route(&self) -> RouteMatch {
        self.route
    }

    pub fn principal(&self) -> &Arc<Principal> {
        &self.principal
    }

    /// To whom belongs what the caller makes, and what it names itself.
    pub fn owner(&self) -> &Arc<str> {
        &self.owner
    }
}

/// The agent serves this call. Needed before anything is said of the tasks that it names.
#[derive(Clone, Debug)]
pub struct Checked {
    admitted: Admitted,
    call: Arc<Call>,
}

impl Checked {
    pub fn call(&self) -> &Arc<Call> {
        &self.call
    }
}

/// What the call names is the caller's to name. Needed before the rules are asked, so that they tell nothing of others' tasks.
#[derive(Clone, Debug)]
pub struct Owned {
    admitted: Admitted,
    call: Arc<Call>,
}

impl Owned {
    pub fn principal(&self) -> &Arc<Principal> {
        &self.admitted.principal
    }
}

/// The caller may make this call. Demanded by `upstream`.
#[derive(Clone, Debug)]
pub struct Permit {
    admitted: Admitted,
    call: Arc<Call>,
    /// `None`: there are no rules and no decision points, and it is no stream.
    judgement: Option<Arc<Judgement>>,
}

impl Permit {
    pub fn principal(&self) -> &Arc<Principal> {
        self.admitted.principal()
    }

    /// By which rules and decision points it was made, where there are any.
    pub fn judgement(&self) -> Option<&Arc<Judgement>> {
        self.judgement.as_ref()
    }

    /// To whom tasks and contexts belong that the call makes.
    pub fn owner(&self) -> &Arc<str> {
        &self.admitted.owner
    }

    pub fn call(&self) -> &Arc<Call> {
        &self.call
    }

    /// Whether the call may touch what belongs to `owner`.
    pub fn may_use(&self, ownership: &Ownership, owner: &str) -> bool {
        let Admitted {
            principal, owner: own, ..
        } = &self.admitted;
        ownership.permits(principal, own, owner, self.call.operation)
    }

    /// For the gateway's own question whether an endpoint knows the task that the permitted call names: a get of that task,
    /// which tells less than any call about it. None for a call without a task.
    pub fn probe(&self, generation: Generation) -> Option<Self> {
        let task = self.call.task.clone()?;
        let id = RpcId(Bytes::from_static(b"\"probe\""));
        let call = get(self.call.binding, generation, task, id);
        Some(Self {
            admitted: self.admitted.clone(),
            call: Arc::new(call),
            judgement: self.judgement.clone(),
        })
    }
}

fn get(binding: Binding, generation: Generation, task: TaskId, id: RpcId) -> Call {
    Call {
        binding,
        generation,
        operation: Operation::Get,
        id,
        task: Some(task),
        context: None,
        references: Vec::new(),
        webhook: false,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No rule allows it.
    #[error("no rule allows the call")]
    NotAllowed,
    /// The caller lacks the claim by which the agent's tasks are owned.
    #[error("the caller has no owner for its tasks")]
    Ownerless,
    /// The agent does not speak the generation of the call, or the caller asked for another one than it speaks.
    #[error("the agent does not serve this generation")]
    Version,
    /// A task or context does not exist, or belongs to somebody else: nobody outside can tell which.
    #[error("the task is not the caller's, or nobody's")]
    TaskNotFound,
    /// A notification is of a task that no answer has told of, as far as is known.
    #[error("no answer has told of the task yet")]
    Unrecorded,
}

impl Error {
    /// The label in logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotAllowed => "no_rule",
            Self::Ownerless => "no_task_owner",
            Self::Version => "version",
            Self::TaskNotFound => "task_not_found",
            Self::Unrecorded => "unrecorded",
        }
    }
}

/// Every authenticated principal may address every agent whose requirement it met, unless the rules refuse whatever it asks.
pub fn route(
    route: RouteMatch,
    principal: Arc<Principal>,
    ownership: &Ownership,
    policies: Policies<'_>,
    asked: &Asked,
) -> Result<Admitted, Error> {
    policies.admit(&principal, asked)?;
    let owner = ownership.owner(&principal).ok_or(Error::Ownerless)?;
    Ok(Admitted {
        route,
        principal,
        owner,
    })
}

/// `served` is empty while the agent's card is not known: then the agent itself decides.
///
/// A call of 0.1 is read as one only where 0.1 is served. A legacy method with `A2A-Version: 1.x` contradicts itself and is refused rather than guessed (A2A 1.0 §3.6.2). A 1.0
/// method without a version is left to the agent, because the specification makes that the agent's error.
pub fn call(
    admitted: Admitted,
    call: Call,
    served: &[Generation],
    asked: Option<&HeaderValue>,
) -> Result<Checked, (Error, Box<Call>)> {
    let offered = served.is_empty() || call.generation == Generation::V0_1 || served.contains(&call.generation);
    let contradicts =
        call.generation != Generation::V1_0 && asked.is_some_and(|asked| !asked.as_bytes().starts_with(b"0."));
    if !offered || contradicts {
        return Err((Error::Version, Box::new(call)));
    }
    Ok(Checked {
        admitted,
        call: Arc::new(call),
    })
}

/// An agent tells of a task through an address that was sealed for an owner. Needed before anything is said of the task.
#[derive(Clone, Debug)]
pub struct Notified {
    admitted: Admitted,
    call: Arc<Call>,
    /// The address was sealed for this very task, which was the owner's then, or for the call under way that makes it.
    vouched: bool,
}

impl Notified {
    /// All that it may become: a get of the task.
    pub fn call(&self) -> &Arc<Call> {
        &self.call
    }
}

/// `owner` is whom the address was sealed for; `vouched`: for this task too, or for the call under way that makes it.
pub fn notified(route: RouteMatch, owner: &Arc<str>, task: TaskId, generation: Generation, vouched: bool) -> Notified {
    let call = get(Binding::JsonRpc, generation, task, RpcId::one());
    Notified {
        admitted: Admitted {
            route,
            principal: Arc::new(Principal::absent(owner)),
            owner: owner.clone(),
        },
        call: Arc::new(call),
        vouched,
    }
}

/// The task must be the owner's, whoever else may use it. Of one without a record only the call that makes it may tell
/// whose it is: whoever posts is not known, and it may be somebody's whose record is lost.
pub fn told(notified: Notified, ownership: &Ownership, owners: &impl Owners) -> Result<Permit, Error> {
    let Notified {
        admitted,
        call,
        vouched,
    } = notified;
    if ownership.is_enforced() {
        match owners.of_task() {
            Some(owner) if *owner != *admitted.owner => return Err(Error::TaskNotFound),
            None if !vouched => return Err(Error::Unrecorded),
            Some(_) | None => {}
        }
    }
    Ok(Permit {
        admitted,
        call,
        judgement: None,
    })
}

/// To whom the tasks and the context of a call belong; `None` where nobody is known.
pub trait Owners {
    fn of_task(&self) -> Option<&str>;
    fn of_context(&self) -> Option<&str>;
    /// Of each task that the message refers to.
    fn of_references(&self) -> impl Iterator<Item = Option<&str>>;
}

/// Where tasks have owners, a call must name only those that the caller may use (A2A 1.0 §13.1). A task without a record is
/// nobody's, and refused: it may be somebody's whose record is lost. A context without one is about to be begun.
///
/// A list is not refused: what it may show is decided for each of its tasks.
pub fn tasks(checked: Checked, ownership: &Ownership, owners: &impl Owners) -> Result<Owned, Error> {
    let Checked { admitted, call } = checked;
    if ownership.is_enforced() {
        let mine = |owner: &str| ownership.permits(&admitted.principal, &admitted.owner, owner, call.operation);
        let task = call.task.is_none() || owners.of_task().is_some_and(mine);
        let context = call.operation == Operation::List || owners.of_context().is_none_or(mine);
        let references = || owners.of_references().all(|owner| owner.is_some_and(mine));
        if !(task && context && (call.references.is_empty() || references())) {
            return Err(Error::TaskNotFound);
        }
    }
    Ok(Owned { admitted, call })
}

/// What the rules say of a call that they do not refuse.
#[derive(Debug)]
pub enum Ruled {
    Allowed(Permit),
    Asks(Box<Pending>),
}

/// The rules allow the call; decision points have to, too.
#[derive(Debug)]
pub struct Pending {
    admitted: Admitted,
    call: Arc<Call>,
    judgement: Judgement,
}

impl Pending {
    /// Asks them.
    pub async fn answered(self) -> Result<Permit, Refused> {
        let Self {
            admitted,
            call,
            judgement,
        } = self;
        judgement.ask_points().await?;
        Ok(Permit {
            admitted,
            call,
            judgement: Some(Arc::new(judgement)),
        })
    }
}

/// Where there are rules, one of the listener's and one of the agent's must allow the call; where there are decision points,
/// they are asked then. `asking` is made where there are any, and for streams, because another configuration may have some for them.
pub fn allowed(
    owned: Owned,
    policies: Policies<'_>,
    asking: impl FnOnce(Arc<Call>) -> Asking,
) -> Result<Ruled, Decision> {
    let Owned { admitted, call } = owned;
    if policies.is_open() && !call.operation.streams() {
        return Ok(Ruled::Allowed(Permit {
            admitted,
            call,
            judgement: None,
        }));
    }
    let asking = asking(call.clone());
    let decision = policies.decide(&admitted.principal, &asking);
    if !decision.allows() {
        return Err(decision);
    }
    let judgement = Judgement::new(policies, &admitted.principal, asking, decision);
    Ok(match policies.asks() {
        true => Ruled::Asks(Box::new(Pending {
            admitted,
            call,
            judgement,
        })),
        false => Ruled::Allowed(Permit {
            admitted,
            call,
            judgement: Some(Arc::new(judgement)),
        }),
    })
}
