//! A packet trace as this experiment needs it: how long each frame is, and how much of that is its link header.
//!
//! The generated one is made up, in the shape that the seed describes and draws in figure 2: most frames are either
//! small (acknowledgements, requests) or full segments, and few are between. It is no measurement of any network;
//! `--trace` takes a real one.
//!
//! Invariant: a seed and a number of packets give the same trace on every machine.
//! Sources: seed 004 section 4.1; IEEE 802.3 (60 bytes at least, 1514 at most, without the checksum).

use kern::Random;

/// Bytes of an Ethernet header.
pub(super) const ETHER_HEADER: u8 = 14;
/// The shortest frame, without its checksum: a shorter one is padded.
const FRAME_MIN: u64 = 60;
/// The longest frame of Ethernet's usual size.
const FRAME_MAX: u64 = 1514;
/// An acknowledgement: Ethernet, IPv4, TCP with a timestamp option.
const ACK: u64 = 66;
/// Small frames end here: a request of 60 bytes behind its headers.
const SMALL_MAX: u64 = 114;

/// Of 100 frames, the numbers of bare acknowledgements, of small frames, and of full ones; the others have any size
/// between.
const ACKS: u64 = 35;
const SMALL: u64 = 15;
const FULL: u64 = 40;

/// One packet of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    /// Bytes on the wire, link header included, checksum not.
    pub(super) len: u32,
    /// How many of them are the link header.
    pub(super) link: u8,
}

/// Packets in the order in which they were seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Trace {
    /// Where it is from, for titles.
    pub(super) source: String,
    pub(super) frames: Vec<Frame>,
}

impl Trace {
    /// A bimodal one of `packets` frames of Ethernet.
    pub(super) fn bimodal(seed: u64, packets: usize) -> Self {
        let mut random = Random::from_seed(seed);
        let frames = (0..packets).map(|_| Frame {
            // At most FRAME_MAX.
            len: bimodal_len(&mut random) as u32,
            link: ETHER_HEADER,
        });
        Self {
            frames: frames.collect(),
            source: format!("generated, seed {seed}"),
        }
    }

    /// Bytes of all frames together.
    pub(super) fn bytes(&self) -> u64 {
        self.frames.iter().map(|frame| u64::from(frame.len)).sum()
    }

    /// Bytes of the longest frame.
    pub(super) fn longest(&self) -> usize {
        let lens = self.frames.iter().map(|frame| frame.len as usize);
        lens.max().unwrap_or(0)
    }
}

fn bimodal_len(random: &mut Random) -> u64 {
    let kind = random.below(100);
    // From the first to the second, each equally likely, and drawn for every frame, needed or not: changing a weight
    // changes the frames that it concerns and no others.
    let small = FRAME_MIN + random.below(SMALL_MAX - FRAME_MIN + 1);
    let between = SMALL_MAX + 1 + random.below(FRAME_MAX - SMALL_MAX - 1);
    match kind {
        _ if kind < ACKS => ACK,
        _ if kind < ACKS + SMALL => small,
        _ if kind < ACKS + SMALL + FULL => FRAME_MAX,
        _ => between,
    }
}

const _: () = assert!(ACKS + SMALL + FULL < 100 && FRAME_MIN <= ACK && ACK <= SMALL_MAX);
