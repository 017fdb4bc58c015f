//! From start to stop: what the operator sees of agents that are not there, of files that change, of signals, and of the
//! program itself.

mod binary;
mod drain;
mod examples;
mod program;
mod reload;
mod renewal;
mod secrets;
mod signals;
mod start;
mod storm;
