//! Ranges of bytes: which parts of a file a request asks for.
//!
//! | the field says | then |
//! |---|---|
//! | not a valid range, another unit, more than [`RANGES_MAX`] ranges, ranges that are more than the file | the whole file |
//! | ranges, and none of them begins within the file | 416 |
//! | else | those that begin within the file, cut at its end |
//!
//! A client that asks for many overlapping ranges would get more than the file's bytes for a few of its own
//! (CVE-2011-3192): it gets the file.
//!
//! Locks: none.
//! Sources: RFC 9110 sections 14.1.2, 14.2 and 17.15.

/// Ranges of a request at most.
pub(crate) const RANGES_MAX: usize = 16;

/// Bytes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ByteRange {
    /// The first one's offset.
    pub(crate) start: u64,
    /// The number of bytes, at least one unless the file is empty.
    pub(crate) len: u64,
}

impl ByteRange {
    /// All of a file.
    pub(crate) fn whole(len: u64) -> ByteRange {
        ByteRange { start: 0, len }
    }

    /// Those behind the first `n`.
    pub(crate) fn without_first(self, n: u64) -> ByteRange {
        let n = n.min(self.len);
        ByteRange {
            start: self.start + n,
            len: self.len - n,
        }
    }

    /// `0-499/1234`
    pub(crate) fn content_range(&self, file_len: u64) -> String {
        let last = self.start + self.len.saturating_sub(1);
        format!("bytes {}-{last}/{file_len}", self.start)
    }
}

/// The parts of a file that a request gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RangeChoice {
    /// The whole file.
    Whole,
    /// These, in the client's order: at least one.
    Parts(Vec<ByteRange>),
    /// None is there.
    Unsatisfiable,
}

/// Reads a Range field for a file of `len` bytes.
pub(crate) fn choose(field: Option<&[u8]>, len: u64) -> RangeChoice {
    let Some(specs) = field.and_then(specs) else {
        return RangeChoice::Whole;
    };
    let mut parts = Vec::new();
    for spec in specs {
        parts.extend(spec.within(len));
    }
    let total = parts.iter().try_fold(0u64, |sum, p| sum.checked_add(p.len));
    match total {
        _ if parts.is_empty() => RangeChoice::Unsatisfiable,
        Some(total) if total <= len => RangeChoice::Parts(parts),
        _ => RangeChoice::Whole,
    }
}

/// One range as the client wrote it.
#[derive(Clone, Copy, Debug)]
enum Spec {
    /// `7-` or `7-9`
    From(u64, Option<u64>),
    /// `-5`
    Last(u64),
}

impl Spec {
    fn parse(text: &str) -> Option<Spec> {
        let (first, last) = text.trim_matches([' ', '\t']).split_once('-')?;
        match (number(first), number(last)) {
            (Some(first), Some(last)) if first <= last => Some(Spec::From(first, Some(last))),
            (Some(first), None) if last.is_empty() => Some(Spec::From(first, None)),
            (None, Some(n)) if first.is_empty() => Some(Spec::Last(n)),
            _ => None,
        }
    }

    /// The part of it that is in a file of `len` bytes.
    fn within(self, len: u64) -> Option<ByteRange> {
        let (start, end) = match self {
            Spec::From(first, last) => (first, last.map_or(len, |last| last.saturating_add(1))),
            Spec::Last(n) => (len.saturating_sub(n), len),
        };
        let end = end.min(len);
        (start < end).then(|| ByteRange {
            start,
            len: end - start,
        })
    }
}

/// The ranges of a field; `None` if it does not parse.
fn specs(field: &[u8]) -> Option<Vec<Spec>> {
    let (unit, set) = std::str::from_utf8(field).ok()?.split_once('=')?;
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return None;
    }
    // An empty element of a list counts for nothing (RFC 9110 5.6.1).
    let all = set.split(',').filter(|spec| !spec.trim().is_empty());
    let specs = all.take(RANGES_MAX + 1).map(Spec::parse);
    let specs: Vec<Spec> = specs.collect::<Option<_>>()?;
    (1..=RANGES_MAX).contains(&specs.len()).then_some(specs)
}

/// Digits only; a number beyond the largest is the largest.
fn number(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.parse().unwrap_or(u64::MAX))
}
