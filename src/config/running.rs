//! One configuration after another in a running gateway: what is different, what cannot be, and which files it reads.
//!
//! Reads nothing but secrets and cards that stand in files of their own.

use std::path::{Path, PathBuf};

use super::model::{
    CardFile, CardVerify, ClientCertificates, Config, KeySource, ListenerTls, Redis, RedisLogin, RedisServers,
    SchemeKind, Store, TokenProof, TokenServer, Upstream, UpstreamCredential,
};
use super::{Problem, Secret, join, place};

/// What to do about a key that a running gateway cannot change.
const RESTART: &str = "cannot change while the gateway runs: restart it, or put the old value back";

impl Config {
    /// Whether the other says the same, wherever its keys stand.
    pub fn says_the_same(&self, other: &Self) -> bool {
        let Self {
            public_url,
            listeners,
            admin,
            state,
            page_tokens,
            push,
            envelope,
            assertions,
            card_signatures,
            revocations,
            limits,
            security_schemes,
            decision_points,
            cors,
            front_door,
            catalogue,
            agents,
            agents_directory,
            fragments: _,
            log,
            audit,
            drain,
            workers,
            places: _,
        } = self;
        *public_url == other.public_url
            && *listeners == other.listeners
            && *admin == other.admin
            && *state == other.state
            && *page_tokens == other.page_tokens
            && *push == other.push
            && *envelope == other.envelope
            && *assertions == other.assertions
            && *card_signatures == other.card_signatures
            && *revocations == other.revocations
            && *limits == other.limits
            && *security_schemes == other.security_schemes
            && *decision_points == other.decision_points
            && *cors == other.cors
            && *front_door == other.front_door
            && *catalogue == other.catalogue
            && *agents == other.agents
            && *agents_directory == other.agents_directory
            && *log == other.log
            && *audit == other.audit
            && *drain == other.drain
            && *workers == other.workers
    }

    /// Goes without the files of agents to which these problems belong. Returns the names of the agents that are gone.
    pub fn leave_out(&mut self, problems: &[Problem]) -> Vec<String> {
        let gone = self.fragments.take_out(problems, &self.places, &mut self.agents);
        gone.into_iter().map(|agent| agent.name).collect()
    }

    /// The keys in which `next` differs and that are read at start only.
    pub fn needs_restart(&self, next: &Self) -> Vec<Problem> {
        let mut changed = Vec::new();
        let mut compare = |key: &str, same: bool| {
            if !same {
                changed.push(Problem::new(key, RESTART));
            }
        };
        match (&self.admin, &next.admin) {
            (Some(before), Some(after)) => compare("admin.address", before == after),
            (before, after) => compare("admin.enabled", before == after),
        }
        compare("log.format", self.log.format == next.log.format);
        match (&self.state.store, &next.state.store) {
            (
                Store::Embedded { path, sync_interval },
                Store::Embedded {
                    path: next_path,
                    sync_interval: next_interval,
                },
            ) => {
                compare("state.path", path == next_path);
                compare("state.sync_interval", sync_interval == next_interval);
            }
            (Store::Redis(before), Store::Redis(after)) => before.compare(after, &mut compare),
            (before, after) => compare("state.store", before == after),
        }
        compare("state.max_tasks", self.state.max_tasks == next.state.max_tasks);
        compare("state.retention", self.state.retention == next.state.retention);
        compare("workers", self.workers == next.workers);
        changed
    }

