//! Every operation on both backends, then all of them at once from many threads.
//!
//! An item here is a number that looks like an address: this module does not access items.

use super::*;
use core::mem::MaybeUninit;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicU32};
use std::time::{Duration, Instant};

/// Keeps the thread on its CPU, so that it finds the items that it put there.
pub(super) fn pin() {
    #[cfg(all(target_os = "linux", not(miri)))]
    pin_to(kern::cpu::current());
}

#[cfg(all(target_os = "linux", not(miri)))]
pub(crate) fn pin_to(cpu: usize) {
    // SAFETY: a set of CPUs is plain old data, and all zeroes is the empty one.
    let mut set: libc::cpu_set_t = unsafe { core::mem::zeroed() };
    // SAFETY: the set is ours, and CPU numbers beyond it are ignored.
    unsafe { libc::CPU_SET(cpu, &mut set) };
    // SAFETY: reads the set, whose size is given.
    let failed = unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) };
    assert_eq!(failed, 0, "cannot pin to CPU {cpu}");
}

fn item(n: usize) -> NonNull<u8> {
    NonNull::new(core::ptr::without_provenance_mut(0x1000 + n * 64)).unwrap()
}

/// The test on each backend that works here, pinned.
fn on_each(test: impl Fn(&Percpu) + Send + Sync) {
    for backend in [Backend::Locked, Backend::Rseq] {
        let percpu = Percpu::new(backend);
        if percpu.backend() == backend {
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    pin();
                    test(&percpu);
                });
            });
            free_all(&percpu);
        }
    }
}

/// Takes every bucket out and frees it; the items that were inside.
fn free_all(percpu: &Percpu) -> Vec<NonNull<u8>> {
    let mut items = Vec::new();
    let drained = percpu.drain(|mut bucket| {
        bucket.drain(usize::MAX, |item| items.push(item));
        bucket.free();
    });
    assert!(drained);
    percpu.start();
    items
}

fn bucket(cap: usize, items: core::ops::Range<usize>) -> Owned {
    let mut bucket = Owned::alloc(cap, cap).unwrap();
    for n in items {
        assert_eq!(bucket.push(item(n)), PushOutcome::Done);
    }
    bucket
}

fn load(percpu: &Percpu, bucket: Owned) {
    assert!(percpu.replace_empty(bucket).unwrap().is_none());
}

fn unload(percpu: &Percpu, len: usize, popped: u64) {
    let mut old = percpu
        .exchange_previous(None)
        .unwrap()
        .into_iter()
        .collect::<Vec<_>>();
    percpu_loaded(percpu, &mut old);
    assert_eq!(old.len(), 1);
    let mut bucket = old.pop().unwrap();
    assert_eq!((bucket.len(), bucket.popped()), (len, popped));
    bucket.drain(len, drop);
    bucket.free();
}

fn percpu_loaded(percpu: &Percpu, to: &mut Vec<Owned>) {
    assert!(percpu.drain(|bucket| to.push(bucket)));
    percpu.start();
}

#[test]
fn the_sentinel_is_both_empty_and_full() {
    // Breaks if the sentinel can be popped from, pushed to, or given away as a bucket.
    on_each(|percpu| {
        assert_eq!(percpu.pop(), None);
        assert_eq!(percpu.push_whole(item(0)), PushOutcome::Full);
        assert_eq!(percpu.pop_bulk(&mut [MaybeUninit::uninit(); 5]), 0);
        assert_eq!(percpu.push_bulk(&[item(0), item(1)]), 0);
        assert!(percpu.exchange_previous(None).unwrap().is_none());
        percpu.each_slot(|_, loaded, previous| {
            assert_eq!((loaded, previous), (Bucket::sentinel(), Bucket::sentinel()));
        });
        assert!(free_all(percpu).is_empty());
    });
}

#[test]
fn items_come_back_last_in_first_out_and_pops_are_counted() {
    // Breaks if a push or pop takes the wrong entry, or the statistics miss one.
    on_each(|percpu| {
        load(percpu, bucket(4, 0..0));
        assert_eq!(percpu.pop(), None);
        for n in 0..4 {
            assert_eq!(percpu.push_whole(item(n)), PushOutcome::Done);
        }
        assert_eq!(percpu.push_whole(item(4)), PushOutcome::Full);
        for n in (0..4).rev() {
            assert_eq!(percpu.pop(), Some(item(n)));
        }
        assert_eq!(percpu.pop(), None);
        assert_eq!(percpu.push_whole(item(9)), PushOutcome::Done);
        unload(percpu, 1, 4);
    });
}

