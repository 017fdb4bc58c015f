//! Connections to a single server, to the master that Sentinel names, or to a cluster.
//!
//! Passwords, CA and client certificate are read from their files for each connection, so that changing them needs no
//! restart. Nothing is tried again in here: `keep` does that, and nobody waits for it.

use std::time::Duration;

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::cluster::ClusterClientBuilder;
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::{MultipleNodeRoutingInfo, RoutingInfo};
use redis::sentinel::{SentinelClientBuilder, SentinelServerType};
use redis::{
    AsyncConnectionConfig, Client, ClientTlsConfig, Cmd, ConnectionAddr, ConnectionInfo, IntoConnectionInfo,
    RedisConnectionInfo, RedisResult, TlsCertificates, TlsMode, Value, cmd,
};

use super::command::Fault;
use crate::config::{self, RedisAddress, RedisLogin, RedisServers, UpstreamTls, files};

/// A command that a cluster redirects is sent once more, at once.
const CLUSTER_RETRIES: u32 = 1;
const CLUSTER_RETRY_WAIT: u64 = 10;

pub(super) struct Connector {
    servers: RedisServers,
    secure: bool,
    database: i64,
    login: RedisLogin,
    tls: UpstreamTls,
    timeout: Duration,
    connect_timeout: Duration,
}

pub(super) enum Link {
    One(MultiplexedConnection),
    Cluster(ClusterConnection),
}

/// What was read from files.
struct Credentials {
    login: RedisLogin,
    sentinel: RedisLogin,
    certificates: Option<TlsCertificates>,
}

impl Link {
    /// Commands that are sent at the same time share the connection and do not wait for each other.
    pub(super) async fn send(&self, command: &Cmd) -> RedisResult<Value> {
        match self {
            Self::One(connection) => connection.clone().send_packed_command(command).await,
            Self::Cluster(connection) => connection.clone().req_packed_command(command).await,
        }
    }

    /// The processes at the other end: of a cluster those of all masters. Empty if one of them does not say, as to a user
    /// who may not ask.
    pub(super) async fn runs(&self) -> Result<Vec<String>, Fault> {
        let mut command = cmd("INFO");
        command.arg("server");
        let answer = match self {
            Self::One(connection) => connection.clone().send_packed_command(&command).await,
            Self::Cluster(connection) => {
                let masters = RoutingInfo::MultiNode((MultipleNodeRoutingInfo::AllMasters, None));
                connection.clone().route_command(command, masters).await
            }
        };
        match answer.and_then(Value::extract_error) {
            Ok(answer) => Ok(runs_in(&answer).unwrap_or_default()),
            Err(error) if error.code().is_some() => Ok(Vec::new()),
            Err(error) => Err(Fault::Broken(error)),
        }
    }
}

fn runs_in(answer: &Value) -> Option<Vec<String>> {
    if let Value::Map(nodes) = answer {
        return nodes.iter().map(|(_, answer)| run_in(answer)).collect();
    }
    Some(vec![run_in(answer)?])
}

fn run_in(answer: &Value) -> Option<String> {
    let text: String = redis::from_redis_value_ref(answer).ok()?;
    let run = text.lines().find_map(|line| line.strip_prefix("run_id:"))?.trim();
    (!run.is_empty()).then(|| run.to_owned())
}

impl Connector {
    pub(super) fn new(config: &config::Redis) -> Self {
        Self {
            servers: config.servers.clone(),
            secure: config.secure,
            database: i64::from(config.database),
            login: config.login.clone(),
            tls: config.tls.clone(),
            timeout: config.timeout,
            connect_timeout: config.connect_timeout,
        }
    }

    pub(super) fn is_cluster(&self) -> bool {
        matches!(self.servers, RedisServers::Cluster(_))
    }

    /// One attempt, over after `connect_timeout` for each server that may have to be asked.
    pub(super) async fn connect(&self) -> Result<Link, Fault> {
        let credentials = self.credentials().await?;
        let servers = match &self.servers {
            RedisServers::Standalone(_) => 1,
            // Each Sentinel in turn, then the master: first whether it is one.
            RedisServers::Sentinel { sentinels, .. } => sentinels.len() + 2,
            RedisServers::Cluster(nodes) => nodes.len(),
        };
        let patience = self.connect_timeout * u32::try_from(servers).unwrap_or(u32::MAX);
        match tokio::time::timeout(patience, self.link(credentials)).await {
            Ok(linked) => linked.map_err(Fault::Broken),
            Err(_) => Err(Fault::Timeout),
        }
    }

    async fn link(&self, credentials: Credentials) -> RedisResult<Link> {
        match &self.servers {
            RedisServers::Standalone(address) => {
                let client = client(self.info(address, &credentials.login)?, credentials.certificates)?;
                Ok(Link::One(self.open(&client).await?))
            }
            RedisServers::Sentinel { sentinels, master, .. } => {
                let client = self.master(sentinels, master, &credentials).await?;
                Ok(Link::One(self.open(&client).await?))
            }
            RedisServers::Cluster(nodes) => self.cluster(nodes, credentials).await,
        }
    }

