//! Lists of buckets, linked through the buckets.
//!
//! A list has no memory of its own, so adding a bucket never fails. And it touches only its own cache line and those of
//! the buckets that are added and removed: CPUs that exchange buckets wait for each line that the other CPU has
//! written.
//!
//! ```text
//!   List    first --> [ ] <--> [ ] <--> [ ] <-- last      in at the end, out at either end
//!   Stack                    [ ] <-- [ ] <-- top          in and out at the top
//! ```
//!
//! Locks: none; the depot's guards both.
//! Invariants: a list owns its buckets, of which each is in one list. No code reads the links beyond an end: a
//! bucket's links of a former list may still be there.

use super::{Bucket, Owned};
use core::ptr::NonNull;

/// Buckets in a row.
pub(crate) struct BucketList {
    /// These two are valid only if there are buckets.
    first: Option<NonNull<Bucket>>,
    last: Option<NonNull<Bucket>>,
    buckets: u32,
    /// All items in the buckets, so that they need not be counted.
    items: u32,
}

impl BucketList {
    pub(crate) const fn new() -> Self {
        Self {
            first: None,
            last: None,
            buckets: 0,
            items: 0,
        }
    }

    /// Buckets in it.
    pub(crate) fn len(&self) -> usize {
        self.buckets as usize
    }

    /// Items inside of them.
    pub(crate) fn items(&self) -> usize {
        self.items as usize
    }

    pub(crate) fn push_back(&mut self, bucket: Owned) {
        self.items += bucket.len() as u32;
        let bucket = bucket.into_ptr();
        match self.last.filter(|_| self.buckets > 0) {
            None => self.first = Some(bucket),
            Some(last) => {
                // SAFETY: the list owns its last bucket, and no other thread reads these names.
                unsafe { (*last.as_ptr()).next = Some(bucket) };
                // SAFETY: owned by the caller until now, and by the list from now on.
                unsafe { (*bucket.as_ptr()).prev = Some(last) };
            }
        }
        self.last = Some(bucket);
        self.buckets += 1;
    }

    pub(crate) fn pop_front(&mut self) -> Option<Owned> {
        let bucket = self.without(self.first)?;
        // SAFETY: it was the list's until now. Its link is read only if another bucket follows it in the list.
        self.first = unsafe { (*bucket.name().as_ptr()).next };
        Some(bucket)
    }

    pub(crate) fn pop_back(&mut self) -> Option<Owned> {
        let bucket = self.without(self.last)?;
        // SAFETY: it was the list's until now. Its link is read only if another bucket precedes it in the list.
        self.last = unsafe { (*bucket.name().as_ptr()).prev };
        Some(bucket)
    }

    /// The bucket at an end, no longer counted.
    fn without(&mut self, end: Option<NonNull<Bucket>>) -> Option<Owned> {
        let end = end.filter(|_| self.buckets > 0)?;
        // SAFETY: there is a bucket, so the end is one, and it leaves the list.
        let bucket = unsafe { Owned::from_ptr(end) };
        self.buckets -= 1;
        self.items -= bucket.len() as u32;
        Some(bucket)
    }

    /// Items in each bucket, from the first on.
    pub(crate) fn lens(&self) -> impl Iterator<Item = usize> {
        let mut next = self.first;
        (0..self.buckets).map_while(move |_| {
            let bucket = next?;
            // SAFETY: as many buckets follow each other as are left, and the list, which is borrowed, owns them.
            next = unsafe { (*bucket.as_ptr()).next };
            // SAFETY: as above.
            let (items, _) = unsafe { super::peek(bucket) };
            Some(items)
        })
    }
}

/// Buckets, of which the one added last is removed first.
pub(crate) struct BucketStack {
    top: Option<NonNull<Bucket>>,
}

impl BucketStack {
    pub(crate) const fn new() -> Self {
        Self { top: None }
    }

    pub(crate) fn push(&mut self, bucket: Owned) {
        let bucket = bucket.into_ptr();
        // SAFETY: owned by the caller until now, and by the stack from now on.
        unsafe { (*bucket.as_ptr()).prev = self.top };
        self.top = Some(bucket);
    }

    pub(crate) fn pop(&mut self) -> Option<Owned> {
        let bucket = self.top?;
        // SAFETY: the stack owns it.
        self.top = unsafe { (*bucket.as_ptr()).prev };
        // SAFETY: it has just left the stack.
        Some(unsafe { Owned::from_ptr(bucket) })
    }

    /// Items in each bucket, from the top on.
    pub(crate) fn lens(&self) -> impl Iterator<Item = usize> {
        let mut next = self.top;
        core::iter::from_fn(move || {
            let bucket = next?;
            // SAFETY: the stack, which is borrowed, owns it.
            next = unsafe { (*bucket.as_ptr()).prev };
            // SAFETY: as above.
            let (items, _) = unsafe { super::peek(bucket) };
            Some(items)
        })
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
