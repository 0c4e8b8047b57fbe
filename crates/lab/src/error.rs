//! Why an experiment did not run.

use std::fmt;
use std::io;

/// Why an experiment did not run, with the correct usage.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// An unknown name.
    Unknown {
        /// "case" or "design".
        what: &'static str,
        /// As it was typed.
        name: String,
        /// The valid names.
        known: Vec<&'static str>,
    },
    /// A number or a file with which no measurement is possible.
    Bad(String),
    /// Writing a result failed.
    Io {
        /// In the form "writing the table".
        doing: String,
        /// The system's error.
        source: io::Error,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { what, name, known } => {
                write!(
                    f,
                    "there is no {what} `{name}`; there are: {}",
                    known.join(", ")
                )
            }
            Self::Bad(text) => f.write_str(text),
            Self::Io { doing, source } => write!(f, "{doing}: {source}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// The outcome of writing a result.
pub(crate) fn written(result: io::Result<()>) -> Result<(), Error> {
    result.map_err(|source| Error::Io {
        doing: "writing the result".to_owned(),
        source,
    })
}
