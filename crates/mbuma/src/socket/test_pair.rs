//! Both ends of a connection between two stacks, for unit tests.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use kern::Random;

use crate::device::epair::{EpairConfig, EpairEnd, Input};
use crate::empty_at_end::EmptyAtEnd;
use crate::{Config, IfConfig, Stack, TcpStream};

pub(crate) struct TestPair {
    pub(crate) client: TcpStream,
    pub(crate) served: TcpStream,
    pub(crate) stacks: [Stack; 2],
    _ends: (EpairEnd, EpairEnd),
    _empty: EmptyAtEnd,
}

impl TestPair {
    pub(crate) fn new() -> Self {
        Self::over(ipv4, |_| {})
    }

    /// Two stacks with the addresses of hosts 1 and 2, and with a configuration that is changed so.
    pub(crate) fn over(addr: fn(u8) -> IpAddr, change: fn(&mut Config)) -> Self {
        let stack = |seed| {
            let clock = Arc::new(kern::MonotonicClock::new());
            let mut config = Config::new(clock, Random::from_seed(seed));
            change(&mut config);
            Stack::new(config).unwrap()
        };
        let stacks = [1, 2].map(stack);
        let (mut a, mut b) = EpairEnd::pair(EpairConfig::default());
        for (end, stack, host) in [(&mut a, &stacks[0], 1), (&mut b, &stacks[1], 2)] {
            let config = IfConfig::new("epair0").with_addr(addr(host), 24);
            end.attach(stack, config, Input::Direct).unwrap();
        }
        let server = SocketAddr::new(addr(2), 80);
        let listener = stacks[1].tcp_listen(server, 1).unwrap();
        let any = match server {
            SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
            SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
        };
        let client = stacks[0].tcp_connect(any, server).unwrap();
        Self {
            client,
            served: listener.accept().unwrap(),
            _empty: EmptyAtEnd::new(stacks.iter().map(Stack::pool)),
            stacks,
            _ends: (a, b),
        }
    }
}

pub(crate) fn ipv4(host: u8) -> IpAddr {
    Ipv4Addr::new(192, 0, 2, host).into()
}

pub(crate) fn ipv6(host: u8) -> IpAddr {
    Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, host.into()).into()
}
