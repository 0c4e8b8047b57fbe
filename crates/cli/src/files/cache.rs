//! Files that were asked for a moment ago: open, and with their bytes in memory.
//!
//! | an entry, one for each path, has | from | for |
//! |---|---|---|
//! | the open file | the first request | a request then costs one fstat(2), or none if another one of the round made it |
//! | the bytes: up to [`SMALL_MAX`] in a buffer, others in a sealed memfd, whose pages connections send without copying them | the second request | no read |
//!
//! No client gets a state of the tree that is over, within these bounds:
//!
//! | change | is seen |
//! |---|---|
//! | of the file: written, cut, renamed, replaced, removed, other rights | in the next round of the worker's loop: the open file tells another state ([`FileKey`]) |
//! | of the way to it: another directory, link or mount, other rights | after [`VALID`]: then the path is looked up as at first |
//! | a compressed file comes to lie beside it | after [`VALID`] |
//! | by a mapping of another program | with its time of change, which the kernel does not set at each store |
//!
//! A file that was changed a moment ago is read at each request: it could change again without another time.
//!
//! | bound | how |
//! |---|---|
//! | bytes | those of a file are charged before they are read, until the last client has acknowledged them; without room for them there are none |
//! | files | as many as [`FileCache::new`] is told, [`FILES_MAX`] at most: each has a descriptor, and may have a mapping |
//! | one file | a [`FILE_SHARE`]th of all bytes |
//! | time | an entry that no request used for [`IDLE`] goes, so that no removed file keeps its place on the disk |
//!
//! For room, the entry goes that was not used since the last time that one had to go (CLOCK).
//!
//! Invariants: the charges are never more than the bound; the bytes of an entry are those of its file's state.
//! `entries` and `clock` have the same paths.
//! Locks: `state` (TASKQUEUE): no file is opened, read or closed, and no bytes are dropped, under it.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kern::{LockClass, Mutex, Time, order};
use mbuf::MemfdPages;
use mbuma::socket::{SealedFile, SendFile};
use rustix::fs::{MemfdFlags, SealFlags};

use super::contents::{BytesCharge, FileContents};
use super::readers::FileReaders;
use super::served_file::{FileKey, FileRound, ServedFile, VALID};
use super::{FoundEntry, NotInMemory, ServedTree};
use crate::http::range::ByteRange;

static STATE: LockClass = LockClass::new("file cache", order::TASKQUEUE);

/// Entries at most: the kernel bounds the mappings of a process.
const FILES_MAX: usize = 16 << 10;
/// How long an entry stays that no request uses.
pub(crate) const IDLE: Duration = Duration::from_secs(30);
/// A file takes one part in so many of the bytes at most.
const FILE_SHARE: u64 = 4;
/// Bytes of a small file at most: copying them costs less than a mapping.
const SMALL_MAX: u64 = 16 << 10;
/// Memfds being filled at once, at most.
const FILLING_MAX: usize = 16;
/// See [`SharedCache::quiet`].
const QUIET: i64 = 2;
/// Bytes of a read.
const PIECE: usize = 256 << 10;
/// Memfds take whole pages.
const PAGE: u64 = 4096;
/// Entries that a worker lets go at most for the room of one file.
const EVICT_MAX: usize = 16;
/// Entries that are looked at for one that goes.
const LOOK_MAX: usize = 64;
/// Entries that are looked at under the lock at once.
const SWEEP_PIECE: usize = 256;

/// The files: clone the handle freely.
#[derive(Clone)]
pub(crate) struct FileCache(Arc<SharedCache>);

struct SharedCache {
    files_max: usize,
    /// Bytes of all files at most.
    bytes_max: u64,
    /// Those that are charged. AcqRel: the thread that finds room sees that the bytes of others are gone.
    charged: Arc<AtomicU64>,
    readers: FileReaders,
    filling: AtomicUsize,
    /// Seconds without a change that make a file one to keep the bytes of.
    quiet: i64,
    /// Rounds of all workers so far.
    rounds: AtomicU64,
    state: Mutex<CacheState>,
}

