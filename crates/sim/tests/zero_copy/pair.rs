//! Two stacks in virtual time, joined by a pipe or an epair with a [`Recorder`] at each end, and a connection.
//!
//! The wire has no delay: time moves only when both ends wait for it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use kern::{Clock, Random, Time, VirtualClock};
use mbuf::{Chain, ClusterSize, Live, MbufPool, PoolConfig};
use mbuma::device::epair::{EpairConfig, EpairEnd};
use mbuma::device::memory::Pipe;
use mbuma::device::{Budget, Capabilities, Device};
use mbuma::socket::SocketError;
use mbuma::{Config, IfConfig, IfIndex, NagleForm, Stack, StackStats, TcpStream, UdpSocket};
use sim::Pattern;

use crate::recorder::{Known, Recorder};

const PATTERN: Pattern = Pattern::new(7);
/// Bytes of one send: whole clusters.
const TURN: usize = 64 << 10;

/// The link between the two.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setup {
    /// A pipe's; an epair has its own.
    caps: Option<Capabilities>,
    /// Received frames land in clusters of the device.
    lands: bool,
    seed: u64,
    loss: f64,
    hosts: [IpAddr; 2],
}

impl Setup {
    /// Devices that receive into clusters of their own.
    pub(crate) fn lands(caps: Capabilities) -> Self {
        Self {
            caps: Some(caps),
            lands: true,
            seed: 1,
            loss: 0.0,
            hosts: [1, 2].map(|n| Ipv4Addr::new(192, 0, 2, n).into()),
        }
    }

    /// Devices that hand mbufs over.
    pub(crate) fn by_reference(caps: Capabilities) -> Self {
        Self {
            lands: false,
            ..Self::lands(caps)
        }
    }

    /// An epair, which hands mbufs over.
    pub(crate) fn epair() -> Self {
        Self {
            caps: None,
            ..Self::by_reference(Capabilities::whole(1500))
        }
    }

    /// The same; this part of the frames is lost each way.
    pub(crate) fn lossy(self, seed: u64, loss: f64) -> Self {
        Self { seed, loss, ..self }
    }

    /// The same over IPv6.
    pub(crate) fn over6(self) -> Self {
        let hosts = [1, 2].map(|n| Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, n).into());
        Self { hosts, ..self }
    }

    /// The two ends, and what they need to stay joined.
    fn devices(self) -> ([Box<dyn Device>; 2], Option<[EpairEnd; 2]>) {
        if let Some(caps) = self.caps {
            let (a, b) = Pipe::pair(caps);
            return ([Box::new(a), Box::new(b)], None);
        }
        let (a, b) = EpairEnd::pair(EpairConfig::default());
        ([Box::new(a.plug()), Box::new(b.plug())], Some([a, b]))
    }
}

struct End {
    stack: Stack,
    index: IfIndex,
    device: Arc<Recorder>,
}

/// The two stacks.
pub(crate) struct Pair {
    clock: Arc<VirtualClock>,
    ends: [End; 2],
    /// Where frames land. It ends after the stacks that hold them.
    landing: MbufPool,
    known: Arc<Known>,
    hosts: [IpAddr; 2],
    _cable: Option<[EpairEnd; 2]>,
}

impl Pair {
    pub(crate) fn new(setup: Setup) -> Self {
        let mut random = Random::from_seed(setup.seed);
        let clock = Arc::new(VirtualClock::new(Time::from_secs(1)));
        let landing = MbufPool::new(PoolConfig::default()).unwrap();
        let known = Arc::new(Known::default());
        let (devices, cable) = setup.devices();
        let mut hosts = setup.hosts.into_iter();
        let ends = devices.map(|device| {
            let pool = setup.lands.then_some(&landing);
            let luck = random.fork();
            let device = Arc::new(Recorder::new(device, pool, &known, luck, setup.loss));
            let mut config = Config::new(clock.clone(), random.fork());
            // Data of bulk transfers comes in full segments: a receiver copies the small ends of writes by design.
            config.tcp.nagle = NagleForm::AnySegment;
            let stack = Stack::new(config).unwrap();
            let host = hosts.next().unwrap();
            let config = IfConfig::new("pipe0").with_addr(host, 24);
            let index = stack.attach(device.clone(), config).unwrap();
            End {
                stack,
                index,
                device,
            }
        });
        Self {
            clock,
            ends,
            landing,
            known,
            hosts: setup.hosts,
            _cable: cable,
        }
    }

    /// A connection from the first to the second.
    pub(crate) fn connect(&self) -> [TcpStream; 2] {
        let there = self.addr(1);
        let listener = self.ends[1].stack.tcp_listen(there, 8).unwrap();
        let any = SocketAddr::new(self.hosts[0], 0);
        let client = self.ends[0].stack.tcp_connect(any, there).unwrap();
        let server = loop {
            if let Ok(server) = listener.accept() {
                break server;
            }
            self.turn(false);
        };
        [client, server]
    }

    /// A datagram socket of each.
    pub(crate) fn bind(&self) -> [UdpSocket; 2] {
        [0, 1].map(|n| self.ends[n].stack.udp_bind(self.addr(n)).unwrap())
    }

