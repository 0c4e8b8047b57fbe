//! Public types that programs read: `#[non_exhaustive]`, so that a new figure or a new error breaks no program.
//!
//! Each public enum of errors of the stack has the attribute. The libraries below the stack have few reasons, of which
//! each caller handles each: there a new one is meant to stop the build.
//!
//! A public struct whose fields are public has it too, or is counted here.
//!
//! A program may write out a struct of settings, of a header's fields, or of a few values that belong together (an
//! address with its prefix, a budget). Such a struct is exhaustive on purpose. A struct that a library fills in and a
//! program reads is not. The bound keeps the number from growing by oversight.

use std::fs;
use std::path::{Path, PathBuf};

/// Public structs of which programs may write every field, at most. To be lowered; raised only for settings and
/// headers.
const EXHAUSTIVE_MAX: usize = 47;

/// Crates that programs use.
const LIBRARIES: [&str; 5] = ["kern", "uma", "mbuf", "wire", "mbuma"];

/// Complains of errors without the attribute; counts structs, and complains if there are too many.
pub(super) fn check(complaints: &mut Vec<String>, files: &[PathBuf]) {
    let mut found = Vec::new();
    for file in files.iter().filter(|f| is_library(f)) {
        let text = fs::read_to_string(file).unwrap_or_default();
        if file.starts_with("crates/mbuma") {
            complaints.extend(closed_errors(&text).map(|name| {
                format!(
                    "{}: {name} is a public error and not non_exhaustive",
                    file.display()
                )
            }));
        }
        let names = exhaustive(&text).into_iter();
        found.extend(names.map(|name| format!("{name} ({})", file.display())));
    }
    println!("{} public structs can be written out", found.len());
    if found.len() > EXHAUSTIVE_MAX {
        complaints.push(format!(
            "{} public structs have only public fields and are not non_exhaustive, {EXHAUSTIVE_MAX} may be: {}",
            found.len(),
            found.join(", ")
        ));
    }
}

fn is_library(file: &Path) -> bool {
    let parts: Vec<_> = file.iter().filter_map(|p| p.to_str()).collect();
    let is_test = parts.iter().any(|part| part.starts_with("tests"));
    let in_library = parts.get(1).is_some_and(|krate| LIBRARIES.contains(krate));
    in_library && parts.get(2) == Some(&"src") && !is_test
}

/// Public structs, all of whose fields are public and named, without the attribute.
fn exhaustive(text: &str) -> Vec<&str> {
    let lines: Vec<_> = text.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some(rest) = line.strip_prefix("pub struct ") else {
            continue;
        };
        if !line.ends_with('{') {
            continue;
        }
        let above = lines[..at].iter().rev();
        let mut above = above.take_while(|line| line.starts_with("#[") || line.starts_with("///"));
        let fields = lines[at + 1..].iter().take_while(|line| **line != "}");
        let is_field = |line: &&&str| {
            let is_item = line.starts_with("    ") && !line.starts_with("     ");
            is_item
                && !["//", "#", ")", "}", "]"]
                    .iter()
                    .any(|c| line.trim_start().starts_with(c))
        };
        let fields: Vec<_> = fields.filter(is_field).collect();
        let all_public = fields
            .iter()
            .all(|line| line.starts_with("    pub ") && !line.contains("pub("));
        if !fields.is_empty()
            && all_public
            && !above.any(|line| line.starts_with("#[non_exhaustive]"))
        {
            found.extend(rest.split(|c: char| !c.is_alphanumeric()).next());
        }
    }
    found
}

/// Public enums of errors without the attribute.
fn closed_errors(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.lines();
    lines
        .clone()
        .zip(lines.skip(1))
        .filter_map(|(above, line)| {
            let name = line.strip_prefix("pub enum ")?.split([' ', '<']).next()?;
            let is_closed = name.ends_with("Error") && above != "#[non_exhaustive]";
            is_closed.then_some(name)
        })
}

#[cfg(test)]
mod tests {
    use super::{closed_errors, exhaustive};

    #[test]
    fn an_error_without_the_attribute_is_found() {
        // Breaks if a new error of the stack would break programs that match on it.
        let text = "#[derive(Debug)]\npub enum AError {\n}\n#[non_exhaustive]\npub enum BError {\n}\n\
                    \npub enum CError<T> {\n}\n\npub enum Kind {\n}\n";
        assert_eq!(
            closed_errors(text).collect::<Vec<_>>(),
            ["AError", "CError"]
        );
    }

    #[test]
    fn a_struct_with_the_attribute_or_a_private_field_is_not_counted() {
        // Breaks if a struct that may grow is counted, or one that may not is missed.
        let text = "#[derive(Debug)]\npub struct A {\n    /// Says.\n    pub a: u8,\n}\n\
                    #[non_exhaustive]\n#[derive(Debug)]\npub struct B {\n    pub a: u8,\n}\n\
                    pub struct C<T> {\n    pub a: T,\n    b: u8,\n}\n\
                    pub struct D(pub u8);\nstruct E {\n    pub a: u8,\n}\n";
        assert_eq!(exhaustive(text), ["A"]);
    }
}