#[derive(Default)]
struct CacheState {
    entries: HashMap<Arc<[u8]>, CacheEntry>,
    /// The hand of the clock is at the front.
    clock: VecDeque<Arc<[u8]>>,
}

struct CacheEntry {
    /// None if the file has gone.
    file: Option<ServedFile>,
    /// When the path was last looked up.
    found: Time,
    used: bool,
}

impl FileCache {
    /// Of `files` entries at most, and of `bytes`.
    pub(crate) fn new(files: usize, bytes: u64, readers: FileReaders) -> FileCache {
        FileCache::with_quiet(files, bytes, readers, QUIET)
    }

    fn with_quiet(files: usize, bytes: u64, readers: FileReaders, quiet: i64) -> FileCache {
        FileCache(Arc::new(SharedCache {
            files_max: files.min(FILES_MAX),
            bytes_max: bytes,
            charged: Arc::default(),
            readers,
            filling: AtomicUsize::new(0),
            quiet,
            rounds: AtomicU64::new(0),
            state: Mutex::new(&STATE, CacheState::default()),
        }))
    }

    /// A round begins: what was found in earlier ones is asked for its state again.
    pub(crate) fn round(&self, now: Time) -> FileRound {
        // AcqRel: with the greater number goes all that was there when the earlier round began.
        let number = self.0.rounds.fetch_add(1, Ordering::AcqRel) + 1;
        FileRound {
            number,
            now,
            date: SystemTime::now(),
        }
    }

    /// The entry at `path` without waiting for a disk.
    ///
    /// # Errors
    /// Those of [`ServedTree::find_in_memory`].
    pub(crate) fn find_in_memory(
        &self,
        tree: &ServedTree,
        path: &[u8],
        round: FileRound,
    ) -> Result<io::Result<FoundEntry>, NotInMemory> {
        if let Some(file) = self.kept(path, round)
            && file.is_unchanged(round)
        {
            return Ok(Ok(FoundEntry::File(file)));
        }
        let found = tree.find_in_memory(path)?;
        Ok(self.note(path, found, round))
    }

    /// The same for a thread that may wait: it looks the path up in any case.
    ///
    /// # Errors
    /// Those of [`ServedTree::find`].
    pub(crate) fn find_waiting(
        &self,
        tree: &ServedTree,
        path: &[u8],
        round: FileRound,
    ) -> io::Result<FoundEntry> {
        self.note(path, tree.find(path), round)
    }

    /// The file at `path` that was found a moment ago, if a worker may ask for its state.
    fn kept(&self, path: &[u8], FileRound { now, .. }: FileRound) -> Option<ServedFile> {
        let mut state = self.0.state.lock();
        let entry = state.entries.get_mut(path)?;
        if now >= entry.found + VALID {
            return None;
        }
        entry.used = true;
        let file = entry.file.as_ref()?;
        file.tells_at_once().then(|| file.clone())
    }

    /// Keeps a file that was found. If it is the one that there is, in the same state, its bytes stay.
    fn note(
        &self,
        path: &[u8],
        found: io::Result<FoundEntry>,
        round: FileRound,
    ) -> io::Result<FoundEntry> {
        let Ok(FoundEntry::File(file)) = found else {
            let gone = self.forget(path);
            drop(gone);
            return found;
        };
        let (file, out) = self.0.put(path, file, round);
        drop(out);
        Ok(FoundEntry::File(file))
    }

    fn forget(&self, path: &[u8]) -> Option<ServedFile> {
        self.0.state.lock().entries.get_mut(path)?.file.take()
    }

