//! What the gateway does with well-behaved callers and agents.

mod affinity;
mod card;
mod ownership;
mod relay;
