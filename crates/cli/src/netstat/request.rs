//! The request of `mbuma netstat` to a running mbuma, and the head of the answer, as they are on the socket.
//!
//! ```text
//!   {"json":false,"sections":["connections","locks"]}\n    the request: one line
//!   {"Ok":"..."}                                          the answer,
//!   {"Err":"REASON"}                                      or why there is none
//! ```
//!
//! Both ends are mbuma, but possibly of different builds: an unknown word gets an error.
//!
//! Invariants: a request has [`REQUEST_MAX`] bytes at most and each section once; nothing that comes over the socket
//! panics.
//! Locks: none.

use serde::{Deserialize, Serialize};

/// Bytes of a request at most: all words fit, with room for future ones.
pub(crate) const REQUEST_MAX: usize = 256;

/// A section of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Section {
    /// A few lines about everything.
    Overview,
    /// Connections and flows (`-a`).
    Connections,
    /// Buffers (`-m`).
    Mbufs,
    /// Counters of the protocols, and drops (`-s`).
    Protocols,
    /// The allocator's zones (`-z`).
    Zones,
    /// Interfaces (`-i`).
    Interfaces,
    /// Lock classes, holders, waiters (`--locks`).
    Locks,
}

/// The sections that are asked for, and their format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
    /// One JSON document, or text for people.
    pub(crate) json: bool,
    /// The sections, in this order, each once.
    pub(crate) sections: Vec<Section>,
}

/// Why a request is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestError {
    /// No end of line within [`REQUEST_MAX`] bytes.
    TooLong,
    /// Not this protocol, or not this version of it.
    Language,
}

impl RequestError {
    /// For the process that asked.
    pub(crate) const fn text(self) -> &'static str {
        match self {
            RequestError::TooLong => "the request is too long",
            RequestError::Language => "it is of another version, and speaks another language",
        }
    }
}

impl Request {
    /// As it goes over the socket.
    pub(crate) fn line(&self) -> String {
        in_json(self) + "\n"
    }

    /// Reads the request at the front of `bytes`; `None` if it is not all there yet.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Option<Request>, RequestError> {
        let end = bytes.iter().take(REQUEST_MAX).position(|b| *b == b'\n');
        let line = match end {
            Some(end) => bytes.get(..end).unwrap_or_default(),
            None if bytes.len() < REQUEST_MAX => return Ok(None),
            None => return Err(RequestError::TooLong),
        };
        let mut request: Request =
            serde_json::from_slice(line).map_err(|_| RequestError::Language)?;
        let mut seen = Vec::new();
        request.sections.retain(|section| {
            let is_new = !seen.contains(section);
            seen.push(*section);
            is_new
        });
        Ok(Some(request))
    }
}

/// An answer: the body, or the reason why there is none.
pub(crate) type Answer = Result<String, String>;

/// An answer as it goes over the socket.
pub(crate) fn answer(answer: &Answer) -> Vec<u8> {
    in_json(answer).into_bytes()
}

/// Reads an answer; `None` if it is none, or not all.
pub(crate) fn read_answer(bytes: &[u8]) -> Option<Answer> {
    serde_json::from_slice(bytes).ok()
}

/// Plain data has no way to fail.
fn in_json(data: &impl Serialize) -> String {
    serde_json::to_string(data).unwrap_or_default()
}

#[cfg(test)]
mod tests;
