//! Sockets in flight, and the collection of those that can't be received any more.
//!
//! The receive buffer in which a socket waits holds that socket. After their last handles are gone, two such sockets
//! may hold each other, or one itself, so that no count comes to zero. A listener holds the connections in its accept
//! queue in the same way, so it is part of the same graph.
//!
//! # Which sockets are alive
//! ```text
//!   program --handle--> A          B <--in flight, in the buffer of-- C          D <--> E
//!                       |                                             |
//!                       +--------------in flight, in the buffer of----+
//! ```
//! [`Graph`] knows each socket in flight and in whose buffers it is, its *carriers*. A socket can still be received if
//! it has a handle, or if one of its carriers can. So the collector follows the carriers up to one with a handle, or to
//! one that is not in flight itself: the thread that closes that one empties its buffer. If there is no such carrier,
//! none of the visited sockets can be received, and the collector closes all of them (D and E).
//!
//! BSD's unp_gc marks from all live sockets, at every close. Marking from a socket that may be dead visits only its
//! holders, mostly one socket with a handle.
//!
//! A socket can die only when it loses a holder, so it is checked then: when its last handle goes while it is in flight
//! ([`Flight::released`]), and when a buffer that contains it closes ([`Flight::unload`]). A dead socket stays dead: no
//! thread can take it out of its buffer.
//!
//! # Races
//! A socket goes into flight under this lock and that of the buffer at once, and lands under this lock after
//! it came out of the buffer: the thread that takes it out has a handle of the carrier, so it is alive meanwhile. A
//! count of handles leaves zero only under this lock (landing). It comes to zero without it; a check that
//! comes too early finds the socket alive, and the thread that drops the handle checks again.
//!
//! Locks: `graph` (UNIX_FLIGHT), outside of one receive buffer or accept queue.
//! Source: unp_gc() of 4.4BSD; SCM_RIGHTS cycles in unix(4).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kern::{Counter, Giant, LockClass, order};

use super::lock::{Lock, Locked};
use super::pcb::Unpcb;

static FLIGHT: LockClass = LockClass::new("unix sockets in flight", order::UNIX_FLIGHT);

/// The sockets of a stack that are in flight.
pub(crate) struct Flight {
    graph: Lock<Graph>,
    collected: Counter,
}

/// The sockets in flight, by id. Ids follow the order in which sockets are made, so a replay is identical.
#[derive(Default)]
pub(super) struct Graph(BTreeMap<u64, Node>);

struct Node {
    pcb: Arc<Unpcb>,
    /// The carriers: in whose buffers it is, and how often.
    carriers: BTreeMap<u64, usize>,
    /// It was found dead, and the thread that found it closes it.
    dead: bool,
}

impl Flight {
    pub(super) fn new(giant: &Arc<Giant>) -> Self {
        Self {
            graph: Lock::new(giant, &FLIGHT, Graph::default()),
            collected: Counter::new(),
        }
    }

    pub(super) fn lock(&self) -> Locked<'_, Graph> {
        self.graph.lock()
    }

    /// Sockets in flight now.
    pub(super) fn len(&self) -> usize {
        self.graph.lock().0.len()
    }

    /// Sockets that were closed because they could not be received any more.
    pub(super) fn collected(&self) -> u64 {
        self.collected.get()
    }

    /// The last handle of `pcb` has gone. Returns the sockets to be closed.
    #[doc(alias = "unp_gc")]
    pub(super) fn released(&self, pcb: &Arc<Unpcb>) -> Vec<Arc<Unpcb>> {
        let mut graph = self.graph.lock();
        self.dead(&mut graph, pcb)
    }

    /// The buffer of `carrier`, in which `sockets` were, is no more. Returns the sockets to be closed.
    #[doc(alias = "unp_dispose")]
    #[doc(alias = "unp_discard")]
    pub(super) fn unload(&self, carrier: u64, sockets: &[Arc<Unpcb>]) -> Vec<Arc<Unpcb>> {
        if sockets.is_empty() {
            return Vec::new();
        }
        let mut graph = self.graph.lock();
        for pcb in sockets {
            graph.unload(pcb, carrier);
        }
        let dead = sockets.iter().flat_map(|pcb| self.dead(&mut graph, pcb));
        dead.collect()
    }

    /// The dead sockets after `suspect` lost a holder: none, itself, or itself with its holders.
    fn dead(&self, graph: &mut Graph, suspect: &Arc<Unpcb>) -> Vec<Arc<Unpcb>> {
        if suspect.has_handles() {
            return Vec::new();
        }
        if !graph.0.contains_key(&suspect.id) {
            return vec![Arc::clone(suspect)];
        }
        let dead = graph.unreachable(suspect.id);
        self.collected.add(dead.len() as u64);
        dead
    }
}

impl Graph {
    /// Records that `pcb` is in the buffer of `carrier` once more. The caller has a handle of `pcb`, or is making it.
    #[doc(alias = "unp_internalize")]
    pub(super) fn load(&mut self, pcb: &Arc<Unpcb>, carrier: u64) {
        pcb.mark_passed();
        let node = self.0.entry(pcb.id).or_insert_with(|| Node {
            pcb: Arc::clone(pcb),
            carriers: BTreeMap::new(),
            dead: false,
        });
        *node.carriers.entry(carrier).or_insert(0) += 1;
    }

    /// Records that `pcb` is in that buffer once less.
    #[doc(alias = "unp_externalize")]
    pub(super) fn unload(&mut self, pcb: &Unpcb, carrier: u64) {
        let Some(node) = self.0.get_mut(&pcb.id) else {
            return;
        };
        if let Some(times) = node.carriers.get_mut(&carrier) {
            *times -= 1;
            if *times == 0 {
                node.carriers.remove(&carrier);
            }
        }
        if node.carriers.is_empty() {
            // The caller has a reference of its own, so no socket ends under the lock.
            self.0.remove(&pcb.id);
        }
    }

    /// The socket `id` and all its holders, if none of them can be received, without those that were found dead before.
    #[doc(alias = "unp_mark")]
    fn unreachable(&mut self, id: u64) -> Vec<Arc<Unpcb>> {
        let mut seen = BTreeSet::from([id]);
        let mut to_look_at = vec![id];
        while let Some(id) = to_look_at.pop() {
            let Some(node) = self.0.get(&id).filter(|n| !n.pcb.has_handles()) else {
                return Vec::new();
            };
            if !node.dead {
                let carriers = node.carriers.keys();
                to_look_at.extend(carriers.copied().filter(|carrier| seen.insert(*carrier)));
            }
        }
        let mut dead = Vec::new();
        for id in seen {
            if let Some(node) = self.0.get_mut(&id).filter(|n| !n.dead) {
                node.dead = true;
                dead.push(Arc::clone(&node.pcb));
            }
        }
        dead
    }
}
