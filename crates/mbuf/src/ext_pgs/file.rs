//! Pages of a file, which is never mapped: the storage of sendfile.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::ext::PageSource;
use crate::raw::PAGE_SIZE;

/// The pages of a file: page n is its bytes from `4096 * n` on.
///
/// They are read when the bytes are needed, never mapped: a file that is cut short
/// meanwhile is an error of that read, not a signal to the program.
#[doc(alias = "sendfile")]
#[derive(Debug)]
pub struct FilePages(File);

impl FilePages {
    /// The pages of a [`File`], an [`OwnedFd`](std::os::fd::OwnedFd) or another type that becomes a file. The file must
    /// be open for reading, at any offset.
    pub fn new(file: impl Into<File>) -> Self {
        Self(file.into())
    }
}

impl PageSource for FilePages {
    fn read(&self, page: u64, off: usize, dst: &mut [u8]) -> io::Result<()> {
        let at = page.checked_mul(PAGE_SIZE as u64);
        let Some(at) = at.and_then(|at| at.checked_add(off as u64)) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        self.0
            .read_exact_at(dst, at)
            .map_err(|error| match error.kind() {
                io::ErrorKind::UnexpectedEof => ends_early(at, dst.len()),
                _ => error,
            })
    }
}

/// The error of a source that has fewer bytes than a caller requests.
pub(super) fn ends_early(at: u64, len: usize) -> io::Error {
    let text = format!("the file ends before byte {at} + {len}: was it truncated?");
    io::Error::new(io::ErrorKind::UnexpectedEof, text)
}
