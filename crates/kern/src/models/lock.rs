//! Models of the locks' protocols: loom walks through every interleaving of two or three threads, within a bound of
//! preemptions, and every value that the orderings allow. The code under test is `mutex_word.rs`, `rwlock_word.rs`,
//! `rmlock_word.rs` and `condvar/sequence.rs` themselves, on a word whose sleepers are loom's. A lost wakeup ends in a
//! deadlock, which loom reports. The planted bugs show that the models find mistakes.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --release -p mbuma-kern --lib -- models`

use core::marker::PhantomData;
use core::sync::atomic::Ordering::{Relaxed, Release, SeqCst};
use core::time::Duration;
use std::collections::VecDeque;
use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::sync::{Condvar, Mutex};
use loom::thread;

use crate::condvar::Sequence;
use crate::lock::mutex_word::MutexWord;
use crate::lock::rmlock_word::RmLockWord;
use crate::lock::rwlock_word::{RwLockWord, Write};
use crate::lock::word::{LockWord, Waiter};

/// A mistake, made by the word.
trait Bug: Send + Sync + 'static {
    const PATIENCE: u32 = u32::MAX;
    /// The comparison of the word and the queueing of the sleeper are two steps.
    const SLEEPS_BLINDLY: bool = false;
    /// A woken thread takes the lock without the mark that other threads may sleep.
    const FORGETS_WAITERS: bool = false;
    /// A release is relaxed: it does not publish earlier writes.
    const RELAXED: bool = false;
    /// A notification does not move the sequence.
    const STANDS_STILL: bool = false;
    /// The end of a write does not change the phase.
    const KEEPS_PHASE: bool = false;
    /// No fence is between an addition and the load of the other word.
    const UNFENCED: bool = false;
    /// A reader that leaves does not wake the writer.
    const WAKES_NO_WRITER: bool = false;
}

/// The word without a mistake.
struct Right;
impl Bug for Right {}

/// The word without a mistake, but a sleeper that was overtaken once gets the lock handed over.
struct Impatient;
impl Bug for Impatient {
    const PATIENCE: u32 = 1;
}

struct SleepsBlindly;
impl Bug for SleepsBlindly {
    const SLEEPS_BLINDLY: bool = true;
}

struct ForgetsWaiters;
impl Bug for ForgetsWaiters {
    const FORGETS_WAITERS: bool = true;
}

struct RelaxedRelease;
impl Bug for RelaxedRelease {
    const RELAXED: bool = true;
}

struct StandsStill;
impl Bug for StandsStill {
    const STANDS_STILL: bool = true;
}

struct KeepsPhase;
impl Bug for KeepsPhase {
    const KEEPS_PHASE: bool = true;
}

struct Unfenced;
impl Bug for Unfenced {
    const UNFENCED: bool = true;
}

struct WakesNobody;
impl Bug for WakesNobody {
    const WAKES_NO_WRITER: bool = true;
}

/// A futex, as loom sees it.
struct Model<B> {
    value: AtomicU32,
    queue: Mutex<Queue>,
    woken: Condvar,
    _bug: PhantomData<B>,
}

/// The kernel's queue of sleepers, by number.
#[derive(Default)]
struct Queue {
    asleep: VecDeque<u32>,
    next: u32,
}

const WAITERS: u32 = 1 << 31;
const WRITER: u32 = 1 << 30;

impl<B: Bug> Model<B> {
    fn new() -> Self {
        Self {
            value: AtomicU32::new(0),
            queue: Mutex::default(),
            woken: Condvar::new(),
            _bug: PhantomData,
        }
    }

    fn order(order: Ordering) -> Ordering {
        if B::RELAXED && matches!(order, Release | SeqCst) {
            Relaxed
        } else {
            order
        }
    }
}

impl<B: Bug> LockWord for Model<B> {
    const PATIENCE: u32 = B::PATIENCE;

    fn load(&self, order: Ordering) -> u32 {
        self.value.load(order)
    }

