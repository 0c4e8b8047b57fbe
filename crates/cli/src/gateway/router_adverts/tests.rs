use kern::{Clock, VirtualClock};
use mbuf::{MbufPool, Mbufq, Packet, PoolConfig};
use mbuma::device::memory::Pipe;
use mbuma::device::{Budget, Capabilities, Device};
use mbuma::{Config, IfAddr, IfConfig};
use std::time::Duration;
use wire::{
    EtherHeader, EtherType, Icmp6Header, Icmp6Message, IpProto, Ipv6Fields, Ipv6Header, NdpOptions,
    NeighborMessage, pseudo_header_v6,
};

use super::*;

fn terms() -> AdvertTerms {
    AdvertTerms {
        router: "fe80::2".parse().expect("an address"),
        mac: MacAddr([2, 0, 0, 0, 0, 1]),
        network: (Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2), 64),
        mtu: 4000,
        dns: Some(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 3)),
        search: vec!["example.org".to_owned(), "b.c".to_owned()],
    }
}

fn with_options<R>(terms: &AdvertTerms, look: impl FnOnce(RouterAdvert, NdpOptions<'_>) -> R) -> R {
    let advert = RouterAdvert {
        hop_limit: 64,
        managed: false,
        other: true,
        lifetime: ROUTER_LIFETIME,
        reachable_ms: 0,
        retrans_ms: 0,
    };
    let mut out = [0; BODY_MAX];
    let len = terms.write(&advert, &mut out).expect("there is room");
    match NdpMessage::parse(NdpMessage::ROUTER_ADVERT, advert.rest(), &out[..len]) {
        Ok(NdpMessage::RouterAdvert(read, options)) => look(read, options),
        other => panic!("{other:?}"),
    }
}

#[test]
fn r6_an_advertisement_tells_what_the_guest_is_configured_with() {
    // Breaks if the prefix has host bits, a lifetime is shorter than the interval between advertisements, or an option
    // is missing or empty.
    with_options(&terms(), |advert, options| {
        assert_eq!((advert.lifetime, advert.hop_limit), (1800, 64));
        let prefix = PrefixInfo {
            prefix_len: 64,
            on_link: true,
            autonomous: true,
            valid_s: 86_400,
            preferred_s: 14_400,
            prefix: Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 0),
        };
        let servers = [terms().dns.expect("one").octets()];
        let names = b"\0\0\0\0\x07\x08\x07example\x03org\0\x01b\x01c\0\0\0\0\0\0\0";
        let expected = [
            NdpOption::SourceLinkAddr(terms().mac),
            NdpOption::Mtu(4000),
            NdpOption::Prefix(prefix),
            NdpOption::Rdnss {
                lifetime: 1800,
                servers: &servers,
            },
            NdpOption::Other {
                kind: 31,
                body: names,
            },
        ];
        let found: Vec<_> = options.iter().collect();
        assert_eq!(found, expected);
    });
}

#[test]
fn r6_an_advertisement_without_room_for_names_has_the_rest() {
    // Breaks if long lists of domains crowd the prefix or the name servers out of the advertisement, or the
    // advertisement has an option without name servers.
    let long = AdvertTerms {
        search: vec!["x".repeat(60); 40],
        ..terms()
    };
    with_options(&long, |_, options| {
        let last = options.iter().last();
        assert!(matches!(last, Some(NdpOption::Rdnss { .. })), "{last:?}");
        assert_eq!(options.iter().count(), 4);
    });
    let without = AdvertTerms {
        dns: None,
        search: Vec::new(),
        ..terms()
    };
    with_options(&without, |_, options| assert_eq!(options.iter().count(), 3));
}

#[test]
fn r8_a_question_that_breaks_the_rules_has_no_answer() {
    // Breaks if the router accepts a link-layer address from a station without an IP address, or refuses one from a
    // station that has one.
    let mac = MacAddr([2, 0, 0, 0, 0, 9]);
    let asks = |src: Ipv6Addr, body: &[u8]| {
        let (shared, _) = crate::gateway::test_gateway::start();
        let question = Icmp6Datagram {
            src,
            dst: ALL_ROUTERS,
            hop_limit: 255,
            kind: NdpMessage::ROUTER_SOLICIT,
            code: 0,
            rest: [0; 4],
            body: Chain::from_slice(shared.stack.pool(), body).expect("a buffer"),
        };
        is_valid(&question)
    };
    let with_source = wire::NeighborMessage::router_solicit(Some(mac));
    let guest = "fe80::9".parse().expect("an address");
    assert!(asks(guest, with_source.body()) && asks(guest, &[]));
    assert!(asks(Ipv6Addr::UNSPECIFIED, &[]));
    assert!(!asks(Ipv6Addr::UNSPECIFIED, with_source.body()));
    assert!(!asks(guest, &[1, 0, 0, 0, 0, 0, 0, 0]));
}

