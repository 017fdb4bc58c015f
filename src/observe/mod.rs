//! What the gateway tells its operators: metric names, one record per request, the access log.
//!
//! Label values come from closed sets and from the configuration, never from a caller. Task and context ids stand in the
//! access log only.

pub mod access;
mod audited;
pub mod metrics;
pub mod outcome;
pub mod record;
#[cfg(test)]
mod tests;

pub use audited::{TraceId, Witness};
pub use metrics::{AgentMetrics, EnvelopeMetrics, Metrics};
pub use outcome::{Fault, Gathering, Obtained, Outcome, Probed, Reason};
pub use record::Record;
