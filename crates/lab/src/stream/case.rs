//! The work of a design: the traffic, its amount, the frames, the number of threads.

use std::fmt;

/// The traffic between the two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// As much as goes, one way.
    Stream,
    /// 64 bytes there, the same back, and again.
    Rr,
}

impl Mode {
    /// As it is typed.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Stream => "stream",
            Self::Rr => "rr",
        }
    }
}

/// The circumstances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Job {
    pub(crate) mode: Mode,
    /// Bytes of the largest IP packet in one frame.
    pub(crate) mtu: u16,
    /// A thread for each end, or one for both.
    pub(crate) two: bool,
    /// Whether each byte is summed by the sender and by the receiver, where a design has a choice.
    pub(crate) sums: bool,
}

impl Job {
    /// As the programs of `peers` take it.
    pub(crate) fn threads(self) -> &'static str {
        if self.two { "two" } else { "one" }
    }

    /// The same for checksums.
    pub(crate) fn csum(self) -> &'static str {
        if self.sums { "csum" } else { "nocsum" }
    }
}

/// A case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) job: Job,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Job { mode, mtu, .. } = self.job;
        let what = match mode {
            Mode::Stream => "one TCP stream",
            Mode::Rr => "64 bytes there and back, over TCP",
        };
        let threads = match self.job.two {
            true => "two threads",
            false => "one thread",
        };
        let sums = if self.job.sums { "" } else { ", no sums" };
        write!(f, "{what}, MTU {mtu}, {threads}{sums}")
    }
}

/// All cases, in the order in which they run; `peers/bench_inproc.sh` has the same.
pub(crate) const CASES: &[Case] = &[
    stream("stream-1500-one", 1500, false, true),
    stream("stream-1500-two", 1500, true, true),
    stream("stream-9000-one", 9000, false, true),
    stream("stream-9000-two", 9000, true, true),
    stream("stream-65535-one", 65_535, false, true),
    stream("stream-65535-two", 65_535, true, true),
    stream("stream-1500-one-nocsum", 1500, false, false),
    stream("stream-65535-one-nocsum", 65_535, false, false),
    rr("rr-1500-one", false),
    rr("rr-1500-two", true),
];

const fn stream(name: &'static str, mtu: u16, two: bool, sums: bool) -> Case {
    let mode = Mode::Stream;
    let job = Job {
        mode,
        mtu,
        two,
        sums,
    };
    Case { name, job }
}

const fn rr(name: &'static str, two: bool) -> Case {
    let job = Job {
        mode: Mode::Rr,
        mtu: 1500,
        two,
        sums: true,
    };
    Case { name, job }
}
