//! One line on a terminal that says what is being measured; nothing in a pipe.
//!
//! Called by: the experiments. Calls: standard error.

use std::io::{self, IsTerminal, Write};

/// Says on standard error how far an experiment is.
pub(crate) struct Progress {
    shown: bool,
    wide: usize,
}

impl Progress {
    /// Quiet unless standard error is a terminal and `wanted`.
    pub(crate) fn new(wanted: bool) -> Self {
        Self {
            shown: wanted && io::stderr().is_terminal(),
            wide: 0,
        }
    }

    /// Replaces the line.
    pub(crate) fn say(&mut self, text: &str) {
        if self.shown {
            let text: String = text.chars().take(79).collect();
            let wide = self.wide;
            // A terminal that is gone is no reason to stop measuring.
            let _ = write!(io::stderr(), "\r{text:<wide$}");
            self.wide = text.chars().count();
        }
    }

    /// Takes the line away, before something is printed.
    pub(crate) fn clear(&mut self) {
        if self.shown && self.wide > 0 {
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
