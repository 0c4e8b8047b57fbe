//! Neighbours of a connection over IPv6, between two stacks on a wire that the test sees.

use std::net::Ipv6Addr;
use std::sync::Arc;
use std::time::Duration;

use crate::common::net::*;
use crate::frames6::at6;
use kern::{Random, Time, VirtualClock};
use mbuf::{Live, Mbufq};
use mbuma::device::memory::Pipe;
use mbuma::device::{Capabilities, Device};
use mbuma::{Config, IfConfig, IfIndex, Stack};
use wire::MacAddr;

/// Two stacks, and a wire between them that the test sees.
struct Wire6 {
    clock: Arc<VirtualClock>,
    stacks: [(Stack, IfIndex); 2],
    ends: [Pipe; 2],
}

impl Wire6 {
    fn new() -> Self {
        let clock = Arc::new(VirtualClock::new(Time::from_secs(1)));
        let made = [1_u8, 2].map(|n| {
            let (inner, outer) = Pipe::pair(Capabilities::plain(1500));
            let config = Config::new(clock.clone(), Random::from_seed(n.into()));
            let stack = Stack::new(config).unwrap();
            let addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, n.into());
            let config = IfConfig {
                mac: Some(MacAddr([2, 0, 0, 0, 1, n])),
                ..IfConfig::new("wire").with_addr(addr, 64)
            };
            let index = stack.attach(Arc::new(inner), config).unwrap();
            ((stack, index), outer)
        });
        let [(a, left), (b, right)] = made;
        Self {
            clock,
            stacks: [a, b],
            ends: [left, right],
        }
    }

    /// Lets everything happen that takes no time; the number of questions for neighbours that went over.
    fn settle(&self) -> usize {
        let mut asked = 0;
        for _ in 0..8 {
            for ((stack, index), [from, to]) in self.stacks.iter().zip([[0, 1], [1, 0]]) {
                while stack.poll_interface(*index, ALL).unwrap() {}
                stack.poll();
                let mut sent = Mbufq::new();
                self.ends[from].receive(&mut sent, ALL).unwrap();
                let mut over = Mbufq::new();
                for packet in sent {
                    let frame = packet.to_vec();
                    asked += usize::from(frame[20] == 58 && frame[54] == 135);
                    over.enqueue(packet);
                }
                self.ends[to].transmit(&mut over).unwrap();
            }
        }
        asked
    }
}

#[test]
fn n5_a_connection_that_gets_on_asks_for_no_neighbour() {
    // Breaks if each half a minute a busy connection asks whether its neighbour is there, which its answers tell (RFC
    // 4861 section 7.3.1).
    let wire = Wire6::new();
    let [(left, _), (right, _)] = &wire.stacks;
    let listener = right.tcp_listen(at6(Ipv6Addr::UNSPECIFIED, 80), 8).unwrap();
    let there = at6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2), 80);
    let stream = left
        .tcp_connect(at6(Ipv6Addr::UNSPECIFIED, 0), there)
        .unwrap();
    assert!(wire.settle() > 0);
    let accepted = listener.accept().expect("the handshake is over");
    let mut asked = 0;
    for _ in 0..600 {
        wire.clock.advance(Duration::from_secs(1));
        stream.send(b"question").unwrap();
        asked += wire.settle();
        let mut buf = [0; 16];
        assert_eq!(accepted.recv(&mut buf), Ok(8));
        accepted.send(b"answer").unwrap();
        asked += wire.settle();
        assert_eq!(stream.recv(&mut buf), Ok(6));
    }
    assert_eq!(asked, 0);
    let pools = wire
        .stacks
        .each_ref()
        .map(|(stack, _)| stack.pool().clone());
    drop((stream, accepted, listener));
    for _ in 0..20 {
        wire.settle();
        wire.clock.advance(Duration::from_secs(30));
    }
    drop(wire);
    assert!(pools.iter().all(|pool| pool.live() == Live::NONE));
}
