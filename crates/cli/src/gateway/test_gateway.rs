//! What unit tests of the gateway's services need: one worker's shared part, and a stack with an interface in memory.
//!
//! Locks: none.

use std::sync::Arc;

use kern::{Clock, MonotonicClock, Random};
use mbuma::device::Capabilities;
use mbuma::device::memory::Pipe;
use mbuma::{Config, IfConfig, IfIndex, Stack};

use super::policy::Policy;
use super::resolvers::Resolvers;
use super::shared::Shared;
use super::worker_pool::WorkerPool;
use crate::guest::GuestEnd;

/// The shared part of a gateway of one worker, and the interface that leads to no guest.
pub(super) fn start() -> (Shared, IfIndex) {
    let clock: Arc<dyn Clock> = Arc::new(MonotonicClock::new());
    let stack = Stack::new(Config::new(clock, Random::from_seed(1))).expect("address space");
    let (ours, _guests) = Pipe::pair(Capabilities::whole(1500));
    let index = stack.attach(Arc::new(ours), IfConfig::new("tap0"));
    (shared_of(stack), index)
}

/// The same for a stack that is there.
pub(super) fn shared_of(stack: Stack) -> Shared {
    let pool = WorkerPool::new(1, false).expect("no descriptor is needed");
    let policy = Policy::new(&GuestEnd::usual(), false);
    Shared::new(stack, &pool, 0, policy, Resolvers::of_host())
}