    pub(crate) fn addr(&self, n: usize) -> SocketAddr {
        SocketAddr::new(self.hosts[n], 80)
    }

    /// `len` bytes of the pattern in clusters of this size, of the first stack's pool.
    pub(crate) fn source(&self, len: usize, size: ClusterSize) -> Chain {
        let mut chain = Chain::new();
        for at in (0..len).step_by(size.bytes()) {
            chain.append(self.bytes(at, size.bytes().min(len - at)));
        }
        self.known.add(&chain);
        chain
    }

    /// `len` bytes of the pattern from `at` on, where the first stack's pool has them fit.
    pub(crate) fn bytes(&self, at: usize, len: usize) -> Chain {
        let mut bytes = vec![0; len];
        PATTERN.fill(at as u64, &mut bytes);
        Chain::from_slice(self.ends[0].stack.pool(), &bytes).unwrap()
    }

    /// Checks what arrived: the bytes from `at` on, at the addresses where the writer put them.
    pub(crate) fn check(&self, at: usize, chain: &Chain) {
        let mut at = at as u64;
        for bytes in chain.segments() {
            assert_eq!(PATTERN.mismatch(at, bytes), None);
            at += bytes.len() as u64;
        }
        assert_eq!(self.known.strayed(chain.segments()), 0);
    }

    pub(crate) fn stats(&self) -> [StackStats; 2] {
        [self.ends[0].stack.stats(), self.ends[1].stack.stats()]
    }

    pub(crate) fn device(&self, n: usize) -> &Recorder {
        &self.ends[n].device
    }

    /// Sends all of `source`, and reads and checks it at the other side. Returns how many bytes the
    /// reader got at addresses where the writer had not put them.
    pub(crate) fn transfer(&self, [from, to]: &[TcpStream; 2], mut source: Chain) -> usize {
        let (mut sink, total) = (Sink::default(), source.len());
        while sink.len < total || from.info().send_queue > 0 {
            let sent = feed(from, &mut source);
            let read = sink.drink(to, &self.known);
            self.turn(sent || read.is_some());
        }
        sink.strayed
    }

    /// The same; the other side sends back what it reads, and the first one reads that.
    pub(crate) fn echo(&self, [from, to]: &[TcpStream; 2], mut source: Chain) -> usize {
        let (mut there, mut back, total) = (Sink::default(), Sink::default(), source.len());
        let mut waiting = Chain::new();
        while back.len < total || to.info().send_queue > 0 {
            let mut moved = feed(from, &mut source);
            if let Some(read) = there.drink(to, &self.known) {
                waiting.append(read);
            }
            if !waiting.is_empty() && to.send_space() > 0 {
                to.send_chain(std::mem::take(&mut waiting)).unwrap();
                moved = true;
            }
            moved |= back.drink(from, &self.known).is_some();
            self.turn(moved);
        }
        there.strayed + back.strayed
    }

    /// Each stack takes in what arrived and runs its timers. If nothing was `moved` and nothing is under
    /// way, time goes on to the next of them.
    pub(crate) fn turn(&self, moved: bool) {
        const BUDGET: Budget = Budget {
            frames: 64,
            bytes: 1 << 20,
        };
        let [a, b] = self.ends.each_ref().map(|end| end.device.seen());
        let under_way = a.sent + b.sent - a.received - b.received;
        if !moved && under_way == 0 {
            let next = self.ends.iter().filter_map(|end| end.stack.next_deadline());
            let next = next.min().expect("somebody waits for something");
            self.clock.set(next.max(self.clock.now()));
        }
        for end in &self.ends {
            end.stack.poll_interface(end.index, BUDGET).unwrap();
            end.stack.poll();
        }
    }

    /// Everything that is left ends, and no buffer is.
    pub(crate) fn finish(self) {
        let pools = self.ends.each_ref().map(|end| end.stack.pool().clone());
        drop(self.ends);
        for pool in pools.iter().chain([&self.landing]) {
            assert_eq!(pool.live(), Live::NONE);
        }
    }
}

/// The bytes that a reader got.
#[derive(Default)]
struct Sink {
    len: usize,
    strayed: usize,
}

impl Sink {
    /// Reads once, and checks what came.
    fn drink(&mut self, from: &TcpStream, known: &Known) -> Option<Chain> {
        let chain = match from.recv_chain(usize::MAX) {
            Ok(chain) => chain,
            Err(SocketError::WouldBlock) => return None,
            Err(e) => panic!("after {} bytes: {e}", self.len),
        };
        for bytes in chain.segments() {
            assert_eq!(PATTERN.mismatch(self.len as u64, bytes), None);
            self.len += bytes.len();
        }
        self.strayed += known.strayed(chain.segments());
        Some(chain)
    }
}

/// Sends as much as the socket takes; true if it took something.
fn feed(to: &TcpStream, source: &mut Chain) -> bool {
    let mut moved = false;
    while !source.is_empty() && to.send_space() > 0 {
        let piece = source.take_front(TURN).unwrap();
        to.send_chain(piece).unwrap();
        moved = true;
    }
    moved
}
