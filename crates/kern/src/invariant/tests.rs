//! Tests of `invariant!`, which hold in every build: `cargo xtask invariants` runs them in release, with
//! the feature and without.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};

use super::ENABLED;

/// A structure that counts its checks.
struct Structure {
    whole: bool,
    looked_at: Cell<u32>,
}

impl Structure {
    fn is_valid(&self) -> bool {
        self.looked_at.set(self.looked_at.get() + 1);
        self.whole
    }

    /// Checks it, and says whether that panicked.
    fn check(&self) -> bool {
        let checked =
            || crate::invariant!(self.is_valid(), "looked at {} times", self.looked_at.get());
        panic::catch_unwind(AssertUnwindSafe(checked)).is_err()
    }
}

#[test]
fn a_broken_structure_is_found_or_not_looked_at() {
    // Breaks when the checks are off in a build that enables them, or evaluated in one that does not.
    let broken = Structure {
        whole: false,
        looked_at: Cell::new(0),
    };
    assert_eq!(broken.check(), ENABLED);
    assert_eq!(broken.looked_at.get(), u32::from(ENABLED));
}

#[test]
fn a_whole_structure_passes() {
    // Breaks when a check reports a structure that is whole.
    let whole = Structure {
        whole: true,
        looked_at: Cell::new(0),
    };
    assert!(!whole.check());
    assert_eq!(whole.looked_at.get(), u32::from(ENABLED));
}

#[test]
fn debug_builds_and_the_feature_enable_checks() {
    // Breaks when a debug build, or the feature, does not turn the checks on.
    let asked = cfg!(debug_assertions) || cfg!(feature = "invariants");
    assert_eq!(ENABLED, asked);
}

#[test]
fn a_destructor_that_meets_it_again_does_not_end_the_process() {
    // Breaks when a broken structure panics again in a destructor that runs because of the first panic: that aborts the
    // process.
    struct Checked<'a>(&'a Structure);
    impl Drop for Checked<'_> {
        fn drop(&mut self) {
            crate::invariant!(self.0.is_valid());
        }
    }
    let broken = Structure {
        whole: false,
        looked_at: Cell::new(0),
    };
    let ended = panic::catch_unwind(AssertUnwindSafe(|| {
        let _checked = Checked(&broken);
        panic!("the first");
    }));
    let panic = ended.expect_err("it panicked");
    assert_eq!(panic.downcast_ref(), Some(&"the first"));
    assert_eq!(broken.looked_at.get(), 0);
}
