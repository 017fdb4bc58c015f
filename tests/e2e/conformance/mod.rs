//! Standards and recordings.

mod replay;
