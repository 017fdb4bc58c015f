//! The chain, its file and its verifier, damage included. See below.
