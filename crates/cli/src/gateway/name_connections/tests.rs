//! Guests, as another stack in virtual time, ask over TCP; the resolver is a thread.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener as HostListener, TcpStream as HostStream};
use std::sync::mpsc::{self, Receiver};
use std::thread;

use kern::{Clock, VirtualClock};
use mbuf::PoolConfig;
use mbuma::Stack;
use mbuma::device::epair::EpairEnd;
use mbuma::runtime::{LocalTasks, WorkerContext, run_round};
use simple_dns::{CLASS, Name, Packet, QCLASS, QTYPE, Question, TYPE};

use super::*;
use crate::addressing::Addressing;
use crate::gateway::resolvers::Resolvers;
use crate::gateway::test_gateway;
use crate::guests::GuestSpec;
use crate::sys::tap::Offloads;

/// The address for names.
const SERVER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);

/// Long answers to a question.
const BIG: usize = 200;

struct NamesBench {
    clock: Arc<VirtualClock>,
    server: NameTasks,
    guests: Stack,
    _ends: (EpairEnd, EpairEnd),
}

/// A worker that answers.
struct NameTasks {
    shared: Shared,
    all: NameConnections,
    names: LocalNames,
}

impl LocalTasks for NameTasks {
    fn context(&mut self) -> &mut WorkerContext {
        &mut self.shared.context
    }

    fn event(&mut self, key: u64, readiness: Readiness) {
        self.all.note(Token::from_number(key), readiness);
    }

    fn timer(&mut self, key: u64) {
        self.all.timer(&mut self.shared, Token::from_number(key));
    }

    fn turn(&mut self, key: u64) {
        let token = Token::from_number(key);
        match token.kind() {
            Some(SourceKind::NameListener) => self.all.accept(&mut self.shared),
            _ => self.all.turn(&mut self.shared, &self.names, token),
        }
    }
}

impl NamesBench {
    /// A network of which one guest is called `web`.
    fn new(resolvers: Vec<SocketAddr>) -> NamesBench {
        let clock = Arc::new(VirtualClock::new(Time::from_secs(1)));
        let ([server, guests], ends) = test_gateway::joined(&clock, PoolConfig::default());
        let worker_clock: Arc<dyn Clock> = clock.clone();
        let mut shared = test_gateway::shared_of(server, &worker_clock);
        shared.resolvers = Resolvers::from_addrs(resolvers);
        let v4 = Addressing {
            dns: SERVER,
            ..Addressing::DEFAULT
        };
        let end = GuestEnd {
            v4: Some(v4),
            v6: None,
            ..GuestEnd::usual()
        };
        let mut names = LocalNames::new(&end);
        names.add(&GuestSpec {
            id: 1,
            addr: Ipv4Addr::new(10, 0, 2, 100),
            addr6: None,
            name: Some("web".to_owned()),
            offloads: Offloads::default(),
        });
        let all = NameConnections::listen(&shared, &end).expect("a free port");
        NamesBench {
            clock,
            server: NameTasks { shared, all, names },
            guests,
            _ends: ends,
        }
    }

    /// A connection of a guest.
    fn dial(&mut self, from: Ipv4Addr) -> TcpStream {
        let to = SocketAddrV4::new(SERVER, DNS_PORT);
        let dialled = self.guests.tcp_connect(SocketAddrV4::new(from, 0), to);
        let stream = dialled.expect("a free port");
        self.run();
        stream
    }

    /// A few rounds, as many as a turn's work takes.
    fn run(&mut self) {
        for _ in 0..8 {
            self.guests.poll();
            self.server.shared.stack.poll();
            let round = run_round(&mut self.server, Some(Duration::ZERO));
            assert!(round.is_ok(), "{round:?}");
        }
    }

    /// Reads until `count` whole messages are there, or the end. The resolver takes real time.
    fn read(&mut self, stream: &TcpStream, count: usize) -> Vec<Vec<u8>> {
        let (mut bytes, mut messages) = (Vec::new(), Vec::new());
        for _ in 0..2000 {
            self.run();
            let mut part = [0; 4096];
            while let Ok(n @ 1..) = stream.recv(&mut part) {
                bytes.extend(&part[..n]);
            }
            let mut rest = &*bytes;
            while let Some((message, after)) = first(rest).expect("messages") {
                messages.push(message.to_vec());
                rest = after;
            }
            bytes = rest.to_vec();
            if messages.len() >= count {
                break;
            }
            thread::sleep(Duration::from_millis(1));
        }
        messages
    }

    fn open(&self) -> usize {
        self.server.all.table.len()
    }
}

/// A question behind its length.
fn question(id: u16, name: &str) -> Vec<u8> {
    let mut packet = Packet::new_query(id);
    let name = Name::new(name).expect("a name");
    let (kind, class) = (QTYPE::TYPE(TYPE::A), QCLASS::CLASS(CLASS::IN));
    packet
        .questions
        .push(Question::new(name, kind, class, false));
    let mut bytes = Vec::new();
    append(&mut bytes, &packet.build_bytes_vec().expect("a message"));
    bytes
}

