//! Items, a queue and the bytes that were handed out, each beside its model, and the step that
//! changes both.
//!
//! The operations are in `make.rs` (new items), `change.rs` (one item), `header.rs` (a packet's
//! header), `moves.rs` (several items), `convert.rs` (one type to another) and `look.rs` (reads).
//! This file has the rules for all: after every step every item is compared, so that a write into
//! shared storage is found at once; an operation that found no buffers has changed nothing and taken
//! none; with enough buffers it does not fail.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use mbuf::{ClusterSize, ExtPgsError, Live, MapError, MbufPool, Mbufq, Mixed, NoBufs, Scatter};

use crate::model::{Framed, Item, Model, on};
use crate::ops::{Limits, Op, What};
use crate::pages::Drops;

/// Bytes of the largest cluster: more can't be contiguous.
pub(crate) const LARGEST: usize = ClusterSize::K16.bytes();
/// Items at a time, and bytes of one: small, so that sequences are fast.
const ITEMS_MAX: usize = 10;
const LEN_MAX: usize = 40_000;

/// The reason why an operation failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failed {
    /// No buffers: nothing has changed.
    Unchanged,
    /// No buffers: its item is freed, or a part of the operation was done, as its documentation says.
    Changed,
    /// No storage is as large as that, so that it fails in any pool.
    TooLarge,
}

pub(crate) type Done = Result<(), Failed>;

impl From<NoBufs> for Failed {
    fn from(_: NoBufs) -> Self {
        Self::Unchanged
    }
}

impl From<ExtPgsError> for Failed {
    fn from(error: ExtPgsError) -> Self {
        assert_eq!(error, ExtPgsError::NoBufs);
        Self::Unchanged
    }
}

impl From<MapError> for Failed {
    fn from(error: MapError) -> Self {
        assert!(matches!(error, MapError::NoBufs), "{error}");
        Self::Unchanged
    }
}

/// Places and lengths as numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Args {
    pub(crate) x: usize,
    pub(crate) y: usize,
    pub(crate) n: usize,
    pub(crate) bits: u64,
}

impl Args {
    /// The range between the two places: offset and length.
    pub(crate) fn range(&self) -> (usize, usize) {
        (self.x.min(self.y), self.x.abs_diff(self.y))
    }
}

pub(crate) struct World {
    pub(crate) pool: MbufPool,
    ample: bool,
    pub(crate) items: Vec<(Item, Model)>,
    pub(crate) queue: Mbufq<Mixed>,
    pub(crate) queued: VecDeque<Model>,
    pub(crate) scatter: Scatter,
    /// Bytes that left as `Bytes`.
    pub(crate) held: Vec<(Bytes, Vec<u8>)>,
    /// The records that there were, by their numbers.
    pub(crate) records: Vec<Framed>,
    pub(crate) sources: Vec<Drops>,
    /// In every tag and lender that has to be dropped.
    pub(crate) token: Arc<()>,
}

impl World {
    pub(crate) fn new(pool: &MbufPool, limits: Limits) -> Self {
        let plan = [ClusterSize::K2, ClusterSize::K4];
        Self {
            ample: limits.is_ample(),
            items: Vec::new(),
            queue: Mbufq::new(),
            queued: VecDeque::new(),
            scatter: Scatter::new(pool, &plan),
            held: Vec::new(),
            records: vec![Framed::default()],
            sources: Vec::new(),
            token: Arc::new(()),
            pool: pool.clone(),
        }
    }

    pub(crate) fn add(&mut self, item: Item, model: Model) {
        self.items.push((item, model));
    }

    /// Whether the pool has more than is ever taken.
    pub(crate) fn is_ample(&self) -> bool {
        self.ample
    }

    /// The first suitable item, searched from a place on.
    pub(crate) fn pick(&self, which: usize, will_do: impl Fn(&Item) -> bool) -> Option<usize> {
        let count = self.items.len();
        (0..count)
            .map(|i| (which + i) % count)
            .find(|&at| will_do(&self.items[at].0))
    }