    fn compare_exchange(
        &self,
        current: u32,
        mut new: u32,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u32, u32> {
        if B::FORGETS_WAITERS && current == 0 {
            new &= !WAITERS;
        }
        self.value
            .compare_exchange(current, new, Self::order(success), failure)
    }

    fn fetch_add(&self, value: u32, order: Ordering) -> u32 {
        // Only for the bug that needs it: each load is one more step to interleave.
        let before = match B::KEEPS_PHASE || B::STANDS_STILL {
            true => self.value.load(Relaxed),
            false => 0,
        };
        if B::KEEPS_PHASE && value == WRITER && before & WRITER != 0 {
            return self.value.fetch_sub(value, Self::order(order));
        }
        if B::STANDS_STILL && value == 1 {
            return before;
        }
        self.value.fetch_add(value, Self::order(order))
    }

    fn fetch_sub(&self, value: u32, order: Ordering) -> u32 {
        self.value.fetch_sub(value, Self::order(order))
    }

    fn sleep(&self, expected: u32, _: Option<Duration>) {
        if B::SLEEPS_BLINDLY && self.value.load(SeqCst) != expected {
            return;
        }
        let mut queue = self.queue.lock().expect("no panic");
        if !B::SLEEPS_BLINDLY && self.value.load(SeqCst) != expected {
            return;
        }
        let me = queue.next;
        queue.next += 1;
        queue.asleep.push_back(me);
        while queue.asleep.contains(&me) {
            queue = self.woken.wait(queue).expect("no panic");
        }
    }

    fn fence_after_add() {
        Self::fence();
    }

    fn fence() {
        if !B::UNFENCED {
            loom::sync::atomic::fence(SeqCst);
        }
    }

    fn wake_one(&self) {
        if B::WAKES_NO_WRITER {
            return;
        }
        let mut queue = self.queue.lock().expect("no panic");
        if queue.asleep.pop_front().is_some() {
            self.woken.notify_all();
        }
    }

    fn wake_all(&self) {
        let mut queue = self.queue.lock().expect("no panic");
        queue.asleep.clear();
        self.woken.notify_all();
    }

    fn spins() -> u32 {
        0
    }

    fn pause(_: u32) {}
}

/// Waits, and counts how often a lock was handed over: outside loom, over all orders.
#[derive(Default, Clone)]
struct Counting(Arc<core::sync::atomic::AtomicU32>);

impl Waiter for Counting {
    fn sleeps(&mut self) {}

    fn handed(&mut self) {
        self.0.fetch_add(1, Relaxed);
    }
}

fn check(scenario: impl Fn() + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.max_branches = 20_000;
    model.check(scenario);
}

/// A value under a mutex; loom reports two threads that access it at once, or a thread that does
/// not see another's write.
struct Guarded<B> {
    mutex: MutexWord<Model<B>>,
    changed: Sequence<Model<B>>,
    value: UnsafeCell<u32>,
}

// SAFETY: the value is under the mutex; the models check that this holds.
unsafe impl<B: Bug> Sync for Guarded<B> {}
// SAFETY: as above.
unsafe impl<B: Bug> Send for Guarded<B> {}

impl<B: Bug> Guarded<B> {
    fn new() -> Self {
        Self {
            mutex: MutexWord::new(Model::new()),
            changed: Sequence::new(Model::new()),
            value: UnsafeCell::new(0),
        }
    }

    fn lock(&self, me: u32, waiter: &Counting) {
        if !self.mutex.try_lock(me) {
            self.mutex.lock_slow(me, &mut waiter.clone());
        }
    }

