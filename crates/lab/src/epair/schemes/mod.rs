//! The hand-offs that are compared: two that seed 003 describes and replaces, ours, and a control that schedules its
//! task for every item: it can lose no wakeup, and its waits are the scheduler's.

pub(crate) mod always;
pub(crate) mod mutex_state;
#[allow(unsafe_code)]
mod ring;
pub(crate) mod two_rings;
pub(crate) mod two_rings_flags;

pub(crate) use always::Always;
pub(crate) use mutex_state::MutexState;
pub(crate) use two_rings::TwoRings;
pub(crate) use two_rings_flags::TwoRingsFlags;
