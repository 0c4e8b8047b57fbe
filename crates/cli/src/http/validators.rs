//! Conditions: whether the client has the file already, or still has the one that it began to fetch.
//!
//! An entity tag is made of the time of the last change, in nanoseconds, and the length. A file that was changed less
//! than [`SETTLED`] ago may change again without another time, since the kernel's clock for files is coarse: its tag is
//! weak, and no range of it is joined with another.
//!
//! Locks: none.
//! Sources: RFC 9110 sections 8.8, 13.1 and 13.2.2.

use std::borrow::Cow;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::coding::Coding;
use super::date;
use super::request::HttpRequest;

/// From this age on, another change of a file gets another time.
const SETTLED: Duration = Duration::from_secs(1);

/// The validators of a state of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Validators<'a> {
    /// In quotes, without the mark of a weak one.
    opaque: &'a str,
    weak: bool,
    /// In whole seconds.
    modified: SystemTime,
}

/// The outcome of a request's conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    /// The answer is the file.
    Proceed,
    /// The client has it: 304.
    NotModified,
    /// It is another one than the client's: 412.
    Failed,
}

/// The entity tag of a file, or of its compressed form, in quotes and without the mark of a weak one.
pub(crate) fn opaque_tag(len: u64, modified: SystemTime, coding: Option<Coding>) -> String {
    let (sign, since) = match modified.duration_since(UNIX_EPOCH) {
        Ok(since) => ("", since),
        Err(before) => ("-", before.duration()),
    };
    let suffix = coding.map_or("", Coding::suffix).trim_start_matches('.');
    format!("\"{sign}{:x}-{len:x}{suffix}\"", since.as_nanos())
}

impl Validators<'_> {
    /// Of a file with this tag that was last changed at `modified`, at the time `now`.
    pub(crate) fn of(opaque: &str, modified: SystemTime, now: SystemTime) -> Validators<'_> {
        // A time in the future is not settled either.
        let age = now.duration_since(modified).unwrap_or_default();
        Validators {
            opaque,
            weak: age < SETTLED,
            modified: date::whole(modified),
        }
    }

    /// The tag as a field has it.
    pub(crate) fn etag(&self) -> Cow<'_, str> {
        match self.weak {
            true => Cow::from(format!("W/{}", self.opaque)),
            false => Cow::from(self.opaque),
        }
    }

    /// The date as a field has it.
    pub(crate) fn last_modified(&self) -> String {
        date::text(self.modified)
    }

    /// Evaluates the conditions, in the order that RFC 9110 13.2.2 gives.
    pub(crate) fn judge(&self, request: &HttpRequest<'_>) -> Condition {
        let since = |field: Option<&[u8]>| field.and_then(date::parse);
        let meant = if request.if_match.is_empty() {
            since(request.if_unmodified_since).is_none_or(|date| self.modified <= date)
        } else {
            self.is_among(&request.if_match, Comparison::Strong)
        };
        if !meant {
            return Condition::Failed;
        }
        let known = if request.if_none_match.is_empty() {
            since(request.if_modified_since).is_some_and(|date| self.modified <= date)
        } else {
            self.is_among(&request.if_none_match, Comparison::Weak)
        };
        match known {
            true => Condition::NotModified,
            false => Condition::Proceed,
        }
    }

    /// Whether a range may be joined with the client's part (If-Range).
    pub(crate) fn may_join(&self, field: Option<&[u8]>) -> bool {
        let Some(field) = field.map(<[u8]>::trim_ascii) else {
            return true;
        };
        match field {
            [b'"', ..] | [b'W', b'/', ..] => self.matches(field, Comparison::Strong),
            // A date is strong enough if it is that of a settled file (RFC 9110 8.8.2.2).
            _ => !self.weak && date::parse(field) == Some(self.modified),
        }
    }

    fn is_among(&self, lists: &[&[u8]], how: Comparison) -> bool {
        lists
            .iter()
            .any(|list| list.trim_ascii() == b"*" || tags(list).any(|tag| self.matches(tag, how)))
    }

    fn matches(&self, tag: &[u8], how: Comparison) -> bool {
        let (weak, opaque) = match tag.strip_prefix(b"W/") {
            Some(opaque) => (true, opaque),
            None => (false, tag),
        };
        let strong_enough = how == Comparison::Weak || !(weak || self.weak);
        strong_enough && opaque == self.opaque.as_bytes()
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Weak,
    Strong,
}

/// The tags of a list. Commas inside of quotes do not separate.
fn tags(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut quoted = false;
    let elements = list.split(move |b| {
        quoted ^= *b == b'"';
        *b == b',' && !quoted
    });
    elements.map(<[u8]>::trim_ascii)
}
