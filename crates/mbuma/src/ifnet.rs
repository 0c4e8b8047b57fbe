//! An interface: a device with addresses, a transmit queue, and counters.
//!
//! [`ether::transmit`](crate::ether::transmit) calls the device. The transmit queue is the queue, mutex and state of seed 003: a
//! thread that finds it idle becomes the transmitter, and takes the whole queue in O(1) until it is empty; all other threads
//! only add.
//! So frames leave in the order in which they were queued, and no thread waits for a device's system
//! call while holding a lock.
//!
//! A device with several queues counts as several devices: each has a transmit queue of its own, and a flow stays on
//! one of them, so that its frames stay in order.
//!
//! Locks: `queue` (class IFQUEUE), `neighbours` (class ARP, see [`arp`](crate::ether::arp)), the lists of its addresses and
//! groups (class IFADDR).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;
use std::sync::Arc;

use kern::giant::Component;
use kern::prim::{AtomicBool, Mutex, Ordering};
use kern::{LockClass, Time, order};
use mbuf::{Mbufq, Packet, SizeCounts, SizeHistogram};
use wire::{Ipv6Header, MacAddr, is_link_local6, is_same_prefix, link_local_of};

use addrs::OwnAddrs;
use anycast::DelayedAdverts;
use groups::Groups;
use host6::Host6;
use mld::Mld;

pub use host6::{Autoconf, TemporaryPolicy};

use crate::device::{Capabilities, Device, Medium};
use crate::error::Error;
use crate::inet::policy_table::AddressPolicy;
use crate::inet::source::{Standing, select};
use crate::neighbour::{Neighbours, Tables};

pub(crate) mod addrs;
pub(crate) mod anycast;
pub(crate) mod groups;
pub(crate) mod host6;
pub(crate) mod mld;
#[cfg(all(test, shuttle))]
#[path = "models/ifnet.rs"]
mod models;

static QUEUE: LockClass = LockClass::new("interface queue", order::IFQUEUE);

/// Frames that wait for the device at most.
const TX_QUEUE_MAX: usize = 4096;

/// Names an interface of a stack. After the interface is detached it names none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct IfIndex(pub(crate) u32);

impl IfIndex {
    /// The loopback interface, which every stack has from birth.
    #[doc(alias = "LOIF_UNIT")]
    pub const LOOPBACK: Self = Self(1);

    /// Its number: the scope id that a link-local address on its link has.
    pub const fn number(self) -> u32 {
        self.0
    }
}

/// An address of IPv4, or of IPv6, with its prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IfAddr<A = Ipv4Addr> {
    /// The address.
    pub addr: A,
    /// Bits of the network part: 0 to 32 for IPv4, 0 to 128 for IPv6.
    pub prefix_len: u8,
}

/// From text such as `192.0.2.2/24`.
impl FromStr for IfAddr {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        parse(text, 32).ok_or_else(|| Error::Address(text.to_owned()))
    }
}

/// From text such as `2001:db8::2/64`.
impl FromStr for IfAddr<Ipv6Addr> {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        parse(text, 128).ok_or_else(|| Error::Address(text.to_owned()))
    }
}

fn parse<A: FromStr>(text: &str, bits: u8) -> Option<IfAddr<A>> {
    let (addr, len) = text.split_once('/')?;
    Some(IfAddr {
        addr: addr.parse().ok()?,
        prefix_len: len.parse().ok().filter(|len| *len <= bits)?,
    })
}

impl IfAddr<Ipv6Addr> {
    /// Whether `other` is in the same network.
    pub fn contains(&self, other: Ipv6Addr) -> bool {
        is_same_prefix(self.addr, other, self.prefix_len)
    }

    /// The network: the address with all bits after the prefix cleared.
    pub fn network(&self) -> Ipv6Addr {
        let host = u128::MAX
            .checked_shr(u32::from(self.prefix_len))
            .unwrap_or(0);
        Ipv6Addr::from_bits(self.addr.to_bits() & !host)
    }

    /// The anycast address that each router of the network has (RFC 4291 section 2.6.1). Networks of one address or two
    /// have none (RFC 6164 section 5.1).
    pub fn subnet_router_anycast(&self) -> Option<Ipv6Addr> {
        let network = self.network();
        let exists = self.prefix_len < 127 && !network.is_unspecified() && network != self.addr;
        exists.then_some(network)
    }
}

