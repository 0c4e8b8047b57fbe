//! Listeners that share an address and a port, and those of one interface, over both versions of IP.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake, Waker};

use crate::common::net::*;
use crate::connected::HOSTS;
use crate::frames6::lab;
use mbuma::{SocketError, State, TcpListener};

const PORT: u16 = 80;

#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

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

#[test]
fn a_listener_of_one_interface_hears_no_other() {
    // SO_BINDTODEVICE: breaks if a client of another interface is accepted, one of this interface goes to the listener
    // of all, the port is lost for the others, or a program waits for clients of an interface that is gone.
    let all_of = [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()];
    let own_of = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
    for ((host, all), own) in HOSTS
        .into_iter()
        .zip::<[IpAddr; 2]>(all_of)
        .zip::<[IpAddr; 2]>(own_of)
    {
        let lab = lab();
        let stack = &lab.stack;
        let connect = |to: IpAddr| {
            let client = stack.tcp_connect((all, 0), (to, PORT)).unwrap();
            let error = client.error();
            client.abort();
            error
        };
        let listen = || stack.tcp_listen_on((all, PORT), lab.iface, 8);
        let on_link = listen().unwrap();
        assert_eq!(listen().err(), Some(SocketError::AddrInUse));
        assert_eq!(
            (connect(host), connect(own)),
            (None, Some(SocketError::Refused))
        );
        assert!(on_link.accept().is_ok());
        let on_all = stack.tcp_listen((all, PORT), 8).unwrap();
        assert_eq!((connect(host), connect(own)), (None, None));
        assert!(on_link.accept().is_ok() && on_link.accept().is_err());
        assert!(on_all.accept().is_ok() && on_all.accept().is_err());
        drop(on_link);
        assert_eq!(connect(host), None);
        assert!(on_all.accept().is_ok());
        // A reader of a listener whose interface goes hears that no client will come.
        let cut_off = listen().unwrap();
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(Arc::clone(&woken));
        let mut cx = Context::from_waker(&waker);
        assert!(cut_off.poll_accept(&mut cx).is_pending());
        stack.detach(lab.iface);
        assert!(woken.0.load(Ordering::Relaxed));
        let gone = Some(SocketError::AddrNotAvailable);
        assert_eq!(cut_off.accept().err(), gone);
        drop(cut_off);
        assert_eq!(listen().err(), gone);
        assert_eq!(on_all.accept().err(), Some(SocketError::WouldBlock));
    }
}
