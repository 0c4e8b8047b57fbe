//! The names in a directory, one after the other, in constant memory.
//!
//! A directory with few names gives them in order; of a larger one the first [`BATCH_MAX`] are in order, and the others
//! come as the file system has them.
//!
//! Invariants: hidden names are left out, as their files are not served. Reading may wait for a disk, taking does not.
//! Locks: none.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{Dir, DirEntry, FileType};

/// The most names that one call reads, which takes a quarter of a millisecond.
const BATCH_MAX: usize = 1024;

/// A directory that is being read.
pub(crate) struct DirectoryNames {
    /// The names that were read and not taken yet.
    batch: std::vec::IntoIter<DirectoryName>,
    /// The directory, until all of it was read.
    rest: Option<Dir>,
    device: u64,
}

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DirectoryName {
    pub(crate) bytes: Vec<u8>,
    pub(crate) is_directory: bool,
}

impl DirectoryNames {
    /// Reads the directory's first names.
    ///
    /// # Errors
    /// It can't be read.
    pub(crate) fn of(directory: OwnedFd) -> io::Result<DirectoryNames> {
        let device = rustix::fs::fstat(&directory)?.st_dev;
        let mut names = DirectoryNames {
            batch: Vec::new().into_iter(),
            rest: Some(Dir::new(directory)?),
            device,
        };
        names.read_more()?;
        names.batch.as_mut_slice().sort_unstable();
        Ok(names)
    }

    /// The number of its file system.
    pub(crate) fn device(&self) -> u64 {
        self.device
    }

    /// The next of the names that were read.
    pub(crate) fn next(&mut self) -> Option<DirectoryName> {
        self.batch.next()
    }

    /// Whether the directory may have names that were not read yet.
    pub(crate) fn has_unread(&self) -> bool {
        self.rest.is_some()
    }

    /// Reads more names, when all were taken. It may wait for a disk.
    ///
    /// # Errors
    /// The directory can't be read.
    pub(crate) fn read_more(&mut self) -> io::Result<()> {
        let mut names = Vec::new();
        while names.len() < BATCH_MAX
            && let Some(directory) = &mut self.rest
        {
            match directory.read().transpose()? {
                Some(entry) if is_hidden(&entry) => {}
                Some(entry) => names.push(DirectoryName::of(&entry)),
                None => self.rest = None,
            }
        }
        self.batch = names.into_iter();
        Ok(())
    }
}

impl DirectoryName {
    fn of(entry: &DirEntry) -> DirectoryName {
        DirectoryName {
            bytes: entry.file_name().to_bytes().to_vec(),
            is_directory: entry.file_type() == FileType::Directory,
        }
    }
}

fn is_hidden(entry: &DirEntry) -> bool {
    entry.file_name().to_bytes().starts_with(b".")
}

impl fmt::Debug for DirectoryNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DirectoryNames").finish_non_exhaustive()
    }
}
