//! The frames that wait for one of an interface's devices.
//!
//! The queue, mutex and state of seed 003: a thread that finds the queue idle becomes the transmitter; all other
//! threads only add frames, and the transmitter sends these too before it stops.
//!
//! The transmitter's batch keeps the frames that it sends itself, and adds to them without the lock while no other
//! thread's frames wait. So a packet of a quiet interface takes no lock here, but two changes of the state. No frame of
//! a connection overtakes another: each is added while the connection is locked, so a thread that adds the next one
//! sees that the former waits.
//!
//! Invariant: while frames wait, the state is More, or their thread is about to make it so under the lock.
//! Locks: that of the queue (class IFQUEUE).

use std::sync::Arc;

use kern::prim::{Mutex, Ordering};
use kern::work_state::{AtomicWorkState, WorkAction, WorkEvent, WorkState};
use kern::{LockClass, Time, order};
use mbuf::{Mbufq, Packet};

use super::Ifnet;
use crate::device::Device;

/// Frames that wait for the device at most.
const TX_QUEUE_MAX: usize = 4096;

static QUEUE: LockClass = LockClass::new("interface queue", order::IFQUEUE);

/// The result of queueing a frame.
#[must_use]
pub(crate) enum Enqueued {
    /// The present transmitter sends it.
    Queued,
    /// The caller is the transmitter from now on, also of this frame: no other thread will send it.
    Transmit(Packet),
    /// There is no room.
    Full(Packet),
}

/// One of an interface's devices, with the frames that wait for it. Workers that have one each share no cache
/// line.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Queue {
    pub(crate) device: Arc<dyn Device>,
    state: AtomicWorkState,
    /// The frames of threads other than the transmitter.
    waiting: Mutex<Mbufq>,
}

impl Queue {
    pub(super) fn new(device: Arc<dyn Device>) -> Self {
        Self {
            device,
            state: AtomicWorkState::new(WorkState::Idle),
            waiting: Mutex::new(&QUEUE, Mbufq::new()),
        }
    }

    /// Whether the device has frames of its own to pass on at `now`.
    pub(crate) fn is_due(&self, now: Time) -> bool {
        self.device.next_deadline().is_some_and(|at| at <= now)
    }

    /// Makes the caller the transmitter; false if another thread is.
    pub(crate) fn begin(&self) -> bool {
        self.state.step(WorkEvent::Acquire).1 == WorkAction::Own
    }

    /// Queues a complete frame of a thread that is not the transmitter.
    pub(crate) fn enqueue(&self, frame: Packet) -> Enqueued {
        if self.begin() {
            return Enqueued::Transmit(frame);
        }
        let mut waiting = self.waiting.lock();
        if waiting.len() >= TX_QUEUE_MAX {
            return Enqueued::Full(frame);
        }
        waiting.enqueue(frame);
        match self.state.step(WorkEvent::PutByHandler).1 {
            // The transmitter has stopped since, so no other frame waits.
            WorkAction::Own => waiting
                .dequeue()
                .map_or(Enqueued::Queued, Enqueued::Transmit),
            _ => Enqueued::Queued,
        }
    }

    /// Queues a complete frame behind those of the transmitter, which is the caller.
    pub(crate) fn enqueue_own(&self, own: &mut Mbufq, frame: Packet) -> Enqueued {
        // Acquire: as the connection's lock, under which an earlier frame of the same connection came to wait.
        if self.state.load(Ordering::Acquire) == WorkState::More {
            return self.enqueue(frame);
        }
        if own.len() >= TX_QUEUE_MAX {
            return Enqueued::Full(frame);
        }
        own.enqueue(frame);
        Enqueued::Queued
    }

    /// Adds the frames that wait to those of the transmitter, which is the caller.
    pub(crate) fn take(&self, own: &mut Mbufq) {
        if self.state.load(Ordering::Acquire) == WorkState::More {
            let _ = self.state.step(WorkEvent::Next);
            own.append(&mut self.waiting.lock());
        }
    }

