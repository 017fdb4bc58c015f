//! Files read again: all of them or none.

use super::*;
use crate::tls::ExpiryKind;

#[tokio::test]
async fn good_files_are_taken() {
    let ca = Ca::new("server CA");
    let (old, new) = (ca.server(&["a.example"]), ca.server(&["a.example"]));
    let folder = Folder::new();
    let tls = folder.listener(&[&old]);
    let mut acceptor = build(&tls);
    let client = Caller::trusting(&ca).shared();
    let (_, side) = connect(&acceptor, &client, "a.example").await;
    assert_eq!(*shown(&side), der(&old));

    folder.identity("server-0", &new);
    assert_eq!(reload(&mut acceptor, &tls), Ok(true));
    let ((server, _), side) = connect(&acceptor, &client, "a.example").await;
    assert_eq!(*shown(&side), der(&new));
    assert!(!server.is_resumed(), "tickets are of one load");
}

#[tokio::test]
async fn unchanged_files_are_no_change() {
    let ca = Ca::new("server CA");
    let identity = ca.server(&["a.example"]);
    let folder = Folder::new();
    let tls = folder.listener(&[&identity]);
    let mut acceptor = build(&tls);
    let client = Caller::trusting(&ca).shared();
    connect(&acceptor, &client, "a.example").await;
    folder.identity("server-0", &identity);
    assert_eq!(reload(&mut acceptor, &tls), Ok(false));
    let ((server, _), _side) = connect(&acceptor, &client, "a.example").await;
    assert!(server.is_resumed(), "sessions go on");
}

#[tokio::test]
async fn bad_files_leave_the_old_ones_in_force() {
    let ca = Ca::new("server CA");
    let (old, new) = (ca.server(&["a.example"]), ca.server(&["a.example"]));
    let folder = Folder::new();
    let tls = folder.listener(&[&old]);
    let mut acceptor = build(&tls);
    let client = Caller::trusting(&ca).shared();
    let files = tls.certificates.first().unwrap();

    // Half of a rotation: the certificate is new, the key is old.
    replace(&files.certificate, &new.certificate);
    let problems = reload(&mut acceptor, &tls).unwrap_err();
    assert_eq!(
        problems.iter().map(|p| p.key.as_str()).collect::<Vec<_>>(),
        ["listeners[0].tls.certificates[0].private_key"]
    );
    let (_, side) = connect(&acceptor, &client, "a.example").await;
    assert_eq!(*shown(&side), der(&old));

    std::fs::remove_file(&files.private_key).unwrap();
    let problems = reload(&mut acceptor, &tls).unwrap_err();
    assert!(problems[0].cause.contains("cannot read"), "{}", problems[0].cause);

    // The other half.
    replace(&files.private_key, &new.key);
    assert_eq!(reload(&mut acceptor, &tls), Ok(true));
    let (_, side) = connect(&acceptor, &client, "a.example").await;
    assert_eq!(*shown(&side), der(&new));
}

#[tokio::test]
async fn open_connections_survive_a_reload() {
    let ca = Ca::new("server CA");
    let folder = Folder::new();
    let tls = folder.listener(&[&ca.server(&["a.example"])]);
    let mut acceptor = build(&tls);
    let client = Caller::trusting(&ca).shared();
    let ((mut server, _), mut side) = connect(&acceptor, &client, "a.example").await;
    folder.identity("server-0", &ca.server(&["a.example"]));
    assert_eq!(reload(&mut acceptor, &tls), Ok(true));
    server.write_all(b"+").await.unwrap();
    server.flush().await.unwrap();
    assert_eq!(side.read_u8().await.unwrap(), b'+');
}

#[test]
fn an_expired_certificate_is_loaded_and_told() {
    let ca = Ca::new("server CA");
    let mut params = CertificateParams::new(vec!["a.example".to_owned()]).unwrap();
    params.not_after = date_time_ymd(2001, 1, 1);
    let expired = ca.issue(params);
    let folder = Folder::new();
    let tls = folder.listener(&[&expired, &ca.server(&["b.example"])]);
    let expires = build(&tls).expires_at();
    let [first, second] = expires.as_slice() else {
        panic!("one for each certificate: {expires:?}");
    };
    assert_eq!(first.key, "listeners[0].tls.certificates[0].certificate");
    assert_eq!(first.file, tls.certificates[0].certificate);
    assert_eq!(first.kind, ExpiryKind::Certificate);
    assert_eq!(first.not_after, date_time_ymd(2001, 1, 1).unix_timestamp());
    assert!(second.not_after > first.not_after);
}

#[test]
fn the_files_of_an_acceptor_are_all_that_it_reads() {
    let ca = Ca::new("CA");
    let folder = Folder::new();
    let mut tls = folder.listener(&[&ca.server(&["a.example"])]);
    tls.client_certificates = ClientCertificates::Optional;
    tls.client_ca = Some(folder.write("ca.pem", &ca.pem()));
    tls.client_crls = vec![folder.write("ca.crl", &ca.crl(&[]))];
    assert_eq!(
        tls.files(),
        ["server-0.crt", "server-0.key", "ca.pem", "ca.crl"].map(|name| folder.path(name))
    );
}
