//! Items of every shape: bytes inside, in clusters of every size, lent, in pages that may be mapped
//! or not; with room before them and without.

use std::sync::Arc;

use bytes::Bytes;
use mbuf::{
    Chain, ClusterSize, ExtPgs, MHLEN, MLEN, OwnedPages, PAGE_SIZE, PAGES_MAX, Packet, Pages,
    RECORD_HEADER_MAX, RECORD_TRAILER_MAX, RecordTooLong,
};

use crate::draw::{Draw, bytes};
use crate::model::{Framed, Item, Model};
use crate::ops::{Op, What};
use crate::pages::{Shown, VecPages};
use crate::world::{Done, World};

/// Lends bytes, and says when it is dropped.
struct Lender(Vec<u8>, #[expect(dead_code, reason = "counted")] Arc<()>);

impl AsRef<[u8]> for Lender {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// Room before the bytes.
fn lead(bits: u64) -> usize {
    let mut draw = Draw::new(bits);
    match draw.below(4) {
        0 | 1 => 0,
        2 => draw.below(300),
        _ => draw.of(&[1, 8, MHLEN - 1, MHLEN, 2048, 20_000]),
    }
}

impl World {
    pub(crate) fn make(&mut self, op: &Op) -> Done {
        let content = bytes(op.bits, op.n);
        let pool = &self.pool;
        match op.what {
            What::MakePacket => {
                let packet = Packet::from_slice(pool, &content, lead(op.bits))?;
                self.add(Item::Packet(packet), Model::of(content));
            }
            What::MakeEmpty => {
                let mut packet = Packet::new(pool)?;
                assert_eq!(packet.leading_space(), MHLEN);
                let n = op.n.min(MHLEN);
                packet.prepend(n)?.copy_from_slice(&content[..n]);
                assert_eq!(packet.segments().count(), usize::from(n > 0));
                self.add(Item::Packet(packet), Model::of(content[..n].to_vec()));
            }
            What::MakeCluster => {
                let size = ClusterSize::ALL[op.bits as usize % 4];
                let lead = lead(!op.bits);
                let mut packet = Packet::with_cluster(pool, size, lead)?;
                assert_eq!(packet.leading_space(), lead.min(size.bytes()));
                packet.append(pool, &content)?;
                self.add(Item::Packet(packet), Model::of(content));
            }
            What::MakeChain => {
                let chain = Chain::from_slice(pool, &content)?;
                self.add(Item::Chain(chain), Model::of(content));
            }
            What::MakeLent => {
                let lender = Lender(content.clone(), self.token.clone());
                let chain = Chain::from_owner(pool, lender)?;
                self.add(Item::Chain(chain), Model::lent(content));
            }
            What::MakeVec => {
                let mut vec = Vec::with_capacity(op.n + lead(op.bits));
                vec.extend_from_slice(&content);
                let chain = Chain::try_from((pool, vec))?;
                self.add(Item::Chain(chain), Model::lent(content));
            }
            What::MakeBytes => self.make_bytes(op, content)?,
            What::MakeSplinters => self.make_splinters(op)?,
            What::MakeRecord | What::MakeList => self.make_record(op)?,
            What::MakeOwned => self.make_owned(op, content)?,
            _ => self.make_pages(op)?,
        }
        Ok(())
    }

    /// Of `Bytes`: perhaps those that show mbufs.
    fn make_bytes(&mut self, op: &Op, content: Vec<u8>) -> Done {
        let (bytes, content) = match self.held.len() {
            0 => (Bytes::from(content.clone()), content),
            held => self.held[op.other % held].clone(),
        };
        let copied = content.len() <= MLEN;
        let chain = Chain::try_from((&self.pool, bytes))?;
        let model = match copied {
            true => Model::of(content),
            false => Model::lent(content),
        };
        self.add(Item::Chain(chain), model);
        Ok(())
    }

    /// Mbufs of a few bytes each, or of none.
    fn make_splinters(&mut self, op: &Op) -> Done {
        let (each, count) = (op.n % 4, op.other % 12);
        let content = bytes(op.bits, each * count);
        let mut chain = Chain::new();
        for i in 0..count {
            let piece = match each {
                0 => Packet::new(&self.pool)?.into_chain(),
                _ => Chain::from_slice(&self.pool, &content[i * each..][..each])?,
            };
            chain.append(piece);
        }
        assert_eq!(chain.mbufs(), count);
        self.add(Item::Chain(chain), Model::of(content));
        Ok(())
    }

    /// Pages with these bytes, of which some are shown in memory.
    fn source(&mut self, content: Vec<u8>, bits: u64) -> Pages {
        let shown = [Shown::Never, Shown::Each, Shown::Whole, Shown::Even][bits as usize % 4];
        let (pages, drops) = VecPages::pages(content, shown);
        self.sources.push(drops);
        pages
    }

    /// A record whose pages follow each other, or in the order of a list.
    fn make_record(&mut self, op: &Op) -> Done {
        let mut draw = Draw::new(op.bits);
        let inside = draw.below(PAGE_SIZE);
        let off = draw.of(&[0, 0, 1, PAGE_SIZE - 1, inside]);
        let len = op.n.min(PAGES_MAX * PAGE_SIZE - off);
        let count = if len == 0 {
            0
        } else {
            (off + len).div_ceil(PAGE_SIZE)
        };
        let all = bytes(op.bits, PAGE_SIZE * count.max(1));
        let pages = self.source(all.clone(), op.bits);
        if op.what == What::MakeRecord {
            let record = ExtPgs::new(&self.pool, pages, off as u64, len)?;
            self.frame(&mut draw, record, all[off..off + len].to_vec());
            return Ok(());
        }
        let mut list: Vec<_> = (0..count as u64).collect();
        for i in 1..count {
            list.swap(i, draw.below(i + 1));
        }
        let in_order = list
            .iter()
            .flat_map(|&page| &all[page as usize * PAGE_SIZE..][..PAGE_SIZE]);
        let shown = in_order.skip(off).take(len).copied().collect();
        let record = ExtPgs::of_list(&self.pool, pages, &list, off, len)?;
        self.frame(&mut draw, record, shown);
        Ok(())
    }

    /// A record in the pool's own pages.
    fn make_owned(&mut self, op: &Op, content: Vec<u8>) -> Done {
        let mut draw = Draw::new(op.bits);
        let count = content.len().div_ceil(PAGE_SIZE);
        let mut pages = OwnedPages::new(&self.pool, count)?;
        assert_eq!(pages.capacity(), count * PAGE_SIZE);
        // In two parts, the second over some of the first.
        let middle = draw.below(content.len() + 1);
        assert_eq!(pages.write_at(0, &content), Ok(()));
        assert_eq!(pages.write_at(middle, &content[middle..]), Ok(()));
        assert!(pages.write_at(1, &vec![0; count * PAGE_SIZE]).is_err());
        let record = ExtPgs::new(&self.pool, pages.into(), 0, content.len())?;
        self.frame(&mut draw, record, content);
        Ok(())
    }

    /// Gives a record a number, a header and a trailer.
    fn frame(&mut self, draw: &mut Draw, mut record: ExtPgs, pages: Vec<u8>) {
        let header = bytes(draw.next(), draw.below(RECORD_HEADER_MAX + 1));
        let trailer = bytes(draw.next(), draw.below(RECORD_TRAILER_MAX + 1));
        let seqno = self.records.len();
        record.set_seqno(seqno as u64);
        record.set_record_type(seqno as u8);
        assert_eq!(record.set_header(&header), Ok(()));
        assert_eq!(
            record.set_header(&[0; RECORD_HEADER_MAX + 1]),
            Err(RecordTooLong)
        );
        match draw.one_in(2) {
            true => assert_eq!(record.set_trailer(&trailer), Ok(())),
            false => {
                let place = record.reserve_trailer(trailer.len());
                assert_eq!(place.map(|place| place.fill(1)), Ok(()));
                record.trailer_mut().copy_from_slice(&trailer);
            }
        }
        let content = [header.as_slice(), &pages, &trailer].concat();
        self.records.push(Framed {
            header,
            trailer,
            pages_len: pages.len(),
        });
        self.add(Item::MixedChain(record.into_chain()), Model::lent(content));
    }

    /// As many mbufs as the bytes of a source need.
    fn make_pages(&mut self, op: &Op) -> Done {
        let mut draw = Draw::new(op.bits);
        let off = draw.below(2 * PAGE_SIZE);
        let len = op.n + draw.of(&[0, 0, PAGES_MAX * PAGE_SIZE]);
        let all = bytes(op.bits, off + len);
        let pages = self.source(all.clone(), op.bits);
        let chain = Chain::from_pages(&self.pool, &pages, off as u64, len)?;
        self.add(Item::MixedChain(chain), Model::lent(all[off..].to_vec()));
        Ok(())
    }
}
