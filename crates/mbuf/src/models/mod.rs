//! Whole packets under a schedule checker: under shuttle random orders of two or three threads,
//! under loom every order of two, as far as it is bounded.
//!
//! The pool is a real one: its zones are `uma`'s, with the sections of its model on a machine of
//! two CPUs, and the counts of clusters are those in the side table, with a point before each
//! operation on one at which any other thread may run. Orderings are not weak here: they are
//! checked where the counts are (`models/refs.rs`). Each scenario is run again with each mistake
//! of `faults.rs` that it is there to find, and must then fail.
//!
//! | file | concurrent operations |
//! |---|---|
//! | `models/refs.rs` | the count of `refs.rs` alone, over atomics with weak orderings (`refs_words.rs`); loom only |
//! | `models/sharing.rs` | one thread shares, drops, writes, requests zeros; the other drops |
//! | `models/packets.rs` | the packet zone: frees beside sharers, drains, clusters at the limit |
//! | `models/operations.rs` | three threads copym, split, pullup, append and free shared packets |
//!
//! `RUSTFLAGS="--cfg loom" cargo test --release -p mbuma-mbuf --lib models`
//! `RUSTFLAGS="--cfg shuttle" cargo test --release -p mbuma-mbuf --lib models`

use core::mem::ManuallyDrop;
use core::ops::{Deref, DerefMut};

use kern::model::Model;
#[cfg(loom)]
use loom::thread;
#[cfg(shuttle)]
use shuttle::thread;
use uma::run_on;

use crate::faults::{MbufFault, point};
use crate::{ClusterSize, Live, MbufPool, NoBufs, Packet, PoolConfig};
use kern::fault::plant;

#[cfg(shuttle)]
mod operations;
mod packets;
#[cfg(loom)]
mod refs;
#[cfg(loom)]
mod refs_words;
mod sharing;

/// How a scenario is run.
#[derive(Clone, Copy)]
struct Case {
    /// The mistake that it must find.
    bug: Option<MbufFault>,
    /// How often threads are switched in one run, beside where they wait or end.
    switches: usize,
}

/// Runs a scenario in every order within the bounds, or in as many random ones.
fn check(name: &str, case: Case, scenario: impl Fn() + Send + Sync + 'static) {
    let _planted = case.bug.map(plant);
    Model::new(name)
        .switches(case.switches)
        .runs(2500)
        .seed(4)
        .check(scenario);
}

/// A scenario without mistakes.
fn holds(name: &str, switches: usize, scenario: impl Fn() + Send + Sync + 'static) {
    let bug = None;
    check(name, Case { bug, switches }, scenario);
}

/// A scenario with a mistake, which it must find.
fn finds(bug: MbufFault, switches: usize, scenario: impl Fn() + Send + Sync + 'static) {
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
    // A checker switches threads before an operation, and `this` may have only one.
    point();
    this();
    other.join().expect("no panic");
}

/// A value that a checker may drop after it has found a mistake, when its scheduler has stopped.
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

/// A pool in which `clusters` clusters of 2 KiB may be in use.
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

    /// A packet over a cluster that did not come with its mbuf; `bytes` are more than fit an mbuf.
    fn cluster(&self, bytes: &[u8]) -> Kept<Packet> {
        let mut packet = Kept::new(Packet::new(&self.pool).expect("few are in use"));
        let room = packet.prepend(bytes.len());
        room.expect("fewer are in use than may be")
            .copy_from_slice(bytes);
        check_bytes(&packet, bytes);
        packet
    }

    fn packet(&self, bytes: &[u8]) -> Kept<Packet> {
        self.try_packet(bytes)
            .expect("fewer are in use than may be")
    }

    /// All buffers have come back, and every cluster can be allocated again.
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
    assert_eq!(packet.to_vec(), bytes, "another thread wrote here");
}
