//! The protocol of `percpu.rs` on the modelled machine, in every order of its steps: two threads
//! on one CPU or two, with exchanges, migrations and a drain. Each test is run once more with
//! interrupted sections that go on, and must then fail.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --release -p mbuma-uma --lib models`

use crate::bucket::{Owned, PushOutcome};
use crate::percpu::section::{blind, migrate_after, point, run_on};
use crate::percpu::*;
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;
use loom::thread;
use std::sync::Arc;
use std::sync::Mutex;

/// Threads are switched this often in one run at most, beside where they wait or end. Each
/// planted bug needs two.
const SWITCHES_MAX: usize = 4;

fn item(n: usize) -> NonNull<u8> {
    NonNull::new(core::ptr::without_provenance_mut(0x1000 + n * 64)).unwrap()
}

/// A machine with so many items, and where they are.
struct World {
    percpu: Percpu,
    /// Which thread has which item: 0 is a bucket.
    owners: Vec<AtomicU32>,
    /// Items that lie in no bucket any more.
    loose: Mutex<Vec<usize>>,
    /// Buckets whose items were taken out. They must stay empty: a section that changes one works on a bucket that it
    /// does not own.
    retired: Mutex<Vec<Owned>>,
}

fn number(item: NonNull<u8>) -> usize {
    (item.addr().get() - 0x1000) / 64
}

/// An own bucket with one item.
fn with(n: usize) -> Owned {
    let mut bucket = Owned::alloc(2, 2).unwrap();
    assert_eq!(bucket.push(item(n)), PushOutcome::Done);
    bucket
}

/// An own bucket for one item, with it.
fn full_with(n: usize) -> Owned {
    let mut bucket = Owned::alloc(1, 1).unwrap();
    assert_eq!(bucket.push(item(n)), PushOutcome::Done);
    bucket
}

impl World {
    fn new(items: usize) -> Arc<Self> {
        Arc::new(Self {
            percpu: Percpu::new(Backend::Rseq),
            owners: (0..items).map(|_| AtomicU32::new(0)).collect(),
            loose: Mutex::new(Vec::new()),
            retired: Mutex::new(Vec::new()),
        })
    }

    /// Loads a bucket for four with some items on the CPU where this thread runs.
    fn load(&self, items: core::ops::Range<usize>) {
        let mut bucket = Owned::alloc(4, 4).unwrap();
        items.for_each(|n| assert_eq!(bucket.push(item(n)), PushOutcome::Done));
        assert!(self.percpu.replace_empty(bucket).unwrap().is_none());
    }

    /// A world with a full bucket for one item in each place of the CPU where this thread runs.
    fn with_two_full(items: usize) -> Arc<Self> {
        let world = Self::new(items);
        assert!(world.percpu.replace_empty(full_with(0)).unwrap().is_none());
        let previous = world.percpu.exchange_previous(Some(full_with(1)));
        assert!(previous.unwrap().is_none());
        world
    }

    /// Takes two items at once, and puts them back at once as far as there is room.
    fn alloc_and_free_two(&self, me: u32) {
        let mut out = [MaybeUninit::uninit(); 2];
        let got = self.percpu.pop_bulk(&mut out);
        // SAFETY: this many were written.
        let items: Vec<_> = (out[..got].iter())
            .map(|place| unsafe { place.assume_init() })
            .collect();
        items.iter().for_each(|&item| self.pass(item, 0, me));
        items.iter().for_each(|&item| self.pass(item, me, 0));
        let pushed = self.percpu.push_bulk(&items);
        for &item in &items[pushed..] {
            self.pass(item, 0, me);
            self.free(me, item);
        }
    }

    fn pass(&self, item: NonNull<u8>, from: u32, to: u32) {
        let n = number(item);
        let was = self.owners[n].swap(to, Relaxed);
        assert_eq!(was, from, "item {n} is in two places");
    }

    fn alloc(&self, me: u32) -> Option<NonNull<u8>> {
        let item = self.percpu.pop()?;
        self.pass(item, 0, me);
        Some(item)
    }

    fn free(&self, me: u32, item: NonNull<u8>) {
        self.pass(item, me, 0);
        match self.percpu.push_whole(item) {
            PushOutcome::Done => {}
            PushOutcome::Full => self.loose.lock().unwrap().push(number(item)),
            PushOutcome::Twice => panic!("{item:?} was accused"),
        }
    }

