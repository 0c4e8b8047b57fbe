//! The places of a splice at its two connections: each connection has one for a source and one for a sink.
//!
//! Locks: as of the link.

use std::sync::Arc;

use super::{AfterTurn, Link};
use crate::socket::splice::SpliceError;
use crate::socket::splice::side::SpliceRole;
use crate::tcp::spliced::{SplicePeer, SpliceTurn};

/// Connections at most through which a search for a loop follows splices.
const HOPS_MAX: usize = 64;

impl Link {
    /// Makes the connections its sides.
    pub(super) fn attach(self: &Arc<Self>) -> Result<(), SpliceError> {
        let mut stacks = [self.from.stack(), self.to.stack()].into_iter();
        if !self.one_stack && stacks.any(|stack| stack.config.giant.is_over_all()) {
            return Err(SpliceError::Giant);
        }
        let giant = self.to.stack().enter_giant();
        let mut after = AfterTurn::default();
        let attached = self.take_places(&mut after);
        drop(giant);
        self.follow_up(None, after);
        attached
    }

    /// Takes a place at each connection, or at none.
    fn take_places(self: &Arc<Self>, after: &mut AfterTurn) -> Result<(), SpliceError> {
        let splice = || Arc::clone(self) as Arc<dyn SpliceTurn>;
        if !self.from.attach(SpliceRole::Source, splice()) {
            return Err(SpliceError::Busy);
        }
        if !self.to.attach(SpliceRole::Sink, splice()) {
            self.from.detach(SpliceRole::Source, &mut after.from);
            return Err(SpliceError::Busy);
        }
        // After both are attached: if two threads together close a loop, at least one of them sees it.
        if self.is_loop() {
            self.leave_places(after);
            return Err(SpliceError::Loop);
        }
        Ok(())
    }

    /// Leaves the place at each connection.
    pub(super) fn leave_places(&self, after: &mut AfterTurn) {
        self.from.detach(SpliceRole::Source, &mut after.from);
        self.to.detach(SpliceRole::Sink, &mut after.to);
    }

    /// Whether data that leaves by the sink comes back to the source, through connections inside of the process.
    fn is_loop(&self) -> bool {
        let mut next = self.to.peer();
        for _ in 0..HOPS_MAX {
            let Some(SplicePeer { id, splice }) = next else {
                return false;
            };
            if id == self.from.id() {
                return true;
            }
            let Some(splice) = splice else {
                return false;
            };
            next = splice.sink_peer();
        }
        true
    }
}
