//! The senders whose packets to a group are taken.
//!
//! Invariants: the list is sorted, without duplicates. Locks: none.
//! Sources: RFC 9777 section 4 (as RFC 3810), RFC 9776 section 3, RFC 3678.

use std::net::IpAddr;

/// The sources of a filter at most, and those of the filters of an interface for one group together.
pub(crate) const SOURCES_MAX: usize = 64;

/// The senders whose packets to a group are taken: some, or all but some (RFC 3678).
///
/// ```
/// use mbuma::SourceFilter;
///
/// let radio: std::net::IpAddr = "2001:db8::7".parse().unwrap();
/// let other: std::net::IpAddr = "2001:db8::8".parse().unwrap();
/// assert!(SourceFilter::all().takes(other));
/// assert!(!SourceFilter::exclude([other]).takes(other));
/// assert!(SourceFilter::include([radio]).takes(radio) && !SourceFilter::include([radio]).takes(other));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SourceFilter {
    mode: FilterMode,
    sources: Vec<IpAddr>,
}

/// What the list means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum FilterMode {
    /// These are taken.
    Include,
    /// All but these are taken.
    Exclude,
}

impl SourceFilter {
    /// All senders.
    #[must_use]
    pub fn all() -> Self {
        Self::new(FilterMode::Exclude, [] as [IpAddr; 0])
    }

    /// These senders alone.
    #[doc(alias = "MCAST_INCLUDE")]
    #[doc(alias = "MCAST_JOIN_SOURCE_GROUP")]
    #[must_use]
    pub fn include(sources: impl IntoIterator<Item = impl Into<IpAddr>>) -> Self {
        Self::new(FilterMode::Include, sources)
    }

    /// All senders but these.
    #[doc(alias = "MCAST_EXCLUDE")]
    #[doc(alias = "MCAST_BLOCK_SOURCE")]
    #[must_use]
    pub fn exclude(sources: impl IntoIterator<Item = impl Into<IpAddr>>) -> Self {
        Self::new(FilterMode::Exclude, sources)
    }

    /// Whether packets from `source` are taken.
    #[must_use]
    pub fn takes(&self, source: impl Into<IpAddr>) -> bool {
        self.lists(source.into()) == (self.mode == FilterMode::Include)
    }

    fn new(mode: FilterMode, sources: impl IntoIterator<Item = impl Into<IpAddr>>) -> Self {
        let mut sources: Vec<_> = sources.into_iter().map(Into::into).collect();
        sources.sort_unstable();
        sources.dedup();
        Self { mode, sources }
    }

    /// No sender: an interface that is not in the group.
    pub(crate) fn none() -> Self {
        Self::new(FilterMode::Include, [] as [IpAddr; 0])
    }

    pub(crate) fn is_none(&self) -> bool {
        self.mode == FilterMode::Include && self.sources.is_empty()
    }

    pub(crate) fn mode(&self) -> FilterMode {
        self.mode
    }

    /// Whether it is one for this group: it lists only addresses of the group's version of IP.
    pub(crate) fn is_for(&self, group: IpAddr) -> bool {
        let is_same = |source: &IpAddr| source.is_ipv4() == group.is_ipv4();
        self.sources.iter().all(is_same)
    }

    /// The list, sorted.
    pub(crate) fn sources(&self) -> &[IpAddr] {
        &self.sources
    }

    /// The same with one more source in the list; `None` if it is there already.
    pub(crate) fn with(&self, source: IpAddr) -> Option<Self> {
        let at = self.sources.binary_search(&source).err()?;
        let mut more = self.clone();
        more.sources.insert(at, source);
        Some(more)
    }

    /// The same with one source less in the list; `None` if it is not there.
    pub(crate) fn without(&self, source: IpAddr) -> Option<Self> {
        let at = self.sources.binary_search(&source).ok()?;
        let mut less = self.clone();
        less.sources.remove(at);
        Some(less)
    }

    fn lists(&self, source: IpAddr) -> bool {
        self.sources.binary_search(&source).is_ok()
    }

    /// The filter of an interface whose members have these: it takes the packets that any of them takes (RFC 9777
    /// section 4.2).
    pub(crate) fn of_members<'a>(members: impl Iterator<Item = &'a Self> + Clone) -> Self {
        let of_mode = |mode| members.clone().filter(move |filter| filter.mode == mode);
        let included =
            Self::include(of_mode(FilterMode::Include).flat_map(|f| f.sources.iter().copied()));
        let mut excluding = of_mode(FilterMode::Exclude);
        let Some(first) = excluding.next() else {
            return included;
        };
        let others: Vec<_> = excluding.collect();
        let is_excluded = |source: &IpAddr| {
            others.iter().all(|other| other.lists(*source)) && !included.lists(*source)
        };
        Self::exclude(first.sources.iter().copied().filter(is_excluded))
    }

    /// The sources whose packets one of two filters of the same mode takes and the other does not.
    pub(crate) fn differing<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = IpAddr> + 'a {
        let only_here = self.sources.iter().filter(|source| !other.lists(**source));
        let only_there = other.sources.iter().filter(|source| !self.lists(**source));
        only_here.chain(only_there).copied()
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Of both versions of IP.
    fn source(n: u8) -> IpAddr {
        match n % 2 {
            0 => IpAddr::from([192, 0, 2, n]),
            _ => IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, n.into()]),
        }
    }

    proptest! {
        /// Breaks if an interface takes a packet that no member takes, or drops one that a member takes; or if two
        /// filters of one mode differ in other sources than they say.
        #[test]
        fn m1_an_interface_takes_what_a_member_takes(
            members in prop::collection::vec((any::<bool>(), prop::collection::vec(0..8_u8, 0..6)), 0..5),
        ) {
            let filter = |(is_include, sources): &(bool, Vec<u8>)| {
                let sources = sources.iter().map(|n| source(*n));
                match is_include {
                    true => SourceFilter::include(sources),
                    false => SourceFilter::exclude(sources),
                }
            };
            let members: Vec<_> = members.iter().map(filter).collect();
            let all = SourceFilter::of_members(members.iter());
            for n in 0..9 {
                let any = members.iter().any(|member| member.takes(source(n)));
                prop_assert_eq!(all.takes(source(n)), any, "{} of {:?}", n, members);
            }
            prop_assert_eq!(all.is_none(), (0..9).all(|n| !all.takes(source(n))) && all.mode() == FilterMode::Include);
            for other in members.iter().filter(|other| other.mode() == all.mode()) {
                let differing: Vec<_> = all.differing(other).collect();
                for n in 0..9 {
                    let differs = all.takes(source(n)) != other.takes(source(n));
                    prop_assert_eq!(differing.contains(&source(n)), differs);
                }
            }
        }
    }
}
