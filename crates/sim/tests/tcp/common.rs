//! One stack, and a station that a test drives by hand, on a perfect wire of no length.

#![allow(dead_code, unreachable_pub)] // each test file is a crate that uses its part

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use kern::Time;
use mbuf::Live;
use mbuma::{Config, Stack, TcpStream};
use sim::{Link, Net, NodeId, PeerId, PortConfig, Segment, Shape, WireId};
use wire::{SeqNum, TcpFlags, TcpOptions};

/// The environment variable of a run over IPv6.
pub const OVER_IPV6: &str = "MBUMA_SIM_TCP_OVER_IPV6";

pub const PORT: u16 = 80;
pub const MSS: usize = 1460;

/// Whether this run is over IPv6.
pub fn is_over_ipv6() -> bool {
    std::env::var_os(OVER_IPV6).is_some()
}

/// Where a segment of [`MSS`] bytes just fits: so figures are the same over both versions.
pub fn link_mtu() -> u16 {
    MSS as u16 + if is_over_ipv6() { 60 } else { 40 }
}

/// An address of IPv4, or the one of IPv6 that stands for it in a run over that.
pub fn addr(v4: impl Into<Ipv4Addr>) -> IpAddr {
    let v4 = v4.into();
    if !is_over_ipv6() {
        return v4.into();
    }
    let prefix = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0);
    Ipv6Addr::from_bits(prefix.to_bits() | u128::from(v4.to_bits())).into()
}

/// The stack's end.
pub fn us(port: u16) -> SocketAddr {
    SocketAddr::new(addr([10, 0, 0, 1]), port)
}

/// The station's.
pub fn them(port: u16) -> SocketAddr {
    SocketAddr::new(addr([10, 0, 0, 2]), port)
}

/// No address in particular.
pub fn any() -> SocketAddr {
    match is_over_ipv6() {
        true => (Ipv6Addr::UNSPECIFIED, 0).into(),
        false => (Ipv4Addr::UNSPECIFIED, 0).into(),
    }
}

/// The type and code of an error as this run's version of ICMP tells it.
pub fn icmp_kind(kind: (u8, u8)) -> (u8, u8) {
    match is_over_ipv6() {
        true => sim::icmp6_kind(kind),
        false => kind,
    }
}

/// The option of a SYN without others.
pub fn with_mss() -> TcpOptions {
    TcpOptions {
        mss: Some(MSS as u16),
        ..TcpOptions::default()
    }
}

pub const SYN: TcpFlags = TcpFlags::SYN;
pub const ACK: TcpFlags = TcpFlags::ACK;
pub const FIN: TcpFlags = TcpFlags::FIN;
pub const RST: TcpFlags = TcpFlags::RST;
pub const PSH: TcpFlags = TcpFlags::PSH;
pub const URG: TcpFlags = TcpFlags::URG;

pub fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

pub fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// The stack and the station.
pub struct Bench {
    pub net: Net,
    pub node: NodeId,
    pub peer: PeerId,
    pub wire: WireId,
}

/// Runs a test once for each shape in which received frames may lie in mbufs.
pub fn each_shape(test: impl Fn(Bench)) {
    for shape in Shape::ALL {
        println!("{shape:?}");
        test(Bench::with(
            &PortConfig::plain(link_mtu()).shaped(shape),
            |_| {},
        ));
    }
}

impl Bench {
    pub fn new() -> Self {
        Self::with(&PortConfig::plain(link_mtu()), |_| {})
    }

    pub fn tuned(tune: impl FnOnce(&mut Config)) -> Self {
        Self::with(&PortConfig::plain(link_mtu()), tune)
    }

    pub fn with(port: &PortConfig, tune: impl FnOnce(&mut Config)) -> Self {
        let mut net = Net::new(1);
        let wire = net.wire(Link::PERFECT);
        let node = net.stack_with(|config| {
            // Windows and times that tests can predict.
            config.tcp.recv_buffer_max = 0;
            config.tcp.pacing = false;
            tune(config);
        });
        net.plug(node, wire, us(0).ip(), port);
        let peer = net.peer(wire, them(0).ip());
        net.announce(peer, us(0).ip());
        net.run_for(ms(10));
        Self {
            net,
            node,
            peer,
            wire,
        }
    }

