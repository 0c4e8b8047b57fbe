//! A stack's handle of an epair's end, valid for one attachment.
//!
//! Invariants: a detached plug neither receives nor transmits. Packets that were taken off the cable and did not fit
//! the budget are kept here, before all others; a detached plug keeps none. Locks: `kept` (IFQUEUE); never with the
//! cable's.

use std::io;
use std::sync::Arc;
use std::task::Waker;

use kern::prim::{AtomicBool, Mutex, Ordering};
use kern::work_queue::{Handler, PutOutcome, Receiver, TakeOutcome};
use kern::{LockClass, WorkQueue, order};
use mbuf::Mbufq;

use super::{Cable, Side};
use crate::device::{Budget, Capabilities, Device};
use crate::faults::{StackFault, planted};

static KEPT: LockClass = LockClass::new("epair kept packets", order::IFQUEUE);

/// A plugged-in end.
#[derive(Debug)]
pub struct Plug {
    cable: Arc<Cable>,
    side: Side,
    receiver: Receiver,
    /// A receiver that took all packets need not check again before a sender calls the waker: cheaper if one thread
    /// receives, and the waker only wakes it. Several woken threads would overtake each other.
    rests: bool,
    kept: Mutex<Mbufq>,
    /// Whether packets are kept; changed under `kept`. Relaxed: the thread that asks for packets has kept them
    /// itself, or the one that has told it.
    keeps: AtomicBool,
    /// Set under `kept`, so that nothing is kept after it. Relaxed elsewhere: a transmitter that is
    /// late sends packets that it might have sent before.
    out: AtomicBool,
}

impl Plug {
    pub(super) fn new(cable: &Arc<Cable>, side: Side, rests: bool) -> Self {
        let (receiver, left) = cable.inward(side).open();
        drop(left);
        Self {
            cable: Arc::clone(cable),
            side,
            receiver,
            rests,
            kept: Mutex::new(&KEPT, Mbufq::new()),
            keeps: AtomicBool::new(false),
            out: AtomicBool::new(false),
        }
    }

    /// Sets the waker for packets that arrive while no thread takes them in, and for the end of the other side; it is
    /// called at once if that is so now. It stays until another takes its place or the plug is out.
    pub fn set_waker(&self, waker: Waker) {
        self.inward().set_waker(self.receiver, waker);
    }

    fn inward(&self) -> &WorkQueue<Mbufq> {
        self.cable.inward(self.side)
    }

    /// The packets to be given out next: those that were kept, else all that wait. Returns whether to come back once
    /// they are given: behind kept packets, more may wait for which the receiver was woken already.
    fn take_next(&self) -> io::Result<(Mbufq, bool)> {
        if self.keeps.load(Ordering::Relaxed) {
            let mut kept = self.kept.lock();
            self.keeps.store(false, Ordering::Relaxed);
            let kept = kept.take_all();
            if !kept.is_empty() {
                return Ok((kept, true));
            }
        }
        let taken = match self.rests {
            true => self.inward().take_and_release(self.receiver),
            false => self.inward().take(self.receiver),
        };
        match taken {
            TakeOutcome::Items(packets) => Ok((packets, !self.rests)),
            TakeOutcome::Nothing => Ok((Mbufq::new(), false)),
            TakeOutcome::Closed => Err(io::ErrorKind::BrokenPipe.into()),
            TakeOutcome::Void => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// Keeps packets that did not fit; a plug that went out meanwhile can't, and gives them out at once.
    fn keep(&self, mut rest: Mbufq, rx: &mut Mbufq) {
        let mut kept = self.kept.lock();
        if self.out.load(Ordering::Relaxed) && !planted(StackFault::KeptOutside) {
            return rx.append(&mut rest);
        }
        rest.append(&mut kept);
        self.keeps.store(true, Ordering::Relaxed);
        *kept = rest;
    }

    /// Detaches the plug; returns the number of packets that waited for it and are lost.
    fn pull(&self) -> usize {
        let kept = {
            let mut kept = self.kept.lock();
            self.out.store(true, Ordering::Relaxed);
            kept.take_all()
        };
        let waiting = self.inward().leave(self.receiver);
        kept.len() + waiting.len()
    }
}

impl Device for Plug {
    fn capabilities(&self) -> Capabilities {
        Capabilities::whole(self.cable.config.mtu)
    }

    /// While this returns true, the caller must call again: no waker will be called.
    #[doc(alias = "epair_tx_start_deferred")]
    fn receive(&self, rx: &mut Mbufq, budget: Budget) -> io::Result<bool> {
        let (mut next, more) = self.take_next()?;
        match next.len() <= budget.frames && budget.bytes == usize::MAX {
            true => rx.append(&mut next),
            false => budget.move_frames(&mut next, rx),
        }
        if next.is_empty() {
            return Ok(more);
        }
        self.keep(next, rx);
        Ok(true)
    }

    fn detached(&self) -> usize {
        self.pull()
    }

    #[doc(alias = "epair_transmit")]
    fn transmit(&self, tx: &mut Mbufq) -> io::Result<usize> {
        if self.out.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::NotConnected.into());
        }
        let mut packets = Mbufq::new();
        for mut packet in tx.by_ref() {
            packet.header_mut().turn_round();
            packets.enqueue(packet);
        }
        let peer = self.cable.outward(self.side);
        let result = match peer.put(&mut packets, Handler::Receiver) {
            PutOutcome::Queued | PutOutcome::Full | PutOutcome::Owned => Ok(0),
            PutOutcome::Wake(waker) => {
                waker.into_iter().for_each(Waker::wake);
                Ok(0)
            }
            // The other end is not attached.
            PutOutcome::Away => Ok(packets.take_all().len()),
            PutOutcome::Closed => Err(io::ErrorKind::BrokenPipe.into()),
        };
        tx.append(&mut packets);
        result
    }
}

impl Drop for Plug {
    fn drop(&mut self) {
        self.pull();
    }
}
