use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener};
use std::os::fd::OwnedFd;

use mbuma::runtime::{Interest, Poller};

use super::super::ports::Guests;
use super::*;
use crate::channel::{Channel, ChannelMessage};
use crate::guest::GuestEnd;
use crate::guests::GuestSpec;
use crate::sys::tap::Offloads;

/// An API without a listener, its ports, and a gateway process that is played by the test.
struct Bench {
    api: Api,
    set: Poller,
    ports: Ports,
    requests: Requests,
    gateway: Channel,
    played: Channel,
}

impl Bench {
    fn new() -> Bench {
        let set = Poller::new().expect("an epoll set");
        let (gateway, played) = Channel::pair().expect("a socket pair");
        Bench {
            api: Api::new(Vec::new(), &set, 3).expect("nothing to watch"),
            set,
            ports: Ports::new(Guests::One {
                end: GuestEnd::usual(),
                loopback: true,
            }),
            requests: Requests::default(),
            gateway,
            played,
        }
    }

    /// The answer to the pieces of a request, one after the other.
    fn ask(&mut self, pieces: &[&str], ends: bool) -> String {
        let (mut client, stream) = UnixStream::pair().expect("a socket pair");
        stream.set_nonblocking(true).expect("an option");
        self.api.clients.insert(9, ApiClient::new(stream));
        for piece in pieces {
            client.write_all(piece.as_bytes()).expect("it is read");
            self.attend();
        }
        if ends {
            client.shutdown(Shutdown::Write).expect("it is open");
            self.attend();
        }
        self.gateway_answers(None);
        assert!(self.api.clients.is_empty(), "it is answered");
        let mut text = String::new();
        client.read_to_string(&mut text).expect("it is closed");
        text
    }

    fn attend(&mut self) {
        let requests = &mut self.requests;
        self.api.attend(&self.set, &mut self.ports, requests);
    }

    /// The gateway process gets all requests, and gives this answer to each.
    fn gateway_answers(&mut self, refused: Option<&str>) {
        loop {
            self.requests.send(&self.gateway).expect("it has room");
            let Some(request) = self.requests.take_answered() else {
                return;
            };
            if let Some(Requester::Client(number)) = request.requester {
                let refused = refused.map(str::to_owned);
                self.api.answered(&self.set, number, refused);
            }
        }
    }

    fn heard(&self) -> (ChannelMessage, Option<OwnedFd>) {
        self.played.recv().expect("a message").expect("a message")
    }
}

fn free_port() -> u16 {
    let any = TcpListener::bind("127.0.0.1:0").expect("a free port");
    any.local_addr().expect("it is bound").port()
}

