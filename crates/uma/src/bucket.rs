//! A bucket: a bounded stack of free items, the unit in which items travel between the layers.
//!
//! ```text
//!   0        8     12     16     24     32      40      48
//!   +--------+-----+------+------+------+-------+-------+---------+---------+-- ... --+
//!   | word   | cap | room | next | prev | place | spare | entry 0 | entry 1 |         |   room entries
//!   +--------+-----+------+------+------+-------+-------+---------+---------+-- ... --+
//!    63 .. 16: items popped so far                        ^ the top is entry (items inside - 1)
//!    15 ..  0: items inside
//! ```
//!
//! The word makes a bucket fit for a critical section that may be interrupted anywhere: a push writes an entry above
//! the top, which is not read yet, and then adds 1 to the word; a pop reads the top entry and then adds 2^16 - 1 to
//! the word. That one store commits the operation and also counts it, so the statistics of a zone (requests: the sum
//! of the upper parts) take no instruction of their own. The upper part wraps after 2^48 pops; only differences and
//! sums modulo 2^48 are meaningful.
//!
//! `spare` is always null. It is the top entry of an empty bucket, one before the first: code that
//! compares an item with the top entry needs no branch for the empty bucket. The first real entry is
//! aligned to 16 bytes, because bulk operations copy in such pieces.
//!
//! Invariants: items <= room <= 65,535, and cap <= room. A bucket has one owner at a time: the
//! holder of an [`Owned`], or a slot of `percpu.rs`, whose sections then are the owner. Others may
//! only [`peek`] at the word. The [sentinel](Bucket::sentinel) is never written and never freed.
//! Locks: none.
//!
//! Every pointer into a bucket is derived from the allocation's pointer, never from a reference to the header: that may
//! not access the entries.

use core::mem::offset_of;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::alloc::Layout;

pub(crate) use list::{BucketList, BucketStack};
pub(crate) use owned::Owned;

#[cfg(feature = "extras")]
mod bulk;
mod list;
mod owned;

/// Added to the word by a push.
pub(crate) const PUSHED: u64 = 1;
/// Added to the word by a pop: one item less below, one pop more above.
pub(crate) const POPPED: u64 = (1 << LEN_BITS) - 1;
/// The low bits of the word, which say how many items are inside.
pub(crate) const LEN_BITS: u32 = 16;
const LEN_MASK: u64 = (1 << LEN_BITS) - 1;

/// The most entries that a bucket can have.
pub(crate) const ROOM_MAX: usize = LEN_MASK as usize;

/// The head of a bucket; the entries follow it in the same allocation.
#[repr(C, align(64))]
pub(crate) struct Bucket {
    /// Items inside, and pops so far. Written by the owner, read by statistics. Relaxed: locks,
    /// fences, or program order on one CPU order the accesses of one owner before those of the
    /// next.
    word: AtomicU64,
    /// How many items it may hold now. Written by an [`Owned`] only.
    cap: AtomicU32,
    /// How many entries there are; never changes.
    room: u32,
    /// The neighbours, while it waits in a list of the depot (`list.rs`).
    next: Option<NonNull<Self>>,
    prev: Option<NonNull<Self>>,
    /// The bucket's index in the depot's list of all buckets. Only the depot uses it.
    place: usize,
    /// Always null: the entry below the first one.
    spare: AtomicPtr<u8>,
    entries: [AtomicPtr<u8>; 0],
}

/// Offsets that the sections use.
pub(crate) const CAP: usize = offset_of!(Bucket, cap);
pub(crate) const ENTRIES: usize = offset_of!(Bucket, entries);
/// The entry below the first one: added to 8 times the items inside, the top entry.
pub(crate) const BELOW: usize = ENTRIES - size_of::<*mut u8>();

const _: () = assert!(offset_of!(Bucket, word) == 0);
const _: () = assert!(CAP == 8);
const _: () = assert!(offset_of!(Bucket, room) == 12);
const _: () = assert!(offset_of!(Bucket, spare) == BELOW);
const _: () = assert!(ENTRIES == 48);
const _: () = assert!(size_of::<Bucket>() == 64);

/// A static that is never written, so that all threads may point to it.
struct Sentinel(Bucket);

// SAFETY: its plain fields are never written (it is in no list), and the others are atomics.
unsafe impl Sync for Sentinel {}

static SENTINEL: Sentinel = Sentinel(Bucket::empty(0, 0));

impl Bucket {
    const fn empty(room: u32, cap: u32) -> Self {
        Self {
            word: AtomicU64::new(0),
            cap: AtomicU32::new(cap),
            room,
            next: None,
            prev: None,
            place: 0,
            spare: AtomicPtr::new(ptr::null_mut()),
            entries: [],
        }
    }

    /// The bucket that stands for none. It is both empty and full: pops and pushes fail.
    pub(crate) fn sentinel() -> NonNull<Self> {
        NonNull::from(&SENTINEL.0)
    }

    /// The layout of its memory: at least the head's size, so that a reference to a head covers only memory of the
    /// bucket.
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

