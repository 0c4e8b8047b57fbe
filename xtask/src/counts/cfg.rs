//! Whether a condition of `#[cfg(..)]` holds in the tool as users build it: no test, no schedule checker, and the
//! features that the tool turns on. All variants for machines and systems count.

use std::collections::BTreeSet;

/// Whether an attribute's condition holds: `text` is what stands between the parentheses of `cfg`.
pub(super) fn holds(text: &str, features: &BTreeSet<String>) -> bool {
    let text = text.trim();
    let Some((name, rest)) = text.split_once('(') else {
        return plain(text, features);
    };
    let inner = rest.strip_suffix(')').unwrap_or(rest);
    let mut parts = parts(inner).into_iter().filter(|part| !part.is_empty());
    match name {
        "all" => parts.all(|part| holds(part, features)),
        "any" => parts.any(|part| holds(part, features)),
        // Every machine counts, so neither a target nor its negation is false.
        "not" => inner.contains("target_") || !parts.any(|part| holds(part, features)),
        _ => true,
    }
}

fn plain(text: &str, features: &BTreeSet<String>) -> bool {
    match text.split_once('=') {
        Some((key, name)) if key.trim() == "feature" => {
            features.contains(name.trim().trim_matches('"'))
        }
        Some(_) => true,
        None => ![
            "test",
            "loom",
            "shuttle",
            "miri",
            "doctest",
            "doc",
            "uma_asan",
            "debug_assertions",
        ]
        .contains(&text),
    }
}

/// Splits at commas that are in no parentheses.
fn parts(text: &str) -> Vec<&str> {
    let (mut depth, mut start, mut found) = (0, 0, Vec::new());
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                found.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    found.push(text[start..].trim());
    found
}

#[cfg(test)]
mod tests {
    use super::holds;

    #[test]
    fn a_condition_holds_as_in_the_build_of_the_tool() {
        // Breaks if a model or a feature that is off counts as product, or code of another machine does not.
        let features = ["tls".to_owned()].into();
        let holds = |text| holds(text, &features);
        assert!(holds("feature = \"tls\"") && !holds("feature = \"extras\""));
        assert!(!holds("all(test, any(loom, shuttle))") && holds("not(any(loom, shuttle))"));
        assert!(holds("all(not(loom), target_arch = \"aarch64\")"));
        assert!(!holds("any(loom, feature = \"extras\")"));
    }
}
