//! The owners of incoming connections: listeners on an address, and interceptors, which decide about every address
//! behind an interface.
//!
//! Both are an [`AcceptQueue`]: a bounded queue of connections that wait for their user. A listener's
//! queue holds established ones; an interceptor's holds those whose SYN was not answered yet.
//!
//! ```text
//!   SYN --> half open, at most half_open_max --> ready, at most the backlog --> accept
//!            | beyond that a cookie (cookies.rs), or the oldest makes room (accept/syn_queue.rs)
//!            v
//! ```
//!
//! While the queue of ready connections is full, SYNs are not answered. A handshake that completes then stays half open
//! until its peer sends the acknowledgement again.
//!
//! Locks: `tables` (LISTENERS), `queue` (ACCEPT_QUEUE, inside of a connection's lock). `models/accept.rs` tries
//! the orders.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::task::Waker;

use kern::{Giant, Guarded, LockClass, Random, RmLock, SeededState, order};

use super::pcb::Inpcb;
use super::user_options::TcpSocketOptions;
use crate::batch::Batch;
use crate::error::SocketError;
use crate::ifnet::IfIndex;
use crate::inet::Ends;
use crate::waiters::{FutureId, WaitBy, WaiterSet, Wakes, Want};

use syn_queue::{SynQueue, Ticket};
#[cfg(all(test, shuttle))]
#[path = "../../models/accept.rs"]
mod models;

mod syn_queue;

static LISTENERS: LockClass = LockClass::new("listeners", order::LISTENERS);
static QUEUE: LockClass = LockClass::new("accept queue", order::ACCEPT_QUEUE);

/// Connections on their way to a user.
#[doc(alias = "sol_comp")]
#[derive(Debug)]
pub(crate) struct AcceptQueue {
    backlog: usize,
    half_open_max: usize,
    queue: Guarded<AcceptEntries>,
}

#[derive(Debug, Default)]
struct AcceptEntries {
    ready: VecDeque<Arc<Inpcb>>,
    syn_queue: SynQueue,
    acceptors: WaiterSet,
    /// The options that connections inherit.
    inherited: Option<Box<TcpSocketOptions>>,
    /// The interface by which its clients come is gone.
    cut_off: bool,
    closed: bool,
}

/// The place of a connection that is not ready yet.
#[derive(Debug)]
pub(crate) struct Place {
    queue: Arc<AcceptQueue>,
    ticket: Ticket,
}

/// The fate of a connection that is ready.
#[must_use]
pub(crate) enum Pushed {
    /// It waits for the user. The caller must call the wakers when it holds no lock.
    Ready(Wakes),
    /// The queue is full: the connection keeps its place, and may be offered again.
    Full,
    /// The user has gone, so the connection has no owner.
    Gone,
}

impl Place {
    /// Puts a connection where the user takes it.
    pub(crate) fn push(&self, pcb: &Arc<Inpcb>) -> Pushed {
        self.queue.push(self.ticket, pcb)
    }

    /// Whether the queue of ready connections is full.
    pub(crate) fn is_crowded(&self) -> bool {
        self.queue.queue.lock_inside().syn_queue.len() >= self.queue.half_open_max
    }

    /// Gives the place up.
    pub(crate) fn give_up(self) {
        self.queue.queue.lock_inside().syn_queue.forget(self.ticket);
    }

    /// Whether this place belongs to `self`.
    pub(crate) fn is(&self, old: &CrowdedOut) -> bool {
        self.ticket == old.ticket && Arc::ptr_eq(&self.queue, &old.queue)
    }
}

/// A half-open connection that is evicted.
#[derive(Debug)]
pub(crate) struct CrowdedOut {
    pub(crate) ends: Ends,
    queue: Arc<AcceptQueue>,
    ticket: Ticket,
}

impl AcceptQueue {
    /// A queue for `backlog` ready connections and `half_open_max` others.
    pub(crate) fn new(backlog: usize, half_open_max: usize) -> Arc<Self> {
        let queue = Guarded::new(&QUEUE, AcceptEntries::default());
        Arc::new(Self {
            backlog: backlog.max(1),
            half_open_max,
            queue,
        })
    }

