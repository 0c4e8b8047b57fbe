//! The choices of an experiment: the origin of a design, the reason why one does not take part, look-up by name.

use crate::Error;
use std::fmt;

/// Whose design it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The project's own.
    Ours,
    /// From the seed documents.
    Seed,
    /// Common programs today.
    Peer,
    /// Only the loop: a floor.
    Floor,
}

impl Kind {
    /// A design's line in a list; `seed` is the document that the experiment is about.
    pub(crate) fn says(self, seed: &str, about: &str) -> String {
        let whose = match self {
            Self::Ours => "ours",
            Self::Seed => seed,
            Self::Peer => "peer",
            Self::Floor => "floor",
        };
        format!("{whose}: {about}")
    }
}

/// Why a design does not take part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Absent(pub(crate) String);

impl fmt::Display for Absent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "skipped: {}", self.0)
    }
}

/// The ones of `all` whose names are in `names`, or all if there are no names.
///
/// # Errors
/// [`Error::Unknown`] for an unknown name.
pub(crate) fn chosen<T: Copy>(
    what: &'static str,
    names: &[String],
    all: &[T],
    name_of: impl Fn(&T) -> &'static str,
) -> Result<Vec<T>, Error> {
    if let Some(name) = names
        .iter()
        .find(|name| !all.iter().any(|one| name_of(one) == *name))
    {
        let known = all.iter().map(&name_of).collect();
        return Err(Error::Unknown {
            what,
            name: name.clone(),
            known,
        });
    }
    let wanted = |one: &&T| names.is_empty() || names.iter().any(|name| name == name_of(one));
    Ok(all.iter().filter(wanted).copied().collect())
}