/// A gateway's router in virtual time, and the guest's end of its link.
struct Link {
    clock: Arc<VirtualClock>,
    shared: Shared,
    index: IfIndex,
    adverts: RouterAdverts,
    guest: Pipe,
    pool: MbufPool,
}

const ALL: Budget = Budget {
    frames: usize::MAX,
    bytes: usize::MAX,
};
const GUEST: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 9);
const GUEST_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);

/// An advertisement that was sent: to which station and address, and what it says.
#[derive(Debug, PartialEq)]
struct Sent {
    mac: MacAddr,
    to: Ipv6Addr,
    lifetime: u16,
}

impl Link {
    fn new() -> Self {
        let clock = Arc::new(VirtualClock::new(Time::from_secs(1)));
        let shown: Arc<dyn Clock> = clock.clone();
        let stack = Stack::new(Config::new(Arc::clone(&shown), Random::from_seed(1)));
        let stack = stack.expect("address space");
        let (ours, guest) = Pipe::pair(Capabilities::plain(4000));
        let addr = |addr| IfAddr::new(addr, 64);
        let config = IfConfig {
            mac: Some(terms().mac),
            addrs: vec![addr(terms().network.0), addr(terms().router)],
            ..IfConfig::new("tap0")
        };
        let index = stack.attach(Arc::new(ours), config).expect("an MTU");
        let shared = crate::gateway::test_gateway::shared_of(stack, &shown);
        let adverts = RouterAdverts::new(&shared, index, terms()).expect("the first");
        let pool = MbufPool::new(PoolConfig::default()).expect("memory");
        Self {
            clock,
            shared,
            index,
            adverts,
            guest,
            pool,
        }
    }

    /// The guest solicits from this address, and is answered.
    fn solicit(&mut self, src: Ipv6Addr) {
        self.ask(src);
        self.adverts.answer(&mut self.shared);
    }

    /// The guest solicits from this address.
    fn ask(&self, src: Ipv6Addr) {
        let source = (!src.is_unspecified()).then_some(GUEST_MAC);
        let solicit = NeighborMessage::router_solicit(source);
        let message = Icmp6Message::Other {
            kind: NdpMessage::ROUTER_SOLICIT,
            code: 0,
            rest: [0; 4],
        };
        let len = Icmp6Header::LEN + solicit.body().len();
        let pseudo = pseudo_header_v6(src, ALL_ROUTERS, IpProto::ICMPV6, len as u32);
        let mut frame = vec![0; EtherHeader::LEN + Ipv6Header::LEN + Icmp6Header::LEN];
        let (ether, rest) = frame.split_at_mut(EtherHeader::LEN);
        let (ip, icmp) = rest.split_at_mut(Ipv6Header::LEN);
        let to = MacAddr::from_ipv6_multicast(ALL_ROUTERS);
        EtherHeader::new(to, GUEST_MAC, EtherType::IPV6).emit(ether);
        let fields = Ipv6Fields {
            payload_len: len as u16,
            next: IpProto::ICMPV6,
            hop_limit: 255,
            src,
            dst: ALL_ROUTERS,
            ..Ipv6Fields::default()
        };
        fields.emit(ip);
        Icmp6Header::new(message, pseudo, [solicit.body()]).emit(icmp);
        frame.extend(solicit.body());
        let packet = Packet::from_slice(&self.pool, &frame, 0).expect("a buffer");
        let mut tx = Mbufq::new();
        tx.enqueue(packet);
        self.guest.transmit(&mut tx).expect("room");
        let stack = self.shared.stack.clone();
        while stack.poll_interface(self.index, ALL).expect("it is there") {}
    }

    fn advance(&mut self, by: Duration) {
        self.clock.advance(by);
        self.shared.stack.poll();
        self.adverts.timer(&mut self.shared);
    }

