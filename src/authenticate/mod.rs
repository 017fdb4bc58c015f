//! Who calls: checks what a caller shows against the requirement of the agent.

use std::sync::Arc;

/// Who a caller proved to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// Stable: `key:partner-7`, `jwt:<issuer>#<sub>`, `basic:ann`, `mtls:spiffe://…`, or `anonymous`; with several schemes
    /// of one alternative the ids are joined by `+` in the order of the requirement.
    pub id: Arc<str>,
    /// The names of the schemes that it satisfied.
    pub schemes: Vec<Arc<str>>,
}

impl Principal {
    pub fn anonymous() -> Self {
        Self {
            id: Arc::from("anonymous"),
            schemes: Vec::new(),
        }
    }
}
