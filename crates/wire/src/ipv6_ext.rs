//! The extension headers between an IPv6 header and the protocol above.
//!
//! [`Ipv6ExtHeaders`] walks the chain over contiguous bytes, [`Ipv6Options`] the options inside of a header of options.
//! The stack decides which orders and numbers of headers it accepts.
//!
//! Invariants: each step goes at least 8 bytes on, so a walk ends; nothing outside of the bytes is read.
//! Locks: none.
//! Sources: RFC 8200 section 4, RFC 4302 section 2.2 (length of AH), RFC 7045 (the list).
//!
//! ```text
//!   0   1   2                          0   1   2       4               8
//!  +---+---+------------------ - -    +---+---+-------+---------------+
//!  |nxt|len| options, or other        |nxt| 0 |off  M |      id       |  fragment
//!  +---+---+------------------ - -    +---+---+-------+---------------+
//!   len: in units of 8 bytes, beyond the first 8 (AH: of 4 bytes, beyond the first 8)
//! ```

use crate::{IpProto, ParseError, emit};

/// An extension header (RFC 8200 section 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv6ExtHeader<'a> {
    /// The kind of header.
    pub kind: IpProto,
    /// The offset of the header in the bytes of [`Ipv6ExtHeaders::new`].
    pub at: usize,
    /// All its bytes, at least 8.
    pub bytes: &'a [u8],
}

/// The chain of extension headers (RFC 8200 section 4). The iterator ends where the protocol above begins, or with an
/// error; then [`upper`](Ipv6ExtHeaders::upper) names that protocol.
#[derive(Clone, Debug)]
pub struct Ipv6ExtHeaders<'a> {
    bytes: &'a [u8],
    next: IpProto,
    /// Where `next` is to be read.
    at: usize,
    /// Where the field lies that named it.
    named_at: usize,
}

impl<'a> Ipv6ExtHeaders<'a> {
    /// The chain in `bytes`, whose first header is `first`. Offsets are counted from the beginning of `bytes`;
    /// `at` is the first header's, and `named_at` that of the field that names it.
    pub fn new(bytes: &'a [u8], first: IpProto, at: usize, named_at: usize) -> Self {
        Self {
            bytes,
            next: first,
            at,
            named_at,
        }
    }

    /// The header that is next: once the iterator has ended, the protocol above.
    pub fn upper(&self) -> IpProto {
        self.next
    }

    /// The offset of [`upper`](Self::upper), in bytes.
    pub fn upper_at(&self) -> usize {
        self.at
    }

    /// The offset of the field that names [`upper`](Self::upper), in bytes.
    pub fn named_at(&self) -> usize {
        self.named_at
    }

    /// The header at `at`, if its bytes are there.
    fn read(&self) -> Option<&'a [u8]> {
        let rest = self.bytes.get(self.at..)?;
        let [_, len] = *rest.first_chunk::<2>()?;
        let words = usize::from(len);
        let len = match self.next {
            IpProto::FRAGMENT => 8,
            IpProto::AH => words.saturating_add(2).saturating_mul(4).max(8),
            _ => words.saturating_add(1).saturating_mul(8),
        };
        rest.get(..len)
    }
}

impl<'a> Iterator for Ipv6ExtHeaders<'a> {
    type Item = Result<Ipv6ExtHeader<'a>, ParseError>;

    fn next(&mut self) -> Option<Self::Item> {
        if !self.next.is_extension() {
            return None;
        }
        let Some(bytes) = self.read() else {
            return Some(Err(ParseError::Truncated));
        };
        let header = Ipv6ExtHeader {
            kind: self.next,
            at: self.at,
            bytes,
        };
        self.named_at = self.at;
        self.at = self.at.saturating_add(bytes.len());
        self.next = IpProto(bytes.first().copied().unwrap_or(IpProto::NONE.0));
        Some(Ok(header))
    }
}

impl IpProto {
    /// Whether an IPv6 header of this number has a length and a next header: the ones that a host can step over.
    pub const fn is_extension(self) -> bool {
        matches!(
            self,
            IpProto::HOP_BY_HOP
                | IpProto::ROUTING
                | IpProto::FRAGMENT
                | IpProto::AH
                | IpProto::DEST_OPTIONS
                | IpProto::MOBILITY
                | IpProto::HIP
                | IpProto::SHIM6
        )
    }
}

/// An option of a header of options (RFC 8200 section 4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv6Option<'a> {
    /// Its number; a host that does not know it obeys the two highest bits.
    pub kind: u8,
    /// The offset of the option in the header, in bytes.
    pub at: usize,
    /// Its bytes.
    pub data: &'a [u8],
}

/// The fate of a packet with an option that the host does not know (RFC 8200 section 4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownOption {
    /// Passes the option over.
    Skip,
    /// Drops the packet.
    Drop,
    /// Drops it, and reports that to the sender.
    Tell,
    /// Drops it, and reports that to the sender unless the destination is multicast.
    TellUnlessMulticast,
}

