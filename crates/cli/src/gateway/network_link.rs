//! The guests of one network, and the stack: each has a port of one bridge.
//!
//! ```text
//!   guest 1  TAP ----[port]--.
//!                             bridge --[port]== Pipe == the stack's interface
//!   guest 2  TAP ----[port]--'
//! ```
//!
//! To the worker that drives it, this is one device: its descriptor is an epoll set with all TAPs in it. A poll takes
//! in the frames of those that have any; the bridge carries them to other guests, and those for the stack wait in the
//! pipe.
//!
//! Invariants: a guest's TAP is open as long as its port.
//! Locks: `ports` (STATS), not while the bridge works.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kern::{Clock, LockClass, Mutex, Random, order};
use mbuf::{MbufPool, Mbufq};
use mbuma::device::bridge::{Bridge, BridgeConfig, PortId};
use mbuma::device::memory::Pipe;
use mbuma::device::tap::{Offloads, Tap, TapOptions};
use mbuma::device::{Budget, Capabilities, Device};
use mbuma::runtime::{Interest, PollEvents, Poller};
use mbuma::{DropReason, MacAddr};

use super::address_guard::AddressGuard;
use crate::guest::GuestEnd;
use crate::guests::{GuestId, JoinedGuest};

static PORTS: LockClass = LockClass::new("network ports", order::STATS);

/// All frames in the pipe.
const ALL: Budget = Budget {
    frames: usize::MAX,
    bytes: usize::MAX,
};

/// The device.
pub(super) struct NetworkLink {
    bridge: Bridge,
    /// The stack's end of the pipe, and the bridge's port at the other.
    inner: Pipe,
    uplink: PortId,
    set: Poller,
    ports: Mutex<GuestPorts>,
    guard: Arc<AddressGuard>,
    clock: Arc<dyn Clock>,
    mtu: u16,
    pool: MbufPool,
}

/// The guests' ports.
struct GuestPorts {
    by_guest: HashMap<GuestId, GuestPort>,
    events: PollEvents,
}

struct GuestPort {
    port: PortId,
    tap: Arc<GuardedTap>,
}

impl NetworkLink {
    /// A network without guests.
    pub(super) fn new(
        mtu: u16,
        clock: &Arc<dyn Clock>,
        pool: &MbufPool,
    ) -> io::Result<NetworkLink> {
        let mut random = Random::from_os();
        let bridge = Bridge::new(
            Arc::clone(clock),
            &mut random,
            pool,
            BridgeConfig::default(),
        );
        let (inner, outer) = Pipe::pair(Capabilities::whole(mtu));
        let uplink = bridge.add(Arc::new(outer)).map_err(io::Error::other)?;
        let ports = GuestPorts {
            by_guest: HashMap::new(),
            events: PollEvents::new(),
        };
        Ok(NetworkLink {
            bridge,
            inner,
            uplink,
            set: Poller::new()?,
            ports: Mutex::new(&PORTS, ports),
            guard: Arc::new(AddressGuard::new()),
            clock: Arc::clone(clock),
            mtu,
            pool: pool.clone(),
        })
    }

    /// Protects the addresses of this network's guests, and the stack's.
    pub(super) fn protect(&self, ends: &GuestEnd, stack_mac: MacAddr) {
        self.guard.set_network(ends, stack_mac);
    }

    /// Gives a guest a port.
    pub(super) fn join(&self, guest: JoinedGuest) -> io::Result<()> {
        let JoinedGuest { spec, tap } = guest;
        let (id, offloads) = (spec.id, spec.offloads);
        let options = TapOptions {
            mtu: self.mtu,
            // The bridge refuses a device with BIG TCP.
            offloads: Offloads {
                big_tcp: false,
                jumbo_option: false,
                ..offloads
            },
        };
        self.guard.add(&spec);
        let tap = Arc::new(GuardedTap {
            tap: Tap::from_fd(tap, options, &self.pool),
            frames: AtomicU64::new(0),
            guest: id,
            guard: Arc::clone(&self.guard),
            clock: Arc::clone(&self.clock),
        });
        let port = self.bridge.add(Arc::clone(&tap) as _);
        let port = port.map_err(io::Error::other).and_then(|port| {
            let watched = self.set.add(tap.tap.as_fd(), u64::from(id), Interest::Read);
            watched
                .map(|()| port)
                .inspect_err(|_| self.bridge.remove(port))
        });
        let port = port.inspect_err(|_| self.guard.remove(id))?;
        self.ports
            .lock()
            .by_guest
            .insert(id, GuestPort { port, tap });
        Ok(())
    }

