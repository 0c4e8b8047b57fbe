//! A response on its way: its parts, one after the other, into the send buffer.
//!
//! ```text
//!   [ head | bytes of the file .......... ]     a chain: one packet's worth, with one read
//!     copied   read into clusters, which stay its storage until they are acknowledged
//! ```
//!
//! Called by: connection. Calls: [`TcpStream`], crate::files.
//! Invariants: at most one packet's worth is in memory beside the send buffer; a file is read only when that has
//! room for the bytes.
//! Locks: none.

use std::collections::VecDeque;

use mbuf::Chain;
use mbuma::{SocketError, TcpStream};

use super::respond::{Response, Source};
use crate::files::DirectoryNames;
use crate::gateway::shared::{READ_MAX, Shared};
use crate::http::listing;
use crate::http::plan::BodyPart;
use crate::http::status::HttpStatus;
use crate::http::target::FilePath;

/// Room in the send buffer that makes a read worth its system call: see [`relay`](crate::gateway::relay).
const SPACE_MIN: usize = 16 << 10;
/// Bytes of a listing that are made at a time, about.
const PAGE_PIECE: usize = 8 << 10;

/// A response that is being sent.
pub(super) struct Sending {
    pub(super) status: HttpStatus,
    /// The connection ends after it.
    pub(super) last: bool,
    parts: VecDeque<BodyPart>,
    source: Source,
    /// The page's beginning was made.
    has_begun: bool,
    head_len: u64,
    sent: u64,
}

/// How far a turn came.
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
}

/// Why a response ends before its end.
#[derive(Debug)]
pub(super) enum Failed {
    /// The connection is over.
    Connection,
    /// The file can't be read, or is shorter than it was.
    File,
    /// Memory for a copy is not to be had now.
    NoBufs,
}

impl From<SocketError> for Failed {
    fn from(_: SocketError) -> Failed {
        Failed::Connection
    }
}

impl Sending {
    /// Begins to send.
    pub(super) fn new((plan, source): Response) -> Sending {
        Sending {
            status: plan.status,
            last: plan.last,
            head_len: plan.head_len as u64,
            parts: plan.parts.into(),
            source,
            has_begun: false,
            sent: 0,
        }
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
        stream: &TcpStream,
        shared: &mut Shared,
        budget: &mut usize,
    ) -> Result<SendProgress, Failed> {
        while !self.parts.is_empty() {
            if *budget == 0 {
                return Ok(SendProgress::Part);
            }
            let room = stream.send_room();
            if room.bytes < self.next_len().min(SPACE_MIN) || room.bytes == 0 {
                // A connection that can take nothing more has no room either.
                return match stream.error() {
                    Some(e) => Err(e.into()),
                    None => Ok(SendProgress::Full),
                };
            }
            let max = room.whole_segments().min(READ_MAX);
            let chain = match self.gather(shared, max) {
                Ok(chain) => chain,
                Err(Failed::NoBufs) => return Ok(SendProgress::NoBufs),
                Err(e) => return Err(e),
            };
            let len = chain.len();
            stream.send_chain(chain).map_err(|(e, _lost)| e)?;
            self.sent += len as u64;
            shared.counters.http_bytes += len as u64;
            *budget = budget.saturating_sub(len);
        }
        Ok(SendProgress::All)
    }

    /// How much the next part is at least, as far as that matters.
    fn next_len(&self) -> usize {
        let parts = self.parts.iter().map(|part| match part {
            BodyPart::Bytes(bytes) => bytes.len(),
            BodyPart::File(range) => usize::try_from(range.len).unwrap_or(SPACE_MIN),
            BodyPart::Names { .. } => SPACE_MIN,
        });
        parts.sum()
    }

    /// The next `max` bytes of the response, with one read of the file at most.
    fn gather(&mut self, shared: &mut Shared, max: usize) -> Result<Chain, Failed> {
        let mut chain = Chain::new();
        while chain.len() < max {
            let Some(part) = self.parts.pop_front() else {
                break;
            };
            match part {
                BodyPart::Bytes(mut bytes) => {
                    let n = bytes.len().min(max - chain.len());
                    let (now, later) = bytes.split_at(n);
                    let copied = chain.extend_from_slice(shared.stack.pool(), now);
                    let rest = match copied {
                        Ok(()) => later.len(),
                        Err(_) => bytes.len(),
                    };
                    if rest > 0 {
                        bytes.drain(..bytes.len() - rest);
                        self.parts.push_front(BodyPart::Bytes(bytes));
                    }
                    if copied.is_err() {
                        return if_any(chain);
                    }
                }
                BodyPart::File(mut range) => {
                    let Source::File(file) = &self.source else {
                        return Err(Failed::File);
                    };
                    let Ok(row) = shared.scatter() else {
                        self.parts.push_front(part);
                        return if_any(chain);
                    };
                    let read = file.read(row, &mut range, max - chain.len());
                    chain.append(read.map_err(|_| Failed::File)?);
                    if range.len > 0 {
                        self.parts.push_front(BodyPart::File(range));
                        break;
                    }
                }
                BodyPart::Names { chunked } => {
                    let Source::Names(path, names) = &mut self.source else {
                        return Err(Failed::File);
                    };
                    let begun = std::mem::replace(&mut self.has_begun, true);
                    let (page, more) = piece_of(path, names, begun)?;
                    if more {
                        self.parts.push_front(BodyPart::Names { chunked });
                    }
                    let piece = framed(page, chunked, !more);
                    self.parts.push_front(BodyPart::Bytes(piece));
                }
            }
        }
        Ok(chain)
    }
}

/// The bytes gathered before memory ran out.
fn if_any(chain: Chain) -> Result<Chain, Failed> {
    match chain.is_empty() {
        true => Err(Failed::NoBufs),
        false => Ok(chain),
    }
}

/// The next piece of a listing, and whether more follows.
fn piece_of(
    path: &FilePath,
    names: &mut DirectoryNames,
    begun: bool,
) -> Result<(String, bool), Failed> {
    let mut page = match begun {
        true => String::new(),
        false => listing::begin(path),
    };
    while page.len() < PAGE_PIECE {
        match names.next() {
            Some(Ok(name)) => listing::push_name(&mut page, &name.bytes, name.is_directory),
            Some(Err(_)) => return Err(Failed::File),
            None => {
                page.push_str(listing::END);
                return Ok((page, false));
            }
        }
    }
    Ok((page, true))
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
