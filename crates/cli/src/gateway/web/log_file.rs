//! The access log: lines of a worker that wait, and the file that they go to.
//!
//! Invariants: a worker keeps at most [`WAITING_MAX`] bytes of lines and never waits for the reader of a FIFO: lines
//! that can't be written are lost, and counted.
//! Locks: none: the kernel appends a write to a file whole, and to a pipe one of [`libc::PIPE_BUF`] bytes at most, so
//! lines of several workers do not mix.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// Bytes of lines that wait for the end of a round at most.
const WAITING_MAX: usize = 64 << 10;

/// Where lines go.
pub(in super::super) struct LogFile {
    file: File,
    is_fifo: bool,
}

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
        let file = options.open(path)?;
        Ok(LogFile { file, is_fifo })
    }

    /// The bytes that the kernel takes together, or refuses together.
    fn piece_max(&self) -> usize {
        match self.is_fifo {
            true => libc::PIPE_BUF,
            false => usize::MAX,
        }
    }
}

/// Lines that wait.
#[derive(Debug, Default)]
pub(super) struct LogLines {
    text: String,
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
    }

    /// Writes the lines. Returns how many were lost.
    pub(super) fn write_to(&mut self, file: &LogFile) -> u64 {
        let mut lost = std::mem::take(&mut self.lost);
        let text = std::mem::take(&mut self.text);
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            let piece;
            (piece, rest) = rest.split_at(whole_lines(rest, file.piece_max()));
            if (&file.file).write_all(piece).is_err() {
                lost += piece.iter().filter(|byte| **byte == b'\n').count() as u64;
            }
        }
        lost
    }
}

/// The length of as many lines as fit into `max` bytes, and of one at least.
fn whole_lines(text: &[u8], max: usize) -> usize {
    let is_end = |byte: &u8| *byte == b'\n';
    let (head, _) = text.split_at(text.len().min(max));
    let fitting = head.iter().rposition(is_end);
    let first = || text.iter().position(is_end);
    fitting.or_else(first).map_or(text.len(), |end| end + 1)
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use rustix::fs::{Mode, OFlags};

    use super::*;

    #[test]
    fn a_full_pipe_loses_whole_lines() {
        // Breaks when a pipe with little room takes the part of a line, to which the next one is joined; or when lines
        // that it took are counted as lost.
        let path = std::env::temp_dir().join(format!("mbuma-log-{}", std::process::id()));
        let mode = Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0)
            .expect("a name");
        let file = LogFile::open(&path).expect("a FIFO");
        let reader = rustix::fs::open(&path, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty());
        let mut reader = File::from(reader.expect("a FIFO"));
        fs::remove_file(&path).expect("ours");
        let (mut lines, mut pushed, mut lost) = (LogLines::default(), Vec::new(), 0);
        let mut read = Vec::new();
        for _ in 0..3 {
            for n in 0..200 {
                let line = format!("{n:04}{}\n", "x".repeat(300 + n % 7));
                lines.push(&line);
                pushed.push(line);
            }
            lost += lines.write_to(&file);
        }
        assert!(lost > 0 && lost < 600, "{lost}");
        let end = reader.read_to_end(&mut read);
        assert!(end.is_err(), "its other end is open");
        lines.push("the last\n");
        assert_eq!(lines.write_to(&file), 0);
        let _ = reader.read_to_end(&mut read);
        let text = String::from_utf8(read).expect("text");
        let mut taken: Vec<_> = text.split_inclusive('\n').collect();
        assert_eq!(taken.pop(), Some("the last\n"));
        assert!(
            taken
                .iter()
                .all(|line| pushed.iter().any(|one| one == line)),
            "{text}"
        );
        assert_eq!(taken.len() as u64 + lost, 600);
    }
}
