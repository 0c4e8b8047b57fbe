//! Listeners that share an address and a port, over both versions of IP.

use std::net::{IpAddr, SocketAddr};

use crate::common::net::*;
use crate::connected::HOSTS;
use crate::frames6::lab;
use mbuma::{SocketError, State, TcpListener};

const PORT: u16 = 80;

/// Connects from `count` ports, which begin at `first`; how many clients each listener got.
fn spread<const N: usize>(
    lab: &Lab,
    host: IpAddr,
    first: u16,
    count: u16,
    listeners: [&TcpListener; N],
) -> [usize; N] {
    let to = SocketAddr::new(host, PORT);
    for port in first..first + count {
        let client = lab.stack.tcp_connect((host, port), to).unwrap();
        assert_eq!(client.state(), State::Established);
        client.abort();
    }
    listeners.map(|listener| std::iter::from_fn(|| listener.accept().ok()).count())
}

#[test]
fn each_listener_gets_its_share_and_a_client_the_same_one() {
    // Linux's SO_REUSEPORT: breaks if one listener gets all clients, if a client goes to another one the second time,
    // if those of a closed one are lost, or if a listener may take the port of one that does not share it.
    for host in HOSTS {
        let lab = lab();
        let shared = || lab.stack.tcp_listen_shared((host, PORT), 512).unwrap();
        let [a, b, c] = [shared(), shared(), shared()];
        let taken = lab.stack.tcp_listen((host, PORT), 8);
        assert_eq!(taken.err(), Some(SocketError::AddrInUse));
        let first = spread(&lab, host, 1000, 300, [&a, &b, &c]);
        assert_eq!(first.iter().sum::<usize>(), 300);
        assert!(first.iter().all(|n| (60..150).contains(n)), "{first:?}");
        assert_eq!(spread(&lab, host, 1000, 300, [&a, &b, &c]), first);
        let waits = (0..9).map(|n| {
            lab.stack
                .tcp_connect((host, 2000 + n), (host, PORT))
                .unwrap()
        });
        let waits: Vec<_> = waits.collect();
        drop(b);
        let reset = waits
            .iter()
            .filter(|client| client.error().is_some())
            .count();
        let [left, right] = [&a, &c].map(|l| std::iter::from_fn(|| l.accept().ok()).count());
        assert_eq!(left + right + reset, waits.len());
        let later = spread(&lab, host, 1000, 300, [&a, &c]);
        assert_eq!(later.iter().sum::<usize>(), 300);
        let free = lab.stack.tcp_listen_shared((host, 0), 8).unwrap();
        let other = lab.stack.tcp_listen_shared((host, 0), 8).unwrap();
        assert_ne!(free.local_addr(), other.local_addr());
        drop((a, c, free, other, waits));
        let _alone = lab.stack.tcp_listen((host, PORT), 8).unwrap();
        let shared = lab.stack.tcp_listen_shared((host, PORT), 8);
        assert_eq!(shared.err(), Some(SocketError::AddrInUse));
    }
}
