//! A mutex that spins, as a kernel's does: no thread sleeps on it.
//!
//! Source: OpenBSD's mutex(9).
//!
//! Waiting threads only read, so that the line moves only when the lock changes. A holder that lost its CPU to another
//! program, which an interrupt level forbids in a kernel, is waited for without burning the other CPU too.

use std::hint;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// The mutex, on a line of its own. Its user says which data it protects.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct SpinMutex(AtomicBool);

impl SpinMutex {
    /// Takes the mutex until the result is dropped.
    #[inline]
    pub(super) fn lock(&self) -> Held<'_> {
        // Acquire, and Release in the drop: the next holder sees all that was done under the mutex.
        while self.0.swap(true, Ordering::Acquire) {
            self.wait();
        }
        Held(self)
    }

    #[cold]
    fn wait(&self) {
        let mut spins = 0u32;
        while self.0.load(Ordering::Relaxed) {
            spins += 1;
            if spins.is_multiple_of(1 << 14) {
                thread::yield_now();
            }
            hint::spin_loop();
        }
    }
}

/// Proof that the mutex is held.
pub(super) struct Held<'a>(&'a SpinMutex);

impl Drop for Held<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.0.store(false, Ordering::Release);
    }
}
