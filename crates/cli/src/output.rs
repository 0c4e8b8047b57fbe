//! Answers of mbuma's commands on standard output.
//!
//! Locks: standard output's.

use std::io::{self, Write};

use crate::errors::Error;

/// Text without the characters that move a terminal's cursor or change its colours.
pub(crate) fn printable(text: &str) -> String {
    let plain = |c: char| if c.is_control() && c != '\n' { '?' } else { c };
    text.chars().map(plain).collect()
}

/// Prints `text` as [`printable`]: it may come from another process. Returns false if standard output is closed.
pub(crate) fn print(text: &str) -> Result<bool, Error> {
    print_to(&mut io::stdout().lock(), text)
}

fn print_to(out: &mut impl Write, text: &str) -> Result<bool, Error> {
    let text = printable(text);
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        printed => printed
            .map(|()| true)
            .map_err(Error::io("printing the answer")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_moves_no_cursor() {
        // Breaks when another process writes to the terminal of the one that asks it: colours, titles, other lines.
        let mut out = Vec::new();
        print_to(&mut out, "a\x1b[2J\tb\r\nc\u{9b}").expect("a buffer takes it");
        assert_eq!(out, b"a?[2J?b?\nc?");
    }
}
