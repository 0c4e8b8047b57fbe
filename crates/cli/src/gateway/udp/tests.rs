use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};

use mbuma::socket::Datagram;

use super::super::flow::{FlowEnds, Outlet};
use super::super::question::{self, ANSWER_WAIT, Question};
use super::super::resolvers::Resolvers;
use super::super::shared::Shared;
use super::super::test_gateway;
use super::GuestFlows;
use crate::addressing::Addressing;
use crate::sys::pktinfo::DatagramClient;
use crate::sys::socket;

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

/// A datagram that was received.
fn datagram(shared: &Shared) -> Datagram {
    let at = SocketAddr::from((Ipv4Addr::LOCALHOST, 53));
    let socket = shared.stack.udp_bind(at).expect("a free port");
    socket.send_to(b"who?", at).expect("a route");
    socket.recv().expect("it is there")
}

#[test]
fn a_flow_keeps_its_socket_while_the_host_sends_from_the_same_address() {
    // Breaks when a silent flow gets a new socket each time that it asks for its route: answers under way are lost.
    let (mut shared, index) = test_gateway::start();
    let socket = shared.stack.udp_bind_any(index).expect("the only one");
    let mut flows = GuestFlows::new(&shared, socket);
    let peer = SocketAddr::from((Ipv4Addr::LOCALHOST, 9));
    let mapped = SocketAddr::from(([10, 0, 2, 9], 9));
    let mappings = [(mapped.ip(), peer.ip())];
    shared.policy = shared.policy.clone().with_mappings(&mappings);
    let ends = FlowEnds {
        guest: SocketAddr::from((Addressing::DEFAULT.guest, 1000)),
        remote: mapped,
    };
    let socket = question::connected(&shared, peer).expect("a socket");
    let kept = socket.as_raw_fd();
    let token = flows
        .add(
            &mut shared,
            ends,
            Outlet::Own {
                socket,
                port: 0,
                peer,
            },
        )
        .expect("a descriptor");
    flows.follow_route(&mut shared, token);
    let flow = flows.table.find(token).expect("it is there");
    let left = flow.outlet.socket().map(|socket| socket.as_raw_fd());
    assert_eq!(left, Some(kept));
}

#[test]
fn a_flow_takes_datagrams_of_its_peer_alone() {
    // Breaks when a datagram that came before a flow's socket was connected, from any host, reaches the guest as the
    // peer's.
    let (mut shared, index) = test_gateway::start();
    let socket = shared.stack.udp_bind_any(index).expect("the only one");
    let mut flows = GuestFlows::new(&shared, socket);
    let host = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let sender = host.local_addr().expect("bound");
    let other = SocketAddr::from((Ipv4Addr::LOCALHOST, 9));
    for (peer, taken) in [(other, 0), (sender, 1)] {
        let socket = question::connected(&shared, sender).expect("a socket");
        let port = socket::share_port(socket.as_fd()).expect("it has one");
        let guest = SocketAddr::from((Addressing::DEFAULT.guest, 1000 + taken as u16));
        let ends = FlowEnds {
            guest,
            remote: peer,
        };
        let token = flows
            .add(&mut shared, ends, Outlet::Own { socket, port, peer })
            .expect("a descriptor");
        let sent = host.send_to(b"?", (Ipv4Addr::LOCALHOST, port));
        sent.expect("loopback");
        flows.readable(&mut shared, token);
        let counters = &shared.counters;
        assert_eq!(counters.datagrams_down + counters.datagrams_lost, taken);
    }
}
