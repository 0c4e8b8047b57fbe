//! The TCP header.
//!
//! Invariants of a [`TcpView`]: `20 <= header_len <= 60` and all header bytes present. The caller must verify the
//! checksum, which covers the payload: it owns the chain and knows whether the device has verified it.
//! Locks: none.
//! Sources: RFC 9293 section 3.1, RFC 3168 section 6.1 (ECE, CWR), RFC 9768 section 3.2 (AE), RFC 6093 (urgent).
//!
//! ```text
//!   0       2       4           8           12  13  14      16      18      20 ..60
//!  +-------+-------+-----------+-----------+---+---+-------+-------+-------+--------+
//!  |src prt|dst prt|    seq    |    ack    |L,0|flg|window |cksum  |urgent |options |
//!  +-------+-------+-----------+-----------+---+---+-------+-------+-------+--------+
//!   L: header words of 4 bytes, in the upper four bits; the lowest of that byte is the flag AE
//! ```

mod acc_ecn;
mod options;
mod sack;

use core::ops::Deref;

use bitflags::bitflags;
use zerocopy::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

pub use self::acc_ecn::AccEcnOption;
pub use self::options::TcpOptions;
pub use self::sack::{SackBlock, SackBlocks};
use crate::{ParseError, SeqNum, emit};

bitflags! {
    /// The control bits of a segment.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct TcpFlags: u16 {
        /// The sender has no more to send.
        const FIN = 0x01;
        /// The sequence number is the initial one.
        const SYN = 0x02;
        /// The connection is aborted.
        const RST = 0x04;
        /// Deliver the data without waiting for more.
        const PSH = 0x08;
        /// The acknowledgment number counts.
        const ACK = 0x10;
        /// The urgent pointer counts.
        const URG = 0x20;
        /// Echo of congestion experienced.
        const ECE = 0x40;
        /// Congestion window reduced.
        const CWR = 0x80;
        /// Accurate ECN; with CWR and ECE the field ACE (RFC 9768).
        const AE = 0x100;
    }
}

/// The bit of the data offset's byte that is AE.
const AE_BIT: u8 = 0x01;

/// The fixed 20 bytes of a TCP header as they lie in the packet (RFC 9293 section 3.1).
#[doc(alias = "tcphdr")]
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct TcpHeader {
    src_port: U16,
    dst_port: U16,
    seq: U32,
    ack: U32,
    offset: u8,
    flags: u8,
    window: U16,
    checksum: U16,
    urgent: U16,
}

const _: () = assert!(size_of::<TcpHeader>() == TcpHeader::LEN);

impl TcpHeader {
    /// Bytes in a header without options.
    pub const LEN: usize = 20;
    /// Bytes in the longest header.
    pub const LEN_MAX: usize = 60;
    /// The offset of the checksum in the header, in bytes, for devices that fill it in.
    pub const CHECKSUM_OFFSET: usize = 16;

    /// The header, options included, at the front of `bytes`.
    ///
    /// # Errors
    /// [`ParseError::Truncated`] if `bytes` end before the header does, [`ParseError::BadHeaderLen`]
    /// for fewer than five words.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<TcpView<'_>, ParseError> {
        let (header, rest) =
            TcpHeader::ref_from_prefix(bytes).map_err(|_| ParseError::Truncated)?;
        let options_len = header
            .header_len()
            .checked_sub(TcpHeader::LEN)
            .ok_or(ParseError::BadHeaderLen)?;
        let option_bytes = rest.get(..options_len).ok_or(ParseError::Truncated)?;
        Ok(TcpView {
            header,
            option_bytes,
        })
    }

    /// The fixed part at the front of `bytes`, to be changed in place, as cutting a large segment does
    /// with the copies of its header.
    ///
    /// # Errors
    /// [`ParseError::Truncated`] for fewer than 20 bytes.
    pub fn parse_mut(bytes: &mut [u8]) -> Result<&mut TcpHeader, ParseError> {
        let (header, _) = TcpHeader::mut_from_prefix(bytes).map_err(|_| ParseError::Truncated)?;
        Ok(header)
    }

    /// Port of the sender.
    #[inline]
    pub const fn src_port(&self) -> u16 {
        self.src_port.get()
    }

    /// Port of the receiver.
    #[inline]
    pub const fn dst_port(&self) -> u16 {
        self.dst_port.get()
    }

    /// Number of the first byte of data, or of the SYN.
    #[doc(alias = "th_seq")]
    #[inline]
    pub const fn seq(&self) -> SeqNum {
        SeqNum(self.seq.get())
    }

    /// Number of the byte that the sender expects next, if [`TcpFlags::ACK`] is set.
    #[doc(alias = "th_ack")]
    #[inline]
    pub const fn ack(&self) -> SeqNum {
        SeqNum(self.ack.get())
    }

    /// Bytes of header, options included, as the header says.
    #[doc(alias = "th_off")]
    #[inline]
    pub const fn header_len(&self) -> usize {
        // Four bits, so at most 60.
        ((self.offset >> 4) as usize) << 2
    }

    /// The control bits.
    #[inline]
    pub const fn flags(&self) -> TcpFlags {
        let [high, low] = [self.offset & AE_BIT, self.flags];
        TcpFlags::from_bits_retain(u16::from_be_bytes([high, low]))
    }

    /// The window field: bytes before scaling.
    #[inline]
    pub const fn window(&self) -> u16 {
        self.window.get()
    }

    /// The checksum field.
    #[inline]
    pub const fn checksum(&self) -> u16 {
        self.checksum.get()
    }

    /// The urgent pointer, which counts if [`TcpFlags::URG`] is set.
    #[inline]
    pub const fn urgent(&self) -> u16 {
        self.urgent.get()
    }

    /// Sets the sequence number.
    pub fn set_seq(&mut self, seq: SeqNum) {
        self.seq = U32::new(seq.0);
    }

    /// Sets the control bits.
    pub fn set_flags(&mut self, flags: TcpFlags) {
        let [ae, low] = flags.bits().to_be_bytes();
        self.offset = self.offset & !AE_BIT | ae & AE_BIT;
        self.flags = low;
    }

    /// Sets the checksum field.
    pub fn set_checksum(&mut self, checksum: u16) {
        self.checksum = U16::new(checksum);
    }
}

