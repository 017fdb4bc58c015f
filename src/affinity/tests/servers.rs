//! Servers of other kinds than one alone: a Sentinel, and one that speaks TLS.

use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;

use super::redis::{Server, free_port};

/// A Sentinel with this configuration, which it rewrites.
pub fn sentinel(configuration: &str) -> Server {
    let port = free_port();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sentinel.conf");
    let text = format!(
        "port {port}\nbind 127.0.0.1\ndir {}\n{configuration}\n",
        folder.path().display()
    );
    fs::write(&file, text).unwrap();
    let arguments = vec![file.to_str().unwrap().to_owned()];
    Server::run("redis-sentinel", "redis-sentinel", folder, port, arguments)
}

/// Files with a CA, and a certificate with its key for 127.0.0.1.
pub struct Tls {
    folder: TempDir,
}

impl Tls {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let ca_key = rcgen::KeyPair::generate().unwrap();
        let mut parameters = rcgen::CertificateParams::new(Vec::new()).unwrap();
        // With the name of what it signs it would be taken for that.
        parameters.distinguished_name.push(rcgen::DnType::CommonName, "test CA");
        parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let ca = parameters.self_signed(&ca_key).unwrap();
        let issuer = rcgen::Issuer::new(parameters, ca_key);
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()])
            .unwrap()
            .signed_by(&key, &issuer)
            .unwrap();
        fs::write(folder.path().join("ca.pem"), ca.pem()).unwrap();
        fs::write(folder.path().join("cert.pem"), certificate.pem()).unwrap();
        fs::write(folder.path().join("key.pem"), key.serialize_pem()).unwrap();
        Self { folder }
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A server that speaks TLS only, and asks everybody for a certificate.
    pub fn server(&self) -> Server {
        let port = free_port();
        let path = |name: &str| self.file(name).to_str().unwrap().to_owned();
        let mut arguments: Vec<String> = ["--port", "0", "--tls-port"].map(str::to_owned).to_vec();
        arguments.push(port.to_string());
        for (key, name) in [
            ("--tls-cert-file", "cert.pem"),
            ("--tls-key-file", "key.pem"),
            ("--tls-ca-cert-file", "ca.pem"),
        ] {
            arguments.extend([key.to_owned(), path(name)]);
        }
        Server::on(port, arguments)
    }
}
