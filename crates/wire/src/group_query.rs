//! A multicast router's question for listeners to groups, of IGMP and of multicast listener discovery, and the kinds of
//! records that answer it, which both protocols share.
//!
//! Invariants: none beyond the types. Locks: none.
//! Sources: RFC 9776 sections 4.1, 4.2.12 and 7.1 (as RFC 3376), RFC 2236 section 2, RFC 9777 section 5 (as RFC 3810),
//! RFC 2710 section 3.
//!
//! ```text
//!   0    1     2       4       8   9    10          12
//!  +----+-----+-------+-------+---+----+-----------+--- - -
//!  |0x11|delay| cksum | group |QRV|QQIC| n sources | ...     IGMP; versions 1 and 2 end at 8
//!  +----+-----+-------+-------+---+----+-----------+--- - -
//!   0   1   2       4           6       8                24  25    26          28
//!  +---+---+-------+-----------+-------+----------------+---+-----+-----------+---- - -
//!  |130| 0 |cksum  | max delay |   0   | group, or none |QRV| QQIC| n sources | ...   MLD; version 1 ends at 24
//!  +---+---+-------+-----------+-------+----------------+---+-----+-----------+---- - -
//! ```

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::ParseError;

/// What the versions of the two protocols can say, from the oldest on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GroupVersion {
    /// That a group has a listener: IGMP version 1.
    Reports,
    /// Also that it has none any more: IGMP version 2, multicast listener discovery version 1.
    Leaves,
    /// Also from which sources: IGMP version 3, multicast listener discovery version 2.
    Sources,
}

/// A router's question for listeners (RFC 9776 section 4.1, RFC 9777 section 5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GroupQuery {
    /// The group that it is about; none: all.
    pub group: Option<IpAddr>,
    /// The time within which listeners answer, in milliseconds.
    pub max_delay_ms: u32,
    /// The version of its sender.
    pub version: GroupVersion,
    /// The number of successive messages that may get lost (QRV); 0: not given.
    pub robustness: u8,
    /// Seconds between two questions about all groups (QQIC).
    pub interval_s: u32,
    /// How many sources it is about: see [`GroupQuery::sources`]. 0: all.
    pub source_count: u16,
    addr_len: usize,
}

/// The kind of a record in a report (RFC 9776 section 4.2.12, RFC 9777 section 5.2.12).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
#[doc(alias = "MODE_IS_INCLUDE")]
pub enum GroupRecordType {
    /// An answer: there are listeners to these sources alone.
    IsInclude = 1,
    /// An answer: there are listeners to all sources but these.
    IsExclude = 2,
    /// A change: there are listeners to these sources alone now, or to none.
    ToInclude = 3,
    /// A change: there are listeners to all sources but these now.
    ToExclude = 4,
    /// A change: there are listeners to these sources too.
    AllowNew = 5,
    /// A change: there are no listeners to these sources any more.
    BlockOld = 6,
}

/// The bytes of a record of a report before its group and its sources (RFC 9776 section 4.2.4, RFC 9777 section 5.2.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupRecordHead {
    /// The kind of the record.
    pub kind: GroupRecordType,
    /// How many sources follow the group.
    pub source_count: u16,
}

impl GroupRecordHead {
    /// Bytes in it.
    pub const LEN: usize = 4;

    /// The bytes as they are in a report; no auxiliary data follow.
    pub const fn to_bytes(self) -> [u8; GroupRecordHead::LEN] {
        let [n1, n0] = self.source_count.to_be_bytes();
        [self.kind as u8, 0, n1, n0]
    }
}

impl GroupQuery {
    /// The query of multicast listener discovery with these four bytes behind the checksum, and `body` behind those.
    ///
    /// # Errors
    /// [`ParseError::Truncated`] for fewer than 16 bytes, or for a number of them that neither version has.
    pub fn parse_mld(rest: [u8; 4], body: &[u8]) -> Result<GroupQuery, ParseError> {
        let (group, behind) = body
            .split_first_chunk::<16>()
            .ok_or(ParseError::Truncated)?;
        let group = Ipv6Addr::from_octets(*group);
        let [d1, d0, ..] = rest;
        let delay = u32::from(u16::from_be_bytes([d1, d0]));
        let older = (GroupVersion::Leaves, delay);
        Self::parse(group.into(), behind, older, float(delay, 12, 0x8000))
    }

