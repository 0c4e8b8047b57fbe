//! The access log: lines of a worker that wait, and the file that they go to.
//!
//! Invariants: a worker keeps at most [`WAITING_MAX`] bytes of lines and never waits for the reader of a FIFO: lines
//! that can't be written are lost, and counted.
//! Locks: none: the kernel appends whole writes, of several workers too.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// Bytes of lines that wait for the end of a round at most.
const WAITING_MAX: usize = 64 << 10;

/// Where lines go.
pub(in super::super) struct LogFile(File);

impl LogFile {
    /// Opens the file at `path`, or makes it.
    pub(in super::super) fn open(path: &Path) -> io::Result<LogFile> {
        let mut options = File::options();
        // A FIFO that is open for reading needs no other reader now, and may lose one later.
        let is_fifo = fs::metadata(path).is_ok_and(|file| file.file_type().is_fifo());
        options
            .read(is_fifo)
            .append(true)
            .create(true)
            .custom_flags(libc::O_NONBLOCK);
        options.open(path).map(LogFile)
    }
}

/// Lines that wait.
#[derive(Debug, Default)]
pub(super) struct LogLines {
    text: String,
    count: u64,
    lost: u64,
}

impl LogLines {
    /// Adds a line, which ends in a line feed.
    pub(super) fn push(&mut self, line: &str) {
        if self.text.len() + line.len() > WAITING_MAX {
            self.lost += 1;
            return;
        }
        self.text.push_str(line);
        self.count += 1;
    }

    /// Writes the lines. Returns how many were lost.
    pub(super) fn write_to(&mut self, file: &LogFile) -> u64 {
        let mut lost = std::mem::take(&mut self.lost);
        if self.count == 0 {
            return lost;
        }
        // One write: lines of other workers come before or after.
        if (&file.0).write_all(self.text.as_bytes()).is_err() {
            lost += self.count;
        }
        (self.count, self.text) = (0, String::new());
        lost
    }
}
