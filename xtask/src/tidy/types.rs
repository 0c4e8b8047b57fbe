//! One name, one type: a name of a struct, enum, trait or type alias stands for one thing in the product.
//!
//! A reader who meets `Entry` in two files must ask which one is meant. A name that two or more product files define
//! needs a reason in [`REPEATED`]. An entry that no longer holds must go.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Names that several files may define, and why.
const REPEATED: [(&str, &str); 1] = [(
    "Error",
    "a crate's error has this name by convention, as in std; only `mbuma::Error` is exported",
)];

/// Crates whose types readers meet side by side.
const PRODUCT: [&str; 6] = ["kern", "uma", "mbuf", "wire", "mbuma", "cli"];
/// Files beside the product code: models and tests; and files that define the same types as another one, for another
/// build (a checker's, one without WITNESS, Miri's).
const BESIDE: [&str; 7] = [
    "tests", "modelled", "models", "model", "prim", "off", "miri",
];

/// Counts, and complains if there are too many.
pub(super) fn check(complaints: &mut Vec<String>, files: &[PathBuf]) {
    let places = repeated(Path::new(""), files);
    println!(
        "{} names of types are defined in two or more files, each with its reason: {}",
        places.len(),
        REPEATED.map(|(name, _)| name).join(", ")
    );
    let has_reason = |name: &str| REPEATED.iter().any(|(known, _)| *known == name);
    for (name, files) in places.iter().filter(|(name, _)| !has_reason(name)) {
        let files: Vec<_> = files.iter().map(|f| f.display().to_string()).collect();
        complaints.push(format!(
            "{name} is defined more than once: rename the new one, or say why in tidy/types.rs: {}",
            files.join(" ")
        ));
    }
    let gone = REPEATED
        .iter()
        .filter(|(name, _)| !places.contains_key(*name));
    complaints.extend(
        gone.map(|(name, _)| {
            format!("{name} is defined once: take it off the list in tidy/types.rs")
        }),
    );
}

/// Names that several product files of a tree define, with the files.
pub(super) fn repeated<'a>(root: &Path, files: &'a [PathBuf]) -> BTreeMap<String, Vec<&'a Path>> {
    let mut places: BTreeMap<String, Vec<&Path>> = BTreeMap::new();
    let is_product = |file: &&PathBuf| file.strip_prefix(root).is_ok_and(is_product);
    for file in files.iter().filter(is_product) {
        let text = fs::read_to_string(file).unwrap_or_default();
        for name in defined(&text) {
            let files = places.entry(name.to_owned()).or_default();
            if files.last() != Some(&file.as_path()) {
                files.push(file);
            }
        }
    }
    places.retain(|_, files| files.len() > 1);
    places
}

fn is_product(file: &Path) -> bool {
    let parts: Vec<_> = file.iter().filter_map(|p| p.to_str()).collect();
    let in_product = parts.get(1).is_some_and(|krate| PRODUCT.contains(krate));
    let is_beside = |part: &&str| BESIDE.contains(&part.trim_end_matches(".rs"));
    in_product && parts.get(2) == Some(&"src") && !parts.iter().any(is_beside)
}

/// Names that a file defines, outside of its inline tests.
fn defined(text: &str) -> impl Iterator<Item = &str> {
    super::product_part(text).lines().filter_map(|line| {
        let line = line.trim_start();
        let line = line.strip_prefix("pub").map_or(line, |rest| {
            let scope = rest.strip_prefix('(').and_then(|r| r.split_once(')'));
            scope.map_or(rest, |(_, rest)| rest).trim_start()
        });
        let line = line.strip_prefix("unsafe ").unwrap_or(line);
        let (kind, rest) = line.split_once(' ')?;
        if !["struct", "enum", "trait", "type", "union"].contains(&kind) {
            return None;
        }
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
        let name = &rest[..end.unwrap_or(rest.len())];
        // An associated type has its trait's name beside it.
        let is_named = kind != "type" || !line.ends_with(';') || !text.contains("impl");
        (is_named && name.starts_with(char::is_uppercase)).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_are_found_whatever_their_scope() {
        // Breaks if a definition is missed because of its visibility, or a type in a test counts.
        let text = "pub(crate) struct Place<T> {\nenum State {\n  pub unsafe trait Import: Send {\nlet x = Struct;\n\
                    #[cfg(all(test, not(shuttle)))]\nmod tests {\nstruct World;\n";
        let names: Vec<_> = defined(text).collect();
        assert_eq!(names, ["Place", "State", "Import"]);
    }

    #[test]
    fn models_and_tests_are_not_product() {
        // Breaks if a test's helper type makes a product name look repeated.
        let product = |file: &str| is_product(Path::new(file));
        assert!(product("crates/mbuma/src/tcp/ack.rs"));
        assert!(!product("crates/mbuma/src/models/tcp.rs"));
        assert!(!product("crates/mbuma/tests/net/arp.rs"));
        assert!(!product("crates/lab/src/main.rs"));
    }
}
