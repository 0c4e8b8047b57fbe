//! The names in a directory, one after the other, in constant memory.
//!
//! A directory with few names gives them in order; of a larger one the first [`SORTED_MAX`] are in order, and the others
//! come as the file system has them.
//!
//! Invariants: hidden names are left out, as their files are not served.
//! Locks: none.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{Dir, DirEntry, FileType};

/// Names that are sorted at most: as many as are read in a quarter of a millisecond.
const SORTED_MAX: usize = 1024;

/// A directory that is being read.
pub(crate) struct DirectoryNames {
    /// In order.
    first: std::vec::IntoIter<DirectoryName>,
    rest: Dir,
}

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DirectoryName {
    pub(crate) bytes: Vec<u8>,
    pub(crate) is_directory: bool,
}

impl DirectoryNames {
    /// Reads the directory.
    ///
    /// # Errors
    /// It can't be read.
    pub(crate) fn of(directory: OwnedFd) -> io::Result<DirectoryNames> {
        let mut names = DirectoryNames {
            first: Vec::new().into_iter(),
            rest: Dir::new(directory)?,
        };
        let mut first = Vec::new();
        while first.len() < SORTED_MAX
            && let Some(name) = names.read()
        {
            first.push(name?);
        }
        first.sort_unstable();
        names.first = first.into_iter();
        Ok(names)
    }

    /// The next one.
    pub(crate) fn next(&mut self) -> Option<io::Result<DirectoryName>> {
        match self.first.next() {
            Some(name) => Some(Ok(name)),
            None => self.read(),
        }
    }

    /// The next one that the file system gives and that is not hidden.
    fn read(&mut self) -> Option<io::Result<DirectoryName>> {
        loop {
            match self.rest.read()? {
                Ok(entry) if is_hidden(&entry) => {}
                Ok(entry) => return Some(Ok(DirectoryName::of(&entry))),
                Err(e) => return Some(Err(e.into())),
            }
        }
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
