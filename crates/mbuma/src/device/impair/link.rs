//! The properties of one direction of a link: its rate, its length, its queue and its faults.
//!
//! Plain values, without state: a [`LinkEmulator`](super::LinkEmulator) is the state of one direction.

use std::time::Duration;

/// The Ethernet header before an IP packet, in bytes: it counts in the rate and in the queue.
const HEADER: u64 = wire::EtherHeader::LEN as u64;

/// Faults of a link: each number is the probability, from 0 to 1, that it happens to a frame.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Faults {
    /// The frame disappears, independently of all others.
    pub loss: f64,
    /// The frame disappears in a burst. Default: no bursts.
    pub burst: Option<Burst>,
    /// The frame arrives twice.
    pub duplicate: f64,
    /// The frame arrives later, by `late`, and others overtake it.
    pub reorder: f64,
    /// How much later.
    pub late: Lateness,
    /// A bit of the frame is inverted.
    pub corrupt: f64,
    /// The end of the frame is missing.
    pub truncate: f64,
}

/// How much later than the others a reordered frame arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lateness {
    /// Always this much.
    By(Duration),
    /// Uniformly distributed from zero to this.
    UpTo(Duration),
}

impl Default for Lateness {
    fn default() -> Self {
        Self::By(Duration::ZERO)
    }
}

/// Losses that come in bursts: the Gilbert-Elliott model with two states, good and bad, where only the bad one loses
/// frames. (Gilbert, "Capacity of a burst-noise channel", 1960.)
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Burst {
    /// The probability, before each frame, that the state changes from good to bad.
    pub enter: f64,
    /// The probability, before each frame, that the state changes from bad to good: a burst has 1/`leave` frames on
    /// average.
    pub leave: f64,
    /// The probability that a frame is lost in the bad state.
    pub loss: f64,
}

/// One direction of a link.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LinkConfig {
    /// Its faults.
    pub faults: Faults,
    /// How long a frame travels, behind its last bit.
    pub delay: Duration,
    /// How much longer at most: uniformly distributed. It changes distances, never the order.
    pub jitter: Duration,
    /// Bits a second, Ethernet headers included; 0 for no limit.
    pub rate_bps: u64,
    /// How many bytes pass at once, after a pause, before the rate applies: the size of a token bucket. 0: none.
    pub burst_bytes: usize,
    /// Bytes that wait for the rate at most, and beyond which an arriving frame is dropped.
    pub queue_bytes: usize,
    /// Bytes that wait for the rate beyond which a frame that is ECN-capable is marked (RFC 3168). Default: none is.
    pub ecn_bytes: Option<usize>,
    /// Largest frame without its Ethernet header, in bytes; but a frame that is still to be cut passes whole.
    pub mtu: u16,
}

impl LinkConfig {
    /// A perfect link of no length.
    pub const PERFECT: Self = Self {
        faults: Faults {
            loss: 0.0,
            burst: None,
            duplicate: 0.0,
            reorder: 0.0,
            late: Lateness::By(Duration::ZERO),
            corrupt: 0.0,
            truncate: 0.0,
        },
        delay: Duration::ZERO,
        jitter: Duration::ZERO,
        rate_bps: 0,
        burst_bytes: 0,
        queue_bytes: usize::MAX,
        ecn_bytes: None,
        mtu: u16::MAX,
    };

    /// A perfect link with this delay.
    pub const fn delay(delay: Duration) -> Self {
        Self {
            delay,
            ..Self::PERFECT
        }
    }

    /// A perfect link with this delay and rate, and a queue for one round trip.
    pub const fn rate(delay: Duration, rate_bps: u64) -> Self {
        let queue_bytes = (delay.as_millis() as u64 * 2 * rate_bps / 8000) as usize + 16_384;
        Self {
            delay,
            rate_bps,
            queue_bytes,
            ..Self::PERFECT
        }
    }

    /// The bytes that this direction carries in `time`: with a round-trip time, the bandwidth-delay product. 0 without
    /// a rate.
    pub const fn bytes_in(&self, time: Duration) -> usize {
        (time.as_nanos() * self.rate_bps as u128 / 8_000_000_000) as usize
    }

    /// How long the rate takes for this many bytes.
    pub(super) fn time_for(&self, bytes: usize) -> Duration {
        let bits = bytes as u128 * 8 * 1_000_000_000;
        let nanos = bits.checked_div(self.rate_bps.into()).unwrap_or(0);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// The bytes of `packets` packets of `mtu` bytes with their Ethernet headers.
    pub const fn bytes_of(packets: u64, mtu: u16) -> usize {
        packets.saturating_mul(mtu as u64 + HEADER) as usize
    }
}
