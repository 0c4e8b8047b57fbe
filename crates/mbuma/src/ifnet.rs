//! An interface: a device with addresses, transmit queues, and counters.
//!
//! [`ether::transmit`](crate::ether::transmit) calls the device. Frames leave in the order in which they were queued,
//! and no thread waits for a device's system call while holding a lock ([`tx_queue`]).
//!
//! A device with several queues counts as several devices: each has a transmit queue of its own, and a flow stays on
//! one of them, so that its frames stay in order.
//!
//! Locks: those of the queues (class IFQUEUE), `neighbours` (class ARP, see [`arp`](crate::ether::arp)), the lists of
//! its addresses and groups (class IFADDR).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use kern::giant::Component;
use kern::prim::{AtomicBool, Ordering};
use kern::{Counter, Time};
use mbuf::{SizeCounts, SizeHistogram};
use wire::{MacAddr, is_link_local6, is_same_prefix, is_same_subnet, link_local_of};

use addrs::OwnAddrs;
use anycast::DelayedAdverts;
use group_reports::GroupReports;
use groups::Groups;
use host6::Host6;
pub(crate) use large_frames::{FrameCounts, LargeFrames};
pub(crate) use tx_queue::{Enqueued, Queue};

pub use config::IfConfig;
pub use host6::{Autoconf, TemporaryPolicy};
pub(crate) use if_addr::Cidr;
pub use if_addr::IfAddr;

use crate::device::{Capabilities, Device, Medium};
use crate::inet::policy_table::AddressPolicy;
use crate::inet::source::{Standing, select};
use crate::neighbour::{Neighbours, Tables};

pub(crate) mod addrs;
pub(crate) mod anycast;
mod config;
pub(crate) mod filter_change;
pub(crate) mod group_reports;
pub(crate) mod groups;
pub(crate) mod host6;
mod if_addr;
mod large_frames;
#[cfg(all(test, shuttle))]
#[path = "models/ifnet.rs"]
mod models;
pub(crate) mod source_filter;
mod tx_queue;

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

/// An interface's counters.
#[derive(Debug, Default)]
pub(crate) struct IfCounters {
    pub(crate) input: SizeHistogram,
    pub(crate) output: SizeHistogram,
    pub(crate) merged: Counter,
    pub(crate) output_dropped: Counter,
}

/// The state of an interface, for its users.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct IfStats {
    /// Its name.
    pub name: String,
    /// Its Ethernet address.
    pub mac: MacAddr,
    /// Its MTU in bytes.
    pub mtu: u16,
    /// Frames received, by size.
    pub input: SizeCounts,
    /// Those of them whose data the stack appended to an earlier segment of the same connection
    /// (large receive offload in software).
    #[doc(alias = "lro_queued")]
    pub merged: u64,
    /// Frames sent, by size, before a device cuts them.
    pub output: SizeCounts,
    /// Packets and frames for it that were dropped, and not sent: its queue was full, its device refused them or is
    /// gone, or there were no buffers to cut them.
    #[doc(alias = "ifi_oqdrops")]
    pub output_dropped: u64,
    /// Neighbours, of both versions of IP, that full tables dropped to make room: if they are many, raise
    /// [`Config::neighbours_max`](crate::Config::neighbours_max).
    pub neighbours_evicted: u64,
    /// Addresses that an interface which configures itself does without, because other stations have them, and those
    /// that it tried in their place: an administrator should look for the cause (RFC 4862 section 5.4.5, RFC 8981
    /// section 3.4).
    pub addresses_given_up: u64,
}

/// Whether a device has set a deadline during a call: then the CPU that runs it must be woken. A later one counts too,
/// because another thread may have taken the former one away meanwhile.
pub(crate) fn is_set_anew(deadline: Option<Time>, before: Option<Time>) -> bool {
    deadline.is_some() && deadline != before
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
    /// The reports of its groups of IPv4, but for the loopback interface, which has no routers.
    pub(crate) igmp: Option<GroupReports>,
    /// The same of IPv6, if the interface configures itself.
    pub(crate) mld: Option<GroupReports>,
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
    pub(crate) large_frames: LargeFrames,
    gone: AtomicBool,
    detached: AtomicBool,
}