    /// The advertisements that the guest got, each of which is checked byte by byte.
    fn sent(&self) -> Vec<Sent> {
        let mut rx = Mbufq::new();
        self.guest.receive(&mut rx, ALL).expect("it is there");
        let frames = rx.map(|packet| packet.to_vec());
        frames.filter_map(|frame| sent(&frame)).collect()
    }
}

fn sent(frame: &[u8]) -> Option<Sent> {
    let ip = Ipv6Header::parse(&frame[EtherHeader::LEN..]).expect("of IPv6");
    let message = &frame[EtherHeader::LEN + Ipv6Header::LEN..];
    let (icmp, body) = Icmp6Header::parse(message).expect("whole");
    if icmp.kind() != NdpMessage::ROUTER_ADVERT {
        return None;
    }
    assert_eq!((ip.src(), ip.hop_limit()), (terms().router, 255));
    let pseudo = pseudo_header_v6(ip.src(), ip.dst(), IpProto::ICMPV6, message.len() as u32);
    assert!(icmp.checksum_ok(pseudo, [body]));
    // The hop limit; of the flags O alone, so that no guest takes a second address by DHCP; then reachable and
    // retransmission times.
    let [hop_limit, flags, l1, l0] = icmp.rest();
    assert_eq!((icmp.code(), hop_limit, flags), (0, 64, 0x40));
    assert_eq!(body[..8], [0; 8]);
    // Its link-layer address, the MTU, the prefix without host bits.
    let mac = terms().mac.0;
    assert_eq!(body[8..16], [&[1, 1][..], &mac].concat());
    assert_eq!(body[16..24], [5, 1, 0, 0, 0, 0, 0x0f, 0xa0]);
    assert_eq!(body[24..28], [3, 4, 64, 0xc0]);
    assert_eq!(body[40..56], [&[0xfd][..], &[0; 15]].concat());
    Some(Sent {
        mac: EtherHeader::parse(frame).expect("whole").0.dst,
        to: ip.dst(),
        lifetime: u16::from_be_bytes([l1, l0]),
    })
}

#[test]
fn r6_and_r7_and_r8_the_guest_gets_what_it_asked_for_and_hears_the_end() {
    // RFC 4861 sections 6.1.2, 6.2.3, 6.2.5 and 6.2.6: breaks if a guest drops the advertisement, or is told other
    // things than the tool configures; if a router speaks before it is asked; if the answer goes to others, or not to a
    // guest without an address; if later ones don't come; or if guests keep a router that has ended.
    let mut link = Link::new();
    link.advance(Duration::from_secs(3600));
    assert_eq!(link.sent(), []);
    let to_guest = || Sent {
        mac: GUEST_MAC,
        to: GUEST,
        lifetime: 1800,
    };
    let to_all = |lifetime| Sent {
        mac: MacAddr::from_ipv6_multicast(ALL_NODES),
        to: ALL_NODES,
        lifetime,
    };
    link.solicit(GUEST);
    assert_eq!(link.sent(), [to_guest()]);
    link.solicit(Ipv6Addr::UNSPECIFIED);
    assert_eq!(link.sent(), [to_all(1800)]);
    link.solicit(Ipv6Addr::UNSPECIFIED);
    assert_eq!(link.sent(), [], "three seconds apart");
    link.advance(Duration::from_secs(3));
    assert_eq!(link.sent(), [to_all(1800)]);
    for pause in [16, 600, 600] {
        link.advance(Duration::from_secs(pause));
        assert_eq!(link.sent(), [to_all(1800)]);
    }
    assert_eq!(link.shared.counters.router_adverts, 6);
    link.adverts.close();
    assert_eq!(link.sent(), [to_all(0)]);
    let mut silent = Link::new();
    silent.adverts.close();
    assert_eq!(silent.sent(), [], "it has no guest");
}

#[test]
fn r8_more_questions_than_a_turn_answers_get_another_turn() {
    // Breaks when the last of many guests that ask at once has no answer until another one asks.
    let mut link = Link::new();
    link.adverts.socket.set_waker(None);
    for _ in 0..=TURN_MAX {
        link.ask(GUEST);
    }
    assert!(link.shared.context.ready().is_empty());
    link.adverts.answer(&mut link.shared);
    assert_eq!(link.shared.counters.router_adverts, TURN_MAX as u64);
    assert!(!link.shared.context.ready().is_empty());
}
