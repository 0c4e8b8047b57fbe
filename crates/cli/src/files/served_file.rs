//! A file that is being sent.
//!
//! Called by: gateway::web. Calls: [`SendFile`].
//! Invariants: its length is that of the moment when it was opened. A read waits for the disk, if the file is not in memory.
//! Locks: none.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mbuma::socket::SendFile;
use rustix::fs::Stat;

use crate::http::range::ByteRange;

/// An open file.
#[derive(Debug)]
pub(crate) struct ServedFile {
    file: Arc<File>,
    len: u64,
    modified: SystemTime,
}

impl ServedFile {
    pub(super) fn new(fd: OwnedFd, stat: &Stat) -> ServedFile {
        let seconds = Duration::from_secs(stat.st_mtime.unsigned_abs());
        let nanos = Duration::from_nanos(stat.st_mtime_nsec);
        let modified = match stat.st_mtime < 0 {
            true => UNIX_EPOCH.checked_sub(seconds),
            false => UNIX_EPOCH.checked_add(seconds),
        };
        ServedFile {
            file: Arc::new(File::from(fd)),
            len: stat.st_size.unsigned_abs(),
            modified: modified.unwrap_or(UNIX_EPOCH) + nanos,
        }
    }

    /// Bytes of it.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// When it was last changed.
    pub(crate) fn modified(&self) -> SystemTime {
        self.modified
    }

    /// The job that sends `range` of it.
    pub(crate) fn send(&self, range: ByteRange) -> SendFile {
        let end = range.start.saturating_add(range.len);
        SendFile::new(Arc::clone(&self.file), range.start..end)
    }
}
