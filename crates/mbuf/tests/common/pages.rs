//! A source of pages over a vector, and the model of a chain of such pages.
#![allow(dead_code)] // each test file uses a part

use mbuf::{Chain, MbufPool, Mixed, PAGE_SIZE, PageSource, Pages, Piece};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The pages that a source shows in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shown {
    /// None: each has to be read.
    Never,
    /// Each by itself.
    Each,
    /// All that follow it too.
    Whole,
    /// Those with an even number.
    Even,
}

/// Pages in a vector.
pub(crate) struct VecPages {
    bytes: Vec<u8>,
    shown: Shown,
    drops: Arc<AtomicUsize>,
}

impl VecPages {
    pub(crate) fn new(bytes: Vec<u8>, shown: Shown) -> (Self, Drops) {
        let drops = Drops(Arc::default());
        let this = Self {
            bytes,
            shown,
            drops: drops.0.clone(),
        };
        (this, drops)
    }

    /// A reference to pages with these bytes, and the counter of the source's end.
    pub(crate) fn pages(bytes: Vec<u8>, shown: Shown) -> (Pages, Drops) {
        let (this, drops) = Self::new(bytes, shown);
        (Pages::new(this), drops)
    }
}

impl PageSource for VecPages {
    fn read(&self, page: u64, off: usize, dst: &mut [u8]) -> io::Result<()> {
        let at = page as usize * PAGE_SIZE + off;
        let bytes = self.bytes.get(at..at + dst.len());
        dst.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn bytes(&self, page: u64) -> Option<&[u8]> {
        let from = self.bytes.get(page as usize * PAGE_SIZE..)?;
        let one = &from[..from.len().min(PAGE_SIZE)];
        match self.shown {
            Shown::Never => None,
            Shown::Each => Some(one),
            Shown::Whole => Some(from),
            Shown::Even => page.is_multiple_of(2).then_some(one),
        }
    }
}

impl Drop for VecPages {
    fn drop(&mut self) {
        self.drops.fetch_add(1, Ordering::Relaxed);
    }
}

/// How often a source was dropped.
pub(crate) struct Drops(Arc<AtomicUsize>);

impl Drops {
    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// The bytes of a chain, gathered by its pieces.
pub(crate) fn gathered(chain: &Chain<Mixed>) -> Vec<u8> {
    let mut out = Vec::new();
    for piece in chain.pieces() {
        assert!(!piece.is_empty());
        let at = out.len();
        out.resize(at + piece.len(), 0);
        piece.copy_to(&mut out[at..]).expect("the pages are there");
        if let Piece::Pages(run) = piece {
            assert!(run.off < PAGE_SIZE);
        }
    }
    out
}

/// Checks that a chain shows these bytes by each function that reads it.
pub(crate) fn check_mixed(pool: &MbufPool, chain: &mut Chain<Mixed>, bytes: &[u8]) {
    assert!(chain.is_valid(), "{chain:?}");
    assert_eq!(chain.len(), bytes.len());
    assert!(gathered(chain) == bytes, "pieces of {chain:?}");
    let mapped = chain.map(pool).expect("the pool is large");
    assert!(mapped.is_valid());
    assert!(mapped.to_vec() == bytes, "{chain:?} mapped");
    assert!(chain.is_valid() && chain.len() == bytes.len());
}
