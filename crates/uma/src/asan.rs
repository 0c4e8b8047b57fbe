//! Tells AddressSanitizer which items are free.
//!
//! AddressSanitizer knows the system's heap and not our slabs. In a build with `--cfg uma_asan` (and the sanitizer,
//! which code on stable Rust can't detect), free items are poisoned, so that the sanitizer reports each access at once.
//! In other builds these functions are empty. The sanitizer itself cleans new and unmapped mappings.

use core::ptr::NonNull;

/// From now on an access to these bytes is an error.
#[inline]
pub(crate) fn poison(pointer: NonNull<u8>, len: usize) {
    #[cfg(uma_asan)]
    // SAFETY: a range of our own reservation; the call changes the sanitizer's notes about it.
    unsafe {
        __asan_poison_memory_region(pointer.as_ptr().cast(), len);
    }
    #[cfg(not(uma_asan))]
    let _ = (pointer, len);
}

/// From now on it is not.
#[inline]
pub(crate) fn unpoison(pointer: NonNull<u8>, len: usize) {
    #[cfg(uma_asan)]
    // SAFETY: as above.
    unsafe {
        __asan_unpoison_memory_region(pointer.as_ptr().cast(), len);
    }
    #[cfg(not(uma_asan))]
    let _ = (pointer, len);
}

#[cfg(uma_asan)]
unsafe extern "C" {
    fn __asan_poison_memory_region(begin: *const core::ffi::c_void, len: usize);
    fn __asan_unpoison_memory_region(begin: *const core::ffi::c_void, len: usize);
}

#[cfg(all(test, uma_asan))]
mod tests;
