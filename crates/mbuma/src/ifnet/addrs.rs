//! An interface's own addresses of one version of IP. They may change at any time.
//!
//! The addresses of nearly every packet are compared with them. So one word holds a bit for each address, chosen by its
//! last bits: one load shows that an address whose bit is clear is not in the list. The first IPv4 address is kept
//! whole in a word, so that packets to that address take no lock either.
//!
//! Invariants: no address is there twice; the words agree with the list while no thread changes it. Relaxed loads: a
//! packet that misses a change counts as one that came before it. Locks: the list (IFADDR, read-mostly). Under it only
//! memory is allocated.

use std::fmt::Debug;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use kern::{LockClass, RmLock, RmLockReadGuard, order};
use wire::solicited_node;

use super::Cidr;

pub(super) static IFADDR: LockClass = LockClass::new("interface addresses", order::IFADDR);

/// An address as an element of such a list.
pub(crate) trait LocalAddr: Copy + Eq + Debug + Into<IpAddr> {
    /// Bits of an address.
    const BITS: u8;

    /// The address, if it is of this version of IP.
    fn of(addr: IpAddr) -> Option<Self>;

    /// One bit of 64, chosen by the last bits of the address, which differ between neighbours.
    fn bit(self) -> u64;

    /// The whole address, if it fits a word; else 0.
    fn word(self) -> u64;

    /// The address of the network that several stations have: IPv4's broadcast address, IPv6's anycast address of the
    /// network's routers.
    fn shared_of(net: &Cidr<Self>) -> Option<Self>;
}

impl LocalAddr for Ipv4Addr {
    const BITS: u8 = 32;

    fn of(addr: IpAddr) -> Option<Self> {
        match addr {
            IpAddr::V4(addr) => Some(addr),
            IpAddr::V6(_) => None,
        }
    }

    #[inline]
    fn bit(self) -> u64 {
        1 << (self.to_bits() % 64)
    }

    #[inline]
    fn word(self) -> u64 {
        u64::from(self.to_bits()) | 1 << 32
    }

    fn shared_of(net: &Cidr<Self>) -> Option<Self> {
        net.broadcast()
    }
}

impl LocalAddr for Ipv6Addr {
    const BITS: u8 = 128;

    fn of(addr: IpAddr) -> Option<Self> {
        match addr {
            IpAddr::V4(_) => None,
            IpAddr::V6(addr) => Some(addr),
        }
    }

    #[inline]
    fn bit(self) -> u64 {
        1 << (self.to_bits() as u64 % 64)
    }

    #[inline]
    fn word(self) -> u64 {
        0
    }

    fn shared_of(net: &Cidr<Self>) -> Option<Self> {
        net.subnet_router_anycast()
    }
}

/// The addresses.
#[derive(Debug)]
pub(crate) struct OwnAddrs<A> {
    list: RmLock<Vec<Cidr<A>>>,
    len: AtomicUsize,
    /// The first one's word.
    first: AtomicU64,
    /// The bits of all.
    bits: AtomicU64,
    /// The bits of their networks' shared addresses.
    shared_bits: AtomicU64,
}

impl<A: LocalAddr> OwnAddrs<A> {
    pub(super) fn new(list: Vec<Cidr<A>>) -> Self {
        let own = Self {
            list: RmLock::new(&IFADDR, Vec::new()),
            len: AtomicUsize::new(0),
            first: AtomicU64::new(0),
            bits: AtomicU64::new(0),
            shared_bits: AtomicU64::new(0),
        };
        own.change(|all| *all = list);
        own
    }

    /// All of them.
    pub(crate) fn read(&self) -> RmLockReadGuard<'_, Vec<Cidr<A>>> {
        self.list.read()
    }

    /// A copy of all of them, for work under locks of lower rank.
    pub(crate) fn list(&self) -> Vec<Cidr<A>> {
        self.read().clone()
    }

    /// Whether there are none.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len.load(Ordering::Relaxed) == 0
    }

    /// Whether `addr` is one of them.
    #[inline]
    pub(crate) fn has(&self, addr: A) -> bool {
        if self.bits.load(Ordering::Relaxed) & addr.bit() == 0 {
            return false;
        }
        let word = addr.word();
        let is_first = word != 0 && self.first.load(Ordering::Relaxed) == word;
        is_first || self.read().iter().any(|own| own.addr == addr)
    }

    /// Adds one at the end; false if it is there.
    pub(crate) fn add(&self, addr: Cidr<A>) -> bool {
        self.change(|all| {
            let is_new = all.iter().all(|own| own.addr != addr.addr);
            if is_new {
                all.push(addr);
            }
            is_new
        })
    }

    /// Takes one out; false if it is not there.
    pub(crate) fn remove(&self, addr: A) -> bool {
        self.change(|all| {
            let before = all.len();
            all.retain(|own| own.addr != addr);
            all.len() < before
        })
    }

    fn change<R>(&self, f: impl FnOnce(&mut Vec<Cidr<A>>) -> R) -> R {
        let mut all = self.list.write();
        let result = f(&mut all);
        let or = |bits: u64, addr: A| bits | addr.bit();
        let own = all.iter().map(|own| own.addr).fold(0, or);
        let shared = all.iter().filter_map(A::shared_of).fold(0, or);
        let first = all.first().map_or(0, |own| own.addr.word());
        self.len.store(all.len(), Ordering::Relaxed);
        self.first.store(first, Ordering::Relaxed);
        self.bits.store(own, Ordering::Relaxed);
        self.shared_bits.store(shared, Ordering::Relaxed);
        result
    }
}

impl OwnAddrs<Ipv4Addr> {
    /// Whether `addr` is the broadcast address of one of the networks.
    #[inline]
    pub(crate) fn is_broadcast(&self, addr: Ipv4Addr) -> bool {
        self.shared_bits.load(Ordering::Relaxed) & addr.bit() != 0
            && (self.read().iter()).any(|own| own.broadcast() == Some(addr))
    }
}

impl OwnAddrs<Ipv6Addr> {
    /// Whether `addr` is the anycast address of the routers of one of the networks.
    #[inline]
    pub(crate) fn is_subnet_router(&self, addr: Ipv6Addr) -> bool {
        self.shared_bits.load(Ordering::Relaxed) & addr.bit() != 0
            && (self.read().iter()).any(|own| own.subnet_router_anycast() == Some(addr))
    }

    /// Whether this group is the solicited-node group of such an address.
    pub(crate) fn has_solicited_router(&self, group: Ipv6Addr) -> bool {
        let anycast = |own: &Cidr<Ipv6Addr>| own.subnet_router_anycast();
        self.shared_bits.load(Ordering::Relaxed) & group.bit() != 0
            && (self.read().iter().filter_map(anycast)).any(|addr| solicited_node(addr) == group)
    }

    /// Whether this group is the solicited-node group of one of them: both end in the same 24 bits.
    pub(crate) fn has_solicited(&self, group: Ipv6Addr) -> bool {
        self.bits.load(Ordering::Relaxed) & group.bit() != 0
            && (self.read().iter()).any(|own| solicited_node(own.addr) == group)
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests;