    /// The same configuration with what the files of its secrets hold by now. Blocking.
    pub fn with_secrets_read_again(&self) -> Result<Self, Vec<Problem>> {
        let mut next = self.clone();
        let mut problems = Vec::new();
        for (section, keys) in [
            ("page_tokens.keys", &mut next.page_tokens.keys),
            ("push.keys", &mut next.push.keys),
        ] {
            for (index, secret) in keys.iter_mut().enumerate() {
                match secret.read_again() {
                    Ok(read) => *secret = read,
                    Err(cause) => {
                        let key = format!("{}.value_file", place(section, index));
                        problems.push(Problem::new(key, cause));
                    }
                }
            }
        }
        for (name, scheme) in &mut next.security_schemes {
            let Some(secret) = scheme.kind.client_secret_mut() else {
                continue;
            };
            match secret.read_again() {
                Ok(read) => *secret = read,
                Err(cause) => {
                    let key = format!("security_schemes.{name}.introspection.client_secret_file");
                    problems.push(Problem::new(key, cause));
                }
            }
        }
        for (name, point) in &mut next.decision_points {
            let Some(token) = &mut point.token else {
                continue;
            };
            match token.read_again() {
                Ok(read) => *token = read,
                Err(cause) => problems.push(Problem::new(format!("decision_points.{name}.token_file"), cause)),
            }
        }
        for (index, agent) in next.agents.iter_mut().enumerate() {
            let most = agent.card.max_bytes;
            for (name, file) in [("file", &mut agent.card.file), ("approved", &mut agent.card.approved)] {
                let Some(file) = file else { continue };
                let read = CardFile::read(file.path.clone(), most);
                let sound = |read: CardFile| match read.fault(&agent.card.edits, agent.upstream.generation) {
                    Some(fault) => Err(fault),
                    None => Ok(read),
                };
                match read.and_then(sound) {
                    Ok(read) => *file = read,
                    Err(cause) => problems.push(Problem::new(format!("{}.card.{name}", place("agents", index)), cause)),
                }
            }
            let Some(credential) = &mut agent.upstream.credential else {
                continue;
            };
            let file_key = credential.file_key();
            let secret = credential.secret_mut();
            match secret.read_again() {
                Ok(read) => *secret = read,
                Err(cause) => {
                    let key = format!("{}.upstream.credential.{file_key}", place("agents", index));
                    problems.push(Problem::new(key, cause));
                }
            }
        }
        if let Some(key) = next.audit.as_mut().and_then(|audit| audit.key.as_mut()) {
            match key.read_again() {
                Ok(read) => *key = read,
                Err(cause) => problems.push(Problem::new("audit.key_file", cause)),
            }
        }
        let collector = next.audit.as_mut().and_then(|audit| audit.otlp.as_mut());
        if let Some((_, value)) = collector.and_then(|collector| collector.header.as_mut()) {
            match value.read_again() {
                Ok(read) => *value = read,
                Err(cause) => problems.push(Problem::new("audit.otlp.header.value_file", cause)),
            }
        }
        if problems.is_empty() {
            return Ok(next);
        }
        self.places.locate(&mut problems);
        Err(problems)
    }

    /// Every file that it names, the store's apart.
    pub fn files(&self) -> Vec<PathBuf> {
        let mut files: Vec<PathBuf> = Vec::new();
        for tls in self.listeners.iter().filter_map(|listener| listener.tls.as_ref()) {
            files.extend(tls.files());
        }
        let keys = self.page_tokens.keys.iter().chain(&self.push.keys);
        files.extend(keys.filter_map(Secret::file).map(Path::to_owned));
        let key = self.audit.as_ref().and_then(|audit| audit.key.as_ref());
        files.extend(key.and_then(Secret::file).map(Path::to_owned));
        if let Some(collector) = self.audit.as_ref().and_then(|audit| audit.otlp.as_ref()) {
            let value = collector.header.as_ref().and_then(|(_, value)| value.file());
            files.extend(value.map(Path::to_owned));
            files.extend(collector.ca.clone());
        }
        files.extend(self.push.tls.ca.clone());
        for scheme in self.security_schemes.values() {
            files.extend(scheme.kind.files());
        }
        for point in self.decision_points.values() {
            let token = point.token.as_ref().and_then(Secret::file);
            files.extend(point.ca.clone());
            files.extend(token.map(Path::to_owned));
        }
        let cards = self.agents.iter().map(|agent| &agent.card);
        let cards = cards.flat_map(|card| [&card.file, &card.approved]).flatten();
        files.extend(cards.map(|file| file.path.clone()));
        for upstream in self.agents.iter().map(|agent| &agent.upstream) {
            let pair = upstream.tls.client.iter();
            files.extend(upstream.tls.ca.clone());
            files.extend(pair.flat_map(|pair| [pair.certificate.clone(), pair.private_key.clone()]));
            if let Some(credential) = &upstream.credential {
                files.extend(credential.secret().file().map(Path::to_owned));
                files.extend(credential.server().and_then(|server| server.ca.clone()));
            }
        }
        files.extend(self.agents_directory.clone());
        files.extend(self.revocations.clone());
        let verified = self.agents.iter().filter_map(|agent| agent.card.verify.as_ref());
        files.extend(verified.flat_map(CardVerify::files).map(Path::to_owned));
        let keys = self.assertions.keys.iter().chain(&self.card_signatures.keys);
        files.extend(keys.map(|key| key.private_key.clone()));
        files.sort();
        files.dedup();
        files
    }
}

