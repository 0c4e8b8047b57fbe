//! The share of one connection in the storage of all.
//!
//! A guest that opens a thousand downloads and reads none of them fills as many send buffers, and a host that does
//! not read fills receive buffers. If these always had their usual size, some five hundred of them would take all
//! clusters. Then no other packet could be received, not even the acknowledgements that free the buffers. So the size
//! of a buffer is a share of the free storage, as in switches:
//!
//! ```text
//!   used   0       2 MiB     6 MiB     8 MiB     9 MiB        10 MiB                       7/8     all
//!          |---------|---------|---------|---------|------------|--------------------------|-------|
//!   each   1 MiB     512 KiB   256 KiB   128 KiB   64, 32 KiB   16 KiB                     nothing more is
//!                                                                                          read from hosts
//!                      (no receive buffer is smaller than 128 KiB)
//! ```
//!
//! However many there are, the next one gets something, and buffers larger than the smallest take no more than
//! [`TOTAL`] together: the guest acknowledges data that it has room for at once, so more memory would make no stream
//! faster. If some of it is in use, data that the guest has no room for stay in the host's socket
//! ([`Allowance::read_max`]). The last eighth is for the acknowledgements that must come in so that storage is given
//! back.
//!
//! Locks: none.
//! Sources: Choudhury and Hahne, "Dynamic Queue Length Thresholds for Shared-Memory Packet Switches" (1998).

use mbuf::Headroom;

use super::host::READ_MAX;

/// Bytes that a buffer holds at most; none: nothing more is to be read from a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Allowance(usize);

/// The data of a connection on their way to the guest.
#[derive(Clone, Copy, Debug)]
pub(super) struct SendBacklog {
    /// Bytes of room in the send buffer.
    pub(super) room: usize,
    /// Bytes in it: the guest has not acknowledged them.
    pub(super) buffered: usize,
    /// Bytes that the guest has room for beyond these.
    pub(super) window: usize,
    /// Bytes of the largest packet.
    pub(super) packet: usize,
}

/// Bytes that buffers take together, nearly, if they are larger than the smallest. Measured beside 34 MiB with 512
/// downloads: as much throughput, and half the memory at the peak.
const TOTAL: usize = 10 << 20;
/// A buffer gets one part in so many of what is left of that: 8 downloads get 512 KiB each, and 64 a whole read.
const SHARE: usize = 8;
/// The smallest send buffer: a read of that size is worth its system call. A guest may acknowledge so little 40 ms
/// later.
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

impl Allowance {
    /// The allowance with the largest buffers.
    pub(super) const FULL: Allowance = Allowance(SEND_BUFFER);

    /// With so much left. A power of two, so that it seldom changes.
    pub(super) fn of(Headroom { left, max }: Headroom) -> Allowance {
        if left < max / 8 {
            return Allowance(0);
        }
        let used = max.saturating_sub(left);
        // At most half of the storage is shared.
        let share = TOTAL.min(max / 2).saturating_sub(used) / SHARE;
        let size = share.checked_ilog2().map_or(0, |log| 1 << log);
        Allowance(size.clamp(SEND_LEAST, SEND_BUFFER))
    }

    /// Bytes that may wait for the guest.
    pub(super) fn send_buffer(self) -> usize {
        self.0.clamp(SEND_LEAST, SEND_BUFFER)
    }

    /// Bytes of the guest's that may wait for the host.
    pub(super) fn recv_buffer(self) -> usize {
        self.0.clamp(RECV_LEAST, RECV_BUFFER)
    }

    /// Bytes to read from the host at once; 0: none before the guest has acknowledged some.
    ///
    /// If memory is in use, a connection whose guest has little room reads only so much that the guest's next
    /// acknowledgement wakes it: more would wait here, and costs nothing in the host's socket.
    pub(super) fn read_max(self, backlog: &SendBacklog) -> usize {
        let read_max = backlog.packet.min(READ_MAX);
        let worth = self.worth_a_read(read_max);
        match backlog {
            _ if backlog.room < worth => 0,
            _ if self == Allowance::FULL || backlog.window >= worth => read_max,
            SendBacklog { buffered: 0, .. } => read_max.min(backlog.window.max(SEND_LEAST)),
            _ => 0,
        }
    }

