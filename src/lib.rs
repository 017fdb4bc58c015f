pub mod a2a;
pub mod authenticate;
pub mod clock;
pub mod config;
pub mod drain;
pub mod tls;
