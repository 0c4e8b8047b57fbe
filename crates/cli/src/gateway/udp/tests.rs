use std::io::IoSliceMut;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;

use mbuma::IcmpError;
use mbuma::socket::Datagram;
use wire::IpProto;

use super::super::flow::{Flow, FlowEnds, Outlet};
use super::super::question::{self, ANSWER_WAIT, Question};
use super::super::resolvers::Resolvers;
use super::super::shared::Shared;
use super::super::table::Token;
use super::super::test_gateway;
use super::GuestFlows;
use crate::addressing::Addressing;
use crate::sys::pktinfo::DatagramClient;
use crate::sys::train_socket::{self, TrainSocket};

#[test]
fn a_flow_takes_its_timer_along() {
    // Breaks when the timer of an evicted flow stays for its minute: a flood from outside then leaves a timer for each
    // of its datagrams.
    let (mut shared, index) = test_gateway::start();
    let socket = shared.stack.udp_bind_any(index).expect("the only one");
    let mut flows = GuestFlows::new(&shared, socket);
    flows.table.add_port();
    for n in 0..5000 {
        let remote = SocketAddr::from((Ipv4Addr::from_bits(0x0a00_0000 + n), 7));
        let guest = SocketAddr::from((crate::addressing::Addressing::DEFAULT.guest, 1000));
        let (addr, local) = (remote, None);
        let client = DatagramClient { addr, local };
        let outlet = Outlet::Inlet { index: 0, client };
        let ends = FlowEnds { guest, remote };
        flows
            .add(&mut shared, ends, outlet)
            .expect("no descriptor is needed");
    }
    assert!(flows.len() < 5000);
    assert_eq!(shared.context.timers(), flows.len());
}

#[test]
fn the_timer_of_a_question_is_that_of_its_answer() {
    // Breaks when the timer is set before the question counts as asked, for the idle time of an answered one: a silent
    // server is then given up after that, and not after the time in which an answer must come.
    let (mut shared, index) = test_gateway::start();
    let socket = shared.stack.udp_bind_any(index).expect("the only one");
    let mut flows = GuestFlows::new(&shared, socket);
    let server = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let resolver = server.local_addr().expect("bound");
    shared.resolvers = Resolvers::from_addrs(vec![resolver]);
    let question = Question {
        socket: question::connected(&shared, resolver).expect("a socket"),
        resolver,
        asked: None,
        others: 0,
        earlier: Vec::new(),
    };
    let ends = FlowEnds {
        guest: SocketAddr::from((crate::addressing::Addressing::DEFAULT.guest, 1000)),
        remote: SocketAddr::from((Ipv4Addr::LOCALHOST, 53)),
    };
    let token = flows
        .add(&mut shared, ends, Outlet::Resolver(question))
        .expect("a descriptor");
    let before = shared.now();
    let asked = datagram(&shared);
    flows.send(&mut shared, token, asked);
    let flow = flows.table.find(token).expect("it is there");
    let (at, _) = flow.timer.expect("a timer");
    assert!(at >= before + ANSWER_WAIT && at <= shared.now() + ANSWER_WAIT);
    assert_eq!(shared.context.timers(), 1, "the earlier one is cancelled");
}

#[test]
fn a_flood_of_one_guest_leaves_room_for_another() {
    // Breaks when the datagrams of all guests of a network wait in one queue, which one of them fills.
    for shares in [false, true] {
        let (shared, guest) = test_gateway::with_guest();
        let socket = shared.stack.udp_bind_any(guest.index);
        let mut flows = GuestFlows::new(&shared, socket.expect("the only one"));
        if shares {
            flows.share_by_guest();
        }
        let gateway = Addressing::DEFAULT.gateway;
        let quiet = Ipv4Addr::new(10, 0, 2, 101);
        // From port 1000 to port 9, without a checksum.
        let mut datagram = vec![3, 0xe8, 0, 9, 4, 0, 0, 0];
        datagram.resize(0x400, 7);
        (0..2000).for_each(|_| guest.say(gateway, IpProto::UDP, &datagram));
        guest.say_from(quiet, gateway, IpProto::UDP, &datagram);
        let taken = std::iter::from_fn(|| flows.socket.recv().ok());
        let senders: Vec<_> = taken.map(|datagram| datagram.src.ip()).collect();
        assert!(senders.len() < 2000);
        assert_eq!(senders.contains(&quiet.into()), shares);
    }
}

