//! Endpoints that the DNS names, from a name server of the test's own: they come, go and drain like those of the configuration.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use hickory_proto::op::{Message, MessageType, ResponseCode};
use hickory_proto::rr::rdata::{CNAME, SRV};
use hickory_proto::rr::{Name, RData, Record};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, UdpSocket};
use tokio::task::JoinSet;

use super::binary;
use super::reload::{REFUSED, replace};
use super::reload_agents::Desk;
use crate::harness::agent::Agent;
use crate::harness::{agent, eventually, get, of_task, post, send};

const NAME: &str = "_a2a._tcp.maps.internal";
const FAILURES: &str = "a2a_gateway_srv_failures_total{agent=\"a\"}";

/// What the name server says of every name that it is asked for.
#[derive(Clone)]
pub(super) enum Word {
    /// Priority, port.
    Hosts(Vec<(u16, u16)>),
    /// The same, over TCP alone.
    Long(Vec<(u16, u16)>),
    Code(ResponseCode),
    Nothing,
    /// Records of these names, CNAMEs among them, as they stand: owner, and what it says.
    Records(Vec<(&'static str, RData)>),
    /// Whatever bytes, behind the number of the question.
    Bytes(Vec<u8>),
}

pub(super) struct NameServer {
    pub address: SocketAddr,
    word: Arc<Mutex<Word>>,
    asked: Arc<Mutex<Vec<String>>>,
    _jobs: JoinSet<()>,
}

impl NameServer {
    pub async fn start(word: Word) -> Self {
        // The port that UDP gives may be taken over TCP.
        let (datagrams, streams) = loop {
            let datagrams = UdpSocket::bind("127.0.0.1:0").await.unwrap();
            if let Ok(streams) = TcpListener::bind(datagrams.local_addr().unwrap()).await {
                break (datagrams, streams);
            }
        };
        let address = datagrams.local_addr().unwrap();
        let word = Arc::new(Mutex::new(word));
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let mut jobs = JoinSet::new();
        let (said, heard) = (word.clone(), asked.clone());
        jobs.spawn(async move {
            let mut bytes = [0; 1500];
            loop {
                let (length, caller) = datagrams.recv_from(&mut bytes).await.unwrap();
                let question = Message::from_vec(&bytes[..length]).unwrap();
                heard.lock().unwrap().push(question.queries[0].name().to_string());
                let word = said.lock().unwrap().clone();
                if let Some(answer) = answer(&question, &word, false) {
                    datagrams.send_to(&answer, caller).await.unwrap();
                }
            }
        });
        let said = word.clone();
        jobs.spawn(async move {
            loop {
                let (mut stream, _) = streams.accept().await.unwrap();
                let mut bytes = vec![0; usize::from(stream.read_u16().await.unwrap())];
                stream.read_exact(&mut bytes).await.unwrap();
                let word = said.lock().unwrap().clone();
                let answer = answer(&Message::from_vec(&bytes).unwrap(), &word, true).unwrap();
                stream.write_u16(u16::try_from(answer.len()).unwrap()).await.unwrap();
                stream.write_all(&answer).await.unwrap();
            }
        });
        Self {
            address,
            word,
            asked,
            _jobs: jobs,
        }
    }

    pub(super) fn say(&self, word: Word) {
        *self.word.lock().unwrap() = word;
    }

    /// Once it was asked again, so often.
    async fn asked_again(&self, times: usize) {
        let before = self.asked.lock().unwrap().len();
        eventually("it is asked again", || async {
            self.asked.lock().unwrap().len() >= before + times
        })
        .await;
    }
}

fn answer(question: &Message, word: &Word, whole: bool) -> Option<Vec<u8>> {
    let mut answer = question.clone();
    answer.metadata.message_type = MessageType::Response;
    let (hosts, cut) = match word {
        Word::Hosts(hosts) => (&**hosts, false),
        Word::Long(hosts) if whole => (&**hosts, false),
        Word::Long(_) => (&[][..], true),
        Word::Code(code) => {
            answer.metadata.response_code = *code;
            (&[][..], false)
        }
        Word::Nothing => return None,
        Word::Records(records) => {
            for (owner, data) in records {
                let owner = Name::from_ascii(owner).unwrap();
                answer.add_answer(Record::from_rdata(owner, 1, data.clone()));
            }
            (&[][..], false)
        }
        Word::Bytes(bytes) => {
            let number = question.metadata.id.to_be_bytes();
            return Some([&number, &**bytes].concat());
        }
    };
    answer.metadata.truncation = cut;
    for (priority, port) in hosts {
        let target = Name::from_ascii("localhost.").unwrap();
        let record = RData::SRV(SRV::new(*priority, 1, *port, target));
        let name = question.queries[0].name().clone();
        answer.add_answer(Record::from_rdata(name, 1, record));
    }
    Some(answer.to_vec().unwrap())
}

async fn named(name: &'static str) -> Agent {
    Agent::start(agent::tasks(move || name.to_owned())).await
}

fn at(agents: &[&Agent]) -> Word {
    Word::Hosts(agents.iter().map(|agent| (10, agent.address.port())).collect())
}

fn yaml(server: SocketAddr, refresh: &str) -> String {
    let text = super::reload_agents::yaml(&[("a", &[], "")], "drain: 1h");
    text.replace(
        "endpoints: [  ]",
        &format!(
            "srv: {{ name: {NAME}, scheme: http, dns_server: \"{server}\" }}, dns_refresh: {refresh}, balance: round_robin"
        ),
    )
}

async fn ask(desk: &Desk, body: &str) -> (u16, Value) {
    let answer = post(desk.gateway.address, "/a", body).await;
    (answer.status, answer.json())
}

/// The task of a new call.
async fn made(desk: &Desk) -> String {
    let (status, answer) = ask(desk, &send("1", "x")).await;
    assert_eq!(status, 200, "{answer}");
    answer["result"]["task"]["id"].as_str().unwrap().to_owned()
}

/// The endpoints of which the agent consists, but for those that leave.
async fn urls(desk: &Desk) -> Vec<String> {
    let all = get(desk.gateway.admin, "/agents/a/endpoints").await.json();
    let staying = all["endpoints"].as_array().unwrap().iter();
    let staying = staying.filter(|one| one["removed_for_seconds"].is_null());
    staying.map(|one| one["url"].as_str().unwrap().to_owned()).collect()
}

fn sorted(agents: &[&Agent]) -> Vec<String> {
    let urls = agents
        .iter()
        .map(|agent| format!("http://localhost:{}/", agent.address.port()));
    let mut urls: Vec<String> = urls.collect();
    urls.sort();
    urls
}

async fn becomes(desk: &Desk, agents: &[&Agent]) {
    eventually("these are the endpoints", || async {
        urls(desk).await == sorted(agents)
    })
    .await;
}

#[tokio::test]
async fn endpoints_come_and_go_with_the_records() {
    let (a, b) = (named("of-a").await, named("of-b").await);
    let server = NameServer::start(at(&[&a])).await;
    let desk = Desk::of(&yaml(server.address, "100ms")).await;
    assert_eq!(urls(&desk).await, sorted(&[&a]));
    assert_eq!(made(&desk).await, "of-a");
    assert_eq!(server.asked.lock().unwrap()[0], format!("{NAME}."));

    server.say(at(&[&b, &a]));
    becomes(&desk, &[&a, &b]).await;
    let mut tasks = [made(&desk).await, made(&desk).await];
    tasks.sort();
    assert_eq!(tasks, ["of-a", "of-b"], "each takes its turn");

    server.say(at(&[&b]));
    becomes(&desk, &[&b]).await;
    for _ in 0..4 {
        assert_eq!(made(&desk).await, "of-b", "nothing new goes to the one that is gone");
    }
    let before = a.received().len();
    let (status, got) = ask(&desk, &of_task("GetTask", "of-a")).await;
    assert_eq!(
        (status, a.received().len()),
        (200, before + 1),
        "its task is found: {got}"
    );
    assert_eq!(desk.gateway.metric(FAILURES).await, 0.0);
    assert_eq!(desk.gateway.metric(REFUSED).await, 0.0);
}

#[tokio::test]
async fn an_answer_that_fails_or_is_empty_changes_nothing() {
    let a = named("of-a").await;
    let server = NameServer::start(at(&[&a])).await;
    let desk = Desk::of(&yaml(server.address, "100ms")).await;
    let words = [
        Word::Hosts(Vec::new()),
        Word::Code(ResponseCode::ServFail),
        Word::Code(ResponseCode::NXDomain),
        Word::Hosts(vec![(0, 0)]),
    ];
    for word in words {
        let before = desk.gateway.metric(FAILURES).await;
        server.say(word);
        eventually("two failures are counted", || async {
            desk.gateway.metric(FAILURES).await >= before + 2.0
        })
        .await;
        assert_eq!((urls(&desk).await, &*made(&desk).await), (sorted(&[&a]), "of-a"));
    }
    // Nor does a reload, which asks for nothing that is known.
    server.say(Word::Nothing);
    desk.apply(&yaml(server.address, "200ms")).await;
    assert_eq!((urls(&desk).await, &*made(&desk).await), (sorted(&[&a]), "of-a"));
}

#[tokio::test]
async fn only_records_of_the_lowest_priority_are_endpoints() {
    let (a, b) = (named("of-a").await, named("of-b").await);
    let (at_a, at_b) = (a.address.port(), b.address.port());
    let server = NameServer::start(Word::Hosts(vec![(20, at_b), (10, at_a)])).await;
    let desk = Desk::of(&yaml(server.address, "100ms")).await;
    assert_eq!(urls(&desk).await, sorted(&[&a]));
    server.say(Word::Hosts(vec![(20, at_b), (30, at_a)]));
    becomes(&desk, &[&b]).await;
    assert_eq!(made(&desk).await, "of-b");
}

#[tokio::test]
async fn an_answer_that_is_cut_off_is_asked_for_over_tcp() {
    let a = named("of-a").await;
    let server = NameServer::start(Word::Long(vec![(10, a.address.port())])).await;
    let desk = Desk::of(&yaml(server.address, "1h")).await;
    assert_eq!((urls(&desk).await, &*made(&desk).await), (sorted(&[&a]), "of-a"));
}

#[tokio::test]
async fn a_bad_file_does_not_keep_endpoints_from_changing() {
    let (a, b) = (named("of-a").await, named("of-b").await);
    let server = NameServer::start(at(&[&a])).await;
    let good = yaml(server.address, "100ms");
    let desk = Desk::of(&good).await;
    desk.refuse("agents: nonsense").await;
    server.say(at(&[&b]));
    becomes(&desk, &[&b]).await;
    assert_eq!(made(&desk).await, "of-b");
    replace(desk.folder.path(), "gateway.yaml", &good);
    assert!(desk.gateway.reload().await);
    server.asked_again(2).await;
    assert_eq!(urls(&desk).await, sorted(&[&b]));
}

#[tokio::test]
async fn a_reload_to_a_name_without_an_answer_is_refused() {
    let a = named("of-a").await;
    let server = NameServer::start(at(&[&a])).await;
    let good = yaml(server.address, "1h");
    let desk = Desk::of(&good).await;
    server.say(Word::Code(ResponseCode::NXDomain));
    desk.refuse(&good.replace("maps.internal", "other.internal")).await;
    assert_eq!((urls(&desk).await, &*made(&desk).await), (sorted(&[&a]), "of-a"));
}

#[tokio::test]
async fn a_start_without_an_answer_says_so_and_a_check_asks_nobody() {
    let server = NameServer::start(Word::Code(ResponseCode::NXDomain)).await;
    let folder = tempfile::tempdir().unwrap();
    let file = binary::file(&folder, &yaml(server.address, "1h"));
    let file = file.to_str().unwrap();
    let ended = binary::run(&["check", "--config", file]).await;
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(server.asked.lock().unwrap().is_empty());
    let ended = binary::run(&["run", "--config", file]).await;
    assert_eq!(ended.code, Some(64));
    let expected = format!(
        "agents[0].upstream.srv (line 14): `{NAME}` gives no endpoints: the name server {} says `Non-Existent Domain`",
        server.address
    );
    assert!(ended.stderr.contains(&expected), "{}", ended.stderr);
}

fn srv(port: u16) -> RData {
    RData::SRV(SRV::new(0, 1, port, Name::from_ascii("localhost.").unwrap()))
}

fn cname(target: &str) -> RData {
    RData::CNAME(CNAME(Name::from_ascii(target).unwrap()))
}

/// RFC 5452 §6: what stands beside the answer is nobody's word; RFC 1034 §3.6.2: the name may be another one's alias.
#[tokio::test]
async fn records_of_another_name_are_no_endpoints() {
    let (a, b) = (named("of-a").await, named("of-b").await);
    let (at_a, at_b) = (a.address.port(), b.address.port());
    let server = NameServer::start(Word::Records(vec![
        ("_a2a._tcp.evil.example.", srv(at_b)),
        ("_A2A._tcp.Maps.internal.", srv(at_a)),
    ]))
    .await;
    let desk = Desk::of(&yaml(server.address, "100ms")).await;
    assert_eq!(urls(&desk).await, sorted(&[&a]));
    // In any order.
    server.say(Word::Records(vec![
        ("_a2a._tcp.third.example.", srv(at_b)),
        ("_a2a._tcp.other.example.", cname("_a2a._tcp.third.example.")),
        ("_a2a._tcp.maps.internal.", cname("_a2a._tcp.other.example.")),
        ("_a2a._tcp.evil.example.", srv(at_a)),
    ]));
    becomes(&desk, &[&b]).await;
    for circle in [
        vec![("_a2a._tcp.evil.example.", srv(at_a))],
        vec![
            ("_a2a._tcp.maps.internal.", cname("_a2a._tcp.other.example.")),
            ("_a2a._tcp.other.example.", cname("_a2a._tcp.maps.internal.")),
            ("_a2a._tcp.evil.example.", srv(at_a)),
        ],
    ] {
        server.say(Word::Records(circle));
        let before = desk.gateway.metric(FAILURES).await;
        eventually("two failures are counted", || async {
            desk.gateway.metric(FAILURES).await >= before + 2.0
        })
        .await;
        assert_eq!(urls(&desk).await, sorted(&[&b]));
    }
}

#[tokio::test]
async fn whatever_a_name_server_sends_changes_nothing() {
    let a = named("of-a").await;
    let server = NameServer::start(at(&[&a])).await;
    let desk = Desk::of(&yaml(server.address, "100ms")).await;
    let question = b"\x04_a2a\x04_tcp\x04maps\x08internal\0\0\x21\0\x01";
    let other = b"\x04_a2a\x04_tcp\x04apps\x08internal\0\0\x21\0\x01";
    // One answer: a name, and the target of its record, which is at port 8080.
    let answer = |question: &[u8], owner: &[u8], target: &[u8]| {
        let length = u8::try_from(6 + target.len()).unwrap();
        let head = b"\x81\x80\0\x01\0\x01\0\0\0\0";
        let data = [0, length, 0, 0, 0, 0, 0x1f, 0x90];
        [head, question, owner, b"\0\x21\0\x01\0\0\0\x01", &data, target].concat()
    };
    let known = b"\xc0\x0c";
    for bytes in [
        vec![0xff; 600],
        // A name that leads to itself, and a target behind the end.
        answer(question, b"\xc0\x2c", known),
        answer(question, known, b"\xff\xff"),
        // Hosts that no URL can have.
        answer(question, known, b"\x04a/b@\0"),
        answer(question, known, b"\x03a#\xff\0"),
        // To another question.
        answer(other, known, b"\x09localhost\0"),
    ] {
        server.say(Word::Bytes(bytes));
        server.asked_again(2).await;
        assert_eq!((urls(&desk).await, &*made(&desk).await), (sorted(&[&a]), "of-a"));
    }
    assert_eq!(desk.gateway.metric(REFUSED).await, 0.0);
    // It would be an answer to the right one.
    server.say(Word::Bytes(answer(question, known, b"\x09localhost\0")));
    eventually("the endpoint is another", || async {
        urls(&desk).await == ["http://localhost:8080/"]
    })
    .await;
}
