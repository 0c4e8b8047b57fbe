//! The Internet checksum, summed piece by piece.
//!
//! Invariants: any cutting of the same bytes gives the same value; a sum is zero only if every byte was.
//! Locks: none.
//! Sources: RFC 1071, RFC 1141, RFC 768 (zero means "none").
//!
//! The sum is arithmetic modulo 2^16 - 1, and RFC 1071 section 2 gives three freedoms, which this file uses. It may be
//! taken in wider words and folded later, since 2^64 is 1 modulo 2^16 - 1. It may be taken in the machine's byte order
//! and swapped once at the end. And a piece that begins at an odd offset counts 2^8 times its own sum, which in a
//! 64-bit word with end-around carry is a rotation:
//!
//! ```text
//!   piece 1: 3 bytes      piece 2: 2 bytes         bytes of piece 2 stand in the other half
//!   [a b][c .]            [d e]                    of each 16-bit word, so its sum turns by 8 bits
//!   [a b][c d][e .]       <- as one piece
//! ```

#[cfg(all(feature = "std", target_arch = "x86_64"))]
mod wide;

use core::net::{Ipv4Addr, Ipv6Addr};

use crate::IpProto;

/// A running sum over the bytes given so far.
///
/// ```
/// use wire::Checksum;
/// let mut sum = Checksum::new();
/// sum.add_bytes(&[0x00, 0x01, 0xf2]);
/// sum.add_bytes(&[0x03, 0xf4, 0xf5, 0xf6, 0xf7]);
/// assert_eq!(sum.finish(), !0xddf2); // the example of RFC 1071 section 3
/// ```
#[doc(alias = "in_cksum")]
#[derive(Clone, Copy, Debug, Default)]
pub struct Checksum {
    /// Sum of native-endian words with end-around carry.
    sum: u64,
    /// Whether an odd number of bytes went in, so that the next piece begins in mid-word.
    odd: bool,
}

impl Checksum {
    /// The sum of no bytes.
    #[inline]
    pub const fn new() -> Checksum {
        Checksum { sum: 0, odd: false }
    }

    /// Adds the next bytes, of any number.
    #[inline]
    pub fn add_bytes(&mut self, bytes: &[u8]) {
        self.append(sum_words(bytes), bytes.len() & 1 != 0);
    }

    /// Adds a 16-bit value as its two bytes on the wire.
    #[inline]
    pub fn add_u16(&mut self, value: u16) {
        self.append(u64::from(value.to_be()), false);
    }

    /// Adds a 32-bit value as its four bytes on the wire.
    #[inline]
    pub fn add_u32(&mut self, value: u32) {
        self.append(u64::from(value.to_be()), false);
    }

    /// The sum folded to 16 bits and not complemented: a device with checksum offload expects it
    /// in the checksum field, summed over the pseudo header.
    #[inline]
    pub const fn partial(self) -> u16 {
        let folded = fold32(fold64(self.sum));
        u16::from_be(folded)
    }

    /// The checksum, as the header carries it. Over received bytes that include their checksum, zero means that they
    /// are undamaged.
    #[inline]
    pub const fn finish(self) -> u16 {
        !self.partial()
    }

    /// The checksum for a header in which zero says "none" (UDP): zero goes as its equal, 0xffff.
    #[inline]
    pub const fn finish_nonzero(self) -> u16 {
        match self.finish() {
            0 => 0xffff,
            checksum => checksum,
        }
    }

    /// Whether bytes that include their checksum are undamaged.
    #[inline]
    pub const fn is_valid(self) -> bool {
        self.finish() == 0
    }

    #[inline]
    fn append(&mut self, sum: u64, odd: bool) {
        let sum = if self.odd { sum.rotate_left(8) } else { sum };
        self.sum = add_carry(self.sum, sum);
        self.odd ^= odd;
    }
}

