//! What one connection may keep of the storage that all share.
//!
//! A guest that opens a thousand downloads and reads none of them fills as many send buffers, and a host that does
//! not read fills receive buffers. Were these as large as ever, some five hundred would take all clusters, and with
//! them what everybody else's packets need: even the acknowledgements that would free them could not be taken in.
//! So a buffer's size is a share of what is left, which is how switches divide theirs:
//!
//! ```text
//!   used   0        12 MiB      14 MiB    16 MiB      3/4       7/8      all
//!          |-----------|-----------|------|------------|---------|--------|
//!   each   1 MiB       512 KiB     256 .. 64 KiB       16 KiB    nothing more is read from hosts
//!                                  (no receive buffer is smaller than 128 KiB)
//! ```
//!
//! However many there are, the next one gets something, and large buffers take no more than [`LARGE`] together: the
//! guest acknowledges what it has room for at once, so that more memory would not make many streams faster. The last
//! eighth is for what must come in so that some of it is given back.
//!
//! Called by: shared, splice, start. Calls: nothing.
//! Locks: none. Sources: Choudhury and Hahne, "Dynamic Queue Length Thresholds for Shared-Memory Packet Switches"
//! (1998).

use mbuf::Headroom;

/// Bytes that a buffer holds at most; none: nothing more is to be read from a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Allowance(usize);

/// Bytes that buffers of more than the smallest size take together, nearly.
const LARGE: usize = 16 << 20;
/// What a buffer gets of what is left of them.
const SHARE: usize = 4;
/// The smallest send buffer: what makes a read worth its system call. A guest may acknowledge so little 40 ms later.
const SEND_LEAST: usize = 16 << 10;
/// The smallest while a quarter of the storage is left: a segment of the largest kind.
const SEND_FEW: usize = 64 << 10;
/// The smallest receive buffer: two of the largest segments. A sender waits 200 ms before it sends less than a segment
/// into a window that was once larger (RFC 9293 3.8.6.2.1).
const RECV_LEAST: usize = 128 << 10;
/// What may wait in the stack for the guest, at most: what a stream needs that is as fast as can be.
pub(super) const SEND_BUFFER: usize = 1 << 20;
/// What a guest's connection may have under way to us. The guest is one hop away, so two rounds' worth
/// keeps it busy; a larger window fills the TAP's queue in front of other connections' packets (measured: 1 MiB
/// moves no more and doubles the p99 of a small request beside a bulk stream).
pub(super) const RECV_BUFFER: usize = 256 << 10;

impl Allowance {
    /// What makes the largest buffers.
    pub(super) const FULL: Allowance = Allowance(SEND_BUFFER);

    /// With so much left. A power of two, so that it seldom changes.
    pub(super) fn of(Headroom { left, max }: Headroom) -> Allowance {
        if left < max / 8 {
            return Allowance(0);
        }
        let least = match left < max / 4 {
            true => SEND_LEAST,
            false => SEND_FEW,
        };
        let used = max.saturating_sub(left);
        let share = LARGE.min(max / 2).saturating_sub(used) / SHARE;
        let rounded = share.checked_ilog2().map_or(0, |log| 1 << log);
        Allowance(rounded.clamp(least, SEND_BUFFER))
    }

    /// Bytes that may wait for the guest.
    pub(super) fn send_buffer(self) -> usize {
        self.0.clamp(SEND_LEAST, SEND_BUFFER)
    }

    /// Bytes of the guest's that may wait for the host.
    pub(super) fn recv_buffer(self) -> usize {
        self.0.clamp(RECV_LEAST, RECV_BUFFER)
    }

    /// Whether so little is left that nothing may be read from a host.
    pub(super) fn is_none(self) -> bool {
        self.0 == 0
    }
}

#[cfg(test)]
mod tests {
    use super::{Allowance, SEND_BUFFER as MOST, SEND_FEW as FEW, SEND_LEAST as LEAST};
    use mbuf::Headroom;

    const MAX: usize = 512 << 20;

    fn with(left: usize) -> Allowance {
        Allowance::of(Headroom { left, max: MAX })
    }

    #[test]
    fn it_shrinks_with_what_is_left_and_ends_before_that() {
        // Breaks when idle connections take what the others' packets need, or when a fast one gets less than it
        // can use while there is enough.
        let used = [0, 12 << 20, 14 << 20, 16 << 20, MAX / 8 * 6, MAX / 8 * 7];
        let sizes = used.map(|used| with(MAX - used).0);
        assert_eq!(sizes, [MOST, MOST, 512 << 10, FEW, FEW, LEAST]);
        assert!(with(MAX / 8 - 1).is_none() && with(0).is_none());
        assert!(!with(MAX / 8).is_none());
        let buffers = |left| (with(left).send_buffer(), with(left).recv_buffer());
        assert_eq!(buffers(0), (LEAST, 128 << 10));
        assert_eq!(buffers(MAX), (MOST, 256 << 10));
    }

    #[test]
    fn ten_thousand_that_nobody_reads_leave_room() {
        // Breaks when the sum of what each may keep is more than there is, or a few get all of it.
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
