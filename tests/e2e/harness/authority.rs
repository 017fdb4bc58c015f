//! A certificate authority of the tests: certificates as files, and clients that trust it.

use std::sync::Arc;
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, DnType, IsCa, KeyIdMethod,
    KeyPair, KeyUsagePurpose, RevokedCertParams, SerialNumber, date_time_ymd,
};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig, SupportedProtocolVersion};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tempfile::TempDir;
use tokio_rustls::{TlsAcceptor, TlsConnector};

pub const TLS_13: &[&SupportedProtocolVersion] = &[&rustls::version::TLS13];
pub const TLS_12: &[&SupportedProtocolVersion] = &[&rustls::version::TLS12];

/// The serial number of every client certificate.
pub const CLIENT: u64 = 7;

/// A CA, two server certificates (`a.example`, `b.example`) and one for a client, as files.
pub struct Authority {
    pub issuer: CertifiedIssuer<'static, KeyPair>,
    pub folder: TempDir,
}

impl Authority {
    pub fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.distinguished_name.push(DnType::CommonName, "the tests' CA");
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("ca.pem"), issuer.pem()).unwrap();
        let authority = Self { issuer, folder };
        for name in ["a.example", "b.example"] {
            authority.write(name, &authority.issue(name));
        }
        authority
    }

    /// A certificate and its key as the files that a gateway reads.
    pub fn write(&self, name: &str, (certificate, key): &(String, String)) {
        std::fs::write(self.folder.path().join(format!("{name}.crt")), certificate).unwrap();
        std::fs::write(self.folder.path().join(format!("{name}.key")), key).unwrap();
    }

    /// A revocation list that names these certificates.
    pub fn revoked(&self, serials: &[u64]) -> String {
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2020, 1, 1),
            next_update: date_time_ymd(4000, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: serials
                .iter()
                .map(|serial| RevokedCertParams {
                    serial_number: SerialNumber::from(*serial),
                    revocation_time: date_time_ymd(2020, 1, 1),
                    reason_code: None,
                    invalidity_date: None,
                })
                .collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        list.signed_by(&self.issuer).unwrap().pem().unwrap()
    }

    pub fn issue(&self, name: &str) -> (String, String) {
        self.issue_numbered(name, fastrand::u64(1_000..))
    }

    /// One that ends at this time, in seconds since 1970.
    pub fn issue_until(&self, name: &str, end: u64) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.serial_number = Some(SerialNumber::from(fastrand::u64(1_000..)));
        params.not_after = date_time_ymd(1970, 1, 1) + Duration::from_secs(end);
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }

    fn issue_numbered(&self, name: &str, serial: u64) -> (String, String) {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.serial_number = Some(SerialNumber::from(serial));
        self.sign(&params)
    }

    /// A certificate that says this, and its key.
    pub fn sign(&self, params: &CertificateParams) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }

    /// A server of this name that demands certificates of this CA.
    pub fn server(&self, name: &str) -> TlsAcceptor {
        self.acceptor(name, true)
    }

    /// The same for everybody.
    pub fn open_server(&self, name: &str) -> TlsAcceptor {
        self.acceptor(name, false)
    }

    fn acceptor(&self, name: &str, demands: bool) -> TlsAcceptor {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(self.issuer.der().clone()).unwrap();
        let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
        let (certificate, key) = self.issue(name);
        let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
        let builder = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap();
        let builder = match demands {
            true => builder.with_client_cert_verifier(clients.build().unwrap()),
            false => builder.with_no_client_auth(),
        };
        let config = builder
            .with_single_cert(chain, PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap())
            .unwrap();
        TlsAcceptor::from(Arc::new(config))
    }

    /// A client that trusts this CA and shows this certificate.
    pub fn client_with(&self, alpn: &[&str], (certificate, key): &(String, String)) -> TlsConnector {
        let mut roots = RootCertStore::empty();
        roots.add(self.issuer.der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(TLS_13)
            .unwrap()
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap())
            .unwrap();
        config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        TlsConnector::from(Arc::new(config))
    }

    /// A client that trusts this CA and shows what `shown` issued it, if anything.
    pub fn client(
        &self,
        versions: &[&'static SupportedProtocolVersion],
        alpn: &[&str],
        shown: Option<&Self>,
    ) -> TlsConnector {
        let mut roots = RootCertStore::empty();
        roots.add(self.issuer.der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match shown {
            None => builder.with_no_client_auth(),
            Some(authority) => {
                let (certificate, key) = authority.issue_numbered("client.example", CLIENT);
                let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
                builder
                    .with_client_auth_cert(chain, PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap())
                    .unwrap()
            }
        };
        config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        TlsConnector::from(Arc::new(config))
    }
}
