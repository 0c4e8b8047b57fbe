//! A lock that a thread holds, as reports show it.

use core::panic::Location;
use core::time::Duration;

use serde::Serialize;

use crate::json;
use crate::lock::{How, LockClass};

/// A lock that a thread holds.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct HeldLock {
    /// Its class.
    pub class: &'static LockClass,
    /// Held how.
    pub how: How,
    /// Tells it from others of its class, as long as it lives.
    #[serde(skip)]
    pub(crate) lock: usize,
    /// Where it was taken, if WITNESS is built in.
    #[serde(serialize_with = "json::text_if_any")]
    pub site: Option<&'static Location<'static>>,
    /// For how long, if WITNESS is built in.
    #[serde(rename = "held_ns", serialize_with = "json::nanos_if_any")]
    pub held: Option<Duration>,
}
