//! Who may do what: one file for each scheme, grant and policy, with the section of its standard; and that what they did is on record.

mod audit;
mod audit_full;
mod explain;
mod policy;
