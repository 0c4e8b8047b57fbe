//! The driver of a stack that has no loop of its own: the threads of a runtime, as the stack sees them.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};

use crate::ifnet::IfIndex;
use crate::stack::{RxQueue, Stack};

/// Threads that take in the frames of a stack's devices.
pub(crate) trait Driver: Send + Sync {
    /// Takes in the queue's frames whenever `fd`, its device's, is readable.
    ///
    /// # Errors
    /// The descriptor can't be watched.
    fn watch(&self, stack: &Stack, queue: RxQueue, fd: OwnedFd) -> io::Result<()>;

    /// Lets go of an interface's queues. No thread is inside of them when it returns.
    fn forget(&self, stack: &Stack, index: IfIndex);
}

impl Stack {
    /// Says by whose threads it is driven; once. The stack does not keep the driver alive, which has the stack.
    pub(crate) fn set_driver(&self, driver: Weak<dyn Driver>) {
        // A second one would be a bug of this crate, and is not believed.
        let _ = self.0.driver.set(driver);
    }

    /// Its driver, as long as that lives.
    pub(crate) fn driver(&self) -> Option<Arc<dyn Driver>> {
        self.0.driver.get()?.upgrade()
    }
}
