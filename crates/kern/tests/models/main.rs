//! Models of what hands work from one thread to another: nothing is lost in any order, and each planted mistake is
//! found. All are run by both checkers: loom, every order and every value that the atomics' orderings allow; and
//! shuttle, 100,000 random orders each, with every ordering taken for the strongest.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --release -p mbuma-kern --test models`
//! `RUSTFLAGS="--cfg shuttle" cargo test --release -p mbuma-kern --test models`
#![cfg(any(loom, shuttle))]

mod sleep_flag;
mod taskqueue;
mod work_queue;