    /// Reserves a place for a half-open connection. If none was left, the oldest half-open connection is evicted. None
    /// if the backlog is full.
    pub(crate) fn reserve(self: &Arc<Self>, ends: Ends) -> Option<(Place, Option<CrowdedOut>)> {
        let mut q = self.queue.lock_inside();
        if q.closed || q.ready.len() >= self.backlog {
            return None;
        }
        let ticket = q.syn_queue.add(ends);
        let oldest = q.syn_queue.evict_oldest(self.half_open_max.max(1));
        drop(q);
        let queue = || Arc::clone(self);
        let oldest = oldest.map(|(ticket, ends)| CrowdedOut {
            ends,
            queue: queue(),
            ticket,
        });
        let place = Place {
            queue: queue(),
            ticket,
        };
        Some((place, oldest))
    }

    /// Sets the options that connections inherit, from their first segment on.
    pub(crate) fn set_inherited(&self, giant: &Giant, options: TcpSocketOptions) {
        self.queue.lock(giant).inherited = Some(Box::new(options));
    }

    /// The inherited options.
    pub(crate) fn inherited(&self) -> Option<TcpSocketOptions> {
        self.queue.lock_inside().inherited.as_deref().copied()
    }

    /// Whether there is no place for one more half-open connection, while the backlog still has room.
    pub(crate) fn is_crowded(&self) -> bool {
        let q = self.queue.lock_inside();
        let ready = !q.closed && q.ready.len() < self.backlog;
        ready && q.syn_queue.len() >= self.half_open_max
    }

    /// Reserves a place for a connection that becomes ready at once and does not count as half open; none if the
    /// backlog is full.
    pub(crate) fn reserve_beyond(self: &Arc<Self>, ends: Ends) -> Option<Place> {
        let mut q = self.queue.lock_inside();
        let ready = !q.closed && q.ready.len() < self.backlog;
        ready.then(|| Place {
            queue: Arc::clone(self),
            ticket: q.syn_queue.add(ends),
        })
    }

    fn push(&self, ticket: Ticket, pcb: &Arc<Inpcb>) -> Pushed {
        let mut q = self.queue.lock_inside();
        if q.closed {
            q.syn_queue.forget(ticket);
            return Pushed::Gone;
        }
        if q.ready.len() >= self.backlog {
            return Pushed::Full;
        }
        q.syn_queue.forget(ticket);
        q.ready.push_back(Arc::clone(pcb));
        Pushed::Ready(q.acceptors.take(Want::Read))
    }

    /// Takes the oldest. If there is none, `waiting` is woken when there is one.
    ///
    /// # Errors
    /// [`SocketError::WouldBlock`]; [`SocketError::AddrNotAvailable`] if no other can come.
    pub(crate) fn pop(
        &self,
        giant: &Giant,
        waiting: Option<WaitBy<'_>>,
    ) -> Result<Arc<Inpcb>, SocketError> {
        let mut q = self.queue.lock(giant);
        if let Some(oldest) = q.ready.pop_front() {
            return Ok(oldest);
        }
        if q.cut_off {
            return Err(SocketError::AddrNotAvailable);
        }
        if let Some(waiting) = waiting {
            q.acceptors.register(Want::Read, waiting);
        }
        Err(SocketError::WouldBlock)
    }

    /// The interface by which its clients come is gone. The caller must call the wakers when it holds no lock.
    fn cut_off(&self) -> Wakes {
        let mut q = self.queue.lock_inside();
        q.cut_off = true;
        q.acceptors.take(Want::Read)
    }

    /// Removes the waker of a future.
    pub(crate) fn forget(&self, giant: &Giant, id: FutureId) {
        let old = self.queue.lock(giant).acceptors.forget(Want::Read, id);
        drop(old);
    }

    pub(crate) fn set_waker(&self, giant: &Giant, waker: Option<Waker>) {
        let old = self.queue.lock(giant).acceptors.keep(Want::Read, waker);
        drop(old);
    }

