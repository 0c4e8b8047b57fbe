//! A trace from a capture that the user names: pcap or pcapng, of Ethernet, cooked or bare IP packets.
//!
//! Only lengths are taken, and those that the packets had on the wire: a capture of the first 96 bytes of each is as
//! good as a whole one. Records are therefore read raw: pcap-file's interpreted ones refuse packets that are longer
//! than the snapshot length, and a whole pcapng file for a block of names that it cannot read.
//!
//! Invariant: no file, however damaged, does more than end in an [`Error`] that names it.
//! Sources: draft-ietf-opsawg-pcap, draft-ietf-opsawg-pcapng section 4, the registry of link types.

use super::trace::{ETHER_HEADER, Frame, Trace};
use crate::Error;
use pcap_file::pcap::PcapReader;
use pcap_file::pcapng::{PcapNgReader, RawBlock};
use pcap_file::{DataLink, Endianness, PcapError};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The longest packet that is believed: above the largest segment that any offload makes (512 KiB).
const PACKET_MAX: u32 = 1 << 20;

/// The magic numbers of pcap: microseconds and nanoseconds, in either byte order.
const PCAP_MAGICS: [[u8; 4]; 4] = [
    [0xa1, 0xb2, 0xc3, 0xd4],
    [0xd4, 0xc3, 0xb2, 0xa1],
    [0xa1, 0xb2, 0x3c, 0x4d],
    [0x4d, 0x3c, 0xb2, 0xa1],
];
/// The type of the block that every pcapng file begins with; it reads the same in either byte order.
const PCAPNG_MAGIC: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

/// Types of pcapng blocks that hold packets.
const PACKET_BLOCK: u32 = 2;
const SIMPLE_PACKET_BLOCK: u32 = 3;
const ENHANCED_PACKET_BLOCK: u32 = 6;

/// Reads the file at `path`.
///
/// # Errors
/// [`Error::Io`] if it cannot be read; [`Error::Bad`] if it is no capture, is damaged or cut off, holds no packet, or
/// packets of a link type that this does not know.
pub(super) fn read(path: &Path) -> Result<Trace, Error> {
    let file = File::open(path).map_err(|source| Error::Io {
        doing: format!("opening {}", path.display()),
        source,
    })?;
    let mut frames = Vec::new();
    match read_frames(file, &mut frames) {
        Ok(()) if frames.is_empty() => Err(bad(path, "it holds no packets".to_owned())),
        Ok(()) => Ok(Trace {
            source: path.display().to_string(),
            frames,
        }),
        Err(Broken::Io(source)) => Err(Error::Io {
            doing: format!("reading {}", path.display()),
            source,
        }),
        Err(Broken::Text(why)) if frames.is_empty() => Err(bad(path, why)),
        Err(Broken::Text(why)) => Err(bad(path, format!("after packet {}: {why}", frames.len()))),
    }
}

fn bad(path: &Path, why: String) -> Error {
    Error::Bad(format!("{}: {why}", path.display()))
}

/// Why the frames ended before the file did.
enum Broken {
    Io(io::Error),
    Text(String),
}

impl From<PcapError> for Broken {
    fn from(error: PcapError) -> Self {
        match error {
            PcapError::IoError(error) if error.kind() != io::ErrorKind::UnexpectedEof => {
                Self::Io(error)
            }
            PcapError::IoError(_) | PcapError::IncompleteBuffer => {
                Self::Text("the file ends in the middle of a record".to_owned())
            }
            damaged => Self::Text(format!("the file is damaged: {damaged}")),
        }
    }
}

/// Frames read before an error are in `frames`.
fn read_frames(mut file: impl Read, frames: &mut Vec<Frame>) -> Result<(), Broken> {
    let mut magic = [0; 4];
    file.read_exact(&mut magic)
        .map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => Broken::Text("too short for a capture".to_owned()),
            _ => Broken::Io(error),
        })?;
    let whole = magic.chain(file);
    match magic {
        PCAPNG_MAGIC => read_pcapng(whole, frames),
        _ if PCAP_MAGICS.contains(&magic) => read_pcap(whole, frames),
        _ => Err(Broken::Text("it is neither pcap nor pcapng".to_owned())),
    }
}

