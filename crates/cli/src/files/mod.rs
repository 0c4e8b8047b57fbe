//! The directory that is served: opens the files below it, and no others.
//!
//! A worker looks a path up only as far as the kernel has it in memory (RESOLVE_CACHED), on the file system of the
//! directory itself, if opening a file there waits for nothing else; all other paths are for [threads](FileReaders).
//!
//! The directory is opened before the process gives up the file system ([`crate::sandbox`]). From then on a file is
//! opened by its path below that descriptor, and the kernel refuses a path that leads out of it, by `..` or by a
//! symbolic link (RESOLVE_BENEATH). Landlock allows to read files below that directory, and no others.
//!
//! Invariants: nothing is written; only files and directories are opened.
//! Locks: none.
//! Sources: openat2(2), statfs(2).

mod cache;
mod contents;
mod names;
mod readers;
mod served_file;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, Stat, openat2};
use rustix::io::Errno;

pub(crate) use cache::{FileCache, IDLE};
pub(crate) use names::{DirectoryNames, NamesRoom};
pub(crate) use readers::{FileReaders, ReadId};
pub(crate) use served_file::{FileRound, ServedFile};

/// The kernel asks again when a directory was renamed under it: so often at most.
const ATTEMPTS_MAX: usize = 8;

/// File systems on which a file whose inode is in memory is opened without waiting, by their numbers in statfs(2): ext2
/// to ext4, XFS, btrfs, F2FS, tmpfs, ramfs, overlayfs, SquashFS, EROFS. Others may ask a server, or a program.
const OPEN_AT_ONCE: [u64; 9] = [
    0xef53,
    0x5846_5342,
    0x9123_683e,
    0xf2f5_2010,
    0x0102_1994,
    0x8584_58f6,
    0x794c_7630,
    0x7371_7368,
    0xe0f5_e1e2,
];

/// A directory with all below it.
#[derive(Debug)]
pub(crate) struct ServedTree {
    root: OwnedFd,
    device: u64,
    /// Files on the directory's own file system open without waiting, if the way to them is in memory.
    opens_at_once: bool,
}

/// The way to a file is not in memory, or may not be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotInMemory {
    /// A number for the file system that may be waited for. Which one a path leads to is not known before it is looked
    /// up: so it is a number for the path's first name, and a mount that does not answer keeps those below it waiting
    /// alone.
    pub(crate) device: u64,
}

/// An entry of a directory, open.
#[derive(Debug)]
pub(crate) enum FoundEntry {
    File(ServedFile),
    /// A directory, open to be read.
    Directory(OwnedFd),
    /// A device, a FIFO or a socket: it was not opened.
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
        let kind = rustix::fs::fstatfs(&root)?.f_type as u64;
        let tree = ServedTree {
            device: rustix::fs::fstat(&root)?.st_dev,
            opens_at_once: OPEN_AT_ONCE.contains(&kind),
            root,
        };
        tree.open_below(b".", READ | OFlags::DIRECTORY, BELOW)?;
        Ok(tree)
    }

    /// The number of the directory's file system.
    pub(crate) fn device(&self) -> u64 {
        self.device
    }

    /// Whether this process may look for names in the directory.
    pub(crate) fn may_be_entered(&self) -> bool {
        !matches!(self.open_below(b".", LOCATE, BELOW), Err(Errno::ACCESS))
    }

    /// Opens the entry at `path`, which is relative.
    ///
    /// # Errors
    /// Those of openat2(2): EXDEV for a path that leads out of the directory.
    pub(crate) fn find(&self, path: &[u8]) -> io::Result<FoundEntry> {
        Ok(self.open_entry(path, BELOW)?)
    }

    /// The same without waiting for a disk.
    ///
    /// # Errors
    /// [`NotInMemory`] if that can't be; inside, those of openat2(2).
    pub(crate) fn find_in_memory(
        &self,
        path: &[u8],
    ) -> Result<io::Result<FoundEntry>, NotInMemory> {
        if !self.opens_at_once {
            let device = self.device;
            return Err(NotInMemory { device });
        }
        let here = BELOW | ResolveFlags::CACHED | ResolveFlags::NO_XDEV;
        match self.open_entry(path, here) {
            // EXDEV, or EAGAIN: it leads to another file system, or out of the directory. EINVAL: the kernel can't say
            // what is in memory (before Linux 5.12).
            Err(Errno::AGAIN | Errno::XDEV | Errno::INTR | Errno::INVAL) => Err(NotInMemory {
                device: number_of_first(path),
            }),
            found => Ok(found.map_err(io::Error::from)),
        }
    }

    /// Opens a file or directory to read it. An entry of another type is not opened, because to open a FIFO or a device
    /// may have an effect: a FIFO's writer continues.
    fn open_entry(&self, path: &[u8], resolve: ResolveFlags) -> Result<FoundEntry, Errno> {
        let located = self.open_below(path, LOCATE, resolve)?;
        match file_type(&rustix::fs::fstat(located)?) {
            FileType::RegularFile | FileType::Directory => {}
            _ => return Ok(FoundEntry::Other),
        }
        let fd = self.open_below(path, READ, resolve)?;
        let stat = rustix::fs::fstat(&fd)?;
        let is_here = resolve.contains(ResolveFlags::NO_XDEV) || stat.st_dev == self.device;
        // The name may have got another entry in between.
        Ok(match file_type(&stat) {
            FileType::RegularFile => {
                FoundEntry::File(ServedFile::new(fd, &stat, self.opens_at_once && is_here))
            }
            FileType::Directory => FoundEntry::Directory(fd),
            _ => FoundEntry::Other,
        })
    }

    /// Opens the entry at `path`; tries again when a directory was renamed meanwhile, unless the caller must not wait.
    fn open_below(
        &self,
        path: &[u8],
        flags: OFlags,
        resolve: ResolveFlags,
    ) -> Result<OwnedFd, Errno> {
        let attempts = match resolve.contains(ResolveFlags::CACHED) {
            true => 1,
            false => ATTEMPTS_MAX,
        };
        let mut opened = Err(Errno::AGAIN);
        for _ in 0..attempts {
            opened = openat2(&self.root, path, flags, Mode::empty(), resolve);
            if !matches!(opened, Err(Errno::AGAIN | Errno::INTR)) {
                break;
            }
        }
        opened
    }
}

/// To read a file or directory. The flags NONBLOCK and NOCTTY matter only if the name got another entry after
/// [`LOCATE`]: then the open waits for no writer of a FIFO and for no device.
const READ: OFlags = OFlags::RDONLY
    .union(OFlags::CLOEXEC)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY);
/// To ask for the type of an entry, without opening what it names.
const LOCATE: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);
/// All paths are below the directory.
const BELOW: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_MAGICLINKS);

fn file_type(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

/// A number for the first name of a path: no device has it, since those are smaller.
fn number_of_first(path: &[u8]) -> u64 {
    let first = path.split(|byte| *byte == b'/').next();
    let mut hasher = DefaultHasher::new();
    first.unwrap_or_default().hash(&mut hasher);
    hasher.finish() | 1 << 63
}

impl AsFd for ServedTree {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }
}

#[cfg(test)]
mod tests;