impl Redis {
    /// Tells of each key whether the other says the same. What a password's file holds is no key: it is read for each new
    /// connection.
    fn compare(&self, next: &Self, compare: &mut impl FnMut(&str, bool)) {
        let same_scheme = self.secure == next.secure;
        match (&self.servers, &next.servers) {
            (RedisServers::Standalone(before), RedisServers::Standalone(after)) => {
                compare("state.redis.url", same_scheme && before == after);
            }
            (
                RedisServers::Sentinel {
                    sentinels,
                    master,
                    login,
                },
                RedisServers::Sentinel {
                    sentinels: next_sentinels,
                    master: next_master,
                    login: next_login,
                },
            ) => {
                compare("state.redis.sentinel.urls", same_scheme && sentinels == next_sentinels);
                compare("state.redis.sentinel.master", master == next_master);
                login.compare(next_login, "state.redis.sentinel", compare);
            }
            (RedisServers::Cluster(before), RedisServers::Cluster(after)) => {
                compare("state.redis.cluster", same_scheme && before == after);
            }
            (RedisServers::Standalone(_) | RedisServers::Sentinel { .. } | RedisServers::Cluster(_), _) => {
                compare("state.redis", false);
            }
        }
        compare("state.redis.database", self.database == next.database);
        self.login.compare(&next.login, "state.redis", compare);
        compare("state.redis.tls.ca", self.tls.ca == next.tls.ca);
        let certificate = |redis: &Self| redis.tls.client.as_ref().map(|pair| pair.certificate.clone());
        compare(
            "state.redis.tls.client_certificate",
            certificate(self) == certificate(next),
        );
        let key = |redis: &Self| redis.tls.client.as_ref().map(|pair| pair.private_key.clone());
        compare("state.redis.tls.client_private_key", key(self) == key(next));
        compare("state.redis.timeout", self.timeout == next.timeout);
        compare(
            "state.redis.connect_timeout",
            self.connect_timeout == next.connect_timeout,
        );
        compare("state.redis.cache_ttl", self.cache_ttl == next.cache_ttl);
        compare("state.redis.key_prefix", self.key_prefix == next.key_prefix);
    }
}

impl RedisLogin {
    fn compare(&self, next: &Self, section: &str, compare: &mut impl FnMut(&str, bool)) {
        compare(&join(section, "username"), self.username == next.username);
        let file = |login: &Self| login.password.as_ref().and_then(Secret::file).map(Path::to_owned);
        let (before, after) = (file(self), file(next));
        if before.is_some() || after.is_some() {
            compare(&join(section, "password_file"), before == after);
        } else {
            compare(&join(section, "password"), self.password == next.password);
        }
    }
}