#[test]
fn an_item_pushed_twice_in_a_row_is_refused() {
    // Breaks if a double free right after the free goes unseen, or an innocent item is accused.
    on_each(|percpu| {
        load(percpu, bucket(4, 0..0));
        assert_eq!(percpu.push_whole(item(1)), PushOutcome::Done);
        assert_eq!(percpu.push_whole(item(1)), PushOutcome::Twice);
        assert_eq!(percpu.push_whole(item(2)), PushOutcome::Done);
        assert_eq!(percpu.push_whole(item(2)), PushOutcome::Twice);
        assert_eq!(percpu.pop(), Some(item(2)));
        assert_eq!(percpu.push_whole(item(2)), PushOutcome::Done);
        unload(percpu, 2, 1);
        // One that filled the bucket, too.
        load(percpu, bucket(2, 0..1));
        assert_eq!(percpu.push_whole(item(5)), PushOutcome::Done);
        assert_eq!(percpu.push_whole(item(5)), PushOutcome::Twice);
        assert_eq!(percpu.push_whole(item(6)), PushOutcome::Full);
        unload(percpu, 2, 0);
    });
}

#[test]
fn bulk_moves_as_many_as_there_are() {
    // Breaks if a bulk operation copies one item too many or too few, for any length.
    on_each(|percpu| {
        for (cap, first, more) in [(1, 1, 1), (8, 3, 9), (70, 0, 64), (70, 5, 3), (13, 13, 1)] {
            load(percpu, bucket(cap, 0..first));
            let pushed: Vec<_> = (first..first + more).map(item).collect();
            let fitting = more.min(cap - first);
            assert_eq!(percpu.push_bulk(&pushed), fitting);
            assert_eq!(percpu.push_bulk(&[]), 0);
            let held = first + fitting;
            for want in [0, 1, 2, 7, 100] {
                let mut out = [MaybeUninit::new(item(999)); 101];
                let before = lens(percpu).0;
                let got = percpu.pop_bulk(&mut out[..want]);
                assert_eq!(got, want.min(before));
                for (place, out) in out.iter().enumerate() {
                    // SAFETY: written above, and perhaps once more.
                    let out = unsafe { out.assume_init() };
                    let expected = if place < got {
                        before - got + place
                    } else {
                        999
                    };
                    assert_eq!(out, item(expected));
                }
            }
            unload(percpu, 0, held as u64);
        }
    });
}

#[test]
fn bulk_goes_on_with_the_previous_bucket() {
    // Breaks if an item is lost, doubled or moved elsewhere where a batch lies across the two
    // buckets; if the previous one is used while the loaded one would do, or its pops are not
    // counted.
    on_each(|percpu| {
        for (cap, before, want) in [(4, 4, 3), (4, 4, 6), (8, 3, 9), (70, 70, 133), (5, 2, 99)] {
            load(percpu, bucket(cap, 0..before));
            let previous = Some(bucket(cap, before..2 * before));
            assert!(percpu.exchange_previous(previous).unwrap().is_none());
            let mut out = [MaybeUninit::new(item(999)); 200];
            let got = percpu.pop_bulk(&mut out[..want]);
            assert_eq!(got, want.min(2 * before));
            let from_loaded = got.min(before);
            let from_previous = got - from_loaded;
            // SAFETY: all of it was written at least once.
            let out = out.map(|place| unsafe { place.assume_init() });
            let expected =
                (before - from_loaded..before).chain(2 * before - from_previous..2 * before);
            assert!(out[..got].iter().copied().eq(expected.map(item)));
            assert!(out[got..].iter().all(|&rest| rest == item(999)));
            assert_eq!(lens(percpu), (before - from_loaded, before - from_previous));

            let many: Vec<_> = (1000..1000 + want).map(item).collect();
            let room = cap - (before - from_loaded);
            let more_room = cap - (before - from_previous);
            let pushed = percpu.push_bulk(&many);
            assert_eq!(pushed, want.min(room + more_room));
            let (loaded, previous) = lens(percpu);
            assert_eq!(loaded, before - from_loaded + pushed.min(room));
            assert_eq!(loaded + previous, 2 * before - got + pushed);

            let mut popped = 0;
            let mut items = Vec::new();
            assert!(percpu.drain(|mut bucket| {
                popped += bucket.popped();
                bucket.drain(usize::MAX, |item| items.push(item));
                bucket.free();
            }));
            percpu.start();
            assert_eq!(popped, got as u64);
            items.extend(&out[..got]);
            items.sort_unstable();
            let all = (0..2 * before).chain(1000..1000 + pushed).map(item);
            assert!(items.into_iter().eq(all));
        }
    });
}