impl Ifnet {
    /// The offloads that the device does.
    pub(crate) fn offloads(&self) -> Capabilities {
        self.large_frames.cut_down(self.caps)
    }

    pub(crate) fn new(
        index: IfIndex,
        config: IfConfig,
        mac: MacAddr,
        devices: Vec<Arc<dyn Device>>,
        tables: Tables,
        policy: Arc<AddressPolicy>,
    ) -> Self {
        let (caps, medium) = (devices[0].capabilities(), devices[0].medium());
        Self {
            index,
            component: Component::new(config.name.clone(), config.mp_safe),
            name: config.name,
            mac,
            caps,
            medium,
            addrs: OwnAddrs::new(IfAddr::of_version(&config.addrs)),
            addrs6: OwnAddrs::new(match config.autoconf {
                // They become its own when the probes are over.
                Some(_) => Vec::new(),
                None => with_link_local(IfAddr::of_version(&config.addrs), mac),
            }),
            igmp: (index != IfIndex::LOOPBACK).then(GroupReports::new),
            mld: config.autoconf.map(|_| GroupReports::new()),
            host6: config.autoconf.map(Host6::new),
            groups: Groups::new(),
            delayed_adverts: DelayedAdverts::new(),
            policy,
            accept_any: config.accept_any,
            verify_source: config.verify_source,
            route_localnet: config.route_localnet,
            queues: devices.into_iter().map(Queue::new).collect(),
            neighbours: tables.v4,
            neighbours6: tables.v6,
            counters: IfCounters::default(),
            large_frames: LargeFrames::default(),
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
        let is_near = |a: &&Cidr<Ipv4Addr>| is_same_subnet(a.addr, dst, a.prefix_len);
        let near = own.iter().find(is_near);
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

    /// When a timer of its neighbours or its devices is due.
    pub(crate) fn deadline(&self) -> Option<Time> {
        Time::earliest([
            self.device_deadline(),
            self.neighbours.deadline(),
            self.neighbours6.deadline(),
            self.host6.as_ref().and_then(Host6::deadline),
            self.igmp.as_ref().and_then(GroupReports::deadline),
            self.mld.as_ref().and_then(GroupReports::deadline),
            self.delayed_adverts.deadline(),
        ])
    }

    /// When one of its devices is due; never, once the interface is gone.
    pub(crate) fn device_deadline(&self) -> Option<Time> {
        let all = (self.queues.iter()).map(|queue| queue.device.next_deadline());
        Time::earliest(all).filter(|_| !self.is_gone())
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
            merged: self.counters.merged.get(),
            output: self.counters.output.get(),
            output_dropped: self.counters.output_dropped.get(),
            neighbours_evicted: self.neighbours.evicted.get() + self.neighbours6.evicted.get(),
            addresses_given_up: self.host6.as_ref().map_or(0, Host6::given_up),
        }
    }
}

/// The addresses, plus a link-local one if they contain none.
fn with_link_local(mut addrs: Vec<Cidr<Ipv6Addr>>, mac: MacAddr) -> Vec<Cidr<Ipv6Addr>> {
    if !addrs.is_empty() {
        addrs.extend(missing_link_local(&addrs, mac));
    }
    addrs
}

/// The link-local address that an interface with these addresses lacks (RFC 4291 section 2.1). The loopback interface
/// needs none.
pub(crate) fn missing_link_local(addrs: &[Cidr<Ipv6Addr>], mac: MacAddr) -> Option<Cidr<Ipv6Addr>> {
    let has_one = addrs.iter().any(|own| is_link_local6(own.addr));
    (!has_one && mac != MacAddr::ZERO).then(|| Cidr {
        addr: link_local_of(mac),
        prefix_len: 64,
    })
}
