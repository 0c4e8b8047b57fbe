//! One item, its model, and the comparison of the two.

use std::sync::Arc;

use mbuf::{Chain, Csum, Mixed, Packet, Piece, PktHdr, Storage};

use crate::draw::Draw;

/// The kinds of items that operations take.
#[derive(Debug)]
pub(crate) enum Item {
    Packet(Packet),
    Chain(Chain),
    MixedPacket(Packet<Mixed>),
    MixedChain(Chain<Mixed>),
}

/// The same for an item of any type.
macro_rules! on {
    ($item:expr, $x:ident => $what:expr) => {
        match $item {
            Item::Packet($x) => $what,
            Item::Chain($x) => $what,
            Item::MixedPacket($x) => $what,
            Item::MixedChain($x) => $what,
        }
    };
}
/// The same for those whose bytes can be looked at; the others are passed over.
macro_rules! on_mapped {
    ($item:expr, $x:ident => $what:expr) => {
        match $item {
            Item::Packet($x) => $what,
            Item::Chain($x) => $what,
            Item::MixedPacket(_) | Item::MixedChain(_) => {}
        }
    };
}
/// The same for packets; chains are passed over.
macro_rules! on_packet {
    ($item:expr, $x:ident => $what:expr) => {
        match $item {
            Item::Packet($x) => $what,
            Item::MixedPacket($x) => $what,
            Item::Chain(_) | Item::MixedChain(_) => {}
        }
    };
}
pub(crate) use {on, on_mapped, on_packet};

/// Tags of three kinds: small, as large and aligned as can be, and one that has to be dropped.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Small(pub(crate) u16);
#[derive(Debug, Clone, Copy, PartialEq)]
#[repr(align(16))]
pub(crate) struct Wide(pub(crate) [u64; 6]);
#[derive(Debug, Clone)]
pub(crate) struct Counted(
    pub(crate) u8,
    #[expect(dead_code, reason = "counted")] pub(crate) Arc<()>,
);

#[derive(Debug, Clone, Default)]
pub(crate) struct Tags {
    pub(crate) small: Option<Small>,
    pub(crate) wide: Option<Wide>,
    pub(crate) counted: Option<u8>,
}

/// The model of an item.
#[derive(Debug, Clone, Default)]
pub(crate) struct Model {
    pub(crate) bytes: Vec<u8>,
    /// Of packets.
    pub(crate) hdr: PktHdr,
    pub(crate) tags: Tags,
    /// Some of its storage may be shared or lent: only then may a write be refused.
    pub(crate) shared: bool,
    /// Some may be lent: only then may `zeroize` say that it is not all.
    pub(crate) lent: bool,
}

impl Model {
    pub(crate) fn of(bytes: Vec<u8>) -> Self {
        Self {
            bytes,
            ..Self::default()
        }
    }

    /// Of lent storage.
    pub(crate) fn lent(bytes: Vec<u8>) -> Self {
        Self {
            bytes,
            shared: true,
            lent: true,
            ..Self::default()
        }
    }

    /// Of other bytes in storage that is from now on shared with those of this one.
    pub(crate) fn sharing(&mut self, bytes: Vec<u8>) -> Self {
        self.shared = true;
        Self {
            bytes,
            shared: true,
            lent: self.lent,
            ..Self::default()
        }
    }

    /// The packet header was taken off.
    pub(crate) fn lose_header(&mut self) {
        self.hdr = PktHdr::default();
        self.tags = Tags::default();
    }
}

/// A packet header with a value in every field.
pub(crate) fn header(bits: u64) -> PktHdr {
    let mut draw = Draw::new(bits);
    PktHdr {
        stamp_ns: draw.next(),
        flow: draw.next() as u32,
        iface: draw.next() as u32,
        tso_segsz: draw.next() as u16,
        csum: Csum::from_bits_truncate(draw.next() as u8),
        l2_len: 14,
        l3_len: draw.next() as u8,
        l4_len: draw.next() as u8,
        ..PktHdr::default()
    }
}

/// The bytes around the pages of a record, and the record's number. Number 0 is that of records without one.
#[derive(Default)]
pub(crate) struct Framed {
    pub(crate) header: Vec<u8>,
    pub(crate) trailer: Vec<u8>,
    pub(crate) pages_len: usize,
}

