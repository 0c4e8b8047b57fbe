//! The two functions that `cargo xtask witness-cost` compares, instruction by instruction: taking a
//! mutex that WITNESS knows, and taking one that it does not.

use std::cell::Cell;
use std::hint::black_box;

use kern::lock::RawMutex;
use kern::{LockClass, Mutex, order};

static CLASS: LockClass = LockClass::new("example", order::STATS);

/// A [`Mutex`] without WITNESS. The value may be unsized there, so it is the last field in memory;
/// here too.
struct Bare<T: ?Sized> {
    class: &'static LockClass,
    raw: RawMutex,
    value: T,
}

#[inline(never)]
fn with_witness(mutex: &Mutex<Cell<u64>>) {
    let value = mutex.lock();
    value.set(value.get() + 1);
}

#[inline(never)]
fn without_witness(bare: &Bare<Cell<u64>>) {
    bare.raw.lock(bare.class);
    bare.value.set(bare.value.get() + 1);
    bare.raw.unlock();
}

fn main() {
    let mutex = Mutex::new(&CLASS, Cell::new(1));
    let bare = Bare {
        class: &CLASS,
        raw: RawMutex::new(),
        value: Cell::new(1),
    };
    with_witness(black_box(&mutex));
    without_witness(black_box(&bare));
    assert_eq!(mutex.into_inner().get(), bare.value.get());
}
