//! The constructor that our designs and the BSD ones run on each item: the header of an mbuf.
//!
//! `m_get` writes such a header after every allocation, 32 bytes in one cache line. Other allocators have no
//! constructors and are measured without; so these four stores count against our designs.

use std::ptr::NonNull;

/// Bytes that the constructor writes.
pub(crate) const HEADER_BYTES: usize = size_of::<Header>();

#[repr(C)]
struct Header {
    next: *mut u8,
    next_packet: *mut u8,
    data: *mut u8,
    len: u32,
    kind: u16,
    flags: u16,
}

/// Writes the header of an empty mbuf into an item.
///
/// # Safety
/// The item has [`HEADER_BYTES`] bytes, is aligned to 8, and has no other user.
#[inline(always)]
pub(crate) unsafe fn construct(item: NonNull<u8>) {
    let header = Header {
        next: std::ptr::null_mut(),
        next_packet: std::ptr::null_mut(),
        data: item.as_ptr().wrapping_add(HEADER_BYTES),
        len: 0,
        kind: 1,
        flags: 0,
    };
    // SAFETY: the caller promises that there is room and no other user.
    unsafe { item.cast::<Header>().write(header) };
}

const _: () = assert!(HEADER_BYTES == 32);