    /// Takes the items out of a bucket that a slot gave up.
    fn keep(&self, bucket: Option<Owned>) {
        let Some(mut bucket) = bucket else {
            return;
        };
        while let Some(item) = bucket.take_uncounted() {
            self.loose.lock().unwrap().push(number(item));
            point();
        }
        let mut retired = self.retired.lock().unwrap();
        let twice = retired.iter().any(|other| other.name() == bucket.name());
        retired.push(bucket);
        assert!(!twice, "a bucket was in two places");
    }

    /// Every item is in one place.
    fn check(&self) {
        assert!(self.percpu.drain(|bucket| self.keep(Some(bucket))));
        let retired = core::mem::take(&mut *self.retired.lock().unwrap());
        assert!(retired.iter().all(Owned::is_empty), "{retired:?}");
        retired.into_iter().for_each(Owned::free);
        let mut found = self.loose.lock().unwrap().clone();
        found.sort_unstable();
        assert!(found.iter().copied().eq(0..self.owners.len()), "{found:?}");
    }
}

/// Runs `first` and `second` at once, in all orders, on a world that `prepare` made.
fn in_all_orders(
    blinded: bool,
    prepare: impl Fn() -> Arc<World> + Send + Sync + 'static,
    first: fn(&World),
    second: fn(&World),
) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(SWITCHES_MAX);
    model.check(move || {
        if blinded {
            blind();
        }
        let world = prepare();
        let other = thread::spawn({
            let world = Arc::clone(&world);
            move || second(&world)
        });
        first(&world);
        other.join().unwrap();
        world.check();
    });
}

/// The test, and the same without the kernel's help, which must fail.
macro_rules! both {
    ($name:ident, $blind:ident, $prepare:expr, $first:expr, $second:expr) => {
        #[test]
        fn $name() {
            in_all_orders(false, $prepare, $first, $second);
        }

        #[test]
        #[should_panic]
        fn $blind() {
            in_all_orders(true, $prepare, $first, $second);
        }
    };
}

// Breaks if two pops on one CPU can give the same item, or a push is overwritten.
both!(
    pops_and_pushes_on_one_cpu,
    pops_and_pushes_on_one_cpu_blind,
    || {
        let world = World::new(2);
        world.load(0..2);
        world
    },
    |world| {
        if let Some(item) = world.alloc(1) {
            world.free(1, item);
        }
    },
    |world| {
        if let Some(item) = world.alloc(2) {
            world.free(2, item);
        }
    }
);

// Breaks if a section that began on one CPU commits after its thread was moved to another.
both!(
    a_thread_is_moved_inside_a_section,
    a_thread_is_moved_inside_a_section_blind,
    || {
        let world = World::new(2);
        world.load(0..2);
        world
    },
    |world| {
        for _ in 0..2 {
            if let Some(item) = world.alloc(1) {
                world.free(1, item);
            }
        }
    },
    |world| {
        migrate_after(2, 1);
        if let Some(item) = world.alloc(2) {
            world.free(2, item);
        }
    }
);

// Breaks if items copied in bulk are also popped by another.
both!(
    bulk_on_one_cpu,
    bulk_on_one_cpu_blind,
    || {
        let world = World::new(3);
        world.load(0..3);
        world
    },
    |world| world.alloc_and_free_two(1),
    |world| {
        if let Some(item) = world.alloc(2) {
            world.free(2, item);
        }
    }
);

// Breaks if bulk works on a previous bucket that another thread of its CPU has taken, or a pop is
// done again with the second bucket that was done with the first.
both!(
    bulk_across_two_buckets_and_an_exchange,
    bulk_across_two_buckets_and_an_exchange_blind,
    || World::with_two_full(3),
    |world| world.alloc_and_free_two(1),
    |world| {
        let (Ok(old) | Err(old)) = world.percpu.exchange_previous(Some(full_with(2)));
        world.keep(old);
    }
);

// Breaks if two batches on one CPU mix in its previous bucket.
both!(
    bulk_across_two_buckets_twice,
    bulk_across_two_buckets_twice_blind,
    || World::with_two_full(2),
    |world| world.alloc_and_free_two(1),
    |world| world.alloc_and_free_two(2)
);

// Breaks if a thread that is moved between its two sections, or in one, goes on where it was.
both!(
    bulk_is_moved_between_its_buckets,
    bulk_is_moved_between_its_buckets_blind,
    || World::with_two_full(2),
    |world| world.alloc_and_free_two(1),
    |world| {
        migrate_after(6, 1);
        world.alloc_and_free_two(2);
    }
);

