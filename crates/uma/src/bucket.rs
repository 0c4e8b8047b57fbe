//! A bucket: a bounded stack of free items, the unit in which items travel between the layers.
//!
//! ```text
//!   0        8     12     16     24      32
//!   +--------+-----+------+------+-------+----------+----------+-- ... --+
//!   | word   | cap | room | next | spare | entry 0  | entry 1  |         |   room entries
//!   +--------+-----+------+------+-------+----------+----------+-- ... --+
//!    63 .. 16: items popped so far                     ^ the top is entry (items inside - 1)
//!    15 ..  0: items inside
//! ```
//!
//! The word is what makes a bucket good for a critical section that may be cut short anywhere: an
//! item is pushed by writing an entry that nobody looks at and then adding 1 to the word, popped
//! by reading an entry and then adding 2^16 - 1 to it. One store commits the operation and counts
//! it, so that the statistics of a zone (requests: the sum of the upper parts) cost nothing.
//! The upper part wraps after 2^48 pops; only differences and sums modulo that mean something.
//!
//! `spare` is always null. An empty bucket's top entry is there, one before the first: whoever
//! compares an item with the top entry needs no branch for the empty bucket.
//!
//! Called by: `percpu.rs` and its sections, `depot.rs`, the allocation and free paths.
//! Calls: the heap.
//!
//! Invariants: items <= room <= 65,535, and cap <= room. A bucket has one owner at a time: the
//! holder of an [`Owned`], or a slot of `percpu.rs`, whose sections then are the owner. Others may
//! only [`peek`] at the word. The [sentinel](Bucket::sentinel) is never written and never freed.
//! Locks: none.
//!
//! Every pointer into a bucket is made from the allocation's, never from a reference to the
//! header, which would not be allowed to reach the entries.

use core::mem::{MaybeUninit, offset_of};
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::alloc::Layout;

/// What a pushed item adds to the word.
pub(crate) const PUSHED: u64 = 1;
/// What a popped item adds to the word: one item less below, one pop more above.
pub(crate) const POPPED: u64 = (1 << LEN_BITS) - 1;
/// The low bits of the word, which say how many items are inside.
pub(crate) const LEN_BITS: u32 = 16;
const LEN_MASK: u64 = (1 << LEN_BITS) - 1;

/// The most entries that a bucket can have.
pub(crate) const ROOM_MAX: usize = LEN_MASK as usize;

/// The head of a bucket; the entries follow it in the same allocation.
#[repr(C, align(64))]
pub(crate) struct Bucket {
    /// Items inside, and pops so far. Written by the owner, read by statistics. Relaxed: it is
    /// handed from owner to owner by locks, fences, or by being on the same CPU.
    word: AtomicU64,
    /// How many items it may hold now. Written by an [`Owned`] only.
    cap: AtomicU32,
    /// How many entries there are; never changes.
    room: u32,
    /// The next one in a list of buckets, for whoever owns the list.
    next: *mut Bucket,
    /// Always null: what lies below the first entry.
    spare: AtomicPtr<u8>,
    entries: [AtomicPtr<u8>; 0],
}

/// Where the sections find things.
pub(crate) const CAP: usize = offset_of!(Bucket, cap);
pub(crate) const ENTRIES: usize = offset_of!(Bucket, entries);
/// The entry below the first one: added to 8 times the items inside, the top entry.
pub(crate) const BELOW: usize = offset_of!(Bucket, spare);

const _: () = assert!(offset_of!(Bucket, word) == 0);
const _: () = assert!(CAP == 8);
const _: () = assert!(offset_of!(Bucket, room) == 12);
const _: () = assert!(offset_of!(Bucket, next) == 16);
const _: () = assert!(BELOW + size_of::<*mut u8>() == ENTRIES);
const _: () = assert!(ENTRIES == 32);
const _: () = assert!(size_of::<Bucket>() == 64);

/// A static that is never written, so that all threads may point to it.
struct Sentinel(Bucket);

// SAFETY: its plain fields (`room`, `next`) are never written, and the others are atomics.
unsafe impl Sync for Sentinel {}

static SENTINEL: Sentinel = Sentinel(Bucket::empty(0, 0));

impl Bucket {
    const fn empty(room: u32, cap: u32) -> Self {
        Self {
            word: AtomicU64::new(0),
            cap: AtomicU32::new(cap),
            room,
            next: ptr::null_mut(),
            spare: AtomicPtr::new(ptr::null_mut()),
            entries: [],
        }
    }

    /// The bucket that stands for none: empty and full at once, nothing to take, no room to put.
    pub(crate) fn sentinel() -> NonNull<Self> {
        NonNull::from(&SENTINEL.0)
    }

    /// Where its memory comes from: never less than the head's size, so that a reference to a
    /// head covers nothing that is not the bucket's.
    fn layout(room: usize) -> Layout {
        Layout::from_size_align(ENTRIES + room * size_of::<*mut u8>(), align_of::<Self>())
            .expect("at most 65,535 entries")
            .pad_to_align()
    }

