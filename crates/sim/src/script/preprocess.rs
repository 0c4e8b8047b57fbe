//! `#define`, `#ifdef`, `#ifndef`, `#else`, `#endif`: which lines of a script count.
//!
//! A line that does not count becomes an empty one, so that line numbers stay. A `#` inside of `%{ ... }%`, of a
//! command in backquotes or of a `/* ... */` begins no directive.

use std::collections::{BTreeMap, BTreeSet};

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

/// The text with the lines that count for these names. `NAME=VALUE` also stands for that value in these lines.
pub(super) fn lines_that_count(
    text: &str,
    defines: &BTreeSet<String>,
) -> Result<String, SyntaxError> {
    let values: BTreeMap<&str, &str> = defines.iter().filter_map(|d| d.split_once('=')).collect();
    let name_of = |define: &String| match define.split_once('=') {
        Some((name, _)) => name.to_owned(),
        None => define.clone(),
    };
    let mut names: BTreeSet<String> = defines.iter().map(name_of).collect();
    let mut open: Vec<Branch> = Vec::new();
    let mut out = String::with_capacity(text.len());
    let mut block = None;
    for (i, line) in text.lines().enumerate() {
        let at = Line(u32::try_from(i + 1).unwrap_or(u32::MAX));
        let counts = open.last().is_none_or(|b| b.outer && b.taken);
        let first = match block {
            None => directive(line),
            Some(_) => None,
        };
        if first.is_none() {
            block = block_behind(line, block);
        }
        match first {
            Some((word, rest)) => obey(at, word, rest, counts, &mut names, &mut open)?,
            None if counts => out.push_str(&with_values(line, &values)),
            None => {}
        }
        out.push('\n');
    }
    match open.first() {
        Some(branch) => Err(SyntaxError::new(branch.opened, "this #ifdef has no #endif")),
        None => Ok(out),
    }
}

/// The line with each name replaced that stands for a value.
fn with_values(line: &str, values: &BTreeMap<&str, &str>) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        let is_of_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let len = match is_of_word(first) {
            true => rest.find(|c| !is_of_word(c)).unwrap_or(rest.len()),
            false => first.len_utf8(),
        };
        let (word, behind) = rest.split_at(len);
        out.push_str(values.get(word).unwrap_or(&word));
        rest = behind;
    }
    out
}

/// The text that ends a block, which may be longer than a line.
type BlockEnd = &'static str;

/// The end of the block that is still open after the line, if there is one; `open` is the same before the line.
fn block_behind(line: &str, mut open: Option<BlockEnd>) -> Option<BlockEnd> {
    let mut rest = line;
    while let Some(c) = rest.chars().next() {
        let begins = |sign: &str| rest.starts_with(sign);
        let mut len = c.len_utf8();
        match open {
            // A backslash takes the next character as it is, but not in Python.
            Some("`" | "\"") if c == '\\' => {
                len += rest[len..].chars().next().map_or(0, char::len_utf8);
            }
            Some(end) if begins(end) => (open, len) = (None, end.len()),
            Some(_) => {}
            None if begins("//") || begins("#") => return None,
            None if begins("/*") => (open, len) = (Some("*/"), 2),
            None if begins("%{") => (open, len) = (Some("}%"), 2),
            None if begins("`") => open = Some("`"),
            None if begins("\"") => open = Some("\""),
            None => {}
        }
        rest = &rest[len..];
    }
    open
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

#[cfg(test)]
mod tests {
    use super::*;

    fn count(text: &str) -> String {
        lines_that_count(text, &BTreeSet::new()).expect("a good text")
    }

    #[test]
    fn a_comment_of_another_language_is_no_directive() {
        // Breaks when the comments of Python or of a shell are read as directives; or when those behind them no longer
        // are.
        let text = concat!(
            "+0 %{\n# else it is 5\nassert 1 # ` \"\n}%\n",
            "`a\n# if b \\` c\n#endif`\n",
            "/* %{\n#else */\n// ` %{ \"\n\"`\"\n",
        );
        assert_eq!(count(text), text);
        let tail = "#ifdef X\nhidden\n#else\nseen\n#endif\n";
        assert_eq!(
            count(&format!("{text}{tail}")),
            format!("{text}\n\n\nseen\n\n")
        );
    }

    #[test]
    fn a_name_stands_for_its_value() {
        // Breaks when a value that the command line gives to a name is not used, or replaces a part of a longer word.
        let defines = BTreeSet::from(["A=12".to_owned(), "B".to_owned()]);
        let text = "#ifdef A\n+0 < x(A) AA A_ \u{e4}A B\n#endif\n";
        let got = lines_that_count(text, &defines).expect("a good text");
        assert_eq!(got, "\n+0 < x(12) AA A_ \u{e4}12 B\n\n");
    }

    #[test]
    fn a_block_that_does_not_count_has_no_directives_either() {
        // Breaks when the lines that are left out are not looked through for blocks.
        let text = "#ifdef X\n%{\n#endif\n}%\n#endif\nseen\n";
        assert_eq!(count(text), "\n\n\n\n\nseen\n");
    }
}
