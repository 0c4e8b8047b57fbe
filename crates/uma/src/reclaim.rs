//! Giving memory back to the system: items from caches to slabs, and pages of slabs.
//!
//! ```text
//!   thread.rs       a thread that does it, at an interval or under pressure
//!   event_loop.rs   the same for an event loop, in small steps
//!   set.rs          a set of zones, and when each is due
//!   pressure.rs     what the system reports about its memory (PSI)
//!   waker.rs        a sleep that a report or another thread ends
//!   trim.rs         one zone: free items from its caches into its slabs
//! ```
//!
//! `slabs/purge.rs` chooses the pages of a keg and gives them back.

pub(crate) mod event_loop;
pub(crate) mod pressure;
pub(crate) mod set;
pub(crate) mod thread;
pub(crate) mod trim;
pub(crate) mod waker;
