//! The way out: answers whole or as streams, rejections from one table, what owners are learned on the way.

pub mod answer;
pub mod answered;
pub mod body;
pub mod grpc;
mod judge;
pub mod learn;
mod reasons;
pub mod reject;
pub mod standing;
pub mod stream;
#[cfg(test)]
mod tests;

pub use body::Body;
pub use reject::Reject;
