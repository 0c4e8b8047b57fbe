//! Tests of zones that need no process of their own. Those with a limit, a fork, signals or a count of the whole
//! process are programs beside this one.

#[path = "../common/mod.rs"]
mod common;

mod bulk;
mod cache_only;
mod census;
mod closing;
mod hooks;
mod invariants;
mod misuse;
mod model;
mod object;
mod panics;
mod reclaim;
mod secondary;
mod sleepers;
mod strand;
mod threads;
mod warnings;
mod zone;
