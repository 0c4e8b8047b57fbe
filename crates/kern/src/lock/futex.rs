//! The word that real threads sleep on: Linux's futex.
//!
//! Invariant: a wake uses the address and never the memory there, so it may come after the lock is gone; at worst it
//! wakes an unrelated thread, which checks its own word again.
//! Locks: the kernel's hash bucket.
//! Source: `futex(2)`, section on FUTEX_WAIT.

use core::sync::atomic::{AtomicU32, Ordering, fence};
use core::time::Duration;

use super::spin;
use super::word::LockWord;

impl LockWord for AtomicU32 {
    // Four hand-overs to a running thread for each switch that fairness costs.
    const PATIENCE: u32 = 4;

    #[inline]
    fn load(&self, order: Ordering) -> u32 {
        self.load(order)
    }

    #[inline]
    fn compare_exchange(
        &self,
        current: u32,
        new: u32,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u32, u32> {
        self.compare_exchange(current, new, success, failure)
    }

    #[inline]
    fn fetch_add(&self, value: u32, order: Ordering) -> u32 {
        self.fetch_add(value, order)
    }

    #[inline]
    fn fetch_sub(&self, value: u32, order: Ordering) -> u32 {
        self.fetch_sub(value, order)
    }

    #[inline]
    fn fence_after_add() {}

    #[inline]
    fn fence() {
        fence(Ordering::SeqCst);
    }

    fn sleep(&self, expected: u32, timeout: Option<Duration>) {
        sys::sleep(self, expected, timeout);
    }

    fn wake_one(&self) {
        sys::wake(self, 1);
    }

    fn wake_all(&self) {
        sys::wake(self, i32::MAX);
    }

    fn spins() -> u32 {
        spin::budget()
    }

    fn pause(pauses: u32) {
        for _ in 0..pauses {
            core::hint::spin_loop();
        }
    }
}

#[cfg(target_os = "linux")]
mod sys {
    use core::ptr;
    use core::sync::atomic::AtomicU32;
    use core::time::Duration;

    pub(super) fn sleep(word: &AtomicU32, expected: u32, timeout: Option<Duration>) {
        let timeout = timeout.and_then(timespec);
        let timeout = timeout.as_ref().map_or(ptr::null(), ptr::from_ref);
        // SAFETY: the word lives for the call, the timeout is null or lives for it too, and the
        // operation reads both and writes neither. After each error (EAGAIN: the word has changed;
        // EINTR; ETIMEDOUT) the caller loads the word again.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                word.as_ptr(),
                libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
                expected,
                timeout,
            )
        };
    }

    pub(super) fn wake(word: &AtomicU32, sleepers: i32) {
        // SAFETY: the kernel takes the address as the name of a queue and does not follow it.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                word.as_ptr(),
                libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
                sleepers,
            )
        };
    }

    /// None, which waits for ever, if the time is longer than the kernel can count.
    fn timespec(timeout: Duration) -> Option<libc::timespec> {
        Some(libc::timespec {
            tv_sec: timeout.as_secs().try_into().ok()?,
            tv_nsec: timeout.subsec_nanos().into(),
        })
    }
}

/// On other systems no thread sleeps: a wait yields the CPU and returns, as a wait may at any time.
#[cfg(not(target_os = "linux"))]
mod sys {
    use core::sync::atomic::AtomicU32;
    use core::time::Duration;

    pub(super) fn sleep(_: &AtomicU32, _: u32, timeout: Option<Duration>) {
        if timeout != Some(Duration::ZERO) {
            std::thread::yield_now();
        }
    }

    pub(super) fn wake(_: &AtomicU32, _: i32) {}
}
