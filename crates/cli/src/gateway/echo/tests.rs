use std::net::IpAddr;

use mbuf::Chain;
use mbuma::socket::Echo;
use wire::{IcmpMessage, IpProto};

use super::super::table::{SourceKind, Token};
use super::super::test_gateway;
use super::{ANSWER_WAIT, Pings, TURN_MAX};

#[test]
fn an_answer_ends_the_wait_and_its_timer() {
    // Breaks when the timer of an answered ping stays for its ten seconds, or another host's answer ends the wait.
    let (mut shared, index) = test_gateway::start();
    let socket = shared.stack.icmp_echo_any(index).expect("the only one");
    let mut pings = Pings::new(&shared, socket, false);
    let asked = IpAddr::from([192, 0, 2, 1]);
    for _ in 0..100 {
        let seq = pings.pending.free_seq();
        let token = Token::nth(SourceKind::Ping, u32::from(seq));
        let timer = shared.after(ANSWER_WAIT, token);
        let echo = Echo {
            src: crate::addressing::Addressing::DEFAULT.guest.into(),
            dst: asked,
            id: 1,
            seq: 2,
            payload: Chain::new(),
            ttl: 64,
        };
        let pool = shared.stack.pool();
        pings.pending.insert(pool, seq, (echo, asked), timer);
        let stranger = IpAddr::from([192, 0, 2, 2]);
        pings.answer(&mut shared, stranger, seq, Chain::new());
        assert_eq!(shared.context.timers(), 1);
        pings.answer(&mut shared, asked, seq, Chain::new());
        assert_eq!(shared.context.timers(), 0);
    }
    assert_eq!(shared.counters.pings_answered, 100);
}

#[test]
fn a_ping_to_a_mapped_address_is_answered_by_the_host_behind_it() {
    // Breaks when the gateway ignores the answer of the host's own address because the guest pinged the address that
    // stands for it.
    let (mut shared, index) = test_gateway::start();
    let socket = shared.stack.icmp_echo_any(index).expect("the only one");
    let mut pings = Pings::new(&shared, socket, false);
    let (mapped, host) = (IpAddr::from([10, 0, 2, 9]), IpAddr::from([127, 0, 0, 1]));
    let mappings = [(mapped, host)];
    shared.policy = shared.policy.clone().with_mappings(&mappings);
    let echo = Echo {
        src: crate::addressing::Addressing::DEFAULT.guest.into(),
        dst: mapped,
        id: 1,
        seq: 2,
        payload: Chain::new(),
        ttl: 64,
    };
    let seq = pings.pending.free_seq();
    let sent_to = match pings.send(&mut shared, &echo, seq) {
        // This user may not ping, so the test only asks the policy.
        Err(_) => shared.policy.decide_host(mapped).expect("a mapped address"),
        Ok(sent_to) => sent_to,
    };
    let timer = shared.after(ANSWER_WAIT, Token::nth(SourceKind::Ping, seq.into()));
    let pool = shared.stack.pool();
    pings.pending.insert(pool, seq, (echo, sent_to), timer);
    pings.answer(&mut shared, host, seq, Chain::new());
    assert_eq!(shared.counters.pings_answered, 1);
}

#[test]
fn more_pings_than_a_turn_sends_get_another_turn() {
    // Breaks when the last ping of a burst waits until the guest sends the next one.
    let (mut shared, guest) = test_gateway::with_guest();
    shared.policy = shared.policy.clone().closed();
    let socket = shared
        .stack
        .icmp_echo_any(guest.index)
        .expect("the only one");
    let mut pings = Pings::new(&shared, socket, false);
    pings.socket.set_waker(None);
    let mut ping = [0; 8];
    IcmpMessage::EchoRequest { id: 1, seq: 1 }.emit(&mut ping, [&[][..]]);
    for _ in 0..=TURN_MAX {
        guest.say([198, 51, 100, 9].into(), IpProto::ICMP, &ping);
    }
    assert!(shared.context.ready().is_empty());
    pings.forward(&mut shared);
    assert_eq!(shared.counters.pings, TURN_MAX as u64);
    assert!(!shared.context.ready().is_empty());
}