    /// Removes a guest's port.
    pub(super) fn leave(&self, id: GuestId) {
        let gone = self.ports.lock().by_guest.remove(&id);
        if let Some(GuestPort { port, .. }) = gone {
            self.bridge.remove(port);
        }
        self.guard.remove(id);
    }

    /// Frames that came from a guest so far; nothing without such a guest.
    pub(super) fn frames_of(&self, id: GuestId) -> Option<u64> {
        let ports = self.ports.lock();
        let guest = ports.by_guest.get(&id)?;
        Some(guest.tap.frames.load(Ordering::Relaxed))
    }

    /// The ports whose TAPs have frames.
    fn ready(&self) -> io::Result<Vec<(GuestId, PortId)>> {
        let mut ports = self.ports.lock();
        let GuestPorts { by_guest, events } = &mut *ports;
        self.set.wait(events, Some(Duration::ZERO))?;
        let ids = events.iter();
        let ids = ids.filter_map(|(number, _)| GuestId::try_from(number).ok());
        let ready = ids.filter_map(|id| Some((id, by_guest.get(&id)?.port)));
        Ok(ready.collect())
    }
}

impl Device for NetworkLink {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn receive(&self, rx: &mut Mbufq, budget: Budget) -> io::Result<bool> {
        let mut more = false;
        for (id, port) in self.ready()? {
            match self.bridge.poll(port, budget) {
                Ok(waits) => more |= waits,
                // Its interface is gone.
                Err(_) => self.leave(id),
            }
        }
        Ok(self.inner.receive(rx, budget)? || more)
    }

    fn take_drops(&self) -> Vec<(DropReason, u64)> {
        match self.guard.take_dropped() {
            0 => Vec::new(),
            n => vec![(DropReason::ForgedAddress, n)],
        }
    }

    fn transmit(&self, tx: &mut Mbufq) -> io::Result<usize> {
        let refused = self.inner.transmit(tx)?;
        while self.bridge.poll(self.uplink, ALL)? {}
        Ok(refused)
    }
}

impl AsFd for NetworkLink {
    /// Readable when a guest has frames.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.set.as_fd()
    }
}

kern::impl_debug!(NetworkLink);

/// A guest's TAP, which counts the frames that come from it, and drops those with another one's addresses.
#[derive(Debug)]
struct GuardedTap {
    tap: Tap,
    /// Relaxed: it tells a quiet guest from a busy one.
    frames: AtomicU64,
    guest: GuestId,
    guard: Arc<AddressGuard>,
    clock: Arc<dyn Clock>,
}

impl Device for GuardedTap {
    fn capabilities(&self) -> Capabilities {
        self.tap.capabilities()
    }

    fn receive(&self, rx: &mut Mbufq, budget: Budget) -> io::Result<bool> {
        let mut came = Mbufq::new();
        let more = self.tap.receive(&mut came, budget);
        self.frames.fetch_add(came.len() as u64, Ordering::Relaxed);
        if !came.is_empty() {
            let now = self.clock.now();
            self.guard.filter(self.guest, now, &mut came, rx);
        }
        more
    }

    fn take_drops(&self) -> Vec<(DropReason, u64)> {
        self.tap.take_drops()
    }

    fn transmit(&self, tx: &mut Mbufq) -> io::Result<usize> {
        self.tap.transmit(tx)
    }
}
