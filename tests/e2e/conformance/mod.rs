//! Standards and recordings.

mod draft_1_1;
mod replay;
mod replay_0_1;
mod replay_grpc;
mod replay_http_json;
