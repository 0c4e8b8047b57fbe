use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4};
use std::sync::Arc;
use std::task::{Context, Waker};

use kern::{Random, Time, VirtualClock};
use mbuf::{Chain, Live};

use super::*;
use crate::drops::DropReason;
use crate::{Config, IfConfig, IfIndex, Stack};

const MTU: u16 = 1280;
const HERE: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
/// In another network: a tunnel leads everywhere.
const THERE: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 9);
const ALL: Budget = Budget {
    frames: usize::MAX,
    bytes: usize::MAX,
};

struct Tunnel {
    stack: Stack,
    index: IfIndex,
    end: TunnelEnd,
}

impl Tunnel {
    fn new(addr: impl Into<IpAddr>) -> Self {
        let clock = Arc::new(VirtualClock::new(Time::from_secs(1)));
        let stack = Stack::new(Config::new(clock, Random::from_seed(1))).expect("address space");
        let (device, end) = pair(stack.pool(), MTU).expect("a descriptor");
        let config = IfConfig::new("tun0").with_addr(addr, 0);
        let index = stack.attach(Arc::new(device), config).unwrap();
        Self { stack, index, end }
    }

    fn poll(&self) {
        self.stack
            .poll_interface(self.index, ALL)
            .expect("it is there");
    }

    fn done(self) {
        let pool = self.stack.pool().clone();
        drop((self.stack, self.end));
        assert_eq!(pool.live(), Live::NONE);
    }
}

#[test]
fn a_packet_leaves_without_a_link_header_and_at_once() {
    // Breaks if a tunnel asks for neighbours, or puts something before the IP header.
    let tunnel = Tunnel::new(HERE);
    let socket = tunnel
        .stack
        .udp_bind(SocketAddrV4::new(HERE, 9))
        .expect("a port");
    let question = Chain::from_slice(tunnel.stack.pool(), b"question").expect("a buffer");
    socket
        .send_to(question, SocketAddrV4::new(THERE, 53))
        .expect("a way");
    tunnel.stack.announce(tunnel.index);
    let packet = tunnel
        .end
        .take()
        .expect("it is there")
        .expect("it was sent")
        .to_vec();
    assert_eq!((packet[0], packet.len()), (0x45, 20 + 8 + 8));
    assert_eq!(packet[16..20], THERE.octets());
    assert!(tunnel.end.take().expect("it is there").is_none());
    // The answer, with the ends exchanged: the sums stay true.
    let mut answer = packet;
    let (src, dst) = (HERE.octets(), THERE.octets());
    answer[12..16].copy_from_slice(&dst);
    answer[16..20].copy_from_slice(&src);
    answer[20..24].copy_from_slice(&[0, 53, 0, 9]);
    assert!(tunnel.end.give(&answer).expect("it is there"));
    tunnel.poll();
    let datagram = socket.recv().expect("the answer");
    assert_eq!(datagram.src, SocketAddr::from((THERE, 53)));
    drop((socket, datagram));
    tunnel.done();
}

#[test]
fn a_packet_of_ip_6_asks_for_no_neighbour_either() {
    // Breaks if neighbour discovery holds a packet back, or an answer is framed for Ethernet.
    let (here, there) = (
        Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1),
        Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 9),
    );
    let tunnel = Tunnel::new(here);
    let socket = tunnel
        .stack
        .udp_bind(SocketAddr::from((here, 9)))
        .expect("a port");
    let question = Chain::from_slice(tunnel.stack.pool(), b"question").expect("a buffer");
    socket
        .send_to(question, SocketAddr::from((there, 53)))
        .expect("a way");
    let mut packet = tunnel
        .end
        .take()
        .expect("it is there")
        .expect("it was sent")
        .to_vec();
    assert_eq!((packet[0] >> 4, packet.len()), (6, 40 + 8 + 8));
    packet[8..24].copy_from_slice(&there.octets());
    packet[24..40].copy_from_slice(&here.octets());
    packet[40..44].copy_from_slice(&[0, 53, 0, 9]);
    assert!(tunnel.end.give(&packet).expect("it is there"));
    tunnel.poll();
    let datagram = socket.recv().expect("the answer");
    assert_eq!(datagram.src, SocketAddr::from((there, 53)));
    drop((socket, datagram));
    tunnel.done();
}