    fn info(&self, local: SocketAddr, interface: Option<IfIndex>) -> TcpListenerInfo {
        let q = self.queue.lock_inside();
        TcpListenerInfo {
            local,
            interface,
            waiting: q.ready.len(),
            backlog: self.backlog,
            half_open: q.syn_queue.len(),
        }
    }

    /// The user has gone; returns the connections that it did not take.
    pub(crate) fn close(&self, giant: &Giant) -> VecDeque<Arc<Inpcb>> {
        let mut q = self.queue.lock(giant);
        q.closed = true;
        let wakers = q.acceptors.clear();
        let ready = std::mem::take(&mut q.ready);
        drop(q);
        drop(wakers);
        ready
    }
}

/// A TCP listener of a stack.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct TcpListenerInfo {
    /// Its address; an unspecified one stands for all addresses.
    pub local: SocketAddr,
    /// The interface of its clients; none: all interfaces.
    pub interface: Option<IfIndex>,
    /// Connections that wait to be accepted.
    #[doc(alias = "so_qlen")]
    pub waiting: usize,
    /// How many may wait.
    #[doc(alias = "so_qlimit")]
    pub backlog: usize,
    /// Connections whose handshake is under way.
    #[doc(alias = "so_incqlen")]
    pub half_open: usize,
}

/// By address, and by the interface of a listener that takes clients of no other.
type ByAddr = HashMap<(SocketAddr, Option<IfIndex>), PortListeners, SeededState>;

/// The listeners of one address at most.
pub(crate) const SHARERS_MAX: usize = 256;

/// The listeners of one address: one, or several that share it.
struct PortListeners {
    shared: bool,
    queues: Vec<Arc<AcceptQueue>>,
}

impl PortListeners {
    /// The one that takes a flow: the same one as long as the listeners are the same.
    fn of_flow(&self, ends: &Ends, hash: &SeededState) -> Option<&Arc<AcceptQueue>> {
        let place = match self.queues.len() {
            0 | 1 => 0,
            len => ends.with_bytes(|bytes| hash.hash_bytes(bytes)) as usize % len,
        };
        self.queues.get(place)
    }
}

/// All addresses of its version, with its port.
fn any_of(addr: SocketAddr) -> SocketAddr {
    let all = match addr {
        SocketAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::from(Ipv6Addr::UNSPECIFIED),
    };
    SocketAddr::new(all, addr.port())
}

/// The queues by address and by interface.
struct ListenerTables {
    by_addr: ByAddr,
    /// There was a listener of one interface.
    has_links: bool,
    /// At most one an interface.
    interceptors: Vec<(IfIndex, Arc<AcceptQueue>)>,
}

/// All listeners and interceptors.
pub(crate) struct Listeners {
    tables: RmLock<ListenerTables>,
}

impl Listeners {
    pub(crate) fn new(random: &mut Random) -> Self {
        let by_addr = HashMap::with_hasher(SeededState::new(random));
        let tables = ListenerTables {
            by_addr,
            has_links: false,
            interceptors: Vec::new(),
        };
        Self {
            tables: RmLock::new(&LISTENERS, tables),
        }
    }

    /// The listener for the local address of this flow, or one for its port on any of our addresses; of both, that of
    /// the interface `link`, by which the flow came, is first.
    pub(crate) fn find(&self, ends: &Ends, ours: bool, link: IfIndex) -> Option<Arc<AcceptQueue>> {
        let (tables, addr) = (self.tables.read(), ends.local());
        let at = |addr| {
            let of = |link| tables.by_addr.get(&(addr, link));
            let own = tables.has_links.then(|| of(Some(link))).flatten();
            own.or_else(|| of(None))
        };
        let any = || ours.then(|| at(any_of(addr))).flatten();
        let found = at(addr).or_else(any)?;
        found.of_flow(ends, tables.by_addr.hasher()).map(Arc::clone)
    }

    /// All listeners.
    pub(crate) fn list(&self) -> Vec<TcpListenerInfo> {
        let tables = self.tables.read();
        let of = |((local, interface), all): (&_, &PortListeners)| {
            let info = |queue: &Arc<AcceptQueue>| queue.info(*local, *interface);
            all.queues.iter().map(info).collect::<Vec<_>>()
        };
        tables.by_addr.iter().flat_map(of).collect()
    }

