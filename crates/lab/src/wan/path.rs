//! The paths: each is an emulated link with a rate of 100 Mbit/s.
//!
//! Data goes forward over the faults of the case; acknowledgements go back over a link of the same rate and delay,
//! without faults unless the case is about them.

use std::fmt;
use std::time::Duration;

use mbuma::device::impair::{Faults, Lateness, LinkConfig};

/// The rate of every path, in bits a second.
pub(crate) const RATE: u64 = 100_000_000;
/// The MTU of every path.
pub(crate) const MTU: u16 = 1500;

/// A case: one path, both ways.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path {
    pub(crate) name: &'static str,
    /// The round-trip time without queues.
    rtt: Duration,
    /// The queue before the forward link, in bandwidth-delay products.
    queue_bdp: f64,
    /// The treatment of data on the path.
    faults: Faults,
    /// How much later data arrives at most, in order.
    jitter: Duration,
    /// The share of acknowledgements that are lost.
    ack_loss: f64,
    /// The queue from which on packets are marked (RFC 3168), in bandwidth-delay products; both ends offer ECN then.
    marked_bdp: Option<f64>,
    /// A second flow joins in the same queue: its measure.
    pub(crate) flows: usize,
}

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

const NONE: Faults = LinkConfig::PERFECT.faults;

const CLEAN: Path = Path {
    name: "clean-1bdp",
    rtt: ms(50),
    queue_bdp: 1.0,
    faults: NONE,
    jitter: Duration::ZERO,
    ack_loss: 0.0,
    marked_bdp: None,
    flows: 1,
};

const fn lossy(name: &'static str, loss: f64) -> Path {
    let faults = Faults { loss, ..NONE };
    Path {
        name,
        faults,
        ..CLEAN
    }
}

const fn reordering(name: &'static str, reorder: f64, late: u64) -> Path {
    let late = Lateness::By(ms(late));
    let faults = Faults {
        reorder,
        late,
        ..NONE
    };
    Path {
        name,
        faults,
        ..CLEAN
    }
}

/// All cases.
pub(crate) const PATHS: &[Path] = &[
    Path {
        name: "clean-0.1bdp",
        queue_bdp: 0.1,
        ..CLEAN
    },
    CLEAN,
    Path {
        name: "clean-10bdp",
        queue_bdp: 10.0,
        ..CLEAN
    },
    lossy("loss-0.01", 0.0001),
    lossy("loss-0.1", 0.001),
    lossy("loss-1", 0.01),
    lossy("loss-3", 0.03),
    reordering("reorder-1-5ms", 0.01, 5),
    reordering("reorder-5-5ms", 0.05, 5),
    reordering("reorder-5-25ms", 0.05, 25),
    Path {
        name: "loss-reorder",
        faults: Faults {
            loss: 0.01,
            reorder: 0.01,
            late: Lateness::By(ms(5)),
            ..NONE
        },
        ..CLEAN
    },
    Path {
        name: "jitter-30ms",
        rtt: ms(200),
        jitter: ms(30),
        ..CLEAN
    },
    Path {
        name: "ack-loss-30",
        ack_loss: 0.3,
        ..CLEAN
    },
    Path {
        name: "ecn-2bdp",
        queue_bdp: 2.0,
        marked_bdp: Some(0.5),
        ..CLEAN
    },
    Path {
        name: "fair-1bdp",
        flows: 2,
        ..CLEAN
    },
];

impl Path {
    /// The link that data goes over.
    pub(crate) fn forward(&self) -> LinkConfig {
        let link = self.backward();
        let bytes = |bdp: f64| (link.bytes_in(self.rtt) as f64 * bdp) as usize;
        LinkConfig {
            queue_bytes: bytes(self.queue_bdp),
            ecn_bytes: self.marked_bdp.map(bytes),
            faults: self.faults,
            jitter: self.jitter,
            ..link
        }
    }

    /// The link that acknowledgements go over.
    pub(crate) fn backward(&self) -> LinkConfig {
        let faults = Faults {
            loss: self.ack_loss,
            ..NONE
        };
        LinkConfig {
            faults,
            delay: self.rtt / 2,
            rate_bps: RATE,
            mtu: MTU,
            ..LinkConfig::PERFECT
        }
    }

    /// Bytes that the path holds without its queue.
    pub(crate) fn bdp(&self) -> usize {
        self.backward().bytes_in(self.rtt)
    }

    /// Whether both ends offer ECN.
    pub(crate) fn has_ecn(&self) -> bool {
        self.marked_bdp.is_some()
    }

    /// The share of lost data frames.
    pub(crate) fn loss(&self) -> f64 {
        self.faults.loss
    }

    /// The rate that Mathis's formula gives for its loss, in Mbit/s: 1.22 segments a round trip, over the root of the
    /// share that is lost. (Mathis et al., "The macroscopic behavior of the TCP congestion avoidance algorithm", 1997.)
    /// None without loss.
    pub(crate) fn mathis_mbps(&self) -> Option<f64> {
        /// Payload of a segment with timestamps at an MTU of 1500.
        const MSS: f64 = 1448.0;
        let rate = MSS * 8.0 / self.rtt.as_secs_f64() * 1.22 / self.loss().sqrt() / 1e6;
        (self.loss() > 0.0).then_some(rate)
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "100 Mbit/s, {} ms, a queue of {} BDP",
            self.rtt.as_millis(),
            self.queue_bdp
        )?;
        if self.loss() > 0.0 {
            write!(f, ", {} % lost", self.loss() * 100.0)?;
        }
        if let (true, Lateness::By(by)) = (self.faults.reorder > 0.0, self.faults.late) {
            let percent = self.faults.reorder * 100.0;
            write!(f, ", {percent} % come {} ms later", by.as_millis())?;
        }
        if !self.jitter.is_zero() {
            write!(f, ", jitter of {} ms", self.jitter.as_millis())?;
        }
        if self.ack_loss > 0.0 {
            write!(f, ", {} % of acknowledgements lost", self.ack_loss * 100.0)?;
        }
        if let Some(bdp) = self.marked_bdp {
            write!(f, ", packets marked from {bdp} BDP on")?;
        }
        if self.flows > 1 {
            write!(f, ", {} flows: the share of the first", self.flows)?;
        }
        Ok(())
    }
}
