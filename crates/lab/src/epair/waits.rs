//! How long packets wait in a hand-off when transmitters send a few and then wait for them to arrive, as in a request
//! and its answer.
//!
//! Two transmitters send a burst at the same time, then wait until all of it has arrived. So a packet stranded by a
//! lost wakeup waits until the next burst, which begins after [`GIVE_UP`]. The state of the task's thread tells a lost
//! wakeup from a busy scheduler: if the thread sleeps and was not woken, the wakeup is lost.
//!
//! Locks: the histogram (STATS).

use super::histogram::Histogram;
use super::runner::Runner;
use super::scheme::{Line, Scheme};
use kern::{LockClass, Mutex, Random, order};
use std::hint;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

static WAITED: LockClass = LockClass::new("lab waits", order::STATS);

/// The results.
pub(crate) struct Waits {
    /// From sent to taken in.
    pub(crate) waited: Histogram,
    /// How often the task's thread was woken.
    pub(crate) wakeups: u64,
    /// Bursts of which a packet was left behind while the task slept.
    pub(crate) lost: u64,
}

/// Sends bursts until the task's thread was woken `wakeups` times, or the time is over; then once more, to free
/// stranded packets.
pub(crate) fn run<S: Scheme<u64>>(wakeups: u64, at_most: Duration, seed: u64) -> Waits {
    let runner = Runner::new();
    let begin = Instant::now();
    let taken = Arc::new(AtomicU64::new(0));
    let waited = Arc::new(Mutex::new(&WAITED, Histogram::new()));
    let (takes, waits) = (Arc::clone(&taken), Arc::clone(&waited));
    let line = Line::<u64, S>::new(1024, runner.queue(), move |sent_ns| {
        let now_ns = begin.elapsed().as_nanos() as u64;
        waits.lock().add(now_ns.saturating_sub(sent_ns));
        takes.fetch_add(1, Ordering::Release);
    });
    let bursts = Bursts {
        line: &line,
        begin,
        sent: AtomicU64::new(0),
        turn: AtomicUsize::new(0),
    };
    let mut lost = 0;
    thread::scope(|scope| {
        scope.spawn(|| bursts.second(seed));
        while runner.wakeups() < wakeups && begin.elapsed() < at_most {
            bursts.both(seed);
            lost += u64::from(!arrived(&bursts.sent, &taken, &runner));
        }
        bursts.turn.store(STOP, Ordering::Release);
    });
    bursts.send(1);
    let _ = arrived(&bursts.sent, &taken, &runner);
    let wakeups = runner.wakeups();
    drop(runner);
    let waited = waited.lock().clone();
    Waits {
        waited,
        wakeups,
        lost,
    }
}

/// Two transmitters, in step.
struct Bursts<'a, S> {
    line: &'a Line<u64, S>,
    begin: Instant,
    sent: AtomicU64,
    /// Odd while the second transmitter must send. Release and Acquire: the first one's wait counts the packets that
    /// the second one sent.
    turn: AtomicUsize,
}

impl<S: Scheme<u64>> Bursts<'_, S> {
    fn send(&self, count: u64) {
        for _ in 0..count {
            let now_ns = self.begin.elapsed().as_nanos() as u64;
            // The queue was full and refused the packet, so the transmitter does not wait for it.
            if self.line.send(now_ns).is_ok() {
                self.sent.fetch_add(1, Ordering::Release);
            }
        }
    }

    /// Sends beside the second transmitter, until both are done.
    fn both(&self, seed: u64) {
        let turn = self.turn.load(Ordering::Relaxed);
        self.turn.store(turn + 1, Ordering::Release);
        self.send(1 + (seed + turn as u64 / 2) % BURST_MAX);
        while self.turn.load(Ordering::Acquire) == turn + 1 {
            relax();
        }
    }

    /// The second transmitter: sends on odd turns, a little later or earlier each time.
    fn second(&self, seed: u64) {
        let mut random = Random::from_seed(seed);
        loop {
            let turn = self.turn.load(Ordering::Acquire);
            if turn == STOP {
                return;
            }
            if turn % 2 == 1 {
                (0..random.below(200)).for_each(|_| hint::spin_loop());
                self.send(1 + random.below(BURST_MAX));
                self.turn.store(turn + 1, Ordering::Release);
            }
            relax();
        }
    }
}

/// Waits until the receiver has taken all packets. Gives up, and returns false, if it sleeps without a wakeup.
fn arrived(sent: &AtomicU64, taken: &AtomicU64, runner: &Runner) -> bool {
    let sent = sent.load(Ordering::Acquire);
    let begin = Instant::now();
    loop {
        if taken.load(Ordering::Acquire) >= sent {
            return true;
        }
        // A thread that still sleeps after this time got no wakeup.
        if begin.elapsed() > GIVE_UP && runner.sleeps() {
            return taken.load(Ordering::Acquire) >= sent;
        }
        relax();
    }
}

/// Lets other threads run, because there are more threads than CPUs.
fn relax() {
    hint::spin_loop();
    thread::yield_now();
}

/// Packets of one transmitter in a burst, at most.
const BURST_MAX: u64 = 4;
/// The silence after a burst with a missing packet: about that of seed 003.
const GIVE_UP: Duration = Duration::from_millis(40);
/// No more turns.
const STOP: usize = usize::MAX - 1;