#[test]
fn a_pop_of_the_loaded_bucket_leaves_the_previous_one() {
    // Breaks if putting a bucket aside, so that the next allocation finds none, also takes the
    // items of the other bucket.
    on_each(|percpu| {
        load(percpu, bucket(4, 0..2));
        let previous = Some(bucket(4, 2..5));
        assert!(percpu.exchange_previous(previous).unwrap().is_none());
        assert_eq!(percpu.pop_loaded(&mut [MaybeUninit::uninit(); 9]), 2);
        assert_eq!(lens(percpu), (0, 3));
    });
}

/// Items in the loaded and the previous buckets, which only this thread works on.
fn lens(percpu: &Percpu) -> (usize, usize) {
    let mut lens = (0, 0);
    percpu.each_slot(|_, loaded, previous| {
        // SAFETY: only this thread works on the slots, and it frees none now.
        lens.0 += unsafe { crate::bucket::peek(loaded) }.0;
        // SAFETY: as above.
        lens.1 += unsafe { crate::bucket::peek(previous) }.0;
    });
    lens
}

#[test]
fn loaded_is_replaced_only_when_it_is_used_up() {
    // Breaks if an exchange loses items, or does not happen when it should.
    on_each(|percpu| {
        load(percpu, bucket(2, 0..1));
        let refused = percpu.replace_empty(bucket(2, 0..0)).unwrap_err();
        let refused = percpu.replace_full(refused).unwrap_err();
        assert_eq!(percpu.push_whole(item(5)), PushOutcome::Done);
        let mut full = percpu.replace_full(refused).unwrap().unwrap();
        assert_eq!(full.items(), [item(0), item(5)]);
        assert_eq!(full.pop(), Some(item(5)));
        let empty = percpu.replace_empty(full).unwrap().unwrap();
        assert!(empty.is_empty());
        assert!(percpu.exchange_previous(Some(empty)).unwrap().is_none());
        let empty = percpu.exchange_previous(None).unwrap().unwrap();
        empty.free();
        unload(percpu, 1, 1);
    });
}

#[test]
fn the_buckets_are_exchanged_only_if_the_other_is_usable() {
    // Breaks if an exchange of the two buckets loses or doubles one, or happens without need: two threads could then
    // exchange for ever.
    on_each(|percpu| {
        // Where a section has no store of a pair the slow way does it, bucket by bucket.
        let can = percpu.backend() == Backend::Locked || cfg!(target_arch = "x86_64");
        assert!(
            !percpu.swap_for_pop() && !percpu.swap_for_push(),
            "no buckets"
        );
        assert!(
            percpu
                .exchange_previous(Some(bucket(2, 0..2)))
                .unwrap()
                .is_none()
        );
        assert!(!percpu.swap_for_push(), "the other one is full");
        assert_eq!(percpu.swap_for_pop(), can);
        if !can {
            return;
        }
        assert_eq!(lens(percpu), (2, 0));
        assert!(!percpu.swap_for_pop(), "there are some in the loaded one");
        assert!(!percpu.swap_for_push(), "there is no other one");
        assert!(
            percpu
                .exchange_previous(Some(bucket(3, 2..4)))
                .unwrap()
                .is_none()
        );
        assert!(percpu.swap_for_push());
        assert_eq!(lens(percpu), (2, 2));
        assert!(!percpu.swap_for_push(), "there is room in the loaded one");
        assert_eq!(percpu.push_whole(item(4)), PushOutcome::Done);
        assert!(!percpu.swap_for_push(), "both are full");
        assert_eq!(percpu.pop_loaded(&mut [MaybeUninit::uninit(); 3]), 3);
        percpu.stop_cpus(|_| true);
        assert!(percpu.fence());
        assert!(!percpu.swap_for_pop(), "stopped");
        percpu.start();
        assert!(percpu.swap_for_pop());
        assert!(!percpu.swap_for_pop());
        assert_eq!(percpu.pop(), Some(item(1)));
        assert_eq!(free_all(percpu), [item(0)]);
    });
}

