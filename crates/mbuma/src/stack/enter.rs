//! Entries into a stack: a batch, a look under Giant, a protocol's input.

use kern::GiantGuard;

use crate::batch::Batch;
use crate::config::Protocol;
use crate::state::StackState;

impl StackState {
    /// Runs `f` as one batch and does the deferred work after it.
    #[track_caller]
    pub(crate) fn enter<R>(&self, f: impl FnOnce(&mut Batch<'_>) -> R) -> R {
        // First: the batch begins when it has its turn.
        let giant = self.config.giant.enter();
        // It stays where it is to its end: it is larger than what is done in it, mostly.
        let mut batch = Batch::new(self);
        let result = f(&mut batch);
        batch.finish();
        drop(giant);
        batch.call();
        result
    }

    /// Looks at something without a batch: under Giant as long as the guard lives, if that is over the stack.
    #[track_caller]
    pub(crate) fn look(&self) -> GiantGuard<'_> {
        self.config.giant.enter()
    }

    /// A protocol's input: under Giant as long as the guard lives, if it needs that.
    #[track_caller]
    pub(crate) fn enter_protocol(&self, protocol: Protocol) -> GiantGuard<'_> {
        let component = self.components.protocol(protocol);
        self.config.giant.enter_component(component)
    }
}
