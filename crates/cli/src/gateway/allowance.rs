//! The share of one connection in the storage of all.
//!
//! A guest that opens a thousand downloads and reads none of them fills as many send buffers, and a host that does
//! not read fills receive buffers. If these always had their usual size, some five hundred of them would take all
//! clusters. Then no other packet could be received, not even the acknowledgements that free the buffers. So the size of
//! a buffer is a share of the free storage, as in switches:

//!
//! ```text
//!   used   0       2 MiB     7 MiB     9 MiB     26 MiB       33 MiB                     7/8     all
//!          |--------|---------|---------|---------|------------|--------------------------|-------|
//!   each   1 MiB    512 KiB   256 KiB   128 KiB   64, 32 KiB   16 KiB                     nothing more is
//!                                                                                         read from hosts
//!                      (no receive buffer is smaller than 128 KiB)
//! ```
//!
//! However many there are, the next one gets something, and large buffers take no more than [`LARGE`] together: the
//! guest acknowledges data that it has room for at once, so that more memory would not make many streams faster. The last
//! eighth is for the acknowledgements that must come in so that storage is given back.
//!
//! Locks: none.
//! Sources: Choudhury and Hahne, "Dynamic Queue Length Thresholds for Shared-Memory Packet Switches" (1998).

use mbuf::Headroom;

use super::host::READ_MAX;

/// Bytes that a buffer holds at most; none: nothing more is to be read from a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Allowance(usize);

/// Bytes that buffers take together, nearly, if they are larger than a read; and the part of their rest that a buffer gets, so
/// that 8 downloads get 512 KiB each.
const LARGE: Part = Part {
    total: 12 << 20,
    share: 10,
};
/// The same for buffers of one read, so that 512 downloads take no more than some 32 MiB, most of them in buffers of a whole
/// read.
const SMALL: Part = Part {
    total: 34 << 20,
    share: 64,
};
/// The largest of the second kind: a read.
const SMALL_MAX: usize = READ_MAX;
/// The smallest send buffer: a read of that size is worth its system call. A guest may acknowledge so little 40 ms later.
const SEND_LEAST: usize = 16 << 10;
/// The smallest receive buffer: two of the largest segments. A sender waits 200 ms before it sends less than a segment
/// into a window that was once larger (RFC 9293 3.8.6.2.1).
const RECV_LEAST: usize = 128 << 10;
/// Bytes that may wait in the stack for the guest, at most: the need of the fastest stream.
pub(super) const SEND_BUFFER: usize = 1 << 20;
/// Bytes that a guest's connection may have under way to us. The guest is one hop away, so two rounds' worth
/// keeps it busy; a larger window fills the TAP's queue in front of other connections' packets (measured: 1 MiB
/// moves no more and doubles the p99 of a small request beside a bulk stream).
pub(super) const RECV_BUFFER: usize = 256 << 10;

/// A part of the storage that buffers of one kind share.
struct Part {
    total: usize,
    /// A buffer gets one part in so many of the free storage.
    share: usize,
}

impl Part {
    /// The size of a buffer with so much in use; at most half of the storage is shared.
    fn share_of(&self, used: usize, max: usize) -> usize {
        let left = self.total.min(max / 2).saturating_sub(used);
        (left / self.share)
            .checked_ilog2()
            .map_or(0, |log| 1 << log)
    }
}

impl Allowance {
    /// The allowance with the largest buffers.
    pub(super) const FULL: Allowance = Allowance(SEND_BUFFER);

    /// With so much left. A power of two, so that it seldom changes.
    pub(super) fn of(Headroom { left, max }: Headroom) -> Allowance {
        if left < max / 8 {
            return Allowance(0);
        }
        let used = max.saturating_sub(left);
        let large = LARGE.share_of(used, max);
        let small = SMALL.share_of(used, max).min(SMALL_MAX);
        Allowance(large.max(small).clamp(SEND_LEAST, SEND_BUFFER))
    }

    /// Bytes that may wait for the guest.
    pub(super) fn send_buffer(self) -> usize {
        self.0.clamp(SEND_LEAST, SEND_BUFFER)
    }

    /// Bytes of the guest's that may wait for the host.
    pub(super) fn recv_buffer(self) -> usize {
        self.0.clamp(RECV_LEAST, RECV_BUFFER)
    }

    /// Room in the send buffer that makes a read of at most `read_max` bytes worth its system calls: most of a packet. Each
    /// acknowledgement that leaves half of the buffer free wakes the connection, so a buffer of one packet would be filled
    /// by halves: twice as many packets, each with its calls, move the same data.
    pub(super) fn worth_a_read(self, read_max: usize) -> usize {
        self.send_buffer().min(read_max) / 4 * 3
    }

    /// Whether so little is left that nothing may be read from a host.
    pub(super) fn is_none(self) -> bool {
        self.0 == 0
    }
}

#[cfg(test)]
mod tests {
    use super::super::host::SEGMENT_MAX;
    use super::{Allowance, READ_MAX, SEND_BUFFER as MOST, SEND_LEAST as LEAST};
    use mbuf::Headroom;

    const MAX: usize = 512 << 20;

    fn with(left: usize) -> Allowance {
        Allowance::of(Headroom { left, max: MAX })
    }

    #[test]
    fn it_shrinks_with_what_is_left_and_ends_before_that() {
        // Breaks when idle connections take the storage that the others' packets need, or when a fast one gets less than it
        // can use while there is enough.
        let used = [0, 2, 7, 9, 10, 26, 30, 32, 34, 448].map(|mib| mib << 20);
        let sizes = used.map(|used| with(MAX - used).0 >> 10);
        assert_eq!(sizes, [1024, 1024, 512, 256, 128, 128, 64, 32, 16, 16]);
        assert!(with(MAX / 8 - 1).is_none() && with(0).is_none());
        assert!(!with(MAX / 8).is_none());
        let buffers = |left| (with(left).send_buffer(), with(left).recv_buffer());
        assert_eq!(buffers(0), (LEAST, 128 << 10));
        assert_eq!(buffers(MAX), (MOST, 256 << 10));
    }

    #[test]
    fn a_packet_is_not_filled_by_halves_and_an_empty_buffer_always() {
        // Breaks when half a buffer of one packet is read into, or when an empty buffer waits for more room, for ever.
        for (used, packet) in [(10, SEGMENT_MAX), (10, READ_MAX), (28, READ_MAX)] {
            let one = with(MAX - (used << 20));
            assert!(one.worth_a_read(packet) > one.send_buffer().min(packet) / 2);
        }
        for left in [0, MAX / 8, MAX - (34 << 20), MAX] {
            let allowance = with(left);
            for read_max in [SEGMENT_MAX, READ_MAX] {
                let worth = allowance.worth_a_read(read_max);
                assert!(worth <= allowance.send_buffer() && worth <= read_max);
            }
        }
    }

    #[test]
    fn ten_thousand_that_nobody_reads_leave_room() {
        // Breaks when the sum of all shares is more than the storage, or a few get all of it.
        let mut left = MAX;
        let mut fed = 0;
        for _ in 0..10_000 {
            fed += usize::from(!with(left).is_none());
            left -= with(left).0;
        }
        assert!(left + LEAST >= MAX / 8, "{left}");
        assert!(fed > 6000, "{fed}");
    }
}