    async fn open(&self, client: &Client) -> RedisResult<MultiplexedConnection> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.connect_timeout))
            .set_response_timeout(Some(self.timeout));
        client.get_multiplexed_async_connection_with_config(&config).await
    }

    async fn master(&self, sentinels: &[RedisAddress], master: &str, credentials: &Credentials) -> RedisResult<Client> {
        let mut sentinels: Vec<ConnectionAddr> = sentinels.iter().map(|address| self.address(address)).collect();
        // The first ones may be those that are gone.
        fastrand::shuffle(&mut sentinels);
        let mut builder = SentinelClientBuilder::new(sentinels, master, SentinelServerType::Master)?
            .set_client_to_redis_db(self.database);
        if self.secure {
            builder = builder
                .set_client_to_redis_tls_mode(TlsMode::Secure)
                .set_client_to_sentinel_tls_mode(TlsMode::Secure);
            if let Some(certificates) = &credentials.certificates {
                builder = builder
                    .set_client_to_redis_certificates(certificates.clone())
                    .set_client_to_sentinel_certificates(certificates.clone());
            }
        }
        if let Some(username) = &credentials.login.username {
            builder = builder.set_client_to_redis_username(username);
        }
        if let Some(password) = &credentials.login.password {
            builder = builder.set_client_to_redis_password(password.expose());
        }
        if let Some(username) = &credentials.sentinel.username {
            builder = builder.set_client_to_sentinel_username(username);
        }
        if let Some(password) = &credentials.sentinel.password {
            builder = builder.set_client_to_sentinel_password(password.expose());
        }
        builder.build()?.async_get_client().await
    }

    async fn cluster(&self, nodes: &[RedisAddress], credentials: Credentials) -> RedisResult<Link> {
        let mut infos = Vec::new();
        for node in nodes {
            infos.push(self.info(node, &credentials.login)?);
        }
        let mut builder = ClusterClientBuilder::new(infos)
            .retries(CLUSTER_RETRIES)
            .min_retry_wait(CLUSTER_RETRY_WAIT)
            .max_retry_wait(CLUSTER_RETRY_WAIT)
            .connection_timeout(self.connect_timeout)
            .response_timeout(self.timeout);
        if self.secure {
            builder = builder.tls(TlsMode::Secure);
            if let Some(certificates) = credentials.certificates {
                builder = builder.certs(certificates);
            }
        }
        Ok(Link::Cluster(builder.build()?.get_async_connection().await?))
    }

    fn address(&self, address: &RedisAddress) -> ConnectionAddr {
        if self.secure {
            ConnectionAddr::TcpTls {
                host: address.host.clone(),
                port: address.port,
                insecure: false,
                tls_params: None,
            }
        } else {
            ConnectionAddr::Tcp(address.host.clone(), address.port)
        }
    }

    fn info(&self, address: &RedisAddress, login: &RedisLogin) -> RedisResult<ConnectionInfo> {
        let mut settings = RedisConnectionInfo::default().set_db(self.database);
        if let Some(username) = &login.username {
            settings = settings.set_username(username);
        }
        if let Some(password) = &login.password {
            settings = settings.set_password(password.expose());
        }
        Ok(self
            .address(address)
            .into_connection_info()?
            .set_redis_settings(settings))
    }

    async fn credentials(&self) -> Result<Credentials, Fault> {
        let login = self.login.clone();
        let sentinel = match &self.servers {
            RedisServers::Sentinel { login, .. } => login.clone(),
            RedisServers::Standalone(_) | RedisServers::Cluster(_) => RedisLogin::default(),
        };
        let tls = self.secure.then(|| self.tls.clone());
        let read = tokio::task::spawn_blocking(move || {
            Ok(Credentials {
                login: read_again(login)?,
                sentinel: read_again(sentinel)?,
                certificates: tls.map(|tls| certificates(&tls)).transpose()?.flatten(),
            })
        });
        match read.await {
            Ok(credentials) => credentials.map_err(Fault::Local),
            Err(panicked) => Err(Fault::Local(panicked.to_string())),
        }
    }
}

fn client(info: ConnectionInfo, certificates: Option<TlsCertificates>) -> RedisResult<Client> {
    match certificates {
        Some(certificates) => Client::build_with_tls(info, certificates),
        None => Client::open(info),
    }
}

fn read_again(login: RedisLogin) -> Result<RedisLogin, String> {
    let password = login.password.map(|password| password.read_again()).transpose()?;
    Ok(RedisLogin { password, ..login })
}

/// `None`: the system's roots, and nothing to show.
fn certificates(tls: &UpstreamTls) -> Result<Option<TlsCertificates>, String> {
    let read = |path: &std::path::Path| files::read(path).map_err(|error| error.to_string());
    let root_cert = tls.ca.as_deref().map(read).transpose()?;
    let client_tls = match &tls.client {
        Some(pair) => Some(ClientTlsConfig {
            client_cert: read(&pair.certificate)?,
            client_key: read(&pair.private_key)?,
        }),
        None => None,
    };
    let wanted = root_cert.is_some() || client_tls.is_some();
    Ok(wanted.then_some(TlsCertificates { client_tls, root_cert }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(answer: &Value, expected: &[&str]) {
        assert_eq!(runs_in(answer).unwrap_or_default(), expected);
    }

    #[test]
    fn a_process_is_told_by_its_run() {
        let says = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let nodes = |nodes: &[Value]| Value::Map(nodes.iter().map(|node| (says("host:1"), node.clone())).collect());
        let whole = says("# Server\r\nredis_version:7.0.15\r\nrun_id:ab12\r\ntcp_port:1\r\n");
        check(&whole, &["ab12"]);
        check(&nodes(&[whole.clone(), says("run_id:cd34\r\n")]), &["ab12", "cd34"]);
        // Of all or of none.
        check(&nodes(&[whole, says("# Server\r\n")]), &[]);
        check(&says("# Server\r\n"), &[]);
        check(&says("run_id:\r\n"), &[]);
        check(&says("other_run_id:ab12\r\n"), &[]);
        check(&Value::Nil, &[]);
    }
}
