//! Numbers as text of the page.

/// With as many digits as are significant, thousands apart.
pub(super) fn plain(value: f64) -> String {
    if !value.is_finite() {
        return "\u{2013}".to_owned();
    }
    let magnitude = value.abs();
    let digits = match magnitude {
        _ if value.fract() == 0.0 && magnitude >= 10.0 || magnitude == 0.0 => 0,
        _ if magnitude < 0.001 => 5,
        _ if magnitude < 0.1 => 3,
        _ if magnitude < 10.0 => 2,
        _ if magnitude < 100.0 => 1,
        _ => 0,
    };
    thousands(&format!("{value:.digits$}"))
}

/// A count.
pub(super) fn count(n: u64) -> String {
    thousands(&n.to_string())
}

/// A figure that may be missing.
pub(super) fn maybe(value: Option<f64>) -> String {
    value.map_or_else(|| "\u{2013}".to_owned(), plain)
}

/// A ratio.
pub(super) fn times(ratio: f64) -> String {
    format!("{}\u{d7}", plain(ratio))
}

/// Words with figures in them: a unit stays on the line of its number.
pub(super) fn unbroken(text: &str) -> String {
    let units = ["%", "ns", "us", "ms", "s", "B", "MB", "Gbit/s"];
    let mut out = String::with_capacity(text.len());
    for word in text.split_inclusive(' ') {
        let bare = word.trim_end_matches([' ', ',', ';', ':', '.']);
        let number = out.strip_suffix(' ').map(str::len);
        let number = number.filter(|&end| out[..end].ends_with(|c: char| c.is_ascii_digit()));
        if let Some(end) = number.filter(|_| units.contains(&bare)) {
            out.truncate(end);
            out.push('\u{a0}');
        }
        out.push_str(word);
    }
    out
}

/// A time of a run.
pub(super) fn seconds(seconds: f64) -> String {
    match seconds {
        s if s < 1.0 => "less than a second".to_owned(),
        s if s < 90.0 => format!("{s:.0} s"),
        s => format!("{:.0} min", s / 60.0),
    }
}

/// Groups of three digits, a narrow blank between, from 10 000 on.
fn thousands(text: &str) -> String {
    let (sign, rest) = match text.strip_prefix('-') {
        Some(rest) => ("\u{2212}", rest),
        None => ("", text),
    };
    let (whole, fraction) = rest
        .split_once('.')
        .map_or((rest, None), |(w, f)| (w, Some(f)));
    let mut out = sign.to_owned();
    for (nth, digit) in whole.chars().enumerate() {
        let left = whole.len() - nth;
        if whole.len() > 4 && nth > 0 && left.is_multiple_of(3) {
            out.push('\u{202f}');
        }
        out.push(digit);
    }
    if let Some(fraction) = fraction {
        out.push('.');
        out.push_str(fraction);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_digits_that_mean_something() {
        // Breaks when a large number is a row of digits, or a small number loses its digits.
        for (value, want) in [
            (0.0, "0"),
            (0.000_067, "0.00007"),
            (0.0123, "0.012"),
            (1.0, "1.00"),
            (2.345, "2.35"),
            (64.0, "64"),
            (14.74, "14.7"),
            (-3.2, "\u{2212}3.20"),
            (1234.5, "1234"),
            (720_896.0, "720\u{202f}896"),
            (f64::NAN, "\u{2013}"),
        ] {
            assert_eq!(plain(value), want);
        }
        assert_eq!(
            unbroken("ours 44 %; 33 ms \u{2192} none in 5 places"),
            "ours 44\u{a0}%; 33\u{a0}ms \u{2192} none in 5 places"
        );
        assert_eq!(
            (times(1.5), seconds(150.0)),
            ("1.50\u{d7}".to_owned(), "2 min".to_owned())
        );
    }
}
