//! What the gateway does with well-behaved callers and agents.

mod affinity;
mod balance;
mod card;
mod extended_card;
mod grpc;
mod http_json;
mod list;
mod list_owners;
mod list_tokens;
mod ownership;
mod pieces;
mod probe;
mod push;
mod relay;
mod shared;
mod transfer;
mod translate;
