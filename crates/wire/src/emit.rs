//! The one place where header bytes are put into the caller's buffer.
//!
//! Invariants: the length of the buffer is the emitting code's own choice and never depends on received bytes, so a
//! buffer that is too short is a bug of the caller and is asserted, as `copy_from_slice` does.
//! Locks: none.
//! Sources: none.

/// Copies `bytes` to the front of `out` and returns how many bytes that was.
///
/// # Panics
/// If `out` is shorter than `bytes`.
#[inline]
#[track_caller]
pub(crate) fn put(out: &mut [u8], bytes: &[u8]) -> usize {
    let (head, _) = out.split_at_mut(bytes.len());
    head.copy_from_slice(bytes);
    bytes.len()
}
