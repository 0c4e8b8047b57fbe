//! A connection in the table: its ends, and its control block under one lock.
//!
//! [`Inpcb`] never changes but for its lock's inside.
//!
//! Locks: `tcb` (CONN). Holding it, one may take accept queues, routes, neighbours, interface queues,
//! the timer wheel and zones; never the connection table or another connection.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use kern::guarded::GuardedLock;
use kern::prim::{AtomicBool, AtomicU32, MutexGuard, Ordering};
use kern::{Cpu, Giant, Guarded, LockClass, order};

pub(crate) use super::send_state::{DoubtedReport, MSS_DEFAULT, PathMtu, SendState};
pub use super::state::State;
pub(crate) use super::tcb::{Predecessor, Tcb};
use crate::inet::{Ends, Pair};
use crate::netisr;

static CONN: LockClass = LockClass::new("connection", order::CONN);

/// [`Ends`] for the life of the connection: those of IPv6 are in a box, so that a connection over IPv4 stays small.
#[derive(Debug)]
enum KeptEnds {
    V4(Pair<Ipv4Addr>),
    V6(Box<(Pair<Ipv6Addr>, u32)>),
}

impl KeptEnds {
    fn new(ends: Ends) -> Self {
        match ends {
            Ends::V4(pair) => Self::V4(pair),
            Ends::V6(pair, zone) => Self::V6(Box::new((pair, zone))),
        }
    }
}

/// A connection in the table.
#[doc(alias = "inpcb")]
#[derive(Debug)]
pub(crate) struct Inpcb {
    ends: KeptEnds,
    /// The hash of its flow, for outgoing segments. Relaxed: a segment that still leaves by the former queue may arrive
    /// out of order, which the peer repairs.
    flow: AtomicU32,
    /// Whether a read would return something. Written last, under the connection's lock ([`visit`](super::visit)), so
    /// that a reader of an empty buffer needs no lock.
    readable: AtomicBool,
    tcb: Guarded<Tcb>,
}

impl Inpcb {
    pub(crate) fn new(ends: Ends, flow: u32, tcb: Tcb) -> Arc<Self> {
        let readable = AtomicBool::new(tcb.is_readable());
        let tcb = Guarded::new(&CONN, tcb);
        Arc::new(Self {
            ends: KeptEnds::new(ends),
            flow: AtomicU32::new(flow),
            readable,
            tcb,
        })
    }

    /// The control block, for a call from outside of the stack.
    #[track_caller]
    #[inline]
    pub(crate) fn lock<'a>(&'a self, giant: &'a Giant) -> GuardedLock<'a, Tcb> {
        self.tcb.lock(giant)
    }

    /// The control block, inside of an entry into the stack.
    #[track_caller]
    #[inline]
    pub(crate) fn lock_inside(&self) -> MutexGuard<'_, Tcb> {
        self.tcb.lock_inside()
    }

    /// The addresses and ports that identify it.
    #[inline]
    pub(crate) fn ends(&self) -> Ends {
        match &self.ends {
            KeptEnds::V4(pair) => Ends::V4(*pair),
            KeptEnds::V6(both) => Ends::V6(both.0, both.1),
        }
    }

    /// The hash of its flow.
    pub(crate) fn flow(&self) -> u32 {
        self.flow.load(Ordering::Relaxed)
    }

    /// Whether a read would return something. Relaxed: if true, the reader takes the lock; if false, the read counts as
    /// one before the data came.
    #[inline]
    pub(crate) fn is_readable(&self) -> bool {
        self.readable.load(Ordering::Relaxed)
    }

    /// The caller holds the connection's lock, so no other store comes in between. An unchanged value is not stored,
    /// because a store makes other CPUs fetch the cache line again.
    #[inline]
    pub(super) fn set_readable(&self, readable: bool) {
        if self.is_readable() != readable {
            self.readable.store(readable, Ordering::Relaxed);
        }
    }

    /// From now on its segments leave by the queue of `cpu`, if the interface has `queues` queues.
    pub(crate) fn keep_to(&self, queues: usize, cpu: Cpu) {
        self.flow
            .store(netisr::keep(self.flow(), queues, cpu), Ordering::Relaxed);
    }
}
