//! A response on its way: its parts, one after the other, into the send buffer.
//!
//! ```text
//!   [ head | bytes of the file .......... ]     one job of send_file
//!     copied   read into clusters, which stay its storage until they are acknowledged; TLS seals them
//!
//!   [ head | a small file whose bytes are kept ]     one chain, to which both are copied
//! ```
//!
//! If bytes of a file or names of a directory are not in memory, another thread reads them, and the connection waits
//! ([`reading`](super::reading)).
//!
//! Invariants: a file is read only when the send buffer has room for the bytes, and no worker waits for a disk.
//! Locks: none.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use mbuf::{Chain, MbufPool};
use mbuma::runtime::TaskWaker;
use mbuma::socket::{MaybeTlsStream, SendFile, SendFileError, SocketError};
use mbuma::tls::TlsError;

use super::FileStorage;
use super::reading::DiskWait;
use super::respond::{Response, Source};
use crate::files::{DirectoryNames, FileCache, FileReaders};
use crate::gateway::shared::Shared;
use crate::http::listing;
use crate::http::plan::BodyPart;
use crate::http::status::HttpStatus;
use crate::http::target::FilePath;

/// Room in the send buffer that makes a read worth its system call: see [`relay`](crate::gateway::relay).
const SPACE_MIN: usize = 16 << 10;
/// About as many bytes of a listing are made at a time.
const PAGE_PIECE: usize = 8 << 10;

/// A response that is being sent.
pub(super) struct Sending {
    pub(super) status: HttpStatus,
    /// The connection ends after it.
    pub(super) last: bool,
    parts: VecDeque<BodyPart>,
    /// Bytes in buffers that the stream has not taken, before the parts.
    gathered: Chain,
    source: Source,
    /// The file that is being sent.
    job: Option<SendFile>,
    /// The same, while a thread reads.
    reading: Option<DiskWait<(DiskJob, io::Result<()>)>>,
    /// The beginning of the page was made.
    has_begun: bool,
    head_len: u64,
    sent: u64,
}

/// The part of a response for which a thread reads.
enum DiskJob {
    File(SendFile),
    Names(Source),
}

impl DiskJob {
    fn read(&mut self) -> io::Result<()> {
        match self {
            DiskJob::File(job) => job.read_ahead(),
            DiskJob::Names(Source::Names(_, names)) => names.read_more(),
            DiskJob::Names(_) => Ok(()),
        }
    }
}

/// The result of a turn.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SendProgress {
    /// All of it is in the send buffer.
    All,
    /// The send buffer has no room.
    Full,
    /// There is more, and no turn left for it.
    Part,
    /// There are no clusters now.
    NoBufs,
    /// A thread reads the next bytes; the connection is woken.
    Reads,
}

/// The result of a step.
enum PushStep {
    Bytes(usize),
    Stopped(SendProgress),
}

/// Why a response ends before its end.
#[derive(Debug)]
pub(super) enum Failed {
    /// The connection is over.
    Connection,
    /// The file can't be read, or is shorter than it was.
    File,
    /// There is no memory for a copy now.
    NoBufs,
}

impl Sending {
    /// Begins to send.
    pub(super) fn new((plan, source): Response) -> Sending {
        Sending {
            status: plan.status,
            last: plan.last,
            head_len: plan.head_len as u64,
            parts: plan.parts.into(),
            gathered: Chain::new(),
            source,
            job: None,
            reading: None,
            has_begun: false,
            sent: 0,
        }
    }

    /// Whether a thread reads the next bytes.
    pub(super) fn is_reading(&self) -> bool {
        self.reading.is_some()
    }

    /// Bytes in the send buffer, or beyond.
    pub(super) fn sent(&self) -> u64 {
        self.sent
    }

    /// Those of the body.
    pub(super) fn body_sent(&self) -> u64 {
        self.sent.saturating_sub(self.head_len)
    }

    /// Moves as many bytes into the send buffer as fit, and takes them off the turn's `budget`.
    pub(super) fn push(
        &mut self,
        stream: &MaybeTlsStream,
        shared: &mut Shared,
        storage: &FileStorage,
        wake: &Arc<TaskWaker>,
        budget: &mut usize,
    ) -> Result<SendProgress, Failed> {
        if self.still_reads()? {
            return Ok(SendProgress::Reads);
        }
        while !self.is_done() {
            if *budget < SPACE_MIN {
                return Ok(SendProgress::Part);
            }
            if self.job.is_none() && self.gathered.is_empty() {
                self.job = self.next_file(&storage.cache)?;
                let copies = self.job.iter().filter(|job| job.is_by_reference());
                shared.counters.files_from_copies += copies.count() as u64;
            }
            let moved = match &mut self.job {
                Some(job) => push_file(stream, job, *budget),
                None => self.push_bytes(stream, shared, *budget),
            };
            let moved = match moved? {
                PushStep::Bytes(moved) => moved,
                PushStep::Stopped(SendProgress::Reads) => {
                    shared.counters.file_reads += 1;
                    self.read(&storage.readers, wake);
                    return Ok(SendProgress::Reads);
                }
                PushStep::Stopped(progress) => return Ok(progress),
            };
            self.job.take_if(|job| job.is_done());
            self.sent += moved as u64;
            shared.counters.http_bytes += moved as u64;
            *budget = budget.saturating_sub(moved);
        }
        Ok(SendProgress::All)
    }

