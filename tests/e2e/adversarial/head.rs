//! Request heads and framing that two readers could take for two things (RFC 9112), targets and methods.

use super::site::{BOTH, CREDENTIAL, Http, JSON, Setup, Site, good, plain, rpc};
use super::wire::Wire;
use crate::harness::KEY;

/// Everything that a good call needs beside `Host` and its length.
fn fields() -> String {
    format!("X-API-Key: {KEY}\r\nContent-Type: application/json\r\n")
}

/// A good call behind this head, which ends without its empty line.
fn post(head: &str) -> String {
    format!("{head}{}\r\n{}", fields(), good())
}

fn length() -> usize {
    good().len()
}

#[tokio::test]
async fn smuggling_ends_in_400_and_the_end_of_the_connection() {
    let site = Site::usual().await;
    let (length, good) = (length(), good());
    let chunked = format!("{length:x}\r\n{good}\r\n0\r\n\r\n");
    let line = "POST /agent HTTP/1.1\r\nHost: a\r\n";
    let framed = |framing: &str, body: &str| format!("{line}{framing}{}\r\n{body}", fields());
    let both = format!("Content-Length: {}\r\n", chunked.len());
    let te = "Transfer-Encoding: chunked\r\n";
    let cl = format!("Content-Length: {length}\r\n");
    let cases: Vec<(&str, String)> = vec![
        ("a length, then chunked", framed(&format!("{both}{te}"), &chunked)),
        ("chunked, then a length", framed(&format!("{te}{both}"), &chunked)),
        ("the same length twice", framed(&format!("{cl}{cl}"), &good)),
        ("two lengths", framed(&format!("{cl}Content-Length: 3\r\n"), &good)),
        (
            "two lengths, the true one last",
            framed(&format!("Content-Length: 3\r\n{cl}"), &good),
        ),
        (
            "a list of lengths",
            framed(&format!("Content-Length: {length}, {length}\r\n"), &good),
        ),
        (
            "a signed length",
            framed(&format!("Content-Length: +{length}\r\n"), &good),
        ),
        ("a negative length", framed("Content-Length: -1\r\n", &good)),
        (
            "a length in hex",
            framed(&format!("Content-Length: 0x{length:x}\r\n"), &good),
        ),
        ("a length with a space inside", framed("Content-Length: 1 7\r\n", &good)),
        (
            "a length past 64 bits",
            framed("Content-Length: 18446744073709551617\r\n", &good),
        ),
        ("an empty length", framed("Content-Length:\r\n", &good)),
        ("chunked twice", framed(&format!("{te}{te}"), &chunked)),
        (
            "chunked in a list",
            framed("Transfer-Encoding: chunked, chunked\r\n", &chunked),
        ),
        (
            "chunked and identity",
            framed("Transfer-Encoding: chunked, identity\r\n", &chunked),
        ),
        (
            "gzip, then chunked",
            framed("Transfer-Encoding: gzip, chunked\r\n", &chunked),
        ),
        ("identity", framed("Transfer-Encoding: identity\r\n", &good)),
        (
            "a coding that looks like chunked",
            framed("Transfer-Encoding: xchunked\r\n", &chunked),
        ),
        (
            "a coding in quotes",
            framed("Transfer-Encoding: \"chunked\"\r\n", &chunked),
        ),
        (
            "a coding behind a vertical tab",
            framed("Transfer-Encoding: \x0bchunked\r\n", &chunked),
        ),
        (
            "a folded coding",
            framed("Transfer-Encoding:\r\n chunked\r\n", &chunked),
        ),
        (
            "a space before the colon of the coding",
            framed("Transfer-Encoding : chunked\r\n", &chunked),
        ),
        (
            "a space before the colon of the length",
            framed(&format!("Content-Length : {length}\r\n"), &good),
        ),
        ("a folded field", framed(&format!("{cl}X-A: 1\r\n 2\r\n"), &good)),
        (
            "a field folded by a tab",
            framed(&format!("{cl}X-A: 1\r\n\t2\r\n"), &good),
        ),
        (
            "a first field that is folded",
            format!(
                "POST /agent HTTP/1.1\r\n X-A: 1\r\nHost: a\r\n{cl}{}\r\n{good}",
                fields()
            ),
        ),
        (
            "a length behind a bare line feed",
            framed(&format!("X-A: 1\nContent-Length: {length}\r\n"), &good),
        ),
        ("bare line feeds only", framed(&cl, &good).replace("\r\n", "\n")),
        (
            "an empty line of a bare line feed",
            format!("{line}{cl}{}\n{good}", fields()),
        ),
        (
            "a bare carriage return in a value",
            framed(&format!("X-A: 1\rContent-Length: 3\r\n{cl}"), &good),
        ),
        ("a NUL in a value", framed(&format!("X-A: 1\02\r\n{cl}"), &good)),
        ("a field without a colon", framed(&format!("X-A\r\n{cl}"), &good)),
        ("a field without a name", framed(&format!(": 1\r\n{cl}"), &good)),
        ("a name with a quote", framed(&format!("X\"A: 1\r\n{cl}"), &good)),
        (
            "an underscore twin of the length",
            framed(&format!("{cl}Content_Length: 3\r\n"), &good),
        ),
        (
            "an underscore twin of the credential",
            framed(&format!("{cl}X_API_Key: other\r\n"), &good),
        ),
        ("an empty line first", format!("\r\n{}", framed(&cl, &good))),
        ("a space first", format!(" {}", framed(&cl, &good))),
    ];
    for (what, bytes) in cases {
        site.refuses(what, bytes, rpc("bad_head", "null")).await;
    }
    let old = format!("POST /agent HTTP/1.0\r\nHost: a\r\n{te}{}\r\n{chunked}", fields());
    site.refuses("chunked in HTTP/1.0", old, rpc("bad_head", "null")).await;
    site.done().await;
}

