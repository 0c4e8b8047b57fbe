//! A timer for another attempt, when there was no buffer or no descriptor.
//!
//! Invariants: at most one timer is set, however many turns find that the attempt must wait. Otherwise each byte of a
//! peer would add a timer, and each of these a turn, for as long as the shortage lasts. Locks: none.

use std::cell::Cell;
use std::time::Duration;

use kern::Time;

use crate::gateway::shared::Shared;
use crate::gateway::table::Token;

/// The time after which there may be clusters again.
pub(super) const NO_BUFS_WAIT: Duration = Duration::from_millis(10);

/// The time after which there may be a descriptor, or memory of the kernel, for a client that waits.
pub(super) const ACCEPT_WAIT: Duration = Duration::from_millis(100);

/// The time of the attempt for which a timer is set. It belongs to a worker: one that migrates needs a new one.
#[derive(Default)]
pub(super) struct RetryTimer {
    at: Cell<Time>,
}

impl RetryTimer {
    /// Sets a timer for a turn of `token` after `wait`, unless one is set.
    pub(super) fn set(&self, shared: &mut Shared, token: Token, wait: Duration) {
        let now = shared.now();
        if self.at.get() <= now {
            self.at.set(now + wait);
            shared.after(wait, token);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kern::{Clock, Random, VirtualClock};
    use mbuma::{Config, Stack};

    use super::*;
    use crate::gateway::table::SourceKind;
    use crate::gateway::test_gateway;

    #[test]
    fn turns_without_buffers_set_one_timer() {
        // Breaks when each wakeup of a connection during a shortage adds a timer, or no timer follows one that fired.
        const WAIT: Duration = Duration::from_millis(10);
        let virtual_clock = Arc::new(VirtualClock::new(Time::from_secs(1)));
        let clock: Arc<dyn Clock> = virtual_clock.clone();
        let config = Config::new(Arc::clone(&clock), Random::from_seed(1));
        let stack = Stack::new(config).expect("address space");
        let mut shared = test_gateway::shared_of(stack, &clock);
        let (retry, token) = (
            RetryTimer::default(),
            Token::only(SourceKind::HttpConnection),
        );
        (0..100).for_each(|_| retry.set(&mut shared, token, WAIT));
        assert_eq!(shared.context.timers(), 1);
        virtual_clock.advance(WAIT);
        (0..100).for_each(|_| retry.set(&mut shared, token, WAIT));
        assert_eq!(shared.context.timers(), 2);
    }
}
