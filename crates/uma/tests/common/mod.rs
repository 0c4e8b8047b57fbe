//! Helpers of several test files: making zones, checking that a zone balances, small randomness.

#![allow(
    unreachable_pub,
    reason = "a test has no other crate to show things to"
)]
#![allow(dead_code, reason = "each test file uses a part of it")]

use core::alloc::Layout;
use core::ptr::NonNull;
use uma::{Hooks, RawZone, ZoneBuilder};

pub fn layout(size: usize, align: usize) -> Layout {
    Layout::from_size_align(size, align).expect("tests ask for layouts that exist")
}

pub fn builder(size: usize, align: usize) -> ZoneBuilder {
    RawZone::builder("test", layout(size, align))
}

pub fn zone(size: usize, align: usize) -> RawZone {
    builder(size, align)
        .build()
        .expect("there is address space")
}

/// No item is live, and after a drain the zone holds no memory.
pub fn assert_balance<H: Hooks>(zone: &RawZone<H>) {
    assert_eq!(zone.live(), 0, "items are still live");
    zone.drain();
    let stats = zone.stats();
    assert!(zone.is_valid());
    assert_eq!(stats.requests, stats.frees);
    assert_eq!(
        (stats.used, stats.cached(), stats.free_in_slabs, stats.bytes),
        (0, 0, 0, 0)
    );
}

/// An item as a word in it, to write owners into. Items are at least 8 bytes apart.
pub fn word(item: NonNull<u8>) -> NonNull<u64> {
    item.cast()
}

pub fn write(item: NonNull<u8>, value: u64) {
    // SAFETY: tests call this with live items of 8 bytes or more, aligned to 8, that they own.
    unsafe { word(item).write(value) }
}

pub fn read(item: NonNull<u8>) -> u64 {
    // SAFETY: as for write; every item read was written first.
    unsafe { word(item).read() }
}

pub fn free<H: Hooks>(zone: &RawZone<H>, item: NonNull<u8>) {
    // SAFETY: tests free what they allocated from this zone, once.
    unsafe { zone.free(item) }
}

/// xorshift64*: enough to shuffle with, and the same everywhere.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % n
    }
}

/// A pointer that may change threads: a test's items do.
pub struct Item(pub NonNull<u8>);

// SAFETY: the owner of the Item is the only one to touch the memory that it points to.
unsafe impl Send for Item {}

/// Keeps this thread on one CPU, so that a short test has threads on several; where that is not
/// allowed the thread stays where it was, and the test is only milder.
#[cfg(not(miri))]
pub fn pin(n: u64) {
    let allowed = ALLOWED.get_or_init(allowed_cpus);
    let cpu = allowed[n as usize % allowed.len()];
    // SAFETY: all zeroes is an empty set of CPUs.
    let mut set: libc::cpu_set_t = unsafe { core::mem::zeroed() };
    // SAFETY: CPU_SET checks the number against the size of the set.
    unsafe { libc::CPU_SET(cpu, &mut set) };
    // SAFETY: `set` is valid and of the size given; 0 is the calling thread.
    unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) };
}

/// The CPUs that this process may use: a container may have any of the machine's.
#[cfg(not(miri))]
static ALLOWED: std::sync::OnceLock<Vec<usize>> = std::sync::OnceLock::new();

/// Those of its first thread, which no test pins.
#[cfg(not(miri))]
fn allowed_cpus() -> Vec<usize> {
    let process = std::process::id().cast_signed();
    // SAFETY: all zeroes is an empty set of CPUs.
    let mut set: libc::cpu_set_t = unsafe { core::mem::zeroed() };
    // SAFETY: `set` is valid and of the size given.
    let failed = unsafe { libc::sched_getaffinity(process, size_of_val(&set), &raw mut set) };
    assert_eq!(failed, 0, "the CPUs of this process");
    // SAFETY: the number is within the set.
    let is_in = |&cpu: &usize| unsafe { libc::CPU_ISSET(cpu, &set) };
    (0..libc::CPU_SETSIZE as usize).filter(is_in).collect()
}

#[cfg(miri)]
pub fn pin(_n: u64) {}