    fn add(&self) -> u32 {
        self.value.with_mut(|value| {
            // SAFETY: this thread has the mutex, or loom reports it.
            unsafe { *value += 1 };
            // SAFETY: as above.
            unsafe { *value }
        })
    }
}

/// Three threads take the mutex `times` each; their count must be right.
fn three_threads<B: Bug>(times: [u32; 3], waiter: Counting) {
    check(move || {
        let shared = Arc::new(Guarded::<B>::new());
        let turns = |me: u32, times: u32| {
            let (shared, waiter) = (Arc::clone(&shared), waiter.clone());
            move || {
                for _ in 0..times {
                    shared.lock(me, &waiter);
                    shared.add();
                    shared.mutex.unlock();
                }
            }
        };
        let others = [1, 2].map(|me| thread::spawn(turns(me, times[me as usize])));
        turns(3, times[0])();
        for other in others {
            other.join().expect("no panic");
        }
        shared.lock(3, &waiter);
        assert_eq!(shared.add(), 1 + times.iter().sum::<u32>());
        assert_eq!(shared.mutex.word().load(Relaxed), 3, "a flag stayed behind");
    });
}

#[test]
fn the_mutex_excludes_and_loses_no_wakeup() {
    // Breaks if two threads can be in at once, one can sleep for ever, or a release can be unseen.
    three_threads::<Right>([1, 1, 1], Counting::default());
}

#[test]
fn a_mutex_with_handoff_excludes_and_loses_no_wakeup() {
    // Breaks if a hand-over can be lost, or leave the lock without an owner; and if there was none.
    let waiter = Counting::default();
    three_threads::<Impatient>([2, 1, 1], waiter.clone());
    assert!(waiter.0.load(Relaxed) > 0, "no order with a hand-over");
}

#[test]
#[should_panic(expected = "deadlock")]
fn the_model_finds_a_sleep_that_does_not_compare() {
    three_threads::<SleepsBlindly>([1, 1, 1], Counting::default());
}

#[test]
#[should_panic(expected = "deadlock")]
fn the_model_finds_a_forgotten_mark() {
    three_threads::<ForgetsWaiters>([1, 1, 1], Counting::default());
}

#[test]
#[should_panic(expected = "Causality violation")]
fn the_model_finds_a_relaxed_release() {
    three_threads::<RelaxedRelease>([1, 1, 1], Counting::default());
}

/// One thread waits until two others have each changed the value and notified.
fn sleeper_and_two<B: Bug>() {
    check(|| {
        let shared = Arc::new(Guarded::<B>::new());
        let others = [1, 2].map(|me| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                shared.lock(me, &Counting::default());
                shared.add();
                shared.mutex.unlock();
                shared.changed.wake_one();
            })
        });
        shared.lock(3, &Counting::default());
        // SAFETY: this thread has the mutex whenever it looks.
        while shared.value.with(|value| unsafe { *value }) < 2 {
            let seen = shared.changed.now();
            shared.mutex.unlock();
            shared.changed.sleep(seen, None);
            shared.lock(3, &Counting::default());
        }
        shared.mutex.unlock();
        for other in others {
            other.join().expect("no panic");
        }
    });
}

#[test]
fn the_condition_variable_loses_no_notification() {
    // Breaks if a notification between the sleeper's look and its sleep can be lost.
    sleeper_and_two::<Right>();
}

#[test]
#[should_panic(expected = "deadlock")]
fn the_model_finds_a_notification_that_keeps_the_sequence() {
    sleeper_and_two::<StandsStill>();
}

/// A value under a read-write lock.
struct Shared<B> {
    lock: RwLockWord<Model<B>>,
    value: UnsafeCell<u32>,
}

// SAFETY: the value is under the lock; that this is so is what the models are about.
unsafe impl<B: Bug> Sync for Shared<B> {}
// SAFETY: as above.
unsafe impl<B: Bug> Send for Shared<B> {}

impl<B: Bug> Shared<B> {
    fn new() -> Self {
        Self {
            lock: RwLockWord::new(Model::new(), Model::new(), Model::new()),
            value: UnsafeCell::new(0),
        }
    }

    fn read(&self) -> u32 {
        if let Err(counted) = self.lock.read() {
            self.lock.read_slow(counted, &mut Counting::default());
        }
        // SAFETY: this thread reads, or loom reports it.
        let value = self.value.with(|value| unsafe { *value });
        self.lock.unlock_read();
        value
    }

    fn write(&self, me: u32) {
        let waiter = &mut Counting::default();
        match self.lock.write(me) {
            Write::Alone => {}
            Write::Behind => self.lock.write_slow(me, waiter),
            Write::Readers(readers) => self.lock.drain(readers, waiter),
        }
        // SAFETY: this thread writes, or loom reports it.
        self.value.with_mut(|value| unsafe { *value += 1 });
        self.lock.unlock_write();
    }
}

/// `writers` threads write, a third or second one reads twice.
fn readers_and_writers<B: Bug>(writers: u32, times: u32, reads: u32) {
    check(move || {
        let shared = Arc::new(Shared::<B>::new());
        let others: Vec<_> = (1..=writers)
            .map(|me| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || (0..times).for_each(|_| shared.write(me)))
            })
            .collect();
        let mut last = 0;
        for _ in 0..reads {
            let value = shared.read();
            assert!(value >= last, "time ran backwards");
            last = value;
        }
        for other in others {
            other.join().expect("no panic");
        }
        assert_eq!(shared.read(), writers * times);
    });
}

#[test]
fn the_read_write_lock_excludes_and_loses_no_wakeup() {
    // Breaks if a reader can be in beside a writer, one can sleep for ever, or a release is unseen.
    readers_and_writers::<Right>(2, 1, 2);
    readers_and_writers::<Right>(1, 2, 2);
}

