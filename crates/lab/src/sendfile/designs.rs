//! The ways of holding records: page lists, of which one file each is in `extpgs`, and clusters that the file is read
//! into.
//!
//! Invariant: a turn of each design does the same: all records are built, queued in the same shuffled order, sent in
//! that order, and freed.

use super::sender::Sender;
use super::source::{BYTES, RECORD, RECORDS, Source, begin};
use crate::extpgs::design::Design;
use crate::extpgs::designs::bare::{Bare, Inline, Separate};
use crate::extpgs::designs::mbuma::Mbuma;
use crate::extpgs::phases::{ROW, shuffled};
use crate::harness::choice::Kind;
use crate::harness::sys;
use mbuf::{Blank, Chain, ClusterSize, MbufPool, PoolConfig};
use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::time::Duration;

/// A line of the list.
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    /// The name, in all output.
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// One line for `--list`.
    pub(crate) about: &'static str,
    pub(crate) make: fn(&Source) -> Box<dyn Subject + '_>,
}

/// The designs, ours first.
pub(crate) const CATALOG: &[Entry] = &[
    Entry {
        name: "mbuma",
        kind: Kind::Ours,
        about: "a page list in the mbuf, by the public interface",
        make: |source| Box::new(Paged::<Mbuma>::new(source)),
    },
    Entry {
        name: "inline",
        kind: Kind::Seed,
        about: "a bare mbuf with the list inside (FreeBSD from 2020 on)",
        make: |source| Box::new(Paged::<Bare<Inline>>::new(source)),
    },
    Entry {
        name: "separate",
        kind: Kind::Seed,
        about: "the same with the list in a record beside it (FreeBSD up to 2020)",
        make: |source| Box::new(Paged::<Bare<Separate>>::new(source)),
    },
    Entry {
        name: "clusters",
        kind: Kind::Ours,
        about: "clusters of 16 KiB that the file is read into, and encrypted in place",
        make: |source| Box::new(Filled::new(source)),
    },
];

/// A design behind a vtable: one call for a whole turn.
pub(crate) trait Subject {
    /// The thread's CPU time of a turn.
    fn turn(&mut self, sender: &mut Sender) -> Duration;
}

/// Records as lists of pages.
struct Paged<'a, D> {
    source: &'a Source,
    design: D,
    order: Vec<usize>,
}

impl<'a, D: Design> Paged<'a, D> {
    fn new(source: &'a Source) -> Self {
        Self {
            source,
            design: D::new(RECORDS),
            order: shuffled(RECORDS),
        }
    }
}

impl<D: Design> Subject for Paged<'_, D> {
    fn turn(&mut self, sender: &mut Sender) -> Duration {
        let before = sys::thread_time();
        let built = (0..RECORDS).map(|number| Some(self.design.build(&self.source.spec(number))));
        let mut built: Vec<Option<D::Record>> = built.collect();
        let rows = self.order.chunks(ROW).map(|numbers| {
            let mut row = D::Sndbuf::default();
            let records = numbers.iter().filter_map(|&number| built[number].take());
            records.for_each(|record| self.design.append(&mut row, record));
            row
        });
        let rows: Vec<D::Sndbuf> = rows.collect();
        for (row, numbers) in rows.iter().zip(self.order.chunks(ROW)) {
            black_box(self.design.walk(row));
            for &number in numbers {
                let header = self.source.spec(number).header;
                sender.take(self.source.record(number), header);
            }
        }
        rows.into_iter().for_each(|row| self.design.free(row));
        sys::thread_time().saturating_sub(before)
    }
}

/// Records in clusters.
struct Filled<'a> {
    source: &'a Source,
    pool: MbufPool,
    order: Vec<usize>,
}

impl<'a> Filled<'a> {
    fn new(source: &'a Source) -> Self {
        let pool = MbufPool::new(PoolConfig {
            mbufs_max: 4 * RECORDS,
            cluster_bytes_max: BYTES + ROW * ClusterSize::K16.bytes(),
        });
        Self {
            source,
            pool: pool.expect("there is address space"),
            order: shuffled(RECORDS),
        }
    }

    /// A cluster with the record's bytes, as the file has them.
    fn read(&self, number: usize) -> Blank {
        let room = Blank::new(&self.pool, ClusterSize::K16);
        let mut room = room.expect("the pool has room for all");
        let at = begin(number) as u64;
        let bytes = &mut room.bytes_mut()[..RECORD];
        let read = self.source.file().read_exact_at(bytes, at);
        read.expect("the file has it");
        room
    }

    /// The record between its header and its tag.
    fn sent(&self, number: usize, mut room: Blank, sender: &mut Sender) -> Chain {
        let header = self.source.spec(number).header;
        let tag = sender.take_in_place(&mut room.bytes_mut()[..RECORD], header);
        let small = |bytes: &[u8]| Chain::from_slice(&self.pool, bytes);
        let mut record = small(&header).expect("the pool has room for all");
        record.append(room.show(RECORD));
        record.append(small(&tag).expect("the pool has room for all"));
        record
    }
}

impl Subject for Filled<'_> {
    fn turn(&mut self, sender: &mut Sender) -> Duration {
        let before = sys::thread_time();
        let mut built: Vec<Option<Blank>> = (0..RECORDS).map(|n| Some(self.read(n))).collect();
        let mut rows = Vec::with_capacity(RECORDS / ROW);
        for numbers in self.order.chunks(ROW) {
            let mut row = Chain::new();
            for &number in numbers {
                let room = built[number].take().expect("each number is there once");
                row.append(self.sent(number, room, sender));
            }
            rows.push(row);
        }
        drop(rows);
        sys::thread_time().saturating_sub(before)
    }
}