/// A resolver, which sends each question back, and the numbers of those that it got.
fn resolver() -> (SocketAddr, Receiver<u16>) {
    let listener = HostListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let at = listener.local_addr().expect("it has one");
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a client");
            let mut len = [0; 2];
            while stream.read_exact(&mut len).is_ok() {
                let mut message = vec![0; u16::from_be_bytes(len).into()];
                if stream.read_exact(&mut message).is_err() {
                    break;
                }
                let _ = tell.send(u16::from_be_bytes([message[0], message[1]]));
                let _ = stream.write_all(&[&len[..], &message].concat());
                // One of this name gets long answers, as a transfer of a zone does.
                if message[13..].starts_with(b"big") {
                    message.resize(usize::from(u16::MAX), 0);
                    let long = [&[0xff; 2][..], &message].concat();
                    (0..BIG).for_each(|_| _ = stream.write_all(&long));
                }
                // One of this name is the last.
                if message[13..].starts_with(b"end") {
                    break;
                }
            }
        }
    });
    (at, told)
}

fn ids(messages: &[Vec<u8>]) -> Vec<u16> {
    let id = |message: &Vec<u8>| u16::from_be_bytes([message[0], message[1]]);
    let mut ids: Vec<_> = messages.iter().map(id).collect();
    ids.sort_unstable();
    ids
}

#[test]
fn questions_about_guests_are_answered_and_others_passed_on() {
    // Breaks when a resolver of the host hears of a guest's name over TCP, a question of several on a connection gets
    // no answer, or the end of a connection comes before the last answer.
    let (at, told) = resolver();
    // The first one refuses.
    let closed = HostListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let refuses = closed.local_addr().expect("it has one");
    drop(closed);
    let mut bench = NamesBench::new(vec![refuses, at]);
    let all = [
        (1, "web"),
        (2, "example.org"),
        (3, "web"),
        (4, "example.net"),
    ];
    let bytes: Vec<u8> = all
        .iter()
        .flat_map(|(id, name)| question(*id, name))
        .collect();
    for piece in [bytes.len(), 1] {
        let stream = bench.dial(Ipv4Addr::UNSPECIFIED);
        for part in bytes.chunks(piece) {
            assert_eq!(stream.send(part), Ok(part.len()));
            bench.run();
        }
        stream.shutdown(Shutdown::Write);
        let answers = bench.read(&stream, 4);
        assert_eq!(ids(&answers), [1, 2, 3, 4]);
        let local = answers.iter().filter(|answer| answer[7] == 1).count();
        assert_eq!(local, 2, "an address each");
        assert_eq!([told.recv(), told.recv()], [Ok(2), Ok(4)]);
        assert!(told.try_recv().is_err());
        for _ in 0..2000 {
            bench.run();
            if bench.open() == 0 {
                break;
            }
            thread::sleep(Duration::from_millis(1));
        }
        bench.run();
        assert_eq!(
            stream.recv(&mut [0; 9]),
            Ok(0),
            "it ends like one that was served"
        );
    }
    // A resolver that ends a connection without a question is asked again by another.
    let stream = bench.dial(Ipv4Addr::UNSPECIFIED);
    for id in [5, 6] {
        assert!(stream.send(&question(id, "end.example")).is_ok());
        assert_eq!(ids(&bench.read(&stream, 1)), [id]);
        assert_eq!(told.recv(), Ok(id));
        bench.read(&stream, 0);
        thread::sleep(Duration::from_millis(20));
        bench.run();
    }
    drop(stream);
    bench.run();
    // A connection on which no question goes to a resolver ends too.
    let stream = bench.dial(Ipv4Addr::UNSPECIFIED);
    assert!(stream.send(&question(7, "web")).is_ok());
    stream.shutdown(Shutdown::Write);
    assert_eq!(ids(&bench.read(&stream, 1)), [7]);
    assert_eq!((stream.recv(&mut [0; 9]), bench.open()), (Ok(0), 0));
}

#[test]
fn a_question_that_no_resolver_takes_ends_the_connection() {
    // Breaks when a guest waits for the answer of a resolver that is not there.
    let closed = HostListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let refuses = closed.local_addr().expect("it has one");
    drop(closed);
    for resolvers in [vec![], vec![refuses, refuses]] {
        let mut bench = NamesBench::new(resolvers);
        let stream = bench.dial(Ipv4Addr::UNSPECIFIED);
        assert!(stream.send(&question(1, "example.org")).is_ok());
        bench.read(&stream, 0);
        bench.run();
        assert_eq!(stream.error(), Some(SocketError::Reset));
    }
}

