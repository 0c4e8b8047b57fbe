//! Figures that a text states about the code: each must equal the constant in the code.
//!
//! A text states one as a link whose fragment is the constant: `[4,096](crates/uma/src/line.rs#PAGE)`. A reader finds
//! the constant by it, and this check compares the two. Constants are products and shifts of plain numbers, or
//! durations. A figure may have a unit, `[4 KiB](..)` or `[10 s](..)`: bytes are compared as bytes, times as
//! nanoseconds.

use std::fs;

/// Compares all figures of the texts with their constants.
pub(super) fn check(complaints: &mut Vec<String>, texts: &[&str]) {
    let mut count = 0;
    for text in texts {
        let content = fs::read_to_string(text).unwrap_or_default();
        for figure in stated(&content) {
            count += 1;
            let source = fs::read_to_string(figure.file).unwrap_or_default();
            complaints.extend(wrong(&figure, &source).map(|why| format!("{text}: {why}")));
        }
    }
    println!("{count} figures of the texts compared with constants");
}

/// A figure in a text, and where its constant is.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Figure<'a> {
    shown: &'a str,
    file: &'a str,
    constant: &'a str,
}

/// The figures that a text states.
fn stated(text: &str) -> impl Iterator<Item = Figure<'_>> {
    text.match_indices("](crates/").filter_map(|(at, _)| {
        let shown = &text[text[..at].rfind('[')? + 1..at];
        let target = &text[at + 2..];
        let (file, constant) = target[..target.find(')')?].split_once('#')?;
        Some(Figure {
            shown,
            file,
            constant,
        })
    })
}

/// Why a figure is wrong, if it is.
fn wrong(figure: &Figure<'_>, source: &str) -> Option<String> {
    let Figure {
        shown,
        file,
        constant,
    } = figure;
    let Some(value) = value_of(constant, source) else {
        return Some(format!(
            "{file} has no constant {constant} that is a number"
        ));
    };
    let right = amount(shown) == Some(value);
    (!right).then(|| format!("says {shown}, but {constant} in {file} is {value}"))
}

/// The value of a constant that a source defines.
fn value_of(constant: &str, source: &str) -> Option<u128> {
    let named = format!("const {constant}: ");
    let (_, rest) = source.split_once(&named)?;
    let (_, expression) = rest[..rest.find(';')?].split_once('=')?;
    let factors = expression.split('*').map(|factor| {
        let mut parts = factor.split("<<");
        let first = duration(parts.next()?)?;
        parts.try_fold(first, |value, by| {
            value.checked_shl(number(by)?.try_into().ok()?)
        })
    });
    factors.into_iter().product()
}

/// A figure as a text shows it, with its unit if it has one.
fn amount(shown: &str) -> Option<u128> {
    let units = [
        ("", 1),
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("µs", 1_000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
    ];
    let (figure, unit) = shown.split_once(char::is_whitespace).unwrap_or((shown, ""));
    let (_, size) = units.into_iter().find(|(name, _)| *name == unit)?;
    Some(number(figure)? * size)
}

/// A factor of a constant; a duration in nanoseconds.
fn duration(text: &str) -> Option<u128> {
    let makers = [
        ("Duration::from_micros(", 1_000),
        ("Duration::from_millis(", 1_000_000),
        ("Duration::from_secs(", 1_000_000_000),
    ];
    let made = makers.iter().find_map(|(maker, size)| {
        let argument = text.trim().strip_prefix(maker)?.strip_suffix(')')?;
        Some(number(argument)? * size)
    });
    made.or_else(|| number(text))
}

/// A number as a text or a source writes it: `1,536`, `1_536`.
fn number(text: &str) -> Option<u128> {
    let digits: String = text.trim().chars().filter(|c| !",_".contains(*c)).collect();
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{Figure, stated, wrong};

    #[test]
    fn a_figure_must_equal_its_constant() {
        // Breaks if a text may state another figure than the code has, or a constant that the code does not have.
        let text =
            "At most [1,536](crates/a/src/b.rs#BYTES_MAX) bytes, see [b](crates/a/src/b.rs).";
        let found: Vec<_> = stated(text).collect();
        let figure = Figure {
            shown: "1,536",
            file: "crates/a/src/b.rs",
            constant: "BYTES_MAX",
        };
        assert_eq!(found, [figure]);
        let is_right = |source| wrong(&found[0], source).is_none();
        assert!(is_right("const BYTES_MAX: usize = 1_536;"));
        assert!(is_right("pub const BYTES_MAX: u64 = 3 * 1 << 9;"));
        assert!(!is_right("const BYTES_MAX: usize = 800;"));
        assert!(!is_right("const BYTES_MIN: usize = 1536;"));
        assert!(!is_right("const BYTES_MAX: usize = other();"));
        let with_unit = |shown, source: &str| wrong(&Figure { shown, ..figure }, source).is_none();
        assert!(with_unit("272 KiB", "const BYTES_MAX: u32 = 272 << 10;"));
        assert!(with_unit(
            "2\ns",
            "const BYTES_MAX: Duration = Duration::from_secs(2);"
        ));
        assert!(!with_unit(
            "2 ms",
            "const BYTES_MAX: Duration = Duration::from_secs(2);"
        ));
        assert!(!with_unit("272", "const BYTES_MAX: u32 = 272 << 10;"));
    }
}
