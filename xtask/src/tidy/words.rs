//! Plain language, counted: how often a comment or a text hides which thread, CPU or side acts.
//!
//! | measure | example | say instead |
//! |---|---|---|
//! | a pronoun as the acting thing | "Whoever waits is woken." | "The release wakes a waiting thread." |
//! | a clause in the place of a noun | "What was sent is counted." | "The sender counts sent packets." |
//!
//! Both make a reader guess. Each is a rate for 1,000 words of all comments and Markdown texts. It must not exceed its
//! bound, which is lowered as texts are rewritten.

use std::fs;
use std::path::PathBuf;

/// Pronouns that hide what acts.
const HIDING: [&str; 5] = ["who", "whoever", "whom", "nobody", "somebody"];

/// A mannerism: its name, its bound, and how it is counted.
struct Measure {
    name: &'static str,
    remedy: &'static str,
    /// For each 1,000 words, at most. Never to be raised.
    per_thousand_max: f64,
    /// How often a paragraph has it.
    count: fn(&str) -> u32,
}

const MEASURES: [Measure; 2] = [
    Measure {
        name: "pronouns that hide what acts",
        remedy: "name the thread, CPU, sender or lock holder",
        per_thousand_max: 0.1,
        count: pronouns,
    },
    Measure {
        name: "\"what\" clauses in the place of a noun",
        remedy: "begin the sentence with the noun",
        per_thousand_max: 0.4,
        count: what_clauses,
    },
];

/// Counts, and complains if there are too many. Names the files that have most.
pub(super) fn check(complaints: &mut Vec<String>, files: &[PathBuf]) {
    let (texts, words) = read(files);
    for measure in &MEASURES {
        let (mut found, sum, rate) = measure.of(&texts, words);
        println!(
            "{}: {sum}, {rate:.3} of 1,000 words in comments and texts",
            measure.name
        );
        if rate > measure.per_thousand_max {
            found.sort_unstable_by(|a, b| b.cmp(a));
            let most: Vec<_> = found
                .iter()
                .take(5)
                .map(|(n, f)| format!("{} ({n})", f.display()))
                .collect();
            complaints.push(format!(
                "more than {} {} in 1,000 words: {}. Most are in {}",
                measure.per_thousand_max,
                measure.name,
                measure.remedy,
                most.join(", ")
            ));
        }
    }
}

/// How often texts have each mannerism, in all and for each 1,000 words.
pub(super) fn rates(files: &[PathBuf]) -> Vec<(&'static str, u32, f64)> {
    let (texts, words) = read(files);
    let of = |measure: &Measure| {
        let (_, sum, rate) = measure.of(&texts, words);
        (measure.name, sum, rate)
    };
    MEASURES.iter().map(of).collect()
}

/// The paragraphs of each file, and the number of all words.
fn read(files: &[PathBuf]) -> (Vec<(&PathBuf, Vec<String>)>, usize) {
    let texts = files.iter().map(|file| (file, paragraphs_of(file)));
    let texts: Vec<_> = texts.collect();
    let all = texts.iter().flat_map(|(_, text)| text);
    let words = all.map(|p| words(p).count()).sum();
    (texts, words)
}

impl Measure {
    /// How often each text has it, how often all have it, and how often in 1,000 words.
    fn of<'a>(
        &self,
        texts: &[(&'a PathBuf, Vec<String>)],
        words: usize,
    ) -> (Vec<(u32, &'a PathBuf)>, u32, f64) {
        let of = |text: &[String]| text.iter().map(|p| (self.count)(p)).sum::<u32>();
        let found: Vec<_> = texts.iter().map(|(file, text)| (of(text), *file)).collect();
        let sum: u32 = found.iter().map(|(n, _)| n).sum();
        let rate = f64::from(sum) * 1000.0 / words.max(1) as f64;
        (found, sum, rate)
    }
}

/// The paragraphs of a file: of its comments only, if it is code.
fn paragraphs_of(file: &PathBuf) -> Vec<String> {
    let text = fs::read_to_string(file).unwrap_or_default();
    paragraphs(&text, file.extension().is_some_and(|e| e == "md"))
}

/// Lines of prose, joined until a line that is empty or code. A row of a table, a heading and an item of a list begin
/// a paragraph.
fn paragraphs(text: &str, is_prose: bool) -> Vec<String> {
    let mut all = vec![String::new()];
    for line in text.lines() {
        let prose = match is_prose {
            true => line,
            false => line.split_once("//").map_or("", |(_, comment)| comment),
        };
        let prose = prose.trim_start_matches(['/', '!']).trim();
        if prose.is_empty() || prose.starts_with(['|', '#', '-', '*']) {
            all.push(String::new());
        }
        if let Some(paragraph) = all.last_mut() {
            paragraph.push_str(prose);
            paragraph.push(' ');
        }
    }
    all
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !c.is_ascii_alphabetic());
    words.filter(|word| !word.is_empty())
}

fn pronouns(text: &str) -> u32 {
    let hides = |word: &&str| HIDING.contains(&&*word.to_ascii_lowercase());
    words(text).filter(hides).count() as u32
}

/// Sentences, or parts of one, that begin with "what" and are no question; and clauses after a comma.
fn what_clauses(text: &str) -> u32 {
    let parts = text.split_inclusive(['.', ':', ';', '?', '!']);
    let begins = |part: &&str| {
        words(part)
            .next()
            .is_some_and(|word| word.eq_ignore_ascii_case("what"))
    };
    let begin = parts
        .filter(|part| begins(part) && !part.ends_with('?'))
        .count();
    (begin + text.matches(", what ").count()) as u32
}

#[cfg(test)]
mod tests {
    use super::{paragraphs, pronouns, what_clauses, words};

    #[test]
    fn comments_are_counted_and_code_is_not() {
        // Breaks if names in code count as prose, or a word in capitals is missed.
        let of = |text, is_prose| paragraphs(text, is_prose).join("");
        let code = of(
            "let who = nobody(); // Whoever waits,\n/// waits.\nwho();",
            false,
        );
        assert_eq!((words(&code).count(), pronouns(&code)), (3, 1));
        let text = of("Who waits\nfor whom?", true);
        assert_eq!((words(&text).count(), pronouns(&text)), (4, 2));
    }

    #[test]
    fn what_counts_at_the_begin_of_a_clause_and_not_in_a_question() {
        // Breaks if a sentence is cut at the end of a line, or an indirect question counts.
        let of = |text| {
            paragraphs(text, false)
                .iter()
                .map(|p| what_clauses(p))
                .sum::<u32>()
        };
        assert_eq!(
            of("/// What was sent\n/// is counted: what was lost, too, what else."),
            3
        );
        assert_eq!(
            of("/// What now? It says what\n/// it is.\nlet x = 1; // Not\n// what"),
            0
        );
    }
}
