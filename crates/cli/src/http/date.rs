//! Dates as HTTP writes them, in whole seconds.
//!
//! Invariants: any file time is written; one that HTTP can't write becomes the nearest that it can.
//! Locks: none.
//! Sources: RFC 9110 5.6.7.

use std::cell::RefCell;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The last second of the year 9999.
const LAST: u64 = 253_402_300_799;

/// `Wed, 25 Nov 2026 21:40:00 GMT`
pub(crate) fn text(time: SystemTime) -> String {
    httpdate::fmt_http_date(whole(time))
}

/// Writes a time that is now, or a moment ago: many are in the same second, and a thread makes the text of each once.
pub(crate) fn push_now(now: SystemTime, out: &mut String) {
    thread_local! {
        static LAST_TEXT: RefCell<(SystemTime, String)> = const { RefCell::new((UNIX_EPOCH, String::new())) };
    }
    let second = whole(now);
    LAST_TEXT.with_borrow_mut(|(of, made)| {
        if *of != second || made.is_empty() {
            (*of, *made) = (second, text(second));
        }
        out.push_str(made);
    });
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
