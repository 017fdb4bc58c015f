//! Real Redis servers on loopback, each in a folder of its own, stopped by process id when dropped.
//!
//! Used by the end-to-end tests and by the tests of `affinity` and `shared`. A machine without the program fails these
//! tests and says what to install: a store that nothing was tested against is not supported.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

pub struct Server {
    process: Option<Child>,
    program: &'static str,
    _folder: TempDir,
    pub port: u16,
    arguments: Vec<String>,
}

/// A port that nobody has at this moment.
pub fn free_port() -> u16 {
    // A cluster bus takes the port 10000 above.
    loop {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        if port < 55_000 {
            return port;
        }
    }
}

impl Server {
    /// Keeps its data in memory only: killed and started again, it is empty.
    pub fn start() -> Self {
        Self::with(&[])
    }

    pub fn with(arguments: &[&str]) -> Self {
        let port = free_port();
        let mut all = vec!["--port".to_owned(), port.to_string()];
        all.extend(arguments.iter().map(|&argument| argument.to_owned()));
        Self::on(port, all)
    }

    /// `arguments` say where it listens.
    pub fn on(port: u16, mut arguments: Vec<String>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let fixed = ["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir"];
        arguments.extend(fixed.map(str::to_owned));
        arguments.push(folder.path().to_str().unwrap().to_owned());
        Self::run("redis-server", "redis-server", folder, port, arguments)
    }

    /// A program with the data in `folder`.
    pub fn run(program: &'static str, package: &str, folder: TempDir, port: u16, arguments: Vec<String>) -> Self {
        let mut server = Self {
            process: None,
            program,
            _folder: folder,
            port,
            arguments,
        };
        server.start_again_of(package);
        server
    }

    /// With what it had written before, which is nothing unless `arguments` said otherwise.
    pub fn start_again(&mut self) {
        self.start_again_of("redis-server");
    }

    fn start_again_of(&mut self, package: &str) {
        assert!(self.process.is_none(), "it runs");
        let spawned = Command::new(self.program)
            .args(&self.arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let mut process = spawned.unwrap_or_else(|error| {
            panic!(
                "{} cannot be started ({error}); install the package `{package}`",
                self.program
            )
        });
        let output = BufReader::new(process.stdout.take().unwrap());
        let mut said = String::new();
        let ready = output.lines().map_while(Result::ok).any(|line| {
            said.push_str(&line);
            said.push('\n');
            line.contains("Ready to accept connections") || line.contains("Sentinel ID is")
        });
        self.process = Some(process);
        assert!(ready, "{} ended: {said}", self.program);
    }

    /// Like a crash.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _gone = process.kill();
            let _waited = process.wait();
        }
    }

    /// Like a partition, or a machine that swaps: connections stay and nothing is answered.
    pub fn freeze(&self) {
        self.signal(Signal::STOP);
    }

    pub fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        let id = self.process.as_ref().expect("it runs").id();
        let pid = Pid::from_raw(i32::try_from(id).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Runs a command as the default user without a password.
    pub fn ask<T: redis::FromRedisValue>(&self, command: &[&str]) -> T {
        self.try_ask(command)
            .unwrap_or_else(|error| panic!("{command:?}: {error}"))
    }

    pub fn try_ask<T: redis::FromRedisValue>(&self, command: &[&str]) -> Result<T, redis::RedisError> {
        let mut connection = redis::Client::open(self.url())?.get_connection()?;
        let mut built = redis::Cmd::new();
        for argument in command {
            built.arg(*argument);
        }
        built.query(&mut connection)
    }

    /// Its keys that hold records, sorted.
    pub fn records(&self) -> Vec<String> {
        let mut keys: Vec<String> = self.ask(&["KEYS", "a2a:[tc]:*"]);
        keys.sort();
        keys
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}
