//! A file whose next bytes another thread reads, because they are not in memory.
//!
//! Called by: sending. Calls: crate::files.
//! Invariants: the job is with the readers or in `done`; after it is there the connection gets a turn. A connection that
//! ends takes its job back from the readers, with its open file, unless a thread reads already.
//! Locks: `done` (TASKQUEUE), with nothing called under it.

use std::io;
use std::sync::Arc;

use kern::{LockClass, Mutex, order};
use mbuma::runtime::TaskWaker;
use mbuma::socket::SendFile;

use crate::files::{FileReaders, ReadId};

static DONE: LockClass = LockClass::new("gateway file read", order::TASKQUEUE);

/// What a thread has read, once it has.
type ReadResult = Mutex<Option<(SendFile, io::Result<()>)>>;

/// The connection's end.
pub(super) struct FileReading {
    done: Arc<ReadResult>,
    readers: FileReaders,
    id: ReadId,
}

impl FileReading {
    /// Has a thread read for `job` from the file system with the number `device`; then `wake` is called.
    pub(super) fn begin(
        mut job: SendFile,
        device: u64,
        readers: &FileReaders,
        wake: &Arc<TaskWaker>,
    ) -> FileReading {
        let done: Arc<ReadResult> = Arc::new(Mutex::new(&DONE, None));
        let (there, wake) = (Arc::clone(&done), Arc::clone(wake));
        let id = readers.run(device, move || {
            let read = job.read_ahead();
            *there.lock() = Some((job, read));
            wake.wake();
        });
        FileReading {
            done,
            readers: readers.clone(),
            id,
        }
    }

    /// The job, once it can go on.
    pub(super) fn take(&self) -> Option<(SendFile, io::Result<()>)> {
        self.done.lock().take()
    }
}

impl Drop for FileReading {
    fn drop(&mut self) {
        self.readers.cancel(self.id);
    }
}
