//! The measuring of all experiments, which bring only their designs and cases.
//!
//! A measurement is a number of *rounds*; each round runs every contestant once ([`rounds`]), pinned
//! ([`sys::pin`]), with the latency between the two CPUs sampled right before where data crosses them ([`xcore`]).
//! The readings become [`record::Record`]s, and those a table or JSON lines.

pub(crate) mod choice;
pub(crate) mod compare;
pub(crate) mod contest;
pub(crate) mod effort;
pub(crate) mod inlet;
pub(crate) mod memory;
pub(crate) mod namespace;
pub(crate) mod pinned;
#[allow(unsafe_code)]
pub(crate) mod process;
pub(crate) mod progress;
pub(crate) mod record;
#[allow(unsafe_code)]
pub(crate) mod ring;
pub(crate) mod rounds;
pub(crate) mod summary;
#[allow(unsafe_code)]
pub(crate) mod sys;
pub(crate) mod table;
#[allow(unsafe_code)]
pub(crate) mod tap;
#[cfg(test)]
pub(crate) mod test_output;
pub(crate) mod warmup;
pub(crate) mod xcore;