    /// The IGMP query with this byte behind its type, and `body` behind its checksum.
    ///
    /// # Errors
    /// [`ParseError::Truncated`] for fewer than 4 bytes, or for a number of them that no version has.
    pub fn parse_igmp(code: u8, body: &[u8]) -> Result<GroupQuery, ParseError> {
        let (group, behind) = body.split_first_chunk::<4>().ok_or(ParseError::Truncated)?;
        let group = Ipv4Addr::from_octets(*group);
        let tenths = |n: u32| n.saturating_mul(100);
        let older = match code {
            0 => (GroupVersion::Reports, IGMP1_DELAY_MS),
            _ => (GroupVersion::Leaves, tenths(code.into())),
        };
        let delay_ms = tenths(float(code.into(), 4, 0x80));
        Self::parse(group.into(), behind, older, delay_ms)
    }

    /// The query about `group` with the bytes `behind` the group: none if it is of the older version, which has this
    /// delay.
    fn parse(
        group: IpAddr,
        behind: &[u8],
        (older, older_delay_ms): (GroupVersion, u32),
        max_delay_ms: u32,
    ) -> Result<GroupQuery, ParseError> {
        let query = GroupQuery {
            group: (!group.is_unspecified()).then_some(group),
            max_delay_ms: older_delay_ms,
            version: older,
            robustness: 0,
            interval_s: 0,
            source_count: 0,
            addr_len: match group {
                IpAddr::V4(_) => 4,
                IpAddr::V6(_) => 16,
            },
        };
        match behind {
            [] => Ok(query),
            &[flags, interval, n1, n0, ..] => Ok(GroupQuery {
                max_delay_ms,
                version: GroupVersion::Sources,
                robustness: flags & 0b111,
                interval_s: float(u32::from(interval), 4, 0x80),
                source_count: u16::from_be_bytes([n1, n0]),
                ..query
            }),
            _ => Err(ParseError::Truncated),
        }
    }

    /// Bytes of the query from its group on, its sources included.
    #[allow(clippy::len_without_is_empty)] // no query is empty
    pub fn len(&self) -> usize {
        let sources = usize::from(self.source_count).saturating_mul(self.addr_len);
        match self.version {
            GroupVersion::Sources => self.sources_at().saturating_add(sources),
            _ => self.addr_len,
        }
    }

    fn sources_at(&self) -> usize {
        self.addr_len.saturating_add(4)
    }

    /// The sources that it is about, as far as they are in `body`, the same bytes as the query was parsed from.
    pub fn sources<'a>(&self, body: &'a [u8]) -> impl Iterator<Item = IpAddr> + 'a {
        let listed = body.get(self.sources_at()..).unwrap_or(&[]);
        let listed = listed.chunks_exact(self.addr_len);
        listed
            .take(usize::from(self.source_count))
            .filter_map(|source| match source.len() {
                4 => source
                    .first_chunk::<4>()
                    .map(|source| IpAddr::from(*source)),
                _ => source
                    .first_chunk::<16>()
                    .map(|source| IpAddr::from(*source)),
            })
    }
}

/// A number that is itself below `limit`, and else has a mantissa of `bits` bits behind three bits of an exponent (RFC
/// 9776 section 4.1.1, RFC 9777 sections 5.1.3 and 5.1.9).
fn float(code: u32, bits: u32, limit: u32) -> u32 {
    if code < limit {
        return code;
    }
    let one = 1_u32.checked_shl(bits).unwrap_or(0);
    let mantissa = code & one.saturating_sub(1) | one;
    let exponent = code.checked_shr(bits).unwrap_or(0) & 0b111;
    mantissa
        .checked_shl(exponent.saturating_add(3))
        .unwrap_or(u32::MAX)
}

/// The delay of a query of IGMP's version 1, which names none (RFC 2236 section 4).
const IGMP1_DELAY_MS: u32 = 10_000;

#[cfg(test)]
mod tests;
