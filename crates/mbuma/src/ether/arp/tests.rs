use super::*;
use crate::config::Config;
use crate::device::Capabilities;
use crate::device::memory::Pipe;
use crate::ifnet::{IfAddr, IfConfig};
use crate::stack::Stack;
use kern::{Random, VirtualClock};

/// Breaks if a link full of stations, or of liars, makes the table grow without limit, or if what is
/// pushed out leaks the packets that wait in it.
#[test]
fn table_is_bounded() {
    let clock = Arc::new(VirtualClock::new(Time::from_secs(1)));
    let stack = Stack::new(Config::new(clock.clone(), Random::from_seed(1))).unwrap();
    let (ours, _peer) = Pipe::pair(Capabilities::plain(1500));
    let us = Ipv4Addr::new(10, 0, 0, 1);
    let config = IfConfig {
        addrs: vec![IfAddr {
            addr: us,
            prefix_len: 8,
        }],
        ..IfConfig::new("pipe0")
    };
    let index = stack.attach(Arc::new(ours), config);
    let ifp = stack.0.interface(index).unwrap();
    for n in 0..2000_u32 {
        clock.advance(Duration::from_millis(1));
        let addr = Ipv4Addr::from(0x0a01_0000 + n);
        stack.0.enter(|batch| {
            if n.is_multiple_of(2) {
                let mac = MacAddr([2, 0, 0, 0, (n >> 8) as u8, n as u8]);
                ifp.neighbours
                    .heard(batch, &ifp, &ArpPacket::request(mac, addr, us), true);
            } else {
                let packet = Packet::new(&batch.stack.pool).unwrap();
                let resolution = ifp.neighbours.resolve(batch, &ifp, addr, packet, &mut None);
                assert!(matches!(resolution, Resolution::Waits));
            }
        });
        assert!(ifp.neighbours.table.read().len() <= ENTRIES_MAX);
    }
    // The stations that answered the longest ago went first; the newest is still known.
    assert!(
        ifp.neighbours
            .table
            .read()
            .contains_key(&Ipv4Addr::from(0x0a01_0000 + 1998))
    );
    stack.detach(index);
    let pool = stack.pool().clone();
    drop((stack, ifp, _peer));
    assert_eq!(pool.live(), mbuf::Live::NONE);
}
