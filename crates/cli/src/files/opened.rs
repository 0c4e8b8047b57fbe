//! Files that were opened a moment ago: requests that come together for one file share its descriptor, and one read of a
//! small file.
//!
//! The worker takes frames in, gives connections their turns, and then forgets the files: one round of its loop. So a request
//! gets no state of the tree from before the round in which it came, and no descriptor stays open for want of requests.
//!
//! Invariants: at most [`FILES_MAX`] files.
//! Locks: none: each worker has its own.

use super::served_file::ServedFile;

/// Files at most: more are rarely asked for in one round.
const FILES_MAX: usize = 16;

/// The files of a round, by their paths.
#[derive(Debug, Default)]
pub(crate) struct OpenedFiles(Vec<(Vec<u8>, ServedFile)>);

impl OpenedFiles {
    /// The file that was opened at this path.
    pub(crate) fn find(&self, path: &[u8]) -> Option<ServedFile> {
        let found = self.0.iter().find(|(opened, _)| *opened == path);
        found.map(|(_, file)| file.share())
    }

    /// Keeps a file until the round ends, if there is room.
    pub(crate) fn add(&mut self, path: &[u8], file: &ServedFile) {
        if self.0.len() < FILES_MAX {
            self.0.push((path.to_vec(), file.clone()));
        }
    }

    /// The round ends.
    pub(crate) fn forget(&mut self) {
        self.0.clear();
    }
}
