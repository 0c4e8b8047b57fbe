//! The text of a WITNESS report: the fault, with every place that has to do with it.
//!
//! ```text
//! witness: lock order reversal: alpha at src/b.rs:7:24, while holding beta at src/b.rs:6:23
//!   alpha, then beta, was seen: at src/a.rs:3:24, then src/a.rs:4:23, by thread "worker 1"
//! ```
//!
//! Locks: none.

use core::fmt;

use super::graph::OrderStep;
use super::held::Acquisition;
use crate::lock::How;

/// The fault.
pub(super) enum Fault<'a> {
    /// The same lock again.
    Recursion {
        wanted: Acquisition,
        taken: Acquisition,
    },
    /// Another lock of the class.
    SameClass {
        wanted: Acquisition,
        taken: Acquisition,
    },
    /// Against the order that `path` shows, from the class wanted to the one taken. It is empty
    /// where two ranks are equal.
    Reversal {
        wanted: Acquisition,
        taken: Acquisition,
        path: Vec<OrderStep>,
    },
    /// An operation over which no lock may be held.
    Over {
        what: &'a str,
        held: Vec<Acquisition>,
    },
}

/// Panics, unless the thread is unwinding already: a second panic would abort and hide the first.
#[track_caller]
pub(super) fn complain(fault: &Fault<'_>) {
    if !std::thread::panicking() {
        panic!("witness: {fault}");
    }
}

impl fmt::Display for Fault<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Recursion { wanted, taken } => {
                let read = match (wanted.how, taken.how) {
                    (How::Read, How::Read) => "read ",
                    _ => "",
                };
                write!(f, "{read}lock recursion: {wanted}, held since {taken}")
            }
            Self::SameClass { wanted, taken } => {
                write!(f, "two locks of one class: {wanted}, while holding {taken}")
            }
            Self::Reversal {
                wanted,
                taken,
                path,
            } => {
                write!(f, "lock order reversal: {wanted}, while holding {taken}")?;
                if path.is_empty() {
                    f.write_str("\n  locks of one rank do not nest")?;
                }
                path.iter().try_for_each(|step| write!(f, "\n  {step}"))
            }
            Self::Over { what, held } => {
                write!(f, "{what} while ")?;
                for (n, taken) in held.iter().enumerate() {
                    write!(f, "{}{taken}", if n == 0 { "" } else { ", " })?;
                }
                f.write_str(if held.len() == 1 {
                    " is held"
                } else {
                    " are held"
                })
            }
        }
    }
}

impl fmt::Display for Acquisition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.class, self.site)
    }
}

impl fmt::Display for OrderStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (outer, inner) = (self.outer.name, self.inner.name);
        match &self.seen {
            Some(seen) => write!(
                f,
                "{outer}, then {inner}, was seen: at {}, then {}, by thread {:?}",
                seen.outer, seen.inner, seen.thread
            ),
            None => write!(
                f,
                "{outer}, then {inner}, is declared: rank {} before {}",
                self.outer.rank, self.inner.rank
            ),
        }
    }
}