    fn is_done(&self) -> bool {
        self.job.is_none() && self.gathered.is_empty() && self.parts.is_empty()
    }

    /// Lets a thread read for the job, or the next names.
    fn read(&mut self, readers: &FileReaders, wake: &Arc<TaskWaker>) {
        let device = match &self.source {
            Source::File(file) => file.device(),
            Source::Names(_, names) => names.device(),
            Source::Plan => return,
        };
        let mut job = match self.job.take() {
            Some(job) => DiskJob::File(job),
            None => DiskJob::Names(std::mem::replace(&mut self.source, Source::Plan)),
        };
        let work = move || {
            let read = job.read();
            (job, read)
        };
        self.reading = Some(DiskWait::begin(work, device, readers, wake));
    }

    /// Whether a thread still reads; if not, the response goes on.
    fn still_reads(&mut self) -> Result<bool, Failed> {
        let Some(reading) = &self.reading else {
            return Ok(false);
        };
        let Some((job, read)) = reading.take() else {
            return Ok(true);
        };
        self.reading = None;
        match job {
            DiskJob::File(job) => self.job = Some(job),
            DiskJob::Names(source) => self.source = source,
        }
        read.map_err(|_| Failed::File)?;
        Ok(false)
    }

    /// The file that comes next, with the bytes before it, if there is one next whose bytes are not kept in a buffer.
    fn next_file(&mut self, cache: &FileCache) -> Result<Option<SendFile>, Failed> {
        let mut parts = self.parts.iter();
        let (count, range) = match (parts.next(), parts.next()) {
            (Some(BodyPart::File(range)), _) => (1, *range),
            (Some(BodyPart::Bytes(_)), Some(BodyPart::File(range))) => (2, *range),
            _ => return Ok(None),
        };
        let Source::File(file) = &self.source else {
            return Err(Failed::File);
        };
        let Some(mut job) = cache.send(file, range) else {
            return Ok(None);
        };
        if let Some(BodyPart::Bytes(bytes)) = self.parts.drain(..count).next() {
            job = job.with_header(bytes);
        }
        Ok(Some(job))
    }

    /// Moves bytes that are not a file's.
    fn push_bytes(
        &mut self,
        stream: &MaybeTlsStream,
        shared: &Shared,
        max: usize,
    ) -> Result<PushStep, Failed> {
        let space = stream.send_space();
        if space < self.next_len().min(SPACE_MIN) || space == 0 {
            // A connection that can take nothing more has no room either.
            return match stream.error() {
                Some(_) => Err(Failed::Connection),
                None => Ok(PushStep::Stopped(SendProgress::Full)),
            };
        }
        if self.gathered.is_empty() {
            match self.gather(shared, space.min(max)) {
                Ok(chain) if chain.is_empty() && self.names_are_next() => {
                    return Ok(PushStep::Stopped(SendProgress::Reads));
                }
                Ok(chain) => self.gathered = chain,
                Err(Failed::NoBufs) => return Ok(PushStep::Stopped(SendProgress::NoBufs)),
                Err(e) => return Err(e),
            }
        }
        let len = self.gathered.len();
        let sent = stream.send_chain(std::mem::take(&mut self.gathered));
        // TLS may take a part before buffers run out.
        let sent = sent.map_err(|(e, left)| {
            self.gathered = left;
            e
        });
        let moved = len - self.gathered.len();
        match sent {
            Err(TlsError::Socket(SocketError::NoBufs)) if moved == 0 => {
                Ok(PushStep::Stopped(SendProgress::NoBufs))
            }
            Ok(()) | Err(TlsError::Socket(SocketError::NoBufs)) => Ok(PushStep::Bytes(moved)),
            Err(_) => Err(Failed::Connection),
        }
    }

    fn names_are_next(&self) -> bool {
        matches!(self.parts.front(), Some(BodyPart::Names { .. }))
    }

