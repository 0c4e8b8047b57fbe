//! Set-up for unit tests of the gateway's services: one worker's shared part, and a stack with an interface in memory.
//!
//! Locks: none.

use std::net::Ipv4Addr;
use std::sync::Arc;

use kern::{Clock, MonotonicClock, Random, VirtualClock};
use mbuf::PoolConfig;
use mbuma::device::epair::{EpairConfig, EpairEnd, Input};
use mbuma::device::memory::Pipe;
use mbuma::device::tunnel::{self, TunnelEnd};
use mbuma::device::{Budget, Capabilities};
use mbuma::runtime::{WorkerPool, WorkerPoolConfig};
use mbuma::{Config, IfConfig, IfIndex, Stack};
use wire::{IpProto, Ipv4Fields};

use super::figures::Fixed;
use super::policy::Policy;
use super::resolvers::Resolvers;
use super::shared::Shared;
use super::worker_shares::WorkerShares;
use crate::addressing::Addressing;
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

/// A guest that a test plays: the gateway's stack answers for all addresses on the way to it.
pub(super) struct TestGuest {
    stack: Stack,
    pub(super) index: IfIndex,
    end: TunnelEnd,
}

/// The shared part of a gateway of one worker, and its guest.
pub(super) fn with_guest() -> (Shared, TestGuest) {
    let clock: Arc<dyn Clock> = Arc::new(MonotonicClock::new());
    let config = Config::new(Arc::clone(&clock), Random::from_seed(1));
    let stack = Stack::new(config).expect("address space");
    let (device, end) = tunnel::pair(stack.pool(), 1500).expect("descriptors");
    let config = IfConfig {
        accept_any: true,
        ..IfConfig::new("tap0").with_addr(Addressing::DEFAULT.gateway, 24)
    };
    let index = stack.attach(Arc::new(device), config).expect("an MTU");
    let guest = TestGuest {
        stack: stack.clone(),
        index,
        end,
    };
    (shared_of(stack, &clock), guest)
}

impl TestGuest {
    /// The guest sends a packet, which the stack takes in.
    pub(super) fn say(&self, dst: Ipv4Addr, protocol: IpProto, payload: &[u8]) {
        self.say_from(Addressing::DEFAULT.guest, dst, protocol, payload);
    }

    /// The same by another of its addresses.
    pub(super) fn say_from(&self, src: Ipv4Addr, dst: Ipv4Addr, protocol: IpProto, payload: &[u8]) {
        let fields = Ipv4Fields {
            payload_len: payload.len() as u16,
            src,
            dst,
            protocol,
            ..Ipv4Fields::default()
        };
        let mut packet = vec![0; fields.header_len()];
        fields.emit(&mut packet);
        packet.extend_from_slice(payload);
        assert!(self.end.give(&packet).expect("it is there"), "no room");
        let all = Budget {
            frames: usize::MAX,
            bytes: usize::MAX,
        };
        while self
            .stack
            .poll_interface(self.index, all)
            .expect("it is there")
        {}
    }
}

/// A stack with buffers of its own limits at 192.0.2.2 and 192.0.2.8, and the stack of its clients at 192.0.2.1 and
/// 192.0.2.7, in virtual time.
pub(crate) fn joined(
    clock: &Arc<VirtualClock>,
    pool: PoolConfig,
) -> ([Stack; 2], (EpairEnd, EpairEnd)) {
    let stacks = [(1, pool), (2, PoolConfig::default())].map(|(seed, pool)| {
        let clock: Arc<dyn Clock> = clock.clone();
        let mut config = Config::new(clock, Random::from_seed(seed));
        config.pool = pool;
        Stack::new(config).expect("address space")
    });
    let (mut a, mut b) = EpairEnd::pair(EpairConfig::default());
    for (end, stack, host) in [(&mut a, &stacks[0], 2), (&mut b, &stacks[1], 1)] {
        let config = IfConfig::new("epair0").with_addr([192, 0, 2, host], 24);
        let config = config.with_addr([192, 0, 2, host + 6], 24);
        let attached = end.attach(stack, config, Input::Direct);
        attached.expect("an MTU that is large enough");
    }
    (stacks, (a, b))
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
