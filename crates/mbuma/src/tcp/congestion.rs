//! How much may be in the network: slow start, congestion avoidance, fast recovery (RFC 5681, 6582).
//!
//! Windows are bytes. Called by: `ack` and `timers`. This is NewReno; the seam is the methods, so
//! that another algorithm can take its place.

use wire::SeqNum;

/// Segments that limited transmit may have in flight beyond the window (RFC 3042 2).
const LIMITED_SEGMENTS: u8 = 2;

/// NewReno's state.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Congestion {
    pub(crate) cwnd: u32,
    ssthresh: u32,
    mss: u32,
    /// Bytes acknowledged since the window last grew in congestion avoidance (RFC 3465 2.1).
    acked: u32,
    /// While repairing a loss: the highest sequence number sent when it was noticed.
    recover: Option<SeqNum>,
    /// After a timeout: duplicate acknowledgements below this come from what is sent again, and mean
    /// no new loss (RFC 6582 4).
    ignore_below: Option<SeqNum>,
}

/// What an acknowledgement during fast recovery means (RFC 6582 3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Recovery {
    /// Not in recovery: the window grew as usual.
    None,
    /// Part of what was outstanding: the next hole begins at the acknowledgement. Send it again.
    Partial,
    /// All of it: recovery is over.
    Done,
}

impl Congestion {
    /// A window as it begins; `segments` is the configured initial window.
    pub(crate) fn new(mss: u32, segments: u32) -> Self {
        Self {
            cwnd: initial_window(mss, segments),
            ssthresh: u32::MAX,
            mss,
            acked: 0,
            recover: None,
            ignore_below: None,
        }
    }

    pub(crate) fn in_recovery(&self) -> bool {
        self.recover.is_some()
    }

    /// `bytes` of new data were acknowledged up to `ack`; `limited` says that the window, not the
    /// sender, was what held data back (RFC 7661's question: else it has proved nothing).
    pub(crate) fn acked(&mut self, bytes: u32, ack: SeqNum, limited: bool) -> Recovery {
        let Some(recover) = self.recover else {
            if limited {
                self.grow(bytes);
            }
            return Recovery::None;
        };
        if ack.before(recover) {
            // RFC 6582 3.2 step 3: deflate by what left the network, and let one more in.
            self.cwnd = self.cwnd.saturating_sub(bytes).max(self.mss);
            if bytes >= self.mss {
                self.cwnd += self.mss;
            }
            return Recovery::Partial;
        }
        self.cwnd = self.ssthresh.max(2 * self.mss);
        self.recover = None;
        Recovery::Done
    }

    fn grow(&mut self, bytes: u32) {
        if self.cwnd < self.ssthresh {
            // Slow start by bytes acknowledged. RFC 3465's limit of two segments an acknowledgement
            // is left out: peers that merge segments acknowledge 64 KiB at a time.
            self.cwnd = self.cwnd.saturating_add(bytes);
            return;
        }
        self.acked = self.acked.saturating_add(bytes);
        if self.acked >= self.cwnd {
            self.acked -= self.cwnd;
            self.cwnd = self.cwnd.saturating_add(self.mss);
        }
    }

    /// RFC 5681 equation (4).
    fn halve(&mut self, flight: u32) {
        self.ssthresh = (flight / 2).max(2 * self.mss);
        self.acked = 0;
    }

    /// How much more than the window may be in flight after so many duplicate acknowledgements: a segment for each of
    /// the first two, which says that one has left the network (RFC 3042 2).
    pub(crate) fn limited_transmit(&self, duplicates: u8, una: SeqNum) -> u32 {
        match self.recover.is_none() && !self.repeats(una) {
            true => u32::from(duplicates.min(LIMITED_SEGMENTS)) * self.mss,
            false => 0,
        }
    }

    /// After a timeout: duplicates at `una` answer what is sent again.
    fn repeats(&self, una: SeqNum) -> bool {
        self.ignore_below.is_some_and(|below| una.before(below))
    }

    /// The third duplicate acknowledgement. False if that loss is being repaired already.
    pub(crate) fn enter_recovery(&mut self, flight: u32, una: SeqNum, max: SeqNum) -> bool {
        if self.recover.is_some() || self.repeats(una) {
            return false;
        }
        self.ignore_below = None;
        // What limited transmit sent beyond the window does not count (RFC 5681 3.2 step 2).
        let beyond = flight.saturating_sub(self.cwnd);
        self.halve(flight - beyond.min(u32::from(LIMITED_SEGMENTS) * self.mss));
        self.cwnd = self.ssthresh.saturating_add(3 * self.mss);
        self.recover = Some(max);
        true
    }

    /// One more duplicate acknowledgement in recovery: one more segment has left the network.
    pub(crate) fn inflate(&mut self) {
        self.cwnd = self.cwnd.saturating_add(self.mss);
    }

    /// The retransmission timer expired, for the first time for this loss or again.
    pub(crate) fn timed_out(&mut self, flight: u32, max: SeqNum, first: bool) {
        if first {
            self.halve(flight);
        }
        self.cwnd = self.mss; // RFC 5681 3.1: the loss window
        self.recover = None;
        self.ignore_below = Some(max);
    }

    /// The handshake took several tries. If more than one SYN or SYN-ACK was lost, the path is bad, and the window begins
    /// with one segment (RFC 6928 2, RFC 5681 3.1). A lost SYN says nothing about ssthresh.
    pub(crate) fn handshake_repeated(&mut self, retransmits: u8) {
        if retransmits > 1 {
            self.cwnd = self.mss;
        }
    }

    /// Nothing was sent for a timeout: what the window knew is old (RFC 5681 4.1).
    pub(crate) fn restart_after_idle(&mut self, segments: u32) {
        self.cwnd = self.cwnd.min(self.restart_window(segments));
    }

    /// What is left of a window after that, at most.
    #[doc(alias = "RW")]
    pub(crate) fn restart_window(&self, segments: u32) -> u32 {
        initial_window(self.mss, segments)
    }

    /// The path carries less than was thought.
    pub(crate) fn set_mss(&mut self, mss: u32) {
        self.mss = mss;
        self.cwnd = self.cwnd.max(mss);
    }
}

/// The initial window in bytes: so many segments, but not more than two if they are larger than an Ethernet's
/// (RFC 6928 2: min (10*MSS, max (2*MSS, 14600))).
fn initial_window(mss: u32, segments: u32) -> u32 {
    const ETHERNET_MSS: u32 = 1460;
    let bound = (2 * mss).max(segments.saturating_mul(ETHERNET_MSS));
    mss.saturating_mul(segments).min(bound)
}
