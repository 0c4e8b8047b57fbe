//! A bridge: an Ethernet switch in memory, between ends of epairs and devices of any kind.
//!
//! A program makes one to join more than two stacks by one link. The drivers of the ports
//! ([`Input`](super::epair::Input)) drive it, or the program polls it. The bridge calls devices with no lock held.
//!
//! ```text
//!   stack A --epair-- [port 1]               [port 3] --epair-- stack C
//!                            \   addresses  /
//!   stack B --epair-- [port 2] - - - - - - [port 4] --- a TAP
//! ```
//!
//! The bridge learns from the source address of a frame which port its station is behind.
//!
//! | destination of a frame | goes to |
//! |---|---|
//! | a station that is known | its port |
//! | any other, and groups | all ports but the one that it came from |
//! | a protocol of a single link (LLDP, PAUSE) | none |
//!
//! Frames pass as they are: large segments whole, checksums not computed, storage shared where a frame goes to many
//! ports (`m_copypacket`). The bridge does the offloads that a port's device lacks, as `Ifnet` does.
//!
//! The bridge trusts its stations: each may send from any address, and so receive the frames for another station. It
//! does not read ARP or neighbour discovery.

//!
//! It has no thread and no clock of its own: the thread that brings frames in also sends them. The depth of calls is
//! bounded even if every input is direct: while a port takes frames in, more frames for it are only queued, so each
//! port is active at most once, whatever the length of the chain.
//!
//! There is no spanning tree. Two bridges that are joined twice are a loop, in which broadcasts would circulate for
//! ever: a frame that has passed [`HOPS_MAX`] bridges since its host sent it is dropped and counted. The count is in
//! the packet's header in memory, so it does not bound a loop through a wire (TAPs on one kernel's bridge).
//!
//! A bridge is MP-safe and belongs to no stack, so it has no Giant: any number of threads may call a port's device at
//! once. A device that is not MP-safe is made a port [under Giant](super::under_giant).
//!
//! Invariants: each received frame was sent to one port, or flooded, or was for the port or link it came from, or was
//! dropped for a counted reason ([`BridgeStats`]). All ports have one MTU. A port's number is never used again; the
//! addresses learnt at a port are removed with it. Locks: the list of ports (INTERFACES), the addresses (ARP); never
//! both. Sources: IEEE 802.1D sections 7.5 to 7.9 and 7.12.6; BSD's if_bridge(4).

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use kern::{Clock, LockClass, Mutex, Random, RmLock, order};
use mbuf::{MbufPool, Mbufq};

use super::{Budget, Device};
use addresses::Addresses;
use counters::BridgeCounters;
use switch::Switching;

pub use counters::BridgeStats;

mod addresses;
mod counters;
mod switch;

static PORTS: LockClass = LockClass::new("bridge ports", order::INTERFACES);
static ADDRESSES: LockClass = LockClass::new("bridge addresses", order::ARP);

/// Bridges that a frame may pass: as many as 802.1D has between any two stations (8.8, the recommended
/// diameter of 7).
pub const HOPS_MAX: u8 = 7;

/// How a bridge is made (IEEE 802.1D, if_bridge(4)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BridgeConfig {
    /// Stations in the table at most; frames to other stations are flooded. Default 2000.
    #[doc(alias = "BRDGSCACHE")]
    pub addresses_max: usize,
    /// How long a silent station stays in the table. Default 1200 s, as in BSD.
    #[doc(alias = "BRDGSTO")]
    pub lifetime: Duration,
}

impl Default for BridgeConfig {
    fn default() -> Self {
        Self {
            addresses_max: 2000,
            lifetime: Duration::from_secs(1200),
        }
    }
}

/// Names a port of a bridge; after the port is removed it names none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PortId(u64);

/// The error of adding a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[error("the MTU is not that of the bridge's other ports")]
#[non_exhaustive]
pub enum BridgeError {
    /// Its MTU is not that of the other ports: a bridge can't cut large frames.
    Mtu,
}

/// A bridge: clone the handle freely, use it from any thread.
///
/// ```
/// use std::net::{Ipv4Addr, SocketAddrV4};
/// use mbuma::device::bridge::{Bridge, BridgeConfig};
/// use mbuma::device::epair::{EpairConfig, EpairEnd, Input};
/// use mbuma::{Config, IfConfig, Stack};
///
/// let mut system = Config::from_system();
/// let pool = mbuf::MbufPool::new(mbuf::PoolConfig::default())?;
/// let bridge = Bridge::new(system.clock.clone(), &mut system.random, &pool, BridgeConfig::default());
/// let mut jails = Vec::new();
/// for n in 1..=3 {
///     let stack = Stack::new(Config::from_system())?;
///     let (mut plug, mut socket) = EpairEnd::pair(EpairConfig::default());
///     socket.join(&bridge, Input::Direct)?;
///     let config = IfConfig::new("epair0").with_addr(Ipv4Addr::new(192, 0, 2, n), 24);
///     plug.attach(&stack, config, Input::Direct).unwrap();
///     jails.push((stack, plug, socket));
/// }
/// let there = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 3), 80);
/// let listener = jails[2].0.tcp_listen(there, 8)?;
/// let any = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);
/// jails[0].0.tcp_connect(any, there)?.send(b"hello")?;
/// assert_eq!(listener.accept().expect("nothing was waited for").recv(&mut [0; 16])?, 5);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
#[doc(alias = "if_bridge")]
pub struct Bridge(Arc<BridgeState>);

