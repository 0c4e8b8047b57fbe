//! The emulated link in real time, and the loop that carries frames over it.

use std::time::Duration;

use kern::{Clock, MonotonicClock, Random, Time};
use mbuma::device::impair::{DelayQueue, LinkEmulator};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sim::Frame;

use super::super::path::Path;
use super::End;
use super::resent::ResentCount;

/// Frames that one end sends before the other has its turn.
const TURN: usize = 64;

/// One direction.
struct Way {
    emulator: LinkEmulator,
    under_way: DelayQueue<Frame>,
}

/// A receiver, the senders, and the two directions between.
pub(super) struct Link {
    clock: MonotonicClock,
    /// The receiver first.
    ends: Vec<Box<dyn End>>,
    forward: Way,
    backward: Way,
    /// How long data frames waited in the queue, all together, and how many they were.
    waits: (Duration, u64),
    resent: ResentCount,
}

impl Way {
    fn send(&mut self, now: Time, frame: Frame) {
        let Self {
            emulator,
            under_way,
        } = self;
        emulator.send(
            now,
            frame,
            &mut |at, frame| under_way.push(at, frame),
            &mut |_| (),
        );
    }
}

impl Link {
    pub(super) fn new(path: &Path, ends: Vec<Box<dyn End>>, seed: u64) -> Self {
        let mut random = Random::from_seed(seed);
        let mut way = |link| Way {
            emulator: LinkEmulator::new(link, random.fork()),
            under_way: DelayQueue::new(),
        };
        Self {
            clock: MonotonicClock::new(),
            ends,
            forward: way(path.forward()),
            backward: way(path.backward()),
            waits: (Duration::ZERO, 0),
            resent: ResentCount::default(),
        }
    }

    /// Carries frames until every flow has received bytes; false if that takes longer than `patience`.
    pub(super) fn run_until_received(&mut self, patience: Duration) -> bool {
        let end = self.clock.now() + patience;
        while self.received().contains(&0) {
            if self.clock.now() > end {
                return false;
            }
            self.run(Duration::from_millis(10));
        }
        true
    }

    /// Carries frames for `time`.
    pub(super) fn run(&mut self, time: Duration) {
        let end = self.clock.now() + time;
        while self.clock.now() < end {
            if !self.turn() {
                self.wait(end);
            }
        }
    }

    /// Takes frames from each end, and delivers those whose time has come; says whether there were any.
    fn turn(&mut self) -> bool {
        let mut any = false;
        for (index, end) in self.ends.iter_mut().enumerate() {
            for _ in 0..TURN {
                let Some(frame) = end.next_frame() else { break };
                any = true;
                let now = self.clock.now();
                if index == 0 {
                    self.backward.send(now, frame);
                    continue;
                }
                self.waits.0 += self.forward.emulator.wait(now);
                self.waits.1 += 1;
                self.resent.note(&frame.bytes);
                self.forward.send(now, frame);
            }
        }
        let now = self.clock.now();
        let [receiver, senders @ ..] = &mut self.ends[..] else {
            return any;
        };
        while let Some(frame) = self.forward.under_way.pop_due(now) {
            any = true;
            receiver.deliver(&frame);
        }
        while let Some(frame) = self.backward.under_way.pop_due(now) {
            any = true;
            // As on a hub: each end drops frames for another address.
            senders.iter_mut().for_each(|end| end.deliver(&frame));
        }
        any
    }

    /// Sleeps until a frame leaves an end, the next frame is due, an end has work, or until `end`.
    fn wait(&self, end: Time) {
        let ways = [&self.forward, &self.backward].map(|way| way.under_way.next_at());
        let ends = self.ends.iter().map(|end| end.next_deadline());
        let next = ways.into_iter().chain(ends).flatten().min();
        let next = next.map_or(end, |at| at.min(end));
        let sleep = next - self.clock.now();
        let timeout = Timespec {
            tv_sec: i64::try_from(sleep.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: sleep.subsec_nanos().into(),
        };
        let fds = self.ends.iter().filter_map(|end| end.readable());
        let mut fds: Vec<PollFd<'_>> = fds
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
            .collect();
        // It may return early at a signal, because the loop checks again.
        let _ = poll(&mut fds, Some(&timeout));
    }

    /// Bytes that each flow has brought.
    pub(super) fn received(&self) -> Vec<u64> {
        self.ends[0].received()
    }

    /// How long data frames waited in the queue, all together, and how many they were.
    pub(super) fn waits(&self) -> (Duration, u64) {
        self.waits
    }

    /// Frames that the senders sent.
    pub(super) fn sent(&self) -> u64 {
        self.forward.emulator.counts().sent
    }

    /// Segments that the senders sent again.
    pub(super) fn resent(&self) -> u64 {
        self.resent.get()
    }

    /// The senders' retransmission timeouts, if all count them.
    pub(super) fn timeouts(&self) -> Option<u64> {
        self.ends[1..].iter().map(|end| end.timeouts()).sum()
    }
}
