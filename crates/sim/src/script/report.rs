//! The outcome of a script.

use std::fmt;

use serde::Serialize;

use super::syntax::Micros;

/// How a script ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "verdict", rename_all = "lowercase")]
pub enum ScriptVerdict {
    /// All events were as the script says.
    Passed,
    /// An event differed.
    Failed(Failure),
    /// The script needs a feature that the stack or the runner lacks.
    Unsupported {
        /// The script's line.
        line: u32,
        /// The missing feature.
        message: String,
    },
}

/// The first difference from the script.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// The script's line.
    pub line: u32,
    /// The error.
    pub message: String,
    /// The line's text.
    pub expected: String,
    /// The actual event.
    pub got: String,
}

/// The report of one run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ScriptReport {
    /// The script's name.
    pub script: String,
    /// How it ended.
    #[serde(flatten)]
    pub verdict: ScriptVerdict,
    /// The script's lines that have no effect here.
    pub notes: Vec<String>,
    /// Every packet, call and command with its time, in order.
    pub trace: Vec<String>,
    /// The virtual time that the run took, in microseconds.
    pub elapsed_us: Micros,
}

impl ScriptReport {
    /// Whether all events were as the script says.
    pub fn passed(&self) -> bool {
        self.verdict == ScriptVerdict::Passed
    }
}

/// The verdict; of a failure the script's line, the expected and the actual event, and the whole trace.
impl fmt::Display for ScriptReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.script;
        match &self.verdict {
            ScriptVerdict::Passed => writeln!(f, "{name}: passed")?,
            ScriptVerdict::Unsupported { line, message } => {
                writeln!(f, "{name}:{line}: unsupported: {message}")?;
            }
            ScriptVerdict::Failed(failure) => {
                writeln!(f, "{name}:{}: {}", failure.line, failure.message)?;
                writeln!(f, "  expected: {}", failure.expected)?;
                writeln!(f, "  got:      {}", failure.got)?;
                writeln!(f, "  trace:")?;
                for line in &self.trace {
                    writeln!(f, "    {line}")?;
                }
            }
        }
        for note in &self.notes {
            writeln!(f, "  note: {note}")?;
        }
        Ok(())
    }
}
