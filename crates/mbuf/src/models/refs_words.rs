//! The count of `refs.rs` over loom's atomics, with the mistakes that can be planted in it, and the storage that it
//! counts.
//!
//! The storage is a number in a cell in which loom reports a read beside a write. Its end
//! is a write, since the next owner writes there. The mistakes are in the count's word, below the
//! code that is checked.
//!
//! Locks: none.

use core::marker::PhantomData;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

use kern::prim;
use loom::cell::UnsafeCell;

use crate::refs::word::CountWord;
use crate::refs::{Refs, Release};

/// A mistake.
pub(super) trait RefsBug: Send + Sync + 'static {
    /// The load of a count of 1 is Relaxed, not Acquire.
    const RELAXED_LOOK: bool = false;
    /// The release is Relaxed, not Release.
    const RELAXED_RELEASE: bool = false;
    /// The last release has no Acquire fence.
    const NO_FENCE: bool = false;
    /// A reference is made by a load and a store.
    const PLAIN_SHARE: bool = false;
    /// A reference is given back by a load and a store.
    const PLAIN_RELEASE: bool = false;
    /// The request is a word of its own, read before the count.
    const REQUEST_APART: bool = false;
    /// The request is set in the count's word by a load and a store.
    const PLAIN_REQUEST: bool = false;
    /// The check ignores other references: it always finds a count of one.
    const BLIND: bool = false;
}

/// The names of mistakes, each with its changed operation.
macro_rules! bugs {
    ($($name:ident: $($what:ident)?;)*) => {
        $(pub(super) struct $name;
        impl RefsBug for $name {
            $(const $what: bool = true;)?
        })*
    };
}

bugs! {
    NoBug: ;
    RelaxedLook: RELAXED_LOOK;
    RelaxedRelease: RELAXED_RELEASE;
    NoFence: NO_FENCE;
    PlainShare: PLAIN_SHARE;
    PlainRelease: PLAIN_RELEASE;
    RequestApart: REQUEST_APART;
    PlainRequest: PLAIN_REQUEST;
    Blind: BLIND;
}

/// loom's atomic, with a mistake.
pub(super) struct Modelled<B> {
    word: prim::AtomicU32,
    /// A word that every operation accesses first. loom reorders an operation only with the last one on the same
    /// atomic, so a thread's own load would hide another thread's; with this word it reorders all. Relaxed: the
    /// accesses must add no ordering.
    steps: prim::AtomicUsize,
    request: prim::AtomicU32,
    bug: PhantomData<B>,
}

impl<B: RefsBug> Modelled<B> {
    /// Any other thread may run here.
    fn point(&self) {
        self.steps.fetch_add(1, Ordering::Relaxed);
    }

    fn in_two_steps(&self, how: impl FnOnce(u32) -> u32) -> u32 {
        let before = self.word.load(Ordering::Relaxed);
        self.point();
        self.word.store(how(before), Ordering::Relaxed);
        before
    }

    /// The request, if it has a word of its own.
    fn request(&self) -> u32 {
        match B::REQUEST_APART {
            true => self.request.load(Ordering::Relaxed),
            false => 0,
        }
    }
}

impl<B: RefsBug> CountWord for Modelled<B> {
    fn new(value: u32) -> Self {
        Self {
            word: prim::AtomicU32::new(value),
            steps: prim::AtomicUsize::new(0),
            request: prim::AtomicU32::new(0),
            bug: PhantomData,
        }
    }

    fn load(&self, order: Ordering) -> u32 {
        self.point();
        if B::BLIND {
            return 1;
        }
        let order = if B::RELAXED_LOOK {
            Ordering::Relaxed
        } else {
            order
        };
        let request = self.request();
        request | self.word.load(order)
    }

    fn store(&self, value: u32, order: Ordering) {
        self.point();
        self.word.store(value, order);
    }

    fn fetch_add(&self, n: u32, order: Ordering) -> u32 {
        self.point();
        match B::PLAIN_SHARE {
            true => self.in_two_steps(|word| word + n),
            false => self.word.fetch_add(n, order),
        }
    }

