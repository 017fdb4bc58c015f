//! Real handshakes over memory, with certificates made on the spot.

mod certificates;
mod client;
mod clients;
mod handshake;
mod peer;
mod reload;
mod watch;

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, DnType, IsCa, KeyIdMethod,
    KeyPair, KeyUsagePurpose, RevokedCertParams, SanType, SerialNumber, date_time_ymd,
};
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio_rustls::TlsConnector;

use super::{Acceptor, Error, Peer, TlsStream, provider};
use crate::config::{CertificateFiles, ClientCertificates, ListenerTls, Problem, TlsVersion};

/// Far more than any handshake here takes; a test that waits for it has failed.
const PATIENCE: Duration = Duration::from_secs(30);

fn address() -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 1], 4711))
}

/// A CA with its key.
struct Ca(CertifiedIssuer<'static, KeyPair>);

/// A certificate with its key, and its serial number.
struct Identity {
    certificate: String,
    key: String,
    serial: u64,
}

impl Ca {
    fn new(name: &str) -> Self {
        Self::with_key(
            name,
            vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign],
            KeyPair::generate().unwrap(),
        )
    }

    fn with_key(name: &str, usages: Vec<KeyUsagePurpose>, key: KeyPair) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = usages;
        params.distinguished_name.push(DnType::CommonName, name);
        Self(CertifiedIssuer::self_signed(params, key).unwrap())
    }

    fn pem(&self) -> String {
        self.0.pem()
    }

    fn issue(&self, params: CertificateParams) -> Identity {
        self.issue_for(params, &KeyPair::generate().unwrap())
    }

    fn issue_for(&self, mut params: CertificateParams, key: &KeyPair) -> Identity {
        let serial = fastrand::u64(1..u64::MAX / 2);
        params.serial_number = Some(SerialNumber::from(serial));
        Identity {
            certificate: params.signed_by(key, &self.0).unwrap().pem(),
            key: key.serialize_pem(),
            serial,
        }
    }

    fn server(&self, names: &[&str]) -> Identity {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        self.issue(CertificateParams::new(names).unwrap())
    }

    fn client(&self, uri: &str) -> Identity {
        self.issue(client_params(uri))
    }

    fn crl(&self, revoked: &[&Identity]) -> String {
        self.crl_between(revoked, 2001, 4000)
    }

    fn crl_between(&self, revoked: &[&Identity], from: i32, to: i32) -> String {
        let params = CertificateRevocationListParams {
            this_update: date_time_ymd(from, 1, 1),
            next_update: date_time_ymd(to, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: revoked
                .iter()
                .map(|identity| RevokedCertParams {
                    serial_number: SerialNumber::from(identity.serial),
                    revocation_time: date_time_ymd(2001, 1, 1),
                    reason_code: None,
                    invalidity_date: None,
                })
                .collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        params.signed_by(&self.0).unwrap().pem().unwrap()
    }
}

fn client_params(uri: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.subject_alt_names.push(SanType::URI(uri.try_into().unwrap()));
    params
}

/// A folder of files that a listener names.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn write(&self, name: &str, content: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn identity(&self, name: &str, identity: &Identity) -> CertificateFiles {
        CertificateFiles {
            certificate: self.write(&format!("{name}.crt"), &identity.certificate),
            private_key: self.write(&format!("{name}.key"), &identity.key),
        }
    }

    /// A listener that serves `identities` in this order and asks for no client certificate.
    fn listener(&self, identities: &[&Identity]) -> ListenerTls {
        ListenerTls {
            certificates: identities
                .iter()
                .enumerate()
                .map(|(index, identity)| self.identity(&format!("server-{index}"), identity))
                .collect(),
            client_certificates: ClientCertificates::Off,
            client_ca: None,
            client_crls: Vec::new(),
            min_version: TlsVersion::Tls12,
        }
    }
}

/// Whether there was anything new.
fn reload(acceptor: &mut Acceptor, tls: &ListenerTls) -> Result<bool, Vec<Problem>> {
    let renewed = acceptor.renewed(tls, "listeners[0].tls")?;
    let changed = renewed.is_some();
    if let Some(renewed) = renewed {
        *acceptor = renewed;
    }
    Ok(changed)
}