#[test]
fn lines_of_podman_and_rootlesskit_are_answered_as_recorded() {
    // Breaks when an engine that publishes ports by slirp4netns's API fails its containers.
    let mut bench = Bench::new();
    let port = free_port();
    let podman = format!(
        "{{\"execute\":\"add_hostfwd\",\"arguments\":{{\"proto\":\"tcp\",\"host_addr\":\"127.0.0.1\",\
         \"host_port\":{port},\"guest_addr\":\"\",\"guest_port\":80}}}}\n"
    );
    assert_eq!(bench.ask(&[&podman], true), r#"{"return":{"id":1}}"#);
    let (message, socket) = bench.heard();
    let ChannelMessage::Publish(specs) = message else {
        panic!("{message:?}")
    };
    let spec = specs[0];
    assert_eq!(
        (spec.id, spec.publish.guest_port, spec.publish.guest_addr),
        (1, 80, None)
    );
    assert!(
        socket.is_some(),
        "the gateway process binds no published port"
    );

    let again = bench.ask(&[&podman], false);
    assert!(
        again.starts_with(r#"{"error":{"desc":"bad request"#),
        "in use: {again}"
    );

    let udp = podman
        .replace("tcp", "udp")
        .replace("\"\"", "\"10.0.2.50\"");
    let (first, second) = udp.split_at(40);
    assert_eq!(bench.ask(&[first, second], false), r#"{"return":{"id":2}}"#);
    bench.heard();
    let list = bench.ask(&[r#"{"execute":"list_hostfwd"}"#], true);
    let list: Value = serde_json::from_str(&list).expect("JSON");
    assert_eq!(list["return"]["entries"][1]["guest_addr"], "10.0.2.50");
    assert_eq!(list["return"]["entries"][1]["proto"], "udp");
    let text = format!("127.0.0.1:{port}:10.0.2.50:80/udp");
    assert_eq!(list["return"]["entries"][1]["text"], text);

    let remove = r#"{"execute":"remove_hostfwd","arguments":{"id":1}}"#;
    assert_eq!(bench.ask(&[remove], true), r#"{"return":{}}"#);
    assert_eq!(bench.heard().0, ChannelMessage::Unpublish(1));
    assert!(bench.ask(&[remove], true).contains("bad id"));
}

/// A request to publish a port of the guest at `addr`.
fn add(addr: &str) -> String {
    let port = free_port();
    format!(
        "{{\"execute\":\"add_hostfwd\",\"arguments\":{{\"proto\":\"tcp\",\"host_addr\":\"127.0.0.1\",\
         \"host_port\":{port},\"guest_addr\":\"{addr}\",\"guest_port\":80}}}}"
    )
}

#[test]
fn a_port_leads_to_an_address_that_the_guest_may_have() {
    // Breaks when a port leads to an address that no guest can have, whose clients then wait in vain; or an engine
    // can't name an address that the guest adds to its interface.
    let mut bench = Bench::new();
    for right in [
        "",
        "10.0.2.100",
        "10.0.2.7",
        "127.0.0.1",
        "fd00::100",
        "fd00::7",
    ] {
        let answer = bench.ask(&[&add(right)], true);
        assert!(answer.contains("return"), "{right}: {answer}");
    }
    for wrong in [
        "10.0.2.0",
        "10.0.2.2",
        "10.0.2.3",
        "10.0.2.255",
        "10.9.9.9",
        "127.0.0.2",
        "0.0.0.0",
        "fd00::",
        "fd00::2",
        "fd00::3",
        "fd01::100",
        "::1",
        "fe80::100",
    ] {
        let answer = bench.ask(&[&add(wrong)], true);
        let said =
            format!("{wrong} is no address of the guest, which has 10.0.2.100 and fd00::100");
        assert!(answer.contains(&said), "{wrong}: {answer}");
    }
}

#[test]
fn a_port_of_a_network_leads_to_a_guest_that_is_there() {
    // Breaks when a port of an address without a guest waits for the next guest there, or one outlives its guest
    // because it was published by the guest's address of IPv6.
    let mut bench = Bench::new();
    bench.ports = Ports::new(Guests::Network(BTreeMap::new()));
    assert!(bench.ask(&[&add("")], true).contains("several guests"));
    assert!(bench.ask(&[&add("10.0.2.101")], true).contains("no guest"));
    let addr = Ipv4Addr::new(10, 0, 2, 101);
    bench.ports.guest_joined(&GuestSpec {
        id: 1,
        addr,
        addr6: Some("fd00::101".parse().expect("an address")),
        name: None,
        offloads: Offloads::default(),
    });
    for addr in ["10.0.2.101", "fd00::101"] {
        assert!(bench.ask(&[&add(addr)], true).contains("return"));
    }
    assert!(bench.ask(&[&add("10.0.2.100")], true).contains("no guest"));
    bench.ports.guest_left(addr, &mut bench.requests);
    assert!(bench.ports.list().is_empty());
    assert!(bench.ask(&[&add("10.0.2.101")], true).contains("no guest"));
}

#[test]
fn what_is_no_request_is_an_error_and_ends() {
    // Breaks when a client that sends no valid request, or never ends it, keeps its place or memory.
    let mut bench = Bench::new();
    for wrong in [
        "x".to_owned(),
        r#"{"execute":"x"}"#.to_owned(),
        r#"{"execute":"add_hostfwd","arguments":{"proto":"sctp","host_port":1,"guest_port":1}}"#
            .to_owned(),
        r#"{"execute":"add_hostfwd","arguments":{"proto":"tcp","host_port":0,"guest_port":1}}"#
            .to_owned(),
        format!("{{\"execute\":\"{}", "x".repeat(REQUEST_MAX)),
    ] {
        let said = bench.ask(&[&wrong], false);
        assert!(
            said.starts_with(r#"{"error":{"desc":"bad request"#),
            "{said}"
        );
    }
    assert!(
        bench.ask(&[r#"{"execute":"#], true).contains("error"),
        "half of one"
    );
    assert_eq!(bench.ask(&[], true), "", "none at all");
}

#[test]
fn an_answer_longer_than_a_socket_holds_arrives_whole() {
    // Breaks when the list of a thousand ports is cut off, which is no JSON any more.
    let mut bench = Bench::new();
    let (mut client, stream) = UnixStream::pair().expect("a socket pair");
    // A machine may give sockets much larger buffers than most do.
    rustix::net::sockopt::set_socket_send_buffer_size(&stream, 64 << 10).expect("an option");
    client.set_nonblocking(true).expect("an option");
    stream.set_nonblocking(true).expect("an option");
    bench
        .set
        .add(fd(&stream), 9_u64, Interest::Read)
        .expect("it is open");
    bench.set.remove(fd(&stream)).expect("as after its request");
    let mut asked = ApiClient::new(stream);
    let answer = json!("x".repeat(4 << 20));
    let waits = asked.answer(Ok(answer.clone()), &bench.set, 9);
    assert!(waits, "the socket is full");
    bench.api.clients.insert(9, asked);
    let mut text = Vec::new();
    while !bench.api.clients.is_empty() {
        let end = client.read_to_end(&mut text);
        assert_eq!(end.map_err(|e| e.kind()), Err(ErrorKind::WouldBlock));
        bench.attend();
    }
    // A process that another test starts may have a copy of the other descriptor for a while.
    client.set_nonblocking(false).expect("an option");
    client.read_to_end(&mut text).expect("it is closed");
    let whole = json!({ "return": answer }).to_string();
    assert!(text == whole.into_bytes());
}

#[test]
fn a_port_is_published_only_when_the_gateway_process_says_so() {
    // Breaks when a client is told of a port that the gateway process could not take; or when a gateway process that
    // does not answer keeps other clients waiting.
    let mut bench = Bench::new();
    let mut client = |number: u64, request: &str| {
        let (mut client, stream) = UnixStream::pair().expect("a socket pair");
        stream.set_nonblocking(true).expect("an option");
        client.set_nonblocking(true).expect("an option");
        client.write_all(request.as_bytes()).expect("it has room");
        bench.api.clients.insert(number, ApiClient::new(stream));
        bench.attend();
        client
    };
    let text = |mut client: &UnixStream| {
        let mut text = String::new();
        let read = client.read_to_string(&mut text);
        read.map(|_| text).map_err(|e| e.kind())
    };
    let waits = client(1, &add(""));
    let list = client(2, r#"{"execute":"list_hostfwd"}"#);
    assert_eq!(text(&waits), Err(ErrorKind::WouldBlock));
    assert!(text(&list).is_ok_and(|text| text.contains("entries")));
    bench.gateway_answers(Some("no room"));
    let refused = text(&waits).expect("an answer");
    assert!(
        refused.starts_with(r#"{"error":{"desc":"bad request: add_hostfwd: 127.0.0.1:"#)
            && refused.ends_with(r#": no room"}}"#),
        "{refused}"
    );
}

#[test]
fn clients_that_wait_for_an_answer_give_way_to_none() {
    // Breaks when one of many clients at once is closed while the gateway process opens its port, so that it takes an
    // open port for a refused one; when clients that say nothing keep others out; or when one that found no room waits
    // although there is some.
    let mut bench = Bench::new();
    let path = std::env::temp_dir().join(format!("mbuma-api-many-{}", std::process::id()));
    let listener = UnixListener::bind(&path).expect("a free name");
    listener.set_nonblocking(true).expect("an option");
    bench.api = Api::new(vec![listener], &bench.set, 3).expect("it is watched");
    let silent = UnixStream::connect(&path).expect("it listens");
    bench.attend();
    let numbers = 100..100 + CLIENTS_MAX as u64;
    let mut asking = Vec::new();
    for number in numbers.clone() {
        let (client, stream) = UnixStream::pair().expect("a socket pair");
        let state = ApiState::Asked(AskedGateway {
            fulfilled: json!({}),
            refused: String::new(),
        });
        let one = ApiClient {
            state,
            ..ApiClient::new(stream)
        };
        bench.api.clients.insert(number, one);
        asking.push(client);
    }
    let _waits = UnixStream::connect(&path).expect("it listens");
    std::fs::remove_file(&path).expect("ours");
    bench.attend();
    let is_asking = |api: &Api| {
        numbers
            .clone()
            .all(|number| api.clients.contains_key(&number))
    };
    assert!(is_asking(&bench.api) && bench.api.clients.len() == CLIENTS_MAX);
    assert_eq!((&silent).read(&mut [0]).expect("it is closed"), 0);
    bench.api.answered(&bench.set, 100, None);
    assert_eq!(bench.api.clients.len(), CLIENTS_MAX);
    assert!(!is_asking(&bench.api), "another one has the place");
}
