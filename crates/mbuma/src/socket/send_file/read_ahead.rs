//! Bytes of a file that another thread reads, because the sending thread must not wait for the disk.
//!
//! They are in ordinary memory and not in mbufs, so that a thread that waits long for a disk holds no memory of the
//! stack.

use std::io;
use std::os::unix::fs::FileExt;

use super::{FileSource, SendFile, cut};

/// Bytes that are read ahead at most.
const AHEAD_MAX: u64 = 256 << 10;

/// Bytes of a file, with their offset in it.
#[derive(Debug)]
pub(super) struct ReadAhead {
    at: u64,
    bytes: Vec<u8>,
}

impl ReadAhead {
    /// The bytes from `at` on; none if it has none of them.
    pub(super) fn from(&self, at: u64) -> &[u8] {
        let off = at.checked_sub(self.at).map(usize::try_from);
        let rest = off
            .and_then(Result::ok)
            .and_then(|off| self.bytes.get(off..));
        rest.unwrap_or_default()
    }
}

impl SendFile {
    /// Reads the next bytes of the file, at most 256 KiB, waiting for the disk, and keeps them for the next calls.
    /// Called by another thread than the sending one: see [`SendFile::set_resident_only`].
    ///
    /// # Errors
    /// The file can't be read, or is shorter than the range ([`io::ErrorKind::UnexpectedEof`]).
    pub fn read_ahead(&mut self) -> io::Result<()> {
        let FileSource::File(file) = &self.source else {
            return Ok(());
        };
        let at = self.file_at();
        let wanted = (self.range.end - at).min(AHEAD_MAX);
        // Not for bytes that were sent from memory.
        self.advised = self.advised.max(at);
        cut::advise(file, at, self.range.end, &mut self.advised);
        let mut bytes = vec![0; usize::try_from(wanted).unwrap_or(0)];
        let got = loop {
            match file.read_at(&mut bytes, at) {
                Ok(0) if wanted > 0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                other => break other?,
            }
        };
        bytes.truncate(got);
        self.ahead = Some(ReadAhead { at, bytes });
        Ok(())
    }

    /// Drops bytes that were read ahead and have been sent.
    pub(super) fn forget_sent(&mut self) {
        let at = self.file_at();
        self.ahead.take_if(|ahead| ahead.from(at).is_empty());
    }

    /// The offset of the next byte in the file.
    fn file_at(&self) -> u64 {
        let sent = self.accepted.saturating_sub(self.header.len() as u64);
        self.range.start + sent.min(self.file_len())
    }
}
