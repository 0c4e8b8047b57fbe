//! The interface of an allocator under measurement.
//!
//! Invariant: an item is freed once, by the design that gave it out.

pub(crate) use crate::harness::choice::Absent;
use std::hint;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::time::Duration;

/// Items of a batch.
pub(crate) const BATCH: usize = 64;
/// Threads of the case `threads32`.
pub(crate) const THREADS: usize = 32;
/// As many items as those threads have live together: a batch of the control.
pub(crate) const MANY: usize = THREADS * BATCH;
/// The alignment of every design's items.
pub(crate) const ALIGN: usize = 16;

/// A way of handing out items of one size.
pub(crate) trait Design: Send + Sync + Sized + 'static {
    /// An item in use.
    type Item: Send;

    /// A design for items of `size` bytes.
    ///
    /// # Errors
    /// [`Absent`] where it is not there or cannot do this size.
    fn new(size: usize) -> Result<Self, Absent>;

    /// Gives out an item. Running out of memory ends the experiment with a panic.
    fn alloc(&self) -> Self::Item;

    /// Takes an item back.
    ///
    /// # Safety
    /// The item came from [`alloc`](Self::alloc) of this very value.
    unsafe fn free(&self, item: Self::Item);

    /// Where the item's bytes are.
    fn bytes(item: &mut Self::Item) -> NonNull<u8>;

    /// Called by a thread before it uses the design.
    fn enter(&self) {}

    /// Called by a thread after its last use of the design, when it has no items.
    fn leave(&self) {}

    /// Items that left the slabs, or were carved out of pages: live, cached, or in a list. None if they are not
    /// counted.
    fn taken(&self) -> Option<usize> {
        None
    }

    /// Gives memory back that no live item needs, by the means that the design has for that.
    fn reclaim(&self) {}

    /// Starts the design's own reclaim, which runs until the result is dropped.
    fn attend(&self) -> Option<Box<dyn Attendant>> {
        None
    }

    /// Allocates an item and frees it: `n` times.
    #[inline(never)]
    fn gets(&self, n: u64) {
        for _ in 0..n {
            let item = hint::black_box(self.alloc());
            // SAFETY: it came from this design, in the line above.
            unsafe { self.free(item) };
        }
    }

    /// Allocates an item, writes to it, frees it: `n` times.
    #[inline(never)]
    fn pairs(&self, n: u64) {
        for i in 0..n {
            let mut item = self.alloc();
            mark(Self::bytes(&mut item), i);
            // SAFETY: it came from this design, three lines above.
            unsafe { self.free(item) };
        }
    }

    /// Allocates `LIVE` items, [`BATCH`] or [`MANY`], writes to each, then frees them in the order of their
    /// allocation: until `n` were allocated, rounded up to `LIVE`.
    #[inline(never)]
    fn batches<const LIVE: usize>(&self, n: u64) {
        let mut items = [const { MaybeUninit::uninit() }; LIVE];
        for i in 0..n.div_ceil(LIVE as u64) {
            for slot in &mut items {
                mark(Self::bytes(slot.write(self.alloc())), i);
            }
            for slot in &items {
                // SAFETY: the loop above wrote it, and the next one writes it again before it is read again.
                let item = unsafe { slot.assume_init_read() };
                // SAFETY: it came from this design, in the loop above.
                unsafe { self.free(item) };
            }
        }
    }
}

/// A running reclaim of a design.
pub(crate) trait Attendant: Send {
    /// The time that it has worked.
    fn busy(&self) -> Duration;
}

/// The least use of a fresh item: writes 8 bytes, behind the header that some constructors make.
#[inline(always)]
pub(crate) fn mark(item: NonNull<u8>, value: u64) {
    // SAFETY: every item has more than HEADER_BYTES + 8 bytes (checked when the sizes are parsed), is aligned to
    // ALIGN, and the caller has it from a design just now. Volatile, so that no pair is optimised away.
    unsafe { word(item).write_volatile(value) };
}

/// The value that [`mark`] wrote.
#[inline(always)]
pub(crate) fn marked(item: NonNull<u8>) -> u64 {
    // SAFETY: as in `mark`; items that are read were marked.
    unsafe { word(item).read_volatile() }
}

#[inline(always)]
fn word(item: NonNull<u8>) -> *mut u64 {
    item.as_ptr()
        .wrapping_add(super::header::HEADER_BYTES)
        .cast()
}

/// An item that is a bare address.
#[derive(Debug)]
pub(crate) struct Block(pub(crate) NonNull<u8>);

// SAFETY: only the owner of a block may use its memory; its address is good on any thread.
unsafe impl Send for Block {}

/// The end of an experiment whose design has no more memory.
#[cold]
#[inline(never)]
pub(crate) fn out_of_memory(design: &str) -> ! {
    hint::black_box(());
    panic!("{design} has run out of memory")
}
