//! Bound addresses: accepts connections and holds them to the limits. Gives `Accepted`.
//!
//! An accept loop never ends because of an error: each failure is reported, and after those that would repeat at once
//! (no descriptor left) the next accept waits a little. A connection over a limit is reset before a byte of it is read.
//! IPv4 peers of an IPv6 socket appear with their IPv4 address. Knows nothing of TLS or HTTP.

mod connections;
mod patient;
#[cfg(test)]
mod tests;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;

pub use connections::{ConnectionSlot, Connections, Rejected, Source};
pub use patient::{Patience, Patient};

use crate::config;

/// Connections that the kernel holds for us between two accepts; a burst larger than this waits for a retransmitted SYN.
const BACKLOG: i32 = 1024;
/// The first wait after a failed accept. It doubles with each failure in a row: descriptors come back as connections end.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The address with a free port instead of port 0, for those who must name it before it is bound: a published card, the
/// guide of the demo. Another process may take the port in between; binding it then fails.
pub fn settled(address: SocketAddr) -> io::Result<SocketAddr> {
    match address.port() {
        0 => std::net::TcpListener::bind(address)?.local_addr(),
        _ => Ok(address),
    }
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("listener {name} cannot listen on {address}{}", hint(source))]
    Bind {
        name: String,
        address: SocketAddr,
        #[source]
        source: io::Error,
    },
}

fn hint(source: &io::Error) -> &'static str {
    if source.kind() == io::ErrorKind::AddrInUse {
        " (another process or listener holds the port: stop it or choose another)"
    } else if source.kind() == io::ErrorKind::PermissionDenied {
        " (ports below 1024 need CAP_NET_BIND_SERVICE: grant it or choose a higher port)"
    } else if source.kind() == io::ErrorKind::AddrNotAvailable {
        " (no interface of this machine has the address)"
    } else {
        ""
    }
}

/// Why an accept gave no connection. The loop goes on after each of them.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    #[error("connection from {address} refused: {rejected}")]
    Limit { address: SocketAddr, rejected: Rejected },
    #[error("cannot accept a connection")]
    Accept(#[source] io::Error),
}

/// A connection within the limits. The slot belongs to whoever owns the stream, until the stream is closed.
#[derive(Debug)]
pub struct Accepted {
    pub stream: TcpStream,
    pub address: SocketAddr,
    pub slot: ConnectionSlot,
}

/// A listening socket.
#[derive(Debug)]
pub struct Bound {
    name: String,
    socket: TcpListener,
    local_address: SocketAddr,
    connections: Arc<Connections>,
    failures_in_a_row: u32,
    paused_until: Option<Instant>,
}

/// Listens on the address of `listener`. To be called inside a tokio runtime.
pub fn bind(listener: &config::Listener, connections: Arc<Connections>) -> Result<Bound, Error> {
    bind_address(&listener.name, listener.address, connections)
}

/// The same for an address that is not one of the configured listeners. To be called inside a tokio runtime.
pub fn bind_address(name: &str, address: SocketAddr, connections: Arc<Connections>) -> Result<Bound, Error> {
    let fail = |source| Error::Bind {
        name: name.to_owned(),
        address,
        source,
    };
    let socket = listen(address).map_err(fail)?;
    let local_address = socket.local_addr().map_err(fail)?;
    Ok(Bound {
        name: name.to_owned(),
        socket,
        local_address,
        connections,
        failures_in_a_row: 0,
        paused_until: None,
    })
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // A restarted gateway must not wait for connections of its predecessor in TIME_WAIT.
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        // `[::]` takes IPv4 too, whatever the machine's default is.
        socket.set_only_v6(false)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

impl Bound {
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where it really listens: with the port that the kernel chose for port 0.
    pub fn local_address(&self) -> SocketAddr {
        self.local_address
    }

    /// The next connection, or why there is none. Cancel safe: no connection is lost, and a pause that was due is still
    /// waited for by the next call.
    pub async fn accept(&mut self) -> Result<Accepted, Refused> {
        if let Some(until) = self.paused_until {
            tokio::time::sleep_until(until).await;
            self.paused_until = None;
        }
        match self.socket.accept().await {
            Ok((stream, address)) => {
                self.failures_in_a_row = 0;
                self.admit(stream, address)
            }
            Err(error) => {
                if !is_of_one_connection(&error) {
                    self.paused_until = Some(Instant::now() + pause(self.failures_in_a_row));
                    self.failures_in_a_row = self.failures_in_a_row.saturating_add(1);
                }
                Err(Refused::Accept(error))
            }
        }
    }

    fn admit(&self, stream: TcpStream, address: SocketAddr) -> Result<Accepted, Refused> {
        let address = SocketAddr::new(address.ip().to_canonical(), address.port());
        match self.connections.admit(address.ip()) {
            Ok(slot) => {
                // Without it a small answer waits up to 40 ms for the peer's delayed ACK.
                stream.set_nodelay(true).map_err(Refused::Accept)?;
                Ok(Accepted { stream, address, slot })
            }
            Err(rejected) => {
                // A reset leaves nothing behind: closing in order would keep each refused connection in TIME_WAIT here.
                // Where it fails the connection is closed in order.
                let _best_effort = SockRef::from(&stream).set_linger(Some(Duration::ZERO));
                Err(Refused::Limit { address, rejected })
            }
        }
    }
}

/// Linux reports what already went wrong on the new connection as an error of accept (accept(2), "Error handling"). The
/// next connection may be fine, so there is nothing to wait for.
fn is_of_one_connection(error: &io::Error) -> bool {
    use rustix::io::Errno;
    error.raw_os_error().is_some_and(|code| {
        [
            Errno::CONNABORTED,
            Errno::CONNRESET,
            Errno::INTR,
            Errno::PROTO,
            Errno::NETDOWN,
            Errno::NETUNREACH,
            Errno::HOSTDOWN,
            Errno::HOSTUNREACH,
            Errno::NOPROTOOPT,
            Errno::OPNOTSUPP,
            Errno::PERM,
        ]
        .iter()
        .any(|errno| errno.raw_os_error() == code)
    })
}

fn pause(failures_in_a_row: u32) -> Duration {
    FIRST_PAUSE
        .saturating_mul(2_u32.saturating_pow(failures_in_a_row))
        .min(LONGEST_PAUSE)
}

/// Raises the limit of open descriptors to what the system allows this process, and tells it. The usual soft limit of
/// 1024 is less than the connections that one listener may hold.
pub fn raise_descriptor_limit() -> io::Result<u64> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        setrlimit(
            Resource::Nofile,
            Rlimit {
                current: limit.maximum,
                maximum: limit.maximum,
            },
        )?;
    }
    Ok(getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX))
}
