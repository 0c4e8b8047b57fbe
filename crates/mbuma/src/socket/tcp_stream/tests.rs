use std::net::Ipv4Addr;

use kern::Random;
use mbuf::Live;

use super::*;
use crate::device::epair::{EpairConfig, EpairEnd, Input};
use crate::ifnet::IfConfig;
use crate::{Config, Stack};

/// Breaks if bytes are lost, repeated or out of order where a reader takes now little, which is copied under the
/// lock, now more, which is moved.
#[test]
fn what_is_read_by_pieces_is_what_was_sent() {
    let stack = |seed| {
        let clock = Arc::new(kern::MonotonicClock::new());
        Stack::new(Config::new(clock, Random::from_seed(seed))).unwrap()
    };
    let stacks = [1, 2].map(stack);
    let (mut a, mut b) = EpairEnd::pair(EpairConfig::default());
    for (end, host) in [(&mut a, 1), (&mut b, 2)] {
        let config = IfConfig::new("epair0").with_addr(Ipv4Addr::new(192, 0, 2, host), 24);
        end.attach(&stacks[usize::from(host) - 1], config, Input::Direct);
    }
    let server = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 2), 80);
    let listener = stacks[1].tcp_listen(server, 1).unwrap();
    let any = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);
    let client = stacks[0].tcp_connect(any, server).unwrap();
    let served = listener.accept().unwrap();

    let sent: Vec<u8> = (0..20_000_u32).map(|n| ((n * 7) >> 3) as u8).collect();
    assert_eq!(client.send(&sent).unwrap(), sent.len());
    let mut got = Vec::new();
    let sizes = [1, 64, COPIED_LOCKED, COPIED_LOCKED + 1, 5_000];
    for size in sizes.into_iter().cycle() {
        let mut buf = vec![0; size];
        match served.recv(&mut buf) {
            Ok(n) => got.extend_from_slice(&buf[..n]),
            Err(e) => {
                assert_eq!(e, SocketError::WouldBlock);
                break;
            }
        }
    }
    assert!(got == sent, "{} bytes came of {}", got.len(), sent.len());
    client.shutdown_write();
    assert_eq!(served.recv(&mut [0; 9]), Ok(0));
    assert_eq!(served.recv(&mut []), Ok(0));

    let pools = stacks.each_ref().map(|s| s.pool().clone());
    drop((client, served, listener, a, b, stacks));
    assert!(pools.iter().all(|pool| pool.live() == Live::NONE));
}
