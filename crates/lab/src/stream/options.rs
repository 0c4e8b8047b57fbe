//! The options of the command.

use super::designs::Outside;
use super::programs;
use crate::Comparison;
use std::ffi::OsString;
use std::path::PathBuf;

/// The designs and cases to compare.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Options {
    /// The options of every comparison.
    #[command(flatten)]
    pub common: Comparison,
    /// Where the peers' programs are [default: $PEERS_DIR, or $PB]
    #[arg(long, value_name = "DIR")]
    pub peers: Option<PathBuf>,
    /// A program and arguments that come to [`bench`](super::bench) once a design's name and `--bench` with its words
    /// follow, for a design that needs a namespace of its own; empty: it is skipped.
    #[arg(skip)]
    pub child: Vec<OsString>,
}

impl Options {
    /// The settings of contestants that are programs.
    pub(crate) fn outside(&self) -> Outside {
        Outside {
            peers: programs::directory(self.peers.as_deref()),
            child: self.child.clone(),
        }
    }
}
