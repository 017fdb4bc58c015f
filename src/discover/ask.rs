//! One question to name servers: over UDP, and over TCP where the answer is cut off (RFC 1035 §4.2, RFC 7766).
//!
//! The number of the question and the port that it is sent from are random; what does not answer it is not looked at.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use hickory_proto::ProtoError;
use hickory_proto::op::{Message, MessageType, Query, ResponseCode};
use hickory_proto::rr::rdata::SRV;
use hickory_proto::rr::{Name, RData, RecordType};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

use crate::config::files;

/// For one server: a lost datagram leaves time for another try.
const TRY: Duration = Duration::from_millis(1500);
/// Each server is asked so often.
const ROUNDS: usize = 2;
/// As many as the system's own resolver asks.
const MOST_SERVERS: usize = 3;
const PORT: u16 = 53;
/// Datagrams without EDNS have 512 bytes; some servers send more.
const DATAGRAM: usize = 4096;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the name servers of the system are not known")]
    System(#[source] files::Error),
    #[error("{} names no name server", .0.display())]
    NoServer(PathBuf),
    #[error("the name cannot be asked for")]
    Name(#[source] ProtoError),
    #[error("no name server answers in time")]
    Silent,
    #[error("the name server {0} cannot be asked")]
    Exchange(SocketAddr, #[source] io::Error),
    #[error("the name server {0} says `{1}`")]
    Refused(SocketAddr, ResponseCode),
    #[error("the answer names no host")]
    Empty,
}

/// The name servers of the system.
pub async fn system(path: &Path) -> Result<Vec<SocketAddr>, Error> {
    let owned = path.to_owned();
    let text = match tokio::task::spawn_blocking(move || files::read_text(&owned)).await {
        Ok(text) => text.map_err(Error::System)?,
        // The runtime stops.
        Err(_) => return Err(Error::Silent),
    };
    let servers = servers(&text);
    if servers.is_empty() {
        return Err(Error::NoServer(path.to_owned()));
    }
    Ok(servers)
}

/// Those of a `resolv.conf`.
pub fn servers(text: &str) -> Vec<SocketAddr> {
    let lines = text.lines().map(str::split_ascii_whitespace);
    let named = lines.filter_map(|mut words| {
        let address = words.next().filter(|word| *word == "nameserver").and(words.next())?;
        Some(SocketAddr::new(address.parse::<IpAddr>().ok()?, PORT))
    });
    named.take(MOST_SERVERS).collect()
}

/// The first server's word that there is one of. That a name does not exist is one.
pub async fn ask(servers: &[SocketAddr], name: &str) -> Result<Vec<SRV>, Error> {
    let name = Name::from_ascii(format!("{name}.")).map_err(Error::Name)?;
    let mut last = Error::Silent;
    for server in std::iter::repeat_n(servers, ROUNDS).flatten() {
        match timeout(TRY, exchange(*server, &name)).await {
            Ok(Ok(answer)) => {
                let code = answer.metadata.response_code;
                if code == ResponseCode::NoError {
                    return Ok(records(answer, &name));
                }
                last = Error::Refused(*server, code);
                if code == ResponseCode::NXDomain {
                    return Err(last);
                }
            }
            Ok(Err(error)) => last = Error::Exchange(*server, error),
            Err(_) => last = Error::Silent,
        }
    }
    Err(last)
}

/// Those of the name, or of the one that it is an alias of (RFC 1034 §3.6.2). What a server says of other names it was not asked
/// (RFC 5452 §6).
fn records(answer: Message, name: &Name) -> Vec<SRV> {
    let mut owner = name;
    // Aliases may lead in a circle.
    for _ in &answer.answers {
        let alias = answer.answers.iter().find_map(|record| {
            let RData::CNAME(target) = &record.data else {
                return None;
            };
            (record.name == *owner).then_some(&target.0)
        });
        match alias {
            Some(target) => owner = target,
            None => break,
        }
    }
    let owner = owner.clone();
    let records = answer.answers.into_iter().filter(|record| record.name == owner);
    let records = records.filter_map(|record| {
        let RData::SRV(record) = record.data else { return None };
        Some(record)
    });
    records.collect()
}

async fn exchange(server: SocketAddr, name: &Name) -> io::Result<Message> {
    let mut question = Message::query();
    question.add_query(Query::query(name.clone(), RecordType::SRV));
    question.metadata.recursion_desired = true;
    let sent = question.to_vec().map_err(io::Error::other)?;
    let own = match server {
        SocketAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::from(Ipv6Addr::UNSPECIFIED),
    };
    let socket = UdpSocket::bind((own, 0)).await?;
    socket.connect(server).await?;
    socket.send(&sent).await?;
    let mut datagram = vec![0; DATAGRAM];
    loop {
        let length = socket.recv(&mut datagram).await?;
        match datagram.get(..length).and_then(|bytes| answer(bytes, &question)) {
            Some(answer) if answer.metadata.truncation => break,
            Some(answer) => return Ok(answer),
            None => {}
        }
    }
    let length = u16::try_from(sent.len()).map_err(io::Error::other)?;
    let mut stream = TcpStream::connect(server).await?;
    stream.write_all(&[&length.to_be_bytes(), &*sent].concat()).await?;
    let length = stream.read_u16().await?;
    let mut bytes = vec![0; usize::from(length)];
    stream.read_exact(&mut bytes).await?;
    answer(&bytes, &question).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// `None`: it is no answer to this question.
fn answer(bytes: &[u8], question: &Message) -> Option<Message> {
    let answer = Message::from_vec(bytes).ok()?;
    let fits = answer.metadata.message_type == MessageType::Response
        && answer.metadata.id == question.metadata.id
        && answer.queries == question.queries;
    fits.then_some(answer)
}
