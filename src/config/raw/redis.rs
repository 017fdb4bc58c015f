//! The store that several gateways share, as users write it.

use schemars::JsonSchema;
use serde::Deserialize;

use super::super::units::{SecretText, Time};
use super::List;

/// A Redis (6.2 or newer) or Valkey. Exactly one of `url`, `sentinel` and `cluster`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Redis")]
pub struct RawRedis {
    /// One server: `redis://host:6379`, or `rediss://host:6379` for TLS.
    pub url: Option<String>,
    /// The master that Sentinel names.
    pub sentinel: Option<RawSentinel>,
    /// Some nodes of a Redis Cluster, as URLs; the others are found through them.
    pub cluster: Option<List<String>>,
    /// The database. Clusters have only 0.
    #[schemars(range(min = 0, max = 65535))]
    pub database: u32,
    /// The ACL user; the server's default user without it.
    pub username: Option<String>,
    /// Its password; from the environment with `${NAME}`. Either this or `password_file`.
    pub password: Option<SecretText>,
    /// File with the password; one newline at the end is dropped. Read again for each new connection.
    pub password_file: Option<String>,
    /// TLS towards `rediss` servers. The system's root certificates by default.
    pub tls: RawRedisTls,
    /// Longest that one call waits for the store; then the store counts as away, and no call waits until it is back.
    /// A round trip takes a millisecond; a quarter of a second outlasts a retransmission and a snapshot's fork.
    pub timeout: Time,
    /// Longest that a new connection may take, TLS and authentication included. No call waits for it.
    pub connect_timeout: Time,
    /// How long a record that came from the store is believed before it is asked for again. Endpoint and principal of a
    /// task do not change by themselves: this bounds how late a call sees a transfer by an operator, at one more
    /// round trip a minute for a task in use.
    pub cache_ttl: Time,
    /// What every key begins with. Gateways that share records must have the same, installations that share a server
    /// different ones.
    pub key_prefix: String,
}

impl Default for RawRedis {
    fn default() -> Self {
        Self {
            url: None,
            sentinel: None,
            cluster: None,
            database: 0,
            username: None,
            password: None,
            password_file: None,
            tls: RawRedisTls::default(),
            timeout: Time::milliseconds(250),
            connect_timeout: Time::seconds(2),
            cache_ttl: Time::seconds(60),
            key_prefix: "a2a:".to_owned(),
        }
    }
}

/// How the master is found.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Sentinel", extend("required" = ["urls", "master"]))]
pub struct RawSentinel {
    /// The Sentinels, e.g. `redis://10.0.0.1:26379`. With `rediss` the master and the Sentinels are asked over TLS.
    pub urls: List<String>,
    /// The name of the master, as in `sentinel monitor`.
    pub master: Option<String>,
    /// The ACL user of the Sentinels themselves.
    pub username: Option<String>,
    /// File with its password, or the one of `requirepass`; one newline at the end is dropped. Read again for each new
    /// connection.
    pub password_file: Option<String>,
}

/// TLS towards the store.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "RedisTls")]
pub struct RawRedisTls {
    /// PEM file with the CA certificates that the servers' certificates must chain to, instead of the system's. Read again
    /// for each new connection, like the other files of this section.
    pub ca: Option<String>,
    /// PEM file with the certificate that the gateway shows.
    pub client_certificate: Option<String>,
    /// PEM file with the private key of `client_certificate`.
    pub client_private_key: Option<String>,
}