    /// # Safety
    ///
    /// `bucket` must point to a bucket that is not freed meanwhile.
    #[inline]
    unsafe fn word<'a>(bucket: NonNull<Self>) -> &'a AtomicU64 {
        // SAFETY: the bucket is alive, says the caller; the word is an atomic of its own.
        unsafe { &(*bucket.as_ptr()).word }
    }

    /// # Safety
    ///
    /// `bucket` must point to a bucket that is not freed meanwhile.
    #[inline]
    unsafe fn cap<'a>(bucket: NonNull<Self>) -> &'a AtomicU32 {
        // SAFETY: the bucket is alive, says the caller; the capacity is an atomic of its own.
        unsafe { &(*bucket.as_ptr()).cap }
    }

    /// The entry at `index`; -1 is the one below the first.
    ///
    /// # Safety
    ///
    /// `bucket` must be alive, and `index` from -1 to below its room.
    #[inline]
    unsafe fn entry<'a>(bucket: NonNull<Self>, index: isize) -> &'a AtomicPtr<u8> {
        let below = BELOW.wrapping_add_signed((index + 1) * size_of::<*mut u8>() as isize);
        // SAFETY: the head and all entries are one allocation, and the index is within.
        let at = unsafe { bucket.byte_add(below) }.cast::<AtomicPtr<u8>>();
        // SAFETY: it was initialised when the bucket was made, and is only accessed as an atomic.
        unsafe { at.as_ref() }
    }

    /// Takes the top item out and counts a pop. This and the next are what the sections do, for
    /// an owner who cannot be interrupted.
    ///
    /// # Safety
    ///
    /// `bucket` must be alive, and the caller its owner.
    #[inline]
    pub(crate) unsafe fn pop(bucket: NonNull<Self>) -> Option<NonNull<u8>> {
        // SAFETY: alive, says the caller.
        let word = unsafe { Self::word(bucket) };
        let now = word.load(Relaxed);
        let len = (now & LEN_MASK) as isize;
        if len == 0 {
            return None;
        }
        // SAFETY: alive, and the items inside are at most its room.
        let item = unsafe { Self::entry(bucket, len - 1) }.load(Relaxed);
        word.store(now.wrapping_add(POPPED), Relaxed);
        NonNull::new(item)
    }

    /// Puts an item on top, if there is room and it is not the one that lies there already.
    ///
    /// # Safety
    ///
    /// `bucket` must be alive, and the caller its owner.
    #[inline]
    pub(crate) unsafe fn push(bucket: NonNull<Self>, item: NonNull<u8>) -> Pushed {
        // SAFETY: alive, says the caller.
        let word = unsafe { Self::word(bucket) };
        // SAFETY: alive, says the caller.
        let cap = unsafe { Self::cap(bucket) }.load(Relaxed);
        let now = word.load(Relaxed);
        let len = now & LEN_MASK;
        if len >= u64::from(cap) {
            return Pushed::Full;
        }
        // SAFETY: alive, and len - 1 is from -1 to below its room.
        let top = unsafe { Self::entry(bucket, len as isize - 1) }.load(Relaxed);
        if top == item.as_ptr() {
            return Pushed::Twice;
        }
        // SAFETY: alive, and len is below cap, which is at most its room.
        unsafe { Self::entry(bucket, len as isize) }.store(item.as_ptr(), Relaxed);
        word.store(now.wrapping_add(PUSHED), Relaxed);
        Pushed::Done
    }

    /// Takes up to as many items as `out` has places, and counts the pops; how many. They come
    /// as they lie, the top one last.
    ///
    /// # Safety
    ///
    /// `bucket` must be alive, and the caller its owner.
    pub(crate) unsafe fn pop_bulk(
        bucket: NonNull<Self>,
        out: &mut [MaybeUninit<NonNull<u8>>],
    ) -> usize {
        // SAFETY: alive, says the caller.
        let (len, _) = unsafe { peek(bucket) };
        let count = len.min(out.len());
        for place in out[..count].iter_mut().rev() {
            // SAFETY: as the caller says.
            let item = unsafe { Self::pop(bucket) };
            place.write(item.expect("there are as many"));
        }
        count
    }

    /// Whether nothing more may be put in.
    ///
    /// # Safety
    ///
    /// `bucket` must be alive.
    pub(crate) unsafe fn is_full(bucket: NonNull<Self>) -> bool {
        // SAFETY: alive, says the caller.
        let (len, _) = unsafe { peek(bucket) };
        // SAFETY: alive, says the caller.
        len >= unsafe { Self::cap(bucket) }.load(Relaxed) as usize
    }
}

/// What became of an item that was to be pushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Pushed {
    /// It is in.
    Done,
    /// It is not: there is no room for it, or nobody could look.
    Full,
    /// It is not, for it lies on top already: it was freed twice.
    Twice,
}

