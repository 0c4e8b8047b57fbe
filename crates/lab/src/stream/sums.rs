//! An end of an epair that does not hand packets over as they are, but does a wire's work: sums every byte, and cuts
//! segments into frames.
//!
//! The receiving stack verifies these packets, as if they came from a wire. Locks: none of its own.

use mbuf::{Csum, Mbufq, Packet};
use mbuma::device::epair::Plug;
use mbuma::device::{Budget, Capabilities, Device};
use std::io;
use wire::{Checksum, TcpHeader};

/// The work on packets besides the hand-over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// None: they never leave memory.
    None,
    /// Segments stay whole, up to 64 KiB; the sender sums their bytes, and the receiver does.
    Sum,
    /// The same, in frames of the MTU.
    Cut,
}

/// A plug with that.
#[derive(Debug)]
pub(crate) struct Sums {
    plug: Plug,
    work: Work,
}

impl Sums {
    pub(crate) fn new(plug: Plug, work: Work) -> Self {
        Self { plug, work }
    }
}

impl Device for Sums {
    fn capabilities(&self) -> Capabilities {
        let whole = self.plug.capabilities();
        match self.work {
            // The stack's own software does it, as for any plain device.
            Work::Cut => Capabilities::plain(whole.mtu),
            Work::None | Work::Sum => whole,
        }
    }

    fn receive(&self, rx: &mut Mbufq, budget: Budget) -> io::Result<bool> {
        self.plug.receive(rx, budget)
    }

    fn detached(&self) -> usize {
        self.plug.detached()
    }

    fn transmit(&self, tx: &mut Mbufq) -> io::Result<usize> {
        if self.work != Work::Sum {
            return self.plug.transmit(tx);
        }
        let mut summed = Mbufq::new();
        for mut packet in tx.by_ref() {
            sum(&mut packet);
            summed.enqueue(packet);
        }
        let refused = self.plug.transmit(&mut summed);
        tx.append(&mut summed);
        refused
    }
}

/// Finishes a TCP checksum. The field holds the pseudo-header's part of it.
fn sum(packet: &mut Packet) {
    let meta = *packet.header();
    if !meta.csum.contains(Csum::TCP) {
        return;
    }
    let l4 = usize::from(meta.l2_len) + usize::from(meta.l3_len);
    let mut sum = Checksum::new();
    packet.segments_from(l4).for_each(|s| sum.add_bytes(s));
    let field = l4 + TcpHeader::CHECKSUM_OFFSET;
    // The headers are the packet's own. If they were not, the receiver would drop it, and the figure show that.
    let _ = packet.write_at(field, &sum.finish().to_be_bytes());
    packet.header_mut().csum -= Csum::TCP;
}