impl Ipv6Option<'_> {
    /// One byte of padding, without length.
    pub const PAD1: u8 = 0;
    /// Padding.
    pub const PADN: u8 = 1;
    /// Routers on the path must examine the packet (RFC 2711).
    pub const ROUTER_ALERT: u8 = 5;
    /// The packet is longer than 65,535 bytes (RFC 2675).
    pub const JUMBO: u8 = 0xc2;

    /// The fate of the packet where its number is not known.
    pub const fn if_unknown(&self) -> UnknownOption {
        match self.kind >> 6 {
            0 => UnknownOption::Skip,
            1 => UnknownOption::Drop,
            2 => UnknownOption::Tell,
            _ => UnknownOption::TellUnlessMulticast,
        }
    }
}

/// The options of a hop-by-hop or destination header, without padding (RFC 8200 section 4.2). An error names the offset
/// of an option that does not fit the header, and ends the walk.
#[derive(Clone, Debug)]
pub struct Ipv6Options<'a> {
    header: &'a [u8],
    at: usize,
}

impl<'a> Ipv6Options<'a> {
    /// The options in `header`, which begins with its two fixed bytes.
    pub fn new(header: &'a [u8]) -> Self {
        Self { header, at: 2 }
    }
}

impl<'a> Iterator for Ipv6Options<'a> {
    type Item = Result<Ipv6Option<'a>, usize>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (at, header) = (self.at, self.header);
            let (&kind, rest) = header.get(at..)?.split_first()?;
            if kind == Ipv6Option::PAD1 {
                self.at = at.saturating_add(1);
                continue;
            }
            let data = rest
                .split_first()
                .and_then(|(&len, rest)| rest.get(..usize::from(len)));
            let Some(data) = data else {
                self.at = header.len();
                return Some(Err(at));
            };
            self.at = at.saturating_add(2).saturating_add(data.len());
            if kind != Ipv6Option::PADN {
                return Some(Ok(Ipv6Option { kind, at, data }));
            }
        }
    }
}

/// A header of hop-by-hop options with nothing but the length of a packet of more than 65,535 bytes (RFC 2675 section
/// 2).
#[doc(alias = "hop_jumbo_hdr")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv6Jumbo {
    next: IpProto,
    len: u32,
}

impl Ipv6Jumbo {
    /// Bytes in the header.
    pub const LEN: usize = 8;
    /// Bytes in the option's data.
    const DATA_LEN: u8 = 4;

    /// One before the header `next`, of a packet of `len` bytes behind the IPv6 header, this header included.
    pub const fn new(next: IpProto, len: u32) -> Self {
        Self { next, len }
    }

    /// Writes the header to the front of `out` and returns its length.
    ///
    /// # Panics
    /// If `out` is shorter than [`Ipv6Jumbo::LEN`].
    pub fn emit(&self, out: &mut [u8]) -> usize {
        let [a, b, c, d] = self.len.to_be_bytes();
        let kind = Ipv6Option::JUMBO;
        emit::put(out, &[self.next.0, 0, kind, Self::DATA_LEN, a, b, c, d])
    }
}

/// A fragment header (RFC 8200 section 4.5).
#[doc(alias = "ip6_frag")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv6Fragment {
    /// The header with which the fragmented part begins; only the first fragment's counts.
    pub next: IpProto,
    /// Where this fragment begins, in bytes: a multiple of 8.
    pub offset: u16,
    /// More fragments follow.
    pub more: bool,
    /// The number that the fragments of one packet have in common.
    pub id: u32,
}

impl Ipv6Fragment {
    /// Bytes in the header.
    pub const LEN: usize = 8;

    /// The header at the front of `bytes`.
    ///
    /// # Errors
    /// [`ParseError::Truncated`] for fewer than 8 bytes.
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        let &[next, _, o1, o0, a, b, c, d] =
            bytes.first_chunk::<8>().ok_or(ParseError::Truncated)?;
        let field = u16::from_be_bytes([o1, o0]);
        Ok(Self {
            next: IpProto(next),
            offset: field & !0b111,
            more: field & 1 != 0,
            id: u32::from_be_bytes([a, b, c, d]),
        })
    }

    /// Writes the header to the front of `out` and returns its length.
    ///
    /// # Panics
    /// If `out` is shorter than [`Ipv6Fragment::LEN`].
    pub fn emit(&self, out: &mut [u8]) -> usize {
        let [o1, o0] = (self.offset & !0b111 | u16::from(self.more)).to_be_bytes();
        let [a, b, c, d] = self.id.to_be_bytes();
        emit::put(out, &[self.next.0, 0, o1, o0, a, b, c, d])
    }
}

#[cfg(test)]
mod tests;