impl Item {
    pub(crate) fn is_packet(&self) -> bool {
        matches!(self, Self::Packet(_) | Self::MixedPacket(_))
    }

    pub(crate) fn is_mapped(&self) -> bool {
        matches!(self, Self::Packet(_) | Self::Chain(_))
    }

    /// The places where pieces end.
    pub(crate) fn seams(&self) -> Vec<usize> {
        let ends = |lens: &mut dyn Iterator<Item = usize>| {
            lens.scan(0, |end, len| {
                *end += len;
                Some(*end)
            })
            .collect()
        };
        match self {
            Self::Packet(p) => ends(&mut p.segments().map(<[u8]>::len)),
            Self::Chain(c) => ends(&mut c.segments().map(<[u8]>::len)),
            Self::MixedPacket(p) => ends(&mut p.pieces().map(|piece| piece.len())),
            Self::MixedChain(c) => ends(&mut c.pieces().map(|piece| piece.len())),
        }
    }

    /// Whether it is like its model, by every way of looking that changes nothing.
    pub(crate) fn check(&self, model: &Model, records: &[Framed]) {
        let bytes = model.bytes.as_slice();
        on!(self, x => {
            assert!(x.is_valid(), "not valid: {x:?}");
            assert_eq!((x.len(), x.is_empty()), (bytes.len(), bytes.is_empty()));
        });
        match self {
            Self::Packet(p) => same(p.segments(), bytes),
            Self::Chain(c) => same(c.segments(), bytes),
            Self::MixedPacket(p) => same_pieces(p.pieces(), bytes),
            Self::MixedChain(c) => {
                same_pieces(c.pieces(), bytes);
                check_records(c, records);
            }
        }
        on_packet!(self, packet => check_header(packet, model));
    }
}

fn check_header<S: Storage>(packet: &Packet<S>, model: &Model) {
    assert_eq!(packet.header(), &model.hdr, "the header went astray");
    assert_eq!(packet.tag(), model.tags.small.as_ref());
    assert_eq!(packet.tag(), model.tags.wide.as_ref());
    let counted = packet.tag::<Counted>().map(|tag| tag.0);
    assert_eq!(counted, model.tags.counted);
    assert!(model.bytes.starts_with(packet.front()));
}

/// Pieces that are not empty, and together `bytes`.
pub(crate) fn same<'a>(pieces: impl Iterator<Item = &'a [u8]>, bytes: &[u8]) {
    let mut rest = bytes;
    for piece in pieces {
        assert!(!piece.is_empty(), "an empty piece");
        let at = bytes.len() - rest.len();
        rest = rest
            .strip_prefix(piece)
            .unwrap_or_else(|| panic!("a wrong byte in the {} from {at} on", piece.len()));
    }
    assert!(rest.is_empty(), "{} bytes are missing", rest.len());
}

/// The same by pieces, some of which have to be read.
pub(crate) fn same_pieces<'a>(pieces: impl Iterator<Item = Piece<'a>>, bytes: &[u8]) {
    let mut rest = bytes;
    let mut seen = Vec::new();
    for piece in pieces {
        assert!(!piece.is_empty(), "an empty piece");
        seen.resize(piece.len(), 0);
        piece.copy_to(&mut seen).expect("the pages are there");
        let at = bytes.len() - rest.len();
        rest = rest
            .strip_prefix(seen.as_slice())
            .unwrap_or_else(|| panic!("a wrong byte in the {} from {at} on", piece.len()));
    }
    assert!(rest.is_empty(), "{} bytes are missing", rest.len());
}

fn check_records(chain: &Chain<Mixed>, records: &[Framed]) {
    for record in chain.records() {
        let made = &records[record.seqno() as usize];
        assert_eq!(
            (record.header(), record.trailer()),
            (&*made.header, &*made.trailer)
        );
        if record.seqno() == 0 {
            continue;
        }
        assert_eq!(record.record_type(), record.seqno() as u8);
        assert_eq!(record.pages_len(), made.pages_len);
        assert_eq!(
            record.runs().map(|run| run.len).sum::<usize>(),
            made.pages_len
        );
        let len = made.header.len() + made.pages_len + made.trailer.len();
        assert_eq!((record.len(), record.is_empty()), (len, len == 0));
        assert!(chain.len() >= len || !record.is_whole());
    }
}
