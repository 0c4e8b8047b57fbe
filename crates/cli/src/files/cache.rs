//! Files in memory: copies in sealed memfds, whose pages connections send without copying them.
//!
//! ```text
//!   request --> key of the open file --> there: its pages are lent
//!                                    '-> not:   the file is read as ever; at the second request in a while a reader's
//!                                               thread makes a copy
//! ```
//!
//! The key says device, inode, length and both times of change, so a file that was changed or replaced has another key. A
//! file that was changed a moment ago is not copied: it could change again without another time.
//!
//! | bound | how |
//! |---|---|
//! | bytes | a copy is charged before it is made, until its last page is acknowledged by the last client; without room for it there is none |
//! | copies | [`COPIES_MAX`], since the kernel bounds the mappings of a process |
//! | one file | a [`FILE_SHARE`]th of all bytes |
//!
//! For room, the copy goes that was not used since the last time that one had to go (CLOCK).
//!
//! Invariants: the charges are never more than the bound; a copy has all bytes of the file with its key.
//! Locks: `state` (TASKQUEUE): no file is read, and no copy dropped, under it.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use kern::{LockClass, Mutex, order};
use mbuf::MemfdPages;
use mbuma::socket::SealedFile;
use rustix::fs::{MemfdFlags, SealFlags, Stat};

use super::readers::FileReaders;

static STATE: LockClass = LockClass::new("file cache", order::TASKQUEUE);

/// Copies at most.
const COPIES_MAX: usize = 16 << 10;
/// A file takes one part in so many at most.
const FILE_SHARE: u64 = 4;
/// Shorter files are read: that costs less than a mapping.
const LEN_MIN: u64 = 16 << 10;
/// Keys of files that were asked for once.
const SEEN_MAX: usize = 4096;
/// Copies being made at once, at most.
const FILLING_MAX: usize = 16;
/// Seconds without a change that make a file one to copy.
const QUIET: i64 = 2;
/// Bytes of a read.
const PIECE: usize = 256 << 10;
/// Copies take whole pages.
const PAGE: u64 = 4096;

/// A state of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FileKey {
    pub(super) device: u64,
    inode: u64,
    len: u64,
    modified: (i64, u64),
    changed: (i64, u64),
}

impl FileKey {
    pub(super) fn of(stat: &Stat) -> FileKey {
        FileKey {
            device: stat.st_dev,
            inode: stat.st_ino,
            len: stat.st_size.unsigned_abs(),
            modified: (stat.st_mtime, stat.st_mtime_nsec),
            changed: (stat.st_ctime, stat.st_ctime_nsec),
        }
    }

    /// Whether its last change is some time ago, or its times are no times of this clock.
    fn is_quiet(&self, now: i64) -> bool {
        let last = self.modified.0.max(self.changed.0);
        last + QUIET <= now
    }
}

/// The copies: clone the handle freely.
#[derive(Clone)]
pub(crate) struct FileCache(Arc<SharedCache>);

struct SharedCache {
    /// Bytes of all copies at most.
    max: u64,
    /// Those that are charged. AcqRel: the thread that finds room sees that the pages of others are gone.
    charged: Arc<AtomicU64>,
    readers: FileReaders,
    state: Mutex<CacheState>,
}

#[derive(Default)]
struct CacheState {
    copies: HashMap<FileKey, FileCopy>,
    /// The hand of the clock is at the front.
    clock: VecDeque<FileKey>,
    filling: HashSet<FileKey>,
    seen: HashSet<FileKey>,
    /// The same in their order.
    order: VecDeque<FileKey>,
}

struct FileCopy {
    file: Arc<SealedFile>,
    used: bool,
}

/// The charge of a copy.
#[derive(Debug)]
struct CopyCharge {
    bytes: u64,
    charged: Arc<AtomicU64>,
}

impl Drop for CopyCharge {
    fn drop(&mut self) {
        self.charged.fetch_sub(self.bytes, Ordering::AcqRel);
    }
}

impl FileCache {
    /// Of `max` bytes; of none, there are no copies.
    pub(crate) fn new(max: u64, readers: FileReaders) -> FileCache {
        FileCache(Arc::new(SharedCache {
            max,
            charged: Arc::default(),
            readers,
            state: Mutex::new(&STATE, CacheState::default()),
        }))
    }