#[test]
fn a_lowered_capacity_is_full() {
    // Breaks if a bucket with more items than it may hold counts as having room (a huge number).
    on_each(|percpu| {
        let mut shrunk = bucket(8, 0..6);
        shrunk.set_cap(4);
        load(percpu, shrunk);
        assert_eq!(percpu.push_whole(item(7)), PushOutcome::Full);
        assert_eq!(percpu.push_bulk(&[item(7), item(8)]), 0);
        assert_eq!(percpu.pop(), Some(item(5)));
        let old = percpu.replace_full(bucket(1, 0..0)).unwrap().unwrap();
        assert!(percpu.exchange_previous(Some(old)).unwrap().is_none());
        let items = free_all(percpu);
        assert_eq!(items.len(), 5);
    });
}

#[test]
fn a_stopped_cpu_gives_and_takes_no_bucket() {
    // Breaks if a bucket could come to a slot while the drainer empties it: it would be lost.
    on_each(|percpu| {
        load(percpu, bucket(2, 0..1));
        percpu.stop_cpus(|_| true);
        assert!(percpu.fence());
        assert_eq!(percpu.pop(), Some(item(0)), "pops do not look at the flag");
        let refused = percpu.replace_empty(bucket(2, 0..0)).unwrap_err();
        let refused = percpu
            .exchange_previous(Some(refused))
            .unwrap_err()
            .unwrap();
        assert!(percpu.exchange_previous(None).unwrap_err().is_none());
        assert_eq!(percpu.push_bulk(&[item(1), item(2)]), 2);
        let refused = percpu.replace_full(refused).unwrap_err();
        percpu.start();
        let full = percpu.replace_full(refused).unwrap().unwrap();
        assert!(percpu.exchange_previous(Some(full)).unwrap().is_none());
        assert_eq!(free_all(percpu).len(), 2);
    });
}

#[test]
fn a_drain_takes_what_the_chosen_cpus_have() {
    // Breaks if a drain forgets a bucket, takes one of another CPU, or leaves the slot unusable.
    on_each(|percpu| {
        let here = kern::cpu::current();
        load(percpu, bucket(2, 0..1));
        let previous = Some(bucket(2, 1..3));
        assert!(percpu.exchange_previous(previous).unwrap().is_none());
        let none = percpu.drain_cpus(|cpu| cpu != here, |_| panic!("not this CPU's"));
        assert!(none);
        let mut taken = Vec::new();
        assert!(percpu.drain_cpus(|cpu| cpu == here, |bucket| taken.push(bucket)));
        assert_eq!(taken.iter().map(Owned::len).sum::<usize>(), 3);
        assert_eq!(percpu.pop(), None);
        let again = taken.pop().unwrap();
        let again = percpu.replace_empty(again).unwrap_err();
        percpu.start_cpus(|cpu| cpu == here);
        load(percpu, again);
        percpu.start();
        for mut bucket in taken {
            bucket.drain(usize::MAX, drop);
            bucket.free();
        }
        assert_eq!(free_all(percpu).len(), 2);
    });
}

#[test]
fn the_backend_has_a_name_for_statistics() {
    // Breaks if a column of the statistics loses its width.
    assert_eq!(
        format!("{:>5}|{}", Backend::Rseq, Backend::Locked),
        " rseq|lock"
    );
    assert_eq!(Percpu::new(Backend::Locked).backend(), Backend::Locked);
}

/// How many threads, on how many CPUs, and how long.
const THREADS: usize = if cfg!(miri) { 3 } else { 4 };
const ITEMS: usize = if cfg!(miri) { 60 } else { 600 };
const TIME: Duration = Duration::from_millis(if cfg!(miri) { 300 } else { 1000 });
const CAP: usize = 16;

