//! Standards and recordings.

mod replay;
mod replay_0_1;
mod replay_grpc;
mod replay_http_json;
