//! A file that is being sent.
//!
//! Invariants: its length is that of the moment when it was opened. A worker reads only what is in memory.
//! Locks: none.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mbuma::socket::SendFile;
use rustix::fs::Stat;

use super::cache::{FileCache, FileKey};
use crate::http::range::ByteRange;

/// An open file.
#[derive(Clone, Debug)]
pub(crate) struct ServedFile {
    file: Arc<File>,
    key: FileKey,
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
            key: FileKey::of(stat),
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

    /// The number of its file system.
    pub(crate) fn device(&self) -> u64 {
        self.key.device
    }

    /// The job that sends `range` of it: from a copy, if there is one, else what is in memory.
    pub(crate) fn send(&self, range: ByteRange, cache: &FileCache) -> SendFile {
        let range = range.start..range.start.saturating_add(range.len);
        match cache.find(&self.file, &self.key) {
            Some(copy) => SendFile::sealed(copy, range),
            None => {
                let mut job = SendFile::new(Arc::clone(&self.file), range);
                job.set_resident_only(true);
                job
            }
        }
    }
}
