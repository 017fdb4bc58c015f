//! Which endpoints follow from records, and which name servers from `resolv.conf`.

use std::net::SocketAddr;

use hickory_proto::op::{Message, MessageType};
use hickory_proto::rr::Name;
use hickory_proto::rr::rdata::SRV;

use tokio::net::UdpSocket;

use super::*;
use crate::config::Environment;

fn srv(secure: bool) -> Srv {
    Srv {
        name: "_a2a._tcp.maps.internal".to_owned(),
        secure,
        path: "/rpc".to_owned(),
        dns_server: None,
    }
}

fn record(priority: u16, weight: u16, port: u16, target: &str) -> SRV {
    SRV::new(priority, weight, port, Name::from_ascii(target).unwrap())
}

fn urls(srv: &Srv, records: &[SRV]) -> Vec<String> {
    let found = endpoints(srv, records).unwrap();
    found.into_iter().map(|endpoint| endpoint.url).collect()
}

#[test]
fn records_of_the_lowest_priority_are_endpoints_in_one_order_and_form() {
    let records = [
        record(20, 0, 8080, "spare.internal."),
        record(10, 1, 8080, "B.internal."),
        record(10, 90, 8080, "a.internal."),
        record(10, 5, 80, "a.internal."),
        record(10, 7, 8080, "a.internal."),
    ];
    let expected = [
        "http://a.internal/rpc",
        "http://a.internal:8080/rpc",
        "http://b.internal:8080/rpc",
    ];
    assert_eq!(urls(&srv(false), &records), expected);
    assert_eq!(
        urls(&srv(true), &[record(0, 0, 443, "a.internal.")]),
        ["https://a.internal/rpc"]
    );
}

#[test]
fn records_that_name_nobody_are_no_endpoints() {
    let nobody = [record(0, 0, 8080, "."), record(1, 0, 0, "a.internal.")];
    assert!(matches!(endpoints(&srv(false), &nobody), Err(Error::Empty)));
    assert!(matches!(endpoints(&srv(false), &[]), Err(Error::Empty)));
    let mut some = nobody.to_vec();
    some.push(record(9, 0, 8080, "c.internal."));
    assert_eq!(urls(&srv(false), &some), ["http://c.internal:8080/rpc"]);
}

#[test]
fn there_are_at_most_64() {
    let records: Vec<SRV> = (0..=MOST_ENDPOINTS)
        .map(|index| record(0, 0, 8080, &format!("h{index:02}.internal.")))
        .collect();
    assert_eq!(urls(&srv(false), &records[..MOST_ENDPOINTS]).len(), 64);
    let found = urls(&srv(false), &records);
    assert_eq!(
        (found.len(), &*found[63]),
        (64, "http://h63.internal:8080/rpc"),
        "the last by its URL is not used"
    );
}

#[test]
fn name_servers_of_the_system() {
    let text = "# nameserver 10.0.0.9\nsearch x\nnameserver 10.0.0.1\nnameserver fe80::1%eth0\n\
                nameserver ::1\nnameserver 10.0.0.2\nnameserver 10.0.0.3\n";
    let expected = ["10.0.0.1:53", "[::1]:53", "10.0.0.2:53"].map(|text| text.parse::<SocketAddr>().unwrap());
    assert_eq!(ask::servers(text), expected);
    assert_eq!(ask::servers("options ndots:5\n"), []);
}

/// However many agents there are.
#[tokio::test]
async fn so_many_questions_are_under_way_at_most() {
    const AGENTS: usize = 300;
    let server = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = server.local_addr().unwrap();
    let mut most = 0;
    // Answers when nobody asks any more.
    let serving = async {
        let (mut bytes, mut asked) = ([0; 1500], Vec::new());
        loop {
            if let Ok(got) = timeout(Duration::from_millis(100), server.recv_from(&mut bytes)).await {
                let (length, caller) = got.unwrap();
                let mut answer = Message::from_vec(&bytes[..length]).unwrap();
                answer.metadata.message_type = MessageType::Response;
                asked.push((answer.to_vec().unwrap(), caller));
                most = most.max(asked.len());
                continue;
            }
            for (answer, caller) in asked.drain(..) {
                server.send_to(&answer, caller).await.unwrap();
            }
        }
    };
    let agents = (0..AGENTS).map(|index| {
        format!(
            "{{ name: a{index}, path: /a{index}, upstream: {{ srv: {{ name: n{index}.internal, dns_server: \"{address}\" }} }} }}, "
        )
    });
    let text = format!(
        "public_url: https://gateway.example\nlisteners: [ {{ name: public, address: 127.0.0.1:0 }} ]\nstate: {{ store: memory }}\nagents: [ {} ]",
        agents.collect::<String>()
    );
    let mut config = crate::config::parse(&text, Path::new("/"), &Environment::default()).unwrap();
    let names = Names::new(&Metrics::new().unwrap());
    let problems = tokio::select! {
        problems = names.settle(&mut config) => problems,
        () = serving => Vec::new(),
    };
    assert_eq!(problems.len(), AGENTS);
    let is_answered = |problem: &Problem| problem.cause.contains("names no host");
    assert!(problems.iter().all(is_answered), "{problems:?}");
    assert!(most <= MOST_QUESTIONS, "{most}");
}
