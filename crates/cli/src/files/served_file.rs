//! A file that is being sent.
//!
//! Invariants: its length is that of the moment when it was opened. A worker reads only what is in memory.
//! Locks: none.

use std::fs::File;
use std::io::IoSliceMut;
use std::os::fd::OwnedFd;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mbuma::socket::SendFile;
use rustix::fs::Stat;
use rustix::io::ReadWriteFlags;

use super::cache::{FileCache, FileKey};
use crate::http::range::ByteRange;

/// Bytes of a file at most whose contents requests share: copying them costs less than a read.
const CONTENTS_MAX: u64 = 16 << 10;

/// An open file.
#[derive(Clone, Debug)]
pub(crate) struct ServedFile {
    file: Arc<File>,
    key: FileKey,
    len: u64,
    modified: SystemTime,
    /// Other requests have the same file.
    is_shared: bool,
    /// All bytes of a small file, once a request has read them for the others; none if it could not.
    contents: Arc<OnceLock<Option<Vec<u8>>>>,
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
            is_shared: false,
            contents: Arc::default(),
        }
    }

    /// The same for one more request.
    pub(super) fn share(&self) -> ServedFile {
        ServedFile {
            is_shared: true,
            ..self.clone()
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

    /// `range` of a small file that several requests ask for, without another read, if all of it is in memory.
    pub(crate) fn contents(&self, range: ByteRange) -> Option<&[u8]> {
        if !self.is_shared || self.len > CONTENTS_MAX {
            return None;
        }
        let contents = self.contents.get_or_init(|| self.read_resident());
        let start = usize::try_from(range.start).ok()?;
        let len = usize::try_from(range.len).ok()?;
        contents.as_ref()?.get(start..start.checked_add(len)?)
    }

    fn read_resident(&self) -> Option<Vec<u8>> {
        let mut contents = vec![0; usize::try_from(self.len).ok()?];
        let mut room = [IoSliceMut::new(&mut contents)];
        let read = rustix::io::preadv2(&self.file, &mut room, 0, ReadWriteFlags::NOWAIT);
        (read == Ok(contents.len())).then_some(contents)
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
