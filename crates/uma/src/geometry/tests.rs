//! Breaks when the reciprocal is not a division, or when an item would be misaligned.

use super::*;

#[test]
fn reciprocal_is_exact_for_every_byte() {
    // Breaks when the shift of the reciprocal is too small for some stride.
    for size in [
        1,
        8,
        9,
        24,
        40,
        72,
        100,
        192,
        255,
        256,
        1000,
        2048,
        3000,
        9216,
        65_529,
        300_001,
        1 << 20,
    ] {
        let geo = Geometry::new(Layout::from_size_align(size, 8).unwrap()).unwrap();
        let step = if geo.slab_bytes() > SLAB_BYTES_MIN {
            97
        } else {
            1
        };
        let (first, last) = (geo.slab_bytes() * 3, geo.slab_bytes() * 4);
        for offset in (first..last).step_by(step).chain([last - 1]) {
            let place = geo.place_of(offset);
            assert_eq!(place.slab, 3);
            assert_eq!(
                place.slot,
                (offset - first) / geo.stride(),
                "size {size} offset {offset}"
            );
        }
        for slot in 0..geo.per_slab() {
            let place = Place { slab: 3, slot };
            assert_eq!(geo.place_of(geo.offset_of(place)), place);
            assert!(geo.is_item(geo.offset_of(place)));
            assert!(!geo.is_item(geo.offset_of(place) + 1));
        }
    }
}

#[test]
fn layouts_keep_natural_alignment() {
    // Breaks when a stride is not a multiple of the alignment, or a slab holds too few items.
    for shift in 0..=16 {
        let geo = Geometry::new(Layout::from_size_align(1 << shift, 1 << shift).unwrap()).unwrap();
        assert_eq!(geo.stride(), (1 << shift).max(8));
        assert_eq!(geo.slab_bytes() % (1 << shift), 0);
        assert!(geo.per_slab() >= 8);
        assert_eq!(geo.per_slab() * geo.stride(), geo.slab_bytes());
    }
}

#[test]
fn unfit_layouts_are_refused() {
    // Breaks when a zone is made whose alignment or size the slabs cannot keep.
    let align = Layout::from_size_align(8, ITEM_ALIGN_MAX * 2).unwrap();
    assert_eq!(Geometry::new(align).unwrap_err(), ZoneError::Align);
    let size = Layout::from_size_align(ITEM_BYTES_MAX + 1, 8).unwrap();
    assert_eq!(Geometry::new(size).unwrap_err(), ZoneError::TooBig);
}
