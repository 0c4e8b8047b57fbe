//! How many packets have which size: seed 004's figure 2.
//!
//! Invariant: a packet is in exactly one bin, so the bins of a trace sum to its packets.

/// Packets whose sizes are from `from` up to and including `to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bin {
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) packets: u64,
}

/// How sizes are put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bins {
    /// Each as wide as the others, as in the seed's figure; all from [`LINEAR_END`] on are one.
    Linear,
    /// Each begins at a power of two and is as wide as all before it.
    PowersOfTwo,
}

/// Bytes of a linear bin.
const LINEAR_WIDE: u32 = 100;
/// Where linear bins end: behind a frame of Ethernet's usual size, which tags may have made longer.
const LINEAR_END: u32 = 1600;

impl Bins {
    /// The bins from the first that has a packet to the last, in ascending order.
    pub(super) fn count(self, lens: impl IntoIterator<Item = u32>) -> Vec<Bin> {
        let mut bins = Vec::new();
        for len in lens {
            let at = self.index(len);
            while bins.len() <= at {
                bins.push(self.empty(bins.len()));
            }
            bins[at].packets += 1;
        }
        let empty = bins.iter().take_while(|bin| bin.packets == 0).count();
        bins.split_off(empty)
    }

    fn index(self, len: u32) -> usize {
        match self {
            Self::Linear => (len.min(LINEAR_END) / LINEAR_WIDE) as usize,
            // 0 has a bin of its own, then 1, then 2 and 3, ...
            Self::PowersOfTwo => (u32::BITS - len.leading_zeros()) as usize,
        }
    }

    /// The bin with this index.
    fn empty(self, index: usize) -> Bin {
        let nth = index as u32;
        let (from, to) = match self {
            Self::Linear if nth * LINEAR_WIDE >= LINEAR_END => (LINEAR_END, u32::MAX),
            Self::Linear => (nth * LINEAR_WIDE, (nth + 1) * LINEAR_WIDE - 1),
            Self::PowersOfTwo if nth == 0 => (0, 0),
            Self::PowersOfTwo => (1 << (nth - 1), u32::MAX >> (u32::BITS - nth)),
        };
        Bin {
            from,
            to,
            packets: 0,
        }
    }
}

impl Bin {
    /// "100-199".
    pub(super) fn label(&self) -> String {
        match self.to {
            u32::MAX => format!("{} on", self.from),
            to if to == self.from => to.to_string(),
            to => format!("{}-{to}", self.from),
        }
    }
}

const _: () = assert!(LINEAR_END.is_multiple_of(LINEAR_WIDE));
