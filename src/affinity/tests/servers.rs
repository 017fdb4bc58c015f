//! Servers of other kinds than one alone: a Sentinel, a cluster, those that speak TLS; and a way to one that can be cut.

use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::redis::{Server, free_port};
use super::shared::eventually;
use crate::config::{CertificateFiles, UpstreamTls};

/// A Sentinel with this configuration, which it rewrites.
pub fn sentinel(configuration: &str) -> Server {
    let port = free_port();
    sentinel_on(port, &format!("port {port}\n{configuration}"))
}

fn sentinel_on(port: u16, configuration: &str) -> Server {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sentinel.conf");
    let text = format!("bind 127.0.0.1\ndir {}\n{configuration}\n", folder.path().display());
    fs::write(&file, text).unwrap();
    let arguments = vec![file.to_str().unwrap().to_owned()];
    Server::run("redis-sentinel", "redis-sentinel", folder, port, arguments)
}

/// Three nodes, started with `more` besides, which know each other under their `ports`.
pub async fn cluster(more: [Vec<String>; 3], ports: Option<[u16; 3]>) -> [Server; 3] {
    let nodes = more.map(|more| {
        let mut arguments: Vec<String> = ["--cluster-enabled", "yes", "--cluster-node-timeout", "2000"]
            .into_iter()
            .chain(["--cluster-config-file", "nodes.conf"])
            .map(str::to_owned)
            .collect();
        arguments.extend(more);
        Server::with(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
    });
    let [first, ..] = ports.unwrap_or_else(|| nodes.each_ref().map(|node| node.port));
    for (node, (from, to)) in nodes.iter().zip([("0", "5460"), ("5461", "10922"), ("10923", "16383")]) {
        let _: () = node.ask(&["CLUSTER", "ADDSLOTSRANGE", from, to]);
        let _: () = node.ask(&["CLUSTER", "MEET", "127.0.0.1", &first.to_string()]);
    }
    for node in &nodes {
        eventually("the cluster is whole", || async {
            let info = node.ask::<String>(&["CLUSTER", "INFO"]);
            info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:3")
        })
        .await;
    }
    nodes
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
        let plain = ["--port", "0"].map(str::to_owned);
        Server::on(port, plain.into_iter().chain(self.listens(port)).collect())
    }

    /// Arguments of a server that speaks TLS on this port, and with its peers.
    pub fn listens(&self, port: u16) -> Vec<String> {
        let settings = self.settings(port);
        let settings = settings
            .iter()
            .flat_map(|(key, value)| [format!("--{key}"), value.clone()]);
        settings.collect()
    }

    /// A Sentinel that speaks TLS only.
    pub fn sentinel(&self, configuration: &str) -> Server {
        let port = free_port();
        let settings = self.settings(port);
        let settings: String = settings.iter().map(|(key, value)| format!("{key} {value}\n")).collect();
        sentinel_on(port, &format!("port 0\n{settings}{configuration}"))
    }

    fn settings(&self, port: u16) -> [(&'static str, String); 6] {
        let path = |name: &str| self.file(name).to_str().unwrap().to_owned();
        [
            ("tls-port", port.to_string()),
            ("tls-cert-file", path("cert.pem")),
            ("tls-key-file", path("key.pem")),
            ("tls-ca-cert-file", path("ca.pem")),
            ("tls-replication", "yes".to_owned()),
            ("tls-cluster", "yes".to_owned()),
        ]
    }

    /// What a gateway is told, that shows a certificate.
    pub fn known(&self) -> UpstreamTls {
        UpstreamTls {
            ca: Some(self.file("ca.pem")),
            client: Some(CertificateFiles {
                certificate: self.file("cert.pem"),
                private_key: self.file("key.pem"),
            }),
            server_name: None,
        }
    }
}

/// A way to a server. Cut, its connections stay and new ones are made, and nothing passes until it is mended.
pub struct Way {
    pub port: u16,
    passes: watch::Sender<bool>,
    _job: JoinSet<()>,
}

impl Way {
    pub async fn to(server: &Server) -> Self {
        let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (port, target) = (socket.local_addr().unwrap().port(), server.port);
        let passes = watch::Sender::new(true);
        let mut job = JoinSet::new();
        let open = passes.subscribe();
        job.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (near, _) = socket.accept().await.unwrap();
                let Ok(far) = TcpStream::connect(("127.0.0.1", target)).await else {
                    continue;
                };
                let (near, far) = (near.into_split(), far.into_split());
                connections.spawn(pass(near.0, far.1, open.clone()));
                connections.spawn(pass(far.0, near.1, open.clone()));
            }
        });
        Self {
            port,
            passes,
            _job: job,
        }
    }

    pub fn cut(&self) {
        self.passes.send_replace(false);
    }

    pub fn mend(&self) {
        self.passes.send_replace(true);
    }
}

/// Until one of them is closed.
async fn pass(
    mut from: impl AsyncReadExt + Unpin,
    mut to: impl AsyncWriteExt + Unpin,
    mut open: watch::Receiver<bool>,
) {
    let mut bytes = vec![0; 16 * 1024];
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
        if open.wait_for(|open| *open).await.is_err() || to.write_all(&bytes[..count]).await.is_err() {
            return;
        }
    }
}
