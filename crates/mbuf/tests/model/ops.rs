//! The operations, and how they are drawn.

use mbuf::ClusterSize;
use proptest::prelude::*;

use crate::common::sized;

/// Which of the items that there are.
pub(crate) type Which = prop::sample::Index;

#[derive(Debug, Clone)]
pub(crate) enum Make {
    Slice {
        len: usize,
        lead: usize,
    },
    Cluster {
        size: ClusterSize,
        lead: usize,
        len: usize,
    },
    Plain {
        len: usize,
    },
    Lent {
        len: usize,
    },
    /// Mbufs of a few bytes each.
    Splinters {
        each: usize,
        count: usize,
    },
}

#[derive(Debug, Clone)]
pub(crate) enum Op {
    Make(Make),
    Prepend(Which, usize),
    TrimFront(Which, usize),
    Truncate(Which, usize),
    Append(Which, usize),
    Join(Which, Which),
    JoinCompact(Which, Which),
    SplitOff(Which, usize),
    Share(Which, usize, usize),
    Pullup(Which, usize),
    Write(Which, usize, usize),
    WriteFront(Which),
    Pulldown(Which, usize, usize),
    Adjust(Which, usize, usize),
    CopyBack(Which, usize, usize),
    Unshare(Which),
    Defrag(Which),
    Collapse(Which, usize),
    Condense(Which),
    PopFront(Which),
    CopyPacket(Which),
    Convert(Which),
    Before(Which),
    Dup(Which),
    Enqueue(Which),
    Dequeue,
    Requeue,
    Drop(Which),
}

/// Lengths near those where something changes, and others.
fn length() -> impl Strategy<Value = usize> {
    let most = sized(40_000, 600);
    let edges: Vec<usize> = [0, 1, 20, 40, 176, 216, 2048, 4096, 16384]
        .into_iter()
        .flat_map(|n: usize| [n.saturating_sub(1), n, n + 1])
        .filter(|&n| n < most)
        .collect();
    prop_oneof![3 => prop::sample::select(edges), 2 => 0usize..300, 1 => 0usize..most]
}

fn cluster() -> impl Strategy<Value = ClusterSize> {
    prop::sample::select(ClusterSize::ALL.to_vec())
}

fn make() -> impl Strategy<Value = Make> {
    let lead = || prop_oneof![Just(0usize), 0usize..300, Just(20_000)];
    prop_oneof![
        (length(), lead()).prop_map(|(len, lead)| Make::Slice { len, lead }),
        (cluster(), lead(), length()).prop_map(|(size, lead, len)| Make::Cluster {
            size,
            lead,
            len
        }),
        length().prop_map(|len| Make::Plain { len }),
        length().prop_map(|len| Make::Lent { len }),
        (1usize..4, 0usize..40).prop_map(|(each, count)| Make::Splinters { each, count }),
    ]
}

pub(crate) fn op() -> impl Strategy<Value = Op> {
    let w = any::<Which>;
    let lengths = || (length(), length());
    prop_oneof![
        4 => make().prop_map(Op::Make),
        2 => (w(), prop_oneof![0usize..60, length()]).prop_map(|(w, n)| Op::Prepend(w, n)),
        1 => (w(), length()).prop_map(|(w, n)| Op::TrimFront(w, n)),
        1 => (w(), length()).prop_map(|(w, n)| Op::Truncate(w, n)),
        2 => (w(), length()).prop_map(|(w, n)| Op::Append(w, n)),
        2 => (w(), w()).prop_map(|(a, b)| Op::Join(a, b)),
        2 => (w(), w()).prop_map(|(a, b)| Op::JoinCompact(a, b)),
        2 => (w(), length()).prop_map(|(w, n)| Op::SplitOff(w, n)),
        4 => (w(), lengths()).prop_map(|(w, (off, len))| Op::Share(w, off, len)),
        2 => (w(), length()).prop_map(|(w, n)| Op::Pullup(w, n)),
        2 => (w(), length(), 0usize..300).prop_map(|(w, off, len)| Op::Write(w, off, len)),
        1 => w().prop_map(Op::WriteFront),
        2 => (w(), length(), 0usize..300).prop_map(|(w, off, n)| Op::Pulldown(w, off, n)),
        1 => (w(), lengths()).prop_map(|(w, (front, back))| Op::Adjust(w, front, back)),
        2 => (w(), length(), 0usize..300).prop_map(|(w, off, n)| Op::CopyBack(w, off, n)),
        1 => w().prop_map(Op::Unshare),
        1 => w().prop_map(Op::Defrag),
        1 => (w(), 0usize..5).prop_map(|(w, max)| Op::Collapse(w, max)),
        1 => w().prop_map(Op::Condense),
        1 => w().prop_map(Op::PopFront),
        1 => w().prop_map(Op::CopyPacket),
        2 => w().prop_map(Op::Convert),
        1 => w().prop_map(Op::Before),
        1 => w().prop_map(Op::Dup),
        1 => w().prop_map(Op::Enqueue),
        1 => Just(Op::Dequeue),
        1 => Just(Op::Requeue),
        2 => w().prop_map(Op::Drop),
    ]
}
