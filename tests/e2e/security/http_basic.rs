//! RFC 7617: a user name and a password.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::Site;
use crate::lifecycle::reload::users;

/// RFC 7617 §2: a password may have colons; §2.1: both are UTF-8.
const PASSWORD: &str = "pass:wörd";

struct Ground {
    site: Site,
    _folder: tempfile::TempDir,
}

async fn ground() -> Ground {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("users.yaml");
    std::fs::write(&file, users(&[("ann", PASSWORD), ("bob", "other")])).unwrap();
    let scheme = format!("type: http, scheme: basic, users_file: \"{}\"", file.display());
    Ground {
        site: Site::start(&scheme).await,
        _folder: folder,
    }
}

fn basic(text: &str) -> String {
    format!("Basic {}", STANDARD.encode(text))
}

#[tokio::test]
async fn the_right_password_of_its_user_admits() {
    let Ground { site, _folder } = ground().await;
    let right = basic(&format!("ann:{PASSWORD}"));
    for shown in [right.clone(), right.replace("Basic ", "bAsIc ")] {
        let answer = site.show(&shown).await;
        site.admits(&shown, &answer, "basic:ann").await;
    }
    for received in site.agent.received() {
        assert_eq!(received.field("authorization"), None);
    }
    site.hides(PASSWORD).await;
    site.hides(&STANDARD.encode(format!("ann:{PASSWORD}"))).await;
}

#[tokio::test]
async fn anything_else_is_refused_without_saying_what_was_wrong() {
    let Ground { site, _folder } = ground().await;
    let mut answers = Vec::new();
    for (what, shown, detail) in [
        ("a wrong password", basic("ann:wrong"), "bad-password"),
        ("somebody else's", basic("ann:other"), "bad-password"),
        ("nobody", basic(&format!("eve:{PASSWORD}")), "bad-password"),
        ("no password", basic("ann:"), "bad-password"),
        (
            "a name in another case",
            basic(&format!("Ann:{PASSWORD}")),
            "bad-password",
        ),
        (
            "the bytes of Latin-1",
            format!("Basic {}", STANDARD.encode(b"ann:pass:w\xf6rd")),
            "malformed",
        ),
        ("no colon", basic("ann"), "malformed"),
        ("no base64", "Basic ann:wrong".to_owned(), "malformed"),
        ("nothing", "Basic ".to_owned(), "malformed"),
    ] {
        let answer = site.show(&shown).await;
        site.refuses(what, &answer, detail).await;
        // RFC 7617 §2 and §2.1.
        let challenge = answer.header("www-authenticate").unwrap();
        assert_eq!(challenge, "Basic realm=\"a2a-gateway\", charset=\"UTF-8\"");
        answers.push(answer.text());
    }
    answers.dedup();
    assert_eq!(answers.len(), 1, "{answers:?}");
    assert!(site.agent.received().is_empty());
}