/// How many items are in a bucket and how many were popped from it so far (modulo 2^48), for
/// anyone who has a pointer to it. The owner may be changing it.
///
/// # Safety
///
/// `bucket` must not be freed meanwhile.
pub(crate) unsafe fn peek(bucket: NonNull<Bucket>) -> (usize, u64) {
    // SAFETY: the caller says that it is alive.
    let word = unsafe { Bucket::word(bucket) }.load(Relaxed);
    ((word & LEN_MASK) as usize, word >> LEN_BITS)
}

/// A bucket that the holder owns, with its items. Never the sentinel.
///
/// It does not free itself: its items must first have a place to go, and only the holder knows
/// which. Debug builds panic where one is dropped.
#[derive(Debug)]
#[must_use = "a bucket that is dropped is leaked, with its items"]
#[repr(transparent)]
pub(crate) struct Owned(NonNull<Bucket>);

// SAFETY: the holder owns the bucket and the items whose pointers are in it; nothing in either is
// tied to a thread.
unsafe impl Send for Owned {}

impl Owned {
    /// An empty bucket with `room` entries that may hold `cap` items for now, or nothing when the
    /// heap has no room for it.
    pub(crate) fn alloc(room: usize, cap: usize) -> Option<Self> {
        assert!(cap <= room && room <= ROOM_MAX);
        // SAFETY: the layout's size is not 0: it has the head in it.
        let raw = unsafe { std::alloc::alloc_zeroed(Bucket::layout(room)) };
        // All zeroes is what entries (null pointers) begin as.
        let bucket = NonNull::new(raw)?.cast::<Bucket>();
        // SAFETY: freshly allocated by the layout, which has a bucket's alignment and size.
        unsafe { bucket.write(Bucket::empty(room as u32, cap as u32)) };
        Some(Self(bucket))
    }

    /// Gives the memory back. There must be no items inside.
    pub(crate) fn free(self) {
        debug_assert!(self.is_empty(), "items would leak");
        let layout = Bucket::layout(self.room());
        // SAFETY: allocated by `alloc` with the layout of this room, and owned.
        unsafe { std::alloc::dealloc(self.into_ptr().as_ptr().cast(), layout) };
    }

    /// Gives ownership away, to a slot or a list.
    #[inline]
    pub(crate) fn into_ptr(self) -> NonNull<Bucket> {
        let bucket = self.0;
        core::mem::forget(self);
        bucket
    }

    /// Takes ownership back.
    ///
    /// # Safety
    ///
    /// `bucket` must come from [`into_ptr`](Self::into_ptr), and nobody else may own it.
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
        (bucket != Bucket::sentinel()).then(|| Self(bucket))
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

    /// Whether nothing is inside.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether nothing more fits.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.len() >= self.cap()
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

    /// Takes the top item back to where it came from, which no statistic counts.
    #[inline]
    pub(crate) fn take_uncounted(&mut self) -> Option<NonNull<u8>> {
        let mut taken = None;
        self.drain(1, |item| taken = Some(item));
        taken
    }

    /// Takes up to `n` items from the top, uncounted, and gives each to `each`.
    pub(crate) fn drain(&mut self, n: usize, mut each: impl FnMut(NonNull<u8>)) {
        for _ in 0..n.min(self.len()) {
            let item = *self.items().last().expect("there are n items");
            self.word().store(self.word().load(Relaxed) - 1, Relaxed);
            each(item);
        }
    }

    /// Puts an item on top; says whether there was room.
    #[inline]
    #[must_use]
    pub(crate) fn push(&mut self, item: NonNull<u8>) -> bool {
        // SAFETY: owned.
        let pushed = unsafe { Bucket::push(self.0, item) };
        debug_assert_ne!(pushed, Pushed::Twice, "{item:?} is in the bucket already");
        pushed == Pushed::Done
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

    /// Which bucket this is, for lists that only name buckets.
    pub(crate) fn name(&self) -> NonNull<Bucket> {
        self.0
    }

    /// The items inside, the top one last.
    pub(crate) fn items(&self) -> &[NonNull<u8>] {
        // SAFETY: the entries below the top are items, which are not null, and nobody writes them
        // while the owner lends them out.
        unsafe { core::slice::from_raw_parts(self.entries().as_ptr(), self.len()) }
    }

    /// The next bucket of the list that this one was put into.
    pub(crate) fn next(&self) -> Option<NonNull<Bucket>> {
        // SAFETY: owned, so alive, and only the owner accesses this field.
        NonNull::new(unsafe { (*self.0.as_ptr()).next })
    }

    /// Puts this bucket before `next` in a list.
    pub(crate) fn set_next(&mut self, next: Option<NonNull<Bucket>>) {
        let next = next.map_or(ptr::null_mut(), NonNull::as_ptr);
        // SAFETY: owned, so alive, and only the owner accesses this field.
        unsafe { (*self.0.as_ptr()).next = next };
    }

    fn entries(&self) -> NonNull<NonNull<u8>> {
        // SAFETY: the entries are in the same allocation, after the head.
        unsafe { self.0.byte_add(ENTRIES).cast() }
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
