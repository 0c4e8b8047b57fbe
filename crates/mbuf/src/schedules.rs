//! Whole packets under a schedule checker: under shuttle random orders of two or three threads,
//! under loom every order of two, as far as it is bounded.
//!
//! The pool is a real one: its zones are `uma`'s, with the sections of its model on a machine of
//! two CPUs, and the counts of clusters are those in the side table, with a point before each
//! operation on one at which any other thread may run. Orderings are not weak here: they are
//! checked where the counts are (`refs/loom_tests.rs`). Each scenario is run again with each mistake
//! of `planted.rs` that it is there to find, and must then fail.
//!
//! | file | what happens at once |
//! |---|---|
//! | `schedules/sharing.rs` | one shares, drops, writes, wishes for zeros; the other drops |
//! | `schedules/packets.rs` | the packet zone: frees beside sharers, drains, clusters at the limit |
//! | `schedules/operations.rs` | three threads copym, split, pullup, append and free what they share |
//!
//! Under shuttle each scenario is tried [`RUNS`] times, from the seed in `MBUF_SEED` or the one that
//! is always the same; a failure prints its seed and its schedule, and comes again with them.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --release -p mbuf --lib schedules`
//! `RUSTFLAGS="--cfg shuttle" cargo test --release -p mbuf --lib schedules`

use core::mem::ManuallyDrop;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::Arc;

#[cfg(loom)]
use loom::thread;
#[cfg(shuttle)]
use shuttle::thread;
use uma::run_on;

use crate::planted::{Bug, plant, point};
use crate::{ClusterSize, Live, MbufPool, NoBufs, Packet, PoolConfig};

#[cfg(shuttle)]
mod operations;
mod packets;
mod sharing;

/// How a scenario is run.
#[derive(Clone, Copy)]
struct Case {
    /// The mistake that it is to find.
    bug: Option<Bug>,
    /// How often threads are switched in one run, beside where they wait or end.
    switches: usize,
}

/// Runs a scenario in every order within the bounds.
#[cfg(loom)]
fn check(name: &str, case: Case, scenario: impl Fn() + Send + Sync + 'static) {
    plant(case.bug);
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(case.switches);
    model.max_branches = 50_000;
    let begin = std::time::Instant::now();
    model.check(move || {
        counted.fetch_add(1, Relaxed);
        scenario();
    });
    let runs = runs.load(Relaxed);
    println!("{name}: {runs} orders in {:?}", begin.elapsed());
}

/// How often a scenario is tried.
#[cfg(shuttle)]
const RUNS: usize = 10_000;
/// The seed unless `MBUF_SEED` says another.
#[cfg(shuttle)]
const SEED: u64 = 4;

/// Runs a scenario in random orders: half of them with a switch anywhere, half with few switches
/// at places that matter the more for it.
#[cfg(shuttle)]
fn check(name: &str, case: Case, scenario: impl Fn() + Send + Sync + 'static) {
    use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
    plant(case.bug);
    let seed = std::env::var("MBUF_SEED").map_or(SEED, |seed| seed.parse().expect("a number"));
    let mut config = shuttle::Config::new();
    config.stack_size = 1 << 18;
    let runs = Arc::new(AtomicUsize::new(0));
    let scenario = Arc::new(scenario);
    let begin = std::time::Instant::now();
    println!("{name}: MBUF_SEED={seed}");
    let schedulers: [Box<dyn Scheduler + Send>; 2] = [
        Box::new(RandomScheduler::new_from_seed(seed, RUNS / 2)),
        Box::new(PctScheduler::new_from_seed(seed, case.switches, RUNS / 2)),
    ];
    for scheduler in schedulers {
        let (scenario, runs) = (Arc::clone(&scenario), Arc::clone(&runs));
        shuttle::Runner::new(scheduler, config.clone()).run(move || {
            runs.fetch_add(1, Relaxed);
            scenario();
        });
    }
    let runs = runs.load(Relaxed);
    println!("{name}: {runs} orders in {:?}", begin.elapsed());
}

/// A scenario without mistakes.
fn holds(name: &str, switches: usize, scenario: impl Fn() + Send + Sync + 'static) {
    let bug = None;
    check(name, Case { bug, switches }, scenario);
}

/// A scenario with one, which must be found.
fn finds(bug: Bug, switches: usize, scenario: impl Fn() + Send + Sync + 'static) {
    let name = format!("{bug:?}, not found");
    let bug = Some(bug);
    check(&name, Case { bug, switches }, scenario);
}

/// Runs two threads to their ends, the second one on the other CPU.
fn beside(other: impl FnOnce() + Send + 'static, this: impl FnOnce()) {
    let other = thread::spawn(move || {
        run_on(1);
        other();
    });
    // A checker switches before an operation, and the first one may be all that `this` has.
    point();
    this();
    other.join().expect("no panic");
}

/// Something that a checker which has found a mistake may drop: its machine has stopped by then.
#[derive(Clone)]
struct Kept<T>(ManuallyDrop<T>);

impl<T> Kept<T> {
    fn new(it: T) -> Self {
        Self(ManuallyDrop::new(it))
    }
}

impl<T> Deref for Kept<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Kept<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T> Drop for Kept<T> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: dropped here, and not used after.
            unsafe { ManuallyDrop::drop(&mut self.0) };
        }
    }
}

/// A pool in which so many clusters of 2 KiB may be in use.
#[derive(Clone)]
struct World {
    pool: Kept<MbufPool>,
    clusters: usize,
}

impl World {
    fn new(clusters: usize) -> Self {
        let config = PoolConfig {
            mbufs_max: 64,
            cluster_bytes_max: clusters * ClusterSize::K2.bytes(),
        };
        let pool = MbufPool::new(config).expect("there is address space");
        Self {
            pool: Kept::new(pool),
            clusters,
        }
    }

    /// A packet over a cluster from the packet zone, which shows `bytes`.
    fn try_packet(&self, bytes: &[u8]) -> Result<Kept<Packet>, NoBufs> {
        let mut packet = Kept::new(Packet::with_cluster(&self.pool, ClusterSize::K2, 8)?);
        packet.append(&self.pool, bytes)?;
        let alone = packet.first().is_writable() && packet.segments().count() < 2;
        assert!(alone, "a fresh cluster is its taker's alone");
        Ok(packet)
    }

    fn packet(&self, bytes: &[u8]) -> Kept<Packet> {
        self.try_packet(bytes)
            .expect("fewer are in use than may be")
    }

    /// Everything has come back, and every cluster can be had again, each by one.
    fn finish(self) {
        assert_eq!(self.pool.live(), Live::NONE, "leaked");
        let all: Vec<_> = (0..self.clusters)
            .map(|n| self.packet(&[n as u8; 40]))
            .collect();
        assert!(self.try_packet(&[0; 40]).is_err(), "there are no more");
        for (n, packet) in all.iter().enumerate() {
            check_bytes(packet, &[n as u8; 40]);
        }
        drop(all);
        assert_eq!(self.pool.live(), Live::NONE, "leaked");
    }
}

/// The packet is in order and shows these bytes.
fn check_bytes(packet: &Packet, bytes: &[u8]) {
    assert!(packet.is_valid());
    assert_eq!(packet.to_vec(), bytes, "somebody else wrote here");
}
