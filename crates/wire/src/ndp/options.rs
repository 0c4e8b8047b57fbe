//! Options of messages of neighbour discovery.

use core::net::Ipv6Addr;

use crate::{MacAddr, ParseError};

const SOURCE_LINK_ADDR: u8 = 1;
const TARGET_LINK_ADDR: u8 = 2;
const PREFIX: u8 = 3;
pub(super) const REDIRECTED_HEADER: u8 = 4;
const MTU: u8 = 5;
const NONCE: u8 = 14;
const RDNSS: u8 = 25;

/// An option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NdpOption<'a> {
    /// The sender's Ethernet address.
    SourceLinkAddr(MacAddr),
    /// The target's Ethernet address.
    TargetLinkAddr(MacAddr),
    /// A prefix of the link.
    Prefix(PrefixInfo),
    /// The link's MTU.
    Mtu(u32),
    /// Distinguishes our solicitations from those of other stations.
    Nonce(&'a [u8]),
    /// Name servers.
    Rdnss {
        /// In seconds.
        lifetime: u32,
        /// Addresses of 16 bytes each.
        servers: &'a [[u8; 16]],
    },
    /// Anything else.
    Other {
        /// Its number.
        kind: u8,
        /// The bytes behind its length.
        body: &'a [u8],
    },
}

/// A router's description of a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrefixInfo {
    /// Its bits.
    pub prefix_len: u8,
    /// All its addresses are on the link.
    pub on_link: bool,
    /// Hosts make addresses from it.
    pub autonomous: bool,
    /// How long the prefix is valid, in seconds; all bits set: for ever.
    pub valid_s: u32,
    /// How long new connections may use its addresses, in seconds; all bits set: for ever.
    pub preferred_s: u32,
    /// The prefix; bits behind it are to be ignored.
    pub prefix: Ipv6Addr,
}

/// The options of a message, which are whole.
#[derive(Clone, Copy, Debug)]
pub struct NdpOptions<'a>(&'a [u8]);

impl<'a> NdpOptions<'a> {
    /// The options in `bytes`, each of which must be whole.
    pub(super) fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let mut rest = bytes;
        while !rest.is_empty() {
            rest = split(rest).ok_or(ParseError::BadLength)?.1;
        }
        Ok(Self(bytes))
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = NdpOption<'a>> + use<'a> {
        let mut rest = self.0;
        core::iter::from_fn(move || {
            let (option, behind) = split(rest)?;
            rest = behind;
            Some(NdpOption::of(option))
        })
    }

    /// The sender's Ethernet address, if given.
    pub fn source(&self) -> Option<MacAddr> {
        self.iter().find_map(|option| match option {
            NdpOption::SourceLinkAddr(mac) => Some(mac),
            _ => None,
        })
    }

    /// The target's Ethernet address, if given.
    pub fn target(&self) -> Option<MacAddr> {
        self.iter().find_map(|option| match option {
            NdpOption::TargetLinkAddr(mac) => Some(mac),
            _ => None,
        })
    }

    /// The link's MTU in bytes, if given.
    pub fn mtu(&self) -> Option<u32> {
        self.iter().find_map(|option| match option {
            NdpOption::Mtu(mtu) => Some(mtu),
            _ => None,
        })
    }

    /// The nonce, if there is one.
    pub fn nonce(&self) -> Option<&'a [u8]> {
        self.iter().find_map(|option| match option {
            NdpOption::Nonce(nonce) => Some(nonce),
            _ => None,
        })
    }
}

/// The first option, and the bytes behind it.
fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let &[_, words] = bytes.first_chunk::<2>()?;
    let len = usize::from(words).saturating_mul(8);
    (len != 0).then(|| bytes.split_at_checked(len)).flatten()
}

impl<'a> NdpOption<'a> {
    /// The option in `bytes`, which has at least 8.
    fn of(bytes: &'a [u8]) -> Self {
        let kind = bytes.first().copied().unwrap_or(0);
        let body = bytes.get(2..).unwrap_or(&[]);
        Self::known(kind, body).unwrap_or(Self::Other { kind, body })
    }

