//! That an item's line is claimed where it should be, and that the item does not change by it.

use super::claim_exclusive;
use crate::percpu::tests::pin_to;
use crate::{HookFailed, Hooks, RawZone};
use core::alloc::Layout;
use core::ptr::NonNull;
use std::sync::mpsc::sync_channel;
use std::thread;

const LAYOUT: Layout = Layout::new::<[u64; 8]>();

/// Items that are all the same once they went through `init`, and stay so.
struct Pattern;

const PATTERN: [u64; 8] = [0x5EED; 8];

impl Hooks for Pattern {
    unsafe fn init(&self, item: NonNull<u8>) -> Result<(), HookFailed> {
        // SAFETY: an item of the layout that only this thread has.
        unsafe { item.cast().write(PATTERN) };
        Ok(())
    }
}

/// An item that a channel carries.
struct Sent(NonNull<u8>);

// SAFETY: the thread that has this owns the item.
unsafe impl Send for Sent {}

/// Fails if bytes change, or if an item is written to that does not begin with a word.
#[test]
fn a_claim_keeps_the_bytes_of_the_item() {
    let mut words = [1u64, 2, 3];
    let first = NonNull::from(&mut words).cast::<u8>();
    for at in [0, 1, 4, 8, 9] {
        // SAFETY: within the array.
        let item = unsafe { first.byte_add(at) };
        // SAFETY: there is a word within the array, and no other thread has the array.
        unsafe { claim_exclusive(item) };
        // SAFETY: as above.
        assert_eq!(unsafe { first.cast::<[u64; 3]>().read() }, [1, 2, 3]);
    }
}

/// Allocates on one CPU and frees on another, or on the same one.
fn pass(zone: &RawZone<Pattern>, allocated_on: usize, freed_on: usize) {
    let (give, take) = sync_channel::<Sent>(64);
    thread::scope(|scope| {
        scope.spawn(move || {
            pin_to(freed_on);
            for Sent(item) in take {
                // SAFETY: allocated below, and given to us.
                unsafe { zone.free(item) };
            }
        });
        scope.spawn(move || {
            pin_to(allocated_on);
            for _ in 0..20_000 {
                let item = zone.alloc().expect("memory");
                // SAFETY: `init` filled it, and no other thread has it.
                assert_eq!(unsafe { item.cast::<[u64; 8]>().read() }, PATTERN);
                give.send(Sent(item)).expect("the other thread lives");
            }
        });
    });
}

fn allowed_cpus() -> Vec<usize> {
    // SAFETY: a set of CPUs is plain old data, and all zeroes is the empty one.
    let mut set: libc::cpu_set_t = unsafe { core::mem::zeroed() };
    // SAFETY: writes the set, whose size is given.
    let failed = unsafe { libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) };
    assert_eq!(failed, 0);
    // SAFETY: the numbers are within the set.
    let allowed = |&cpu: &usize| unsafe { libc::CPU_ISSET(cpu, &set) };
    (0..libc::CPU_SETSIZE as usize).filter(allowed).collect()
}

/// Breaks if a zone does not notice that its items go from CPU to CPU, or never forgets it; or if a claim loses data
/// that `init` wrote.
#[test]
fn a_zone_detects_items_that_go_from_cpu_to_cpu() {
    let cpus = allowed_cpus();
    if cpus.len() < 2 {
        eprintln!("skipped: one CPU");
        return;
    }
    let zone = RawZone::builder("travel", LAYOUT)
        .hooks(Pattern)
        .build()
        .expect("a zone");
    let travels = || zone.inner().hands_over();
    pass(&zone, cpus[0], cpus[0]);
    assert!(!travels());
    pass(&zone, cpus[0], cpus[1]);
    assert!(travels());
    // No thread visits the depot between two trims: the finding expires.
    zone.trim();
    zone.trim();
    assert!(!travels());
}
