//! A bucket that one thread owns.
//!
//! Invariant: it is never the [sentinel](Bucket::sentinel), and no slot points to it.
//! Locks: none.

use super::{Bucket, ENTRIES, LEN_BITS, LEN_MASK, PUSHED, PushOutcome, ROOM_MAX};
use crate::cacheline;
use core::mem::{ManuallyDrop, MaybeUninit};
use core::ptr::NonNull;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

/// A bucket that the holder owns, with its items. Never the sentinel.
///
/// Its drop does not free it: the holder must first move the items elsewhere. In debug builds the drop of a bucket with
/// items panics.
#[derive(Debug)]
#[must_use = "a bucket that is dropped is leaked, with its items"]
#[repr(transparent)]
pub(crate) struct Owned(NonNull<Bucket>);

// SAFETY: the holder owns the bucket and the items whose pointers are in it; neither depends on its
// thread.
unsafe impl Send for Owned {}

impl Owned {
    /// An empty bucket with `room` entries that may hold `cap` items for now; `None` if the heap
    /// has no memory.
    pub(crate) fn alloc(room: usize, cap: usize) -> Option<Self> {
        assert!(cap <= room && room <= ROOM_MAX);
        // SAFETY: the layout's size is not 0: it has the head in it.
        let raw = unsafe { std::alloc::alloc_zeroed(Bucket::layout(room)) };
        // All zeros is the first value of entries (null pointers).
        let bucket = NonNull::new(raw)?.cast::<Bucket>();
        // SAFETY: freshly allocated by the layout, which has a bucket's alignment and size.
        unsafe { bucket.write(Bucket::empty(room as u32, cap as u32)) };
        Some(Self(bucket))
    }

    /// Frees the memory. The bucket must be empty.
    pub(crate) fn free(self) {
        debug_assert!(self.is_empty(), "items would leak");
        let layout = Bucket::layout(self.room());
        // SAFETY: allocated by `alloc` with the layout of this room, and owned.
        unsafe { crate::life::dealloc(self.into_ptr().as_ptr().cast(), layout) };
    }

    /// Gives ownership away, to a slot or a list.
    #[inline]
    pub(crate) fn into_ptr(self) -> NonNull<Bucket> {
        ManuallyDrop::new(self).0
    }

    /// Takes ownership back.
    ///
    /// # Safety
    ///
    /// `bucket` must come from [`into_ptr`](Self::into_ptr), and must have no other owner.
    #[inline]
    pub(crate) unsafe fn from_ptr(bucket: NonNull<Bucket>) -> Self {
        debug_assert_ne!(bucket, Bucket::sentinel());
        Self(bucket)
    }

    /// As [`from_ptr`](Self::from_ptr), where the pointer may be the sentinel, which is no bucket.
    ///
    /// # Safety
    ///
    /// If it is not the sentinel: as for [`from_ptr`](Self::from_ptr).
    pub(crate) unsafe fn from_slot(bucket: NonNull<Bucket>) -> Option<Self> {
        if bucket == Bucket::sentinel() {
            return None;
        }
        Some(Self(bucket))
    }

    /// The pointer to put into a slot: the sentinel stands for none.
    pub(crate) fn into_slot(bucket: Option<Self>) -> NonNull<Bucket> {
        bucket.map_or_else(Bucket::sentinel, Self::into_ptr)
    }

    #[inline]
    fn word(&self) -> &AtomicU64 {
        // SAFETY: owned, so alive.
        unsafe { Bucket::word(self.0) }
    }

    /// Entries it has.
    pub(crate) fn room(&self) -> usize {
        // SAFETY: owned, so alive, and the room never changes.
        unsafe { (*self.0.as_ptr()).room as usize }
    }