#[tokio::test]
async fn request_lines_and_hosts_that_are_not_plain_end_in_400() {
    let site = Site::usual().await;
    let cl = format!("Content-Length: {}\r\n", length());
    let head = |line: &str, hosts: &str| post(&format!("{line}\r\n{hosts}{cl}"));
    let plain_host = "Host: a\r\n";
    for line in [
        "POST  /agent HTTP/1.1",
        "POST /agent  HTTP/1.1",
        "POST\t/agent HTTP/1.1",
        "POST /agent HTTP/1.1 ",
        "POST /agent",
        "POST /agent HTTP/1.2",
        "POST /agent HTTP/2.0",
        "POST /agent HTTP/3",
        "POST /agent http/1.1",
        "POST /agent HTTP/01.1",
        "POST /agent#x HTTP/1.1",
        "POST /agent\u{e9} HTTP/1.1",
        "POST /agent\0 HTTP/1.1",
        "POST /agent\x7f HTTP/1.1",
        "PO\"ST /agent HTTP/1.1",
        "(POST) /agent HTTP/1.1",
    ] {
        site.refuses(line, head(line, plain_host), rpc("bad_head", "null"))
            .await;
    }
    for hosts in [
        "",
        "Host: a\r\nHost: a\r\n",
        "Host: a\r\nHost: b\r\n",
        "Host:\r\n",
        "Host: a b\r\n",
        "Host: user@a\r\n",
        "Host: a/agent\r\n",
        "Host: a?b\r\n",
        "Host: a:\r\n",
        "Host: a:0\r\n",
        "Host: a:+80\r\n",
        "Host: a:65536\r\n",
        "Host: a:x\r\n",
        "Host: [::1\r\n",
        "Host: a, b\r\n",
        "Host: http://a\r\n",
    ] {
        site.refuses(hosts, head("POST /agent HTTP/1.1", hosts), rpc("bad_head", "null"))
            .await;
    }
    for target in [
        "http://b/agent",
        "http://a:81/agent",
        "http://user@a/agent",
        "http://a@b/agent",
        "https://b/agent",
    ] {
        let line = format!("POST {target} HTTP/1.1");
        site.refuses(target, head(&line, plain_host), rpc("bad_head", "null"))
            .await;
    }
    // An absolute target that agrees is what a proxy sends.
    let (answer, _wire) = site.raw(head("POST http://a/agent HTTP/1.1", plain_host)).await;
    site.passed("an absolute target", &answer);
    site.done().await;
}

