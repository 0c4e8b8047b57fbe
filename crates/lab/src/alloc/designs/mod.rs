//! The designs: ours first, then those of the seed documents, then common programs today.
//!
//! Each file names its system and the description of it.

pub(crate) mod freebsd4;
pub(crate) mod mballoc;
pub(crate) mod mbuma;
pub(crate) mod mbuma_bulk;
pub(crate) mod mbuma_packet;
pub(crate) mod pages;
pub(crate) mod returned;
pub(crate) mod uma2004;

pub(crate) mod dpdk;
pub(crate) mod global;

#[cfg(feature = "peers")]
pub(crate) mod arrayqueue;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks; a thread that panicked while it had the lock has failed the experiment already.
#[inline]
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A value on two cache lines of its own, because the processor prefetches lines in pairs.
#[repr(align(128))]
#[derive(Debug, Default)]
struct Padded<T>(T);
