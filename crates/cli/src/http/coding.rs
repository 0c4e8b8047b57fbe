//! The codings that a client accepts, for files that have a compressed file beside them.
//!
//! Invariants: a coding that the client weighs 0, or does not name, is not chosen.
//! Locks: none.
//! Sources: RFC 9110 sections 8.4.1 and 12.5.3; RFC 7932 (br), RFC 8878 (zstd).

/// A coding that files are compressed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coding {
    /// RFC 8878.
    Zstd,
    /// RFC 7932.
    Brotli,
    /// RFC 1952.
    Gzip,
}

/// All of them, in the order among codings of the same weight: the one that decodes fastest first, then the smallest.
pub(crate) const ALL: [Coding; 3] = [Coding::Zstd, Coding::Brotli, Coding::Gzip];
/// A weight of 1.
const WHOLE: u16 = 1000;

impl Coding {
    /// How many there are.
    pub(crate) const COUNT: usize = ALL.len();

    /// Its name in fields.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Coding::Zstd => "zstd",
            Coding::Brotli => "br",
            Coding::Gzip => "gzip",
        }
    }

    /// The end of the name of a file in it.
    pub(crate) const fn suffix(self) -> &'static str {
        match self {
            Coding::Zstd => ".zst",
            Coding::Brotli => ".br",
            Coding::Gzip => ".gz",
        }
    }

    fn is_named(self, name: &str) -> bool {
        let old = self == Coding::Gzip && name.eq_ignore_ascii_case("x-gzip");
        old || name.eq_ignore_ascii_case(self.name())
    }
}

/// The codings that the Accept-Encoding fields of a request, which are one list, take: the best first.
pub(crate) fn accepted(fields: &[&[u8]]) -> Vec<Coding> {
    let weigh = |coding: Coding| (weight(fields, coding), coding);
    let mut weighed = ALL.map(weigh);
    // A stable sort: codings of one weight keep their order.
    weighed.sort_by_key(|(weight, _)| std::cmp::Reverse(*weight));
    let taken = weighed.into_iter().filter(|(weight, _)| *weight > 0);
    taken.map(|(_, coding)| coding).collect()
}

/// The client's weight for it: its own, or else that of `*`.
fn weight(fields: &[&[u8]], coding: Coding) -> u16 {
    let (mut own, mut any) = (None, None);
    let fields = fields
        .iter()
        .filter_map(|field| std::str::from_utf8(field).ok());
    for element in fields.flat_map(|field| field.split(',')) {
        let (name, parameters) = element.split_once(';').unwrap_or((element, ""));
        let name = name.trim();
        if coding.is_named(name) {
            own = Some(quality(parameters));
        } else if name == "*" {
            any = Some(quality(parameters));
        }
    }
    own.or(any).unwrap_or(0)
}

/// `q=0.5` in thousandths. A weight that does not parse is a refusal.
fn quality(parameters: &str) -> u16 {
    let named = parameters.split(';').filter_map(|p| p.split_once('='));
    let mut values = named.filter(|(name, _)| name.trim().eq_ignore_ascii_case("q"));
    values.next().map_or(WHOLE, |(_, value)| {
        let value = value.trim().parse::<f32>().unwrap_or(0.0);
        (value.clamp(0.0, 1.0) * f32::from(WHOLE)) as u16
    })
}