#[tokio::test]
async fn paths_that_somebody_could_resolve_are_refused() {
    let site = Site::usual().await;
    for http in BOTH {
        for target in [
            "/agent/../agent",
            "/x/../agent",
            "/./agent",
            "/agent/.",
            "/agent/..",
            "/%2e/agent",
            "/x/%2E%2e/agent",
            "/x/.%2e/agent",
            "//agent",
            "/agent//",
            "/agent%2f",
            "/%2Fagent",
            "/x%5c..%5cagent",
            "/agent%00",
        ] {
            let answer = site.request(http, "POST", target, &[JSON, CREDENTIAL], good()).await;
            site.refused(&format!("{target}, {http:?}"), &answer, rpc("bad_head", "null"))
                .await;
        }
        for target in [
            "/Agent",
            "/agent;x=1",
            "/agent/x",
            "/agentx",
            "/",
            "/agent/.well-known/../",
            "*",
        ] {
            let clean = !target.contains("..");
            if target == "*" && http == Http::Two {
                continue;
            }
            let answer = site.request(http, "POST", target, &[JSON, CREDENTIAL], good()).await;
            let reason = if clean { "no_route" } else { "bad_head" };
            site.refused(&format!("{target}, {http:?}"), &answer, rpc(reason, "null"))
                .await;
        }
        let answer = site.request(http, "GET", "/agent/../x", &[], "").await;
        site.refused("plain form", &answer, plain("bad_head")).await;
        let answer = site.request(http, "GET", "/nobody", &[], "").await;
        site.refused("plain form", &answer, plain("no_route")).await;
    }
    site.done().await;
}

#[tokio::test]
async fn other_methods_are_told_which_ones_there_are() {
    let site = Site::usual().await;
    for http in BOTH {
        for method in ["TRACE", "PUT", "PATCH", "CONNECTS", "post", "PRI", "PROPFIND"] {
            let answer = site.request(http, method, "/agent", &[JSON, CREDENTIAL], good()).await;
            site.refused(&format!("{method}, {http:?}"), &answer, plain("method_not_allowed"))
                .await;
            assert_eq!(
                answer.header("allow"),
                Some("GET, HEAD, POST, DELETE, OPTIONS"),
                "{method}"
            );
        }
        for method in ["GET", "DELETE", "OPTIONS"] {
            let answer = site.request(http, method, "/agent", &[CREDENTIAL], "").await;
            site.refused(&format!("{method}, {http:?}"), &answer, plain("method_not_allowed"))
                .await;
            assert_eq!(answer.header("allow"), Some("POST"), "{method}");
        }
    }
    // TRACE must not echo the credential that a browser would have added.
    let (answer, _wire) = site.raw("CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n").await;
    site.refused("CONNECT", &answer, plain("method_not_allowed")).await;
    site.done().await;
}

