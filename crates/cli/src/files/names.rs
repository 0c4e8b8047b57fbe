//! The names in a directory, one after the other, in bounded memory.
//!
//! A directory with few names gives them in order; of a larger one the first [`BATCH_MAX`] are in order, and the others
//! come as the file system has them.
//!
//! A client that does not read its listing keeps a batch of names. All batches share one room ([`NamesRoom`]); a batch
//! that gets no more of it ends early, so then listings are read in smaller pieces, and not all in order.
//!
//! Invariants: hidden names are left out, as their files are not served. Reading may wait for a disk, taking does not.
//! A batch has no more bytes than its charge, unless it has no more than [`FEW`] names.
//! Locks: none.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{Dir, DirEntry, FileType};

use super::contents::BytesCharge;

/// The most names that one call reads, which takes a quarter of a millisecond.
const BATCH_MAX: usize = 1024;
/// Names that a batch may have without a charge, so that each listing continues.
pub(super) const FEW: usize = 16;
/// Bytes of the names that all listings keep, but for those [`FEW`].
const ROOM: u64 = 4 << 20;
/// A batch is charged in steps of so many bytes.
const CHARGE_STEP: u64 = 4 << 10;

/// The memory for the names of all listings: clone the handle freely.
#[derive(Clone)]
pub(crate) struct NamesRoom {
    /// AcqRel: the thread that finds room sees that the names of others are gone.
    charged: Arc<AtomicU64>,
    max: u64,
}

/// A directory that is being read.
pub(crate) struct DirectoryNames {
    /// The names that were read, and how many of them were taken.
    batch: NameBatch,
    taken: usize,
    /// The directory, until all of it was read.
    rest: Option<Dir>,
    device: u64,
    room: NamesRoom,
}

/// Names, one behind the other.
#[derive(Default)]
struct NameBatch {
    bytes: Vec<u8>,
    names: Vec<NameAt>,
    charges: Vec<BytesCharge>,
}

/// A name's place in the batch.
#[derive(Clone, Copy)]
struct NameAt {
    start: u32,
    len: u16,
    is_directory: bool,
}

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DirectoryName {
    pub(crate) bytes: Vec<u8>,
    pub(crate) is_directory: bool,
}

impl NamesRoom {
    pub(super) fn with_max(max: u64) -> NamesRoom {
        NamesRoom {
            charged: Arc::default(),
            max,
        }
    }

    /// A step's charge, if there is room.
    fn charge(&self) -> Option<BytesCharge> {
        let add = |charged| Some(charged + CHARGE_STEP).filter(|sum| *sum <= self.max);
        let (set, fetch) = (Ordering::AcqRel, Ordering::Acquire);
        self.charged.fetch_update(set, fetch, add).ok()?;
        let charged = Arc::clone(&self.charged);
        Some(BytesCharge {
            bytes: CHARGE_STEP,
            charged,
        })
    }

    #[cfg(test)]
    pub(super) fn charged(&self) -> u64 {
        self.charged.load(Ordering::Acquire)
    }
}

impl Default for NamesRoom {
    fn default() -> Self {
        NamesRoom::with_max(ROOM)
    }
}

impl DirectoryNames {
    /// Reads the directory's first names.
    ///
    /// # Errors
    /// It can't be read.
    pub(crate) fn of(directory: OwnedFd, room: &NamesRoom) -> io::Result<DirectoryNames> {
        let device = rustix::fs::fstat(&directory)?.st_dev;
        let mut names = DirectoryNames {
            batch: NameBatch::default(),
            taken: 0,
            rest: Some(Dir::new(directory)?),
            device,
            room: room.clone(),
        };
        names.read_more()?;
        names.batch.sort();
        Ok(names)
    }

    /// The number of its file system.
    pub(crate) fn device(&self) -> u64 {
        self.device
    }

    /// The next of the names that were read.
    pub(crate) fn next(&mut self) -> Option<DirectoryName> {
        let name = self.batch.get(self.taken)?;
        self.taken += 1;
        Some(name)
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
        (self.batch, self.taken) = (NameBatch::default(), 0);
        while self.batch.may_grow(&self.room)
            && let Some(directory) = &mut self.rest
        {
            match directory.read().transpose()? {
                Some(entry) if is_hidden(&entry) => {}
                Some(entry) => self.batch.push(&entry),
                None => self.rest = None,
            }
        }
        self.batch.bytes.shrink_to_fit();
        self.batch.names.shrink_to_fit();
        Ok(())
    }

    /// Bytes of memory that the names take.
    #[cfg(test)]
    pub(super) fn kept(&self) -> u64 {
        self.batch.len(0)
    }
}

impl NameBatch {
    /// Bytes of memory with another name of `more` bytes.
    fn len(&self, more: usize) -> u64 {
        let names = self.names.len() + usize::from(more > 0);
        (self.bytes.len() + more + names * size_of::<NameAt>()) as u64
    }

    /// Whether there is room for another name, whatever its length.
    fn may_grow(&mut self, room: &NamesRoom) -> bool {
        const NAME_MAX: usize = 255;
        let count = self.names.len();
        if self.len(NAME_MAX) > self.charges.len() as u64 * CHARGE_STEP {
            self.charges.extend(room.charge());
        }
        let is_charged = self.len(NAME_MAX) <= self.charges.len() as u64 * CHARGE_STEP;
        count < FEW || count < BATCH_MAX && is_charged
    }

    fn push(&mut self, entry: &DirEntry) {
        let name = entry.file_name().to_bytes();
        self.names.push(NameAt {
            start: self.bytes.len() as u32,
            len: name.len() as u16,
            is_directory: entry.file_type() == FileType::Directory,
        });
        self.bytes.extend_from_slice(name);
    }

    fn get(&self, index: usize) -> Option<DirectoryName> {
        let name = self.names.get(index)?;
        Some(DirectoryName {
            bytes: name.of(&self.bytes).to_vec(),
            is_directory: name.is_directory,
        })
    }

    fn sort(&mut self) {
        let bytes = &self.bytes;
        self.names.sort_unstable_by_key(|name| name.of(bytes));
    }
}

impl NameAt {
    fn of(self, bytes: &[u8]) -> &[u8] {
        let rest = bytes.get(self.start as usize..).unwrap_or_default();
        rest.get(..usize::from(self.len)).unwrap_or(rest)
    }
}

fn is_hidden(entry: &DirEntry) -> bool {
    entry.file_name().to_bytes().starts_with(b".")
}

kern::impl_debug!(DirectoryNames);
