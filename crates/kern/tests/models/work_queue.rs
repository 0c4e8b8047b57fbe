//! The protocol of [`kern::work_queue`] in every order (loom) and in many random ones (shuttle): no
//! wakeup is lost, also while receivers come and go. The planted mistakes must be found.
//!
//! | scenario | protocol |
//! |---|---|
//! | [`traffic`] | epair queue: transmitters against the receiver's task |
//! | [`moving`] | interface moved to another stack, against input and transmitters |
//! | [`destroying`] | interface destroyed, against input and transmitters |
//! | [`owning`] | netisr: senders that handle their packets, against the CPU's worker |

use std::sync::Arc;
use std::task::{Wake, Waker};

use kern::model::Model;
use kern::prim::{AtomicBool, AtomicU32, AtomicUsize, Mutex, Ordering};
use kern::work_queue::{Handler, Items, Left, PutOutcome, Receiver, TakeOutcome, WorkQueue};
use kern::{LockClass, order};
#[cfg(loom)]
use loom::thread;
#[cfg(shuttle)]
use shuttle::thread;

static CLASS: LockClass = LockClass::new("modelled", order::IFQUEUE);

/// The items: numbers, one bit each, so that sums show a missing or doubled one.
#[derive(Debug, Default)]
struct Numbers(Vec<u32>);

impl Items for Numbers {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn take_from(&mut self, other: &mut Self, n: usize) {
        let n = n.min(other.0.len());
        self.0.extend(other.0.drain(..n));
    }
}

/// The protocol, as the models see it. Numbers are packets.
trait Queue: Send + Sync + 'static {
    type Receiver: Copy + Send + 'static;
    fn new() -> Self;
    /// Queues and wakes. Returns the number if there was no receiver.
    fn put(&self, number: u32) -> u32;
    /// The sum of the items that waited. None if there was none, and the receiver sleeps or is a former one.
    fn take(&self, receiver: Self::Receiver) -> Option<u32>;
    /// Opens the queue for a new receiver. Returns it, and the sum of the items that were left.
    fn open(&self) -> (Self::Receiver, u32);
    fn set_waker(&self, receiver: Self::Receiver, waker: Waker);
    fn leave(&self, receiver: Self::Receiver) -> u32;
    fn waiting(&self) -> usize;
}

fn sum(numbers: &Numbers) -> u32 {
    numbers.0.iter().sum()
}

impl Queue for WorkQueue<Numbers> {
    type Receiver = Receiver;

    fn new() -> Self {
        Self::new(&CLASS, 8)
    }

    fn put(&self, number: u32) -> u32 {
        let mut items = Numbers(vec![number]);
        match self.put(&mut items, Handler::Receiver) {
            PutOutcome::Wake(waker) => waker.into_iter().for_each(Waker::wake),
            PutOutcome::Queued | PutOutcome::Away | PutOutcome::Closed => {}
            PutOutcome::Owned => unreachable!("it is for the receiver"),
            PutOutcome::Full => panic!("there is room"),
        }
        assert!(self.is_valid(), "items wait and the receiver was not woken");
        sum(&items)
    }

    fn take(&self, receiver: Receiver) -> Option<u32> {
        match self.take(receiver) {
            TakeOutcome::Items(items) => Some(sum(&items)),
            TakeOutcome::Nothing | TakeOutcome::Closed | TakeOutcome::Void => None,
        }
    }

    fn open(&self) -> (Receiver, u32) {
        let (receiver, left) = self.open();
        (receiver, sum(&left))
    }

    fn set_waker(&self, receiver: Receiver, waker: Waker) {
        self.set_waker(receiver, waker);
    }

    fn leave(&self, receiver: Receiver) -> u32 {
        sum(&self.leave(receiver))
    }

    fn waiting(&self) -> usize {
        self.waiting()
    }
}

/// The same with a receiver that checks again at once.
struct Resting(WorkQueue<Numbers>);

impl Queue for Resting {
    type Receiver = Receiver;

    fn new() -> Self {
        Self(Queue::new())
    }

    fn put(&self, number: u32) -> u32 {
        Queue::put(&self.0, number)
    }

    /// A receiver that took items does not take again until it is woken.
    fn take(&self, receiver: Receiver) -> Option<u32> {
        match self.0.take_and_release(receiver) {
            TakeOutcome::Items(items) => Some(sum(&items)),
            TakeOutcome::Nothing | TakeOutcome::Closed | TakeOutcome::Void => None,
        }
    }

