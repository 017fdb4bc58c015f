//! `kill -9` at any moment: a child learns and says what is safe, the parent kills it and looks.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc;

use super::*;

/// Tells the child where to write.
const FOLDER: &str = "A2A_GATEWAY_TEST_KILL_FOLDER";
const ROUNDS: u64 = 20;
/// More of them: `A2A_GATEWAY_TEST_KILL_ROUNDS=200 cargo test --lib kill`.
const MORE: &str = "A2A_GATEWAY_TEST_KILL_ROUNDS";

fn endpoint(n: u64) -> String {
    format!("http://{}/", n % 7)
}

/// Learns tasks until it is killed; each line says that one is safe. Compacts all the while.
///
/// Ends by itself when something is wrong or nobody listens: a panic would leave its other threads running.
fn child(folder: &Path) -> ! {
    let volume: Arc<dyn Volume> = Arc::new(Disk);
    let state = embedded(folder, 1_000_000);
    let affinity = Affinity::open_with(&state, Clock::system(), Mode::Strict, volume, 1).unwrap();
    let affinity = &affinity;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while affinity.compact() {}
            std::process::exit(1);
        });
        scope.spawn(|| {
            loop {
                affinity.store.journal().unwrap().sync();
                std::thread::yield_now();
            }
        });
        let mut out = std::io::stdout();
        for n in affinity.stats().tasks.. {
            let learned = learn(affinity, &endpoint(n), &format!("t{n}"), None);
            if learned != Learned::New || writeln!(out, "safe {n}").is_err() {
                break;
            }
        }
        std::process::exit(1);
    })
}

#[test]
fn what_was_safe_is_found_after_kill() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        child(Path::new(&folder));
    }
    let folder = tempfile::tempdir().unwrap();
    let mut random = fastrand::Rng::new();
    let mut safe = 0;
    let rounds = std::env::var_os(MORE).map_or(ROUNDS, |text| {
        let number = text.to_str().and_then(|text| text.parse().ok());
        number.expect("a number of rounds")
    });
    for round in 0..rounds {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "--nocapture",
                "affinity::tests::kill::what_was_safe_is_found_after_kill",
            ])
            .env(FOLDER, folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (begun, wait) = mpsc::channel();
        let reader = std::thread::spawn(move || {
            let mut last = None;
            for line in output.lines() {
                let Ok(line) = line else { break };
                // The test runner writes lines of its own, and the last line may be cut.
                let Some(n) = line.split("safe ").nth(1) else {
                    continue;
                };
                last = n
                    .parse::<u64>()
                    .ok()
                    .filter(|&n| last.is_none_or(|last| n == last + 1))
                    .or(last);
                let _first = begun.send(());
            }
            last
        });
        wait.recv_timeout(Duration::from_secs(30))
            .expect("the child never began");
        let patience = Duration::from_micros(random.u64(..40_000));
        let begin = std::time::Instant::now();
        while begin.elapsed() < patience {
            let _ = wait.recv_timeout(patience.saturating_sub(begin.elapsed()));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let last = reader.join().unwrap().expect("the child said something");
        assert!(last >= safe, "round {round} went on behind the one before it");
        safe = last;

        let state = embedded(folder.path(), 1_000_000);
        let affinity = Affinity::open(&state, Clock::system()).unwrap();
        for n in 0..=safe {
            let found = endpoint_of(&affinity, &format!("t{n}"));
            assert_eq!(found, Some(endpoint(n)), "round {round}: t{n} was safe");
        }
        let beyond = affinity.stats().tasks - (safe + 1);
        assert!(beyond <= 1, "at most the one that was under way");
    }
}