#[test]
fn all_queries_of_a_socket_go_to_the_next_server() {
    // Breaks when a server refuses two queries of one socket, as the C library sends for the addresses of both
    // families, and only the last one goes on to the next server: the guest waits for 5 s then.
    let (mut shared, index) = test_gateway::start();
    let socket = shared.stack.udp_bind_any(index).expect("the only one");
    let mut flows = GuestFlows::new(&shared, socket);
    let servers = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").expect("a free port"));
    let addrs = servers
        .each_ref()
        .map(|server| server.local_addr().expect("bound"));
    shared.resolvers = Resolvers::from_addrs(addrs.to_vec());
    let Ok(question) = Question::begin(&mut shared, 1) else {
        panic!("a socket");
    };
    let ends = FlowEnds {
        guest: SocketAddr::from((crate::addressing::Addressing::DEFAULT.guest, 1000)),
        remote: SocketAddr::from((Ipv4Addr::LOCALHOST, 53)),
    };
    let token = flows.add(&mut shared, ends, Outlet::Resolver(question));
    let token = token.expect("a descriptor");
    let queries = [&b"one?"[..], b"two?", b"three?"];
    for query in queries {
        let query = datagram_of(&shared, query);
        assert!(flows.send(&mut shared, token, query));
    }
    flows.failed(&mut shared, token, Some(IcmpError::Port));
    for query in queries {
        let mut bytes = [0; 9];
        let n = servers[1].recv(&mut bytes).expect("it was sent before");
        assert_eq!(&bytes[..n], query);
    }
}

/// A datagram that was received.
fn datagram(shared: &Shared) -> Datagram {
    datagram_of(shared, b"who?")
}

/// The same with this payload.
fn datagram_of(shared: &Shared, payload: &[u8]) -> Datagram {
    let at = SocketAddr::from((Ipv4Addr::LOCALHOST, 53));
    let socket = shared.stack.udp_bind(at).expect("a free port");
    socket.send_to(payload, at).expect("a route");
    socket.recv().expect("it is there")
}

/// Addresses that a test maps to the host's loopback.
const MAPPED: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 0, 2, 8), Ipv4Addr::new(10, 0, 2, 9)];

/// The flows of a guest for which [`MAPPED`] stand for the host's loopback.
fn mapped_flows() -> (Shared, GuestFlows) {
    let (mut shared, index) = test_gateway::start();
    let socket = shared.stack.udp_bind_any(index).expect("the only one");
    let flows = GuestFlows::new(&shared, socket);
    let mappings = MAPPED.map(|from| (from.into(), Ipv4Addr::LOCALHOST.into()));
    shared.policy = shared.policy.clone().with_mappings(&mappings);
    (shared, flows)
}

/// A datagram of the guest to a server of the host's loopback, by one of the mapped addresses.
fn say(flows: &mut GuestFlows, shared: &mut Shared, mapped: usize, to: SocketAddr) -> Token {
    let ends = FlowEnds {
        guest: SocketAddr::from((Addressing::DEFAULT.guest, 1000)),
        remote: SocketAddr::from((MAPPED[mapped], to.port())),
    };
    let said = datagram(shared);
    match flows.table.between(&ends) {
        Some(token) => _ = flows.send(shared, token, said),
        None => flows.open(shared, ends, said),
    }
    flows.table.between(&ends).expect("a flow")
}

/// The port by which the last datagram came.
fn heard(server: &UdpSocket) -> SocketAddr {
    let wait = Some(std::time::Duration::from_secs(20));
    server.set_read_timeout(wait).expect("a time");
    server.recv_from(&mut [0; 9]).expect("it was asked").1
}

fn server() -> (UdpSocket, SocketAddr) {
    let server = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let at = server.local_addr().expect("bound");
    (server, at)
}

#[test]
fn an_end_of_the_guest_hears_those_alone_that_it_has_asked() {
    // Breaks when two destinations see two ports, or a host that the guest has sent nothing to reaches the guest by its
    // port.
    let (mut shared, mut flows) = mapped_flows();
    let (a, at_a) = server();
    let (b, at_b) = server();
    let token = say(&mut flows, &mut shared, 0, at_a);
    let from = heard(&a);
    // Another host that sends from the same port.
    let c = UdpSocket::bind((Ipv4Addr::new(127, 0, 0, 2), at_a.port())).expect("a free address");
    for (sender, taken, filtered) in [(&b, 0, 1), (&c, 0, 2), (&a, 1, 2)] {
        sender.send_to(b"!", from).expect("loopback");
        flows.readable(&mut shared, token);
        let counters = &shared.counters;
        // There is no guest to hear it.
        let all = counters.datagrams_down + counters.datagrams_lost;
        assert_eq!((all, counters.datagrams_filtered), (taken, filtered));
    }
    say(&mut flows, &mut shared, 0, at_b);
    assert_eq!((heard(&b), flows.table.shared_sockets.len()), (from, 1));
}

