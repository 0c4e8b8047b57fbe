//! Who takes connections that others begin: listeners on an address, and interceptors, which decide
//! about every address behind an interface.
//!
//! Both are an [`AcceptQueue`]: a bounded row of connections that wait for their user. A listener's
//! row holds established ones; an interceptor's holds those whose SYN nobody has answered yet.
//!
//! Locks: `tables` (LISTENERS), `queue` (ACCEPT_QUEUE, inside of a connection's lock). `accept/schedules.rs` tries the
//! orders.

use std::collections::{HashMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::task::Waker;

use kern::prim::Mutex;
use kern::{LockClass, Random, RmLock, SeededState, order};

use super::pcb::Inpcb;
use crate::ifnet::IfIndex;
use crate::socket::wakers::{Wakers, Wakes};

#[cfg(all(test, shuttle))]
mod schedules;

static LISTENERS: LockClass = LockClass::new("listeners", order::LISTENERS);
static QUEUE: LockClass = LockClass::new("accept queue", order::ACCEPT_QUEUE);

/// Connections on their way to a user.
#[doc(alias = "sol_comp")]
#[derive(Debug)]
pub(crate) struct AcceptQueue {
    backlog: usize,
    queue: Mutex<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    ready: VecDeque<Arc<Inpcb>>,
    /// Connections that count against the backlog and are not ready yet.
    embryos: usize,
    wakers: Wakers,
    closed: bool,
}

impl AcceptQueue {
    pub(crate) fn new(backlog: usize) -> Arc<Self> {
        let queue = Mutex::new(&QUEUE, Queue::default());
        Arc::new(Self {
            backlog: backlog.max(1),
            queue,
        })
    }

    /// Takes a place for a connection to come; false if the backlog is full.
    pub(crate) fn reserve(&self) -> bool {
        let mut q = self.queue.lock();
        let free = !q.closed && q.embryos + q.ready.len() < self.backlog;
        q.embryos += usize::from(free);
        free
    }

    /// Gives a reserved place back.
    pub(crate) fn forget_embryo(&self) {
        let mut q = self.queue.lock();
        q.embryos = q.embryos.saturating_sub(1);
    }

    /// A connection takes its reserved place. Whom to wake is to be called once no lock is held. False
    /// if the user has gone: the connection has nobody.
    pub(crate) fn push(&self, pcb: &Arc<Inpcb>) -> (bool, Wakes) {
        let mut q = self.queue.lock();
        q.embryos = q.embryos.saturating_sub(1);
        if q.closed {
            return (false, Wakes::default());
        }
        q.ready.push_back(Arc::clone(pcb));
        (true, q.wakers.take())
    }

    /// The oldest. If there is none, `waiter` is told when there is one.
    pub(crate) fn pop(&self, waiter: Option<&Waker>) -> Option<Arc<Inpcb>> {
        let mut q = self.queue.lock();
        let oldest = q.ready.pop_front();
        if let (None, Some(waiter)) = (&oldest, waiter) {
            q.wakers.add(waiter);
        }
        oldest
    }

    pub(crate) fn set_waker(&self, waker: Option<Waker>) {
        let old = self.queue.lock().wakers.keep(waker);
        drop(old);
    }

    /// The user goes; returns the connections that nobody took.
    pub(crate) fn close(&self) -> VecDeque<Arc<Inpcb>> {
        let mut q = self.queue.lock();
        q.closed = true;
        let wakers = q.wakers.clear();
        let ready = std::mem::take(&mut q.ready);
        drop(q);
        drop(wakers);
        ready
    }
}

type ByAddr = HashMap<(Ipv4Addr, u16), Arc<AcceptQueue>, SeededState>;

/// Who listens where.
struct Tables {
    by_addr: ByAddr,
    /// At most one an interface.
    interceptors: Vec<(IfIndex, Arc<AcceptQueue>)>,
}

/// All listeners and interceptors.
pub(crate) struct Listeners {
    tables: RmLock<Tables>,
}

impl Listeners {
    pub(crate) fn new(random: &mut Random) -> Self {
        let by_addr = HashMap::with_hasher(SeededState::new(random));
        let tables = Tables {
            by_addr,
            interceptors: Vec::new(),
        };
        Self {
            tables: RmLock::new(&LISTENERS, tables),
        }
    }

    /// The listener for `addr`, or one for its port on any of our addresses.
    pub(crate) fn find(&self, addr: SocketAddrV4, ours: bool) -> Option<Arc<AcceptQueue>> {
        let tables = self.tables.read();
        let exact = tables.by_addr.get(&(*addr.ip(), addr.port()));
        let any = || {
            ours.then(|| tables.by_addr.get(&(Ipv4Addr::UNSPECIFIED, addr.port())))
                .flatten()
        };
        exact.or_else(any).map(Arc::clone)
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

    /// Adds a listener; false if the address is taken.
    pub(crate) fn add(&self, addr: SocketAddrV4, queue: &Arc<AcceptQueue>) -> bool {
        let mut tables = self.tables.write();
        let key = (*addr.ip(), addr.port());
        if tables.by_addr.contains_key(&key) {
            return false;
        }
        tables.by_addr.insert(key, Arc::clone(queue));
        true
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

    /// Removes what `queue` was added for.
    pub(crate) fn remove(&self, queue: &Arc<AcceptQueue>) {
        let mut tables = self.tables.write();
        tables.by_addr.retain(|_, q| !Arc::ptr_eq(q, queue));
        tables.interceptors.retain(|(_, q)| !Arc::ptr_eq(q, queue));
    }
}