impl ListenerTls {
    /// The files that are read for it.
    pub fn files(&self) -> Vec<PathBuf> {
        let pairs = self.certificates.iter();
        let mut files: Vec<PathBuf> = pairs
            .flat_map(|pair| [pair.certificate.clone(), pair.private_key.clone()])
            .collect();
        if self.client_certificates != ClientCertificates::Off {
            files.extend(self.client_ca.clone());
            files.extend(self.client_crls.iter().cloned());
        }
        files
    }
}

impl SchemeKind {
    fn files(&self) -> Vec<PathBuf> {
        let files = match self {
            Self::ApiKey { keys, .. } => match keys {
                KeySource::File(path) => [Some(&**path), None],
                KeySource::Inline(_) => [None, None],
            },
            Self::Basic { users_file } => [Some(&**users_file), None],
            Self::Bearer { tokens, .. } | Self::OAuth2 { tokens, .. } | Self::OpenIdConnect { tokens, .. } => {
                match &tokens.proof {
                    TokenProof::Signature { keys, .. } => [keys.file(), None],
                    TokenProof::Introspection { asking, client } => [asking.ca.as_deref(), client.secret.file()],
                }
            }
            Self::Http { check, .. } => [check.ca.as_deref(), None],
            Self::MutualTls { .. } => [None, None],
        };
        files.into_iter().flatten().map(Path::to_owned).collect()
    }
}

impl Upstream {
    /// Whether the other is the same but for the value of the credential.
    pub fn differs_in_secret_at_most(&self, other: &Self) -> bool {
        let same_credential = match (&self.credential, &other.credential) {
            (None, None) => true,
            (Some(one), Some(other)) => one.is_shown_like(other),
            (Some(_), None) | (None, Some(_)) => false,
        };
        let rest = |upstream: &Self| Self {
            credential: None,
            ..upstream.clone()
        };
        same_credential && rest(self) == rest(other)
    }
}

impl UpstreamCredential {
    pub fn secret(&self) -> &Secret<String> {
        match self {
            Self::Header { value, .. } => value,
            Self::Bearer(token) => token,
            Self::Basic { password, .. } => password,
            Self::ClientCredentials(server) => &server.client_secret,
            Self::TokenExchange(exchange) => &exchange.server.client_secret,
        }
    }

    fn secret_mut(&mut self) -> &mut Secret<String> {
        match self {
            Self::Header { value, .. } => value,
            Self::Bearer(token) => token,
            Self::Basic { password, .. } => password,
            Self::ClientCredentials(server) => &mut server.client_secret,
            Self::TokenExchange(exchange) => &mut exchange.server.client_secret,
        }
    }

    /// The key that names the secret's file.
    pub fn file_key(&self) -> &'static str {
        match self {
            Self::Header { .. } => "header.value_file",
            Self::Bearer(_) => "bearer.token_file",
            Self::Basic { .. } => "basic.password_file",
            Self::ClientCredentials(_) => "client_credentials.client_secret_file",
            Self::TokenExchange(_) => "token_exchange.client_secret_file",
        }
    }

    /// Where tokens come from, if it is one that is got.
    pub fn server(&self) -> Option<&TokenServer> {
        match self {
            Self::ClientCredentials(server) => Some(server),
            Self::TokenExchange(exchange) => Some(&exchange.server),
            Self::Header { .. } | Self::Bearer(_) | Self::Basic { .. } => None,
        }
    }

    /// In the same header and of the same form, and got in the same way.
    pub fn is_shown_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Header { name, .. }, Self::Header { name: other, .. }) => name == other,
            (Self::Bearer(_), Self::Bearer(_)) | (Self::Basic { .. }, Self::Basic { .. }) => true,
            (Self::ClientCredentials(_), Self::ClientCredentials(_))
            | (Self::TokenExchange(_), Self::TokenExchange(_)) => {
                let mut same = other.clone();
                same.secret_mut().clone_from(self.secret());
                *self == same
            }
            (
                Self::Header { .. }
                | Self::Bearer(_)
                | Self::Basic { .. }
                | Self::ClientCredentials(_)
                | Self::TokenExchange(_),
                _,
            ) => false,
        }
    }
}
