//! A directory for a test's files, and the data of a large transfer.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// A directory that every user can reach; its drop removes it.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// Makes one.
    pub(crate) fn new() -> Scratch {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        // Process ids start over in each process namespace, so they are not unique.
        let who = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        let who = who
            .to_string_lossy()
            .replace(|c: char| !c.is_ascii_digit(), "");
        let name = format!("mbuma-e2e-{who}-{}-{number}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        fs::create_dir_all(&dir).expect("the temporary directory can be written");
        Scratch(dir)
    }

    /// The path of a file in it.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The same as text, for a command line.
    pub(crate) fn text(&self, name: &str) -> String {
        self.path(name).to_string_lossy().into_owned()
    }

    /// Writes a file.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> String {
        fs::write(self.path(name), bytes).expect("the temporary directory can be written");
        self.text(name)
    }

    /// Copies a program where every user can start it.
    pub(crate) fn copy(&self, name: &str, from: &Path) -> String {
        copy_program(from, &self.path(name));
        self.text(name)
    }
}

/// Copies a program, by cp(1): a process that another test starts meanwhile would have a copy of a descriptor of ours
/// for a while, and a program that a process has open for writing can't be started (ETXTBSY).
pub(crate) fn copy_program(from: &Path, to: &Path) {
    let done = Command::new("cp").args([from, to]).status();
    let done = done.is_ok_and(|status| status.success());
    assert!(done, "cannot copy {} to {}", from.display(), to.display());
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Bytes without a pattern that a mistake could repeat: a piece lost, doubled or moved shows.
pub(crate) fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len + 8);
    let mut word = seed | 1;
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

/// The SHA-256 of what `write` writes, in hexadecimal digits.
pub(crate) fn sha256(write: impl FnOnce(&mut dyn Write)) -> String {
    let mut child = Command::new("sha256sum")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("sha256sum is there");
    write(child.stdin.as_mut().expect("a pipe was asked for"));
    let out = child.wait_with_output().expect("sha256sum ends");
    let text = String::from_utf8_lossy(&out.stdout);
    text.split_whitespace().next().unwrap_or("none").to_owned()
}