    /// The copy of a file, if there is one. If there should be one, a thread begins to make it.
    pub(super) fn find(&self, file: &Arc<File>, key: &FileKey) -> Option<Arc<SealedFile>> {
        if key.len < LEN_MIN || key.len > self.0.max / FILE_SHARE {
            return None;
        }
        let mut state = self.0.state.lock();
        if let Some(copy) = state.copies.get_mut(key) {
            copy.used = true;
            return Some(Arc::clone(&copy.file));
        }
        if state.wants(key) {
            drop(state);
            let (cache, file, key) = (Arc::clone(&self.0), Arc::clone(file), *key);
            self.0
                .readers
                .run(key.device, move || cache.fill(&file, &key));
        }
        None
    }

    /// Bytes that the copies take.
    #[cfg(test)]
    fn charged(&self) -> u64 {
        self.0.charged.load(Ordering::Acquire)
    }
}

impl CacheState {
    /// Whether the file was asked for a moment ago, too.
    fn wants(&mut self, key: &FileKey) -> bool {
        if self.seen.insert(*key) {
            self.order.push_back(*key);
            if self.order.len() > SEEN_MAX
                && let Some(oldest) = self.order.pop_front()
            {
                self.seen.remove(&oldest);
            }
            return false;
        }
        key.is_quiet(now()) && self.filling.len() < FILLING_MAX && self.filling.insert(*key)
    }

    /// Takes out the copy that was not used for the longest time, about.
    fn evict(&mut self) -> Option<FileCopy> {
        // After one round all marks are gone.
        for _ in 0..=2 * self.clock.len() {
            let key = self.clock.pop_front()?;
            match self.copies.get_mut(&key) {
                Some(copy) if copy.used => {
                    copy.used = false;
                    self.clock.push_back(key);
                }
                _ => return self.copies.remove(&key),
            }
        }
        None
    }
}

impl SharedCache {
    /// Makes a copy. Without one the file is read at each request.
    fn fill(&self, file: &File, key: &FileKey) {
        let copy = self.charge(key.len.next_multiple_of(PAGE));
        let copy = copy.and_then(|charge| copy_of(file, key, charge).ok());
        let mut state = self.state.lock();
        state.filling.remove(key);
        if let Some(file) = copy {
            let file = Arc::new(file);
            state.copies.insert(*key, FileCopy { file, used: false });
            state.clock.push_back(*key);
        }
    }

    /// Makes room; none if others need what there is.
    fn charge(&self, bytes: u64) -> Option<CopyCharge> {
        loop {
            let mut state = self.state.lock();
            let room = state.copies.len() < COPIES_MAX;
            let max = self.max.checked_sub(bytes).filter(|_| room);
            let charged = max.and_then(|max| {
                let add = |charged| (charged <= max).then_some(charged + bytes);
                let (set, fetch) = (Ordering::AcqRel, Ordering::Acquire);
                self.charged.fetch_update(set, fetch, add).ok()
            });
            if charged.is_some() {
                return Some(CopyCharge {
                    bytes,
                    charged: Arc::clone(&self.charged),
                });
            }
            let evicted = state.evict();
            drop(state);
            // Its charge goes here, unless a connection still sends it.
            evicted?;
        }
    }
}

/// A copy of a file in the state that `key` names.
fn copy_of(file: &File, key: &FileKey, charge: CopyCharge) -> io::Result<SealedFile> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let mut copy = File::from(rustix::fs::memfd_create("mbuma-file", flags)?);
    let mut piece = vec![0; PIECE.min(usize::try_from(key.len).unwrap_or(PIECE))];
    let mut at = 0;
    while at < key.len {
        let wanted = usize::try_from(key.len - at).map_or(PIECE, |left| left.min(PIECE));
        let room = piece.get_mut(..wanted).unwrap_or_default();
        let n = match file.read_at(room, at) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Err(e) if e.kind() == ErrorKind::Interrupted => continue,
            other => other?,
        };
        copy.write_all(room.get(..n).unwrap_or_default())?;
        at += n as u64;
    }
    if FileKey::of(&rustix::fs::fstat(file)?) != *key {
        return Err(ErrorKind::StaleNetworkFileHandle.into());
    }
    let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE | SealFlags::SEAL;
    rustix::fs::fcntl_add_seals(&copy, seals)?;
    let pages = MemfdPages::new(OwnedFd::from(copy))?;
    Ok(SealedFile::with_guard(pages, charge))
}

/// Seconds since 1970.
fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| i64::try_from(now.as_secs()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests;