#[tokio::test]
async fn broken_chunks_end_in_400() {
    let site = Site::usual().await;
    let (good, length) = (good(), length());
    let head = format!(
        "POST /agent HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n{}\r\n",
        fields()
    );
    for (what, body) in [
        ("a size that is no number", format!("x\r\n{good}\r\n0\r\n\r\n")),
        ("a size in 0x", format!("0x{length:x}\r\n{good}\r\n0\r\n\r\n")),
        ("a signed size", format!("+{length:x}\r\n{good}\r\n0\r\n\r\n")),
        ("a negative size", format!("-{length:x}\r\n{good}\r\n0\r\n\r\n")),
        ("a size behind a space", format!(" {length:x}\r\n{good}\r\n0\r\n\r\n")),
        ("a size before a space", format!("{length:x} \r\n{good}\r\n0\r\n\r\n")),
        ("a size past 64 bits", format!("1{length:016x}\r\n{good}\r\n0\r\n\r\n")),
        ("an empty size", format!("\r\n{good}\r\n0\r\n\r\n")),
        (
            "a size before a bare line feed",
            format!("{length:x}\n{good}\r\n0\r\n\r\n"),
        ),
        (
            "an extension before a bare line feed",
            format!("{length:x};a\n{good}\r\n0\r\n\r\n"),
        ),
        (
            "a bare carriage return in an extension",
            format!("{length:x};a\rb\r\n{good}\r\n0\r\n\r\n"),
        ),
        (
            "an extension of 300 bytes",
            format!("{length:x};{}\r\n{good}\r\n0\r\n\r\n", "a".repeat(300)),
        ),
        (
            "data longer than its size",
            format!("{:x}\r\n{good}\r\n0\r\n\r\n", length - 1),
        ),
        (
            "data shorter than its size",
            format!("{:x}\r\n{good}\r\n0\r\n\r\n", length + 1),
        ),
        (
            "data before a bare line feed",
            format!("{length:x}\r\n{good}\n0\r\n\r\n"),
        ),
        (
            "trailers without end",
            format!("{length:x}\r\n{good}\r\n0\r\n{}", "X: 1\r\n".repeat(3000)),
        ),
    ] {
        site.refuses(what, format!("{head}{body}"), rpc("body_malformed", "null"))
            .await;
        // Head and body in two reads: the caller is known by then.
        let mut wire = Wire::to(site.gateway.address).await;
        wire.send(&head).await;
        tokio::task::yield_now().await;
        wire.send(&body).await;
        let answer = wire.answer().await;
        site.refused(what, &answer, rpc("body_malformed", "null")).await;
        wire.closes().await;
    }
    site.done().await;
}

#[tokio::test]
async fn clean_chunks_and_trailers_pass_and_stay_behind() {
    let site = Site::usual().await;
    let (good, length) = (good(), length());
    let (begin, end) = good.split_at(10);
    let head = format!(
        "POST /agent HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: X-Late\r\n{}\r\n",
        fields()
    );
    for body in [
        format!("{length:X}\r\n{good}\r\n0\r\n\r\n"),
        format!(
            "A;x=1\r\n{begin}\r\n{:x}\r\n{end}\r\n0\r\nX-Late: 1\r\nX-API-Key: other\r\n\r\n",
            end.len()
        ),
    ] {
        let (answer, _wire) = site.raw(format!("{head}{body}")).await;
        site.passed("chunked", &answer);
        let received = site.agent.received().pop().expect("received");
        assert_eq!(String::from_utf8_lossy(&received.body), good);
        assert_eq!(received.field("content-length"), Some(length.to_string().as_str()));
        for name in ["x-late", "trailer", "transfer-encoding", "x-api-key"] {
            assert_eq!(received.field(name), None, "{name}");
        }
    }
    site.done().await;
}

