//! The request of `mbuma netstat` to a running mbuma, and the head of the answer, as they are on the socket.
//!
//! ```text
//!   netstat/1 text connections locks\n            the request: one line
//!   ok 1234\n and 1234 bytes                      the answer,
//!   no REASON\n                                   or why there is none
//! ```
//!
//! Both ends are mbuma, but possibly of different builds: the number is that of the protocol, and an unknown word gets
//! an error.
//!
//! Invariants: a request has [`REQUEST_MAX`] bytes at most and each section once; nothing that comes over the socket
//! panics.
//! Locks: none.

/// Bytes of a request at most: all words fit, with room for future ones.
pub(crate) const REQUEST_MAX: usize = 256;
/// The first word of a request.
const LANGUAGE: &str = "netstat/1";

/// A section of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

impl Section {
    /// All of them.
    const ALL: [Section; 7] = [
        Section::Overview,
        Section::Connections,
        Section::Mbufs,
        Section::Protocols,
        Section::Zones,
        Section::Interfaces,
        Section::Locks,
    ];

    /// Its word in a request, and its name in a JSON document.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Section::Overview => "overview",
            Section::Connections => "connections",
            Section::Mbufs => "mbufs",
            Section::Protocols => "protocols",
            Section::Zones => "zones",
            Section::Interfaces => "interfaces",
            Section::Locks => "locks",
        }
    }

    fn named(word: &str) -> Option<Section> {
        Section::ALL.into_iter().find(|s| s.name() == word)
    }
}

/// The sections that are asked for, and their format.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    /// An unknown word.
    Word,
}

impl RequestError {
    /// For the process that asked.
    pub(crate) const fn text(self) -> &'static str {
        match self {
            RequestError::TooLong => "the request is too long",
            RequestError::Language => "it is of another version, and speaks another language",
            RequestError::Word => "it is of another version, and does not know what was asked for",
        }
    }
}

impl Request {
    /// As it goes over the socket.
    pub(crate) fn line(&self) -> String {
        let mut line = format!("{LANGUAGE} {}", if self.json { "json" } else { "text" });
        for section in &self.sections {
            line.push(' ');
            line.push_str(section.name());
        }
        line + "\n"
    }

    /// Reads the request at the front of `bytes`; `None` if it is not all there yet.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Option<Request>, RequestError> {
        let end = bytes.iter().take(REQUEST_MAX).position(|b| *b == b'\n');
        let line = match end {
            Some(end) => bytes.get(..end).unwrap_or_default(),
            None if bytes.len() < REQUEST_MAX => return Ok(None),
            None => return Err(RequestError::TooLong),
        };
        let line = std::str::from_utf8(line).map_err(|_| RequestError::Language)?;
        let mut words = line.split(' ');
        if words.next() != Some(LANGUAGE) {
            return Err(RequestError::Language);
        }
        let json = match words.next() {
            Some("json") => true,
            Some("text") => false,
            _ => return Err(RequestError::Word),
        };
        let mut sections = Vec::new();
        for word in words {
            let section = Section::named(word).ok_or(RequestError::Word)?;
            if !sections.contains(&section) {
                sections.push(section);
            }
        }
        Ok(Some(Request { json, sections }))
    }
}

/// An answer with its head.
pub(crate) fn answer(body: &str) -> Vec<u8> {
    format!("ok {}\n{body}", body.len()).into_bytes()
}

/// The answer to a request that is refused.
pub(crate) fn refuse(reason: &str) -> Vec<u8> {
    format!("no {reason}\n").into_bytes()
}

/// The answer: the body, or the reason why there is none; `None` if it is neither, or not all.
pub(crate) fn read_answer(bytes: &[u8]) -> Option<Result<&str, &str>> {
    let text = std::str::from_utf8(bytes).ok()?;
    let (head, body) = text.split_once('\n')?;
    match head.split_once(' ')? {
        ("ok", len) => (len.parse() == Ok(body.len())).then_some(Ok(body)),
        ("no", reason) => body.is_empty().then_some(Err(reason)),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
