//! The list of what is revoked: callers, tokens by their `jti` (RFC 7519 §4.1.7) and certificates are refused from the moment that
//! they stand there.

use serde_json::json;

use super::tokens::{Key, but, claims};
use super::{ISSUER, Site};

async fn site(key: &Key, folder: &tempfile::TempDir) -> Site {
    std::fs::write(folder.path().join("keys.json"), key.set().to_string()).unwrap();
    std::fs::write(folder.path().join("revoked.yaml"), "{}").unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let scheme = format!(
        "type: http, scheme: bearer, issuer: \"{ISSUER}\", audience: [ a2a ], jwks_file: \"{}\"",
        path("keys.json")
    );
    let site = Site::unready(&scheme, &format!("revocations_file: \"{}\"", path("revoked.yaml"))).await;
    site.gateway.ready().await;
    site
}

#[tokio::test]
async fn what_is_on_the_list_is_refused_and_what_leaves_it_is_taken_again() {
    let (key, folder) = (Key::new("k"), tempfile::tempdir().unwrap());
    let site = site(&key, &folder).await;
    let list = async |text: &str| {
        std::fs::write(folder.path().join("revoked.yaml"), text).unwrap();
        site.gateway.reload().await
    };
    let ann = key.sign_as(None, &but(claims(), &json!({ "jti": "one" })));
    let other = key.sign_as(None, &but(claims(), &json!({ "jti": "two" })));
    let bob = key.sign_as(None, &but(claims(), &json!({ "sub": "bob" })));
    let id = format!("jwt:{ISSUER}#ann");
    site.admits("before", &site.bearer(&ann).await, &id).await;

    assert!(list("tokens: [ one ]").await);
    site.refuses(
        "the token, though it is remembered",
        &site.bearer(&ann).await,
        "revoked",
    )
    .await;
    site.admits("another token of the same caller", &site.bearer(&other).await, &id)
        .await;

    assert!(list(&format!("principals: [ \"{id}\" ]")).await);
    site.refuses("the caller", &site.bearer(&other).await, "revoked").await;
    let answer = site.bearer(&bob).await;
    assert_eq!(
        site.record(&answer).await["principal"],
        format!("jwt:{ISSUER}#bob"),
        "another caller"
    );

    assert!(list("principals: [ \"jwt:*#b*\" ]").await);
    site.admits("who is not meant by the pattern", &site.bearer(&ann).await, &id)
        .await;
    site.refuses("who is", &site.bearer(&bob).await, "revoked").await;

    assert!(list("{}").await);
    site.admits("all", &site.bearer(&ann).await, &id).await;
}

#[tokio::test]
async fn a_list_that_cannot_be_read_changes_nothing() {
    let (key, folder) = (Key::new("k"), tempfile::tempdir().unwrap());
    let site = site(&key, &folder).await;
    let token = key.sign_as(None, &but(claims(), &json!({ "jti": "one" })));
    let write = |text: &str| std::fs::write(folder.path().join("revoked.yaml"), text).unwrap();
    write("tokens: [ one ]");
    assert!(site.gateway.reload().await);
    for wrong in [
        "tokens: one",
        "users: [ ann ]",
        "principals: [ \"*\" ]",
        "principals: [ \"\" ]",
        "certificates: [ \"12:34\" ]",
        "tokens: [",
    ] {
        write(wrong);
        assert!(!site.gateway.reload().await, "{wrong}");
        site.refuses(wrong, &site.bearer(&token).await, "revoked").await;
    }
}