    pub fn stack(&self) -> Stack {
        self.net.at(self.node).clone()
    }

    pub fn run(&mut self, by: Duration) {
        self.net.run_for(by);
    }

    /// The segments that the station saw since the last call.
    pub fn seen(&mut self) -> Vec<Segment> {
        self.net.peer_mut(self.peer).take_segments()
    }

    /// The only segment that the station saw since the last call.
    #[track_caller]
    pub fn one(&mut self) -> Segment {
        let seen = self.seen();
        assert_eq!(seen.len(), 1, "one segment was expected: {}", show(&seen));
        seen.into_iter().next().expect("there is one")
    }

    #[track_caller]
    pub fn nothing(&mut self) {
        let seen = self.seen();
        assert!(seen.is_empty(), "nothing was expected: {}", show(&seen));
    }

    /// Sends the segment, and runs all events that follow at once.
    pub fn say(&mut self, segment: &Segment) {
        self.net.say(self.peer, segment);
        self.run(Duration::ZERO);
    }

    /// Connects from the stack to the station; nothing is answered yet.
    pub fn connect(&mut self) -> TcpStream {
        let them = them(PORT);
        let local = any();
        let stream = self
            .stack()
            .tcp_connect(local, them)
            .expect("a port is free");
        self.run(Duration::ZERO);
        stream
    }

    /// A connection that the stack began.
    pub fn active(&mut self) -> (Hand, TcpStream) {
        self.active_with(65_535, with_mss())
    }

    pub fn active_with(&mut self, window: u16, options: TcpOptions) -> (Hand, TcpStream) {
        let stream = self.connect();
        let syn = self.one();
        let mut hand = Hand::answering(&syn);
        hand.window = window;
        let syn_ack = Segment {
            options,
            ..hand.segment(SYN | ACK)
        };
        self.say(&syn_ack);
        hand.snd += 1;
        let ack = self.one();
        assert_eq!((ack.flags, ack.seq, ack.ack), (ACK, hand.rcv, hand.snd));
        (hand, stream)
    }

    /// A connection that the station began.
    pub fn passive(&mut self) -> (Hand, TcpStream) {
        let listener = self
            .stack()
            .tcp_listen(us(PORT), 16)
            .expect("the port is free");
        let hand = self.dial(5000, with_mss());
        let stream = listener.accept().expect("the handshake is complete");
        (hand, stream)
    }

    /// A connection that the station began, with all options; its clock stands at `ts`.
    pub fn passive_with(&mut self, ts: Option<u32>, sack_permitted: bool) -> (Hand, TcpStream) {
        let listener = self
            .stack()
            .tcp_listen(us(PORT), 16)
            .expect("the port is free");
        let options = TcpOptions {
            mss: Some(MSS as u16),
            sack_permitted,
            timestamps: ts.map(|value| (value, 0)),
            ..TcpOptions::default()
        };
        let hand = self.dial(5000, options);
        let stream = listener.accept().expect("the handshake is complete");
        (hand, stream)
    }

    /// The station connects to the listener that is there.
    pub fn dial(&mut self, port: u16, options: TcpOptions) -> Hand {
        let mut hand = Hand::from_port(port);
        let syn = Segment {
            options,
            ..hand.segment(SYN)
        };
        self.say(&syn);
        hand.snd += 1;
        let syn_ack = self.one();
        assert_eq!((syn_ack.flags, syn_ack.ack), (SYN | ACK, hand.snd));
        hand.rcv = syn_ack.seq + 1;
        hand.ts = (syn_ack.options.timestamps).map(|(theirs, ours)| (ours, theirs));
        self.say(&hand.segment(ACK));
        self.nothing();
        hand
    }

    /// Gives the stream bytes to send, and runs all events that follow at once.
    #[track_caller]
    pub fn send(&mut self, stream: &TcpStream, bytes: &[u8]) {
        stream.send(bytes).expect("room");
        self.run(ms(0));
    }

