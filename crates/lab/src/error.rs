//! Why an experiment did not run.

use std::io;
use std::path::Path;

/// Why an experiment did not run, with the correct usage.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An unknown name.
    #[error("there is no {what} `{name}`; there are: {}", known.join(", "))]
    Unknown {
        /// "case" or "design".
        what: &'static str,
        /// As it was typed.
        name: String,
        /// The valid names.
        known: Vec<&'static str>,
    },
    /// A number or a file with which no measurement is possible.
    #[error("{0}")]
    Bad(String),
    /// Writing a result failed.
    #[error("{doing}: {source}")]
    Io {
        /// In the form "writing the table".
        doing: String,
        /// The system's error.
        source: io::Error,
    },
}

/// The outcome of writing a result.
pub(crate) fn written(result: io::Result<()>) -> Result<(), Error> {
    result.map_err(|source| Error::Io {
        doing: "writing the result".to_owned(),
        source,
    })
}

/// A file could not be written.
pub(crate) fn unwritable(path: &Path, source: io::Error) -> Error {
    Error::Io {
        doing: format!("writing {}", path.display()),
        source,
    }
}
