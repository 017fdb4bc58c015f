//! What the gateway does with well-behaved callers and agents.

mod affinity;
mod balance;
mod card;
mod envelope;
mod envelope_authentication;
mod envelope_sessions;
mod extended_card;
mod grpc;
mod grpc_agent_streams;
mod grpc_agents;
mod grpc_http_json;
mod http_json;
mod http_json_agents;
mod http_json_tasks;
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
mod v0_1;
