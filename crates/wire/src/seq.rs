//! A TCP sequence number: a point on a circle of 2^32 points.
//!
//! Invariants: no `Ord`, because a circle has none: `before` is not transitive over more than half of it. Two points
//! exactly 2^31 apart are each before the other, as in BSD's `SEQ_LT`; no window is that large (RFC 7323 2.3 keeps
//! windows below 2^30), so honest peers never come there.
//! Locks: none.
//! Sources: RFC 9293 section 3.4, RFC 1982.

use core::fmt;
use core::ops::{Add, AddAssign, Sub};

/// A sequence or acknowledgment number (RFC 9293 section 3.4).
///
/// ```
/// use wire::SeqNum;
/// let last = SeqNum(u32::MAX);
/// assert!(last.before(last + 2));
/// assert_eq!((last + 2) - last, 2);
/// ```
#[doc(alias = "tcp_seq")]
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct SeqNum(pub u32);

impl SeqNum {
    /// Whether `self` comes earlier than `other`.
    #[doc(alias = "SEQ_LT")]
    #[inline]
    pub const fn before(self, other: SeqNum) -> bool {
        self.signed_distance(other) < 0
    }

    /// Whether `self` comes later than `other`.
    #[doc(alias = "SEQ_GT")]
    #[inline]
    pub const fn after(self, other: SeqNum) -> bool {
        other.before(self)
    }

    /// Whether `self` is `other` or earlier.
    #[doc(alias = "SEQ_LEQ")]
    #[inline]
    pub const fn at_or_before(self, other: SeqNum) -> bool {
        self.0 == other.0 || self.before(other)
    }

    /// Whether `self` is `other` or later.
    #[doc(alias = "SEQ_GEQ")]
    #[inline]
    pub const fn at_or_after(self, other: SeqNum) -> bool {
        other.at_or_before(self)
    }

    /// Whether `self` is one of the `len` numbers that begin with `start`; an empty window holds none.
    #[inline]
    pub const fn in_window(self, start: SeqNum, len: u32) -> bool {
        self.since(start) < len
    }

    /// How many numbers one walks forward from `start` to reach `self`, around the circle if need be.
    #[inline]
    pub const fn since(self, start: SeqNum) -> u32 {
        self.0.wrapping_sub(start.0)
    }

    /// The earlier of the two.
    #[doc(alias = "SEQ_MIN")]
    #[inline]
    #[must_use]
    pub const fn min(self, other: SeqNum) -> SeqNum {
        if self.before(other) { self } else { other }
    }

    /// The later of the two.
    #[doc(alias = "SEQ_MAX")]
    #[inline]
    #[must_use]
    pub const fn max(self, other: SeqNum) -> SeqNum {
        if self.after(other) { self } else { other }
    }

    /// The shorter way from `other` to `self`, negative if that way is backward. The cast reads the
    /// unsigned distance as two's complement, which is the definition of "shorter way".
    #[inline]
    const fn signed_distance(self, other: SeqNum) -> i32 {
        self.since(other) as i32
    }
}

impl Add<u32> for SeqNum {
    type Output = SeqNum;

    #[inline]
    fn add(self, count: u32) -> SeqNum {
        SeqNum(self.0.wrapping_add(count))
    }
}

impl AddAssign<u32> for SeqNum {
    #[inline]
    fn add_assign(&mut self, count: u32) {
        self.0 = self.0.wrapping_add(count);
    }
}

impl Sub<u32> for SeqNum {
    type Output = SeqNum;

    #[inline]
    fn sub(self, count: u32) -> SeqNum {
        SeqNum(self.0.wrapping_sub(count))
    }
}

impl Sub for SeqNum {
    type Output = i32;

    #[inline]
    fn sub(self, other: SeqNum) -> i32 {
        self.signed_distance(other)
    }
}

impl fmt::Display for SeqNum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for SeqNum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SeqNum({})", self.0)
    }
}

#[cfg(test)]
mod tests;
