//! The requests of one connection: finds where each head ends among the bytes that came.
//!
//! ```text
//!   [ head of request 1 | head of request 2 | part of 3 ]   received, HEAD_MAX bytes at most
//!     `-- request() ---'  `-- after done() --'
//! ```
//!
//! Each byte is read once while a head is incomplete, so a client that sends its head byte by byte costs no more than
//! one that sends it whole.
//!
//! Invariants: at most [`HEAD_MAX`] bytes are kept; after a request that ends the connection no other is read.
//! Locks: none.
//! Sources: RFC 9112 sections 2.2 (empty lines before a request), 9.3.2 (pipelining).

use super::request::{self, HEAD_MAX, HttpRequest};
use super::status::HttpStatus;

/// Bytes of one connection on their way to be requests.
#[derive(Debug, Default)]
pub(crate) struct Conversation {
    received: Vec<u8>,
    /// This many of them were searched, and have no end of a head.
    searched: usize,
    /// No other request is read.
    over: bool,
}

/// The front of the bytes.
#[derive(Debug, PartialEq, Eq)]
#[expect(
    clippy::large_enum_variant,
    reason = "it is on the stack, and looked at once: a box would be an allocation for each request"
)]
pub(crate) enum Front<'a> {
    /// Not a whole head: more bytes are needed.
    Incomplete,
    /// A request. [`Conversation::done`] goes on to the next.
    Request(HttpRequest<'a>),
    /// No request, or one that is not answered. Nothing after it is read.
    Refused(HttpStatus),
    /// Nothing more is read.
    Over,
}

impl Conversation {
    /// The number of bytes that may be added.
    pub(crate) fn room(&self) -> usize {
        HEAD_MAX.saturating_sub(self.received.len())
    }

    /// Whether no part of a request has arrived.
    pub(crate) fn is_idle(&self) -> bool {
        self.received.is_empty()
    }

    /// Adds bytes that came, at most as many as there is room for.
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        debug_assert!(bytes.len() <= self.room());
        if !self.over {
            self.received.extend_from_slice(bytes);
        }
    }

    /// Looks at the front.
    pub(crate) fn front(&mut self) -> Front<'_> {
        if self.over {
            return Front::Over;
        }
        self.skip_empty_lines();
        match self.find_end() {
            Some(end) => match request::parse(self.received.get(..end).unwrap_or_default()) {
                Ok(request) => Front::Request(request),
                Err(status) => Front::Refused(status),
            },
            None => match self.fault() {
                Some(status) => Front::Refused(status),
                None => Front::Incomplete,
            },
        }
    }

    /// A copy of the first `len` bytes, which are a request's head.
    pub(crate) fn head(&self, len: usize) -> Vec<u8> {
        self.received.get(..len).unwrap_or_default().to_vec()
    }

    /// The request at the front, of `len` bytes, has its answer; another may follow unless this was the `last`.
    pub(crate) fn done(&mut self, len: usize, last: bool) {
        self.searched = 0;
        if last {
            self.close();
        } else if len >= self.received.len() {
            self.received.clear();
        } else {
            self.received.drain(..len);
        }
    }

    /// Reads no other request.
    pub(crate) fn close(&mut self) {
        self.over = true;
        (self.received, self.searched) = (Vec::new(), 0);
    }

    /// Between requests a connection may wait for long, and most do: they keep no memory.
    pub(crate) fn give_memory_back(&mut self) {
        if self.received.is_empty() {
            self.received = Vec::new();
        }
    }

    fn skip_empty_lines(&mut self) {
        let is_end = |b: &&u8| matches!(b, b'\r' | b'\n');
        let empty = self.received.iter().take_while(is_end).count();
        if empty > 0 {
            self.received.drain(..empty);
            self.searched = self.searched.saturating_sub(empty);
        }
    }

    /// The length of the first head: up to and with its empty line.
    fn find_end(&mut self) -> Option<usize> {
        // The empty line may have begun before.
        let from = self.searched.saturating_sub(2);
        let unsearched = self.received.get(from..).unwrap_or_default();
        let found = memchr::memchr_iter(b'\n', unsearched).find_map(|at| {
            let rest = unsearched.get(at + 1..).unwrap_or_default();
            match rest {
                [b'\n', ..] => Some(from + at + 2),
                [b'\r', b'\n', ..] => Some(from + at + 3),
                _ => None,
            }
        });
        self.searched = self.received.len();
        found
    }

    /// Why an incomplete head will never be a request.
    fn fault(&self) -> Option<HttpStatus> {
        // A method is a token; the first bytes of TLS and of most other protocols are none.
        let begins_well = self.received.first().is_none_or(u8::is_ascii_graphic);
        if !begins_well {
            return Some(HttpStatus::BadRequest);
        }
        if self.received.len() < HEAD_MAX {
            return None;
        }
        Some(match self.received.contains(&b'\n') {
            true => HttpStatus::HeaderFieldsTooLarge,
            false => HttpStatus::UriTooLong,
        })
    }
}
