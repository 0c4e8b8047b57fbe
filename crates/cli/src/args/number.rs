//! Numbers of the command line, with errors that say what the number is.
//!
//! Locks: none.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use super::{MTU_MAX, MTU_MIN, WORKERS_MAX};

/// A number in `range`; `what` it is follows "it is", as in "an MTU in bytes".
fn number<T>(text: &str, what: &str, range: RangeInclusive<T>) -> Result<T, String>
where
    T: FromStr + PartialOrd + Display,
{
    let number = text.parse().ok().filter(|n| range.contains(n));
    number.ok_or_else(|| format!("it is {what}, from {} to {}", range.start(), range.end()))
}

/// An interface's MTU.
pub(super) fn mtu(text: &str) -> Result<u16, String> {
    number(text, "the bytes of a packet", MTU_MIN..=MTU_MAX)
}

/// Threads that serve.
pub(super) fn workers(text: &str) -> Result<u8, String> {
    number(text, "a number of threads", 1..=WORKERS_MAX)
}

/// A port.
pub(super) fn port(text: &str) -> Result<u16, String> {
    number(text, "a port", 1..=u16::MAX)
}

/// A process number.
pub(super) fn pid(text: &str) -> Result<i32, String> {
    number(text, "a process number", 1..=i32::MAX)
}

/// A file descriptor that the caller opened.
pub(super) fn descriptor(text: &str) -> Result<i32, String> {
    number(text, "the number of an open descriptor", 0..=i32::MAX)
}

/// A time that passes, at least a second.
pub(super) fn interval(text: &str) -> Result<u32, String> {
    number(text, "a number of seconds", 1..=u32::MAX)
}

/// A time after which something happens; 0 is never.
pub(super) fn patience(text: &str) -> Result<u32, String> {
    number(text, "a number of seconds", 0..=u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_what_the_number_is() {
        // Breaks when a number out of its range passes, or the message speaks of digits and ranges only.
        assert_eq!(mtu("1500"), Ok(1500));
        assert_eq!(workers("64"), Ok(64));
        assert_eq!(port("65535"), Ok(65535));
        assert_eq!(patience("0"), Ok(0));
        for (refused, says) in [
            (
                mtu("575").map(|_| ()),
                "it is the bytes of a packet, from 576 to 65521",
            ),
            (mtu("65522").map(|_| ()), "from 576 to 65521"),
            (mtu("large").map(|_| ()), "the bytes of a packet"),
            (
                workers("0").map(|_| ()),
                "it is a number of threads, from 1 to 64",
            ),
            (workers("65").map(|_| ()), "a number of threads"),
            (port("65536").map(|_| ()), "it is a port, from 1 to 65535"),
            (pid("0").map(|_| ()), "it is a process number, from 1 "),
            (pid("x").map(|_| ()), "a process number"),
            (
                descriptor("-1").map(|_| ()),
                "it is the number of an open descriptor, from 0 ",
            ),
            (
                interval("0").map(|_| ()),
                "it is a number of seconds, from 1 ",
            ),
            (
                patience("1s").map(|_| ()),
                "it is a number of seconds, from 0 ",
            ),
        ] {
            let error = refused.expect_err(says);
            assert!(error.contains(says), "{error}");
        }
    }
}
