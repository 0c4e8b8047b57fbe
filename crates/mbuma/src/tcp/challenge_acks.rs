//! The rate limit of a connection's challenge acknowledgements: a bounded number in each second.
//!
//! It has four bytes, because each connection has one: when the second began, in milliseconds modulo 2^24 (4.6 hours),
//! and how many were sent in it. If the milliseconds have wrapped exactly, the old count may apply for one second more.
//!
//! Source: RFC 5961 section 7.

use kern::Time;

#[cfg(all(test, not(shuttle)))]
mod tests;

/// Challenge acknowledgements a second and connection at most.
const PER_SECOND: u32 = 10;

/// The number sent, and the start of the second.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChallengeAcks(u32);

const COUNT_BITS: u32 = 8;

impl ChallengeAcks {
    /// None was sent.
    pub(crate) fn new(now: Time) -> Self {
        Self((now.as_millis() as u32) << COUNT_BITS)
    }

    /// Counts one more; false if no more may be sent.
    pub(crate) fn take_one(&mut self, now: Time) -> bool {
        let begins = (now.as_millis() as u32) << COUNT_BITS;
        let (since, sent) = (self.0 >> COUNT_BITS << COUNT_BITS, self.0 & 0xff);
        let is_over = begins.wrapping_sub(since) >> COUNT_BITS >= 1000;
        let (since, sent) = if is_over { (begins, 0) } else { (since, sent) };
        let may = sent < PER_SECOND;
        *self = Self(since | (sent + u32::from(may)));
        may
    }
}
