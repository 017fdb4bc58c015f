//! Standards and recordings.

mod replay;
mod replay_http_json;
