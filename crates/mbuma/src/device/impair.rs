//! An emulated bad link: rate, delay, jitter, a queue with a bound, loss, duplication, damage, reordering, ECN marks.
//!
//! | part | what |
//! |---|---|
//! | [`LinkConfig`] | what one direction is like: plain numbers |
//! | [`LinkEmulator`] | one direction with its state: frames in, each with a time; frames out, each with a time |
//! | [`DelayQueue`] | frames that are under way, until their times |
//!
//! All of them are pure values, without clock and locks. The simulator's wires are made of them.

mod delay_queue;
mod emulator;
mod event;
mod link;

pub use delay_queue::DelayQueue;
pub use emulator::{LinkEmulator, LinkFrame};
pub use event::{LinkCounts, LinkEvent};
pub use link::{Burst, Faults, Lateness, LinkConfig};