    fn known(kind: u8, body: &'a [u8]) -> Option<Self> {
        match kind {
            SOURCE_LINK_ADDR => Some(Self::SourceLinkAddr(MacAddr(*body.first_chunk()?))),
            TARGET_LINK_ADDR => Some(Self::TargetLinkAddr(MacAddr(*body.first_chunk()?))),
            PREFIX => PrefixInfo::parse(body).map(Self::Prefix),
            MTU => {
                let &[_, _, a, b, c, d] = body.first_chunk()?;
                Some(Self::Mtu(u32::from_be_bytes([a, b, c, d])))
            }
            NONCE => Some(Self::Nonce(body)),
            RDNSS => {
                let (&[_, _, a, b, c, d], rest) = body.split_first_chunk()?;
                // Half an address at the end voids the option (RFC 8106 section 5.3.1).
                let (servers, rest) = rest.as_chunks::<16>();
                (rest.is_empty() && !servers.is_empty()).then_some(Self::Rdnss {
                    lifetime: u32::from_be_bytes([a, b, c, d]),
                    servers,
                })
            }
            _ => None,
        }
    }
}

impl PrefixInfo {
    /// Puts it as the body of an option, without bits behind the prefix (RFC 4861 section 4.6.2).
    fn put(&self, out: &mut [u8]) -> Option<usize> {
        let bit = |on: bool, bit: u8| if on { bit } else { 0 };
        let flags = bit(self.on_link, 0x80) | bit(self.autonomous, 0x40);
        let behind = u128::MAX.checked_shr(u32::from(self.prefix_len));
        let network = self.prefix.to_bits() & !behind.unwrap_or(0);
        put_body(
            out,
            &[
                &[self.prefix_len, flags],
                &self.valid_s.to_be_bytes(),
                &self.preferred_s.to_be_bytes(),
                &[0; 4],
                &network.to_be_bytes(),
            ],
        )
    }

    fn parse(body: &[u8]) -> Option<Self> {
        let (&[prefix_len, flags], rest) = body.split_first_chunk()?;
        let (&valid, rest) = rest.split_first_chunk::<4>()?;
        let (&preferred, rest) = rest.split_first_chunk::<4>()?;
        let (_, rest) = rest.split_first_chunk::<4>()?;
        (prefix_len <= 128).then_some(Self {
            prefix_len,
            on_link: flags & 0x80 != 0,
            autonomous: flags & 0x40 != 0,
            valid_s: u32::from_be_bytes(valid),
            preferred_s: u32::from_be_bytes(preferred),
            prefix: Ipv6Addr::from_octets(*rest.first_chunk()?),
        })
    }
}

impl NdpOption<'_> {
    /// Writes the option, with zeros behind it up to a multiple of 8 bytes, and returns its length.
    pub(super) fn emit(&self, out: &mut [u8]) -> Option<usize> {
        let (kind, len) = match self {
            Self::SourceLinkAddr(mac) => (SOURCE_LINK_ADDR, put_body(out, &[&mac.0])?),
            Self::TargetLinkAddr(mac) => (TARGET_LINK_ADDR, put_body(out, &[&mac.0])?),
            Self::Prefix(prefix) => (PREFIX, prefix.put(out)?),
            Self::Mtu(mtu) => (MTU, put_body(out, &[&[0; 2], &mtu.to_be_bytes()])?),
            Self::Nonce(nonce) => (NONCE, put_body(out, &[nonce])?),
            Self::Rdnss { lifetime, servers } => {
                let parts: [&[u8]; 3] = [&[0; 2], &lifetime.to_be_bytes(), servers.as_flattened()];
                (RDNSS, put_body(out, &parts)?)
            }
            Self::Other { kind, body } => (*kind, put_body(out, &[body])?),
        };
        let words = u8::try_from(len.checked_div(8)?).ok()?;
        *out.first_chunk_mut()? = [kind, words];
        Some(len)
    }
}

/// Puts the body of an option behind its kind and length, and zeros behind that, and returns the length of all.
pub(super) fn put_body(out: &mut [u8], parts: &[&[u8]]) -> Option<usize> {
    let mut at = 2_usize;
    for part in parts {
        let end = at.checked_add(part.len())?;
        out.get_mut(at..end)?.copy_from_slice(part);
        at = end;
    }
    let len = at.checked_next_multiple_of(8)?;
    out.get_mut(at..len)?.fill(0);
    Some(len)
}
