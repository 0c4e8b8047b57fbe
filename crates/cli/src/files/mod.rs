//! The directory that is served: opens the files below it, and no others.
//!
//! The directory is opened before the process gives up the file system ([`crate::sandbox`]). From then on a file is opened
//! by its path below that descriptor, and the kernel refuses a path that leads out of it, by `..` or by a symbolic link
//! (RESOLVE_BENEATH). Landlock allows to read files below that directory, and no others.
//!
//! Invariants: nothing is written; only files and directories are read.
//! Locks: none.
//! Sources: openat2(2).

mod cache;
mod names;
mod readers;
mod served_file;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;

pub(crate) use cache::FileCache;
pub(crate) use names::DirectoryNames;
pub(crate) use readers::{FileReaders, ReadId};
pub(crate) use served_file::ServedFile;

/// The kernel asks again when a directory was renamed under it: so often at most.
const ATTEMPTS_MAX: usize = 8;

/// A directory with all below it.
#[derive(Debug)]
pub(crate) struct ServedTree {
    root: OwnedFd,
}

/// An entry of a directory, open.
#[derive(Debug)]
pub(crate) enum FoundEntry {
    File(ServedFile),
    /// A directory, open to be read.
    Directory(OwnedFd),
    /// A device, a FIFO or a socket.
    Other,
}

impl ServedTree {
    /// Opens the directory at `path`.
    ///
    /// # Errors
    /// There is none, or it may not be read, or the kernel has no openat2 (before Linux 5.6).
    pub(crate) fn open(path: &Path) -> io::Result<ServedTree> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(path, flags, Mode::empty())?;
        let tree = ServedTree { root };
        tree.open_below(b".", OFlags::DIRECTORY)?;
        Ok(tree)
    }

    /// Opens the entry at `path`, which is relative.
    ///
    /// # Errors
    /// Those of openat2(2): EXDEV for a path that leads out of the directory.
    pub(crate) fn find(&self, path: &[u8]) -> io::Result<FoundEntry> {
        // Without waiting for the other end of a FIFO, or for a device.
        let fd = self.open_below(path, OFlags::NONBLOCK | OFlags::NOCTTY)?;
        let stat = rustix::fs::fstat(&fd)?;
        Ok(match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => FoundEntry::File(ServedFile::new(fd, &stat)),
            FileType::Directory => FoundEntry::Directory(fd),
            _ => FoundEntry::Other,
        })
    }

    fn open_below(&self, path: &[u8], flags: OFlags) -> io::Result<OwnedFd> {
        let flags = flags | OFlags::RDONLY | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        for _ in 0..ATTEMPTS_MAX {
            match openat2(&self.root, path, flags, Mode::empty(), resolve) {
                Err(Errno::AGAIN | Errno::INTR) => {}
                other => return Ok(other?),
            }
        }
        Err(Errno::AGAIN.into())
    }
}

impl AsFd for ServedTree {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }
}

#[cfg(test)]
mod tests;