#[test]
fn a_silent_resolver_gives_way_to_the_next() {
    // Breaks when a guest waits half a minute for a resolver that answers no connection, although there is another.
    let (at, told) = resolver();
    // Its queue is full, so that the kernel drops more clients.
    let full = HostListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    rustix::net::listen(&full, 0).expect("a number");
    let silent = full.local_addr().expect("it has one");
    let fill = || HostStream::connect_timeout(&silent, Duration::from_millis(100));
    let waiting: Vec<_> = (0..4).map(|_| fill()).collect();
    assert!(waiting[3].is_err(), "it is full");
    let mut bench = NamesBench::new(vec![silent, at]);
    let stream = bench.dial(Ipv4Addr::UNSPECIFIED);
    assert!(stream.send(&question(1, "example.org")).is_ok());
    bench.run();
    assert!(told.try_recv().is_err());
    bench.clock.advance(ANSWER_WAIT);
    assert_eq!(ids(&bench.read(&stream, 1)), [1]);
}

#[test]
fn a_guest_that_does_not_read_stops_the_resolver() {
    // Breaks when the answers of a resolver fill the memory because a guest takes none of them, or some are lost when
    // it does.
    let (at, _told) = resolver();
    let mut bench = NamesBench::new(vec![at]);
    let stream = bench.dial(Ipv4Addr::UNSPECIFIED);
    stream.set_buffers(READ, READ);
    assert!(stream.send(&question(1, "big.example")).is_ok());
    let mut before = 0;
    loop {
        for _ in 0..20 {
            bench.run();
            thread::sleep(Duration::from_millis(2));
        }
        let now = bench.server.shared.counters.bytes_down;
        if now == before && now > 0 {
            break;
        }
        before = now;
    }
    for (_, one) in bench.server.all.table.iter() {
        let most = 2 * ROOM + usize::from(u16::MAX) + 2;
        assert!(one.answers.len() <= most, "{}", one.answers.len());
    }
    assert!(before < (BIG << 16) as u64 / 2, "{before}");
    assert_eq!(bench.read(&stream, BIG + 1).len(), BIG + 1);
}

#[test]
fn hostile_clients_are_bounded() {
    // Breaks when a guest that sends half a question, bytes that are none, or questions whose answers it does not read,
    // keeps a connection or memory for ever; or when one guest's connections leave no place for another's.
    let mut bench = NamesBench::new(vec![]);
    let any = Ipv4Addr::UNSPECIFIED;
    for len in [0, 1, 11] {
        let stream = bench.dial(any);
        assert!(stream.send(&[0, len]).is_ok());
        bench.run();
        assert_eq!(stream.error(), Some(SocketError::Reset), "{len}");
    }
    let half = bench.dial(any);
    assert!(half.send(&question(1, "web")[..20]).is_ok());
    let long = bench.dial(any);
    assert!(long.send(&[0xff; 2]).is_ok());
    let deaf = bench.dial(any);
    deaf.set_buffers(READ, READ);
    let one = question(1, "web");
    let many = one.repeat(40_000);
    let mut asked = 0;
    for _ in 0..200 {
        let rest = &many[asked..];
        asked += deaf.send(rest).unwrap_or(0);
        bench.run();
    }
    assert!(long.send(&many[..60_000]).is_ok());
    bench.run();
    for (_, one) in bench.server.all.table.iter() {
        assert!(one.asked.len() < (64 << 10) + READ, "{}", one.asked.len());
        assert!(one.answers.len() < ROOM + 100, "{}", one.answers.len());
    }
    assert_eq!(bench.open(), 3);
    // The deaf one reads after all, and has lost nothing.
    assert!(asked < many.len());
    let whole = asked / one.len();
    assert_eq!(bench.read(&deaf, whole).len(), whole);
    for _ in 0..=IDLE_MAX.as_secs() / ANSWER_WAIT.as_secs() {
        bench.clock.advance(ANSWER_WAIT);
        bench.run();
    }
    assert_eq!(bench.open(), 0);
    // Another guest is there first.
    let quiet = bench.dial(Ipv4Addr::new(192, 0, 2, 7));
    bench.clock.advance(Duration::from_secs(1));
    let flood: Vec<_> = (0..1000)
        .map(|_| bench.dial(Ipv4Addr::new(192, 0, 2, 1)))
        .collect();
    assert_eq!(bench.open(), CONNECTIONS_MAX);
    let left = flood.iter().filter(|stream| stream.error().is_none());
    assert_eq!(left.count(), CONNECTIONS_MAX - 1);
    assert!(quiet.send(&question(9, "web")).is_ok());
    assert_eq!(ids(&bench.read(&quiet, 1)), [9]);
    // A guest that leaves takes its own with it.
    let addrs = [IpAddr::from([192, 0, 2, 1])];
    bench.server.all.end_guest(&mut bench.server.shared, &addrs);
    assert_eq!(bench.open(), 1);
    assert_eq!(
        bench.server.shared.context.timers(),
        1,
        "the others are cancelled"
    );
}
