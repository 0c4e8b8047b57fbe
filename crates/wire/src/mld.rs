//! Messages of multicast listener discovery, both versions.
//!
//! Invariants: none beyond the types. Locks: none.
//! Sources: RFC 9777 section 5 (version 2, as RFC 3810), RFC 2710 section 3 (version 1).
//!
//! ```text
//!   0   1   2       4           6       8                24  25    26          28
//!  +---+---+-------+-----------+-------+----------------+---+-----+-----------+------- - -
//!  |130| 0 |cksum  | max delay |   0   | group, or none |QRV|QQIC | n sources | sources     a query; version 1 ends at 24
//!  +---+---+-------+-----------+-------+----------------+---+-----+-----------+------- - -
//! ```

use core::net::Ipv6Addr;

use crate::{Icmp6Message, ParseError};

/// The group of all routers that speak version 2: reports are sent to it.
pub const ALL_MLD2_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x16);

/// A router's question for listeners (RFC 9777 section 5, RFC 2710 section 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MldQuery {
    /// The group that it is about; none: all.
    pub group: Option<Ipv6Addr>,
    /// The time within which listeners answer, in milliseconds.
    pub max_delay_ms: u32,
    /// It is one of version 1.
    pub is_v1: bool,
    /// The number of successive messages that may get lost (QRV); 0: not given.
    pub robustness: u8,
    /// Seconds between two questions about all groups (QQIC).
    pub interval_s: u32,
    /// How many sources it is about: see [`MldQuery::sources`]. 0: all.
    pub source_count: u16,
}

/// The kind of a record in a report (RFC 9777 section 5.2.12).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
#[doc(alias = "MODE_IS_INCLUDE")]
pub enum MldRecordType {
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

/// A record of a report of version 2 (RFC 9777 section 5). The addresses of its sources follow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MldRecord {
    /// Its kind.
    pub kind: MldRecordType,
    /// The group that it is about.
    pub group: Ipv6Addr,
    /// How many sources follow.
    pub source_count: u16,
}

impl MldQuery {
    /// The type of a query.
    pub const KIND: u8 = 130;
    /// The type of a report of version 1.
    pub const REPORT_V1: u8 = 131;
    /// The type of a message of version 1 that the last listener has left.
    pub const DONE_V1: u8 = 132;
    /// The type of a report of version 2.
    pub const REPORT: u8 = 143;
    /// Bytes of a query of version 2 behind the ICMPv6 header and before its sources.
    pub const LEN_V2: usize = 20;

    /// The query with these four bytes behind the checksum, and `body` behind those.
    ///
    /// # Errors
    /// [`ParseError::Truncated`] for fewer than 16 bytes, or for a number of them that neither version has.
    pub fn parse(rest: [u8; 4], body: &[u8]) -> Result<MldQuery, ParseError> {
        let (group, behind) = body
            .split_first_chunk::<16>()
            .ok_or(ParseError::Truncated)?;
        let group = Ipv6Addr::from_octets(*group);
        let [d1, d0, ..] = rest;
        let delay = u16::from_be_bytes([d1, d0]);
        let query = MldQuery {
            group: (!group.is_unspecified()).then_some(group),
            max_delay_ms: u32::from(delay),
            is_v1: true,
            robustness: 0,
            interval_s: 0,
            source_count: 0,
        };
        match behind {
            [] => Ok(query),
            &[flags, interval, n1, n0, ..] => Ok(MldQuery {
                max_delay_ms: float(u32::from(delay), 12, 0x8000),
                is_v1: false,
                robustness: flags & 0b111,
                interval_s: float(u32::from(interval), 4, 0x80),
                source_count: u16::from_be_bytes([n1, n0]),
                ..query
            }),
            _ => Err(ParseError::Truncated),
        }
    }

    /// Bytes of the query behind the ICMPv6 header, its sources included.
    #[allow(clippy::len_without_is_empty)] // no query is empty
    pub fn len(&self) -> usize {
        match self.is_v1 {
            true => 16,
            false => {
                MldQuery::LEN_V2.saturating_add(usize::from(self.source_count).saturating_mul(16))
            }
        }
    }

