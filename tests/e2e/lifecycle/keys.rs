//! API keys that the program makes, hashes and lists, and the gateway takes.

use super::binary::run;
use super::program::Program;
use crate::harness::agent::{self, Agent};
use crate::harness::{Gateway, call, config_of, send};

const PROGRAM: &str = env!("CARGO_BIN_EXE_a2a-gateway");
/// What the key goes behind on standard error.
const SHOWN: &str = "the key, shown this once: ";

/// A new key, and its entry.
async fn made(more: &[&str]) -> (String, String) {
    let arguments: Vec<_> = ["key", "new", "--id", "partner-7"]
        .iter()
        .chain(more)
        .copied()
        .collect();
    let ended = run(&arguments).await;
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let key = ended.stderr.trim_end().strip_prefix(SHOWN).expect("the key").to_owned();
    assert!(!ended.stdout.contains(&key), "only its hash is kept");
    (key, ended.stdout)
}

#[tokio::test]
async fn a_new_key_is_taken_until_it_expires() {
    let (good, entry) = made(&[
        "--expires",
        "2999-01-31T00:00:00Z",
        "--label",
        "for the \"harbour\": a test",
    ])
    .await;
    let (late, expired) = made(&["--expires", "2001-01-31T00:00:00+01:00", "--attribute", "tenant=acme"]).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys.yaml");
    std::fs::write(&file, format!("keys:\n{entry}{expired}")).unwrap();
    let agent = Agent::start(agent::tasks(|| "t1".to_owned())).await;
    let yaml = config_of(&[agent.address], "", "");
    let (before, rest) = yaml.split_once("keys: [").expect("the keys");
    let (_, after) = rest.split_once("] }").expect("their end");
    let yaml = format!("{before}keys_file: \"{}\" }}{after}", file.display());

    let listed = folder.path().join("gateway.yaml");
    std::fs::write(&listed, &yaml).unwrap();
    let ended = run(&["key", "list", "--config", listed.to_str().unwrap()]).await;
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let hash = |entry: &str| entry.split("sha256:").nth(1).unwrap()[..8].to_owned();
    let expected = format!(
        "SCHEME\tID\tHASH\tEXPIRES\tSCOPES\tATTRIBUTES\tLABEL\n\
         key\tpartner-7\t{}\t2999-01-31T00:00:00Z\t\t\tfor the \"harbour\": a test\n\
         key\tpartner-7\t{}\t2001-01-30T23:00:00Z (expired)\t\ttenant=acme\t\n",
        hash(&entry),
        hash(&expired)
    );
    assert_eq!(ended.stdout, expected);

    let gateway = Gateway::start(&yaml).await;
    gateway.ready().await;
    let by = async |key: &str| {
        let fields = [("x-api-key", key), ("content-type", "application/json")];
        call(gateway.address, "POST", "/agent", &fields, &send("1", "x")).await
    };
    assert_eq!(by(&good).await.status, 200);
    let refused = by(&late).await;
    assert_eq!(refused.status, 401, "{}", refused.text());
    assert_eq!(gateway.access(2).await[1]["detail"], "expired");
    assert_eq!(agent.received().len(), 1);
}

#[tokio::test]
async fn a_key_is_hashed_as_the_configuration_keeps_it() {
    let (key, entry) = made(&[]).await;
    for line in [format!("printf %s {key}"), format!("echo {key}")] {
        let ended = Program::shell(&format!("{line} | {PROGRAM} key hash")).end().await;
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        assert!(entry.contains(ended.stdout.trim_end()), "{} in {entry}", ended.stdout);
    }
    let longest = format!("head -c 1025 /dev/zero | {PROGRAM} key hash");
    for wrong in [format!("printf '' | {PROGRAM} key hash"), longest] {
        let ended = Program::shell(&wrong).end().await;
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""));
        assert!(ended.stderr.contains("1 to 1024 bytes"), "{}", ended.stderr);
    }
}

#[tokio::test]
async fn what_no_entry_may_say_is_refused() {
    for (arguments, expected) in [
        (&["--id", ""][..], "the id must have"),
        (&["--id", "a", "--expires", "tomorrow"], "is not a time since 1970"),
        (&["--id", "a", "--attribute", "tenant"], "`tenant` must be `name=value`"),
        (&[], "--id"),
    ] {
        let ended = run(&[&["key", "new"], arguments].concat()).await;
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{arguments:?}");
        assert!(ended.stderr.contains(expected), "{arguments:?}: {}", ended.stderr);
    }
}