fn build(tls: &ListenerTls) -> Acceptor {
    Acceptor::build(tls, "listeners[0].tls").unwrap()
}

/// The keys and causes of what is wrong, in order.
fn problems(tls: &ListenerTls) -> Vec<Problem> {
    Acceptor::build(tls, "listeners[0].tls").map(|_| ()).unwrap_err()
}

fn only_problem(tls: &ListenerTls) -> (String, String) {
    let problems = problems(tls);
    let [problem] = problems.as_slice() else {
        panic!("one problem expected: {problems:?}");
    };
    (problem.key.clone(), problem.cause.clone())
}

/// How a caller under test connects.
struct Caller {
    config: ClientConfig,
}

impl Caller {
    fn trusting(ca: &Ca) -> Self {
        Self::with(ca, None, rustls::DEFAULT_VERSIONS)
    }

    fn showing(ca: &Ca, identity: &Identity) -> Self {
        Self::with(ca, Some(identity), rustls::DEFAULT_VERSIONS)
    }

    fn with(ca: &Ca, identity: Option<&Identity>, versions: &[&'static SupportedProtocolVersion]) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add(ca.0.der().clone()).unwrap();
        let builder = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots);
        let config = match identity {
            None => builder.with_no_client_auth(),
            Some(identity) => builder
                .with_client_auth_cert(
                    vec![CertificateDer::from_pem_slice(identity.certificate.as_bytes()).unwrap()],
                    PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).unwrap(),
                )
                .unwrap(),
        };
        Self { config }
    }

    fn alpn(mut self, names: &[&str]) -> Self {
        self.config.alpn_protocols = names.iter().map(|name| name.as_bytes().to_vec()).collect();
        self
    }

    fn shared(self) -> Arc<ClientConfig> {
        Arc::new(self.config)
    }
}

type ServerSide = (TlsStream<DuplexStream>, Peer);
type ClientSide = tokio_rustls::client::TlsStream<DuplexStream>;

/// Both ends of a handshake. In TLS 1.3 a client is done before its certificate is verified, so what the server says
/// counts.
async fn handshake(
    acceptor: &Acceptor,
    client: &Arc<ClientConfig>,
    name: &str,
) -> (Result<ServerSide, Error>, io::Result<ClientSide>) {
    let (near, far) = tokio::io::duplex(64 * 1024);
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let connector = TlsConnector::from(Arc::clone(client));
    tokio::join!(acceptor.accept(near, PATIENCE, address()), connector.connect(name, far))
}

/// A handshake that succeeds, and one byte each way, with which the client gets its tickets.
async fn connect(acceptor: &Acceptor, client: &Arc<ClientConfig>, name: &str) -> (ServerSide, ClientSide) {
    let (server, client) = handshake(acceptor, client, name).await;
    let (mut server, peer) = server.unwrap();
    let mut client = client.unwrap();
    client.write_all(b"?").await.unwrap();
    client.flush().await.unwrap();
    assert_eq!(server.read_u8().await.unwrap(), b'?');
    server.write_all(b"!").await.unwrap();
    server.flush().await.unwrap();
    assert_eq!(client.read_u8().await.unwrap(), b'!');
    ((server, peer), client)
}

/// How a handshake that must fail failed, for the server.
async fn refusal(acceptor: &Acceptor, client: &Arc<ClientConfig>, name: &str) -> Error {
    let (server, _) = handshake(acceptor, client, name).await;
    match server {
        Ok(_) => panic!("the handshake succeeded"),
        Err(error) => error,
    }
}

fn shown(client: &ClientSide) -> &CertificateDer<'static> {
    client.get_ref().1.peer_certificates().unwrap().first().unwrap()
}

fn der(identity: &Identity) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(identity.certificate.as_bytes()).unwrap()
}

fn replace(path: &Path, content: &str) {
    std::fs::write(path, content).unwrap();
}