/// Threads that take and give items one by one, in bulk, and by exchanging buckets with a depot,
/// while one of them drains. Each item has a word that names its present owner.
struct Storm {
    percpu: Percpu,
    owners: Vec<AtomicU32>,
    depot: std::sync::Mutex<Depot>,
    draining: std::sync::Mutex<()>,
    over: AtomicBool,
}

#[derive(Default)]
struct Depot {
    items: Vec<NonNull<u8>>,
    empty: Vec<Owned>,
}

// SAFETY: items are numbers here.
unsafe impl Send for Depot {}

/// In a bucket or in the depot.
const FREE: u32 = 0;

impl Storm {
    fn new(backend: Backend) -> Self {
        Self {
            percpu: Percpu::new(backend),
            owners: (0..ITEMS).map(|_| AtomicU32::new(FREE)).collect(),
            depot: std::sync::Mutex::new(Depot {
                items: (0..ITEMS).map(item).collect(),
                empty: Vec::new(),
            }),
            draining: std::sync::Mutex::new(()),
            over: AtomicBool::new(false),
        }
    }

    /// Moves an item from one holder to another; its word must name `from`.
    fn pass(&self, item: NonNull<u8>, from: u32, to: u32) {
        let n = (item.addr().get() - 0x1000) / 64;
        let was = self.owners[n].swap(to, Relaxed);
        if was != from {
            self.over.store(true, Relaxed);
        }
        assert_eq!(was, from, "item {n} is in two places");
    }

    fn alloc(&self, me: u32) -> Option<NonNull<u8>> {
        let item = self.percpu.pop().or_else(|| self.refill())?;
        self.pass(item, FREE, me);
        Some(item)
    }

    fn free(&self, me: u32, item: NonNull<u8>) {
        self.pass(item, me, FREE);
        match self.percpu.push_whole(item) {
            PushOutcome::Done => {}
            PushOutcome::Full => self.make_room(item),
            PushOutcome::Twice => panic!("{item:?} was accused"),
        }
    }

    fn empty_bucket(&self) -> Owned {
        let used = self.depot.lock().unwrap().empty.pop();
        used.unwrap_or_else(|| Owned::alloc(CAP, CAP).unwrap())
    }

    fn keep(&self, mut bucket: Owned) {
        let mut depot = self.depot.lock().unwrap();
        bucket.drain(usize::MAX, |item| depot.items.push(item));
        depot.empty.push(bucket);
    }

    /// An item for the caller, and a bucket with more of them for its CPU.
    fn refill(&self) -> Option<NonNull<u8>> {
        if let Ok(Some(mut previous)) = self.percpu.exchange_previous(None) {
            let item = previous.pop();
            self.give(previous);
            if item.is_some() {
                return item;
            }
        }
        let mut bucket = self.empty_bucket();
        let item = {
            let mut depot = self.depot.lock().unwrap();
            while !bucket.is_full()
                && let Some(item) = depot.items.pop()
            {
                assert_eq!(bucket.push(item), PushOutcome::Done);
            }
            bucket.pop()
        };
        self.give(bucket);
        item
    }

    fn give(&self, bucket: Owned) {
        match self.percpu.replace_empty(bucket) {
            Ok(old) => old.into_iter().for_each(|old| self.keep(old)),
            Err(bucket) => self.keep(bucket),
        }
    }

    fn make_room(&self, item: NonNull<u8>) {
        let mut bucket = self.empty_bucket();
        assert_eq!(bucket.push(item), PushOutcome::Done);
        let full = match self.percpu.replace_full(bucket) {
            Ok(Some(full)) => full,
            Ok(None) => return,
            Err(bucket) => bucket,
        };
        match self.percpu.exchange_previous(Some(full)) {
            Ok(old) => old.into_iter().for_each(|old| self.keep(old)),
            Err(bucket) => self.keep(bucket.expect("ours came back")),
        }
    }

    fn alloc_bulk(&self, me: u32, held: &mut Vec<NonNull<u8>>) {
        let mut out = [MaybeUninit::uninit(); 11];
        let got = self.percpu.pop_bulk(&mut out);
        for place in &out[..got] {
            // SAFETY: this many were written.
            let item = unsafe { place.assume_init() };
            self.pass(item, FREE, me);
            held.push(item);
        }
    }