impl IfAddr {
    /// Whether `other` is in the same network.
    pub fn contains(&self, other: Ipv4Addr) -> bool {
        let mask = u32::MAX
            .checked_shl(32 - u32::from(self.prefix_len.min(32)))
            .unwrap_or(0);
        (u32::from(self.addr) ^ u32::from(other)) & mask == 0
    }

    /// The network: the address with all bits after the prefix cleared.
    pub fn network(&self) -> Ipv4Addr {
        let host = u32::MAX
            .checked_shr(u32::from(self.prefix_len))
            .unwrap_or(0);
        Ipv4Addr::from(u32::from(self.addr) & !host)
    }

    /// The network's own broadcast address; /31 and /32 have none (RFC 3021).
    pub fn broadcast(&self) -> Option<Ipv4Addr> {
        let host = u32::MAX
            .checked_shr(u32::from(self.prefix_len))
            .unwrap_or(0);
        (self.prefix_len < 31).then(|| Ipv4Addr::from(u32::from(self.addr) | host))
    }
}

/// How an interface is set up.
#[derive(Debug, Clone)]
pub struct IfConfig {
    /// A name to show, such as `tap0`.
    pub name: String,
    /// Its Ethernet address. Without one here or in the device, the stack draws one at random.
    pub mac: Option<MacAddr>,
    /// Its addresses of IPv4.
    pub addrs: Vec<IfAddr>,
    /// Its IPv6 addresses. Without any, it takes in no IPv6. With some, it also has a link-local one, which is made of
    /// its Ethernet address unless the list has one. The interface uses them at once, without probes for duplicates,
    /// unless `autoconf` is set.
    pub addrs6: Vec<IfAddr<Ipv6Addr>>,
    /// The interface configures itself as an IPv6 host: it probes for duplicates of its addresses before it uses them,
    /// takes more addresses from routers, always has a link-local one, and reports its groups (RFC 9777). None: it has
    /// only the configured addresses, and sends no probes or solicitations to routers.
    pub autoconf: Option<Autoconf>,
    /// Answer for every address and not only for our own, as a gateway does that terminates connections.
    pub accept_any: bool,
    /// Routes may lead through this interface to addresses of 127/8, and packets from such addresses may come in: they
    /// are the neighbour's own. The program must know that there is one neighbour on the link. (RFC 1122 3.2.1.3
    /// forbids it elsewhere.)
    pub route_localnet: bool,
    /// A router forwards a packet that comes by this interface only if the route to its source leads through it (strict
    /// reverse path forwarding, RFC 3704 section 2.2), so that the link's stations can't use the addresses of others. A
    /// sender over IPv6 gets an error (RFC 4443 section 3.1, code 5), one over IPv4 none.
    #[doc(alias = "rp_filter")]
    #[doc(alias = "verrevpath")]
    pub verify_source: bool,
    /// Several threads may call the device at once. If false, it receives and transmits under the stack's Giant, one
    /// thread at a time, which also excludes all other components that need Giant.
    #[doc(alias = "IFF_NEEDSGIANT")]
    #[doc(alias = "INTR_MPSAFE")]
    pub mp_safe: bool,
}

impl IfConfig {
    /// An interface called `name`, with an MP-safe device, without addresses.
    ///
    /// ```
    /// use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
    /// use mbuma::IfConfig;
    ///
    /// let config = IfConfig::new("tap0").with_addr(Ipv4Addr::new(192, 0, 2, 1), 24);
    /// assert!(config.mp_safe && config.mac.is_none() && !config.accept_any);
    /// ```
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            mac: None,
            addrs: Vec::new(),
            addrs6: Vec::new(),
            autoconf: None,
            accept_any: false,
            route_localnet: false,
            verify_source: false,
            mp_safe: true,
        }
    }

    /// The same with one more address.
    #[must_use]
    pub fn with_addr(mut self, addr: impl Into<IpAddr>, prefix_len: u8) -> Self {
        match addr.into() {
            IpAddr::V4(addr) => self.addrs.push(IfAddr { addr, prefix_len }),
            IpAddr::V6(addr) => self.addrs6.push(IfAddr { addr, prefix_len }),
        }
        self
    }

    /// Whether an interface that is configured so can have a device of this MTU.
    pub(crate) fn takes_mtu(&self, mtu: u16) -> bool {
        let has_ip6 = !self.addrs6.is_empty() || self.autoconf.is_some();
        mtu >= if has_ip6 {
            Ipv6Header::MTU_MIN
        } else {
            MTU_MIN
        }
    }
}

