//! The blocks of a selective acknowledgment.
//!
//! Invariants: at most four blocks, in the order of the wire. The receiver must check that they are valid (left
//! before right, inside the range that was sent), because only it knows that range.
//! Locks: none.
//! Sources: RFC 2018 section 3, RFC 2883.

use core::fmt;

use super::Malformed;
use crate::SeqNum;

/// A range of sequence numbers that arrived out of order (RFC 2018 section 3): `left` is its first, `right` the one
/// behind its last.
#[doc(alias = "sackblk")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SackBlock {
    /// The first number of the block.
    pub left: SeqNum,
    /// The number behind the last of the block.
    pub right: SeqNum,
}

impl SackBlock {
    /// Whether there are no blocks.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.left.0 == self.right.0
    }
}

/// Up to four SACK blocks (RFC 2018 section 3): no more fit into a header.
#[derive(Clone, Copy, Default)]
pub struct SackBlocks {
    blocks: [SackBlock; SackBlocks::COUNT_MAX],
    len: u8,
}

impl SackBlocks {
    /// How many blocks a header can hold.
    pub const COUNT_MAX: usize = 4;

    /// No blocks.
    pub const fn new() -> SackBlocks {
        SackBlocks {
            blocks: [SackBlock {
                left: SeqNum(0),
                right: SeqNum(0),
            }; SackBlocks::COUNT_MAX],
            len: 0,
        }
    }

    /// Adds a block behind the others. Returns `false` if there are four already.
    pub fn push(&mut self, block: SackBlock) -> bool {
        let Some(place) = self.blocks.get_mut(usize::from(self.len)) else {
            return false;
        };
        *place = block;
        self.len = self.len.saturating_add(1);
        true
    }

    /// The blocks in their order on the wire.
    #[inline]
    pub fn as_slice(&self) -> &[SackBlock] {
        self.blocks.get(..usize::from(self.len)).unwrap_or(&[])
    }

    /// The blocks in their order on the wire.
    #[inline]
    pub fn iter(&self) -> core::slice::Iter<'_, SackBlock> {
        self.as_slice().iter()
    }

    /// How many blocks there are.
    #[inline]
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether there are none.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Reads the body of one option.
    pub(super) fn parse(body: &[u8]) -> Result<SackBlocks, Malformed> {
        let (pairs, rest) = body.as_chunks::<SACK_BLOCK_LEN>();
        if !rest.is_empty() || pairs.is_empty() {
            return Err(Malformed);
        }
        let mut blocks = SackBlocks::new();
        for &[a, b, c, d, e, f, g, h] in pairs {
            let left = SeqNum(u32::from_be_bytes([a, b, c, d]));
            let right = SeqNum(u32::from_be_bytes([e, f, g, h]));
            if !blocks.push(SackBlock { left, right }) {
                return Err(Malformed);
            }
        }
        Ok(blocks)
    }
}

impl<'a> IntoIterator for &'a SackBlocks {
    type Item = &'a SackBlock;
    type IntoIter = core::slice::Iter<'a, SackBlock>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl FromIterator<SackBlock> for SackBlocks {
    /// Takes the first four.
    fn from_iter<I: IntoIterator<Item = SackBlock>>(blocks: I) -> SackBlocks {
        let mut taken = SackBlocks::new();
        for block in blocks.into_iter().take(SackBlocks::COUNT_MAX) {
            taken.push(block);
        }
        taken
    }
}

impl PartialEq for SackBlocks {
    fn eq(&self, other: &SackBlocks) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for SackBlocks {}

impl fmt::Debug for SackBlocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self).finish()
    }
}

/// Bytes of one block on the wire.
pub(super) const SACK_BLOCK_LEN: usize = 8;