    fn free_bulk(&self, me: u32, held: &mut Vec<NonNull<u8>>) {
        let tail = held.split_off(held.len() - held.len().min(7));
        for &item in &tail {
            self.pass(item, me, FREE);
        }
        let pushed = self.percpu.push_bulk(&tail);
        for &item in &tail[pushed..] {
            self.make_room(item);
        }
    }

    fn drain(&self) {
        let _one = self.draining.lock().unwrap();
        assert!(self.percpu.drain(|bucket| self.keep(bucket)));
        self.percpu.start();
    }

    fn run(&self, me: u32) -> u64 {
        let until = Instant::now() + TIME;
        let mut random = kern::Random::from_seed(u64::from(me));
        let mut held = Vec::new();
        let mut ops = 0;
        while !self.over.load(Relaxed) && (ops % 64 != 0 || Instant::now() < until) {
            ops += 1;
            match random.next_u64() % 1024 {
                0 if me == 1 => self.drain(),
                1..4 => std::thread::yield_now(),
                4..40 => self.alloc_bulk(me, &mut held),
                40..90 => self.free_bulk(me, &mut held),
                n if n % 2 == 0 => held.extend(self.alloc(me)),
                _ => held.pop().into_iter().for_each(|item| self.free(me, item)),
            }
        }
        held.into_iter().for_each(|item| self.free(me, item));
        ops
    }
}

fn storm(backend: Backend) {
    let storm = Storm::new(backend);
    if storm.percpu.backend() != backend {
        return;
    }
    let ops: u64 = std::thread::scope(|scope| {
        let threads: Vec<_> = (1..=THREADS as u32)
            .map(|me| {
                let storm = &storm;
                scope.spawn(move || storm.run(me))
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .sum()
    });
    storm.drain();
    let mut depot = storm.depot.into_inner().unwrap();
    let mut items: Vec<_> = depot.items.iter().map(|item| item.addr()).collect();
    items.sort_unstable();
    let expected: Vec<_> = (0..ITEMS).map(|n| item(n).addr()).collect();
    assert_eq!(items, expected, "after {ops} operations");
    depot.empty.drain(..).for_each(Owned::free);
}

#[test]
fn no_item_is_lost_or_doubled_by_sections() {
    // Breaks if a section commits after an interruption, or an exchange runs during a drain.
    storm(Backend::Rseq);
}

#[test]
fn no_item_is_lost_or_doubled_under_locks() {
    // Breaks if two threads get into one slot, or a fence does not wait for the one inside.
    storm(Backend::Locked);
}

/// The storm with most sections interrupted, and with sections that are not announced to the kernel.
#[cfg(feature = "stretched")]
mod stretched {
    use super::*;

    /// A section then lasts some 10 us, so that other threads' wakeups fall into it.
    const PAUSES: u32 = 300;

    #[test]
    fn no_item_is_lost_or_doubled_when_most_sections_are_interrupted() {
        // Breaks if the code after an abort is wrong: aborts are rare without this test.
        STRETCH.store(PAUSES, Relaxed);
        let before = kern::rseq::aborts();
        storm(Backend::Rseq);
        if Backend::choose() == Backend::Rseq {
            assert_ne!(kern::rseq::aborts(), before, "no section was interrupted");
        }
    }

    #[test]
    fn the_storm_notices_when_sections_are_not_announced() {
        // Breaks if the storm could not have seen a mistake. It runs in a process of its own,
        // because it may corrupt any memory.
        if Backend::choose() != Backend::Rseq {
            return;
        }
        let itself = std::env::current_exe().unwrap();
        let run = std::process::Command::new(itself)
            .args(["--ignored", "--exact"])
            .arg("percpu::tests::stretched::a_storm_without_the_kernel")
            .output()
            .unwrap();
        assert!(!run.status.success(), "{run:?}");
    }

    #[test]
    #[ignore = "corrupts memory: the_storm_notices_when_sections_are_not_announced runs it"]
    fn a_storm_without_the_kernel() {
        STRETCH.store(PAUSES, Relaxed);
        ARMED.store(0, Relaxed);
        std::thread::spawn(|| {
            std::thread::sleep(TIME * 20);
            std::process::abort();
        });
        storm(Backend::Rseq);
    }
}
