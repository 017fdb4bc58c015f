//! From start to stop: what the operator sees of agents that are not there, of files that change, of signals, and of the
//! program itself.

pub mod binary;
mod cards;
mod drain;
mod examples;
mod fragments;
mod fragments_apart;
mod keys;
pub mod program;
pub mod reload;
mod reload_agents;
mod reload_decisions;
mod reload_endpoints;
mod reload_listeners;
mod reload_refused;
mod reload_streams;
mod reload_traffic;
mod renewal;
mod secrets;
mod signals;
mod srv;
mod start;
mod storm;
