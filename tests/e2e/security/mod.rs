//! Whom the gateway believes, and what it shows of itself and of callers, as standards say it: a file a standard.

pub mod token_server;
mod upstream_assertion;
mod upstream_client_credentials;
mod upstream_forwarding;
mod upstream_secrecy;
mod upstream_token_exchange;