    fn open(&self) -> (Receiver, u32) {
        Queue::open(&self.0)
    }

    fn set_waker(&self, receiver: Receiver, waker: Waker) {
        self.0.set_waker(receiver, waker);
    }

    fn leave(&self, receiver: Receiver) -> u32 {
        Queue::leave(&self.0, receiver)
    }

    fn waiting(&self) -> usize {
        self.0.waiting()
    }
}

/// The planted mistakes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Bug {
    None,
    /// The receiver checks the queue, and goes to sleep in a second step.
    SleepsAfterALook,
    /// A receiver that took items sleeps until it is woken, and does not take again.
    SleepsAfterATake,
    /// The receiver takes items and becomes `Idle`, in two steps.
    RestsLater,
    /// A former receiver takes items.
    TakesAfterItLeft,
    /// `set_waker` does not wake the receiver for items that came before.
    OpensSilently,
    /// Items that wait when the receiver leaves stay in the queue.
    LeavesItems,
}

/// The same protocol, with a mistake.
struct Planted<const BUG: u8>(Mutex<Inner>);

const NONE: u8 = Bug::None as u8;
const SLEEPS_AFTER_A_LOOK: u8 = Bug::SleepsAfterALook as u8;
const SLEEPS_AFTER_A_TAKE: u8 = Bug::SleepsAfterATake as u8;
const RESTS_LATER: u8 = Bug::RestsLater as u8;
const TAKES_AFTER_IT_LEFT: u8 = Bug::TakesAfterItLeft as u8;
const OPENS_SILENTLY: u8 = Bug::OpensSilently as u8;
const LEAVES_ITEMS: u8 = Bug::LeavesItems as u8;

#[derive(Default)]
struct Inner {
    waiting: Vec<u32>,
    state: State,
    receiver: u64,
    waker: Option<Waker>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    Away,
    Idle,
    Scheduled,
    Running,
}

impl<const BUG: u8> Queue for Planted<BUG> {
    type Receiver = u64;

    fn new() -> Self {
        Self(Mutex::new(&CLASS, Inner::default()))
    }

    fn put(&self, number: u32) -> u32 {
        let mut inner = self.0.lock();
        if inner.state == State::Away {
            return number;
        }
        inner.waiting.push(number);
        if inner.state == State::Idle {
            inner.state = State::Scheduled;
            let waker = inner.waker.clone();
            drop(inner);
            waker.iter().for_each(Waker::wake_by_ref);
        }
        0
    }

    fn take(&self, receiver: u64) -> Option<u32> {
        let mut inner = self.0.lock();
        if inner.receiver != receiver && BUG != TAKES_AFTER_IT_LEFT {
            return None;
        }
        if inner.state == State::Away {
            return None;
        }
        if inner.waiting.is_empty() {
            if BUG == SLEEPS_AFTER_A_LOOK {
                drop(inner);
                inner = self.0.lock();
            }
            inner.state = State::Idle;
            return None;
        }
        inner.state = State::Running;
        let items = std::mem::take(&mut inner.waiting);
        if BUG == RESTS_LATER {
            drop(inner);
            inner = self.0.lock();
            inner.state = State::Idle;
        }
        Some(items.iter().sum())
    }

    fn open(&self) -> (u64, u32) {
        let mut inner = self.0.lock();
        inner.receiver += 1;
        inner.state = State::Idle;
        inner.waker = None;
        let left = std::mem::take(&mut inner.waiting);
        (inner.receiver, left.iter().sum())
    }

    fn set_waker(&self, _: u64, waker: Waker) {
        let mut inner = self.0.lock();
        let now = !inner.waiting.is_empty() && BUG != OPENS_SILENTLY;
        inner.waker = Some(waker.clone());
        drop(inner);
        if now {
            waker.wake();
        }
    }

    fn leave(&self, _: u64) -> u32 {
        let mut inner = self.0.lock();
        inner.receiver += 1;
        inner.state = State::Away;
        inner.waker = None;
        if BUG == LEAVES_ITEMS {
            return 0;
        }
        std::mem::take(&mut inner.waiting).iter().sum()
    }

    fn waiting(&self) -> usize {
        self.0.lock().waiting.len()
    }
}

