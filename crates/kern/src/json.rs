//! Values as they are in JSON: places as text, times in nanoseconds.

use core::fmt::Display;
use core::time::Duration;

use serde::{Serialize, Serializer};

pub(crate) fn text<S: Serializer>(value: &impl Display, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(value)
}

pub(crate) fn text_if_any<S: Serializer>(
    value: &Option<impl Display>,
    to: S,
) -> Result<S::Ok, S::Error> {
    value.as_ref().map(ToString::to_string).serialize(to)
}

pub(crate) fn nanos<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
    time.as_nanos().serialize(to)
}

pub(crate) fn nanos_if_any<S: Serializer>(
    time: &Option<Duration>,
    to: S,
) -> Result<S::Ok, S::Error> {
    time.map(|time| time.as_nanos()).serialize(to)
}
