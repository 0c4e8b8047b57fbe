//! The operations, and how a seed draws them.
//!
//! An operation says where as [`At`], which becomes a number only when its item is known: most places are then inside
//! the bytes, and many at the end of an mbuf, where bugs are. So a sequence is also valid without some of its
//! operations, and can be made shorter.

use crate::draw::Draw;

/// The operation; `world.rs` chooses its item and arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    MakePacket,
    MakeEmpty,
    MakeCluster,
    MakeChain,
    MakeLent,
    MakeVec,
    MakeBytes,
    MakeSplinters,
    MakeRecord,
    MakeList,
    MakeOwned,
    MakePages,
    Prepend,
    TrimFront,
    Truncate,
    Adjust,
    Append,
    Room,
    Writer,
    WriteAt,
    FrontMut,
    Zeroize,
    Unshare,
    MakeWritable,
    Defrag,
    Collapse,
    Condense,
    Pullup,
    Consume,
    SetHeader,
    SetTag,
    TagMut,
    TakeTag,
    CopyHeader,
    Join,
    JoinCompact,
    Share,
    Split,
    PopFront,
    CopyPacket,
    IntoChain,
    IntoPacket,
    Before,
    IntoMixed,
    TryMapped,
    Map,
    IntoPieces,
    IntoBytes,
    DropBytes,
    Enqueue,
    Dequeue,
    Requeue,
    Scatter,
    CopyOut,
    Chunks,
    Drop,
}

use What::*;

/// The operations with the weights by which they are drawn.
const WEIGHTS: &[(usize, &[What])] = &[
    (6, &[MakePacket, MakeCluster, MakeChain, Share]),
    (4, &[Join, Split]),
    (3, &[MakeEmpty, MakeLent, MakeSplinters, MakeRecord]),
    (3, &[Prepend, Append, WriteAt, Pullup]),
    (2, &[MakeVec, MakeBytes, MakeList, MakeOwned, MakePages]),
    (2, &[TrimFront, Truncate, Adjust, Room, Writer]),
    (2, &[Collapse, MakeWritable, JoinCompact, CopyPacket]),
    (2, &[IntoChain, IntoPacket, Before, Map, Consume, Drop]),
    (1, &[FrontMut, Zeroize, Unshare, Defrag, Condense]),
    (1, &[SetHeader, SetTag, SetTag, TagMut, TakeTag, CopyHeader]),
    (1, &[PopFront, IntoMixed, TryMapped, IntoPieces]),
    (1, &[IntoBytes, DropBytes, Enqueue, Dequeue, Requeue]),
    (1, &[Scatter, CopyOut, Chunks]),
];

/// A place in an item.
#[derive(Debug, Clone, Copy)]
pub(crate) enum At {
    /// At this many bytes from its start, which may be behind its end.
    Start(usize),
    /// So many before its end, or behind it.
    End(isize),
    /// Somewhere in it.
    Inside(usize),
    /// At, right before or right behind the end of one of its mbufs.
    Seam(usize, isize),
}

impl At {
    fn draw(draw: &mut Draw) -> Self {
        let near = draw.below(3) as isize - 1;
        match draw.below(16) {
            0..3 => Self::Start(draw.len()),
            3..6 => Self::End(draw.below(6) as isize - 2),
            6..10 => Self::Inside(draw.below(1 << 20)),
            _ => Self::Seam(draw.below(64), near),
        }
    }

    /// The place in an item of `len` bytes whose pieces end at `seams`.
    pub(crate) fn in_item(self, len: usize, seams: &[usize]) -> usize {
        match self {
            Self::Start(n) => n,
            Self::End(n) => len.saturating_add_signed(-n),
            Self::Inside(n) => n % (len + 1),
            Self::Seam(..) if seams.is_empty() => 0,
            Self::Seam(n, near) => seams[n % seams.len()].saturating_add_signed(near),
        }
    }
}

/// One operation. It ignores arguments that it does not need.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Op {
    pub(crate) what: What,
    /// On which item, and with which other one.
    pub(crate) which: usize,
    pub(crate) other: usize,
    pub(crate) x: At,
    pub(crate) y: At,
    pub(crate) n: usize,
    /// Whatever else has to be chosen.
    pub(crate) bits: u64,
}

impl Op {
    fn draw(draw: &mut Draw) -> Self {
        Self {
            what: what(draw),
            which: draw.below(1 << 16),
            other: draw.below(1 << 16),
            x: At::draw(draw),
            y: At::draw(draw),
            n: draw.len(),
            bits: draw.next(),
        }
    }
}

fn what(draw: &mut Draw) -> What {
    let all = WEIGHTS.iter().map(|(weight, row)| weight * row.len());
    let mut at = draw.below(all.sum());
    for (weight, row) in WEIGHTS {
        match at.checked_sub(weight * row.len()) {
            Some(rest) => at = rest,
            None => return row[at / weight],
        }
    }
    unreachable!("below the sum of all")
}

/// The limits of the pool of a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Limits {
    pub(crate) mbufs_max: usize,
    pub(crate) cluster_bytes_max: usize,
}

impl Limits {
    /// More than any sequence takes.
    pub(crate) const AMPLE: Self = Self {
        mbufs_max: 1 << 16,
        cluster_bytes_max: 64 << 20,
    };

    pub(crate) fn is_ample(self) -> bool {
        self == Self::AMPLE
    }

    fn draw(draw: &mut Draw) -> Self {
        if draw.one_in(2) {
            return Self::AMPLE;
        }
        Self {
            mbufs_max: draw.of(&[1, 2, 3, 5, 8, 13, 40]),
            cluster_bytes_max: draw.of(&[2048, 5000, 12_000, 20_000, 50_000, 100_000]),
        }
    }
}

/// The sequence of a seed: a function of it and of nothing else.
pub(crate) fn sequence(seed: u64) -> (Limits, Vec<Op>) {
    let mut draw = Draw::new(seed);
    let limits = Limits::draw(&mut draw);
    let most = draw.of(&[2, 8, 16, 32, 60, 60]);
    let steps = 1 + draw.below(most);
    let mut ops: Vec<_> = (0..steps).map(|_| Op::draw(&mut draw)).collect();
    // The first operation makes an item.
    ops[0].what = draw.of(&[MakePacket, MakeCluster, MakeChain, MakeLent, MakeRecord]);
    (limits, ops)
}