    /// The word, and the top item if there is one: read by a pop.
    ///
    /// # Safety
    ///
    /// `bucket` must be alive.
    #[inline]
    pub(crate) unsafe fn top(bucket: NonNull<Self>) -> Option<(u64, NonNull<u8>)> {
        // SAFETY: alive, says the caller.
        let word = unsafe { Self::word(bucket) }.load(Relaxed);
        let len = (word & LEN_MASK) as isize;
        // SAFETY: alive, and len - 1 is from -1, where null is, to below its room.
        let item = unsafe { Self::entry(bucket, len - 1) }.load(Relaxed);
        Some((word, NonNull::new(item)?))
    }

    /// The word, if there is room for `item` and it is not on top already: read by a push.
    ///
    /// # Safety
    ///
    /// `bucket` must be alive.
    #[inline]
    pub(crate) unsafe fn room_for(
        bucket: NonNull<Self>,
        item: NonNull<u8>,
    ) -> Result<u64, PushOutcome> {
        // SAFETY: alive, says the caller.
        let cap = unsafe { Self::cap(bucket) }.load(Relaxed);
        // SAFETY: alive, says the caller.
        let word = unsafe { Self::word(bucket) }.load(Relaxed);
        let len = word & LEN_MASK;
        // SAFETY: alive, and len - 1 is from -1 to below its room.
        let top = unsafe { Self::entry(bucket, len as isize - 1) }.load(Relaxed);
        // This check comes first: otherwise a second free of the item that filled the bucket would not be noticed.
        if top == item.as_ptr() {
            return Err(PushOutcome::Twice);
        }
        if len >= u64::from(cap) {
            return Err(PushOutcome::Full);
        }
        Ok(word)
    }

    /// Writes the entry that is the top one when the word is increased, not before.
    ///
    /// # Safety
    ///
    /// `bucket` must be alive, the caller its owner, and `word` one that has room.
    #[inline]
    pub(crate) unsafe fn place(bucket: NonNull<Self>, word: u64, item: NonNull<u8>) {
        // SAFETY: alive, and the length in the word is below its room.
        unsafe { Self::entry(bucket, (word & LEN_MASK) as isize) }.store(item.as_ptr(), Relaxed);
    }

    /// Writes the word, which commits every operation.
    ///
    /// # Safety
    ///
    /// `bucket` must be alive, the caller its owner, and the entries up to the length in the word
    /// items.
    #[inline]
    pub(crate) unsafe fn commit(bucket: NonNull<Self>, word: u64) {
        // SAFETY: alive, says the caller.
        unsafe { Self::word(bucket) }.store(word, Relaxed);
    }

    /// Takes the top item out and counts a pop. This and the next function do the work of the sections, for an owner
    /// that can't be interrupted.
    ///
    /// # Safety
    ///
    /// `bucket` must be alive, and the caller its owner.
    #[inline]
    pub(crate) unsafe fn pop(bucket: NonNull<Self>) -> Option<NonNull<u8>> {
        // SAFETY: alive, says the caller.
        let (word, item) = unsafe { Self::top(bucket) }?;
        // SAFETY: owned, says the caller, and one item less is inside.
        unsafe { Self::commit(bucket, word.wrapping_add(POPPED)) };
        Some(item)
    }

    /// Puts an item on top, if there is room and the top is not this item already.
    ///
    /// # Safety
    ///
    /// `bucket` must be alive, and the caller its owner.
    #[inline]
    pub(crate) unsafe fn push(bucket: NonNull<Self>, item: NonNull<u8>) -> PushOutcome {
        // SAFETY: alive, says the caller.
        let word = match unsafe { Self::room_for(bucket, item) } {
            Ok(word) => word,
            Err(why) => return why,
        };
        // SAFETY: owned, says the caller, and there is room.
        unsafe { Self::place(bucket, word, item) };
        // SAFETY: owned, and the item was just placed.
        unsafe { Self::commit(bucket, word.wrapping_add(PUSHED)) };
        PushOutcome::Done
    }

    /// The word, and how many more items the bucket may hold: read by a bulk push.
    ///
    /// # Safety
    ///
    /// `bucket` must be alive.
    pub(crate) unsafe fn space(bucket: NonNull<Self>) -> (u64, usize) {
        // SAFETY: alive, says the caller.
        let cap = unsafe { Self::cap(bucket) }.load(Relaxed) as usize;
        // SAFETY: alive, says the caller.
        let word = unsafe { Self::word(bucket) }.load(Relaxed);
        (word, cap.saturating_sub((word & LEN_MASK) as usize))
    }

    /// Whether the bucket is full.
    ///
    /// # Safety
    ///
    /// `bucket` must be alive.
    pub(crate) unsafe fn is_full(bucket: NonNull<Self>) -> bool {
        // SAFETY: alive, says the caller.
        let (_, space) = unsafe { Self::space(bucket) };
        space == 0
    }
}

/// The result of a push.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum PushOutcome {
    /// It is in.
    Done,
    /// Not done: the bucket has no room, or the section could not run.
    Full,
    /// Not done: the item is the top one already, so it was freed twice.
    Twice,
}

/// How many items are in a bucket, and how many have been popped from it (modulo 2^48). Any thread with a pointer may
/// ask; the owner may be changing the bucket meanwhile.
///
/// # Safety
///
/// `bucket` must not be freed meanwhile.
pub(crate) unsafe fn peek(bucket: NonNull<Bucket>) -> (usize, u64) {
    // SAFETY: the caller says that it is alive.
    let word = unsafe { Bucket::word(bucket) }.load(Relaxed);
    ((word & LEN_MASK) as usize, word >> LEN_BITS)
}
