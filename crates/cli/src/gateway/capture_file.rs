//! What `--pcap` names: a file, or a FIFO that a program such as Wireshark reads.
//!
//! Called by: start. Calls: sys::fd.
//! Invariants: opening waits for nobody, since no signal would end that; the user hears once of what could not be
//! written.
//! Locks: none of its own; it is written to under the capture's.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::say;
use crate::sys::fd;

/// Where frames are written down.
pub(super) struct CaptureFile {
    file: File,
    path: PathBuf,
    /// An error was told of.
    told: bool,
}

impl CaptureFile {
    /// Makes the file anew, or opens the FIFO.
    ///
    /// # Errors
    /// It cannot be written to, or is a FIFO that nobody reads.
    pub(super) fn create(path: &Path) -> io::Result<CaptureFile> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        let file = options.custom_flags(libc::O_NONBLOCK).open(path);
        let file = file.map_err(|e| match e.raw_os_error() {
            Some(libc::ENXIO) => io::Error::other("nobody reads this FIFO: start its reader first"),
            _ => e,
        })?;
        // A reader that is slow is waited for: a capture has no gaps.
        fd::set_blocking(&file)?;
        Ok(CaptureFile {
            file,
            path: path.to_owned(),
            told: false,
        })
    }

    fn tell(&mut self, error: &io::Error) {
        if error.kind() != ErrorKind::Interrupted && !self.told {
            self.told = true;
            let path = self.path.display();
            say(&format!(
                "warning: the capture ends here: writing {path}: {error}"
            ));
        }
    }
}

impl Write for CaptureFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes);
        written.inspect_err(|e| self.tell(e))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
