//! The wakers for one side of a socket that becomes ready: one that stays, and any number that are
//! called once.
//!
//! Called by: whatever sockets wait for, under its lock. Calls: nothing; what is to
//! be called is handed out as [`Wakes`] and called when no lock is held.
//!
//! Invariant: a waker is added under the same lock, and after the same check, that found the socket not
//! ready; so the thread that makes it ready later finds the waker. Locks: its owner's.

use std::task::Waker;

use kern::witness;

/// The threads that wait for one side of a socket.
#[doc(alias = "selinfo")]
#[derive(Debug, Default)]
pub(crate) struct Wakers {
    /// Stays until it is replaced.
    kept: Option<Waker>,
    /// Called once. One waits mostly, so the first needs no allocation.
    first: Option<Waker>,
    #[expect(
        clippy::box_collection,
        reason = "16 bytes less in each connection; it is seldom there"
    )]
    others: Option<Box<Vec<Waker>>>,
}

/// Wakers to be called.
#[derive(Debug, Default)]
#[must_use = "somebody sleeps until these are called"]
pub(crate) struct Wakes(Wakers);

impl Wakers {
    /// No waker.
    pub(crate) const fn new() -> Self {
        Self {
            kept: None,
            first: None,
            others: None,
        }
    }

    /// Sets the waker that stays. The one before it comes back: its drop is its owner's code, which
    /// runs when the lock is released.
    #[must_use]
    pub(crate) fn keep(&mut self, waker: Option<Waker>) -> Option<Waker> {
        std::mem::replace(&mut self.kept, waker)
    }

    /// All wakers, not to be called any more but dropped, when the lock is released.
    #[must_use]
    pub(crate) fn clear(&mut self) -> Self {
        std::mem::take(self)
    }

    /// Adds one that is called once, unless it is there already.
    pub(crate) fn add(&mut self, waker: &Waker) {
        let known = self
            .first
            .iter()
            .chain(self.others.iter().flat_map(|o| o.iter()));
        if known.into_iter().any(|w| w.will_wake(waker)) {
            return;
        }
        match self.first {
            None => self.first = Some(waker.clone()),
            Some(_) => self.others.get_or_insert_default().push(waker.clone()),
        }
    }

    /// Whether there is a waker.
    pub(crate) fn any(&self) -> bool {
        self.kept.is_some() || self.first.is_some()
    }

    /// All wakers, to be called.
    #[doc(alias = "selwakeup")]
    pub(crate) fn take(&mut self) -> Wakes {
        Wakes(Self {
            kept: self.kept.clone(),
            first: self.first.take(),
            others: self.others.take(),
        })
    }
}

impl Wakes {
    /// One waker.
    pub(crate) fn one(waker: Waker) -> Self {
        Self(Wakers {
            kept: None,
            first: Some(waker),
            others: None,
        })
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        let one = |waker: &Option<Waker>| usize::from(waker.is_some());
        one(&self.0.kept) + one(&self.0.first) + self.0.others.as_ref().map_or(0, |o| o.len())
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Calls them.
    #[doc(alias = "sowakeup")]
    pub(crate) fn wake(self) {
        let Wakers {
            kept,
            first,
            others,
        } = self.0;
        witness::assert_none("a socket's waker");
        let others = others.into_iter().flat_map(|others| *others);
        let all = kept.into_iter().chain(first).chain(others);
        all.for_each(Waker::wake);
    }
}
