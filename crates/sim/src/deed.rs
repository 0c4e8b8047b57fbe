//! What a wire did to frames, and how often.
//!
//! Called by: [`Wire`](crate::Wire), [`Trace`](crate::Trace), whoever wants to know. Calls: nothing.

/// What happened to a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Deed {
    /// A copy arrived, or will.
    Delivered,
    /// A copy was lost.
    Lost,
    /// It was sent twice.
    Duplicated,
    /// A copy was held back.
    Reordered,
    /// A copy was damaged.
    Corrupted,
    /// A copy was cut short.
    Truncated,
    /// The queue was full.
    Overflowed,
    /// It was larger than the wire takes.
    TooBig,
}

/// How often what was done to the frames of one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WireCounts {
    deeds: [u64; Deed::TooBig as usize + 1],
    /// Frames that came in.
    pub sent: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl WireCounts {
    /// How often `deed` was done.
    pub fn of(&self, deed: Deed) -> u64 {
        self.deeds[deed as usize]
    }

    pub(crate) fn count(&mut self, deed: Deed, log: &mut Vec<Deed>) {
        self.deeds[deed as usize] += 1;
        log.push(deed);
    }

    /// Adds another direction's.
    pub(crate) fn add(&mut self, other: &Self) {
        self.deeds
            .iter_mut()
            .zip(other.deeds)
            .for_each(|(a, b)| *a += b);
        self.sent += other.sent;
        self.bytes += other.bytes;
    }
}
