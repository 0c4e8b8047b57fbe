//! The file, in memory: its pages, and a descriptor to read it by.
//!
//! Invariant: record n lies in the five pages from 4 n on, and begins behind the first byte of the first; the
//! records of a turn begin at all offsets of a page but 0.

use crate::extpgs::design::{HEADER, PAGE, PAGES, Spec, TRAILER};
use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::File;
use std::io::{self, Write};

pub(crate) use crate::extpgs::design::RECORD;

/// Records of a turn: as many as 256 connections have in send buffers of 256 KiB. Tests measure no speed, and need
/// fewer.
pub(crate) const RECORDS: usize = if cfg!(test) { 64 } else { 4096 };
/// Bytes of payload of a turn.
pub(crate) const BYTES: usize = RECORDS * RECORD;
/// The difference between the offsets of two records in their first pages.
const STEP: usize = 11;

/// A file.
pub(crate) struct Source {
    bytes: Vec<u8>,
    file: File,
}

impl Source {
    /// A new one, without a pattern.
    pub(crate) fn new() -> io::Result<Self> {
        let mut word = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = || {
            // Marsaglia's xorshift.
            word ^= word << 13;
            word ^= word >> 7;
            word ^= word << 17;
            word
        };
        let words = (BYTES + PAGE) / 8;
        let bytes: Vec<u8> = (0..words).flat_map(|_| next().to_le_bytes()).collect();
        let mut file = File::from(memfd_create("lab-sendfile", MemfdFlags::CLOEXEC)?);
        file.write_all(&bytes)?;
        Ok(Self { bytes, file })
    }

    /// The file, to be read.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// The bytes of a record, where they lie.
    pub(crate) fn record(&self, number: usize) -> &[u8] {
        let at = begin(number);
        self.bytes.get(at..at + RECORD).unwrap_or_default()
    }

    /// The same as a list of pages.
    #[inline]
    pub(crate) fn spec(&self, number: usize) -> Spec {
        let byte = number as u8;
        let first = (number * RECORD / PAGE) as u64;
        Spec {
            number: number as u64,
            pages: std::array::from_fn::<u64, PAGES, _>(|at| first + at as u64),
            first_off: first_off(number),
            header: [byte; HEADER],
            trailer: [byte; TRAILER],
        }
    }
}

/// Where in the file a record begins.
pub(crate) fn begin(number: usize) -> usize {
    number * RECORD + first_off(number)
}

/// The offset of a record in its first page. It is never 0, so that there are always five pages.
fn first_off(number: usize) -> usize {
    1 + number * STEP % (PAGE - 1)
}
