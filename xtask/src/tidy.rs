//! Checks beyond lints: crates use only those above them, `unsafe` stays where ARCHITECTURE allows it, texts have no
//! leftovers, state the figures of the code and link to existing files, and the number of packages that the tool links
//! has a bound.

mod fields;
mod figures;
mod links;
mod modules;
mod packages;
mod types;
mod words;

use std::fs;
use std::path::{Path, PathBuf};

/// The layer order: a crate may use those before it.
const LAYERS: [&str; 8] = ["kern", "uma", "mbuf", "wire", "mbuma", "sim", "lab", "cli"];

/// Where `unsafe` may be: whole crates, and the modules at the edge to the system.
const UNSAFE_OK: [&str; 11] = [
    "crates/kern/",
    "crates/uma/",
    "crates/mbuf/",
    "crates/mbuma/tests/",
    "crates/cli/src/sys",
    "crates/lab/src/alloc/",
    "crates/lab/src/epair/schemes/ring.rs",
    "crates/lab/src/extpgs/designs/",
    "crates/lab/src/harness/",
    "crates/lab/src/refs/",
    "crates/wire/src/checksum/wide.rs",
];

/// Crates with models, which are built without the other tests.
const MODELLED: [&str; 4] = ["kern", "uma", "mbuf", "mbuma"];

/// The texts for readers of the project.
const TEXTS: [&str; 4] = [
    "ARCHITECTURE.md",
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
];

/// Words that a finished file must not contain, assembled so that this file does not contain them.
const LEFTOVERS: [&str; 4] = [
    concat!("todo", "!("),
    concat!("unimplemented", "!("),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
];

/// The columns of a line at most.
const WIDTH: usize = 120;

/// How often comments and texts have each mannerism, and how often in 1,000 words.
pub(crate) fn words_of(root: &Path) -> Vec<(&'static str, u32, f64)> {
    let mut files = sources(root);
    files.extend(TEXTS.map(|text| root.join(text)));
    words::rates(&files)
}

/// How many names of types several files of the product define.
pub(crate) fn repeated_types_of(root: &Path) -> usize {
    types::repeated(root, &sources(root)).len()
}

/// How many packages of others the tool links.
pub(crate) fn packages_of(root: &Path) -> Option<usize> {
    packages::count(root)
}

/// The Rust files of a tree.
fn sources(root: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    walk(&root.join("crates"), &mut files);
    walk(&root.join("xtask"), &mut files);
    files.sort();
    files
}

pub(crate) fn run() -> bool {
    let mut complaints = Vec::new();
    for (at, layer) in LAYERS.iter().enumerate() {
        layer_order(&mut complaints, layer, &LAYERS[at + 1..]);
    }
    let mut files = sources(Path::new(""));
    for file in &files {
        let text = fs::read_to_string(file).unwrap_or_default();
        check_file(&mut complaints, &file.to_string_lossy(), &text);
    }
    modules::check(&mut complaints, &files);
    types::check(&mut complaints, &files);
    fields::check(&mut complaints, &files);
    figures::check(&mut complaints, &TEXTS);
    links::check(&mut complaints, Path::new(""), &TEXTS);
    packages::check(&mut complaints);
    files.extend(TEXTS.map(PathBuf::from));
    words::check(&mut complaints, &files);
    complaints.iter().for_each(|c| println!("{c}"));
    println!("{} files, {} complaints", files.len(), complaints.len());
    complaints.is_empty()
}

fn layer_order(complaints: &mut Vec<String>, layer: &str, later: &[&str]) {
    let path = format!("crates/{layer}/Cargo.toml");
    let text = fs::read_to_string(&path).unwrap_or_default();
    for other in later {
        let used = text
            .lines()
            .any(|l| l.starts_with(&format!("{other}.workspace")));
        if used {
            complaints.push(format!(
                "{path}: {layer} is below {other} and must not use it"
            ));
        }
    }
}

fn walk(dir: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            walk(&path, files);
        } else if path.extension().is_some_and(|e| e == "rs") {
            files.push(path);
        }
    }
}

fn check_file(complaints: &mut Vec<String>, file: &str, text: &str) {
    let unsafe_ok = UNSAFE_OK.iter().any(|ok| file.starts_with(ok)) || file.starts_with("xtask");
    for (n, line) in text.lines().enumerate() {
        let at = || format!("{file}:{}", n + 1);
        let code = line.split("//").next().unwrap_or_default();
        let uses_unsafe = code
            .split(|c: char| !c.is_alphanumeric() && c != '_')
            .any(|w| w == "unsafe");
        if uses_unsafe && !unsafe_ok {
            complaints.push(format!(
                "{}: unsafe belongs in the modules that ARCHITECTURE names",
                at()
            ));
        }
        if LEFTOVERS.iter().any(|w| line.contains(w)) {
            complaints.push(format!("{}: a leftover: {}", at(), line.trim()));
        }
        if line.chars().count() > WIDTH && !may_be_wide(line) {
            complaints.push(format!("{}: longer than {WIDTH} columns", at()));
        }
    }
    let is_modelled = MODELLED
        .iter()
        .any(|name| file.starts_with(&format!("crates/{name}/src/")));
    if is_modelled && text.contains("#[cfg(test)]\nmod tests") {
        complaints.push(format!(
            "{file}: its tests are built for models too; see CONTRIBUTING, Tests"
        ));
    }
    // The head of a published crate is its README.
    let has_head = ["//!", "#![doc = include_str!("]
        .iter()
        .any(|head| text.starts_with(head));
    if !has_head && !text.is_empty() && !file.ends_with("tests.rs") {
        complaints.push(format!(
            "{file}: no head: say in a first comment what the file is"
        ));
    }
}

/// A file without its inline tests.
fn product_part(text: &str) -> &str {
    text.split_once("\nmod tests {")
        .map_or(text, |(product, _)| product)
}

/// Prose in a comment is wrapped; rows of tables and drawings are as wide as they must be.
fn may_be_wide(line: &str) -> bool {
    let comment = line.trim_start().strip_prefix("//");
    let text = comment.map(|text| text.trim_start_matches(['/', '!']));
    text.is_some_and(|text| text.starts_with(" |") || text.starts_with("  "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_is_wrapped_and_tables_are_not() {
        // Breaks when a comment grows without a bound, or a table must be cut.
        let rest = "word ".repeat(30);
        let wide = |start: &str| {
            let mut complaints = Vec::new();
            check_file(
                &mut complaints,
                "crates/kern/src/tests.rs",
                &format!("{start}{rest}"),
            );
            complaints.len()
        };
        assert_eq!(["// ", "    /// ", "//! ", "let a"].map(wide), [1; 4]);
        assert_eq!(["//! | a |", "//!   -->"].map(wide), [0; 2]);
    }

    #[test]
    fn models_are_built_without_the_other_tests() {
        // Breaks when the tests of a crate with models are compiled for its models, or another crate is refused.
        let complaints = |file: &str, when: &str| {
            let mut complaints = Vec::new();
            let text = format!("//! A noun.\n\n#[cfg({when})]\nmod tests {{\n");
            check_file(&mut complaints, file, &text);
            complaints.len()
        };
        assert_eq!(complaints("crates/mbuma/src/a.rs", "test"), 1);
        assert_eq!(
            complaints("crates/mbuma/src/a.rs", "all(test, not(shuttle))"),
            0
        );
        assert_eq!(complaints("crates/cli/src/a.rs", "test"), 0);
    }
}
