//! Models of the protocols that hand work from one thread to another: no order loses work, and each planted mistake is
//! found. Both checkers run all of them: loom tries every order and every value that the orderings of the atomics
//! allow; shuttle tries 100,000 random orders of each, and takes every ordering for the strongest.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --release -p mbuma-kern --test models`
//! `RUSTFLAGS="--cfg shuttle" cargo test --release -p mbuma-kern --test models`
#![cfg(any(loom, shuttle))]

mod quiet_until;
mod sleep_flag;
mod taskqueue;
mod work_queue;
