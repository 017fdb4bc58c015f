#![doc = include_str!("README.md")]

// The order is the way of a request: a module uses what stands above it, never what stands below.
pub mod clock;
//
pub mod expression;
//
pub mod a2a;
//
pub mod config;
//
pub mod seal;
//
pub mod drain;
//
pub mod audit;
//
pub mod observe;
//
pub mod listener;
//
pub mod tls;
//
pub mod discover;
//
pub mod http;
//
pub mod route;
//
pub mod authenticate;
//
pub mod authorize;
//
pub mod shared;
//
pub mod ratelimit;
//
pub mod parse;
//
pub mod affinity;
//
pub mod balance;
//
pub mod signing;
//
pub mod assertion;
//
pub mod upstream;
//
pub mod export;
//
pub mod catalogue;

pub mod card;
//
pub mod push;
//
pub mod envelope;
//
pub mod respond;
//
pub mod owners;
//
pub mod gather;
//
pub mod pipeline;
//
pub mod admin;
//
pub mod app;
//
pub mod demo;
