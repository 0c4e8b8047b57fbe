//! The effects of a link on frames, and their numbers.

/// An event of a frame, or of a copy of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum LinkEvent {
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
    /// It was larger than the link's MTU.
    TooBig,
    /// It was marked: congestion experienced (RFC 3168).
    Marked,
}

impl LinkEvent {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Delivered,
        Self::Lost,
        Self::Duplicated,
        Self::Reordered,
        Self::Corrupted,
        Self::Truncated,
        Self::Overflowed,
        Self::TooBig,
        Self::Marked,
    ];

    /// Its name in listings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Delivered => "delivered",
            Self::Lost => "lost",
            Self::Duplicated => "duplicated",
            Self::Reordered => "reordered",
            Self::Corrupted => "corrupted",
            Self::Truncated => "truncated",
            Self::Overflowed => "overflowed",
            Self::TooBig => "too_big",
            Self::Marked => "marked",
        }
    }
}

/// How often each thing happened to the frames of one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LinkCounts {
    events: [u64; LinkEvent::ALL.len()],
    /// Frames that came in.
    pub sent: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl LinkCounts {
    /// How often `event` happened.
    pub fn of(&self, event: LinkEvent) -> u64 {
        self.events[event as usize]
    }

    pub(super) fn count(&mut self, event: LinkEvent, log: &mut impl FnMut(LinkEvent)) {
        self.events[event as usize] += 1;
        log(event);
    }

    /// Adds another direction's.
    pub fn add(&mut self, other: &Self) {
        let pairs = self.events.iter_mut().zip(other.events);
        pairs.for_each(|(a, b)| *a += b);
        self.sent += other.sent;
        self.bytes += other.bytes;
    }
}
