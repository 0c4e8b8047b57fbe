//! The output of an experiment, as its tests read it.

use crate::Error;
use serde_json::Value;
use std::io::Write;

/// The output of a run that must succeed.
pub(crate) fn output(run: impl FnOnce(&mut dyn Write) -> Result<(), Error>) -> String {
    let mut out = Vec::new();
    run(&mut out).expect("a run");
    String::from_utf8(out).expect("text")
}

/// Output of which each line is JSON.
pub(crate) fn json_lines(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).expect(line))
        .collect()
}