/// Bytes of a packet that each link of IPv4 carries whole (RFC 791 section 3.2).
const MTU_MIN: u16 = 68;

/// An interface's counters.
#[derive(Debug, Default)]
pub(crate) struct IfCounters {
    pub(crate) input: SizeHistogram,
    pub(crate) output: SizeHistogram,
}

/// The state of an interface, for its users.
#[derive(Debug, Clone)]
pub struct IfStats {
    /// Its name.
    pub name: String,
    /// Its Ethernet address.
    pub mac: MacAddr,
    /// Its MTU in bytes.
    pub mtu: u16,
    /// Frames received, by size.
    pub input: SizeCounts,
    /// Frames sent, by size, before a device cuts them.
    pub output: SizeCounts,
    /// Addresses that an interface which configures itself does without, because other stations have them, and those that it
    /// tried in their place: an administrator should look for the cause (RFC 4862 section 5.4.5, RFC 8981 section 3.4).
    pub addresses_given_up: u64,
}

/// The result of queueing a frame. After [`Enqueued::Transmit`] the caller must transmit: no other thread will.
#[must_use]
pub(crate) enum Enqueued {
    /// The present transmitter sends it.
    Queued,
    /// The caller is the transmitter of this queue.
    Transmit(usize),
    /// There is no room.
    Full(Packet),
}

/// One of an interface's devices, with the frames that wait for it.
#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) device: Arc<dyn Device>,
    tx: Mutex<TxQueue>,
}

impl Queue {
    /// Whether the device has frames of its own to pass on at `now`.
    pub(crate) fn is_due(&self, now: Time) -> bool {
        self.device.next_deadline().is_some_and(|at| at <= now)
    }

    /// Makes the caller the transmitter; false if another thread is.
    pub(crate) fn begin(&self) -> bool {
        !std::mem::replace(&mut self.tx.lock().running, true)
    }

    /// Takes all frames that wait. If none wait, the caller stops being the transmitter, unless it `goes_on` anyway.
    pub(crate) fn next(&self, goes_on: bool) -> Option<Mbufq> {
        let mut queue = self.tx.lock();
        if queue.waiting.is_empty() && !goes_on {
            queue.running = false;
            return None;
        }
        Some(queue.waiting.take_all())
    }

    /// Planted fault: the transmitter stops without another check of the queue.
    pub(crate) fn planted_stop(&self) {
        self.tx.lock().running = false;
    }
}

/// Whether the new deadline is earlier than the old one: then the CPU that runs it must be woken.
pub(crate) fn is_earlier(deadline: Option<Time>, before: Option<Time>) -> bool {
    deadline.is_some_and(|at| before.is_none_or(|before| at < before))
}

#[derive(Debug, Default)]
struct TxQueue {
    waiting: Mbufq,
    /// A thread transmits, and will check the queue again before it stops.
    running: bool,
}

/// An attached interface.
#[derive(Debug)]
pub(crate) struct Ifnet {
    pub(crate) index: IfIndex,
    pub(crate) name: String,
    pub(crate) mac: MacAddr,
    pub(crate) caps: Capabilities,
    pub(crate) medium: Medium,
    pub(crate) addrs: OwnAddrs<Ipv4Addr>,
    pub(crate) addrs6: OwnAddrs<Ipv6Addr>,
    pub(crate) groups: Groups,
    pub(crate) delayed_adverts: DelayedAdverts,
    /// The stack's.
    policy: Arc<AddressPolicy>,
    pub(crate) host6: Option<Host6>,
    /// The reports of its groups, if the interface configures itself.
    pub(crate) mld: Option<Mld>,
    pub(crate) accept_any: bool,
    pub(crate) route_localnet: bool,
    pub(crate) verify_source: bool,
    /// The devices, MP-safe or not.
    pub(crate) component: Component,
    /// At least one.
    pub(crate) queues: Vec<Queue>,
    pub(crate) neighbours: Neighbours<Ipv4Addr>,
    pub(crate) neighbours6: Neighbours<Ipv6Addr>,
    pub(crate) counters: IfCounters,
    gone: AtomicBool,
    detached: AtomicBool,
}

