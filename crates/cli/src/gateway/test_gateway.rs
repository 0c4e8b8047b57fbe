//! Set-up for unit tests of the gateway's services: one worker's shared part, and a stack with an interface in memory.
//!
//! Locks: none.

use std::sync::Arc;

use kern::{Clock, MonotonicClock, Random};
use mbuma::device::Capabilities;
use mbuma::device::memory::Pipe;
use mbuma::runtime::{WorkerPool, WorkerPoolConfig};
use mbuma::{Config, IfConfig, IfIndex, Stack};

use super::figures::Fixed;
use super::policy::Policy;
use super::resolvers::Resolvers;
use super::shared::Shared;
use super::worker_shares::WorkerShares;
use crate::guest::GuestEnd;
use crate::sandbox::Isolation;
use crate::sys::tap::Offloads;

/// The shared part of a gateway of one worker, and the interface that leads to no guest.
pub(super) fn start() -> (Shared, IfIndex) {
    let clock: Arc<dyn Clock> = Arc::new(MonotonicClock::new());
    let config = Config::new(Arc::clone(&clock), Random::from_seed(1));
    let stack = Stack::new(config).expect("address space");
    let (ours, _guests) = Pipe::pair(Capabilities::whole(1500));
    let index = stack
        .attach(Arc::new(ours), IfConfig::new("tap0"))
        .expect("an MTU that is large enough");
    (shared_of(stack, &clock), index)
}

/// The same for a given stack with this clock.
pub(super) fn shared_of(stack: Stack, clock: &Arc<dyn Clock>) -> Shared {
    let pool = WorkerPool::new(WorkerPoolConfig::new(1)).expect("a descriptor");
    let (context, shares) = (pool.context(0, clock), WorkerShares::new(1));
    let policy = Policy::new(&GuestEnd::usual(), false);
    Shared::new(stack, context, &shares, policy, Resolvers::of_host())
}

/// The settings of such a gateway: one worker, no published port, one version of TSO.
pub(super) fn fixed() -> Fixed {
    Fixed {
        published: Vec::new(),
        outward: Vec::new(),
        loopback: false,
        isolation: Isolation::default(),
        answers_names: true,
        link: None,
        guest: GuestEnd::usual(),
        mtu: 1500,
        offloads: Offloads {
            vnet_hdr: true,
            csum: true,
            tso4: true,
            tso6: false,
            tso_ecn: false,
            uso: false,
            big_tcp: false,
            jumbo_option: false,
        },
        workers_asked: 1,
    }
}
