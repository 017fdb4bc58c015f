//! How many connections are open, in all and from each source.
//!
//! The table of sources needs no eviction: an entry exists only while a connection of that source does, so it is never
//! larger than the limit of all connections. The lock is held for one look-up and never across an await.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::config::Limits;

/// What counts as one source: an IPv4 address, or the /64 of an IPv6 address, because that is what one host or subscriber
/// usually has to itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    V4([u8; 4]),
    V6([u8; 8]),
}

impl From<IpAddr> for Source {
    fn from(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self::V4(address.octets()),
            IpAddr::V6(address) => {
                let [a, b, c, d, e, f, g, h, ..] = address.octets();
                Self::V6([a, b, c, d, e, f, g, h])
            }
        }
    }
}

/// The limit that a new connection would exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejected {
    /// `limits.connections_per_address`.
    PerAddress,
    /// `limits.connections`.
    All,
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::PerAddress => "its address holds as many connections as limits.connections_per_address allows",
            Self::All => "the gateway holds as many connections as limits.connections allows",
        })
    }
}

/// Shared by all listeners that one limit covers.
#[derive(Debug)]
pub struct Connections {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    limit: usize,
    limit_per_address: usize,
    open: usize,
    sources: HashMap<Source, usize, ahash::RandomState>,
}

impl Connections {
    pub fn new(limits: &Limits) -> Arc<Self> {
        Self::with_limits(limits.connections, limits.connections_per_address)
    }

    pub fn with_limits(all: usize, per_address: usize) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State {
                limit: all,
                limit_per_address: per_address,
                open: 0,
                sources: HashMap::default(),
            }),
        })
    }

    /// New limits for connections that are yet to come; those open stay.
    pub fn set_limits(&self, limits: &Limits) {
        self.change_limits(limits.connections, limits.connections_per_address);
    }

    pub(super) fn change_limits(&self, all: usize, per_address: usize) {
        let mut state = self.state();
        state.limit = all;
        state.limit_per_address = per_address;
    }

    /// Connections open now.
    pub fn open(&self) -> usize {
        self.state().open
    }

    /// Sources that have a connection open now.
    pub fn sources(&self) -> usize {
        self.state().sources.len()
    }

    /// A place for one more connection from `address`, freed when the slot is dropped.
    pub fn admit(self: &Arc<Self>, address: IpAddr) -> Result<ConnectionSlot, Rejected> {
        let source = Source::from(address);
        let mut state = self.state();
        let open_here = state.sources.get(&source).copied().unwrap_or(0);
        // The narrow limit first: a source over its own share must not show as a gateway that is full.
        if open_here >= state.limit_per_address {
            return Err(Rejected::PerAddress);
        }
        if state.open >= state.limit {
            return Err(Rejected::All);
        }
        state.open += 1;
        state.sources.insert(source, open_here + 1);
        Ok(ConnectionSlot {
            connections: Arc::clone(self),
            source,
        })
    }

    fn release(&self, source: Source) {
        let mut state = self.state();
        state.open = state.open.saturating_sub(1);
        if let Entry::Occupied(mut open_here) = state.sources.entry(source) {
            if *open_here.get() <= 1 {
                open_here.remove();
            } else {
                *open_here.get_mut() -= 1;
            }
        }
    }

    /// No code panics while it holds the lock, and every change under it is whole, so a poisoned lock is as good.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The place of one open connection.
#[derive(Debug)]
pub struct ConnectionSlot {
    connections: Arc<Connections>,
    source: Source,
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.connections.release(self.source);
    }
}
