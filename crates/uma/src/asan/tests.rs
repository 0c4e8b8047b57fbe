//! Breaks when the item is not poisoned, or bytes around it are.

use super::*;
use crate::region::{PageSize, Region, page_bytes};

unsafe extern "C" {
    fn __asan_address_is_poisoned(address: *const core::ffi::c_void) -> i32;
}

fn is_poison(region: &Region, offset: usize) -> bool {
    let address = region.base().as_ptr().wrapping_add(offset);
    // SAFETY: asks about an address and does not access it.
    unsafe { __asan_address_is_poisoned(address.cast()) != 0 }
}

#[test]
fn poison_covers_the_item_alone_and_ends_with_the_mapping() {
    // Breaks when a neighbour is poisoned too, or poison outlives the mapping.
    let len = 16 * page_bytes();
    let region = Region::reserve(len, len, PageSize::Small).expect("there is address space");
    let item = region.base();
    poison(item, 256);
    assert!(is_poison(&region, 0) && is_poison(&region, 255) && !is_poison(&region, 256));
    unpoison(item, 256);
    assert!(!is_poison(&region, 0) && !is_poison(&region, 255));
    poison(item, len);
    drop(region);
    // Very likely the same place; in any case a clean one.
    let again = Region::reserve(len, len, PageSize::Small).expect("there is address space");
    assert!(
        (0..len)
            .step_by(64)
            .all(|offset| !is_poison(&again, offset))
    );
}