impl Ifnet {
    pub(crate) fn new(
        index: IfIndex,
        config: IfConfig,
        mac: MacAddr,
        devices: Vec<Arc<dyn Device>>,
        tables: Tables,
        policy: Arc<AddressPolicy>,
    ) -> Self {
        let (caps, medium) = (devices[0].capabilities(), devices[0].medium());
        let queue = |device| Queue {
            device,
            tx: Mutex::new(&QUEUE, TxQueue::default()),
        };
        Self {
            index,
            component: Component::new(config.name.clone(), config.mp_safe),
            name: config.name,
            mac,
            caps,
            medium,
            addrs: OwnAddrs::new(config.addrs),
            addrs6: OwnAddrs::new(match config.autoconf {
                // They become its own when the probes are over.
                Some(_) => Vec::new(),
                None => with_link_local(config.addrs6, mac),
            }),
            mld: config.autoconf.map(|_| Mld::new()),
            host6: config.autoconf.map(Host6::new),
            groups: Groups::new(),
            delayed_adverts: DelayedAdverts::new(),
            policy,
            accept_any: config.accept_any,
            verify_source: config.verify_source,
            route_localnet: config.route_localnet,
            queues: devices.into_iter().map(queue).collect(),
            neighbours: tables.v4,
            neighbours6: tables.v6,
            counters: IfCounters::default(),
            gone: AtomicBool::new(false),
            detached: AtomicBool::new(false),
        }
    }

    /// The stack's packets to itself use it: no packet leaves through it, and none from outside comes in.
    #[doc(alias = "IFF_LOOPBACK")]
    pub(crate) fn is_loopback(&self) -> bool {
        self.index == IfIndex::LOOPBACK
    }

    /// Whether `addr` is one of this interface's own.
    pub(crate) fn owns(&self, addr: Ipv4Addr) -> bool {
        self.addrs.has(addr)
    }

    /// Whether IPv6 is on.
    pub(crate) fn has_ip6(&self) -> bool {
        !self.addrs6.is_empty() || self.host6.as_ref().is_some_and(Host6::is_on)
    }

    /// Whether `addr` is one of this interface's own addresses of IPv6.
    pub(crate) fn owns6(&self, addr: Ipv6Addr) -> bool {
        self.addrs6.has(addr)
    }

    /// The address to send from to `dst` on this link, if it has one.
    pub(crate) fn source_for6(&self, dst: Ipv6Addr) -> Option<Ipv6Addr> {
        self.source_through6(dst, dst)
    }

    /// The address to send from to `dst` through the station `next_hop`, if it has one.
    pub(crate) fn source_through6(&self, dst: Ipv6Addr, next_hop: Ipv6Addr) -> Option<Ipv6Addr> {
        let host = self.host6.as_ref();
        let deprecated = host.map_or_else(Vec::new, Host6::deprecated);
        let assigned = host.map_or_else(Vec::new, |host| host.assigned_by(next_hop));
        let temporary = host.map_or_else(Vec::new, Host6::temporary);
        let prefers = host.is_some_and(Host6::prefers_temporary);
        let standing = |addr| Standing {
            favoured: temporary.contains(&addr) == prefers,
            deprecated: deprecated.contains(&addr),
            assigned: assigned.iter().any(|net| is_same_prefix(addr, *net, 64)),
        };
        self.policy.with(|table| {
            let own = self.addrs6.read();
            select(own.iter().map(|own| own.addr), dst, table, standing)
        })
    }

    /// Whether `addr` is one of its own from which no new connection should begin.
    pub(crate) fn deprecates(&self, addr: IpAddr) -> bool {
        let deprecated = self.host6.as_ref().map(Host6::deprecated);
        deprecated.is_some_and(|all| all.iter().any(|own| IpAddr::V6(*own) == addr))
    }

    /// Whether `addr` is a broadcast on this interface.
    #[inline]
    pub(crate) fn is_broadcast(&self, addr: Ipv4Addr) -> bool {
        addr.is_broadcast() || self.addrs.is_broadcast(addr)
    }

    /// The address to send from to `dst` on this link: the one in the same network, else the first,
    /// else none (RFC 1122 3.3.4.3).
    pub(crate) fn source_for(&self, dst: Ipv4Addr) -> Ipv4Addr {
        let own = self.addrs.read();
        let near = own.iter().find(|a| a.contains(dst));
        near.or(own.first())
            .map_or(Ipv4Addr::UNSPECIFIED, |a| a.addr)
    }

    /// The largest IP packet that leaves in one frame.
    pub(crate) fn mtu(&self) -> usize {
        usize::from(self.caps.mtu)
    }

