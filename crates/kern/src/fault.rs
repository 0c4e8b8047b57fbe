//! Faults that tests plant: the one way to make code do the wrong thing, to prove that a check finds it.
//!
//! A model or a simulation that passes shows little unless it is known to fail. So the code at a critical step asks
//! [`is_planted`] whether to make a mistake. Each crate lists its own in an enum, in `faults.rs`. A test plants one
//! (`plant`), and the check must then find it. Only one fault is planted at a time, and only the calling thread makes
//! it: the threads of a model or of a simulation all run on the test's own thread.
//!
//! Only schedule checkers and the feature `faults` build it. In every other build the answer is a constant, and nothing
//! of the mistakes is left in the code.
//!
//! Locks: none.

#[cfg(any(loom, shuttle, feature = "faults"))]
pub use on::{Planted, is_planted, plant};

/// Whether to make this mistake.
#[cfg(not(any(loom, shuttle, feature = "faults")))]
#[inline]
pub const fn is_planted<F: Copy>(_: F) -> bool {
    false
}

#[cfg(any(loom, shuttle, feature = "faults"))]
mod on {
    use core::any::Any;
    use core::cell::RefCell;

    std::thread_local! {
        static PLANTED: RefCell<Option<Box<dyn Any>>> = const { RefCell::new(None) };
    }

    /// Whether to make this mistake.
    pub fn is_planted<F: Copy + PartialEq + 'static>(fault: F) -> bool {
        PLANTED.with_borrow(|planted| {
            let planted = planted.as_ref().and_then(|any| any.downcast_ref::<F>());
            planted == Some(&fault)
        })
    }

    /// Makes the calling thread, and no other thread, make this mistake until the guard is dropped.
    #[must_use = "the fault goes with the guard"]
    pub fn plant<F: Copy + PartialEq + 'static>(fault: F) -> Planted {
        PLANTED.set(Some(Box::new(fault)));
        Planted(())
    }

    /// A fault that is planted.
    #[derive(Debug)]
    pub struct Planted(());

    impl Drop for Planted {
        fn drop(&mut self) {
            PLANTED.take();
        }
    }

    #[cfg(all(test, not(any(loom, shuttle))))]
    mod tests {
        use super::{is_planted, plant};

        #[test]
        fn one_fault_is_planted_until_its_guard_is_dropped() {
            // Breaks if a fault of one list passes for that of another, or stays planted for the next test.
            assert!(!is_planted(1_u8));
            let planted = plant(1_u8);
            assert!(is_planted(1_u8) && !is_planted(2_u8) && !is_planted(1_u16));
            drop(planted);
            assert!(!is_planted(1_u8));
        }
    }
}
