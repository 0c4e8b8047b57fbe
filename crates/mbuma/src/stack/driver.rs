//! The driver of a stack, which has no loop of its own: the threads of a runtime, as the stack sees them.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use crate::ifnet::IfIndex;
use crate::stack::{RxQueue, Stack};
use crate::state::StackState;
use crate::tcp::visit;

/// Threads that take in the frames of a stack's devices.
pub(crate) trait Driver: Send + Sync {
    /// Takes in the queue's frames whenever `fd`, its device's, is readable.
    ///
    /// # Errors
    /// The descriptor can't be watched.
    fn watch(&self, stack: &Stack, queue: RxQueue, fd: OwnedFd) -> io::Result<()>;

    /// Releases an interface's queues. No thread uses them when this returns.
    fn forget(&self, stack: &Stack, index: IfIndex);
}

impl Stack {
    /// Sets the driver of the stack, once. The reference is weak, because the driver holds the stack.
    pub(crate) fn set_driver(&self, driver: Weak<dyn Driver>) {
        // A second driver would be a bug of this crate, and is ignored.
        let _ = self.0.driver.set(driver);
    }

    /// Its driver, while that exists.
    pub(crate) fn driver(&self) -> Option<Arc<dyn Driver>> {
        self.0.driver.get()?.upgrade()
    }
}

impl StackState {
    /// Its driver has ended: wakes the calls that wait for what it did. They see the mark, which is set before each
    /// lock is taken under which a call registers.
    pub(crate) fn abandon(&self) {
        self.abandoned.store(true, Ordering::Release);
        self.enter(|batch| {
            visit::wake_users(batch);
            self.udp.table.wake_users(batch);
        });
    }

    /// Whether its driver has ended: then nothing happens that a call could wait for.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.abandoned.load(Ordering::Acquire)
    }
}
