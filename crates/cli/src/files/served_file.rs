//! A file that is served: open, with the state that it was opened in.
//!
//! Invariants: its length is that of the moment when it was opened; bytes that are kept are those of that state. A
//! worker asks for its state, and reads its bytes, only where the kernel has them in memory.
//! Locks: none.

use std::fs::File;
use std::io::IoSliceMut;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kern::Time;
use rustix::fs::Stat;
use rustix::io::ReadWriteFlags;

use super::contents::FileContents;
use crate::http::coding::Coding;
use crate::http::range::ByteRange;
use crate::http::representation::Representation;

/// How long the way to a file, and what lies beside it, is taken for the same.
pub(super) const VALID: Duration = Duration::from_secs(1);

/// A state of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct FileKey {
    device: u64,
    inode: u64,
    len: u64,
    modified: (i64, u64),
    changed: (i64, u64),
}

/// An open file: clone the handle freely.
#[derive(Clone, Debug)]
pub(crate) struct ServedFile(Arc<OpenFile>);

#[derive(Debug)]
struct OpenFile {
    file: Arc<File>,
    key: FileKey,
    modified: SystemTime,
    /// The kernel tells its state without waiting for a disk or a server.
    tells_at_once: bool,
    /// The last round in which it was in this state. AcqRel: that it was so is known with the number.
    unchanged: AtomicU64,
    contents: OnceLock<FileContents>,
    /// As answers show it under its own name.
    shown: OnceLock<Representation>,
    /// Until when, in nanoseconds of the loop's clock, it is taken for granted that no compressed file lies beside it,
    /// for each coding. Relaxed: nothing is published under it.
    alone_until: [AtomicU64; Coding::COUNT],
    /// A request has asked for its bytes. Relaxed: nothing is published under it.
    is_asked: AtomicBool,
    /// A thread reads its bytes. Relaxed: they are published by `contents`.
    is_filled: AtomicBool,
}

/// A round of a worker's loop in which requests are answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileRound {
    /// Greater than that of each round that began before.
    pub(super) number: u64,
    /// When it began, by the loop's clock and by the system's: one reading of each serves all its requests.
    pub(crate) now: Time,
    pub(crate) date: SystemTime,
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

    /// When it became this state, in seconds since 1970.
    pub(super) fn last_change(&self) -> i64 {
        self.modified.0.max(self.changed.0)
    }

    fn modified(&self) -> SystemTime {
        let (seconds, nanos) = self.modified;
        let since = Duration::from_secs(seconds.unsigned_abs());
        let modified = match seconds < 0 {
            true => UNIX_EPOCH.checked_sub(since),
            false => UNIX_EPOCH.checked_add(since),
        };
        modified.unwrap_or(UNIX_EPOCH) + Duration::from_nanos(nanos)
    }
}

impl ServedFile {
    /// A file that was opened, and tells its state at once or not.
    pub(super) fn new(fd: OwnedFd, stat: &Stat, tells_at_once: bool) -> ServedFile {
        let key = FileKey::of(stat);
        ServedFile(Arc::new(OpenFile {
            file: Arc::new(File::from(fd)),
            modified: key.modified(),
            key,
            tells_at_once,
            unchanged: AtomicU64::new(0),
            contents: OnceLock::new(),
            shown: OnceLock::new(),
            alone_until: Default::default(),
            is_asked: AtomicBool::new(false),
            is_filled: AtomicBool::new(false),
        }))
    }

    /// Bytes of it.
    pub(crate) fn len(&self) -> u64 {
        self.0.key.len
    }

    /// When it was last changed.
    pub(crate) fn modified(&self) -> SystemTime {
        self.0.modified
    }

    /// The number of its file system.
    pub(crate) fn device(&self) -> u64 {
        self.0.key.device
    }

    /// The file as answers show it that is asked for by its own name; the first one makes that.
    pub(crate) fn shown_as(&self, make: impl FnOnce() -> Representation) -> &Representation {
        self.0.shown.get_or_init(make)
    }

