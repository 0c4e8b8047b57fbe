//! Pages of a sealed memfd, mapped once and for all: no read copies them, and no process can change
//! them during a read.
//!
//! Source: memfd_create(2), fcntl(2) on seals.

use core::ptr::{self, NonNull};
use core::slice;
use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::fd::{AsRawFd, OwnedFd};

use super::file::ends_early;
use crate::ext::PageSource;
use crate::raw::PAGE_SIZE;

/// The pages of a sealed memfd (memfd_create(2)): page n is its bytes from `4096 * n` on.
///
/// The seals give two guarantees that the type can't give for a mapped file: it never gets shorter
/// (`F_SEAL_SHRINK`), so no access faults, and no process writes it (`F_SEAL_WRITE`), so its bytes
/// can be shown as `&[u8]`.
#[derive(Debug)]
pub struct MemfdPages {
    at: NonNull<u8>,
    len: usize,
}

// SAFETY: memory that is never written, by the seals, and that the drop of this value unmaps.
unsafe impl Send for MemfdPages {}
// SAFETY: as above.
unsafe impl Sync for MemfdPages {}

/// The seals that a memfd must have.
const SEALS: libc::c_int = libc::F_SEAL_SHRINK | libc::F_SEAL_WRITE;

impl MemfdPages {
    /// Maps a memfd with its present size; bytes that are written after its end later are not seen.
    ///
    /// # Errors
    /// `InvalidInput` if the descriptor is no memfd, or has not both seals; else the system's
    /// error.
    pub fn new(memfd: OwnedFd) -> io::Result<Self> {
        // SAFETY: takes a descriptor, which we own, and no memory.
        let seals = unsafe { libc::fcntl(memfd.as_raw_fd(), libc::F_GET_SEALS) };
        if seals < 0 || seals & SEALS != SEALS {
            let text = "not a memfd sealed with F_SEAL_SHRINK and F_SEAL_WRITE";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let mut file = File::from(memfd);
        // By a call on the descriptor, because a process without access to the file system may make it.
        let len = usize::try_from(file.seek(SeekFrom::End(0))?)
            .map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
        let at = match len {
            0 => NonNull::dangling(),
            _ => map(&file, len)?,
        };
        Ok(Self { at, len })
    }

    /// Bytes in the file.
    pub fn len(&self) -> usize {
        self.len
    }

    /// No bytes at all.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All bytes.
    fn all(&self) -> &[u8] {
        // SAFETY: mapped from `new` to `drop`, for reading; the seals keep it as it is.
        unsafe { slice::from_raw_parts(self.at.as_ptr(), self.len) }
    }

    /// The bytes from `off` of `page` on, if there are any.
    fn from(&self, page: u64, off: usize) -> Option<&[u8]> {
        let page = usize::try_from(page).ok()?;
        let at = page.checked_mul(PAGE_SIZE)?.checked_add(off)?;
        self.all().get(at..).filter(|bytes| !bytes.is_empty())
    }
}

/// Maps `len` bytes for reading.
fn map(file: &File, len: usize) -> io::Result<NonNull<u8>> {
    // SAFETY: a new mapping at an address of the system's choice overlaps no other mapping.
    let at = unsafe {
        libc::mmap(
            ptr::null_mut(),
            len,
            libc::PROT_READ,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        )
    };
    match NonNull::new(at.cast::<u8>()) {
        Some(mapped) if at != libc::MAP_FAILED => Ok(mapped),
        _ => Err(io::Error::last_os_error()),
    }
}

impl PageSource for MemfdPages {
    fn read(&self, page: u64, off: usize, dst: &mut [u8]) -> io::Result<()> {
        let bytes = self.from(page, off).and_then(|from| from.get(..dst.len()));
        let early = || ends_early(page.saturating_mul(PAGE_SIZE as u64), off + dst.len());
        let bytes = bytes.ok_or_else(early)?;
        dst.copy_from_slice(bytes);
        Ok(())
    }

    fn bytes(&self, page: u64) -> Option<&[u8]> {
        self.from(page, 0)
    }
}

impl Drop for MemfdPages {
    fn drop(&mut self) {
        if self.len > 0 {
            // SAFETY: the mapping is this value's, and all that showed it is gone with the last reference.
            unsafe { libc::munmap(self.at.as_ptr().cast(), self.len) };
        }
    }
}