/// A receiver's task: its wakeup, and the sum of the items that it took.
struct Task<Q: Queue, const BUG: u8> {
    queue: Arc<Q>,
    woken: Arc<Woken>,
    /// Its interface is in the stack's list, where a poll checks first.
    attached: AtomicBool,
    /// Only one thread runs it at a time, as a taskqueue does.
    sum: Mutex<u32>,
}

/// A wakeup adds to what is there, as a write to an eventfd does.
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.swap(true, Ordering::AcqRel);
    }
}

impl<Q: Queue, const BUG: u8> Task<Q, BUG> {
    fn new(queue: &Arc<Q>) -> Self {
        Self {
            queue: Arc::clone(queue),
            woken: Arc::new(Woken(AtomicBool::new(false))),
            attached: AtomicBool::new(true),
            sum: Mutex::new(&CLASS, 0),
        }
    }

    fn waker(&self) -> Waker {
        Arc::clone(&self.woken).into()
    }

    /// Takes until nothing is there, if it was woken.
    fn run(&self, receiver: Q::Receiver) {
        if !self.woken.0.swap(false, Ordering::AcqRel) {
            return;
        }
        while self.attached.load(Ordering::Acquire) {
            let Some(items) = self.queue.take(receiver) else {
                return;
            };
            *self.sum.lock() += items;
            if BUG == SLEEPS_AFTER_A_TAKE {
                break;
            }
        }
    }

    fn sum(&self) -> u32 {
        *self.sum.lock()
    }
}

/// Packets that each transmitter sends.
#[cfg(loom)]
const PACKETS: u32 = 1;
#[cfg(shuttle)]
const PACKETS: u32 = 3;

/// Sends the packets of transmitter `who`; the sum of those that found no receiver.
fn transmit<Q: Queue>(queue: &Q, who: u32) -> u32 {
    (0..PACKETS)
        .map(|n| queue.put(1 << (who * PACKETS + n)))
        .sum()
}

/// The sum of what `transmitters` send.
fn all(transmitters: u32) -> u32 {
    (1 << (transmitters * PACKETS)) - 1
}

/// Two transmitters and a receiver's task. In the end the task has seen every packet.
fn traffic<Q: Queue, const BUG: u8>() {
    let queue = Arc::new(Q::new());
    let task = Arc::new(Task::<Q, BUG>::new(&queue));
    let (receiver, _) = queue.open();
    queue.set_waker(receiver, task.waker());
    let sender = Arc::clone(&queue);
    let transmitter = thread::spawn(move || transmit(&*sender, 0));
    let running = Arc::clone(&task);
    let runner = thread::spawn(move || {
        running.run(receiver);
        running.run(receiver);
    });
    assert_eq!(transmit(&*queue, 1), 0);
    assert_eq!(transmitter.join().expect("no panic"), 0);
    runner.join().expect("no panic");
    task.run(receiver);
    assert_eq!(task.sum(), all(2), "a wakeup was lost");
}

/// The receiver is replaced by another while the first one runs and a transmitter sends. In the end
/// every packet was seen by one of them, or given back to the thread that replaced them or that sent it.
fn moving<Q: Queue, const BUG: u8>() {
    let queue = Arc::new(Q::new());
    let (old, new) = (Task::<Q, BUG>::new(&queue), Task::<Q, BUG>::new(&queue));
    let old = Arc::new(old);
    let (first, _) = queue.open();
    queue.set_waker(first, old.waker());
    let sender = Arc::clone(&queue);
    let transmitter = thread::spawn(move || transmit(&*sender, 0));
    let running = Arc::clone(&old);
    let runner = thread::spawn(move || {
        running.run(first);
        running.run(first);
    });
    old.attached.store(false, Ordering::Release);
    let (second, left) = queue.open();
    queue.set_waker(second, new.waker());
    new.run(second);
    let refused = transmitter.join().expect("no panic");
    let late = transmit(&*queue, 1);
    runner.join().expect("no panic");
    new.run(second);
    assert_eq!(queue.waiting(), 0, "moved: a wakeup was lost");
    let for_new = all(2) - all(1);
    assert_eq!(old.sum() & for_new, 0, "moved: taken by a former receiver");
    let seen = old.sum() + new.sum() + left + refused + late;
    assert_eq!(seen, all(2), "a packet was lost or doubled");
}