/// A checked TCP header (RFC 9293 section 3.1): the fixed part, to which it dereferences, and the options.
#[derive(Clone, Copy, Debug)]
pub struct TcpView<'a> {
    header: &'a TcpHeader,
    option_bytes: &'a [u8],
}

impl<'a> TcpView<'a> {
    /// The options as bytes, 0 to 40, padding included.
    #[inline]
    pub const fn option_bytes(&self) -> &'a [u8] {
        self.option_bytes
    }

    /// The options that the stack knows. A malformed option ends the list; the options before it stay.
    #[inline]
    pub fn options(&self) -> TcpOptions {
        TcpOptions::parse(self.option_bytes)
    }
}

impl Deref for TcpView<'_> {
    type Target = TcpHeader;

    #[inline]
    fn deref(&self) -> &TcpHeader {
        self.header
    }
}

/// The fields of a TCP header (RFC 9293 section 3.1); [`TcpFields::emit`] adds the data offset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpFields {
    /// Port of the sender.
    pub src_port: u16,
    /// Port of the receiver.
    pub dst_port: u16,
    /// Number of the first byte of data, or of the SYN.
    pub seq: SeqNum,
    /// Number of the byte expected next.
    pub ack: SeqNum,
    /// The control bits.
    pub flags: TcpFlags,
    /// The window field, already scaled.
    pub window: u16,
    /// The urgent pointer; 0 where [`TcpFlags::URG`] is not set.
    pub urgent: u16,
    /// The options.
    pub options: TcpOptions,
}

impl TcpFields {
    /// Bytes that [`TcpFields::emit`] writes.
    #[inline]
    pub fn header_len(&self) -> usize {
        // 20 and at most 40; saturating only spares a panic path.
        TcpHeader::LEN.saturating_add(self.options.emitted_len())
    }

    /// Writes the header to the front of `out` and returns its length. The checksum field is zero: it
    /// covers the payload, and its offset is [`TcpHeader::CHECKSUM_OFFSET`].
    ///
    /// # Panics
    /// If `out` is shorter than [`TcpFields::header_len`].
    #[inline]
    pub fn emit(&self, out: &mut [u8]) -> usize {
        let (fixed, rest) = out.split_at_mut(TcpHeader::LEN);
        let options_len = self.options.emit(rest);
        let header_len = TcpHeader::LEN.saturating_add(options_len);
        let [ae, flags] = self.flags.bits().to_be_bytes();
        let header = TcpHeader {
            src_port: U16::new(self.src_port),
            dst_port: U16::new(self.dst_port),
            seq: U32::new(self.seq.0),
            ack: U32::new(self.ack.0),
            // At most 15 words: options emit at most 40 bytes.
            offset: ((header_len >> 2) as u8) << 4 | ae & AE_BIT,
            flags,
            window: U16::new(self.window),
            checksum: U16::ZERO,
            urgent: U16::new(self.urgent),
        };
        emit::put(fixed, header.as_bytes());
        header_len
    }
}

/// An option whose length is invalid for its kind.
struct Malformed;

#[cfg(test)]
mod tests;
