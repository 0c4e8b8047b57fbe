//! TCP options as a script writes them, as bytes, and as a segment has them.
//!
//! Numbers of sequence and of timestamps are the script's here; [`ScriptFlow`](super::flow::ScriptFlow) translates
//! them.
//!
//! The comparison is of the options and their values. Padding (`nop`, `eol`) and order are the sender's choice by RFC
//! 9293 section 3.2, so they count only where a script asks for it (`--strict_options`).

use std::fmt;

/// A script's line about the options of a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum OptionsSpec {
    /// `<...>`: any.
    Any,
    /// These; an empty list means none.
    These(Vec<TcpOption>),
}

/// One option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TcpOption {
    /// End of the list.
    Eol,
    /// Padding.
    Nop,
    /// Maximum segment size.
    Mss(u16),
    /// Window scale; `None` is `...`.
    WindowScale(Option<u8>),
    /// SACK is understood.
    SackPermitted,
    /// SACK blocks.
    Sack(Vec<(u32, u32)>),
    /// Timestamp value and echo reply; `None` is `...`.
    Timestamps(Option<u32>, Option<u32>),
    /// Counts of bytes by their marks (RFC 9768), in the order of the wire; `true` if that begins with ECT(1).
    AccEcn(Vec<u32>, bool),
    /// A Fast Open cookie (RFC 7413); `true` for the experimental kind (RFC 6994).
    FastOpen(Vec<u8>, bool),
    /// An MD5 digest (RFC 2385).
    Md5([u8; 16]),
    /// Any other kind, with its body.
    Other(u8, Vec<u8>),
}

/// The names of AccECN's fields, in either order.
pub(super) const ACC_ECN_0: [&str; 3] = ["e0b", "ceb", "e1b"];
pub(super) const ACC_ECN_1: [&str; 3] = ["e1b", "ceb", "e0b"];

const KIND_FAST_OPEN: u8 = 34;
const KIND_EXPERIMENT: u8 = 254;
/// Fast Open's number among the experiments.
const FAST_OPEN_MAGIC: [u8; 2] = [0xf9, 0x89];

impl TcpOption {
    /// The kind byte.
    pub(super) fn kind(&self) -> u8 {
        match self {
            Self::Eol => 0,
            Self::Nop => 1,
            Self::Mss(_) => 2,
            Self::WindowScale(_) => 3,
            Self::SackPermitted => 4,
            Self::Sack(_) => 5,
            Self::Timestamps(..) => 8,
            Self::Md5(_) => 19,
            Self::AccEcn(_, false) => 172,
            Self::AccEcn(_, true) => 174,
            Self::FastOpen(_, false) => KIND_FAST_OPEN,
            Self::FastOpen(_, true) => KIND_EXPERIMENT,
            Self::Other(kind, _) => *kind,
        }
    }

    fn is_padding(&self) -> bool {
        matches!(self, Self::Eol | Self::Nop)
    }

    fn body(&self) -> Vec<u8> {
        let words = |all: &[u32]| all.iter().flat_map(|n| n.to_be_bytes()).collect();
        match self {
            Self::Eol | Self::Nop | Self::SackPermitted => Vec::new(),
            Self::Mss(mss) => mss.to_be_bytes().to_vec(),
            Self::WindowScale(shift) => vec![shift.unwrap_or(0)],
            Self::Sack(blocks) => {
                let ends: Vec<u32> = blocks.iter().flat_map(|(l, r)| [*l, *r]).collect();
                words(&ends)
            }
            Self::Timestamps(val, ecr) => words(&[val.unwrap_or(0), ecr.unwrap_or(0)]),
            Self::AccEcn(counts, _) => {
                let field = |n: &u32| n.to_be_bytes()[1..].to_vec();
                counts.iter().flat_map(field).collect()
            }
            Self::FastOpen(cookie, false) => cookie.clone(),
            Self::FastOpen(cookie, true) => [&FAST_OPEN_MAGIC, cookie.as_slice()].concat(),
            Self::Md5(digest) => digest.to_vec(),
            Self::Other(_, body) => body.clone(),
        }
    }

    fn parse(kind: u8, body: &[u8]) -> Self {
        let word = |at: usize| {
            let bytes = body.get(at..at + 4).unwrap_or_default();
            bytes.iter().fold(0_u32, |n, b| n << 8 | u32::from(*b))
        };
        match (kind, body.len()) {
            (2, 2) => Self::Mss(u16::from_be_bytes([body[0], body[1]])),
            (3, 1) => Self::WindowScale(Some(body[0])),
            (4, 0) => Self::SackPermitted,
            (5, len) if len % 8 == 0 => Self::Sack(
                (0..len / 8)
                    .map(|i| (word(8 * i), word(8 * i + 4)))
                    .collect(),
            ),
            (8, 8) => Self::Timestamps(Some(word(0)), Some(word(4))),
            (172 | 174, 0 | 3 | 6 | 9) => {
                let (fields, _) = body.as_chunks::<3>();
                let count = |[a, b, c]: &[u8; 3]| u32::from_be_bytes([0, *a, *b, *c]);
                Self::AccEcn(fields.iter().map(count).collect(), kind == 174)
            }
            (19, 16) => Self::Md5(std::array::from_fn(|i| body[i])),
            (KIND_FAST_OPEN, _) => Self::FastOpen(body.to_vec(), false),
            (KIND_EXPERIMENT, _) if body.starts_with(&FAST_OPEN_MAGIC) => {
                Self::FastOpen(body[2..].to_vec(), true)
            }
            _ => Self::Other(kind, body.to_vec()),
        }
    }
}

