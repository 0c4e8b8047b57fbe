//! Random sequences of operations on chains of mapped and unmapped pieces, against vectors. Two
//! chains share their storage as the operations have it; after every step both are looked at by
//! their pieces, mapped, and copied from.

mod common;
#[path = "common/pages.rs"]
mod pages;

use common::{balanced, pattern, sized};
use mbuf::{Chain, ExtPgs, MbufPool, Mixed, PAGE_SIZE, PAGES_MAX, Packet};
use pages::{Drops, Shown, VecPages, check_mixed};
use proptest::prelude::*;

/// A chain beside what it must show.
type Item = (Chain<Mixed>, Vec<u8>);

#[derive(Debug, Clone)]
enum Op {
    /// Appends a record: header, first offset, bytes in pages, trailer.
    Record(Shown, usize, usize, usize, usize),
    /// Appends bytes in clusters or mbufs.
    Plain(usize),
    /// Appends bytes into the room that is there.
    Extend(usize),
    TakeFront(usize),
    TrimFront(usize),
    Truncate(usize),
    /// Shows a range in the other chain.
    Share(usize, usize),
    /// By way of a packet: a header before it, cut, taken off again.
    Packet(usize),
    /// In place of what it showed.
    Map,
    Swap,
    Drop,
}

fn op() -> impl Strategy<Value = Op> {
    let shown = prop::sample::select(vec![Shown::Never, Shown::Each, Shown::Whole, Shown::Even]);
    let offset = prop_oneof![Just(0), Just(PAGE_SIZE - 1), 0..PAGE_SIZE];
    let len = || prop_oneof![0usize..40, 4000usize..4200, 0usize..17_000];
    prop_oneof![
        4 => (shown, 0usize..25, offset, len(), 0usize..65)
            .prop_map(|(shown, header, off, len, trailer)| Op::Record(
                shown, header, off, len.min(PAGES_MAX * PAGE_SIZE - off), trailer
            )),
        1 => (0usize..5000).prop_map(Op::Plain),
        1 => (0usize..500).prop_map(Op::Extend),
        2 => len().prop_map(Op::TakeFront),
        2 => len().prop_map(Op::TrimFront),
        1 => len().prop_map(Op::Truncate),
        3 => (len(), len()).prop_map(|(off, len)| Op::Share(off, len)),
        1 => len().prop_map(Op::Packet),
        1 => Just(Op::Map),
        2 => Just(Op::Swap),
        1 => Just(Op::Drop),
    ]
}

struct World<'a> {
    pool: &'a MbufPool,
    this: Item,
    other: Item,
    sources: Vec<Drops>,
    seed: u8,
}

impl World<'_> {
    fn record(&mut self, shown: Shown, header: usize, off: usize, len: usize, trailer: usize) {
        let all = pattern(self.seed, (off + len).max(1));
        let (pages, drops) = VecPages::pages(all.clone(), shown);
        self.sources.push(drops);
        let mut record = ExtPgs::new(self.pool, pages, off as u64, len).expect("it fits");
        let (header, trailer) = (pattern(!self.seed, header), pattern(self.seed, trailer));
        record.set_header(&header).expect("it fits");
        record.set_trailer(&trailer).expect("it fits");
        self.this.0.append(record.into_chain());
        let bytes = [&header, &all[off..off + len], &trailer].concat();
        self.this.1.extend(bytes);
    }

    fn step(&mut self, op: &Op) {
        self.seed = self.seed.wrapping_add(1);
        let pool = self.pool;
        let more = |n: usize| pattern(self.seed, n);
        let (chain, bytes) = &mut self.this;
        match *op {
            Op::Record(shown, header, off, len, trailer) => {
                self.record(shown, header, off, len, trailer);
            }
            Op::Plain(n) => {
                let plain = Chain::from_slice(pool, &more(n)).expect("the pool is large");
                chain.append(plain.into());
                bytes.extend(more(n));
            }
            Op::Extend(n) => {
                chain
                    .extend_from_slice(pool, &more(n))
                    .expect("the pool is large");
                bytes.extend(more(n));
            }
            Op::TakeFront(n) => {
                let front = chain.take_front(n).expect("the pool is large");
                let n = n.min(bytes.len());
                self.other = (front, bytes.drain(..n).collect());
            }
            Op::TrimFront(n) => {
                chain.trim_front(n);
                bytes.drain(..n.min(bytes.len()));
            }
            Op::Truncate(n) => {
                chain.truncate(n);
                bytes.truncate(n);
            }
            Op::Share(off, len) => {
                let off = off.min(bytes.len());
                let len = len.min(bytes.len() - off);
                let part = chain.share(off, len).expect("the pool is large");
                self.other.0.append(part);
                self.other.1.extend(&bytes[off..off + len]);
            }
            Op::Packet(n) => {
                let payload = std::mem::take(chain);
                let mut packet = Packet::before_chain(pool, payload).expect("it is large");
                packet
                    .prepend(20)
                    .expect("it is large")
                    .copy_from_slice(&more(20));
                bytes.splice(..0, more(20));
                packet.truncate(n);
                bytes.truncate(n);
                assert!(packet.is_valid());
                let seen = packet.map(pool).expect("the pool is large");
                assert!(seen.is_valid() && seen.to_vec() == *bytes);
                *chain = packet.into_chain();
            }
            Op::Map => *chain = chain.map(pool).expect("the pool is large").into(),
            Op::Swap => std::mem::swap(&mut self.this, &mut self.other),
            Op::Drop => self.this = Item::default(),
        }
    }

    fn check(&mut self) {
        for (chain, bytes) in [&mut self.this, &mut self.other] {
            check_mixed(self.pool, chain, bytes);
            let (off, len) = (bytes.len() / 3, bytes.len() / 2);
            let mut part = vec![0; len];
            chain.copy_to(off, &mut part).expect("they are there");
            assert!(part == bytes[off..off + len]);
        }
        assert!(self.sources.iter().all(|drops| drops.count() <= 1));
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(sized(300, 3) as u32)
    })]

    #[test]
    fn mixed_chains_agree_with_vectors(ops in prop::collection::vec(op(), 1..sized(40, 8))) {
        // Breaks if any operation shows a wrong byte, counts a page list wrong, loses a reference
        // to a source or drops it twice.
        balanced(|pool| {
            let mut world = World {
                pool,
                this: Item::default(),
                other: Item::default(),
                sources: Vec::new(),
                seed: 0,
            };
            for op in &ops {
                world.step(op);
                world.check();
            }
            let World {
                this,
                other,
                sources,
                ..
            } = world;
            drop((this, other));
            assert!(sources.iter().all(|drops| drops.count() == 1));
        });
    }
}
