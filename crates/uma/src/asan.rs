//! Tells AddressSanitizer which items are free.
//!
//! AddressSanitizer knows the system's heap and not our slabs. Built with `--cfg uma_asan` (and the
//! sanitizer itself, which stable Rust cannot ask the compiler about), a free item is poison, so
//! that every later touch of it is reported at the touch. Otherwise these functions are empty. New
//! mappings, and unmapped ones, are clean by the sanitizer's own doing.

use core::ptr::NonNull;

/// From now on a touch of these bytes is an error.
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
