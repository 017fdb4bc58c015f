//! Who may do what: one file for each scheme, grant and policy, with the section of its standard.

mod explain;
mod policy;
