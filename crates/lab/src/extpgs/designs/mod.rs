//! The ways of describing a record: a list beside the mbuf, one inside of it, ours, and clusters instead of pages.

pub(crate) mod bare;
pub(crate) mod clusters;
pub(crate) mod mbuma;
