//! Which way items go: round one CPU, or from the one that frees them to another that allocates them.
//!
//! Called by: `depot.rs`. Calls: nothing. Locks: none; the depot's guards it.
//!
//! A thread that the scheduler moves leaves items behind, and two threads may both do some of each. So one visit proves
//! nothing, and the answer changes only after as many as [`SURE`] more of the other kind.

/// How many more visits of the other kind change the answer.
const SURE: u8 = 8;

/// What the last visits were like.
pub(crate) struct Ways {
    /// From 0, where all were of one CPU's own items, to [`SURE`].
    crossed: u8,
    crossing: bool,
}

impl Ways {
    pub(crate) const fn new() -> Self {
        Self {
            crossed: 0,
            crossing: false,
        }
    }

    /// Whether most items are freed by one CPU and allocated by another.
    pub(crate) fn crossing(&self) -> bool {
        self.crossing
    }

    /// A CPU got items that another one had freed, or its own. Where that is no news nothing is written: it is
    /// said at every visit, and the line is every CPU's.
    pub(crate) fn saw(&mut self, crossed: bool) {
        match crossed {
            true if self.crossed < SURE => self.crossed += 1,
            false if self.crossed > 0 => self.crossed -= 1,
            _ => return,
        }
        match self.crossed {
            SURE => self.crossing = true,
            0 => self.crossing = false,
            _ => {}
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::{SURE, Ways};

    /// Fails if a thread that was moved once is taken for two, or two that take turns for ever change the answer.
    #[test]
    fn changes_its_mind_slowly() {
        let mut ways = Ways::new();
        for _ in 1..SURE {
            ways.saw(true);
            assert!(!ways.crossing());
        }
        ways.saw(true);
        assert!(ways.crossing());
        for turn in 0..100 {
            ways.saw(turn % 2 == 1);
            assert!(ways.crossing());
        }
        for _ in 0..SURE {
            assert!(ways.crossing());
            ways.saw(false);
        }
        assert!(!ways.crossing());
    }
}
