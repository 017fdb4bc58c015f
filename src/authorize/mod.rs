//! May they: first the route, when only the caller is known; later the call, when the body is.
//!
//! `Admitted` and `Permit` have one maker each, so a body cannot be read, nor an agent be called, without the check.
//! This is the place for policy rules; what is checked here is what the agent serves.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use http::HeaderValue;

use crate::a2a::{Call, Generation};
use crate::authenticate::Principal;
use crate::route::RouteMatch;

/// The caller may address this route. Needed before a body byte is read.
#[derive(Clone, Debug)]
pub struct Admitted {
    route: RouteMatch,
    principal: Arc<Principal>,
}

impl Admitted {
    pub fn route(&self) -> RouteMatch {
        self.route
    }

    pub fn principal(&self) -> &Arc<Principal> {
        &self.principal
    }
}

/// The caller may make this call. Demanded by `upstream`.
#[derive(Clone, Debug)]
pub struct Permit {
    admitted: Admitted,
    call: Arc<Call>,
}

impl Permit {
    pub fn principal(&self) -> &Arc<Principal> {
        self.admitted.principal()
    }

    pub fn call(&self) -> &Arc<Call> {
        &self.call
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The agent does not speak the generation of the call, or the caller asked for another one than it speaks.
    #[error("the agent does not serve this generation")]
    Version,
}

/// Every authenticated principal may address every agent whose requirement it met.
pub fn route(route: RouteMatch, principal: Arc<Principal>) -> Admitted {
    Admitted { route, principal }
}

/// `served` is empty while the agent's card is not known: then the agent itself decides.
///
/// A legacy method with `A2A-Version: 1.x` contradicts itself and is refused rather than guessed (A2A 1.0 §3.6.2). A 1.0
/// method without a version is left to the agent, because the specification makes that the agent's error.
pub fn call(
    admitted: Admitted,
    call: Call,
    served: &[Generation],
    asked: Option<&HeaderValue>,
) -> Result<Permit, (Error, Box<Call>)> {
    let offered = served.is_empty() || served.contains(&call.generation);
    let contradicts =
        call.generation == Generation::V0_3 && asked.is_some_and(|asked| !asked.as_bytes().starts_with(b"0."));
    if !offered || contradicts {
        return Err((Error::Version, Box::new(call)));
    }
    Ok(Permit {
        admitted,
        call: Arc::new(call),
    })
}