#[test]
fn large_segments_are_cut_to_the_mtu_and_come_in_whole() {
    // Breaks if a packet is larger than the MTU of the tunnel, or its checksum is not complete.
    let (a, b) = (Tunnel::new(HERE), Tunnel::new(THERE));
    let listener = b
        .stack
        .tcp_listen(SocketAddrV4::new(THERE, 80), 1)
        .expect("a port");
    let any = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);
    let client = a
        .stack
        .tcp_connect(any, listener.local_addr())
        .expect("a way");
    let most = std::cell::Cell::new(0);
    let go = || {
        for _ in 0..20 {
            for (from, to) in [(&a, &b), (&b, &a)] {
                while let Some(packet) = from.end.take().expect("it is there") {
                    most.set(most.get().max(packet.len()));
                    assert!(to.end.give(&packet.to_vec()).expect("it is there"));
                }
                to.poll();
            }
        }
    };
    go();
    let server = listener.accept().expect("the handshake is over");
    assert_eq!(client.send(&[7; 60_000]), Ok(60_000));
    go();
    let mut got = 0;
    while let Ok(data) = server.recv_chain(usize::MAX) {
        got += data.len();
    }
    assert_eq!((got, most.get()), (60_000, usize::from(MTU)));
    drop((client, server, listener));
    (0..3).for_each(|_| go());
    a.done();
    b.done();
}

#[test]
fn what_is_no_packet_is_dropped_and_counted() {
    // Breaks if bytes that are no packet are taken for IPv4, make the stack panic, or are not counted.
    let tunnel = Tunnel::new(HERE);
    for junk in [&[][..], &[0x50; 40], &[0x45], &[0x00; 20], &[0xff; 2000]] {
        assert!(tunnel.end.give(junk).expect("it is there"));
    }
    tunnel.poll();
    let stats = tunnel.stack.stats();
    let dropped = |reason| {
        let found = stats.dropped.iter().find(|(r, _)| *r == reason);
        found.map_or(0, |(_, n)| *n)
    };
    assert_eq!(dropped(DropReason::UnknownEtherType), 3);
    assert_eq!(dropped(DropReason::FrameTruncated), 1);
    let all: u64 = stats.dropped.iter().map(|(_, n)| n).sum();
    assert_eq!((stats.received, all), (5, 5));
    tunnel.done();
}

#[test]
fn the_thread_that_receives_is_told_of_the_end() {
    // Breaks if a runtime keeps the descriptor of a tunnel whose other end is gone: nothing else would wake it.
    let pool = MbufPool::new(mbuf::PoolConfig::default()).expect("address space");
    let (device, end) = pair(&pool, MTU).expect("a descriptor");
    drop(end);
    assert!(device.given.clear(), "the descriptor is readable");
    assert!(device.receive(&mut Mbufq::new(), ALL).is_err());
}

#[test]
fn the_program_is_woken_and_told_of_the_end() {
    // Breaks if a task sleeps on over a packet, or over the end of the device.
    let tunnel = Tunnel::new(HERE);
    let mut cx = Context::from_waker(Waker::noop());
    assert!(tunnel.end.poll_take(&mut cx).is_pending());
    let none = tunnel.end.take_blocking(Some(Duration::from_millis(1)));
    assert_eq!(
        none.expect_err("nothing was sent").kind(),
        io::ErrorKind::TimedOut
    );
    let connects = tunnel
        .stack
        .tcp_connect(SocketAddrV4::new(HERE, 0), SocketAddrV4::new(THERE, 1));
    assert!(tunnel.end.poll_take(&mut cx).is_ready(), "the SYN");
    drop(connects);
    tunnel.stack.detach(tunnel.index);
    while let Poll::Ready(Ok(_)) = tunnel.end.poll_take(&mut cx) {}
    assert!(tunnel.end.take_blocking(None).is_err(), "it has ended");
    assert!(tunnel.end.give(&[0x45; 20]).is_err(), "it has ended");
    tunnel.done();
}