/// The options as they lie in a header, padded to whole words with zeros. `None` if they are more than 40 bytes.
pub(super) fn emit(options: &[TcpOption]) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    for option in options {
        bytes.push(option.kind());
        if !option.is_padding() {
            let body = option.body();
            bytes.push(u8::try_from(body.len() + 2).ok()?);
            bytes.extend(body);
        }
    }
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    (bytes.len() <= wire::TcpOptions::LEN_MAX).then_some(bytes)
}

/// The options that lie in a header. A malformed option ends the list, as [`TcpOption::Other`] with the rest.
pub(super) fn parse(mut bytes: &[u8]) -> Vec<TcpOption> {
    let mut options = Vec::new();
    while let [kind, rest @ ..] = bytes {
        bytes = rest;
        match kind {
            0 => options.push(TcpOption::Eol),
            1 => options.push(TcpOption::Nop),
            kind => {
                let len = rest.first().map_or(0, |len| usize::from(*len));
                let Some(body) = len.checked_sub(1).and_then(|end| rest.get(1..end)) else {
                    options.push(TcpOption::Other(*kind, rest.to_vec()));
                    break;
                };
                options.push(TcpOption::parse(*kind, body));
                bytes = rest.get(len - 1..).unwrap_or_default();
            }
        }
    }
    options
}

/// AccECN's counts of ECT(0), CE and ECT(1): the order on the wire is the sender's choice (RFC 9768 3.2.3).
fn by_mark(counts: &[u32], order_1: bool) -> [Option<u32>; 3] {
    let mut all = std::array::from_fn(|i| counts.get(i).copied());
    if order_1 {
        all.reverse();
    }
    all
}

/// Whether the options are the expected ones: in any order and with any padding, unless `strict`.
pub(super) fn agree(want: &[TcpOption], got: &[TcpOption], strict: bool) -> bool {
    let same = |(a, b): (&TcpOption, &TcpOption)| match (a, b) {
        (TcpOption::Timestamps(val, ecr), TcpOption::Timestamps(v, e)) => {
            (val.is_none() || val == v) && (ecr.is_none() || ecr == e)
        }
        (TcpOption::WindowScale(None), TcpOption::WindowScale(_)) => true,
        (TcpOption::AccEcn(want, a), TcpOption::AccEcn(got, b)) if !strict => {
            by_mark(want, *a) == by_mark(got, *b)
        }
        (a, b) => a == b,
    };
    let sorted = |all: &[TcpOption]| {
        let mut all: Vec<TcpOption> = all.iter().filter(|o| !o.is_padding()).cloned().collect();
        all.sort_by_key(TcpOption::kind);
        all
    };
    let (want, got) = if strict {
        (want.to_vec(), got.to_vec())
    } else {
        (sorted(want), sorted(got))
    };
    want.len() == got.len() && want.iter().zip(&got).all(same)
}

impl fmt::Display for TcpOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hex = |f: &mut fmt::Formatter<'_>, bytes: &[u8]| {
            bytes.iter().try_for_each(|b| write!(f, "{b:02x}"))
        };
        let number = |n: &Option<u32>| n.map_or_else(|| "...".to_owned(), |n| n.to_string());
        match self {
            Self::Eol => f.write_str("eol"),
            Self::Nop => f.write_str("nop"),
            Self::Mss(mss) => write!(f, "mss {mss}"),
            Self::WindowScale(shift) => {
                write!(f, "wscale {}", number(&shift.map(u32::from)))
            }
            Self::SackPermitted => f.write_str("sackOK"),
            Self::Sack(blocks) => {
                f.write_str("sack")?;
                blocks.iter().try_for_each(|(l, r)| write!(f, " {l}:{r}"))
            }
            Self::Timestamps(val, ecr) => {
                write!(f, "TS val {} ecr {}", number(val), number(ecr))
            }
            Self::AccEcn(counts, order_1) => {
                f.write_str("ECN")?;
                let names = if *order_1 { ACC_ECN_1 } else { ACC_ECN_0 };
                let mut fields = names.iter().zip(counts);
                fields.try_for_each(|(name, n)| write!(f, " {name} {n}"))
            }
            Self::FastOpen(cookie, experiment) => {
                f.write_str(if *experiment { "FOEXP " } else { "FO " })?;
                hex(f, cookie)
            }
            Self::Md5(digest) => {
                f.write_str("md5 ")?;
                hex(f, digest)
            }
            Self::Other(kind, body) => {
                write!(f, "kind {kind} ")?;
                hex(f, body)
            }
        }
    }
}

/// As a script writes it, with its angle brackets; empty for no options.
impl fmt::Display for OptionsSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str(" <...>"),
            Self::These(all) if all.is_empty() => Ok(()),
            Self::These(all) => {
                for (i, one) in all.iter().enumerate() {
                    write!(f, "{}{one}", if i == 0 { " <" } else { "," })?;
                }
                f.write_str(">")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_by_marks_may_come_in_either_order() {
        // Breaks when the order of AccECN's counts matters, or counts of other marks are equal.
        let count = |counts: &[u32], order_1| [TcpOption::AccEcn(counts.to_vec(), order_1)];
        let same = (count(&[5, 0, 1], false), count(&[1, 0, 5], true));
        assert!(agree(&same.0, &same.1, false));
        assert!(!agree(&same.0, &same.1, true));
        let others = [
            count(&[5, 0, 1], true),
            count(&[1, 0], true),
            count(&[5, 0], false),
        ];
        for other in others {
            assert!(!agree(&same.0, &other, false), "{other:?}");
        }
    }
}