// Breaks if a drain takes a previous bucket that bulk still works on.
both!(
    a_drain_beside_bulk_across_two_buckets,
    a_drain_beside_bulk_across_two_buckets_blind,
    || World::with_two_full(2),
    |world| world.alloc_and_free_two(1),
    |world| {
        run_on(1);
        assert!(world.percpu.drain(|bucket| world.keep(Some(bucket))));
        world.percpu.start();
    }
);

// Breaks if two exchanges on one CPU can get hold of the same bucket, or lose one.
both!(
    exchanges_on_one_cpu,
    exchanges_on_one_cpu_blind,
    || {
        let world = World::new(4);
        world.load(0..2);
        world
    },
    |world| {
        let (Ok(old) | Err(old)) = world.percpu.exchange_previous(Some(with(2)));
        world.keep(old);
    },
    |world| {
        let (Ok(old) | Err(old)) = world.percpu.exchange_previous(None);
        world.keep(old);
        match world.percpu.replace_empty(with(3)) {
            Ok(old) => world.keep(old),
            Err(own) => world.keep(Some(own)),
        }
    }
);

// Breaks if a pop between the check of a bucket and its replacement loses items, in either order.
both!(
    replacing_what_is_used_up,
    replacing_what_is_used_up_blind,
    || {
        let world = World::new(2);
        world.load(0..1);
        world
    },
    |world| {
        if let Some(item) = world.alloc(1) {
            world.free(1, item);
        }
    },
    |world| {
        match world.percpu.replace_empty(with(1)) {
            Ok(old) => world.keep(old),
            Err(own) => world.keep(Some(own)),
        }
    }
);

// Breaks if a drain takes a bucket that a pop, a push or an exchange elsewhere still works on.
both!(
    a_drain_from_another_cpu,
    a_drain_from_another_cpu_blind,
    || {
        let world = World::new(3);
        world.load(0..2);
        world
    },
    |world| {
        if let Some(item) = world.alloc(1) {
            world.free(1, item);
        }
        let (Ok(old) | Err(old)) = world.percpu.exchange_previous(Some(with(2)));
        world.keep(old);
    },
    |world| {
        run_on(1);
        assert!(world.percpu.drain(|bucket| world.keep(Some(bucket))));
        world.percpu.start();
    }
);

// Breaks if the drainer's own CPU is not stopped like the others.
both!(
    a_drain_on_the_same_cpu,
    a_drain_on_the_same_cpu_blind,
    || {
        let world = World::new(3);
        world.load(0..2);
        world
    },
    |world| {
        if let Some(item) = world.alloc(1) {
            world.free(1, item);
        }
        match world.percpu.replace_empty(with(2)) {
            Ok(old) => world.keep(old),
            Err(own) => world.keep(Some(own)),
        }
    },
    |world| {
        assert!(world.percpu.drain(|bucket| world.keep(Some(bucket))));
        world.percpu.start();
    }
);

/// The loaded bucket is empty, the previous one is not.
fn loaded_is_used_up() -> Arc<World> {
    let world = World::with_two_full(2);
    let item = world.alloc(0).unwrap();
    world.loose.lock().unwrap().push(number(item));
    world
}

/// Has the two change places, takes an item and gives it back.
fn takes_from_the_other(world: &World) {
    if world.percpu.swap_for_pop()
        && let Some(item) = world.alloc(1)
    {
        world.free(1, item);
    }
}

// Breaks if a pair that changes places with a thread cut short in between is torn: a bucket in both
// places, the other one in none.
both!(
    pairs_change_places_on_one_cpu,
    pairs_change_places_on_one_cpu_blind,
    loaded_is_used_up,
    takes_from_the_other,
    |world| {
        let (Ok(old) | Err(old)) = world.percpu.exchange_previous(None);
        world.keep(old);
        world.percpu.swap_for_push();
    }
);

// Breaks if a drain takes one bucket of a pair that is being exchanged, and the exchange puts the other one in its
// place.
both!(
    a_drain_beside_a_pair_that_changes_places,
    a_drain_beside_a_pair_that_changes_places_blind,
    loaded_is_used_up,
    takes_from_the_other,
    |world| {
        run_on(1);
        assert!(world.percpu.drain(|bucket| world.keep(Some(bucket))));
        world.percpu.start();
    }
);
