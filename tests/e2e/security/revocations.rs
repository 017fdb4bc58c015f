//! The list of what is revoked: callers, tokens by their `jti` (RFC 7519 §4.1.7) and certificates are refused from the moment that
//! they stand there.

use serde_json::{Value, json};

use super::tokens::{Key, but, claims};
use super::{ISSUER, Site};
use crate::harness::agent::{Agent, CARD_0_3, Received, Reply};
use crate::harness::{Gateway, call, config_of, post};

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
        // Of each scheme by itself: this would never be anybody.
        "principals: [ \"key:ann+mtls:spiffe://example.com/a\" ]",
    ] {
        write(wrong);
        assert!(!site.gateway.reload().await, "{wrong}");
        site.refuses(wrong, &site.bearer(&token).await, "revoked").await;
    }
}

/// What an agent tells goes to a webhook of the caller's as long as the caller is somebody.
#[tokio::test]
async fn nothing_more_is_told_to_a_webhook_of_who_is_revoked() {
    let agent = Agent::with_card(CARD_0_3, |received: &Received| {
        let task = json!({ "kind": "task", "id": "t1", "contextId": "c", "status": { "state": "working" } });
        Reply::Json(json!({ "jsonrpc": "2.0", "id": received.json()["id"], "result": task }).to_string())
    })
    .await;
    let hook = Agent::start(|_| Reply::Whole(202, "", String::new())).await;
    let folder = tempfile::tempdir().unwrap();
    let list = |text: &str| std::fs::write(folder.path().join("revoked.yaml"), text).unwrap();
    list("{}");
    let top = "push: { keys: [ { value: a-key-of-webhooks-with-32-characters } ], http: true, networks: [ 127.0.0.0/8 ] }\n\
               revocations_file: revoked.yaml";
    let gateway = Gateway::start_in(&config_of(&[agent.address], "", top), folder.path()).await;
    gateway.ready().await;
    let url = format!("http://{}/hook", hook.address);
    let params = json!({
        "message": { "messageId": "m", "role": "ROLE_USER", "parts": [{ "text": "x" }] },
        "configuration": { "taskPushNotificationConfig": { "url": url } },
    });
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params }).to_string();
    let sent = post(gateway.address, "/agent", &body).await;
    assert_eq!(sent.json()["result"]["task"]["id"], "t1", "{}", sent.text());
    let received = agent.received().pop().expect("a call").json();
    let given = received["params"]["configuration"]["pushNotificationConfig"]["url"].as_str();
    let path = given
        .and_then(|url| url.strip_prefix("https://gateway.example"))
        .expect("an address");
    let told = async || {
        let task: Value = json!({ "kind": "task", "id": "t1", "contextId": "c", "status": { "state": "completed" } });
        let fields = [("content-type", "application/json")];
        call(gateway.address, "POST", path, &fields, &task.to_string())
            .await
            .status
    };
    assert_eq!(told().await, 200);
    list("principals: [ \"key:tester\" ]");
    assert!(gateway.reload().await);
    assert_eq!(told().await, 404);
    assert_eq!(hook.received().len(), 1);
    list("{}");
    assert!(gateway.reload().await);
    assert_eq!(told().await, 200);
}
