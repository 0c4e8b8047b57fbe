//! The count of `refs.rs` over loom's atomics, with the mistakes that can be planted in it, and
//! storage that it is the count of.
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

use super::word::CountWord;
use super::{Refs, Release};

/// A mistake.
pub(super) trait RefsBug: Send + Sync + 'static {
    /// The look at a count of one acquires nothing.
    const RELAXED_LOOK: bool = false;
    /// Giving back releases nothing.
    const RELAXED_RELEASE: bool = false;
    /// The last one acquires nothing.
    const NO_FENCE: bool = false;
    /// A reference is made by a load and a store.
    const PLAIN_SHARE: bool = false;
    /// A reference is given back by a load and a store.
    const PLAIN_RELEASE: bool = false;
    /// The wish is a word of its own, read before the count.
    const WISH_APART: bool = false;
    /// The wish is put beside the count by a load and a store.
    const PLAIN_WISH: bool = false;
    /// Others' references are not seen: the look says that there is one.
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
    WishApart: WISH_APART;
    PlainWish: PLAIN_WISH;
    Blind: BLIND;
}

/// loom's atomic, with a mistake.
pub(super) struct Modelled<B> {
    word: prim::AtomicU32,
    /// What every operation touches first. loom exchanges an operation with the last one on the
    /// same atomic only, where a thread's own load would hide another's; these it exchanges all.
    /// Relaxed: they order nothing.
    steps: prim::AtomicUsize,
    wish: prim::AtomicU32,
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

    /// The wish, where it is apart.
    fn wish(&self) -> u32 {
        match B::WISH_APART {
            true => self.wish.load(Ordering::Relaxed),
            false => 0,
        }
    }
}

impl<B: RefsBug> CountWord for Modelled<B> {
    fn new(value: u32) -> Self {
        Self {
            word: prim::AtomicU32::new(value),
            steps: prim::AtomicUsize::new(0),
            wish: prim::AtomicU32::new(0),
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
        let wish = self.wish();
        wish | self.word.load(order)
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
        let wish = self.wish();
        let before = match B::PLAIN_RELEASE {
            true => self.in_two_steps(|word| word - n),
            false => self.word.fetch_sub(n, order),
        };
        wish | before
    }

    fn fetch_or(&self, bits: u32, order: Ordering) -> u32 {
        self.point();
        match () {
            () if B::WISH_APART => self.wish.fetch_or(bits, order),
            () if B::PLAIN_WISH => self.in_two_steps(|word| word | bits),
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

/// A reference, as `Ext` is one. It is given back by [`Holder::release`]: a checker that has
/// found something may drop it.
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
            // SAFETY: there is no other reference.
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
            "wiped before it is used again, if that was wished"
        );
    }

    pub(super) fn wish_zeros(&self) {
        self.0.refs.wish_zeros();
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
