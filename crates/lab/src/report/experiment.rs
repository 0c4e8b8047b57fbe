//! The text, cases and claims of an experiment, for the report.
//!
//! An experiment is run as `cargo lab NAME --json ARGUMENTS` in a process of its own, and judged by the records that
//! it prints: so the report can be made again from the saved records, and the command that made a section repeats it.

use super::rows::{Row, Rows};

/// How hard to measure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Pace {
    /// Seconds: shows that everything runs
    Quick,
    /// Minutes: each experiment as by itself
    #[default]
    Normal,
    /// As long as figures get better by it
    Thorough,
}

impl Pace {
    /// All, the quickest first.
    pub const ALL: [Self; 3] = [Self::Quick, Self::Normal, Self::Thorough];

    /// As it is typed and written.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.pick(["quick", "normal", "thorough"])
    }

    /// The one of three that is for this pace.
    #[must_use]
    pub fn pick<T>(self, [quick, normal, thorough]: [T; 3]) -> T {
        match self {
            Self::Quick => quick,
            Self::Normal => normal,
            Self::Thorough => thorough,
        }
    }
}

/// An experiment, as the report sees it.
pub struct Experiment {
    /// As in `cargo lab NAME`.
    pub name: &'static str,
    /// The subject of the comparison, in a few words.
    pub title: &'static str,
    /// The comparison and its reason, for a reader without prior knowledge; an empty line begins a paragraph.
    pub essay: &'static str,
    /// How to read its tables, beyond the columns of every table.
    pub reading: &'static str,
    /// The limits of its figures.
    pub caveats: &'static str,
    /// The seed's claims, or our targets where no seed has any, and how to judge each.
    pub claims: &'static [Claim],
    /// For each [`Pace`]: the further arguments of `cargo lab NAME --json`, with a blank between.
    pub arguments: [&'static str; 3],
    /// About how long that takes on a machine of two cores, for the estimate; after ten times as long it is ended.
    pub seconds: [u64; 3],
    /// The description of a case, below its name.
    pub about: fn(case: &str) -> String,
    /// Whether the page shows a record; the saved results have all of them.
    pub shows: fn(&Row) -> bool,
    /// How a case's records are laid out, but for those that follow time and those of histograms.
    pub shape: fn(case: &str) -> Shape,
}

/// How records of a case are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A table for each unit, size, number of threads and measure: a line each design, its bar beside it.
    Bars,
    /// One table: a line each design, a column for each unit, number of threads and measure.
    Grid,
}

/// A claim of a seed document, to compare with the measurement. Its own designs and a rule that was fixed before the
/// figures decide the verdict; ours may stand beside them, and does not decide. Where no seed has a figure, it is a
/// target that we set for our own design.
pub struct Claim {
    /// The seed's number and the place in it: "seed 004, section 4"; or [`OUR_TARGET`].
    pub seed: &'static str,
    /// The claim, in a sentence; the seed's own words in quotation marks.
    pub says: &'static str,
    /// The seed's figure, in a few characters.
    pub figure: &'static str,
    /// The measurement for it; none if the records are missing.
    pub judge: fn(&Rows<'_>) -> Option<Finding>,
}

/// Whose claim it is where no seed has one.
pub const OUR_TARGET: &str = "our own target";

/// The measurement for a claim.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// In a few words, with units.
    pub here: String,
    /// How the two sides of the claim relate here, where that is one number.
    pub ratio: Option<f64>,
    /// The verdict on the claim.
    pub verdict: Verdict,
}

impl Finding {
    /// A finding whose ratio decides: the claim holds from `holds` on, and partly from `partly` on.
    #[must_use]
    pub fn at_least(here: String, ratio: f64, holds: f64, partly: f64) -> Self {
        let verdict = if ratio >= holds {
            Verdict::Holds
        } else if ratio >= partly {
            Verdict::Partly
        } else {
            Verdict::Fails
        };
        Self {
            here,
            ratio: Some(ratio),
            verdict,
        }
    }

    /// A finding of several ratios, each with its name, that shall all reach a target. The least of them is shown as
    /// the ratio. It holds partly if some reach the target, or if all are at least on its side of 1; none: no ratios.
    #[must_use]
    pub fn over(what: &str, ratios: &[(&str, f64)], target: f64) -> Option<Self> {
        let least = ratios.iter().map(|(_, ratio)| *ratio).reduce(f64::min)?;
        let reached = ratios.iter().any(|(_, ratio)| *ratio >= target);
        let mut found = Self::at_least(what.to_owned(), least, target, target.min(1.0));
        if found.verdict == Verdict::Fails && reached {
            found.verdict = Verdict::Partly;
        }
        let named: Vec<String> = ratios
            .iter()
            .map(|(name, ratio)| format!("{name} {ratio:.2}\u{d7}"))
            .collect();
        found.here = format!("{what}: {}", named.join(", "));
        Some(found)
    }

    /// A finding that could not have been another.
    #[must_use]
    pub fn given(here: String) -> Self {
        Self {
            here,
            ratio: None,
            verdict: Verdict::Given,
        }
    }

    /// A finding that is no ratio: the claim holds, or does not.
    #[must_use]
    pub fn is(here: String, holds: bool) -> Self {
        let verdict = if holds {
            Verdict::Holds
        } else {
            Verdict::Fails
        };
        Self {
            here,
            ratio: None,
            verdict,
        }
    }
}

/// The verdict of a measurement on a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is so here too.
    Holds,
    /// The direction is right, the size is not.
    Partly,
    /// It is not so here.
    Fails,
    /// True by construction: the measurement could not have a different result. That is no evidence.
    Given,
}

impl Verdict {
    /// As a reader sees it.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Partly => "in part",
            Self::Fails => "not here",
            Self::Given => "by construction",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_for_all_cases() {
        // Breaks when the best of several cases, or their mean, is taken for all of them.
        let of = |ratios: &[f64], target| {
            let named: Vec<_> = ratios.iter().map(|ratio| ("", *ratio)).collect();
            Finding::over("", &named, target).map(|found| found.verdict)
        };
        assert_eq!(of(&[1.0, 3.0], 1.0), Some(Verdict::Holds));
        assert_eq!(of(&[0.99, 3.0], 1.0), Some(Verdict::Partly));
        assert_eq!(of(&[0.99, 0.5], 1.0), Some(Verdict::Fails));
        assert_eq!(of(&[1.5, 1.2], 2.0), Some(Verdict::Partly));
        assert_eq!(of(&[1.5, 0.9], 2.0), Some(Verdict::Fails));
        assert_eq!(of(&[0.6, 0.4], 0.5), Some(Verdict::Partly));
        assert_eq!(of(&[], 1.0), None);
    }
}
