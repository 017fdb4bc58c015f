//! What is wrong with files, told with the key and without their content.

use super::*;

fn check(identity: Identity, file: &str, expected: &str) {
    let secret = identity.key.lines().nth(1).map(str::to_owned);
    let folder = Folder::new();
    let (key, cause) = only_problem(&folder.listener(&[&identity]));
    assert_eq!(key, format!("listeners[0].tls.certificates[0].{file}"));
    assert!(cause.contains(expected), "{cause}");
    if let Some(secret) = secret {
        assert!(!cause.contains(&secret), "quotes the key: {cause}");
    }
}

#[test]
fn a_broken_pair_is_a_problem_of_the_right_file() {
    let ca = Ca::new("server CA");
    let good = || ca.server(&["a.example"]);

    let mut mixed = good();
    mixed.key = good().key;
    check(mixed, "private_key", "is not the key of the first certificate");

    let mut empty = good();
    empty.certificate = String::new();
    check(empty, "certificate", "holds no PEM certificate");

    let mut keyless = good();
    keyless.key = keyless.certificate.clone();
    check(keyless, "private_key", "holds no PEM private key");

    let mut encrypted = good();
    encrypted.key = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n".to_owned();
    check(encrypted, "private_key", "is encrypted");

    let mut cut = good();
    cut.certificate.truncate(100);
    check(cut, "certificate", "may be cut off");

    let mut rubbish = good();
    rubbish.certificate = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".to_owned();
    check(rubbish, "certificate", "is not X.509");

    let mut odd = good();
    odd.key = "-----BEGIN PRIVATE KEY-----\nMAoCAQAwBQYDKgME\n-----END PRIVATE KEY-----\n".to_owned();
    check(odd, "private_key", "of a kind that is not supported");
}

#[test]
fn a_key_on_one_line_is_not_quoted() {
    let ca = Ca::new("server CA");
    let mut identity = ca.server(&["a.example"]);
    let body: String = identity.key.lines().filter(|line| !line.starts_with("-----")).collect();
    identity.key = identity.key.replace('\n', " ");
    let folder = Folder::new();
    let shown = format!("{:?}", problems(&folder.listener(&[&identity])));
    let beginning: String = body.chars().take(16).collect();
    assert!(!shown.contains(&beginning), "{shown}");
}

#[test]
fn a_later_certificate_needs_a_name() {
    let ca = Ca::new("server CA");
    let folder = Folder::new();
    // The first needs none: it serves every name.
    let tls = folder.listener(&[&ca.server(&[]), &ca.server(&["b.example"])]);
    assert!(Acceptor::build(&tls, "listeners[0].tls").is_ok());
    let (key, cause) = only_problem(&folder.listener(&[&ca.server(&["a.example"]), &ca.server(&[])]));
    assert_eq!(key, "listeners[0].tls.certificates[1].certificate");
    assert!(cause.contains("has no DNS name"), "{cause}");
}

#[test]
fn all_problems_are_told_at_once() {
    let ca = Ca::new("server CA");
    let folder = Folder::new();
    let mut tls = folder.listener(&[&ca.server(&["a.example"]), &ca.server(&["b.example"])]);
    replace(&tls.certificates[0].certificate, "");
    std::fs::remove_file(&tls.certificates[1].private_key).unwrap();
    tls.client_certificates = ClientCertificates::Required;
    tls.client_ca = Some(folder.write("ca.pem", &ca.pem()));
    tls.client_crls = vec![folder.write("ca.crl", &Ca::new("another CA").crl(&[]))];
    let mut keys: Vec<_> = problems(&tls).into_iter().map(|p| p.key).collect();
    keys.sort();
    assert_eq!(
        keys,
        [
            "listeners[0].tls.certificates[0].certificate",
            "listeners[0].tls.certificates[1].private_key",
            "listeners[0].tls.client_crls[0]",
        ]
    );
}

#[test]
fn client_certificates_need_a_ca() {
    let ca = Ca::new("server CA");
    let folder = Folder::new();
    let mut tls = folder.listener(&[&ca.server(&["a.example"])]);
    tls.client_certificates = ClientCertificates::Optional;
    let (key, cause) = only_problem(&tls);
    assert_eq!(key, "listeners[0].tls.client_ca");
    assert!(cause.contains("is needed"), "{cause}");

    tls.client_ca = Some(folder.write("ca.pem", "no PEM"));
    let (key, cause) = only_problem(&tls);
    assert_eq!(key, "listeners[0].tls.client_ca");
    assert!(cause.contains("holds no PEM certificate"), "{cause}");
}

#[test]
fn a_listener_needs_a_certificate() {
    let (key, cause) = only_problem(&Folder::new().listener(&[]));
    assert_eq!(key, "listeners[0].tls.certificates");
    assert!(cause.contains("at least one"), "{cause}");
}
