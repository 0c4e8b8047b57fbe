//! Threads that join and leave groups of one interface at once, under a schedule checker: shuttle tries random orders
//! of their steps over the real stack.
//!
//! | thread | does |
//! |---|---|
//! | first | joins a group for all senders |
//! | second | joins a group and leaves it |
//! | third | joins a group for one sender, then for another |
//!
//! The claim, in any order: the listener's list is in the end what the interface's members want, so a router that
//! misses no report, or asks, knows of each group. The mistake [`StackFault::EarlyList`] breaks it, and must be found.
//!
//! Only the locks of the listener and of the joined groups are the checker's; no thread is stopped inside of another
//! lock.
//!
//! `cargo xtask shuttle` runs it.

use std::sync::Arc;

use kern::model::Model;
use kern::{Clock, VirtualClock};
use shuttle::scheduler::PctScheduler;
use shuttle::thread;

use super::*;
use crate::device::Capabilities;
use crate::device::memory::Pipe;
use crate::ifnet::Ifnet;
use crate::{Autoconf, Config, IfConfig, Stack};

/// The number of orders that are tried to find the mistake at most.
const RUNS: usize = 20_000;
/// Always the same; a failure prints its schedule.
const SEED: u64 = 9777;

fn group(n: u16) -> IpAddr {
    IpAddr::from([0xff02, 0, 0, 0, 0, 0, 1, n])
}

fn from(n: u16) -> SourceFilter {
    SourceFilter::include([IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, n])])
}

fn scenario() {
    let clock: Arc<dyn Clock> = Arc::new(VirtualClock::new(Time::from_secs(1)));
    let mut config = Config::new(clock, Random::from_seed(1));
    config.tcp.connections_max = 16;
    let stack = Stack::new(config).expect("address space");
    let (ours, _far) = Pipe::pair(Capabilities::plain(1500));
    let config = IfConfig {
        autoconf: Some(Autoconf {
            dad_transmits: 0,
            accept_routers: false,
            ..Autoconf::default()
        }),
        ..IfConfig::new("pipe0")
    };
    let index = stack.attach(Arc::new(ours), config).expect("an MTU");
    let ifp = stack.0.interface(index).expect("just attached");
    let join = |n, filter| {
        stack
            .join_group_from(index, group(n), filter)
            .expect("room")
    };
    let first = {
        let stack = stack.clone();
        thread::spawn(move || stack.join_group(index, group(1)).expect("room"))
    };
    let second = {
        let stack = stack.clone();
        thread::spawn(move || drop(stack.join_group(index, group(2)).expect("room")))
    };
    let third = join(3, from(1));
    third.set_filter(from(2)).expect("room");
    let first = first.join().expect("no panic");
    second.join().expect("no panic");

    let known = listed(&ifp);
    // Before a panic, after which no lock can be taken.
    drop((first, third));
    let expected = [(1, SourceFilter::all()), (3, from(2))];
    assert_eq!(known, expected, "an older list");
}

/// The list of the listener, as far as the threads changed it.
fn listed(ifp: &Ifnet) -> Vec<(u16, SourceFilter)> {
    let mld = ifp.mld.as_ref().expect("it configures itself");
    let state = mld.state.lock();
    let filter_of = |n| {
        let mut known = state.groups.iter();
        let known = known.find(|known| known.group == group(n))?;
        (!known.filter.is_none()).then(|| (n, known.filter.clone()))
    };
    (1..=3).filter_map(filter_of).collect()
}

/// Breaks if a router does not hear of a group, or of its last filter, because threads changed groups at once.
#[test]
fn groups_changed_by_several_threads() {
    Model::new("groups changed by several threads")
        .seed(SEED)
        .check(scenario);
}

/// Breaks if the model does not find a list that is older than the one that it replaces.
#[test]
#[should_panic(expected = "an older list")]
fn groups_changed_by_several_threads_finds_early_list() {
    let _planted = kern::fault::plant(StackFault::EarlyList);
    let scheduler = PctScheduler::new_from_seed(SEED, 2, RUNS);
    let mut config = shuttle::Config::new();
    config.stack_size = 1 << 18;
    shuttle::Runner::new(scheduler, config).run(scenario);
}
