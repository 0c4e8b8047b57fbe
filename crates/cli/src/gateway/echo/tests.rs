use std::net::IpAddr;

use mbuf::Chain;
use mbuma::socket::Echo;

use super::super::table::{SourceKind, Token};
use super::super::test_gateway;
use super::{ANSWER_WAIT, Pings};

#[test]
fn an_answer_ends_the_wait_and_its_timer() {
    // Breaks when the timer of an answered ping stays for its ten seconds, or another host's answer ends the wait.
    let (mut shared, index) = test_gateway::start();
    let socket = shared.stack.icmp_echo_any(index).expect("the only one");
    let mut pings = Pings::new(&shared, socket);
    let asked = IpAddr::from([192, 0, 2, 1]);
    for _ in 0..100 {
        let seq = pings.pending.free_seq().expect("room");
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
        pings.pending.insert(shared.stack.pool(), seq, echo, timer);
        let stranger = IpAddr::from([192, 0, 2, 2]);
        pings.answer(&mut shared, stranger, seq, Chain::new());
        assert_eq!(shared.context.timers(), 1);
        pings.answer(&mut shared, asked, seq, Chain::new());
        assert_eq!(shared.context.timers(), 0);
    }
    assert_eq!(shared.counters.pings_answered, 100);
}
