//! The way in which threads access the slots: chosen once for a zone.
//!
//! Locks: none.

use core::fmt;
use serde::{Serialize, Serializer};

/// How threads access the slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    /// By restartable sequences.
    Rseq,
    /// Under a try-lock for each CPU.
    Locked,
}

impl Backend {
    /// The method that works here, or the method that the environment names ([`kern::rseq::choose`]).
    #[must_use]
    pub fn choose() -> Self {
        match kern::rseq::choose() {
            kern::rseq::PercpuMethod::Rseq { .. } => Self::Rseq,
            kern::rseq::PercpuMethod::Locked => Self::Locked,
        }
    }
}

impl Serialize for Backend {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Rseq => "rseq",
            Self::Locked => "lock",
        })
    }
}
