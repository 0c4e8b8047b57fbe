//! Breaks when the reciprocal is not a division, or when an item would be misaligned.

use super::*;

const SIZES: [usize; 18] = [
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
    (1 << 20) - 1,
    1 << 20,
];

fn kinds() -> [ArenaOptions; 5] {
    let plain = ArenaOptions::default();
    let with = |huge, colour, guard| ArenaOptions {
        huge,
        colour,
        guard,
        ..plain
    };
    [
        plain,
        with(true, false, false),
        with(false, true, false),
        with(true, true, false),
        with(false, false, true),
    ]
}

/// Every layout of interest in every kind of arena.
fn all() -> impl Iterator<Item = (Layout, Geometry)> {
    let layouts = SIZES.iter().flat_map(|&size| {
        [1, 8, 64, 256, 4096, 65_536].map(|align| Layout::from_size_align(size, align).unwrap())
    });
    layouts.flat_map(|layout| kinds().map(|kind| (layout, Geometry::new(layout, &kind).unwrap())))
}

#[test]
fn reciprocal_is_exact() {
    // Breaks when the shift of the reciprocal is too small for some stride.
    for (layout, geo) in all() {
        let step = if layout.align() == 8 && geo.slab_bytes() == SLAB_BYTES_MIN {
            1
        } else {
            97
        };
        let last = geo.slab_bytes() - 1;
        for within in (0..=last).step_by(step).chain([last]) {
            assert_eq!(
                geo.quotient(within),
                within / geo.stride(),
                "{layout:?} {within}"
            );
        }
    }
}

#[test]
fn addresses_and_places_agree() {
    // Breaks when an item is misaligned, lies outside its slab or in another, or when an address
    // inside an item passes for an item.
    for (layout, geo) in all() {
        for slab in [0, 1, 3, 17, 1000] {
            let mut end = slab * geo.slab_bytes();
            let step = (geo.per_slab() / 64).max(1);
            for slot in (0..geo.per_slab())
                .step_by(step)
                .chain([geo.per_slab() - 1])
            {
                let place = ItemPlace { slab, slot };
                let offset = geo.offset_of(place);
                assert!(offset.is_multiple_of(layout.align()), "{layout:?} {geo:?}");
                assert!(offset >= end || slot == geo.per_slab() - 1);
                end = offset + geo.size();
                assert!(end <= (slab + 1) * geo.slab_bytes());
                assert_eq!(geo.place_of(offset), place);
                assert_eq!(geo.place_of(end - 1), place);
                assert!(geo.is_item(offset));
                assert!(!geo.is_item(offset + 1));
                assert!(offset == 0 || !geo.is_item(offset - 1));
            }
        }
    }
}

#[test]
fn the_waste_holds_no_item() {
    // Breaks when a byte before the first or after the last item is taken for a slot.
    for (_, geo) in all() {
        for slab in [0, 1, 5] {
            let start = slab * geo.slab_bytes();
            let first = geo.offset_of(ItemPlace { slab, slot: 0 }) - geo.lead;
            let end = first + geo.per_slab() * geo.stride();
            for byte in (start..first)
                .chain(end..start + geo.slab_bytes())
                .step_by(61)
            {
                assert!(geo.place_of(byte).slot >= geo.per_slab());
                assert!(!geo.is_item(byte));
            }
        }
    }
}

#[test]
fn units_and_slots_agree() {
    // Breaks when a page goes although an item still has a byte on it, or the other way round.
    for (layout, geo) in all() {
        for slab in [0, 1, 2, 9] {
            let step = (geo.units_per_slab() / 64).max(1);
            for unit in (0..geo.units_per_slab()).step_by(step) {
                let slots = geo.slots_on(slab, unit..unit + 1);
                let lies_on = |slot| geo.units_of(ItemPlace { slab, slot }).contains(&unit);
                assert!(
                    slots.clone().all(lies_on),
                    "{layout:?} {unit} {slots:?} {geo:?}"
                );
                assert!(slots.start == 0 || !lies_on(slots.start - 1));
                assert!(slots.end == geo.per_slab() || !lies_on(slots.end));
            }
        }
    }
}

#[test]
fn layouts_keep_natural_alignment() {
    // Breaks when a stride is not a multiple of the alignment, or a slab holds too few items.
    for shift in 0..=16 {
        let layout = Layout::from_size_align(1 << shift, 1 << shift).unwrap();
        let geo = Geometry::new(layout, &ArenaOptions::default()).unwrap();
        assert_eq!(geo.stride(), (1 << shift).max(8));
        assert_eq!(geo.slab_bytes() % (1 << shift), 0);
        assert!(geo.per_slab() >= 8);
        assert_eq!(geo.per_slab() * geo.stride(), geo.slab_bytes());
    }
}

#[test]
fn colours_cost_at_most_an_item() {
    // Breaks when a coloured slab loses more than one item, or its first items all begin at the
    // same cache set although there is room.
    let colour = ArenaOptions {
        colour: true,
        ..ArenaOptions::default()
    };
    for size in SIZES {
        for align in [8, 64, 256] {
            let layout = Layout::from_size_align(size, align).unwrap();
            let plain = Geometry::new(layout, &ArenaOptions::default()).unwrap();
            let geo = Geometry::new(layout, &colour).unwrap();
            assert!(
                geo.per_slab() + 1 >= plain.per_slab() || geo.slab_bytes() > plain.slab_bytes()
            );
        }
    }
    let of = |size, align| {
        Geometry::new(Layout::from_size_align(size, align).unwrap(), &colour).unwrap()
    };
    assert_eq!((of(2048, 8).stride(), of(2048, 8).per_slab()), (2112, 31));
    assert_eq!(of(2048, 256).colour_mask, 7 * 256);
    assert_eq!(of(2048, 2048).colour_mask, 0);
    assert_eq!(of(1000, 8).colour_mask, 7 * 64);
}

#[test]
fn unfit_layouts_are_refused() {
    // Breaks when a zone is made whose alignment or size the slabs cannot keep.
    let options = ArenaOptions::default();
    let align = Layout::from_size_align(8, ITEM_ALIGN_MAX * 2).unwrap();
    assert_eq!(
        Geometry::new(align, &options).unwrap_err(),
        ZoneError::Align
    );
    let size = Layout::from_size_align(ITEM_BYTES_MAX + 1, 8).unwrap();
    assert_eq!(
        Geometry::new(size, &options).unwrap_err(),
        ZoneError::TooBig
    );
}