fn read_pcap(file: impl Read, frames: &mut Vec<Frame>) -> Result<(), Broken> {
    let mut reader = PcapReader::new(file)?;
    let link = link_header(reader.header().datalink)?;
    while let Some(packet) = reader.next_raw_packet() {
        let packet = packet?;
        frames.push(frame(packet.incl_len, packet.orig_len, link)?);
    }
    Ok(())
}

fn read_pcapng(file: impl Read, frames: &mut Vec<Frame>) -> Result<(), Broken> {
    let mut reader = PcapNgReader::new(file)?;
    while let Some(block) = reader.next_raw_block() {
        let body = Body::of(&block?);
        let big = reader.section().endianness == Endianness::Big;
        let Some(record) = body.record(big)? else {
            continue;
        };
        let interfaces = reader.interfaces();
        let interface = interfaces.get(record.interface as usize).ok_or_else(|| {
            Broken::Text(format!("there is no interface number {}", record.interface))
        })?;
        let link = link_header(interface.linktype)?;
        frames.push(frame(record.captured, record.original, link)?);
    }
    Ok(())
}

/// The beginning of a block: the bytes that are parsed, copied so that the reader may be called meanwhile.
struct Body {
    kind: u32,
    /// Bytes of the whole body.
    len: usize,
    start: [u8; START],
}

/// Bytes before the data of the block types that have most.
const START: usize = 20;

/// The fields of a packet's block.
struct Record {
    interface: u32,
    captured: u32,
    original: u32,
}

impl Body {
    fn of(block: &RawBlock<'_>) -> Self {
        let len = block.body.len();
        let mut start = [0; START];
        let n = len.min(START);
        start[..n].copy_from_slice(&block.body[..n]);
        Self {
            kind: block.type_,
            len,
            start,
        }
    }

    /// None if it is no packet's.
    fn record(&self, big: bool) -> Result<Option<Record>, Broken> {
        let least = match self.kind {
            ENHANCED_PACKET_BLOCK | PACKET_BLOCK => START,
            SIMPLE_PACKET_BLOCK => 4,
            _ => return Ok(None),
        };
        if self.len < least {
            return Err(Broken::Text(
                "the file is damaged: a packet's block is too short".to_owned(),
            ));
        }
        Ok(Some(match self.kind {
            // The block has neither field: it is of the first interface, and the captured bytes fill the block.
            SIMPLE_PACKET_BLOCK => Record {
                interface: 0,
                captured: 0,
                original: self.word(0, big),
            },
            // The obsolete block has the interface in 16 bits, and a count of drops behind it.
            PACKET_BLOCK => Record {
                interface: u32::from(self.half(0, big)),
                captured: self.word(12, big),
                original: self.word(16, big),
            },
            _ => Record {
                interface: self.word(0, big),
                captured: self.word(12, big),
                original: self.word(16, big),
            },
        }))
    }

    fn word(&self, at: usize, big: bool) -> u32 {
        let bytes = [0, 1, 2, 3].map(|i| self.start[at + i]);
        match big {
            true => u32::from_be_bytes(bytes),
            false => u32::from_le_bytes(bytes),
        }
    }

    fn half(&self, at: usize, big: bool) -> u16 {
        let bytes = [0, 1].map(|i| self.start[at + i]);
        match big {
            true => u16::from_be_bytes(bytes),
            false => u16::from_le_bytes(bytes),
        }
    }
}

/// As long as the packet was on the wire. Some programs that cut or make up packets write a length there that is less
/// than the captured bytes; the captured bytes count.
fn frame(captured: u32, original: u32, link: u8) -> Result<Frame, Broken> {
    let len = original.max(captured);
    match len <= PACKET_MAX {
        true => Ok(Frame { len, link }),
        false => Err(Broken::Text(format!(
            "the file is damaged: a packet of {len} bytes"
        ))),
    }
}

/// Bytes that come before the IP header.
fn link_header(of: DataLink) -> Result<u8, Broken> {
    match of {
        DataLink::ETHERNET => Ok(ETHER_HEADER),
        DataLink::RAW | DataLink::IPV4 | DataLink::IPV6 => Ok(0),
        // The link type of `tcpdump -i any`.
        DataLink::LINUX_SLL => Ok(16),
        DataLink::LINUX_SLL2 => Ok(20),
        other => Err(Broken::Text(format!(
            "link type {} is neither Ethernet, nor Linux's cooked one, nor bare IP",
            u32::from(other)
        ))),
    }
}
