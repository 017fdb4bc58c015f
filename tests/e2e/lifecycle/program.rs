//! A program as a process of its own: what it prints, how it ends. It never outlives the test that started it.

use std::ffi::OsStr;
use std::io::Read;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};

use crate::harness::{eventually, get};

pub struct Program {
    child: Child,
    stdout: Printed,
    stderr: Printed,
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ended_already = self.child.kill();
        let _status = self.child.wait();
    }
}

/// How a program ended, and all that it printed.
pub struct Ended {
    /// `None` if a signal killed it.
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Program {
    /// The gateway's own program.
    pub fn gateway<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_a2a-gateway"));
        command.args(arguments);
        Self::start(command)
    }

    /// The same with the configuration file that the environment names.
    pub fn with_variable<A: AsRef<OsStr>>(config: &str, arguments: impl IntoIterator<Item = A>) -> Self {
        let mut command = Command::new("env");
        command.arg(format!("A2A_GATEWAY_CONFIG={config}"));
        command.arg(env!("CARGO_BIN_EXE_a2a-gateway")).args(arguments);
        Self::start(command)
    }

    /// One line for the shell.
    pub fn shell(line: &str) -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", line]);
        Self::start(command)
    }

    pub fn start(mut command: Command) -> Self {
        // What the machine says about the gateway is not what the test says.
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("A2A_GATEWAY") {
                command.env_remove(name);
            }
        }
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let stdout = Printed::of(child.stdout.take().unwrap());
        let stderr = Printed::of(child.stderr.take().unwrap());
        Self { child, stdout, stderr }
    }

    pub fn stdout(&self) -> String {
        self.stdout.text()
    }

    pub fn stderr(&self) -> String {
        self.stderr.text()
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// No file that it writes becomes larger than this, as on a full disk; without a number all that is allowed.
    pub fn limit_files(&self, bytes: Option<u64>) {
        let limit = Rlimit {
            current: bytes,
            maximum: None,
        };
        prlimit(Some(Pid::from_child(&self.child)), Resource::Fsize, limit).unwrap();
    }

    /// Where the gateway listens and where its operators ask, as it says itself; it answers there.
    pub async fn addresses(&mut self) -> (SocketAddr, SocketAddr) {
        eventually("the gateway says where it listens", || {
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none(), "it ended: {ended:?}\n{}", self.stderr());
            let said = self.stderr().contains("admin listening");
            async move { said }
        })
        .await;
        let text = self.stderr();
        let lines = || text.lines().filter(|line| line.contains("listening"));
        let public = lines().find(|line| !line.contains("admin")).expect("a listener");
        let admin = lines().find(|line| line.contains("admin")).expect("an admin listener");
        let (public, admin) = (address(public), address(admin));
        assert_eq!(get(admin, "/health").await.status, 200);
        (public, admin)
    }

    /// Once it has ended by itself, or by a signal.
    pub async fn end(mut self) -> Ended {
        let mut status = None;
        eventually("the program ends", || {
            status = self.child.try_wait().unwrap();
            let ended = status.is_some();
            async move { ended }
        })
        .await;
        Ended {
            code: status.unwrap().code(),
            stdout: self.stdout.whole(),
            stderr: self.stderr.whole(),
        }
    }

    /// Tells it to end.
    pub async fn terminate(self) -> Ended {
        self.signal(Signal::TERM);
        self.end().await
    }
}

/// Behind `address=` or `"address":"`.
fn address(line: &str) -> SocketAddr {
    let behind = line.split("address").nth(1).expect(line);
    let text: String = behind
        .trim_start_matches(['=', '"', ':'])
        .chars()
        .take_while(|character| !character.is_whitespace() && !"\",}".contains(*character))
        .collect();
    text.parse().unwrap_or_else(|_| panic!("no address: {line}"))
}

/// What comes through a pipe, as it comes.
struct Printed {
    bytes: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl Printed {
    fn of(mut pipe: impl Read + Send + 'static) -> Self {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let sink = bytes.clone();
        let reader = std::thread::spawn(move || {
            let mut part = [0; 4096];
            while let Ok(count @ 1..) = pipe.read(&mut part) {
                sink.lock().unwrap().extend_from_slice(&part[..count]);
            }
        });
        Self {
            bytes,
            reader: Some(reader),
        }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes.lock().unwrap()).into_owned()
    }

    /// All of it: only after the program has ended.
    fn whole(&mut self) -> String {
        if let Some(reader) = self.reader.take() {
            reader.join().unwrap();
        }
        self.text()
    }
}
