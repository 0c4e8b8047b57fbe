//! The output of `--stats` at the end.
//!
//! The text is a template with figures filled in; `--stats=json` prints the figures themselves.

use std::fmt;
use std::io::{self, Write};

use mbuf::Live;
use serde::Serialize;

use super::figures::Figures;
use crate::args::StatsFormat;

/// All figures at the end.
#[derive(Debug, Serialize)]
pub(crate) struct Summary {
    #[serde(flatten)]
    pub(super) figures: Figures,
    /// Buffers that were not given back: zero, unless something is wrong.
    pub(super) leaked: Leaked,
}

/// Buffers in use after everything was closed.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Leaked {
    mbufs: usize,
    clusters: usize,
}

impl From<Live> for Leaked {
    fn from(live: Live) -> Leaked {
        Leaked {
            mbufs: live.mbufs,
            clusters: live.clusters,
        }
    }
}

impl Summary {
    /// Prints the output of `--stats` on standard error.
    pub(crate) fn report(&self, format: Option<StatsFormat>) {
        let text = match format {
            None => return,
            Some(StatsFormat::Text) => self.to_string(),
            Some(StatsFormat::Json) => serde_json::to_string(self).unwrap_or_default(),
        };
        // A closed standard error is no reason to fail.
        let _ = writeln!(io::stderr(), "{}", text.trim_end());
    }
}

/// The summary's lines about the time that the guest was served.
const TEMPLATE: &str = include_str!("templates/summary.txt");

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Leaked { mbufs, clusters } = self.leaked;
        write!(f, "{}", self.figures.fill(TEMPLATE))?;
        writeln!(
            f,
            "in use after the end: {mbufs} mbufs, {clusters} clusters"
        )
    }
}
