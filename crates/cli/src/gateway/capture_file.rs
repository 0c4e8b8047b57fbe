//! The file that `--pcap` names: a regular file, or a FIFO that a program such as Wireshark reads.
//!
//! A capture holds the guest's traffic, so another user must not be able to read it or choose where it goes:
//!
//! | the path is | then |
//! |---|---|
//! | not there | a file with mode 0600 is made |
//! | a regular file of this user | it is emptied; its mode stays |
//! | a regular file of another user, a directory, a socket | error |
//! | a symbolic link | error, except below /dev, as /dev/fd/63 is |
//! | the standard output of `run` | error: COMMAND has it, and it is /dev/null here |
//! | a FIFO | opened if a process reads it, else error: no signal would end the wait |
//!
//! Invariants: a regular file ends behind a whole block, also if the disk is full; the user reads one warning when a
//! write fails.
//! Locks: none of its own; it is written to under the capture's.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::errors;
use crate::say;
use crate::sys::{fd, process};

/// The device /dev/null (null(4)).
const NULL: u64 = libc::makedev(1, 3);

/// Where frames are written.
pub(super) struct CaptureFile {
    file: File,
    path: PathBuf,
    /// Bytes written, and bytes of whole blocks among them.
    written: u64,
    whole: u64,
    /// The user was warned.
    warned: bool,
}

impl CaptureFile {
    /// Makes the file, empties the one that is there, or opens the FIFO.
    ///
    /// # Errors
    /// See the table above; or the file cannot be written to.
    pub(super) fn create(path: &Path) -> io::Result<CaptureFile> {
        let file = open_new(path).or_else(|e| match e.kind() {
            ErrorKind::AlreadyExists => open_existing(path),
            _ => Err(e),
        })?;
        // The stack waits for a slow reader: a capture has no gaps.
        fd::set_blocking(&file)?;
        Ok(CaptureFile {
            file,
            path: path.to_owned(),
            written: 0,
            whole: 0,
            warned: false,
        })
    }

    /// A write failed: takes back the part of a block that is there, and warns once.
    fn fail(&mut self, error: &io::Error) {
        if error.kind() == ErrorKind::Interrupted || self.warned {
            return;
        }
        self.warned = true;
        // A FIFO has no length; its reader sees where the capture ends.
        let _ = self.file.set_len(self.whole);
        let path = self.path.display();
        let why = errors::reason(error);
        say(&format!(
            "warning: {path} ends here: writing it failed: {why}"
        ));
    }
}

/// Makes a file that only this user may read. A link is not followed (O_EXCL).
fn open_new(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600).open(path)
}

fn open_existing(path: &Path) -> io::Result<File> {
    // Links below /dev are the system's.
    let follow = match path.starts_with("/dev") {
        true => 0,
        false => libc::O_NOFOLLOW,
    };
    let mut options = OpenOptions::new();
    options.write(true).custom_flags(libc::O_NONBLOCK | follow);
    let file = options.open(path).map_err(|e| match e.raw_os_error() {
        Some(libc::ENXIO) => io::Error::other("no process reads this FIFO: start its reader first"),
        Some(libc::ELOOP) => io::Error::other("it is a symbolic link: name the file itself"),
        _ => e,
    })?;
    let found = file.metadata()?;
    if found.rdev() == NULL && path != Path::new("/dev/null") {
        return Err(io::Error::other(
            "it is /dev/null here, because COMMAND has the standard output: name a file or a FIFO",
        ));
    }
    if found.is_file() {
        if found.uid() != process::ids().0 {
            return Err(io::Error::other("the file belongs to another user"));
        }
        file.set_len(0)?;
    } else if !found.file_type().is_fifo() && !found.file_type().is_char_device() {
        return Err(io::Error::other("it is neither a file nor a FIFO"));
    }
    Ok(file)
}

impl Write for CaptureFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // A buffer in front of this may still hold the rest of the block that failed.
        if self.warned {
            return Err(ErrorKind::StorageFull.into());
        }
        let written = self.file.write(bytes).inspect_err(|e| self.fail(e))?;
        self.written += written as u64;
        Ok(written)
    }

    /// The capture flushes behind whole blocks.
    fn flush(&mut self) -> io::Result<()> {
        self.whole = self.written;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn directory(name: &str) -> PathBuf {
        let directory = std::env::temp_dir().join(format!("mbuma-{name}-{}", std::process::id()));
        fs::create_dir_all(&directory).expect("a directory");
        directory
    }

    #[test]
    fn a_capture_is_its_users_alone_and_follows_no_link() {
        // Breaks if other users may read a capture, or a link that another user made leads it elsewhere.
        let directory = directory("capture");
        let (file, link) = (directory.join("file"), directory.join("link"));
        CaptureFile::create(&file).expect("a new file");
        let mode = fs::metadata(&file).expect("it is there").permissions();
        assert_eq!(mode.mode() & 0o777, 0o600);
        fs::write(&file, "old").expect("written");
        symlink(&file, &link).expect("a link");
        assert!(CaptureFile::create(&link).is_err());
        assert_eq!(fs::read(&file).expect("it is there"), b"old");
        assert!(CaptureFile::create(&directory).is_err());
        CaptureFile::create(&file).expect("the same file again");
        assert_eq!(fs::read(&file).expect("it is there"), b"");
        fs::remove_dir_all(&directory).expect("removed");
    }

    #[test]
    fn a_capture_ends_behind_a_whole_block() {
        // Breaks if a full disk leaves part of a block, which Wireshark reports as a damaged file.
        let directory = directory("blocks");
        let path = directory.join("file");
        let mut file = CaptureFile::create(&path).expect("a new file");
        file.write_all(b"whole")
            .and_then(|()| file.flush())
            .expect("written");
        file.write_all(b"par").expect("written");
        file.fail(&ErrorKind::StorageFull.into());
        // A buffer in front of it does not write the rest of the block later.
        assert!(file.write_all(b"t").is_err());
        assert_eq!(fs::read(&path).expect("it is there"), b"whole");
        fs::remove_dir_all(&directory).expect("removed");
    }
}
