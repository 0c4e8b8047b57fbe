//! Frames for a peer that takes them in its own time, of a frame stream or a virtual machine.
//!
//! Invariants: at most [`QUEUE_FRAMES_MAX`] frames and one frame more than [`QUEUE_BYTES_MAX`] bytes wait.
//! Locks: none.

use std::collections::VecDeque;

use mbuf::{Mbufq, Packet};

/// Frames that wait at most: as many as wait in a kernel's interface.
pub const QUEUE_FRAMES_MAX: usize = 1000;
/// From this many bytes on no frame is added.
pub const QUEUE_BYTES_MAX: usize = 4 << 20;

/// The frames that wait, and those that are done.
#[derive(Debug, Default)]
pub(super) struct FrameQueue {
    frames: VecDeque<Packet>,
    /// Of all frames that wait, and of one that [`FrameQueue::take`] gave out.
    bytes: usize,
    /// Frames that are done, to be dropped when the lock is released.
    done: Mbufq,
}

impl FrameQueue {
    /// Adds frames; those for which there is no room are left in `tx`.
    pub(super) fn add(&mut self, tx: &mut Mbufq) {
        while self.frames.len() < QUEUE_FRAMES_MAX
            && self.bytes < QUEUE_BYTES_MAX
            && let Some(frame) = tx.dequeue()
        {
            self.bytes += frame.len();
            self.frames.push_back(frame);
        }
    }

    /// The frames that wait, the oldest first.
    pub(super) fn frames(&self) -> &VecDeque<Packet> {
        &self.frames
    }

    /// Takes the oldest frame out, to be given to [`FrameQueue::finish`] or [`FrameQueue::put_back`].
    pub(super) fn take(&mut self) -> Option<Packet> {
        self.frames.pop_front()
    }

    /// Puts a frame back that was taken out.
    pub(super) fn put_back(&mut self, frame: Packet) {
        self.frames.push_front(frame);
    }

    /// A frame that was taken out is done.
    pub(super) fn finish(&mut self, frame: Packet) {
        self.bytes -= frame.len();
        self.done.enqueue(frame);
    }

    /// Ends all frames that wait, and returns their number.
    pub(super) fn clear(&mut self) -> usize {
        let waited = self.frames.len();
        while let Some(frame) = self.take() {
            self.finish(frame);
        }
        waited
    }

    /// Frames that are done since the last call.
    pub(super) fn take_done(&mut self) -> Mbufq {
        self.done.take_all()
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use mbuf::{Chain, Live, MbufPool, PoolConfig};

    use super::*;

    /// Breaks if large frames that wait for a slow peer fill memory because only their number is bounded.
    #[test]
    fn bytes_that_wait_are_bounded() {
        let pool = MbufPool::new(PoolConfig::default()).unwrap();
        let (mut queue, mut tx) = (FrameQueue::default(), Mbufq::new());
        for _ in 0..100 {
            let frame = Chain::from_slice(&pool, &[0; 1 << 16]).unwrap();
            tx.enqueue(frame.into_packet(&pool).unwrap());
        }
        queue.add(&mut tx);
        assert_eq!(queue.frames().len(), QUEUE_BYTES_MAX >> 16);
        assert_eq!(tx.len(), 100 - queue.frames().len());
        drop((queue, tx));
        assert_eq!(pool.live(), Live::NONE);
    }
}
