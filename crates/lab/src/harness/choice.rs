//! The choices of an experiment: names and lists of cases and designs, the origin of a design, the reason why one does
//! not take part.

use crate::Error;
use std::fmt;

/// A case or a design.
pub(crate) trait Listed: Copy {
    /// The name that a program types, in all output.
    fn name(&self) -> &'static str;

    /// Its line in `--list`.
    fn about(&self) -> String;
}

/// The name and the line of a type's values.
macro_rules! listed {
    ($of:ty: |$it:ident| $name:expr, $about:expr) => {
        impl $crate::harness::choice::Listed for $of {
            fn name(&self) -> &'static str {
                let $it = *self;
                $name
            }

            fn about(&self) -> String {
                let $it = *self;
                $about.into()
            }
        }
    };
}
pub(crate) use listed;

/// The line about the one of this name; nothing, if there is none.
pub(crate) fn about(all: &[impl Listed], name: &str) -> String {
    let one = all.iter().find(|one| one.name() == name);
    one.map_or_else(String::new, Listed::about)
}

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
pub(crate) fn chosen<T: Listed>(
    what: &'static str,
    names: &[String],
    all: &[T],
) -> Result<Vec<T>, Error> {
    if let Some(name) = names
        .iter()
        .find(|name| !all.iter().any(|one| one.name() == *name))
    {
        let known = all.iter().map(T::name).collect();
        return Err(Error::Unknown {
            what,
            name: name.clone(),
            known,
        });
    }
    let wanted = |one: &&T| names.is_empty() || names.iter().any(|name| name == one.name());
    Ok(all.iter().filter(wanted).copied().collect())
}
