//! The wakers of a socket, for each side: reading and writing.
//!
//! | kind | called | for |
//! |---|---|---|
//! | kept | at every change, until it is replaced | event loops: `set_waker`, `set_wakers` |
//! | polled | once; the last one polled takes the place of the one before it | tasks: the `poll_..` methods |
//! | once | once; any number | threads in blocking calls |
//! | future | once, unless the future is dropped before; any number | `.._async` methods |
//!
//! A change of one side never wakes the waiters of the other. A waker that waits for both sides is called once if both
//! have changed.
//!
//! Invariants: the thread that finds the socket not ready adds the waker before it releases the lock, so the thread
//! that makes the socket ready later finds the waker. A side has at most one kept and one polled waker. Locks: its
//! owner's.

use std::cell::Cell;
use std::task::{Context, Waker};

use kern::witness;

#[cfg(all(test, not(shuttle)))]
mod tests;

/// The event that a thread waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Want {
    /// Data, a connection, an end, an error.
    Read,
    /// Room, or that a connection is established, an end, an error.
    Write,
}

/// Distinguishes the wakers of a side: the number of a kind or, for a future, its [`FutureId`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct WakerKey(usize);

impl WakerKey {
    const KEPT: Self = Self(0);
    const POLLED: Self = Self(1);
    const ONCE: Self = Self(2);

    fn of(FutureId(addr): FutureId) -> Self {
        debug_assert!(u8::try_from(addr).is_err(), "an address");
        Self(addr)
    }
}

/// Distinguishes the futures that wait for one socket: the address of memory that the future owns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FutureId(pub(crate) usize);

/// The threads and tasks that wait for a socket.
#[doc(alias = "selinfo")]
#[derive(Debug)]
pub(crate) struct WaiterSet {
    /// The wakers. A side mostly has one, which needs no allocation.
    first: [Option<Waker>; 2],
    /// The keys of these wakers. No future is among them: its key is an address, and larger.
    keys: [u8; 2],
    #[expect(
        clippy::box_collection,
        reason = "16 bytes less in each connection; it is seldom there"
    )]
    others: Option<Box<Vec<ExtraWaker>>>,
}

#[derive(Debug)]
struct ExtraWaker {
    want: Want,
    key: WakerKey,
    waker: Waker,
}

/// How a call waits if its socket is not ready.
#[derive(Clone, Copy)]
pub(crate) enum WaitBy<'a> {
    /// The waker is called once, in addition to all others.
    Once(&'a Waker),
    /// The waker replaces the previous polled one.
    Polled(&'a PollingTask<'a>),
    /// The waker replaces the previous one of the same future.
    Future(FutureId, &'a PollingTask<'a>),
}

/// A task that polls.
pub(crate) struct PollingTask<'a> {
    waker: &'a Waker,
    /// The replaced waker, to be dropped when no lock is held.
    replaced: Cell<Option<Waker>>,
}

impl<'a> PollingTask<'a> {
    /// The task of `cx`.
    pub(crate) fn new(cx: &Context<'a>) -> Self {
        Self {
            waker: cx.waker(),
            replaced: Cell::new(None),
        }
    }
}

/// Wakers to be called.
#[derive(Debug, Default)]
#[must_use = "threads sleep until these are called"]
pub(crate) struct Wakes {
    first: Option<Waker>,
    second: Option<Waker>,
    others: Vec<Waker>,
}

impl WaiterSet {
    /// No waker.
    pub(crate) const fn new() -> Self {
        Self {
            first: [None, None],
            keys: [0; 2],
            others: None,
        }
    }

    /// Sets the kept waker. The previous one comes back, to be dropped when the lock is released.
    #[must_use = "its drop is its owner's code, which runs without a lock"]
    pub(crate) fn keep(&mut self, want: Want, waker: Option<Waker>) -> Option<Waker> {
        match waker {
            Some(waker) => self.replace(want, WakerKey::KEPT, waker),
            None => self.remove(want, WakerKey::KEPT),
        }
    }

    /// Sets the polled waker. The previous one comes back, to be dropped when the lock is released.
    #[must_use = "its drop is its owner's code, which runs without a lock"]
    fn poll(&mut self, want: Want, waker: &Waker) -> Option<Waker> {
        let is_known = self.iter(want).any(|(key, known)| {
            // Mostly the same task polls again.
            key == WakerKey::POLLED && known.will_wake(waker)
        });
        match is_known {
            true => None,
            false => self.replace(want, WakerKey::POLLED, waker.clone()),
        }
    }

    /// Adds a waker that is called once, unless the set has it already.
    pub(crate) fn add(&mut self, want: Want, waker: &Waker) {
        let mut all = self.iter(want);
        if all.any(|(key, known)| key == WakerKey::ONCE && known.will_wake(waker)) {
            return;
        }
        drop(all);
        self.push(want, WakerKey::ONCE, waker.clone());
    }

    /// Adds the waker of a call that waits.
    pub(crate) fn register(&mut self, want: Want, waiting: WaitBy<'_>) {
        match waiting {
            WaitBy::Once(waker) => self.add(want, waker),
            WaitBy::Future(id, task) => {
                if let Some(old) = self.forget(want, id) {
                    task.replaced.set(Some(old));
                }
                self.push(want, WakerKey::of(id), task.waker.clone());
            }
            WaitBy::Polled(task) => {
                if let Some(old) = self.poll(want, task.waker) {
                    task.replaced.set(Some(old));
                }
            }
        }
    }