    /// The job that sends `range` of a file: by reference, if its bytes are kept in pages, else what is in memory. None
    /// if they are kept in a buffer ([`ServedFile::kept`]).
    pub(crate) fn send(&self, file: &ServedFile, range: ByteRange) -> Option<SendFile> {
        let range = range.start..range.start.saturating_add(range.len);
        let mut job = match self.contents(file) {
            Some(FileContents::Bytes(..)) => return None,
            Some(FileContents::Sealed(copy)) => SendFile::sealed(Arc::clone(copy), range),
            None => SendFile::new(Arc::clone(file.file()), range),
        };
        job.set_resident_only(true);
        Some(job)
    }

    /// The bytes of a file, if they are kept. If they should be, they are read: those of a small file now, as far as
    /// they are in memory, and of another one by a thread.
    fn contents<'a>(&self, file: &'a ServedFile) -> Option<&'a FileContents> {
        if let Some(contents) = file.contents() {
            return Some(contents);
        }
        let (len, quiet) = (file.len(), self.0.quiet);
        if !self.0.fits(len) || !file.is_asked_again() || !file.key().is_quiet(seconds(), quiet) {
            return None;
        }
        if len <= SMALL_MAX {
            let charge = self.0.charge(len, EVICT_MAX)?;
            let bytes = file.read_resident()?;
            return file.keep(FileContents::Bytes(bytes, charge));
        }
        self.fill_later(file);
        None
    }

    /// Has a thread read a file.
    fn fill_later(&self, file: &ServedFile) {
        let filling = &self.0.filling;
        if !file.begin_fill() {
            return;
        }
        // A bound for fairness, under which nothing is published.
        if filling.fetch_add(1, Ordering::Relaxed) >= FILLING_MAX {
            filling.fetch_sub(1, Ordering::Relaxed);
            return file.end_fill();
        }
        let (cache, file) = (Arc::clone(&self.0), file.clone());
        self.0.readers.run(file.device(), move || {
            cache.fill(&file);
            cache.filling.fetch_sub(1, Ordering::Relaxed);
            file.end_fill();
        });
    }

    /// Lets entries go that were not used for a while, in another thread. False if there are none at all.
    pub(crate) fn sweep_later(&self, now: Time) -> bool {
        if self.0.state.lock().entries.is_empty() {
            return false;
        }
        let cache = Arc::clone(&self.0);
        self.0.readers.run(0, move || cache.sweep(now));
        true
    }

    /// Bytes that the files take.
    #[cfg(test)]
    fn charged(&self) -> u64 {
        self.0.charged.load(Ordering::Acquire)
    }
}

impl CacheState {
    /// Takes out the entry that was not used for the longest time, about.
    fn evict(&mut self) -> Option<CacheEntry> {
        for looked in 1..=LOOK_MAX {
            let path = self.clock.pop_front()?;
            match self.entries.get_mut(&path) {
                Some(entry) if entry.used && looked < LOOK_MAX => {
                    entry.used = false;
                    self.clock.push_back(path);
                }
                _ => return self.entries.remove(&path),
            }
        }
        None
    }

    /// Takes out those of the next few entries that were last found before `since`.
    fn take_idle(&mut self, count: usize, since: Time) -> Vec<CacheEntry> {
        let mut out = Vec::new();
        for _ in 0..count.min(self.clock.len()) {
            let Some(path) = self.clock.pop_front() else {
                break;
            };
            match self.entries.get(&path) {
                Some(entry) if entry.found >= since => self.clock.push_back(path),
                _ => out.extend(self.entries.remove(&path)),
            }
        }
        out
    }
}

impl SharedCache {
    /// Whether a file of `len` bytes may have them kept.
    fn fits(&self, len: u64) -> bool {
        len > 0 && len <= self.bytes_max / FILE_SHARE
    }

