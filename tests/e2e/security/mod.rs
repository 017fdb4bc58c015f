//! What security officers ask of a gateway: that acts are on record, and stay there.

mod audit;
mod audit_full;