    /// Ends the stream's direction; the FIN is sent.
    pub fn shut(&mut self, stream: &TcpStream) {
        stream.shutdown(std::net::Shutdown::Write);
        self.run(ms(0));
    }
}

/// At the end of a test, once nothing is in use any more, nothing is left.
impl Drop for Bench {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        // Longer than any connection is kept whose peer is silent.
        self.run(secs(3600));
        let stats = self.stack().stats();
        assert_eq!(stats.tcp.connections, 0, "connections are left");
        let opened = stats.tcp.opened_active + stats.tcp.opened_passive;
        assert_eq!(opened, stats.tcp.closed, "each is counted when it ends");
        assert_eq!(self.stack().pool().live(), Live::NONE, "buffers are left");
        assert_eq!(stats.received, stats.ended(), "{:?}", stats.dropped);
    }
}

/// The station's side of a connection.
#[derive(Debug, Clone, Copy)]
pub struct Hand {
    pub us: SocketAddr,
    pub them: SocketAddr,
    /// The next sequence number that the station sends.
    pub snd: SeqNum,
    /// The next one that it expects.
    pub rcv: SeqNum,
    pub window: u16,
    /// The timestamps that it sends: its own value, and the one that it echoes.
    pub ts: Option<(u32, u32)>,
}

impl Hand {
    /// A connection from the station's `port`.
    pub fn from_port(port: u16) -> Self {
        Self {
            us: us(PORT),
            them: them(port),
            snd: SeqNum(u32::MAX - 2000),
            rcv: SeqNum(0),
            window: 65_535,
            ts: None,
        }
    }

    /// A connection that the stack asked for with `syn`.
    pub fn answering(syn: &Segment) -> Self {
        assert_eq!(syn.flags, SYN);
        Self {
            us: syn.src,
            them: syn.dst,
            snd: SeqNum(u32::MAX - 2000),
            rcv: syn.seq + 1,
            window: 65_535,
            ts: None,
        }
    }

    /// A segment with the station's numbers.
    pub fn segment(&self, flags: TcpFlags) -> Segment {
        let ack = if flags.contains(ACK) {
            self.rcv
        } else {
            SeqNum(0)
        };
        Segment {
            ack,
            window: self.window,
            options: TcpOptions {
                timestamps: self.ts,
                ..TcpOptions::default()
            },
            ..Segment::new(self.them, self.us, flags, self.snd)
        }
    }

    /// Data, which takes its place in the sequence.
    pub fn data(&mut self, bytes: &[u8]) -> Segment {
        let segment = Segment {
            data: bytes.to_vec(),
            ..self.segment(ACK | PSH)
        };
        self.snd += bytes.len() as u32;
        segment
    }

    pub fn fin(&mut self) -> Segment {
        let segment = self.segment(FIN | ACK);
        self.snd += 1;
        segment
    }

    /// Acknowledges everything up to `segment`'s end.
    pub fn ack(&mut self, segment: &Segment) -> Segment {
        self.rcv = segment.end();
        self.segment(ACK)
    }
}

/// Everything that is there to read now.
pub fn read(stream: &TcpStream) -> Vec<u8> {
    stream
        .recv_chain(usize::MAX)
        .map(|chain| chain.to_vec())
        .unwrap_or_default()
}

/// Fails unless the peer's FIN is next.
pub fn assert_end(stream: &TcpStream) {
    let end = stream.recv_chain(1).expect("the end of the stream");
    assert!(end.is_empty());
}

/// `n` bytes that are not all the same.
pub fn bytes(n: usize) -> Vec<u8> {
    (0..n).map(|i| (i % 251) as u8).collect()
}

pub fn show(segments: &[Segment]) -> String {
    segments
        .iter()
        .map(|s| format!("\n  {:?} {s}", s.at))
        .collect()
}

/// When each was seen, from `start`, in milliseconds.
pub fn times_ms(segments: &[Segment], start: Time) -> Vec<u64> {
    segments
        .iter()
        .map(|s| (s.at - start).as_millis() as u64)
        .collect()
}