/// The sum over the IPv4 pseudo header that TCP and UDP put before their own (RFC 9293 section 3.1).
/// `len` counts the transport header and its payload.
#[doc(alias = "in_pseudo")]
#[inline]
pub fn pseudo_header_v4(src: Ipv4Addr, dst: Ipv4Addr, proto: IpProto, len: u32) -> Checksum {
    let mut sum = Checksum::new();
    sum.add_u32(src.to_bits());
    sum.add_u32(dst.to_bits());
    sum.add_u16(u16::from(proto.0));
    sum.add_u32(len);
    sum
}

/// The sum over the IPv6 pseudo header (RFC 8200 section 8.1). `dst` is the final destination; `len` counts the
/// transport header and its payload.
#[doc(alias = "in6_pseudo")]
#[inline]
pub fn pseudo_header_v6(src: Ipv6Addr, dst: Ipv6Addr, proto: IpProto, len: u32) -> Checksum {
    let mut sum = Checksum::new();
    sum.add_bytes(&src.octets());
    sum.add_bytes(&dst.octets());
    sum.add_u32(len);
    sum.add_u16(u16::from(proto.0));
    sum
}

/// Sums one piece as if it began at an even offset.
#[inline]
fn sum_words(bytes: &[u8]) -> u64 {
    if bytes.len() < LONG {
        return sum_short(bytes);
    }
    let (sum, rest) = sum_long(bytes);
    add_carry(sum, sum_short(rest))
}

/// From this length on a piece is summed in blocks. Headers are shorter.
const LONG: usize = 128;

/// Sums words of 64 bits one after the other, then a smaller word of each size.
#[inline]
fn sum_short(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks();
    let mut sum = 0u128;
    for word in words {
        sum = sum.wrapping_add(u128::from(u64::from_ne_bytes(*word)));
    }
    let (half, rest) = rest.as_chunks();
    if let [half] = half {
        sum = sum.wrapping_add(u128::from(u32::from_ne_bytes(*half)));
    }
    let (pair, rest) = rest.as_chunks();
    if let [pair] = pair {
        sum = sum.wrapping_add(u128::from(u16::from_ne_bytes(*pair)));
    }
    if let [last] = rest {
        sum = sum.wrapping_add(u128::from(u16::from_ne_bytes([*last, 0])));
    }
    fold128(sum)
}

/// Sums the whole blocks in vectors if this CPU has them, else by words; also returns the bytes behind them.
fn sum_long(bytes: &[u8]) -> (u64, &[u8]) {
    #[cfg(all(feature = "std", target_arch = "x86_64"))]
    {
        let (blocks, rest) = bytes.as_chunks();
        if let Some(sum) = wide::sum_blocks(blocks) {
            return (sum, rest);
        }
    }
    let (blocks, rest) = bytes.as_chunks();
    (sum_blocks(blocks), rest)
}

/// Four chains that do not wait for each other. Their carries go into upper halves, which no length
/// that a slice can have fills.
fn sum_blocks(blocks: &[[u8; 32]]) -> u64 {
    let mut lanes = [0u128; 4];
    for block in blocks {
        let (words, _) = block.as_chunks::<8>();
        for (lane, word) in lanes.iter_mut().zip(words) {
            *lane = lane.wrapping_add(u128::from(u64::from_ne_bytes(*word)));
        }
    }
    lanes
        .iter()
        .fold(0, |sum, lane| add_carry(sum, fold128(*lane)))
}

/// Adds with end-around carry: modulo 2^64 - 1, where only zeros add up to zero.
#[inline]
const fn add_carry(a: u64, b: u64) -> u64 {
    let (sum, carry) = a.overflowing_add(b);
    // After a carry the sum is at most 2^64 - 2, so the one more does not carry again.
    sum.wrapping_add(carry as u64)
}

#[inline]
const fn fold128(sum: u128) -> u64 {
    add_carry(sum as u64, (sum >> 64) as u64)
}

#[inline]
const fn fold64(sum: u64) -> u32 {
    let (sum, carry) = (sum as u32).overflowing_add((sum >> 32) as u32);
    sum.wrapping_add(carry as u32)
}

#[inline]
const fn fold32(sum: u32) -> u16 {
    let (sum, carry) = (sum as u16).overflowing_add((sum >> 16) as u16);
    sum.wrapping_add(carry as u16)
}

#[cfg(test)]
mod tests;