    /// The caller has sent its frames. It goes on with those that came meanwhile; without any, it stops being the
    /// transmitter.
    pub(crate) fn next(&self) -> Option<Mbufq> {
        let action = self.state.step(WorkEvent::Next).1;
        (action == WorkAction::Own).then(|| self.waiting.lock().take_all())
    }

    /// Planted fault: the transmitter stops without another check of the queue.
    pub(crate) fn planted_stop(&self) {
        let _ = self.state.step(WorkEvent::Leave);
        let _ = self.state.step(WorkEvent::Open);
    }
}

impl Ifnet {
    /// The queue by which a thread of CPU `cpu` sends a frame. A flow stays on one of the device's queues; a packet
    /// without a flow takes the queue of the sending CPU.
    pub(crate) fn queue_of(&self, cpu: usize, frame: &Packet) -> usize {
        match (self.queues.len(), frame.header().flow) {
            (1, _) => 0,
            (n, 0) => cpu % n,
            (n, flow) => flow as usize % n,
        }
    }

    /// The queues whose devices are due.
    pub(crate) fn due_queues(&self, now: Time) -> impl Iterator<Item = usize> {
        let queues = self.queues.iter().enumerate();
        let due = queues.filter(move |(_, queue)| queue.is_due(now));
        due.map(|(number, _)| number)
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use mbuf::{MbufPool, PoolConfig};

    use super::*;
    use crate::device::Capabilities;
    use crate::device::memory::Pipe;

    fn lens(frames: Mbufq) -> Vec<usize> {
        frames.map(|frame| frame.len()).collect()
    }

    /// Breaks if a frame overtakes one that waits, is lost or comes twice, or if a queue without frames keeps its
    /// transmitter.
    #[test]
    fn frames_leave_in_the_order_in_which_they_were_queued() {
        let pool = MbufPool::new(PoolConfig::default()).unwrap();
        let frame = |len| Packet::from_slice(&pool, &[0; 64][..len], 0).unwrap();
        let queue = Queue::new(Arc::new(Pipe::pair(Capabilities::plain(1500)).0));
        for _ in 0..2 {
            let Enqueued::Transmit(first) = queue.enqueue(frame(1)) else {
                panic!("no other thread transmits");
            };
            let mut own = Mbufq::new();
            own.enqueue(first);
            assert!(matches!(
                queue.enqueue_own(&mut own, frame(2)),
                Enqueued::Queued
            ));
            // Another thread's, and then one of the transmitter's for the same connection.
            assert!(!queue.begin());
            assert!(matches!(queue.enqueue(frame(3)), Enqueued::Queued));
            assert!(matches!(
                queue.enqueue_own(&mut own, frame(4)),
                Enqueued::Queued
            ));
            assert_eq!(own.len(), 2);
            queue.take(&mut own);
            assert_eq!(lens(own), [1, 2, 3, 4]);
            // One that comes while the device is called.
            assert!(matches!(queue.enqueue(frame(5)), Enqueued::Queued));
            assert_eq!(queue.next().map(lens), Some(vec![5]));
            assert!(queue.next().is_none());
        }
        assert_eq!(pool.live(), mbuf::Live::NONE);
    }

    /// Breaks if frames that wait while the transmitter is held up fill memory: its own, or those of other threads.
    #[test]
    fn frames_that_wait_are_bounded() {
        let pool = MbufPool::new(PoolConfig::default()).unwrap();
        let frame = || Packet::from_slice(&pool, &[0], 0).unwrap();
        let queue = Queue::new(Arc::new(Pipe::pair(Capabilities::plain(1500)).0));
        assert!(queue.begin());
        let mut own = Mbufq::new();
        let is_full = |queued| matches!(queued, Enqueued::Full(_));
        for _ in 0..TX_QUEUE_MAX {
            assert!(!is_full(queue.enqueue_own(&mut own, frame())));
        }
        assert!(is_full(queue.enqueue_own(&mut own, frame())));
        for _ in 0..TX_QUEUE_MAX {
            assert!(!is_full(queue.enqueue(frame())));
        }
        assert!(is_full(queue.enqueue(frame())));
        assert!(is_full(queue.enqueue_own(&mut own, frame())));
        drop((queue, own));
        assert_eq!(pool.live(), mbuf::Live::NONE);
    }
}