#[test]
fn two_addresses_that_stand_for_one_host_are_told_apart() {
    // Breaks when the answer of a host comes from the other one of two addresses by which the guest has asked it.
    let (mut shared, mut flows) = mapped_flows();
    let (host, at) = server();
    let tokens = [0, 1].map(|mapped| say(&mut flows, &mut shared, mapped, at));
    let from = [heard(&host), heard(&host)];
    assert_ne!(from[0], from[1]);
    for token in tokens {
        assert_eq!(flows.table.of_peer(token, at), Some(token));
    }
    // Nor does it come from its own address, at which the guest has asked nothing but another port.
    shared.policy = shared.policy.clone().with_allowed(&[at.ip()]);
    let (_other, at_other) = server();
    let ends = FlowEnds {
        guest: SocketAddr::from((Addressing::DEFAULT.guest, 1000)),
        remote: at_other,
    };
    let said = datagram(&shared);
    flows.open(&mut shared, ends, said);
    let direct = flows.table.between(&ends).expect("a flow");
    assert_eq!(flows.table.of_peer(direct, at), None);
    assert_eq!(flows.table.of_peer(direct, at_other), Some(direct));
}

#[test]
fn no_flow_stays_where_there_is_no_way() {
    // Breaks when a guest that tries addresses without a route fills the table with flows that lead nowhere.
    let (mut shared, mut flows) = mapped_flows();
    let nowhere = [(MAPPED[0].into(), Ipv4Addr::BROADCAST.into())];
    shared.policy = shared.policy.clone().with_mappings(&nowhere);
    let ends = FlowEnds {
        guest: SocketAddr::from((Addressing::DEFAULT.guest, 1000)),
        remote: SocketAddr::from((MAPPED[0], 7)),
    };
    let said = datagram(&shared);
    // The kernel refuses a broadcast.
    flows.open(&mut shared, ends, said);
    assert_eq!(shared.counters.datagrams_refused, 1);
    assert_eq!((flows.len(), flows.table.shared_sockets.len()), (0, 0));
    assert_eq!(shared.context.timers(), 0);
}

#[test]
fn an_error_is_that_of_its_destination() {
    // Breaks when the guest is told that another destination of its socket failed, hears nothing of the one that did,
    // or the datagram whose call reported the error is lost.
    let (mut shared, mut flows) = mapped_flows();
    let (open, at_open) = server();
    let (_, at_closed) = server();
    let closed = say(&mut flows, &mut shared, 0, at_closed);
    let other = say(&mut flows, &mut shared, 0, at_open);
    heard(&open);
    assert_eq!(shared.counters.datagrams_refused, 1);
    let mut is_told = |token| {
        let flow = flows.table.find(token).expect("it is there");
        flow.unanswered.is_none()
    };
    assert!(is_told(closed) && !is_told(other));
    // The event reports it, too.
    say(&mut flows, &mut shared, 0, at_closed);
    flows.readable(&mut shared, closed);
    assert_eq!(shared.counters.datagrams_refused, 2);
    assert_eq!(shared.counters.datagrams_up, 3);
}

/// Several datagrams of 1,000 bytes that the guest sent in one call, and a last one of 500.
fn train(shared: &Shared) -> Datagram {
    let from = shared.stack.udp_bind("127.0.0.1:0").expect("a free port");
    let to = shared.stack.udp_bind("127.0.0.1:7").expect("a free port");
    to.set_recv_segmented(true);
    let sent = from.send_segmented(&[7; 2500], 1000, to.local_addr());
    sent.expect("a route");
    shared.stack.poll();
    to.recv().expect("it is there")
}

#[test]
fn a_train_leaves_in_one_call_where_the_kernel_cuts_it() {
    // Breaks when each datagram of a train costs a call, or a socket that can't send trains loses them.
    let (mut shared, mut flows) = mapped_flows();
    let (server, at) = server();
    let receiver = TrainSocket::new(server.into());
    receiver.receive_trains();
    let token = say(&mut flows, &mut shared, 0, at);
    let lens = |shared: &mut Shared, flows: &mut GuestFlows, token| {
        let mut bytes = [0; 4000];
        let mut lens = Vec::new();
        let mut left = 2500;
        let sent = train(shared);
        assert!(flows.send(shared, token, sent));
        while left > 0 {
            let pieces = &mut [IoSliceMut::new(&mut bytes)];
            match train_socket::recv_from(receiver.as_fd(), pieces) {
                Ok((n, (_, each))) if n >= 500 => {
                    lens.push((n, each));
                    left -= n;
                }
                got => assert_eq!(got.expect("it has come").0, 4, "the first word"),
            }
        }
        lens
    };
    assert_eq!(lens(&mut shared, &mut flows, token), [(2500, 1000)]);
    let ends = FlowEnds {
        guest: SocketAddr::from((Addressing::DEFAULT.guest, 1001)),
        remote: at,
    };
    let loopback = question::connected(&shared, at).expect("a socket");
    let outlet = Outlet::Loopback {
        socket: loopback,
        index: 0,
        client: ends.guest,
    };
    let token = flows
        .table
        .insert(Flow::new(ends, outlet, kern::Time::ZERO));
    let each = lens(&mut shared, &mut flows, token);
    assert_eq!(each, [(1000, 1000), (1000, 1000), (500, 500)]);
}