    fn fetch_sub(&self, n: u32, order: Ordering) -> u32 {
        self.point();
        let order = if B::RELAXED_RELEASE {
            Ordering::Relaxed
        } else {
            order
        };
        let request = self.request();
        let before = match B::PLAIN_RELEASE {
            true => self.in_two_steps(|word| word - n),
            false => self.word.fetch_sub(n, order),
        };
        request | before
    }

    fn fetch_or(&self, bits: u32, order: Ordering) -> u32 {
        self.point();
        match () {
            () if B::REQUEST_APART => self.request.fetch_or(bits, order),
            () if B::PLAIN_REQUEST => self.in_two_steps(|word| word | bits),
            () => self.word.fetch_or(bits, order),
        }
    }

    fn fence(&self, order: Ordering) {
        if !B::NO_FENCE {
            prim::fence(order);
        }
    }
}

/// The content of the storage; 0 after it was wiped.
pub(super) const SECRET: u32 = 7;
/// The content that the next owner writes.
const REUSED: u32 = 99;

/// Storage with its count.
pub(super) struct Storage<B> {
    pub(super) refs: Refs<Modelled<B>>,
    bytes: UnsafeCell<u32>,
    pub(super) frees: AtomicUsize,
    wiped: AtomicUsize,
}

// SAFETY: loom reports a read beside a write.
unsafe impl<B> Sync for Storage<B> {}
// SAFETY: as above.
unsafe impl<B> Send for Storage<B> {}

/// A reference, as `Ext` is one. It is given back by [`Holder::release`]: a checker that has found
/// a mistake may drop it.
pub(super) struct Holder<B>(Arc<Storage<B>>);

impl<B: RefsBug> Holder<B> {
    pub(super) fn first() -> Self {
        Self(Arc::new(Storage {
            refs: Refs::one(),
            bytes: UnsafeCell::new(SECRET),
            frees: AtomicUsize::new(0),
            wiped: AtomicUsize::new(0),
        }))
    }

    pub(super) fn share(&self) -> Self {
        self.0.refs.share().expect("there are few");
        Self(self.0.clone())
    }

    pub(super) fn share_mut(&mut self) -> Self {
        self.0.refs.share_sole().expect("there are few");
        Self(self.0.clone())
    }

    pub(super) fn read(&self) -> u32 {
        // SAFETY: there is a reference, and no thread writes while there is another.
        self.0.bytes.with(|bytes| unsafe { *bytes })
    }

    pub(super) fn write_if_alone(&mut self, value: u32) -> bool {
        let alone = self.0.refs.is_unique();
        if alone {
            // SAFETY: no other reference exists.
            self.0.bytes.with_mut(|bytes| unsafe { *bytes = value });
        }
        alone
    }

    pub(super) fn release(self) {
        let Release::Last { zero } = self.0.refs.release() else {
            return;
        };
        assert_eq!(
            self.0.frees.fetch_add(1, Ordering::Relaxed),
            0,
            "freed twice"
        );
        if zero {
            self.0.wiped.fetch_add(1, Ordering::Relaxed);
            // SAFETY: the last reference is gone.
            self.0.bytes.with_mut(|bytes| unsafe { *bytes = 0 });
        }
        // SAFETY: as above; this is the next owner.
        let left = self
            .0
            .bytes
            .with_mut(|bytes| unsafe { bytes.replace(REUSED) });
        assert_eq!(
            left == 0,
            zero,
            "wiped before it is used again, if that was requested"
        );
    }

    pub(super) fn request_zeros(&self) {
        self.0.refs.request_zeros();
    }

    /// The storage, to be checked when all threads are done.
    pub(super) fn watch(&self) -> Arc<Storage<B>> {
        self.0.clone()
    }
}

impl<B> Storage<B> {
    pub(super) fn assert_freed(&self, wiped: bool) {
        assert_eq!(self.frees.load(Ordering::Relaxed), 1, "freed once");
        assert_eq!(
            self.wiped.load(Ordering::Relaxed),
            usize::from(wiped),
            "wiped"
        );
    }
}