/// The receiver goes while it runs and a transmitter sends. In the end nothing is in the queue.
fn destroying<Q: Queue, const BUG: u8>() {
    let queue = Arc::new(Q::new());
    let task = Arc::new(Task::<Q, BUG>::new(&queue));
    let (receiver, _) = queue.open();
    queue.set_waker(receiver, task.waker());
    let sender = Arc::clone(&queue);
    let transmitter = thread::spawn(move || transmit(&*sender, 0));
    let running = Arc::clone(&task);
    let runner = thread::spawn(move || running.run(receiver));
    task.attached.store(false, Ordering::Release);
    let left = queue.leave(receiver);
    let before = task.sum();
    assert_eq!(queue.put(1 << 30), 1 << 30, "there is no receiver");
    let refused = transmitter.join().expect("no panic");
    runner.join().expect("no panic");
    // It may have taken its last items before, and be late to add it.
    assert!(task.sum() >= before);
    assert_eq!(queue.waiting(), 0, "a packet waits without a receiver");
    let seen = task.sum() + left + refused;
    assert_eq!(seen, all(1), "a packet was lost or doubled");
}

/// A queue for a fixed receiver, with the state that its packets' handlers change.
struct Owned {
    queue: WorkQueue<Numbers>,
    busy: Arc<AtomicUsize>,
    kicked: AtomicBool,
    inside: AtomicBool,
    /// Only the owner writes it, without an ordering of its own: the queue must order these writes.
    sum: AtomicU32,
}

impl Owned {
    fn new() -> Self {
        let busy = Arc::new(AtomicUsize::new(0));
        Self {
            queue: WorkQueue::fixed(&CLASS, 8, Arc::clone(&busy)),
            busy,
            kicked: AtomicBool::new(false),
            inside: AtomicBool::new(false),
            sum: AtomicU32::new(0),
        }
    }

    /// Handles packets, as their owner.
    fn handle(&self, packets: &Numbers) {
        assert!(!self.inside.swap(true, Ordering::Relaxed), "two owners");
        let before = self.sum.load(Ordering::Relaxed);
        self.sum.store(before + sum(packets), Ordering::Relaxed);
        self.inside.store(false, Ordering::Relaxed);
    }

    /// Brings in one packet, and handles what waits if no other thread does. `mistake`: a packet that comes while the
    /// queue is owned is handled at once.
    fn bring(&self, number: u32, mistake: bool) {
        let mut packets = Numbers(vec![number]);
        if mistake {
            return self.handle(&packets);
        }
        if self.queue.acquire() {
            self.handle(&packets);
            if self.queue.end(0, Numbers::default()) == Left::Some {
                self.kicked.swap(true, Ordering::AcqRel);
            }
            return;
        }
        match self.queue.put(&mut packets, Handler::Caller) {
            PutOutcome::Owned => {
                let mut handled = 0;
                while let Some(packets) = self.queue.next(handled) {
                    self.handle(&packets);
                    handled = packets.len() as u64;
                }
            }
            PutOutcome::Queued => {}
            other => panic!("{other:?}"),
        }
    }

    /// The CPU's worker, if it was kicked.
    fn work(&self) {
        if !self.kicked.swap(false, Ordering::AcqRel) {
            return;
        }
        while let Some(packets) = self.queue.begin() {
            self.handle(&packets);
            let _: Left = self.queue.end(packets.len() as u64, Numbers::default());
        }
    }
}

/// Two threads bring in a packet each, a third sends one to the CPU's worker. In the end all were handled, by one
/// thread at a time, and the queue is idle.
fn owning<const MISTAKE: bool>() {
    let owned = Arc::new(Owned::new());
    let other = Arc::clone(&owned);
    let bringer = thread::spawn(move || other.bring(1, false));
    let mine = Arc::clone(&owned);
    let sender = thread::spawn(move || {
        let put = mine.queue.put(&mut Numbers(vec![4]), Handler::Receiver);
        if matches!(put, PutOutcome::Wake(None)) {
            mine.kicked.swap(true, Ordering::AcqRel);
        }
        mine.work();
    });
    owned.bring(2, MISTAKE);
    bringer.join().expect("no panic");
    sender.join().expect("no panic");
    owned.work();
    assert_eq!(owned.sum.load(Ordering::Relaxed), 7, "a packet was lost");
    assert!(owned.queue.is_idle() && owned.queue.is_valid());
    assert_eq!(owned.busy.load(Ordering::Relaxed), 0);
}

