//! Files to which a text links: each must exist.

use std::fs;
use std::path::Path;

/// Looks for the files of all links in the texts.
pub(super) fn check(complaints: &mut Vec<String>, root: &Path, texts: &[&str]) {
    for text in texts {
        let content = fs::read_to_string(root.join(text)).unwrap_or_default();
        let dead = targets(&content).filter(|file| !root.join(file).exists());
        complaints.extend(dead.map(|file| format!("{text}: links to {file}, which is not there")));
    }
}

/// The files that a text links to, without those on other sites and places in the text itself.
fn targets(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices("](").filter_map(|(at, mark)| {
        let (target, _) = text[at + mark.len()..].split_once(')')?;
        let file = target.split('#').next()?;
        (!file.is_empty() && !file.contains("://")).then_some(file)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_files_are_found() {
        // Breaks when a link to a file is passed over, or another one is taken for it.
        let text = "[a](crates/a.rs), [b](b.md#top) [c](#here) [d](https://example.org/x)";
        assert!(targets(text).eq(["crates/a.rs", "b.md"]));
    }
}
