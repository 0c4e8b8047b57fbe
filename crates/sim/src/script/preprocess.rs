//! `#define`, `#ifdef`, `#ifndef`, `#else`, `#endif`: which lines of a script count.
//!
//! A line that does not count becomes an empty one, so that line numbers stay.

use std::collections::BTreeSet;

use super::lexer::SyntaxError;
use super::syntax::Line;

/// One open `#ifdef`.
struct Branch {
    opened: Line,
    /// The lines around it count.
    outer: bool,
    /// This branch's lines count, as far as the lines around it do.
    taken: bool,
    /// `#else` was seen.
    has_else: bool,
}

/// The text with the lines that count for these names.
pub(super) fn lines_that_count(
    text: &str,
    defines: &BTreeSet<String>,
) -> Result<String, SyntaxError> {
    let mut names = defines.clone();
    let mut open: Vec<Branch> = Vec::new();
    let mut out = String::with_capacity(text.len());
    for (i, line) in text.lines().enumerate() {
        let at = Line(u32::try_from(i + 1).unwrap_or(u32::MAX));
        let counts = open.last().is_none_or(|b| b.outer && b.taken);
        match directive(line) {
            Some((word, rest)) => obey(at, word, rest, counts, &mut names, &mut open)?,
            None if counts => out.push_str(line),
            None => {}
        }
        out.push('\n');
    }
    match open.first() {
        Some(branch) => Err(SyntaxError::new(branch.opened, "this #ifdef has no #endif")),
        None => Ok(out),
    }
}

/// The directive's name and the rest of its line. Other lines that begin with `#` are comments.
fn directive(line: &str) -> Option<(&str, &str)> {
    let rest = line.trim_start().strip_prefix('#')?.trim_start();
    let (word, rest) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let known = ["define", "undef", "ifdef", "ifndef", "else", "endif"];
    known.contains(&word).then_some((word, rest.trim()))
}

fn obey(
    at: Line,
    word: &str,
    rest: &str,
    counts: bool,
    names: &mut BTreeSet<String>,
    open: &mut Vec<Branch>,
) -> Result<(), SyntaxError> {
    let name = rest.split_whitespace().next().unwrap_or_default();
    let stray = || SyntaxError::new(at, format!("#{word} without #ifdef"));
    match word {
        "ifdef" | "ifndef" => {
            if name.is_empty() {
                return Err(SyntaxError::new(at, format!("#{word} needs a name")));
            }
            open.push(Branch {
                opened: at,
                outer: counts,
                taken: names.contains(name) == (word == "ifdef"),
                has_else: false,
            });
        }
        "else" => {
            let branch = open.last_mut().ok_or_else(stray)?;
            if std::mem::replace(&mut branch.has_else, true) {
                return Err(SyntaxError::new(at, "a second #else"));
            }
            branch.taken = !branch.taken;
        }
        "endif" => {
            open.pop().ok_or_else(stray)?;
        }
        "define" if counts => {
            names.insert(name.to_owned());
        }
        "undef" if counts => {
            names.remove(name);
        }
        _ => {}
    }
    Ok(())
}