    /// Whether no file in this coding lay beside it a moment ago.
    pub(crate) fn is_alone(&self, coding: Coding, round: FileRound) -> bool {
        let until = self.0.alone_until.get(coding as usize);
        until.is_some_and(|until| round.now.as_nanos() < until.load(Ordering::Relaxed))
    }

    /// None lies there: that is taken for granted for [`VALID`].
    pub(crate) fn note_alone(&self, coding: Coding, round: FileRound) {
        let until = (round.now + VALID).as_nanos();
        let alone = self.0.alone_until.get(coding as usize);
        alone.inspect(|alone| alone.store(until, Ordering::Relaxed));
    }

    pub(super) fn key(&self) -> &FileKey {
        &self.0.key
    }

    pub(super) fn file(&self) -> &Arc<File> {
        &self.0.file
    }

    pub(super) fn tells_at_once(&self) -> bool {
        self.0.tells_at_once
    }

    /// Whether `other` is the same file in the same state, and of no more use.
    pub(super) fn is_same(&self, other: &ServedFile) -> bool {
        self.0.key == other.0.key && self.0.tells_at_once >= other.0.tells_at_once
    }

    /// Whether the file is there, and in the state that it was opened in; the kernel is asked once a round.
    pub(super) fn is_unchanged(&self, round: FileRound) -> bool {
        if self.0.unchanged.load(Ordering::Acquire) >= round.number {
            return true;
        }
        let same = self.has_state();
        if same {
            self.note_unchanged(round);
        }
        same
    }

    /// It was seen in this state in the round.
    pub(super) fn note_unchanged(&self, round: FileRound) {
        self.0.unchanged.fetch_max(round.number, Ordering::AcqRel);
    }

    /// Whether the file is in the state that it was opened in. Its name is part of that: to be removed, or to give its
    /// name to another file, changes it.
    pub(super) fn has_state(&self) -> bool {
        let stat = rustix::fs::fstat(self.file());
        stat.is_ok_and(|stat| stat.st_nlink > 0 && FileKey::of(&stat) == self.0.key)
    }

    /// Bytes of it, if they are kept in a buffer.
    pub(crate) fn kept(&self, range: ByteRange) -> Option<&[u8]> {
        let FileContents::Bytes(bytes, _) = self.contents()? else {
            return None;
        };
        let start = usize::try_from(range.start).ok()?;
        let len = usize::try_from(range.len).ok()?;
        bytes.get(start..start.checked_add(len)?)
    }

    /// Its bytes, if they are kept.
    pub(super) fn contents(&self) -> Option<&FileContents> {
        self.0.contents.get()
    }

    /// Keeps its bytes.
    pub(super) fn keep(&self, contents: FileContents) -> Option<&FileContents> {
        // Another thread may have read them as well.
        let _ = self.0.contents.set(contents);
        self.contents()
    }

    /// Whether its bytes were asked for before.
    pub(super) fn is_asked_again(&self) -> bool {
        self.0.is_asked.swap(true, Ordering::Relaxed)
    }

    /// False if a thread reads its bytes already.
    pub(super) fn begin_fill(&self) -> bool {
        !self.0.is_filled.swap(true, Ordering::Relaxed)
    }

    pub(super) fn end_fill(&self) {
        self.0.is_filled.store(false, Ordering::Relaxed);
    }

    /// All bytes of it, if all are in memory and it is in its state.
    pub(super) fn read_resident(&self) -> Option<Vec<u8>> {
        let mut bytes = vec![0; usize::try_from(self.len()).ok()?];
        let mut room = [IoSliceMut::new(&mut bytes)];
        let read = rustix::io::preadv2(self.file(), &mut room, 0, ReadWriteFlags::NOWAIT);
        (read == Ok(bytes.len()) && self.has_state()).then_some(bytes)
    }
}
