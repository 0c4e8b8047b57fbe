//! One line on a terminal that names the running measurement; in a pipe, only under `cargo lab all`.
//!
//! `cargo lab all` starts an experiment with [`TELL`] in its environment. The experiment then writes lines that begin
//! with [`TOLD`] to standard error, and the line of all experiments shows them.

use std::env;
use std::io::{self, IsTerminal, Write};

/// Set in the environment of an experiment that must report its progress.
pub(crate) const TELL: &str = "MBUMA_LAB_TELL";
/// The beginning of such a line.
pub(crate) const TOLD: &str = "mbuma-lab: ";

/// Reports the progress of an experiment on standard error.
pub(crate) struct Progress {
    to: To,
    wide: usize,
}

/// Where progress is shown.
#[derive(Clone, Copy, PartialEq, Eq)]
enum To {
    Nobody,
    Terminal,
    Parent,
}

impl Progress {
    /// Quiet unless `wanted` and there is a reader: a terminal, or a parent.
    pub(crate) fn new(wanted: bool) -> Self {
        let to = match wanted {
            true if env::var_os(TELL).is_some() => To::Parent,
            true if io::stderr().is_terminal() => To::Terminal,
            _ => To::Nobody,
        };
        Self { to, wide: 0 }
    }

    /// Replaces the line.
    pub(crate) fn say(&mut self, text: &str) {
        // A closed terminal does not end the measurement.
        let _ = match self.to {
            To::Nobody => Ok(()),
            To::Parent => writeln!(io::stderr(), "{TOLD}{text}"),
            To::Terminal => {
                let text: String = text.chars().take(79).collect();
                let wide = self.wide;
                self.wide = text.chars().count();
                write!(io::stderr(), "\r{text:<wide$}")
            }
        };
    }

    /// Removes the line, before other output.
    pub(crate) fn clear(&mut self) {
        if self.to == To::Terminal && self.wide > 0 {
            let _ = write!(io::stderr(), "\r{:wide$}\r", "", wide = self.wide);
            self.wide = 0;
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}
