//! Dates as HTTP writes them, in whole seconds.
//!
//! Invariants: any file time is written; one that HTTP can't write becomes the nearest that it can.
//! Locks: none.
//! Sources: RFC 9110 5.6.7.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The last second of the year 9999.
const LAST: u64 = 253_402_300_799;

/// `Wed, 25 Nov 2026 21:40:00 GMT`
pub(crate) fn text(time: SystemTime) -> String {
    httpdate::fmt_http_date(whole(time))
}

/// The same time in whole seconds, as the client gets it back.
pub(crate) fn whole(time: SystemTime) -> SystemTime {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    UNIX_EPOCH + Duration::from_secs(since.as_secs().min(LAST))
}

/// Reads a date in one of HTTP's three forms.
pub(crate) fn parse(value: &[u8]) -> Option<SystemTime> {
    httpdate::parse_http_date(std::str::from_utf8(value).ok()?).ok()
}
