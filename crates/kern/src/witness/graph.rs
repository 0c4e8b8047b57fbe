//! The orders learnt: which class was taken while which was held, and where that was first seen.
//!
//! Together with the declared ranks they must have no circle. An order that would close a circle is
//! reported and not learnt, so the next thread that takes these locks in that order gets the same
//! report.
//!
//! ```text
//!   seen: alpha, then beta        seen: beta, then gamma       now: gamma held, alpha wanted
//!   alpha ----------> beta ----------> gamma - - - - - - - - - - > alpha      a circle: report
//! ```
//!
//! Invariant: a bit in `KNOWN` stands for an order in `ORDERS`; if all orders are known, an acquisition costs one bit
//! load for each held lock.
//! Locks: `ORDERS`, innermost, when something is new.

use core::panic::Location;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::held::Acquisition;
use crate::lock::{LockClass, Registry};

/// How many classes a process may have: a line of the matrix each.
const CLASSES_MAX: usize = 512;
const WORDS: usize = CLASSES_MAX / 64;

/// Rows are the classes held, columns those taken then.
static KNOWN: [AtomicU64; CLASSES_MAX * WORDS] = [const { AtomicU64::new(0) }; CLASSES_MAX * WORDS];
static ORDERS: Mutex<BTreeMap<(usize, usize), Seen>> = Mutex::new(BTreeMap::new());

/// Where an order was first seen.
#[derive(Clone)]
pub(super) struct Seen {
    /// Where the outer lock was taken.
    pub(super) outer: &'static Location<'static>,
    /// Where the inner one was taken then.
    pub(super) inner: &'static Location<'static>,
    /// By which thread.
    pub(super) thread: String,
}

/// The graph, held for a fork.
pub(crate) struct OrdersHeld {
    _guard: MutexGuard<'static, BTreeMap<(usize, usize), Seen>>,
}

impl OrdersHeld {
    pub(crate) fn take() -> Self {
        Self { _guard: lock() }
    }
}

/// One order on a way through the graph.
pub(super) struct OrderStep {
    pub(super) outer: &'static LockClass,
    pub(super) inner: &'static LockClass,
    /// None if it is declared by rank, and was not seen.
    pub(super) seen: Option<Seen>,
}

/// Learns that `inner` is taken while `outer` is held. If the opposite order is known already, returns the path that
/// shows it.
pub(super) fn learn(
    outer: &Acquisition,
    inner: &Acquisition,
    thread: &str,
) -> Result<(), Vec<OrderStep>> {
    let (from, to) = (outer.class.index(), inner.class.index());
    assert!(
        from.max(to) < CLASSES_MAX,
        "witness: more than {CLASSES_MAX} classes of locks"
    );
    let word = &KNOWN[from * WORDS + to / 64];
    let bit = 1 << (to % 64);
    if word.load(Relaxed) & bit != 0 {
        return Ok(());
    }
    let mut orders = lock();
    if let Some(path) = search(&orders, inner.class, outer.class) {
        return Err(path);
    }
    orders.entry((from, to)).or_insert_with(|| Seen {
        outer: outer.site,
        inner: inner.site,
        thread: thread.to_owned(),
    });
    word.fetch_or(bit, Relaxed);
    Ok(())
}

/// The path that shows that `inner` comes after `outer`; none if that is not known.
pub(super) fn path(outer: &'static LockClass, inner: &'static LockClass) -> Option<Vec<OrderStep>> {
    search(&lock(), outer, inner)
}

/// The names of all pairs learnt.
pub(super) fn orders() -> Vec<(&'static str, &'static str)> {
    let classes = Registry::classes();
    lock()
        .keys()
        .map(|&(outer, inner)| (classes[outer].name, classes[inner].name))
        .collect()
}

fn lock() -> MutexGuard<'static, BTreeMap<(usize, usize), Seen>> {
    ORDERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The shortest way from `outer` to `inner`; of two equal ways, the one through learnt orders.
fn search(
    orders: &BTreeMap<(usize, usize), Seen>,
    outer: &'static LockClass,
    inner: &'static LockClass,
) -> Option<Vec<OrderStep>> {
    let (start, end) = (outer.index(), inner.index());
    let classes = Registry::classes();
    let mut came_from = vec![None; classes.len()];
    let mut to_do = VecDeque::from([start]);
    while let Some(at) = to_do.pop_front() {
        let seen = orders.range((at, 0)..=(at, usize::MAX));
        let declared = (0..classes.len()).filter(|&next| declared(classes[at], classes[next]));
        for next in seen.map(|(&(_, next), _)| next).chain(declared) {
            if next != start && came_from[next].is_none() {
                came_from[next] = Some(at);
                to_do.push_back(next);
            }
        }
        if came_from[end].is_some() {
            break;
        }
    }
    let mut path = Vec::new();
    let mut at = end;
    while at != start {
        let before = came_from[at]?;
        path.push(OrderStep {
            outer: classes[before],
            inner: classes[at],
            seen: orders.get(&(before, at)).cloned(),
        });
        at = before;
    }
    path.reverse();
    Some(path)
}

/// Whether the table of ranks puts one before the other.
fn declared(outer: &LockClass, inner: &LockClass) -> bool {
    outer.is_ranked() && inner.is_ranked() && outer.rank < inner.rank
}
