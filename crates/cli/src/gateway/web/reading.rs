//! Work that waits for a disk, done by another thread for a connection.
//!
//! Invariants: the readers have the work, or `done` has its result; once it has, the connection gets a turn. A
//! connection that ends takes its work back from the readers, with its open file, unless a thread has begun it. Locks:
//! `done` (TASKQUEUE), with nothing called under it.

use std::sync::Arc;

use kern::{LockClass, Mutex, order};
use mbuma::runtime::TaskWaker;

use crate::files::{FileReaders, ReadId};

static DONE: LockClass = LockClass::new("gateway file read", order::TASKQUEUE);

/// The connection's handle of the work.
pub(super) struct DiskWait<T> {
    done: Arc<Mutex<Option<T>>>,
    readers: FileReaders,
    id: ReadId,
}

impl<T: Send + 'static> DiskWait<T> {
    /// Lets a thread do `work` on the file system with the number `device`, and then call `wake`.
    pub(super) fn begin(
        work: impl FnOnce() -> T + Send + 'static,
        device: u64,
        readers: &FileReaders,
        wake: &Arc<TaskWaker>,
    ) -> DiskWait<T> {
        let done: Arc<Mutex<Option<T>>> = Arc::new(Mutex::new(&DONE, None));
        let (there, wake) = (Arc::clone(&done), Arc::clone(wake));
        let id = readers.run(device, move || {
            let result = work();
            *there.lock() = Some(result);
            wake.wake();
        });
        DiskWait {
            done,
            readers: readers.clone(),
            id,
        }
    }

    /// The result, once the work is done.
    pub(super) fn take(&self) -> Option<T> {
        self.done.lock().take()
    }
}

impl<T> Drop for DiskWait<T> {
    fn drop(&mut self) {
        self.readers.cancel(self.id);
    }
}