    /// A lower bound of the bytes in the next parts, up to a packet.
    fn next_len(&self) -> usize {
        let parts = self.parts.iter().map(|part| match part {
            BodyPart::Bytes(bytes) => bytes.len(),
            BodyPart::File(range) => usize::try_from(range.len).unwrap_or(SPACE_MIN),
            BodyPart::Names { .. } => SPACE_MIN,
        });
        parts.fold(self.gathered.len(), usize::saturating_add)
    }

    /// The next `max` bytes of the response, up to the next file, or the next names that must be read.
    fn gather(&mut self, shared: &Shared, max: usize) -> Result<Chain, Failed> {
        let mut chain = Chain::new();
        while chain.len() < max {
            let Some(part) = self.parts.pop_front() else {
                break;
            };
            match part {
                BodyPart::Bytes(mut bytes) => {
                    let n = copy(&mut chain, shared.stack.pool(), &bytes, max);
                    if n < bytes.len() {
                        bytes.drain(..n);
                        self.parts.push_front(BodyPart::Bytes(bytes));
                        return if_any(chain);
                    }
                }
                BodyPart::File(range) => {
                    let Some(bytes) = self.source.kept(range) else {
                        self.parts.push_front(part);
                        break;
                    };
                    let n = copy(&mut chain, shared.stack.pool(), bytes, max);
                    if n < bytes.len() {
                        self.parts
                            .push_front(BodyPart::File(range.without_first(n as u64)));
                        return if_any(chain);
                    }
                }
                BodyPart::Names { chunked } => {
                    let Source::Names(path, names) = &mut self.source else {
                        return Err(Failed::File);
                    };
                    let begun = std::mem::replace(&mut self.has_begun, true);
                    let (page, more) = piece_of(path, names, begun);
                    if more {
                        self.parts.push_front(BodyPart::Names { chunked });
                    }
                    // An empty chunk would end the body.
                    if page.is_empty() {
                        break;
                    }
                    let piece = framed(page, chunked, !more);
                    self.parts.push_front(BodyPart::Bytes(piece));
                }
            }
        }
        Ok(chain)
    }
}

/// Appends a copy of the first bytes, as many as there are buffers for and make no more than `max` in all; returns how
/// many.
fn copy(chain: &mut Chain, pool: &MbufPool, bytes: &[u8], max: usize) -> usize {
    let n = bytes.len().min(max.saturating_sub(chain.len()));
    let first = bytes.get(..n).unwrap_or_default();
    match chain.extend_from_slice(pool, first) {
        Ok(()) => n,
        Err(_) => 0,
    }
}

/// Moves `max` bytes of a file at most.
fn push_file(stream: &MaybeTlsStream, job: &mut SendFile, max: usize) -> Result<PushStep, Failed> {
    job.set_call_max(max.max(SPACE_MIN) as u64);
    match stream.send_file(job) {
        Ok(moved) => Ok(PushStep::Bytes(
            usize::try_from(moved).unwrap_or(usize::MAX),
        )),
        Err(SendFileError::Socket(SocketError::NoBufs)) => {
            Ok(PushStep::Stopped(SendProgress::NoBufs))
        }
        Err(e) if e.is_would_block() => Ok(PushStep::Stopped(SendProgress::Full)),
        Err(SendFileError::NotResident) => Ok(PushStep::Stopped(SendProgress::Reads)),
        Err(SendFileError::Read(_)) => Err(Failed::File),
        Err(_) => Err(Failed::Connection),
    }
}

/// The bytes gathered before memory ran out.
fn if_any(chain: Chain) -> Result<Chain, Failed> {
    match chain.is_empty() {
        true => Err(Failed::NoBufs),
        false => Ok(chain),
    }
}

/// The next piece of a listing, and whether more follows; empty if names must be read first.
fn piece_of(path: &FilePath, names: &mut DirectoryNames, begun: bool) -> (String, bool) {
    let mut page = match begun {
        true => String::new(),
        false => listing::begin(path),
    };
    while page.len() < PAGE_PIECE {
        match names.next() {
            Some(name) => listing::push_name(&mut page, &name.bytes, name.is_directory),
            None if names.has_unread() => break,
            None => {
                page.push_str(listing::END);
                return (page, false);
            }
        }
    }
    (page, true)
}

/// The piece as the body has it.
fn framed(page: String, chunked: bool, last: bool) -> Vec<u8> {
    if !chunked {
        return page.into_bytes();
    }
    let mut out = Vec::with_capacity(page.len() + 16);
    listing::push_chunk(&mut out, page.as_bytes());
    if last {
        out.extend_from_slice(listing::LAST_CHUNK);
    }
    out
}
