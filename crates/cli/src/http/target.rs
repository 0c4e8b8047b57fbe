//! The file that a request's path means.
//!
//! | in the path | is |
//! |---|---|
//! | `..` as a segment, an escaped `/`, a NUL, a broken escape | 400: no proper client sends it |
//! | a segment that begins with a dot | 404: names that are hidden on purpose; but `.well-known` (RFC 8615) |
//! | `//`, `.` | left out |
//!
//! Invariants: a [`FilePath`] is relative and has no `..`: only a symbolic link can lead it out of a directory, which
//! the kernel refuses when the file is opened. Locks: none. Sources: RFC 3986 sections 2.1, 3.3 and 5.2.4.

use std::borrow::Cow;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};

use super::status::HttpStatus;

/// Names that a path may contain although they begin with a dot.
const VISIBLE: &[u8] = b".well-known";
/// Bytes that are escaped in a segment: all but RFC 3986's unreserved characters.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// A file below the served directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FilePath {
    /// Decoded segments, with slashes between them; empty for the directory itself.
    bytes: Vec<u8>,
    /// The path ended in a slash: it means a directory.
    means_directory: bool,
}

impl FilePath {
    /// Reads a path, which begins with a slash and has no query.
    ///
    /// # Errors
    /// The status to answer with.
    pub(crate) fn parse(path: &str) -> Result<FilePath, HttpStatus> {
        let mut bytes = Vec::with_capacity(path.len());
        let mut means_directory = true;
        for raw in path.split('/').skip(1) {
            let segment = decoded(raw)?;
            means_directory = matches!(&*segment, b"" | b".");
            match &*segment {
                b"" | b"." => continue,
                b".." => return Err(HttpStatus::BadRequest),
                hidden if hidden.starts_with(b".") && hidden != VISIBLE => {
                    return Err(HttpStatus::NotFound);
                }
                _ => {}
            }
            if !bytes.is_empty() {
                bytes.push(b'/');
            }
            bytes.extend_from_slice(&segment);
        }
        Ok(FilePath {
            bytes,
            means_directory,
        })
    }

    /// For the kernel.
    pub(crate) fn bytes(&self) -> &[u8] {
        match self.bytes.is_empty() {
            true => b".",
            false => &self.bytes,
        }
    }

    /// It ended in a slash.
    pub(crate) fn means_directory(&self) -> bool {
        self.means_directory
    }

    /// It is the served directory itself.
    pub(crate) fn is_root(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The path of a file in this directory.
    pub(crate) fn child(&self, name: &str) -> FilePath {
        let mut bytes = self.bytes.clone();
        if !bytes.is_empty() {
            bytes.push(b'/');
        }
        bytes.extend_from_slice(name.as_bytes());
        FilePath {
            bytes,
            means_directory: false,
        }
    }

    /// The path with `suffix` behind its name.
    pub(crate) fn with_suffix(&self, suffix: &str) -> FilePath {
        FilePath {
            bytes: [&self.bytes, suffix.as_bytes()].concat(),
            means_directory: false,
        }
    }

    /// The path of the directory in a URL, from its first segment on, with a slash at its end unless it is the root.
    pub(crate) fn directory_url(&self) -> String {
        let segments = self.bytes.split(|b| *b == b'/').filter(|s| !s.is_empty());
        segments.map(|segment| escaped(segment) + "/").collect()
    }

    /// For people: the path as text.
    pub(crate) fn display(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.bytes)
    }
}

/// A segment without its escapes.
fn decoded(raw: &str) -> Result<Cow<'_, [u8]>, HttpStatus> {
    let whole =
        |rest: &[u8]| matches!(rest, [a, b, ..] if a.is_ascii_hexdigit() && b.is_ascii_hexdigit());
    let mut escapes = raw.as_bytes().split(|b| *b == b'%').skip(1);
    if !escapes.all(whole) {
        return Err(HttpStatus::BadRequest);
    }
    let segment = Cow::from(percent_decode_str(raw));
    match segment.iter().any(|b| matches!(b, b'/' | 0)) {
        true => Err(HttpStatus::BadRequest),
        false => Ok(segment),
    }
}

/// A name as a segment of a URL.
pub(crate) fn escaped(name: &[u8]) -> String {
    percent_encode(name, ESCAPED).to_string()
}