#[test]
#[should_panic(expected = "deadlock")]
fn the_model_finds_a_phase_that_does_not_change() {
    // The second write comes while the reader, which waited for the end of the first, wakes up.
    readers_and_writers::<KeepsPhase>(1, 2, 1);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn the_model_finds_a_relaxed_write_release() {
    readers_and_writers::<RelaxedRelease>(1, 1, 1);
}

/// A value under a read-mostly lock with two slots.
struct Mostly<B> {
    lock: RmLockWord<Model<B>>,
    slots: [Model<B>; 2],
    value: UnsafeCell<u32>,
}

// SAFETY: the value is under the lock; that this is so is what the models are about.
unsafe impl<B: Bug> Sync for Mostly<B> {}
// SAFETY: as above.
unsafe impl<B: Bug> Send for Mostly<B> {}

impl<B: Bug> Mostly<B> {
    fn new() -> Self {
        Self {
            lock: RmLockWord::new(Model::new(), Model::new(), Model::new()),
            slots: [Model::new(), Model::new()],
            value: UnsafeCell::new(0),
        }
    }

    /// Reads through the slot of `cpu`; false if it came upon a writer.
    fn read(&self, cpu: usize) -> (u32, bool) {
        let slot = &self.slots[cpu];
        let through_slot = self.lock.read(slot);
        if !through_slot {
            self.lock.read_behind(&mut Counting::default());
        }
        // SAFETY: this thread reads, or loom reports it.
        let value = self.value.with(|value| unsafe { *value });
        match through_slot {
            true => self.lock.unlock_read(slot),
            false => self.lock.unlock_read_behind(),
        }
        (value, through_slot)
    }

    fn write(&self, me: u32) {
        let waiter = &mut Counting::default();
        if let Err(came) = self.lock.write(me, self.slots.iter()) {
            self.lock.write_slow(me, came, self.slots.iter(), waiter);
        }
        // SAFETY: this thread writes, or loom reports it.
        self.value.with_mut(|value| unsafe { *value += 1 });
        self.lock.unlock_write();
    }
}

/// A thread for each entry of `writes` writes that often; the first thread reads through both slots.
fn mostly_readers<B: Bug>(writes: &'static [u32], readers: usize) -> [u32; 2] {
    static SEEN: [core::sync::atomic::AtomicU32; 2] =
        [const { core::sync::atomic::AtomicU32::new(0) }; 2];
    check(move || {
        let shared = Arc::new(Mostly::<B>::new());
        let writers = (1..).zip(writes).map(|(me, &times)| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || (0..times).for_each(|_| shared.write(me)))
        });
        let readers = (1..readers).map(|_| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || _ = shared.read(0))
        });
        let others: Vec<_> = writers.chain(readers).collect();
        let mut last = 0;
        for cpu in [0, 1] {
            let (value, through_slot) = shared.read(cpu);
            assert!(value >= last, "time ran backwards");
            last = value;
            SEEN[usize::from(through_slot)].fetch_add(1, Relaxed);
        }
        for other in others {
            other.join().expect("no panic");
        }
        assert_eq!(shared.read(0), (writes.iter().sum(), true));
        assert!(
            shared
                .slots
                .iter()
                .all(|slot| slot.value.load(Relaxed) == 0)
        );
    });
    [0, 1].map(|way| SEEN[way].swap(0, Relaxed))
}

#[test]
fn the_read_mostly_lock_excludes_and_loses_no_wakeup() {
    // Breaks if a reader can be in beside a writer, one can sleep for ever, or a release is unseen; and
    // if the model has no order in which a reader comes upon a writer.
    let [waited, at_once] = mostly_readers::<Right>(&[2], 1);
    assert!(waited > 0 && at_once > 0);
    mostly_readers::<Right>(&[1, 1], 1);
    mostly_readers::<Right>(&[1], 2);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn the_model_finds_a_load_before_the_addition() {
    mostly_readers::<Unfenced>(&[1], 1);
}

#[test]
#[should_panic(expected = "deadlock")]
fn the_model_finds_a_leaving_reader_that_wakes_no_writer() {
    mostly_readers::<WakesNobody>(&[1], 1);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn the_model_finds_a_relaxed_read_mostly_write() {
    mostly_readers::<RelaxedRelease>(&[1], 1);
}