    /// The largest IPv6 packet that leaves here: a router of the link may have advertised a smaller MTU.
    pub(crate) fn mtu6(&self) -> usize {
        let advertised = self.host6.as_ref().and_then(Host6::mtu);
        advertised.map_or(self.mtu(), |mtu| self.mtu().min(usize::from(mtu)))
    }

    /// Queues a complete frame that a thread of CPU `cpu` sends.
    pub(crate) fn enqueue(&self, cpu: usize, frame: Packet) -> Enqueued {
        let number = self.queue_of(cpu, &frame);
        let mut queue = self.queues[number].tx.lock();
        if queue.waiting.len() >= TX_QUEUE_MAX {
            return Enqueued::Full(frame);
        }
        queue.waiting.enqueue(frame);
        match std::mem::replace(&mut queue.running, true) {
            true => Enqueued::Queued,
            false => Enqueued::Transmit(number),
        }
    }

    /// A flow stays on one of the device's queues; a packet without a flow takes the queue of the sending CPU.
    fn queue_of(&self, cpu: usize, frame: &Packet) -> usize {
        match (self.queues.len(), frame.header().flow) {
            (1, _) => 0,
            (n, 0) => cpu % n,
            (n, flow) => flow as usize % n,
        }
    }

    /// The queues whose devices are due.
    pub(crate) fn due_queues(&self, now: Time) -> impl Iterator<Item = usize> {
        let queues = self.queues.iter().enumerate();
        let due = queues.filter(move |(_, queue)| queue.is_due(now));
        due.map(|(number, _)| number)
    }

    /// When a timer of its neighbours or its devices is due.
    pub(crate) fn deadline(&self) -> Option<Time> {
        let device = self.device_deadline();
        let neighbours = self.neighbours.deadline().into_iter();
        let host = self.host6.as_ref().and_then(Host6::deadline);
        let groups = self.mld.as_ref().and_then(Mld::deadline);
        let adverts = self.delayed_adverts.deadline();
        let both = neighbours.chain(self.neighbours6.deadline()).chain(host);
        both.chain(groups).chain(adverts).chain(device).min()
    }

    /// When one of its devices is due; never, once the interface is gone.
    pub(crate) fn device_deadline(&self) -> Option<Time> {
        let devices = self.queues.iter().map(|queue| &queue.device);
        let all = devices.filter_map(|device| device.next_deadline());
        all.min().filter(|_| !self.is_gone())
    }

    /// The device failed for good, or the interface was detached. Relaxed: a late reader only sends one frame too many.
    /// Code that must not be late (routes, neighbours) reads this under the lock that the detaching thread takes after
    /// the store.
    pub(crate) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }

    pub(crate) fn mark_gone(&self) {
        self.gone.store(true, Ordering::Relaxed);
    }

    /// The interface was detached: frames that come in on it now have no receiver. Relaxed: a frame that has passed
    /// this check counts as one that came before.
    pub(crate) fn is_detached(&self) -> bool {
        self.detached.load(Ordering::Relaxed)
    }

    pub(crate) fn mark_detached(&self) {
        self.detached.store(true, Ordering::Relaxed);
        self.mark_gone();
    }

    pub(crate) fn stats(&self) -> IfStats {
        IfStats {
            name: self.name.clone(),
            mac: self.mac,
            mtu: self.caps.mtu,
            input: self.counters.input.get(),
            output: self.counters.output.get(),
            addresses_given_up: self.host6.as_ref().map_or(0, Host6::given_up),
        }
    }
}

/// The addresses, plus a link-local one if they contain none.
fn with_link_local(mut addrs: Vec<IfAddr<Ipv6Addr>>, mac: MacAddr) -> Vec<IfAddr<Ipv6Addr>> {
    if !addrs.is_empty() {
        addrs.extend(missing_link_local(&addrs, mac));
    }
    addrs
}

/// The link-local address that an interface with these addresses lacks (RFC 4291 section 2.1). The loopback interface
/// needs none.
pub(crate) fn missing_link_local(
    addrs: &[IfAddr<Ipv6Addr>],
    mac: MacAddr,
) -> Option<IfAddr<Ipv6Addr>> {
    let has_one = addrs.iter().any(|own| is_link_local6(own.addr));
    (!has_one && mac != MacAddr::ZERO).then(|| IfAddr {
        addr: link_local_of(mac),
        prefix_len: 64,
    })
}
