//! The next bytes of a job, as pieces for a send buffer.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

use mbuf::{Blank, Chain, ClusterSize, ExtPgsError, MbufPool, Mixed};
use rustix::fs::Advice;
use rustix::io::{Errno, ReadWriteFlags};

use super::{FileSource, SealedFile, SendFile, SendFileError};

/// Bytes that the kernel reads ahead of what is sent.
const READ_AHEAD: u64 = 1 << 20;

impl SendFile {
    /// The next `max` bytes, or fewer if there are no buffers for more, in pieces of at most `piece` bytes. The
    /// position of the job does not change.
    pub(super) fn cut(
        &mut self,
        pool: &MbufPool,
        max: usize,
        piece: usize,
    ) -> Result<Vec<Chain<Mixed>>, SendFileError> {
        let mut pieces = Vec::with_capacity(max.div_ceil(piece.max(1)));
        let (mut at, mut left) = (self.accepted, max);
        while left > 0 {
            match self.piece(pool, at, left.min(piece)) {
                Ok(next) if next.is_empty() => break,
                Ok(next) => {
                    (at, left) = (at + next.len() as u64, left - next.len());
                    pieces.push(next);
                }
                // Available bytes go first, unless they are the end of the job.
                Err(e) if pieces.is_empty() || matches!(e, SendFileError::Read(_)) => {
                    return Err(e);
                }
                Err(_) => break,
            }
        }
        Ok(pieces)
    }

    /// Up to `max` bytes from `at` on of header, file and trailer.
    fn piece(
        &mut self,
        pool: &MbufPool,
        at: u64,
        max: usize,
    ) -> Result<Chain<Mixed>, SendFileError> {
        let (header, file) = (self.header.len() as u64, self.file_len());
        let front = bytes(&self.header, at, max);
        let mut out = Chain::<Mixed>::from(Chain::from_slice(pool, front)?);
        let in_file = (at + out.len() as u64).saturating_sub(header);
        let left = usize::try_from(file.saturating_sub(in_file)).unwrap_or(usize::MAX);
        let len = left.min(max - out.len());
        if len > 0 {
            out.append(self.of_file(pool, self.range.start + in_file, len)?);
        }
        let behind = (at + out.len() as u64).saturating_sub(header + file);
        if at + out.len() as u64 >= header + file {
            let back = bytes(&self.trailer, behind, max - out.len());
            out.append(Chain::from_slice(pool, back)?.into());
        }
        Ok(out)
    }

    fn of_file(
        &mut self,
        pool: &MbufPool,
        at: u64,
        len: usize,
    ) -> Result<Chain<Mixed>, SendFileError> {
        let end = self.range.end;
        match &self.source {
            FileSource::Sealed(file) => lent(pool, file, at, len),
            FileSource::File(file) => {
                let ahead = self.ahead.as_ref().map_or(&[][..], |ahead| ahead.from(at));
                if !ahead.is_empty() {
                    return copied(pool, ahead.get(..len).unwrap_or(ahead));
                }
                // The advice call itself may wait for a disk.
                if !self.resident_only {
                    advise(file, at, end, &mut self.advised);
                }
                read(pool, file, at, len, self.resident_only)
            }
        }
    }
}

/// Asks the kernel to read ahead of `at`, if that is due.
pub(super) fn advise(file: &File, at: u64, end: u64, advised: &mut u64) {
    if at + READ_AHEAD / 2 >= *advised && *advised < end {
        let len = READ_AHEAD.min(end - *advised);
        // Advice may be refused.
        _ = rustix::fs::fadvise(file, *advised, len.try_into().ok(), Advice::WillNeed);
        *advised += len;
    }
}

/// Up to `max` of `bytes` from `at` on.
fn bytes(bytes: &[u8], at: u64, max: usize) -> &[u8] {
    let at = usize::try_from(at).unwrap_or(usize::MAX);
    let rest = bytes.get(at..).unwrap_or_default();
    rest.get(..max).unwrap_or(rest)
}

fn lent(
    pool: &MbufPool,
    file: &SealedFile,
    at: u64,
    len: usize,
) -> Result<Chain<Mixed>, SendFileError> {
    if at.checked_add(len as u64).is_none_or(|end| end > file.len) {
        return Err(SendFileError::Read(io::ErrorKind::UnexpectedEof.into()));
    }
    Chain::from_pages(pool, &file.pages, at, len).map_err(|e| match e {
        ExtPgsError::NoBufs => mbuf::NoBufs.into(),
        e => SendFileError::Read(io::Error::new(io::ErrorKind::InvalidInput, e)),
    })
}

/// Copies to clusters, each of which is a piece.
fn copied(pool: &MbufPool, bytes: &[u8]) -> Result<Chain<Mixed>, SendFileError> {
    let piece = bytes.get(..ClusterSize::K16.bytes()).unwrap_or(bytes);
    let size = ClusterSize::ALL
        .into_iter()
        .find(|size| size.bytes() >= piece.len());
    let mut blank = Blank::new(pool, size.unwrap_or(ClusterSize::K16))?;
    let room = blank.bytes_mut().get_mut(..piece.len());
    room.unwrap_or_default().copy_from_slice(piece);
    Ok(blank.show(piece.len()).into())
}

/// Reads into clusters: one, unless the piece is longer than the largest.
fn read(
    pool: &MbufPool,
    file: &File,
    at: u64,
    len: usize,
    resident_only: bool,
) -> Result<Chain<Mixed>, SendFileError> {
    let (mut out, mut done) = (Chain::new(), 0);
    while done < len {
        let wanted = (len - done).min(ClusterSize::K16.bytes());
        let size = ClusterSize::ALL
            .into_iter()
            .find(|size| size.bytes() >= wanted);
        let mut blank = Blank::new(pool, size.unwrap_or(ClusterSize::K16))?;
        let room = blank.bytes_mut().get_mut(..wanted).unwrap_or_default();
        let got = fill(file, room, at + done as u64, resident_only)?;
        out.append(blank.show(got));
        done += got;
        if got < wanted {
            break;
        }
    }
    Ok(out.into())
}

/// Reads all of `room`; fewer bytes, at least one, if the rest is on a disk and must not be waited for.
fn fill(
    file: &File,
    room: &mut [u8],
    at: u64,
    resident_only: bool,
) -> Result<usize, SendFileError> {
    let mut got = 0;
    while let Some(rest) = room.get_mut(got..).filter(|rest| !rest.is_empty()) {
        let at = at + got as u64;
        let read = match resident_only {
            true => read_resident(file, rest, at),
            false => file.read_at(rest, at),
        };
        match read {
            Ok(0) => return Err(SendFileError::Read(io::ErrorKind::UnexpectedEof.into())),
            Ok(n) => got += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) if resident_only && e.kind() == io::ErrorKind::WouldBlock => {
                return if got > 0 {
                    Ok(got)
                } else {
                    Err(SendFileError::NotResident)
                };
            }
            Err(e) => return Err(SendFileError::Read(e)),
        }
    }
    Ok(got)
}

/// Reads from the page cache only. A file system that does not support this may be slow, and counts as not resident.
fn read_resident(file: &File, room: &mut [u8], at: u64) -> io::Result<usize> {
    let mut bufs = [IoSliceMut::new(room)];
    match rustix::io::preadv2(file.as_fd(), &mut bufs, at, ReadWriteFlags::NOWAIT) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Err(Errno::AGAIN.into()),
        other => Ok(other?),
    }
}