    /// Room in the send buffer that makes a read of at most `read_max` bytes worth its system calls: most of a packet.
    /// Each acknowledgement that leaves half of the buffer free wakes the connection, so a buffer of one packet would
    /// be filled by halves: twice as many packets, each with its calls, move the same data.
    fn worth_a_read(self, read_max: usize) -> usize {
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
    use super::{Allowance, READ_MAX, SEND_BUFFER as MOST, SEND_LEAST as LEAST, SendBacklog};
    use mbuf::Headroom;

    const MAX: usize = 512 << 20;

    fn with(left: usize) -> Allowance {
        Allowance::of(Headroom { left, max: MAX })
    }

    #[test]
    fn it_shrinks_with_what_is_left_and_ends_before_that() {
        // Breaks when idle connections take the storage that the others' packets need, or when a fast one gets less
        // than it can use while there is enough.
        let used = [0, 2, 3, 6, 7, 8, 9, 10, 448].map(|mib| mib << 20);
        let sizes = used.map(|used| with(MAX - used).0 >> 10);
        assert_eq!(sizes, [1024, 1024, 512, 512, 256, 256, 128, 16, 16]);
        assert!(with(MAX / 8 - 1).is_none() && with(0).is_none());
        assert!(!with(MAX / 8).is_none());
        let buffers = |left| (with(left).send_buffer(), with(left).recv_buffer());
        assert_eq!(buffers(0), (LEAST, 128 << 10));
        assert_eq!(buffers(MAX), (MOST, 256 << 10));
    }

    /// Bytes that so many downloads take together, and the size of the last buffer, if the guest acknowledges nothing.
    fn unread(downloads: usize) -> (usize, usize) {
        let mut used = 0;
        let sizes = (0..downloads).map(|_| {
            let size = with(MAX - used).0;
            used += size;
            size
        });
        let last = sizes.last();
        (used, last.unwrap_or(0))
    }

    #[test]
    fn what_downloads_take_while_the_guest_does_not_read_is_bounded() {
        // Breaks when 512 downloads that the guest has no room for take the memory of several times as many, which
        // their host's sockets would hold for nothing.
        let (all, last) = unread(512);
        assert!(all <= 18 << 20, "{all}");
        assert_eq!(last, LEAST);
    }

    #[test]
    fn data_that_the_guest_has_no_room_for_stay_in_the_hosts_socket() {
        // Breaks when downloads that the guest does not read take the memory of those that it reads; or when one waits
        // for an acknowledgement and has sent nothing.
        let backlog = |buffered, window| SendBacklog {
            room: (512 << 10) - buffered,
            buffered,
            window,
            packet: READ_MAX,
        };
        let few = with(MAX - (3 << 20));
        let all = [(0, 0), (1, 0), (0, 64 << 10), (1, 64 << 10), (1, 1 << 20)];
        let reads = |allowance: Allowance| {
            all.map(|(buffered, window)| allowance.read_max(&backlog(buffered, window)))
        };
        assert_eq!(reads(few), [LEAST, 0, 64 << 10, 0, READ_MAX]);
        assert_eq!(reads(Allowance::FULL), [READ_MAX; 5]);
    }

    #[test]
    fn equal_shares_of_8_are_large_and_those_of_64_a_read() {
        // Breaks when few downloads get too little for the throughput of one, or many less than a read each.
        let is_stable = |count: usize, each: usize| with(MAX - count * each).0 >= each;
        assert!(is_stable(8, 512 << 10));
        assert!(is_stable(64, READ_MAX));
    }

    #[test]
    fn a_packet_is_not_filled_by_halves_and_an_empty_buffer_always() {
        // Breaks when half a buffer of one packet is read into, or when an empty buffer waits for more room, for ever.
        for (used, packet) in [(8, SEGMENT_MAX), (9, READ_MAX), (10, READ_MAX)] {
            let one = with(MAX - (used << 20));
            assert!(one.worth_a_read(packet) > one.send_buffer().min(packet) / 2);
        }
        for left in [0, MAX / 8, MAX - (10 << 20), MAX] {
            let allowance = with(left);
            for read_max in [SEGMENT_MAX, READ_MAX] {
                let worth = allowance.worth_a_read(read_max);
                assert!(worth <= allowance.send_buffer() && worth <= read_max);
            }
        }
    }

    #[test]
    fn ten_thousand_without_a_reader_leave_room() {
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
