//! INVARIANTS: checks of conditions that must always hold, which cost too much to be in every build.
//!
//! [`invariant!`](crate::invariant!) is `assert!` in builds with debug assertions and with the feature `invariants`,
//! at any level of optimisation. In other builds its condition is compiled and never evaluated: a walk over a whole
//! structure takes no time there, and its code keeps compiling.
//!
//! | build | `assert!` | `invariant!` | `debug_assert!` |
//! |---|---|---|---|
//! | debug, tests | checked | checked | checked |
//! | release, `--features invariants` | checked | checked | - |
//! | release | checked | - | - |
//!
//! So `assert!` is for a cheap check without which memory could be corrupted; `invariant!` for a structure that asks
//! itself whether it is whole, as a connection after each segment; `debug_assert!` is for a condition that only a
//! mistake in the same function could break.
//!
//! While a thread unwinds it checks no invariant: the one that it found broken may still be, destructors meet it again,
//! and a second panic would abort the process in the place of the first one's report and cleanup.
//!
//! Locks: none.
//! Sources: seed 002 (INVARIANTS), style(9) and KASSERT(9).

/// Whether [`invariant!`](crate::invariant!) checks anything in this build.
///
/// It is a constant of this crate and not of the caller, so that one feature, here, turns on all
/// checks of a program.
#[doc(alias = "INVARIANTS")]
pub const ENABLED: bool = cfg!(any(debug_assertions, feature = "invariants"));

/// Panics unless its condition holds, in builds that check invariants. Arguments as for `assert!`.
///
/// ```
/// let sizes = [1, 2, 3];
/// kern::invariant!(sizes.is_sorted(), "{sizes:?}");
/// ```
#[doc(alias = "KASSERT")]
#[doc(alias = "INVARIANTS")]
#[macro_export]
macro_rules! invariant {
    ($($condition:tt)*) => {
        if $crate::invariant::ENABLED && !::std::thread::panicking() {
            ::core::assert!($($condition)*);
        }
    };
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