    /// Removes the waker of a future. It comes back, to be dropped when the lock is released.
    #[must_use = "its drop is its owner's code, which runs without a lock"]
    pub(crate) fn forget(&mut self, want: Want, id: FutureId) -> Option<Waker> {
        self.remove(want, WakerKey::of(id))
    }

    /// Removes all wakers, which the caller drops when the lock is released.
    #[must_use = "their drops are their owners' code, which runs without a lock"]
    pub(crate) fn clear(&mut self) -> Self {
        std::mem::take(self)
    }

    /// Whether a waker waits for `want`.
    #[inline]
    pub(crate) fn has(&self, want: Want) -> bool {
        self.first[want as usize].is_some() || self.iter(want).next().is_some()
    }

    /// Takes the wakers of one side, to be called.
    #[doc(alias = "selwakeup")]
    pub(crate) fn take(&mut self, want: Want) -> Wakes {
        let mut wakes = Wakes::default();
        self.take_into(want, &mut wakes);
        wakes
    }

    /// All wakers, to be called.
    pub(crate) fn take_all(&mut self) -> Wakes {
        let mut wakes = self.take(Want::Read);
        self.take_into(Want::Write, &mut wakes);
        wakes
    }

    /// Adds the wakers of one side to those to be called.
    pub(crate) fn take_into(&mut self, want: Want, wakes: &mut Wakes) {
        let is_kept = self.first_key(want) == WakerKey::KEPT;
        let first = &mut self.first[want as usize];
        if is_kept {
            first.iter().for_each(|waker| wakes.push_ref(waker));
        } else {
            first.take().into_iter().for_each(|waker| wakes.push(waker));
        }
        let Some(others) = &mut self.others else {
            return;
        };
        let kept = |w: &ExtraWaker| w.want == want && w.key == WakerKey::KEPT;
        others
            .iter()
            .filter(|w| kept(w))
            .for_each(|w| wakes.push_ref(&w.waker));
        let called = others.extract_if(.., |w| w.want == want && w.key != WakerKey::KEPT);
        called.for_each(|w| wakes.push(w.waker));
        if others.is_empty() {
            self.others = None;
        }
    }

    fn iter(&self, want: Want) -> impl Iterator<Item = (WakerKey, &Waker)> {
        let key = self.first_key(want);
        let first = self.first[want as usize].iter().map(move |w| (key, w));
        let others = self.others.iter().flat_map(|others| others.iter());
        let others = others.filter(move |w| w.want == want);
        first.chain(others.map(|w| (w.key, &w.waker)))
    }

    fn first_key(&self, want: Want) -> WakerKey {
        WakerKey(self.keys[want as usize].into())
    }

    /// Replaces the waker with this key by `waker`.
    fn replace(&mut self, want: Want, key: WakerKey, waker: Waker) -> Option<Waker> {
        let old = self.remove(want, key);
        self.push(want, key, waker);
        old
    }

    fn push(&mut self, want: Want, key: WakerKey, waker: Waker) {
        let first = &mut self.first[want as usize];
        if let (None, Ok(key)) = (&first, u8::try_from(key.0)) {
            *first = Some(waker);
            self.keys[want as usize] = key;
            return;
        }
        let others = self.others.get_or_insert_default();
        others.push(ExtraWaker { want, key, waker });
    }

    /// Removes the waker with this key.
    fn remove(&mut self, want: Want, key: WakerKey) -> Option<Waker> {
        if self.first_key(want) == key
            && let Some(waker) = self.first[want as usize].take()
        {
            return Some(waker);
        }
        let others = self.others.as_mut()?;
        let at = others.iter().position(|w| w.want == want && w.key == key)?;
        let waker = others.swap_remove(at).waker;
        if others.is_empty() {
            self.others = None;
        }
        Some(waker)
    }
}

impl Default for WaiterSet {
    fn default() -> Self {
        Self::new()
    }
}

impl Wakes {
    /// One waker.
    pub(crate) fn one(waker: Waker) -> Self {
        let first = Some(waker);
        Self {
            first,
            ..Self::default()
        }
    }

    fn push_ref(&mut self, waker: &Waker) {
        if !self.has_first(waker) {
            self.push(waker.clone());
        }
    }

    /// A waker that waits for both sides is added only once.
    fn push(&mut self, waker: Waker) {
        if self.first.is_none() {
            self.first = Some(waker);
        } else if self.has_first(&waker) {
            // Called already.
        } else if self.second.is_none() {
            self.second = Some(waker);
        } else {
            self.others.push(waker);
        }
    }

    fn has_first(&self, waker: &Waker) -> bool {
        self.first.as_ref().is_some_and(|f| f.will_wake(waker))
    }

    /// How many there are.
    #[cfg(all(test, not(shuttle)))]
    pub(crate) fn len(&self) -> usize {
        let one = |waker: &Option<Waker>| usize::from(waker.is_some());
        one(&self.first) + one(&self.second) + self.others.len()
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// Calls them.
    #[doc(alias = "sowakeup")]
    pub(crate) fn wake(self) {
        witness::assert_none("a socket's waker");
        let all = self.first.into_iter().chain(self.second);
        all.chain(self.others).for_each(Waker::wake);
    }
}
