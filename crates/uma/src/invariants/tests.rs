//! The arithmetic of trash and redzones: breaks when a check misses a change, or reports one that did not happen.

use super::{TRASH, first_change, redzone_for};
use crate::region::page_bytes;
use core::alloc::Layout;

fn trash(len: usize) -> Vec<u8> {
    TRASH.iter().copied().cycle().take(len).collect()
}

#[test]
fn a_changed_byte_is_found_at_any_offset() {
    // Breaks when the first, the last, or a byte at a page's border is not looked at.
    let page = page_bytes();
    for (address, len) in [(0, 64), (page - 24, 100), (page - 8, 3 * page + 5), (40, 3)] {
        assert_eq!(first_change(&trash(len), address), None);
        assert_eq!(first_change(&vec![0; len], address), None);
        for at in (0..len).step_by(7).chain([len - 1]) {
            let mut bytes = trash(len);
            bytes[at] ^= 0x40;
            assert_eq!(first_change(&bytes, address), Some(at));
        }
    }
}

#[test]
fn pages_may_have_come_back_as_zeroes() {
    // Breaks when an item that lost some of its pages counts as written to; or when a write to a
    // page of zeroes does not.
    let page = page_bytes();
    let mut bytes = trash(2 * page);
    bytes[page..].fill(0);
    assert_eq!(first_change(&bytes, 0), None);
    bytes[page + 100] = 1;
    assert_eq!(first_change(&bytes, 0), Some(page + 100));
    bytes[page + 100] = 0;
    bytes[5] = 0;
    assert_eq!(first_change(&bytes, 0), Some(5));
}

#[test]
fn redzones_cost_little() {
    // Breaks when clusters, aligned to their size, double for the sake of a redzone.
    let of = |size, align| redzone_for(Layout::from_size_align(size, align).unwrap());
    assert_eq!(of(2048, 2048), 0);
    assert_eq!(of(256, 256), 0);
    assert_eq!(of(20, 8), 4);
    assert_eq!(of(512, 8), 16);
    assert_eq!(of(0, 1), 0);
}
