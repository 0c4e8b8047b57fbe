//! An emulated bad link: rate, delay, jitter, a queue with a bound, loss, duplication, damage, reordering, ECN marks.
//!
//! | part | content |
//! |---|---|
//! | [`LinkConfig`] | the properties of one direction: plain numbers |
//! | [`LinkEmulator`] | one direction with its state: frames in, each with a time; frames out, each with a time |
//! | [`DelayQueue`] | frames that are under way, until their times |
//! | [`Impaired`] | a device around another, with such a link in each direction |
//!
//! All but the last are pure values, without clock and locks. The simulator's wires are made of them.

mod delay_queue;
mod device;
mod emulator;
mod event;
mod link;
mod spec;

pub use delay_queue::DelayQueue;
pub use device::{HELD_MAX, Impaired};
pub use emulator::{LinkEmulator, LinkFrame};
pub use event::{LinkCounts, LinkEvent};
pub use link::{Burst, Faults, Lateness, LinkConfig};
pub use spec::LinkSpecError;
