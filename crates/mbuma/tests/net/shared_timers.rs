//! The worker of the shared timers: it hears of each timer that another thread sets.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker};
use std::time::Duration;

use crate::common::net::*;
use crate::frames6::*;
use crate::igmp;
use kern::Random;
use kern::cpus::Workers;
use mbuma::device::Capabilities;
use mbuma::device::impair::Impaired;
use mbuma::device::memory::Pipe;
use mbuma::{Autoconf, IfAddr, IfConfig};
use wire::{
    ALL_SYSTEMS, ArpPacket, Icmp6Message, IpProto, Ipv4Fields, MacAddr, NdpMessage,
    NeighborMessage, link_local_of, solicited_node,
};

struct Calls(AtomicUsize);

impl Wake for Calls {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn the_worker_of_the_shared_timers_hears_of_each() {
    // Breaks if a question to a neighbour, a report of a group, or the end of a datagram that lacks fragments waits
    // until the worker happens to wake up.
    let lab = Lab::new(Setup {
        introduced: false,
        addrs: vec![IfAddr::new(US6, 64)],
        autoconf: Some(Autoconf::default()),
        tune: |config| config.cpus = Arc::new(Workers::new(1)),
        ..Setup::default()
    });
    let calls = Arc::new(Calls(AtomicUsize::new(0)));
    let waker = Waker::from(Arc::clone(&calls));
    lab.stack.set_cpu_waker(0, Some(waker));
    // The addresses are probed for.
    for _ in 0..50 {
        lab.advance(Duration::from_millis(100));
    }
    let hears = |about: &str, set: &dyn Fn()| {
        calls.0.store(0, Ordering::Relaxed);
        set();
        assert_ne!(calls.0.load(Ordering::Relaxed), 0, "{about}");
    };
    let socket = lab.stack.udp_bind(at(US, 7)).unwrap();
    let socket6 = lab.stack.udp_bind(at6(US6, 7)).unwrap();
    let send = || socket.send_to(b"x", at(PEER, 9)).unwrap();
    let send6 = || socket6.send_to(b"x", at6(PEER6, 9)).unwrap();
    hears("a question of ARP", &send);
    hears("a solicitation", &send6);
    lab.give(&arp_frame(&ArpPacket::reply(PEER_MAC, PEER, OUR_MAC, US)));
    lab.give(&nd_frame(
        PEER6,
        US6,
        &NeighborMessage::advert(PEER6, PEER_MAC, ANSWER),
    ));
    for _ in 0..21 {
        lab.advance(Duration::from_secs(60));
    }
    hears("a check by ARP", &send);
    hears("a check of a neighbour", &send6);

    let first = Ipv4Fields {
        mf: true,
        ..from_peer(US, IpProto::UDP)
    };
    hears("a fragment", &|| lab.give(&ip_frame(&first, b"12345678")));
    let router = link_local_of(MacAddr([2, 0, 0, 0, 5, 1]));
    let advert = Icmp6Message::Other {
        kind: NdpMessage::ROUTER_ADVERT,
        code: 0,
        rest: [64, 0, 7, 8],
    };
    let advert = icmp6_frame(router, ALL_NODES, 255, advert, &[0; 8]);
    hears("a router's lifetime", &|| lab.give(&advert));
    let group = Ipv4Addr::new(239, 1, 2, 3);
    let _member = lab.stack.join_group(lab.iface, group).unwrap();
    lab.advance(Duration::from_secs(5));
    hears("a query", &|| {
        igmp::ask(&lab, ALL_SYSTEMS, &igmp::query(igmp::ANY, &[]))
    });
    lab.advance(Duration::from_secs(5));
    hears("a group", &|| {
        drop(lab.stack.join_group(lab.iface, Ipv4Addr::new(239, 1, 2, 4)))
    });
    lab.advance(Duration::from_secs(5));
    lab.stack.set_forwarding(true);
    lab.advance(Duration::from_secs(5));
    let routers = solicited_node(crate::anycast::ROUTERS);
    let question = NeighborMessage::solicit(crate::anycast::ROUTERS, Some(PEER_MAC), None);
    let question = nd_frame(PEER6, routers, &question);
    hears("an answer for several", &|| lab.give(&question));

    let (device, _other) = Pipe::pair(Capabilities::plain(1500));
    let links = ["delay=1ms", "delay=1ms"].map(|link| link.parse().unwrap());
    let clock = Arc::clone(&lab.clock) as _;
    let device = Impaired::new(device, links, lab.stack.pool(), clock, Random::from_seed(1));
    let config = IfConfig::new("wan0").with_addr(Ipv4Addr::new(192, 0, 2, 1), 24);
    let link = lab.stack.attach(Arc::new(device), config).unwrap();
    lab.advance(Duration::from_secs(5));
    hears("a frame under way", &|| lab.stack.announce(link));
    lab.stack.detach(link);
    lab.stack.set_cpu_waker(0, None);
}