    /// Puts a file in the place of the one at this path, unless that is the same; gives the one that is there, and
    /// those that go.
    fn put(
        &self,
        path: &[u8],
        file: ServedFile,
        round: FileRound,
    ) -> (ServedFile, [Option<ServedFile>; 2]) {
        file.note_unchanged(round);
        let mut state = self.state.lock();
        if let Some(entry) = state.entries.get_mut(path) {
            (entry.found, entry.used) = (round.now, true);
            if let Some(old) = &entry.file
                && old.is_same(&file)
            {
                let old = old.clone();
                old.note_unchanged(round);
                return (old, [Some(file), None]);
            }
            let old = entry.file.replace(file.clone());
            return (file, [old, None]);
        }
        if self.files_max == 0 {
            return (file, [None, None]);
        }
        let full = state.entries.len() >= self.files_max;
        let evicted = full.then(|| state.evict()).flatten();
        let path = Arc::<[u8]>::from(path);
        state.clock.push_back(Arc::clone(&path));
        let entry = CacheEntry {
            file: Some(file.clone()),
            found: round.now,
            used: false,
        };
        state.entries.insert(path, entry);
        (file, [evicted.and_then(|entry| entry.file), None])
    }

    /// Reads a file to a memfd. Without one it is read at each request.
    fn fill(&self, file: &ServedFile) {
        let charge = self.charge(file.len().next_multiple_of(PAGE), usize::MAX);
        if let Some(copy) = charge.and_then(|charge| copy_of(file, charge).ok()) {
            file.keep(FileContents::Sealed(Arc::new(copy)));
        }
    }

    /// Makes room by letting so many entries go at most; none if others need what there is.
    fn charge(&self, bytes: u64, evict_max: usize) -> Option<BytesCharge> {
        let max = self.bytes_max.checked_sub(bytes)?;
        for _ in 0..=evict_max {
            let add = |charged| (charged <= max).then_some(charged + bytes);
            let (set, fetch) = (Ordering::AcqRel, Ordering::Acquire);
            if self.charged.fetch_update(set, fetch, add).is_ok() {
                let charged = Arc::clone(&self.charged);
                return Some(BytesCharge { bytes, charged });
            }
            let evicted = self.state.lock().evict();
            // Its charge goes here, unless a connection still sends it.
            evicted?;
        }
        None
    }

    /// Lets entries go that no request used in the last [`IDLE`] before `now`.
    fn sweep(&self, now: Time) {
        let since = Time::from_nanos(now.as_nanos().saturating_sub(IDLE.as_nanos() as u64));
        let mut left = self.state.lock().clock.len();
        while left > 0 {
            let piece = left.min(SWEEP_PIECE);
            left -= piece;
            let idle = self.state.lock().take_idle(piece, since);
            drop(idle);
        }
    }
}

/// A copy of a file in the state that it was opened in.
fn copy_of(file: &ServedFile, charge: BytesCharge) -> io::Result<SealedFile> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let mut copy = File::from(rustix::fs::memfd_create("mbuma-file", flags)?);
    let mut piece = vec![0; PIECE.min(usize::try_from(file.len()).unwrap_or(PIECE))];
    let mut at = 0;
    while at < file.len() {
        let wanted = usize::try_from(file.len() - at).map_or(PIECE, |left| left.min(PIECE));
        let room = piece.get_mut(..wanted).unwrap_or_default();
        let n = match file.file().read_at(room, at) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Err(e) if e.kind() == ErrorKind::Interrupted => continue,
            other => other?,
        };
        copy.write_all(room.get(..n).unwrap_or_default())?;
        at += n as u64;
    }
    if !file.has_state() {
        return Err(ErrorKind::StaleNetworkFileHandle.into());
    }
    let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE | SealFlags::SEAL;
    rustix::fs::fcntl_add_seals(&copy, seals)?;
    let pages = MemfdPages::new(OwnedFd::from(copy))?;
    Ok(SealedFile::with_guard(pages, charge))
}

/// Seconds since 1970.
fn seconds() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| i64::try_from(now.as_secs()).unwrap_or(i64::MAX))
}

impl FileKey {
    /// Whether its last change is some time ago, or its times are no times of this clock.
    fn is_quiet(&self, now: i64, quiet: i64) -> bool {
        self.last_change().saturating_add(quiet) <= now
    }
}

#[cfg(test)]
mod tests;