    /// Items inside.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        (self.word().load(Relaxed) & LEN_MASK) as usize
    }

    /// How many items it may hold now.
    #[inline]
    pub(crate) fn cap(&self) -> usize {
        // SAFETY: owned, so alive.
        unsafe { Bucket::cap(self.0) }.load(Relaxed) as usize
    }

    /// Lets it hold `cap` items, or as many as it has entries. Those already inside stay.
    pub(crate) fn set_cap(&mut self, cap: usize) {
        let cap = cap.min(self.room()) as u32;
        // SAFETY: owned, so alive.
        unsafe { Bucket::cap(self.0) }.store(cap, Relaxed);
    }

    /// Whether the bucket is empty.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many items were popped so far, modulo 2^48.
    #[inline]
    pub(crate) fn popped(&self) -> u64 {
        self.word().load(Relaxed) >> LEN_BITS
    }

    /// Takes the top item for a caller of the allocator, and counts that.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<NonNull<u8>> {
        // SAFETY: owned.
        unsafe { Bucket::pop(self.0) }
    }

    /// Puts an item on top, unless there is no room, or it lies there already: see [`PushOutcome`].
    #[inline]
    pub(crate) fn push(&mut self, item: NonNull<u8>) -> PushOutcome {
        // SAFETY: owned.
        unsafe { Bucket::push(self.0, item) }
    }

    /// The entries above the top, up to the capacity, to be filled from slabs; then
    /// [`added`](Self::added) says how many were.
    pub(crate) fn spare(&mut self) -> &mut [MaybeUninit<NonNull<u8>>] {
        let len = self.len();
        let spare = self.cap().saturating_sub(len);
        // SAFETY: len <= room, so this is within the entries, or at their end.
        let first = unsafe { self.entries().add(len) };
        // SAFETY: len + spare <= room, so this many entries follow; the owner alone uses them,
        // and any bits are a MaybeUninit of the pointer's size.
        unsafe { core::slice::from_raw_parts_mut(first.cast().as_ptr(), spare) }
    }

    /// The first `n` entries of [`spare`](Self::spare) were filled with free items.
    ///
    /// # Safety
    ///
    /// They were, and `n` is at most its length.
    pub(crate) unsafe fn added(&mut self, n: usize) {
        debug_assert!(self.len() + n <= self.cap());
        let word = self.word();
        word.store(word.load(Relaxed) + n as u64 * PUSHED, Relaxed);
    }

    /// Forgets the items above the first `len`, uncounted: their new owner has them.
    pub(crate) fn truncate(&mut self, len: usize) {
        let gone = self.len().saturating_sub(len) as u64;
        self.word()
            .store(self.word().load(Relaxed) - gone * PUSHED, Relaxed);
    }

    /// Takes the items of another bucket, uncounted, as far as there is room.
    pub(crate) fn pour(&mut self, from: &mut Self) {
        let spare = self.spare();
        let n = from.len().min(spare.len());
        let rest = from.len() - n;
        for (to, &item) in spare.iter_mut().zip(&from.items()[rest..]) {
            to.write(item);
        }
        // SAFETY: the first n spare entries were just filled with free items.
        unsafe { self.added(n) };
        from.truncate(rest);
    }

    /// Which bucket this is, for lists that only name buckets.
    pub(crate) fn name(&self) -> NonNull<Bucket> {
        self.0
    }

    /// The bucket's index in the depot's list, from [`set_place`](Self::set_place).
    pub(crate) fn place(&self) -> usize {
        // SAFETY: owned, so alive; only a thread that has locked the depot reads or writes its place.
        unsafe { Self::place_of(self.0) }
    }

    /// As [`place`](Self::place), of the bucket of this name.
    ///
    /// # Safety
    ///
    /// It must be alive, and the lock of its depot held.
    pub(crate) unsafe fn place_of(name: NonNull<Bucket>) -> usize {
        // SAFETY: alive; the caller promises that no thread writes it without the lock.
        unsafe { (*name.as_ptr()).place }
    }

    /// Records the bucket's index in the depot's list.
    ///
    /// # Safety
    ///
    /// It must be alive, and the lock of its depot held.
    pub(crate) unsafe fn set_place(name: NonNull<Bucket>, place: usize) {
        // SAFETY: alive; the caller promises that no other thread reads it without the lock.
        unsafe { (*name.as_ptr()).place = place };
    }

    /// The items inside, the top one last.
    pub(crate) fn items(&self) -> &[NonNull<u8>] {
        // SAFETY: the entries below the top are items, which are not null; no thread writes them
        // while the owner lends them out.
        unsafe { core::slice::from_raw_parts(self.entries().as_ptr(), self.len()) }
    }

    /// Prefetches lines that another CPU may have written: those of the items' pointers, to be read, and the first line
    /// of each item, to be written. All at once, because pops and stores into items would wait for one line after the
    /// other: a processor's store buffer is short.
    pub(crate) fn prefetch(&self) {
        #[cfg(target_arch = "x86_64")]
        for line in self.items().chunks(64 / size_of::<NonNull<u8>>()) {
            use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            // SAFETY: a prefetch is a hint, and may have any address; this one is the bucket's.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) };
        }
        // The top ones are popped first.
        self.items()
            .iter()
            .rev()
            .copied()
            .for_each(cacheline::fetch_to_write);
    }

    fn entries(&self) -> NonNull<NonNull<u8>> {
        // SAFETY: the entries are in the same allocation, after the head.
        unsafe { self.0.byte_add(ENTRIES).cast() }
    }
}

/// Operations for tests.
#[cfg(test)]
impl Owned {
    /// Whether the bucket is full.
    #[cfg(not(any(loom, shuttle)))]
    pub(crate) fn is_full(&self) -> bool {
        self.len() >= self.cap()
    }

    /// Takes the top item out, which no statistic counts.
    #[cfg(not(shuttle))]
    pub(crate) fn take_uncounted(&mut self) -> Option<NonNull<u8>> {
        let item = *self.items().last()?;
        self.truncate(self.len() - 1);
        Some(item)
    }

    /// Takes up to `n` items from the top, uncounted, and calls `each` with each.
    #[cfg(not(any(loom, shuttle)))]
    pub(crate) fn drain(&mut self, n: usize, mut each: impl FnMut(NonNull<u8>)) {
        (0..n)
            .map_while(|_| self.take_uncounted())
            .for_each(&mut each);
    }
}

#[cfg(debug_assertions)]
impl Drop for Owned {
    fn drop(&mut self) {
        assert!(
            std::thread::panicking(),
            "a bucket with {} items was dropped",
            self.len()
        );
    }
}
