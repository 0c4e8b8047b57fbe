//! The representation of a file in answers: its length, type and validators, with their fields.
//!
//! The fields are made once for each state of a file, and not for each request.
//!
//! Invariants: no byte of the file is read for it.
//! Locks: none.
//! Sources: RFC 9110 sections 8.3 to 8.8.

use std::path::Path;
use std::time::SystemTime;

use super::coding::Coding;
use super::target::FilePath;
use super::validators::{Validators, opaque_tag};

/// The type of a file whose name has no known extension.
const UNKNOWN_TYPE: &str = "application/octet-stream";

/// Facts about a file before a byte of it is read.
#[derive(Clone, Debug)]
pub(crate) struct Representation {
    /// Bytes of the file that is sent.
    pub(crate) len: u64,
    /// The type, as the value of a field.
    pub(crate) kind: String,
    modified: SystemTime,
    /// Its entity tag, in quotes.
    opaque: String,
    /// The fields of its state after the tag.
    state: String,
    /// The fields of an answer with all of it, behind those.
    pub(crate) whole: String,
}

impl Representation {
    /// Of the file that `path` means, whose name tells the type; the one that is sent has `len` bytes, was last changed
    /// at `modified`, and is compressed by `coding`.
    pub(crate) fn of(
        path: &FilePath,
        len: u64,
        modified: SystemTime,
        coding: Option<Coding>,
    ) -> Representation {
        let kind = type_of(path);
        let opaque = opaque_tag(len, modified, coding);
        let date = Validators::of(&opaque, modified, modified).last_modified();
        let coding = coding.map_or(String::new(), |coding| {
            let name = coding.name();
            format!("Content-Encoding: {name}\r\n")
        });
        Representation {
            len,
            modified,
            state: format!("Last-Modified: {date}\r\n{coding}"),
            whole: format!(
                "Accept-Ranges: bytes\r\nContent-Type: {kind}\r\nContent-Length: {len}\r\n"
            ),
            kind,
            opaque,
        }
    }

    /// Its validators at the time `now`.
    pub(crate) fn validators(&self, now: SystemTime) -> Validators<'_> {
        Validators::of(&self.opaque, self.modified, now)
    }

    /// Writes the fields of its state.
    pub(crate) fn push_state(&self, validators: &Validators<'_>, out: &mut String) {
        for text in ["ETag: ", &*validators.etag(), "\r\n", &*self.state] {
            out.push_str(text);
        }
    }
}

/// The type by a file's name.
fn type_of(path: &FilePath) -> String {
    let name = path.display();
    let guess = mime_guess::from_path(Path::new(&*name)).first_raw();
    match guess.unwrap_or(UNKNOWN_TYPE) {
        text if text.starts_with("text/") => format!("{text}; charset=utf-8"),
        other => other.to_owned(),
    }
}
