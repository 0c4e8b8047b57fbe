//! A connection's turn at the end of a batch.
//!
//! Code that leaves a connection with something to send, to tell its user, or to end, schedules a turn for it: one a
//! batch, however often it was scheduled.
//!
//! Locks: none held; the turn takes the connection's (CONN).

use std::sync::Arc;

use super::output;
use super::pcb::Inpcb;
use crate::batch::{Batch, Deferred};

/// The connection gets a turn at the end of the batch.
pub(crate) fn schedule(batch: &mut Batch<'_>, pcb: &Arc<Inpcb>) {
    if !pcb.mark_touched() {
        batch.defer(Arc::clone(pcb) as _);
    }
}

impl Deferred for Inpcb {
    fn run(self: Arc<Self>, batch: &mut Batch<'_>) {
        self.clear_touched();
        output::run(batch, &self);
    }
}
