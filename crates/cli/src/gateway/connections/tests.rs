//! Tests of connections that a guest begins.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use wire::{IpProto, TcpFields, TcpFlags, pseudo_header_v4};

use super::*;
use crate::addressing::Addressing;
use crate::gateway::test_gateway::{self, TestGuest};

/// The guest begins a connection.
fn begin(guest: &TestGuest, src_port: u16, dst: Ipv4Addr, dst_port: u16) {
    let syn = TcpFields {
        src_port,
        dst_port,
        flags: TcpFlags::SYN,
        ..TcpFields::default()
    };
    let mut segment = vec![0; syn.header_len()];
    syn.emit(&mut segment);
    let from = Addressing::DEFAULT.guest;
    let mut sum = pseudo_header_v4(from, dst, IpProto::TCP, segment.len() as u32);
    sum.add_bytes(&segment);
    segment[16..18].copy_from_slice(&sum.finish().to_be_bytes());
    guest.say(dst, IpProto::TCP, &segment);
}

/// Attempts that wait at most.
const WAITING: usize = 2;

fn connections(shared: &Shared, guest: &TestGuest) -> Connections {
    let interceptor = (shared.stack).tcp_intercept(guest.index, 2 * BEGIN_MAX);
    let interceptor = Arc::new(interceptor.expect("the only one"));
    Connections::new(
        shared,
        &interceptor,
        &Arc::from([]),
        WaitingList::new(WAITING, false),
    )
}

/// A program of the host that answers no client, because its queue has the one that it takes.
struct Silent {
    program: TcpListener,
    port: u16,
    _client: TcpStream,
}

/// Its address for the guest.
const SILENT: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 9);

impl Silent {
    fn new(shared: &mut Shared) -> Silent {
        let program = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let at = program.local_addr().expect("bound");
        rustix::net::listen(&program, 0).expect("it listens");
        let _client = TcpStream::connect(at).expect("the first");
        let policy = shared.policy.clone();
        shared.policy = policy.with_mappings(&[(SILENT.into(), at.ip())]);
        Silent {
            program,
            port: at.port(),
            _client,
        }
    }
}

#[test]
fn more_connections_than_a_turn_begins_get_another_turn() {
    // Breaks when the last of a burst of connections waits until the guest begins the next one.
    let (mut shared, guest) = test_gateway::with_guest();
    shared.policy = shared.policy.clone().closed();
    let mut connections = connections(&shared, &guest);
    for n in 0..=BEGIN_MAX as u16 {
        begin(&guest, 5000 + n, [198, 51, 100, 9].into(), 80);
    }
    assert!(shared.context.ready().is_empty());
    connections.intercept(&mut shared);
    assert!(!shared.context.ready().is_empty());
    assert!(connections.interceptor.next().is_some(), "one waits");
}

#[test]
fn an_attempt_has_a_turn_once_it_can_be_woken() {
    // Breaks when a guest that gives up before the gateway can hear of it leaves its host connection behind.
    let (mut shared, guest) = test_gateway::with_guest();
    let mut connections = connections(&shared, &guest);
    let silent = Silent::new(&mut shared);
    begin(&guest, 5000, SILENT, silent.port);
    assert!(shared.context.ready().is_empty());
    connections.intercept(&mut shared);
    let begun = connections.table.iter().next().map(|(_, one)| &one.stage);
    assert!(matches!(begun, Some(ConnectionStage::Outgoing(..))));
    assert!(!shared.context.ready().is_empty());
    // Breaks when attempts to reach hosts that do not answer take all descriptors, or one that ended keeps its place.
    for port in 5001..5009 {
        begin(&guest, port, SILENT, silent.port);
        connections.intercept(&mut shared);
    }
    let waiting = |connections: &Connections| {
        let all = connections.table.iter();
        let ports = all.filter_map(|(_, c)| match &c.stage {
            ConnectionStage::Outgoing(outgoing, _) => Some(outgoing.incoming().peer_addr().port()),
            _ => None,
        });
        ports.collect::<std::collections::BTreeSet<u16>>()
    };
    assert_eq!(waiting(&connections), [5007, 5008].into());
    let all: Vec<Token> = connections.table.iter().map(|(token, _)| token).collect();
    all.into_iter().for_each(|token| connections.remove(token));
    assert!(connections.waiting.in_the_way().is_none());
}

#[test]
fn an_attempt_that_was_answered_waits_no_longer() {
    // Breaks when established connections count as attempts that no host has answered: each new attempt would end one.
    let (mut shared, guest) = test_gateway::with_guest();
    let mut connections = connections(&shared, &guest);
    let silent = Silent::new(&mut shared);
    for port in 5000..5000 + WAITING as u16 {
        begin(&guest, port, SILENT, silent.port);
    }
    connections.intercept(&mut shared);
    assert!(connections.waiting.in_the_way().is_some());
    // It has room for them now, and the kernel tries again after a second.
    rustix::net::listen(&silent.program, 128).expect("it listens");
    let begin = Instant::now();
    while connections.relays().count() < WAITING {
        assert!(begin.elapsed() < Duration::from_secs(60), "no answer");
        thread::sleep(Duration::from_millis(10));
        let all: Vec<Token> = connections.table.iter().map(|(token, _)| token).collect();
        all.into_iter()
            .for_each(|token| connections.turn_outgoing(&mut shared, token));
    }
    assert!(connections.waiting.in_the_way().is_none());
}