#[test]
fn owners_of_a_queue_are_alone_and_lose_nothing() {
    // Breaks if an order exists in which two threads own a queue, or a packet waits for which no thread comes.
    Model::new("owners of a queue").check(owning::<false>);
}

#[test]
#[should_panic]
fn finds_a_packet_that_is_handled_beside_the_owner() {
    // Breaks if the scenario does not find two handlers at once, by their meeting or by a lost sum.
    Model::new("beside the owner, not found").check(owning::<true>);
}

type Real = WorkQueue<Numbers>;

#[test]
fn epair_queue_loses_no_wakeup() {
    // Breaks if an order exists in which a packet waits and the receiver was not told.
    Model::new("epair queue").check(traffic::<Real, NONE>);
}

#[test]
fn interface_moved_against_input() {
    // Breaks if an order exists in which a packet is lost, or a wakeup goes to a former receiver.
    Model::new("interface moved against input").check(moving::<Real, NONE>);
}

#[test]
fn interface_destroyed_against_input() {
    // Breaks if an order exists in which a packet outlives the interface that it is for.
    Model::new("interface destroyed against input").check(destroying::<Real, NONE>);
}

#[test]
fn take_and_release_loses_no_wakeup() {
    // Breaks if a receiver that checks again at once, and does not come back, is not woken for later packets.
    Model::new("epair queue, resting").check(traffic::<Resting, SLEEPS_AFTER_A_TAKE>);
    Model::new("interface moved, resting").check(moving::<Resting, SLEEPS_AFTER_A_TAKE>);
    Model::new("interface destroyed, resting").check(destroying::<Resting, SLEEPS_AFTER_A_TAKE>);
}

#[test]
fn the_copy_is_right_without_a_mistake() {
    // Breaks if the code in which the mistakes are planted is wrong without them.
    Model::new("epair queue, the copy").check(traffic::<Planted<NONE>, NONE>);
    Model::new("interface moved, the copy").check(moving::<Planted<NONE>, NONE>);
    Model::new("interface destroyed, the copy").check(destroying::<Planted<NONE>, NONE>);
}

#[test]
#[should_panic(expected = "a wakeup was lost")]
fn finds_a_receiver_that_sleeps_after_an_unlocked_check() {
    // Breaks if the scenario is blind to a put between the look and the sleep.
    Model::new("sleeps after a look, not found")
        .check(traffic::<Planted<SLEEPS_AFTER_A_LOOK>, NONE>);
}

#[test]
#[should_panic(expected = "a wakeup was lost")]
fn finds_a_running_receiver_that_does_not_take_again() {
    // Breaks if the scenario does not find packets that came while the receiver was busy.
    Model::new("sleeps after a take, not found").check(traffic::<Real, SLEEPS_AFTER_A_TAKE>);
}

#[test]
#[should_panic(expected = "a wakeup was lost")]
fn finds_a_rest_after_the_take() {
    // Breaks if the scenario is blind to a put between the take and the rest.
    Model::new("rests later, not found")
        .check(traffic::<Planted<RESTS_LATER>, SLEEPS_AFTER_A_TAKE>);
}

#[test]
#[should_panic(expected = "moved: ")]
fn finds_a_take_by_the_receiver_before() {
    // Breaks if the scenario is blind to packets that reach a stack which the interface has left, and
    // to a new receiver that is left asleep: which one is found first depends on the checker.
    Model::new("takes after it left, not found")
        .check(moving::<Planted<TAKES_AFTER_IT_LEFT>, NONE>);
}

#[test]
#[should_panic(expected = "a wakeup was lost")]
fn finds_an_open_that_wakes_no_receiver() {
    // Breaks if the scenario does not find packets that came between `open` and `set_waker`.
    Model::new("opens silently, not found").check(moving::<Planted<OPENS_SILENTLY>, NONE>);
}

#[test]
#[should_panic(expected = "a packet waits without a receiver")]
fn finds_items_left_behind_by_open() {
    // Breaks if the scenario is blind to packets of an interface that is gone.
    Model::new("leaves items, not found").check(destroying::<Planted<LEAVES_ITEMS>, NONE>);
}
