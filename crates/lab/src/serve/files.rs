//! The files that are served, in a directory that is removed at the end.

use super::case::Case;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// A server may take a file that was changed a moment ago for one that still changes, and not keep it in memory.
const SETTLES: Duration = Duration::from_secs(3);

/// A directory that is removed with its owner.
pub(crate) struct ScratchDir(PathBuf);

impl ScratchDir {
    pub(crate) fn new(name: &str) -> io::Result<Self> {
        let name = format!("mbuma-lab-serve-{}-{name}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        fs::create_dir(&dir)?;
        Ok(Self(dir))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for ScratchDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Makes the files of these cases, and waits until they are some seconds old.
pub(crate) fn made(cases: &[Case]) -> io::Result<ScratchDir> {
    let dir = ScratchDir::new("files")?;
    for case in cases {
        let path = dir.path().join(case.file());
        if !path.exists() {
            fs::write(path, noise(case.size))?;
        }
    }
    thread::sleep(SETTLES);
    Ok(dir)
}

/// Bytes without a pattern.
fn noise(len: usize) -> Vec<u8> {
    let mut word = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        // Marsaglia's xorshift.
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}
