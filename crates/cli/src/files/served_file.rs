//! A file that is being sent.
//!
//! Called by: gateway::web. Calls: preadv(2).
//! Invariants: its length is that of the moment when it was opened; a file that has become shorter is an error, and no byte
//! is made up in the place of one that is missing. A read waits for the disk, if the file is not in memory.
//! Locks: none.

use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mbuf::{Chain, Scatter};
use rustix::fs::Stat;
use rustix::io::{preadv, retry_on_intr};

use crate::http::range::ByteRange;

/// Pieces that a row of clusters has at most, usually.
const ROW_MAX: usize = 8;

/// An open file.
#[derive(Debug)]
pub(crate) struct ServedFile {
    fd: OwnedFd,
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
            fd,
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

    /// Reads from the start of `range` into the row of clusters, `max` bytes of it at most, and takes them off `range`.
    ///
    /// # Errors
    /// The file can't be read, or has become shorter (`UnexpectedEof`).
    pub(crate) fn read(
        &self,
        row: &mut Scatter,
        range: &mut ByteRange,
        max: usize,
    ) -> io::Result<Chain> {
        let wanted = usize::try_from(range.len).map_or(max, |len| len.min(max));
        let mut pieces = Vec::with_capacity(ROW_MAX);
        row.io_slices(wanted, &mut pieces);
        let read = retry_on_intr(|| preadv(&self.fd, &mut pieces, range.start))?;
        drop(pieces);
        if read == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        range.start += read as u64;
        range.len -= read as u64;
        Ok(row.take(read))
    }
}
