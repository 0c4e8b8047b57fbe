//! What one direction of a wire is like: its faults, its length, its rate.
//!
//! Called by: [`Wire`](crate::Wire), scenarios, tests. Calls: nothing.

use std::time::Duration;

/// How often something bad happens to a frame: probabilities from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Faults {
    /// It disappears.
    pub loss: f64,
    /// It arrives twice.
    pub duplicate: f64,
    /// It arrives late by up to `reorder_by`, while others overtake it.
    pub reorder: f64,
    /// How late.
    pub reorder_by: Duration,
    /// One of its bits is turned.
    pub corrupt: f64,
    /// Its end is missing.
    pub truncate: f64,
}

/// One direction of a wire.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Link {
    /// What goes wrong.
    pub faults: Faults,
    /// How long a frame travels.
    pub delay: Duration,
    /// How much longer at most. It changes distances, not the order.
    pub jitter: Duration,
    /// Bits a second; 0 for no limit.
    pub rate_bps: u64,
    /// Bytes that wait for the rate at most.
    pub queue_bytes: usize,
    /// Largest frame without its Ethernet header, but for frames that go over whole.
    pub mtu: u16,
}

impl Link {
    /// A perfect link at no distance.
    pub const PERFECT: Self = Self {
        faults: Faults {
            loss: 0.0,
            duplicate: 0.0,
            reorder: 0.0,
            reorder_by: Duration::ZERO,
            corrupt: 0.0,
            truncate: 0.0,
        },
        delay: Duration::ZERO,
        jitter: Duration::ZERO,
        rate_bps: 0,
        queue_bytes: usize::MAX,
        mtu: u16::MAX,
    };

    /// A perfect link of this length.
    pub const fn delay(delay: Duration) -> Self {
        Self {
            delay,
            ..Self::PERFECT
        }
    }

    /// A perfect link of this length and rate, with a queue for one round trip.
    pub const fn rate(delay: Duration, rate_bps: u64) -> Self {
        let queue_bytes = (delay.as_millis() as u64 * 2 * rate_bps / 8000) as usize + 16_384;
        Self {
            delay,
            rate_bps,
            queue_bytes,
            ..Self::PERFECT
        }
    }
}
