//! Who may do what: one file for each scheme, grant and policy, with the section of its standard; and that what they did is on record.

mod audit;
mod audit_full;
mod explain;
mod policy;
pub mod token_server;
mod upstream_assertion;
mod upstream_client_credentials;
mod upstream_forwarding;
mod upstream_secrecy;
mod upstream_token_exchange;
