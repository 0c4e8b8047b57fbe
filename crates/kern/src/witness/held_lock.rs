//! A lock that a thread holds, as reports show it.

use core::panic::Location;
use std::time::Instant;

use crate::lock::{How, LockClass};

/// A lock that a thread holds.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HeldLock {
    /// Its class.
    pub class: &'static LockClass,
    /// Held how.
    pub how: How,
    /// Tells it from others of its class, as long as it lives.
    pub(crate) lock: usize,
    /// Where it was taken, if WITNESS is built in.
    pub site: Option<&'static Location<'static>>,
    /// Since when, if WITNESS is built in.
    pub since: Option<Instant>,
}
