//! `bytes::BytesMut`, the buffer of Rust's asynchronous programs: a new one with room for an item, dropped after use.
//!
//! Its memory is the system's malloc, so the figure is malloc's plus the type's own work. No constructor.

use crate::alloc::design::{Absent, Design, out_of_memory};
use bytes::BytesMut;
use std::ptr::NonNull;

/// How much room each buffer gets.
pub(crate) struct Buffers(usize);

impl Design for Buffers {
    type Item = BytesMut;

    fn new(size: usize) -> Result<Self, Absent> {
        Ok(Self(size))
    }

    #[inline]
    fn alloc(&self) -> BytesMut {
        BytesMut::with_capacity(self.0)
    }

    #[inline]
    unsafe fn free(&self, item: BytesMut) {
        drop(item);
    }

    #[inline]
    fn bytes(item: &mut BytesMut) -> NonNull<u8> {
        match NonNull::new(item.as_mut_ptr()) {
            Some(start) => start,
            None => out_of_memory("bytesmut"),
        }
    }
}
