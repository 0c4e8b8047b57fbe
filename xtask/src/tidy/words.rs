//! Plain language, counted: how often a comment or a text hides which thread, CPU or side acts.
//!
//! "Who", "whoever", "nobody" and the like as the subject of a technical sentence make a reader guess. The count is
//! taken over all comments and Markdown texts; it must not grow, and the bound below is lowered as texts are rewritten.

use std::fs;
use std::path::PathBuf;

/// Words that hide what acts.
const HIDING: [&str; 5] = ["who", "whoever", "whom", "nobody", "somebody"];

/// Such words for each 1,000 words of comments and texts, at most. Never to be raised.
const PER_THOUSAND_MAX: f64 = 0.5;

/// Counts, and complains if there are too many. Names the files that have most.
pub(super) fn check(complaints: &mut Vec<String>, files: &[PathBuf]) {
    let (mut all, mut hiding) = (0, 0);
    let mut worst = Vec::new();
    for file in files {
        let text = fs::read_to_string(file).unwrap_or_default();
        let is_prose = file.extension().is_some_and(|e| e == "md");
        let (words, found) = count(&text, is_prose);
        all += words;
        hiding += found;
        worst.push((found, file));
    }
    let rate = hiding as f64 * 1000.0 / f64::from(all.max(1));
    println!("{rate:.2} of 1,000 words in comments and texts hide what acts ({hiding} of {all})");
    if rate > PER_THOUSAND_MAX {
        worst.sort_unstable_by(|a, b| b.cmp(a));
        let most: Vec<_> = worst
            .iter()
            .take(5)
            .map(|(n, f)| format!("{} ({n})", f.display()))
            .collect();
        complaints.push(format!(
            "more than {PER_THOUSAND_MAX} of 1,000 words hide what acts (who, nobody): name the thread, CPU, sender or \
             lock holder. Most are in {}",
            most.join(", ")
        ));
    }
}

/// Words in all, and words that hide: of comments only, where the text is code.
fn count(text: &str, is_prose: bool) -> (u32, u32) {
    let mut counts = (0, 0);
    let comments = text.lines().filter_map(|line| match is_prose {
        true => Some(line),
        false => line.split_once("//").map(|(_, comment)| comment),
    });
    let words = comments.flat_map(|c| c.split(|c: char| !c.is_ascii_alphabetic()));
    for word in words.filter(|w| !w.is_empty()) {
        counts.0 += 1;
        counts.1 += u32::from(HIDING.contains(&&*word.to_ascii_lowercase()));
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::count;

    #[test]
    fn comments_are_counted_and_code_is_not() {
        // Breaks if names in code count as prose, or a word in capitals is missed.
        let code = "let who = nobody(); // Whoever waits,\n/// waits.\nwho();";
        assert_eq!(count(code, false), (3, 1));
        assert_eq!(count("Who waits\nfor whom?", true), (4, 2));
    }
}