    /// The sources that it is about, as far as they are in `body`, the same bytes as in [`MldQuery::parse`].
    pub fn sources<'a>(&self, body: &'a [u8]) -> impl Iterator<Item = Ipv6Addr> + 'a {
        let listed = body.get(MldQuery::LEN_V2..).unwrap_or(&[]);
        let (listed, _) = listed.as_chunks::<16>();
        let listed = listed.iter().take(usize::from(self.source_count));
        listed.map(|source| Ipv6Addr::from_octets(*source))
    }
}

/// A number that is itself below `limit`, and else has a mantissa of `bits` bits behind three bits of an exponent
/// (sections 5.1.3 and 5.1.9).
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

impl MldRecord {
    /// Bytes of a record before its sources.
    pub const LEN: usize = 20;

    /// The record as it is in a report, before its sources.
    pub fn to_bytes(self) -> [u8; MldRecord::LEN] {
        let mut bytes = [0; MldRecord::LEN];
        let (head, group) = bytes.split_at_mut(4);
        let [n1, n0] = self.source_count.to_be_bytes();
        head.copy_from_slice(&[self.kind as u8, 0, n1, n0]);
        group.copy_from_slice(&self.group.octets());
        bytes
    }

    /// The ICMP message before `count` records.
    pub fn report(count: u16) -> Icmp6Message {
        let [c1, c0] = count.to_be_bytes();
        Icmp6Message::Other {
            kind: MldQuery::REPORT,
            code: 0,
            rest: [0, 0, c1, c0],
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use std::vec::Vec;

    use super::*;

    proptest! {
        /// Breaks if any bytes make the parser panic, or a version is read from a length that it does not have.
        #[test]
        fn m2_any_query_is_read(rest: [u8; 4], body in prop::collection::vec(any::<u8>(), 0..80)) {
            let read = MldQuery::parse(rest, &body);
            let is_whole = body.len() == 16 || body.len() >= 20;
            prop_assert_eq!(read.is_ok(), is_whole);
            if let Ok(query) = read {
                prop_assert_eq!(query.is_v1, body.len() == 16);
                let group = query.group.unwrap_or(Ipv6Addr::UNSPECIFIED);
                prop_assert_eq!(&group.octets()[..], &body[..16]);
                let sources: Vec<_> = query.sources(&body).collect();
                let there = body.len().saturating_sub(20) / 16;
                prop_assert_eq!(sources.len(), there.min(query.source_count.into()));
                prop_assert_eq!(query.len(), if query.is_v1 { 16 } else { 20 + 16 * usize::from(query.source_count) });
                for (source, bytes) in sources.iter().zip(body[20.min(body.len())..].chunks(16)) {
                    prop_assert_eq!(&source.octets()[..], bytes);
                }
            }
        }

        /// Breaks if a record of a report is not written as RFC 9777 section 5.2 draws it.
        #[test]
        fn m1_a_record_names_its_group(group: [u8; 16], source_count: u16) {
            let record = MldRecord { kind: MldRecordType::ToExclude, group: group.into(), source_count };
            let [n1, n0] = source_count.to_be_bytes();
            let expected: Vec<u8> = [4, 0, n1, n0].into_iter().chain(group).collect();
            prop_assert_eq!(&record.to_bytes()[..], &expected[..]);
        }
    }

    #[test]
    fn m2_a_query_is_read_by_its_version() {
        // Breaks if the version is not taken from the length, or a large time is read as its code (RFC 9777 section
        // 5.1.3).
        let group = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 1, 2);
        let of = |rest, body: &[u8]| MldQuery::parse(rest, body);
        let v1 = of([0x27, 0x10, 0, 0], &group.octets()).expect("it is whole");
        assert_eq!(
            (v1.is_v1, v1.group, v1.max_delay_ms),
            (true, Some(group), 10_000)
        );
        let mut body = [0; 20];
        body[16] = 0x0a;
        body[17] = 125;
        let v2 = of([0x83, 0xe8, 0, 0], &body).expect("it is whole");
        assert_eq!((v2.is_v1, v2.group, v2.robustness), (false, None, 2));
        assert_eq!((v2.max_delay_ms, v2.interval_s), (0x13e8 << 3, 125));
        body[17] = 0xff;
        assert_eq!(of([0; 4], &body).expect("whole").interval_s, 0x1f << 10);
        assert_eq!(
            of([0xff; 4], &body).expect("whole").max_delay_ms,
            0x1fff << 10
        );
        for len in [0, 15, 17, 19] {
            assert_eq!(
                of([0; 4], &body[..len]),
                Err(ParseError::Truncated),
                "{len}"
            );
        }
    }
}
