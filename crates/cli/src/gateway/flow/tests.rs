use std::net::{SocketAddr, SocketAddrV4, UdpSocket};

use kern::Time;
use mbuf::Live;
use mbuma::{Config, Stack};

use super::super::question::{ANSWER_WAIT, Question};
use super::super::quote::{KEPT_WHOLE_MAX, QUOTED_MAX};
use super::super::table::{SourceKind, Token};
use super::{ANSWERED_IDLE_MAX, Flow, FlowEnds, IDLE_MAX, Outlet};
use crate::addressing::Addressing;

const ENDS: FlowEnds = FlowEnds {
    guest: SocketAddr::V4(SocketAddrV4::new(Addressing::DEFAULT.guest, 1000)),
    remote: SocketAddr::V4(SocketAddrV4::new(Addressing::DEFAULT.dns, 53)),
};

fn question(asked: Option<Time>) -> Outlet {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    Outlet::Resolver(Question {
        resolver: socket.local_addr().expect("its own address"),
        socket: socket.into(),
        asked,
        others: 0,
        earlier: Vec::new(),
    })
}

#[test]
fn flows_end_when_they_should() {
    // Breaks when a flow to a silent name server lives as long as that of a game, or descriptors pile up.
    let (start, later) = (Time::from_secs(100), Time::from_secs(101));
    let shared = Outlet::Shared {
        socket: Token::only(SourceKind::SharedSocket),
        peer: ENDS.remote,
    };
    let flow = Flow::new(ENDS, shared, start);
    assert_eq!(flow.deadline(), start + IDLE_MAX);
    let mut flow = Flow::new(ENDS, question(Some(start)), start);
    assert_eq!(flow.deadline(), start + ANSWER_WAIT);
    flow.answered();
    flow.last_used = later;
    assert_eq!(flow.deadline(), later + ANSWERED_IDLE_MAX);
}

#[test]
fn large_datagrams_are_not_kept() {
    // Breaks when thousands of idle flows keep all clusters from being used.
    let stack = Stack::new(Config::from_system()).expect("buffers");
    let socket = stack.udp_bind("127.0.0.1:53").expect("the port is free");
    for len in [0, 100, 1400, 60_000] {
        let sent = socket.send_to(&vec![7; len], socket.local_addr());
        sent.expect("it leads to the stack itself");
        stack.poll();
        let datagram = socket.recv().expect("it has arrived");
        let mut flow = Flow::new(ENDS, question(None), Time::ZERO);
        flow.remember(stack.pool(), datagram);
        let kept = flow.unanswered.take().expect("it was just remembered");
        assert!(kept.payload.pinned() <= KEPT_WHOLE_MAX, "{len}");
        assert_eq!(kept.payload.to_vec(), vec![7; kept.payload.len()]);
        assert!(kept.payload.len() == len || kept.payload.len() == QUOTED_MAX);
    }
    let pool = stack.pool().clone();
    drop((socket, stack));
    assert_eq!(pool.live(), Live::NONE);
}
