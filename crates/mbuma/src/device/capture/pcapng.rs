//! The blocks of a pcapng file as bytes: a section, its one interface, and packets.
//!
//! ```text
//!   type | total length | fields | options | total length      all of it in words of four bytes
//! ```
//!
//! Invariants: after each function `bytes` ends with a whole block. Locks: none.
//! Sources: draft-ietf-opsawg-pcapng, sections 3.1, 3.5, 4.1 to 4.3.

use std::time::Duration;

/// Types of blocks.
const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const ENHANCED_PACKET: u32 = 6;
/// A reader knows the order of bytes by it.
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
/// The length of a section that ends with the file.
const LENGTH_UNKNOWN: u64 = u64::MAX;
/// Codes of options.
const END_OF_OPTIONS: u16 = 0;
const IF_NAME: u16 = 2;
const IF_TSRESOL: u16 = 9;
const EPB_FLAGS: u16 = 2;
/// Timestamps count nanoseconds: 10 to the minus ninth seconds.
const NANOSECONDS: u8 = 9;

/// A block at the end of `bytes`, of which the length is not known yet.
struct OpenBlock<'a> {
    bytes: &'a mut Vec<u8>,
    start: usize,
}

impl OpenBlock<'_> {
    fn new(bytes: &mut Vec<u8>, kind: u32) -> OpenBlock<'_> {
        let start = bytes.len();
        let mut block = OpenBlock { bytes, start };
        block.put(kind);
        block.put(0); // the length
        block
    }

    fn put(&mut self, word: u32) {
        self.bytes.extend(word.to_le_bytes());
    }

    fn put_pair(&mut self, first: u16, second: u16) {
        self.bytes.extend(first.to_le_bytes());
        self.bytes.extend(second.to_le_bytes());
    }

    fn pad(&mut self) {
        let len = (self.bytes.len() - self.start).next_multiple_of(4);
        self.bytes.resize(self.start + len, 0);
    }

    fn option(&mut self, code: u16, value: &[u8]) {
        self.put_pair(code, value.len() as u16);
        self.bytes.extend(value);
        self.pad();
    }

    /// Ends a block that has options.
    fn end_options(mut self) {
        self.put_pair(END_OF_OPTIONS, 0);
        self.end();
    }

    fn end(mut self) {
        let total = (self.bytes.len() - self.start + 4) as u32;
        self.put(total);
        self.bytes[self.start + 4..][..4].copy_from_slice(&total.to_le_bytes());
    }
}

/// Begins a file about the interface `name`, whose link type has this number; packets are whole.
pub(super) fn put_header(bytes: &mut Vec<u8>, link_type: u16, name: &str) {
    let mut section = OpenBlock::new(bytes, SECTION_HEADER);
    section.put(BYTE_ORDER_MAGIC);
    section.put_pair(1, 0); // the format's version
    section.bytes.extend(LENGTH_UNKNOWN.to_le_bytes());
    section.end();
    let mut interface = OpenBlock::new(bytes, INTERFACE_DESCRIPTION);
    interface.put_pair(link_type, 0);
    interface.put(0); // no limit of a packet's length
    let name = name.as_bytes();
    interface.option(IF_NAME, &name[..name.len().min(usize::from(u16::MAX))]);
    interface.option(IF_TSRESOL, &[NANOSECONDS]);
    interface.end_options();
}

/// Appends a packet of these pieces, seen at `stamp` since 1970.
pub(super) fn put_packet<'a>(
    bytes: &mut Vec<u8>,
    stamp: Duration,
    flags: u32,
    pieces: impl Iterator<Item = &'a [u8]>,
) {
    let mut packet = OpenBlock::new(bytes, ENHANCED_PACKET);
    let stamp = stamp.as_nanos() as u64;
    packet.put(0); // the interface
    packet.put((stamp >> 32) as u32);
    packet.put(stamp as u32);
    let lengths = packet.bytes.len();
    packet.put(0); // the length in the file, and that on the wire
    packet.put(0);
    let data = packet.bytes.len();
    pieces.for_each(|piece| packet.bytes.extend_from_slice(piece));
    let len = ((packet.bytes.len() - data) as u32).to_le_bytes();
    packet.bytes[lengths..data].copy_from_slice(&[len, len].concat());
    packet.pad();
    packet.option(EPB_FLAGS, &flags.to_le_bytes());
    packet.end_options();
}