/// A weak handle of a bridge.
#[derive(Debug, Clone)]
pub(crate) struct WeakBridge(Weak<BridgeState>);

impl WeakBridge {
    pub(crate) fn upgrade(&self) -> Option<Bridge> {
        self.0.upgrade().map(Bridge)
    }
}

struct BridgeState {
    clock: Arc<dyn Clock>,
    /// For offloads that a port's device lacks, and for frames that go to many.
    pool: MbufPool,
    ports: RmLock<Arc<[Arc<Port>]>>,
    addresses: Mutex<Addresses>,
    counters: BridgeCounters,
    /// The port that was added last. Relaxed: only each number's own value counts.
    last: AtomicU64,
}

#[derive(Debug)]
struct Port {
    id: PortId,
    device: Arc<dyn Device>,
    /// It was removed. Relaxed: a late thread sends one frame too many; a thread that learns addresses reads this under
    /// the lock that the removing thread takes after the store.
    gone: AtomicBool,
}

impl Port {
    fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }
}

impl Bridge {
    /// A bridge without ports. `random` keys its table, secret to outsiders; buffers for
    /// its work on frames come from `pool`.
    pub fn new(
        clock: Arc<dyn Clock>,
        random: &mut Random,
        pool: &MbufPool,
        config: BridgeConfig,
    ) -> Self {
        Self(Arc::new(BridgeState {
            clock,
            pool: pool.clone(),
            ports: RmLock::new(&PORTS, Arc::new([])),
            addresses: Mutex::new(&ADDRESSES, Addresses::new(config, random)),
            counters: BridgeCounters::default(),
            last: AtomicU64::new(0),
        }))
    }

    /// Makes a device a port, for a program that calls [`Bridge::poll`] when the device has frames. For an epair's end,
    /// [`join`](super::epair::EpairEnd::join) is simpler, because it also drives the end.
    ///
    /// # Errors
    /// [`BridgeError::Mtu`].
    #[doc(alias = "BRDGADD")]
    pub fn add(&self, device: Arc<dyn Device>) -> Result<PortId, BridgeError> {
        let id = PortId(self.0.last.fetch_add(1, Ordering::Relaxed) + 1);
        let mtu = device.capabilities().mtu;
        let mut ports = self.0.ports.write();
        if ports
            .first()
            .is_some_and(|p| p.device.capabilities().mtu != mtu)
        {
            return Err(BridgeError::Mtu);
        }
        let port = Arc::new(Port {
            id,
            device,
            gone: AtomicBool::new(false),
        });
        let all: Vec<_> = ports.iter().cloned().chain([port]).collect();
        let old = std::mem::replace(&mut *ports, all.into());
        drop(ports);
        drop(old);
        Ok(id)
    }

    /// Removes a port; frames that wait to come in there are dropped and counted. A thread that uses the port at this
    /// moment finishes with a drop.
    #[doc(alias = "BRDGDEL")]
    pub fn remove(&self, id: PortId) {
        let mut ports = self.0.ports.write();
        let Some(port) = ports.iter().find(|p| p.id == id).cloned() else {
            return;
        };
        let rest: Vec<_> = ports.iter().filter(|p| p.id != id).cloned().collect();
        let old = std::mem::replace(&mut *ports, rest.into());
        drop(ports);
        drop(old);
        port.gone.store(true, Ordering::Relaxed);
        self.0.addresses.lock().forget(id);
        let waited = port.device.detached() as u64;
        self.0.counters.received.add(waited);
        self.0.counters.port_gone.add(waited);
    }

    /// Takes in frames that a port's device received, within `budget`, and sends each to its ports. Returns whether
    /// more may be waiting. A port whose device is gone is removed.
    ///
    /// # Errors
    /// The device is gone or broken, or there is no such port.
    pub fn poll(&self, id: PortId, budget: Budget) -> io::Result<bool> {
        let ports = self.ports();
        let Some(port) = ports.iter().find(|p| p.id == id) else {
            return Err(io::Error::new(io::ErrorKind::NotFound, "no such port"));
        };
        let mut frames = Mbufq::new();
        let more = port.device.receive(&mut frames, budget);
        Switching::new(&self.0, &ports, port).run(frames);
        let lost = port.device.take_drops().iter().map(|&(_, n)| n).sum();
        self.0.counters.received.add(lost);
        self.0.counters.bad_frame.add(lost);
        if more.is_err() {
            self.remove(id);
        }
        more
    }

    fn ports(&self) -> Arc<[Arc<Port>]> {
        Arc::clone(&self.0.ports.read())
    }

    /// The function that takes in a batch at a port.
    pub(crate) fn driver(&self, id: PortId) -> impl Fn() -> bool + Send + Sync + 'static {
        let bridge = self.downgrade();
        let all = Budget {
            frames: usize::MAX,
            bytes: usize::MAX,
        };
        move || {
            let bridge = bridge.upgrade();
            bridge.is_some_and(|bridge| bridge.poll(id, all).unwrap_or(false))
        }
    }

    pub(crate) fn downgrade(&self) -> WeakBridge {
        WeakBridge(Arc::downgrade(&self.0))
    }

    /// Ports now.
    pub fn ports_count(&self) -> usize {
        self.0.ports.read().len()
    }

    /// The counts so far.
    pub fn stats(&self) -> BridgeStats {
        let addresses = self.0.addresses.lock().len();
        self.0.counters.get(addresses)
    }
}

kern::impl_debug!(BridgeState);

#[cfg(all(test, not(shuttle)))]
mod tests;