#[tokio::test]
async fn a_request_hidden_in_a_body_stays_a_body() {
    let site = Site::usual().await;
    let hidden = "POST /agent HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n";
    let body = good().replace("hi", &hidden.replace("\r\n", "\\r\\n"));
    let head = format!(
        "POST /agent HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n{}\r\n",
        body.len(),
        fields()
    );
    let (answer, _wire) = site.raw(format!("{head}{body}")).await;
    site.passed("hidden in a text", &answer);
    assert_eq!(site.agent.received().pop().expect("received").body, body.as_bytes());

    // The body is a request, byte for byte: refused as a body, and never looked at as a request.
    let inner = post(&format!(
        "POST /agent HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n",
        length()
    ));
    let head = format!(
        "POST /agent HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n{}\r\n",
        inner.len(),
        fields()
    );
    let (answer, mut wire) = site.raw(format!("{head}{inner}")).await;
    site.refused("a request as a body", &answer, rpc("parse_error", "null"))
        .await;
    // The connection is still in step: the next request on it is the next one.
    wire.send(post(&format!(
        "POST /agent HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n",
        length()
    )))
    .await;
    site.passed("the next request", &wire.answer().await);
    site.agent_saw_only_what_passed();

    // A shorter length than the body: what is left over is a head, and a broken one.
    let short = post(&format!(
        "POST /agent HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n",
        length() - 1
    ));
    let (answer, mut wire) = site.raw(short).await;
    site.is_refusal("cut by its own length", &answer, rpc("parse_error", "null"));
    // One byte that begins nothing: it waits for the rest of a head until the caller gives up.
    wire.send("\r\n\r\n").await;
    let answer = wire.answer().await;
    site.refused("the byte left over", &answer, rpc("bad_head", "null"))
        .await;
    wire.closes().await;
    site.done().await;
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order_and_a_broken_one_ends_the_rest() {
    let site = Site::usual().await;
    let one = post(&format!(
        "POST /agent HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n",
        length()
    ));
    let bad = "POST /agent HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n";
    let unknown = "GET /nobody HTTP/1.1\r\nHost: a\r\n\r\n";
    let (first, mut wire) = site.raw(format!("{one}{unknown}{one}{bad}{one}")).await;
    site.passed("the first", &first);
    site.is_refusal("the second", &wire.answer().await, plain("no_route"));
    site.passed("the third", &wire.answer().await);
    site.refused("the fourth", &wire.answer().await, rpc("bad_head", "null"))
        .await;
    wire.closes().await;

    let broken = format!(
        "POST /agent HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n{}\r\nx\r\n",
        fields()
    );
    let (first, mut wire) = site.raw(format!("{one}{broken}{one}")).await;
    site.passed("before a broken body", &first);
    site.refused("the broken body", &wire.answer().await, rpc("body_malformed", "null"))
        .await;
    wire.closes().await;
    site.done().await;
}

#[tokio::test]
async fn a_caller_cannot_pose_as_a_refused_head() {
    let site = Site::usual().await;
    let posing = "POST / HTTP/1.1\r\nhost: refused\r\ncontent-length: 0\r\n\r\n";
    let (answer, mut wire) = site.raw(format!("{posing}{posing}")).await;
    site.is_refusal("nothing was refused", &answer, rpc("no_route", "null"));
    site.refused("nothing was refused", &wire.answer().await, rpc("no_route", "null"))
        .await;
    site.done().await;
}

#[tokio::test]
async fn hop_by_hop_and_identity_fields_stay_behind() {
    let site = Site::start(Setup::default()).await;
    for http in BOTH {
        let mut fields = vec![
            JSON,
            CREDENTIAL,
            ("x-forwarded-for", "6.6.6.6"),
            ("x-forwarded-host", "evil.example"),
            ("x-forwarded-user", "root"),
            ("forwarded", "for=6.6.6.6"),
            ("x-real-ip", "6.6.6.6"),
            ("x-request-id", "mine"),
            ("x-original-url", "/admin"),
            ("authorization", "Bearer other"),
            ("cookie", "a=b"),
            ("te", "trailers"),
            ("x-kept", "1"),
        ];
        if http == Http::One {
            fields.extend([
                ("connection", "keep-alive, X-Hop"),
                ("connection", "x-other-hop"),
                ("x-hop", "1"),
                ("x-other-hop", "1"),
                ("upgrade", "h2c"),
                ("http2-settings", "AAMAAABkAAQAAP__"),
                ("keep-alive", "timeout=5"),
                ("proxy-connection", "keep-alive"),
                ("proxy-authorization", "Basic eDp5"),
            ]);
        }
        site.passed("hop by hop", &site.post(http, &fields, good()).await);
        let received = site.agent.received().pop().expect("received");
        for (name, _) in &fields[6..fields.len()] {
            let kept = ["x-kept", "x-request-id"].contains(name);
            assert_eq!(
                received.field(name).is_some(),
                kept,
                "{name}, {http:?}: {}",
                received.head
            );
        }
        assert_eq!(received.field("x-forwarded-for"), Some("127.0.0.1"));
        assert_ne!(received.field("x-forwarded-host"), Some("evil.example"));
        assert_ne!(received.field("x-request-id"), Some("mine"));
        for name in ["x-api-key", "x-forwarded-user", "forwarded"] {
            assert_eq!(received.field(name), None, "{name}");
        }
    }
    site.done().await;
}