    /// The interceptor of an interface.
    pub(crate) fn interceptor(&self, index: IfIndex) -> Option<Arc<AcceptQueue>> {
        let tables = self.tables.read();
        tables
            .interceptors
            .iter()
            .find(|(i, _)| *i == index)
            .map(|(_, q)| Arc::clone(q))
    }

    /// Adds a listener, of one interface or of all; false if the address is taken, by one that does not share it or by
    /// more than `others`. With `others` of 0, the stack has chosen the port.
    pub(crate) fn add(
        &self,
        (addr, link): (SocketAddr, Option<IfIndex>),
        queue: &Arc<AcceptQueue>,
        shared: bool,
        others: usize,
    ) -> bool {
        let mut tables = self.tables.write();
        let queues = Vec::new();
        let none = || PortListeners { shared, queues };
        tables.has_links |= link.is_some();
        // A port that the stack chooses has no listener on any interface.
        let chosen = others == 0 && tables.has_links;
        if chosen && tables.by_addr.keys().any(|(taken, _)| *taken == addr) {
            return false;
        }
        let all = tables.by_addr.entry((addr, link)).or_insert_with(none);
        let shares = shared && all.shared && all.queues.len() <= others;
        let added = all.queues.is_empty() || shares;
        if added {
            all.queues.push(Arc::clone(queue));
        }
        added
    }

    /// An interface is gone, and with it the clients of its interceptor and of the listeners that take no others.
    pub(crate) fn interface_gone(&self, batch: &mut Batch<'_>, index: IfIndex) {
        let tables = self.tables.read();
        let listeners = tables.by_addr.iter().filter(|(at, _)| at.1 == Some(index));
        let interceptors = tables.interceptors.iter().filter(|(i, _)| *i == index);
        let queues = listeners.flat_map(|(_, all)| &all.queues);
        for queue in queues.chain(interceptors.map(|(_, queue)| queue)) {
            batch.wake(queue.cut_off());
        }
    }

    /// Wakes all users.
    pub(super) fn wake_users(&self, batch: &mut Batch<'_>) {
        let tables = self.tables.read();
        let listeners = tables.by_addr.values().flat_map(|all| &all.queues);
        let interceptors = tables.interceptors.iter().map(|(_, queue)| queue);
        for queue in listeners.chain(interceptors) {
            batch.wake(queue.queue.lock_inside().acceptors.take(Want::Read));
        }
    }

    /// Adds an interceptor; false if the interface has one.
    pub(crate) fn add_interceptor(&self, index: IfIndex, queue: &Arc<AcceptQueue>) -> bool {
        let mut tables = self.tables.write();
        let free = tables.interceptors.iter().all(|(i, _)| *i != index);
        if free {
            tables.interceptors.push((index, Arc::clone(queue)));
        }
        free
    }

    /// Removes the addresses and interfaces that `queue` was added for.
    pub(crate) fn remove(&self, queue: &Arc<AcceptQueue>) {
        let mut tables = self.tables.write();
        tables.by_addr.retain(|_, all| {
            all.queues.retain(|q| !Arc::ptr_eq(q, queue));
            !all.queues.is_empty()
        });
        tables.interceptors.retain(|(_, q)| !Arc::ptr_eq(q, queue));
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_the_stack_chooses_has_no_other_listener() {
        // Breaks if port 0 selects a port whose clients another listener, of one interface or of all, then loses.
        let queue = AcceptQueue::new(1, 1);
        for (first, second) in [(None, Some(IfIndex(2))), (Some(IfIndex(2)), None)] {
            let listeners = Listeners::new(&mut Random::from_seed(1));
            let at = |link| ((Ipv4Addr::UNSPECIFIED, 49_152).into(), link);
            assert!(listeners.add(at(first), &queue, false, SHARERS_MAX - 1));
            assert!(!listeners.add(at(second), &queue, false, 0));
            assert!(listeners.add(at(second), &queue, false, SHARERS_MAX - 1));
        }
    }
}