    pub(crate) fn take(
        &mut self,
        which: usize,
        will_do: impl Fn(&Item) -> bool,
    ) -> Option<(Item, Model)> {
        let at = self.pick(which, will_do)?;
        Some(self.items.swap_remove(at))
    }

    /// An operation's places, in the item that it is done to.
    pub(crate) fn args(&self, op: &Op, at: usize) -> Args {
        let (item, model) = &self.items[at];
        let (len, seams) = (model.bytes.len(), item.seams());
        Args {
            x: op.x.in_item(len, &seams),
            y: op.y.in_item(len, &seams),
            n: op.n,
            bits: op.bits,
        }
    }

    /// One step.
    pub(crate) fn step(&mut self, op: &Op) -> Done {
        let live = (!self.ample).then(|| self.pool.live());
        let done = self.perform(op);
        match (done, live) {
            (Ok(()) | Err(Failed::TooLarge), _) => {}
            (_, None) => panic!("no buffers, where there are enough"),
            (Err(Failed::Unchanged), Some(live)) => {
                assert_eq!(
                    self.pool.live(),
                    live,
                    "a failed operation kept a buffer, or lost one"
                );
            }
            (Err(Failed::Changed), Some(_)) => {}
        }
        self.items.retain(|(_, model)| model.bytes.len() <= LEN_MAX);
        if self.items.len() > ITEMS_MAX {
            self.items.swap_remove(0);
        }
        done
    }

    fn perform(&mut self, op: &Op) -> Done {
        use What::*;
        match op.what {
            MakePacket | MakeEmpty | MakeCluster | MakeChain | MakeLent | MakeVec | MakeBytes
            | MakeSplinters | MakeRecord | MakeList | MakeOwned | MakePages => self.make(op),
            Prepend | TrimFront | Truncate | Adjust | Append | Room | Writer | WriteAt
            | FrontMut | Zeroize | Unshare | MakeWritable | Defrag | Collapse | Condense
            | Pullup | Consume => self.change(op),
            SetHeader | SetTag | TagMut | TakeTag | CopyHeader => self.header(op),
            Join | JoinCompact | Share | Split | PopFront | CopyPacket | Enqueue | Dequeue
            | Requeue | Scatter | Drop => self.moves(op),
            IntoChain | IntoPacket | Before | IntoMixed | TryMapped | Map | IntoPieces
            | IntoBytes | DropBytes => self.convert(op),
            CopyOut | Chunks => {
                self.look(op);
                Ok(())
            }
        }
    }

    /// Compares all items with their models.
    pub(crate) fn check(&self) {
        for (item, model) in &self.items {
            item.check(model, &self.records);
        }
        for (bytes, model) in &self.held {
            assert!(
                bytes == model,
                "a write went into bytes that were handed out"
            );
        }
        assert_eq!(self.queue.len(), self.queued.len());
        assert!(self.sources.iter().all(|drops| drops.count() <= 1));
    }

    /// Drops everything: no buffer is left, and all lent storage was given back once.
    pub(crate) fn end(self) {
        let Self {
            pool,
            sources,
            token,
            items,
            queue,
            scatter,
            held,
            ..
        } = self;
        drop((items, queue, scatter, held));
        assert_eq!(pool.live(), Live::NONE, "leaked");
        assert!(sources.iter().all(|drops| drops.count() == 1), "a source");
        assert_eq!(Arc::strong_count(&token), 1, "a tag or a lender was lost");
    }
}

impl fmt::Display for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (item, _) in &self.items {
            let kind = match item {
                Item::Packet(_) => "packet",
                Item::Chain(_) => "chain",
                Item::MixedPacket(_) => "mixed packet",
                Item::MixedChain(_) => "mixed chain",
            };
            let (len, pieces) = (on!(item, x => x.len()), item.seams().len());
            write!(f, " [{kind}: {len} in {pieces}]")?;
        }
        Ok(())
    }
}
