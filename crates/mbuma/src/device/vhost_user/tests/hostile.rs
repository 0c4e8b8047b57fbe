//! Rings of a hostile driver.

use proptest::prelude::*;

use super::super::features::FrameHeader;
use super::super::front_end::{FROM_MACHINE, TO_MACHINE};
use super::super::vring::{DESCRIPTORS_MAX, Purpose};
use super::driver::{DATA, Driver, INDIRECT, MEMORY_LEN, NEXT, SIZE, TestDescriptor, WRITE, place};
use super::*;

fn dropped(driver: &Driver, ring: &mut vring::Vring, pool: &MbufPool) -> DropReason {
    let mut intake = FrameIntake::new(pool);
    match intake.take(driver.memory(), ring, 12).unwrap() {
        TakenFrame::Dropped(reason) => reason,
        other => panic!("{other:?}"),
    }
}

/// Breaks if the device accepts a chain that can't hold a frame, loops over it for ever, or does not return it.
#[test]
fn bad_chains_cost_their_frame() {
    let pool = pool();
    let mut driver = Driver::new();
    let mut ring = driver.ring(FROM_MACHINE, false);
    let end = MEMORY_LEN;
    let one = |at, len, flags, next| TestDescriptor {
        at,
        len,
        flags,
        next,
    };
    let bad = DropReason::BadDescriptors;
    let short = DropReason::BadFrameLength;
    let cases = [
        ("a loop", one(DATA, 8, NEXT, 0), bad),
        ("a way out of the table", one(DATA, 100, NEXT, SIZE), bad),
        ("the wrong direction", one(DATA, 100, WRITE, 0), bad),
        ("behind the memory", one(end, 100, 0, 0), bad),
        ("across the memory's end", one(end - 50, 100, 0, 0), bad),
        (
            "across the address space's end",
            one(u64::MAX - 4, 100, 0, 0),
            bad,
        ),
        ("a table in nowhere", one(1 << 40, 160, INDIRECT, 0), bad),
        ("a table without an entry", one(DATA, 15, INDIRECT, 0), bad),
        (
            "a table and a next",
            one(DATA, 160, INDIRECT | NEXT, 1),
            bad,
        ),
        ("no header", one(DATA, 11, 0, 0), short),
        ("no frame", one(DATA, 12, 0, 0), short),
        ("a part of an Ethernet header", one(DATA, 25, 0, 0), short),
        ("too much", one(DATA, 0x1_0020, 0, 0), short),
        ("far too much", one(DATA, u32::MAX, 0, 0), short),
    ];
    for (what, descriptor, reason) in cases {
        driver.describe(place(FROM_MACHINE).descriptors.0, 0, descriptor);
        driver.offer_head(FROM_MACHINE, 0);
        assert_eq!(dropped(&driver, &mut ring, &pool), reason, "{what}");
        assert_eq!(driver.take_used(FROM_MACHINE), [(0, 0)], "{what}");
    }
    // A table in a table.
    driver.describe(DATA, 0, one(DATA, 160, INDIRECT, 0));
    driver.offer(FROM_MACHINE, 0, &[(DATA, 160)], INDIRECT);
    assert_eq!(dropped(&driver, &mut ring, &pool), bad);
    // An impossible header: segments of no bytes.
    driver.write(DATA, &[1, 1, 54, 0, 0, 0, 34, 0, 16, 0, 0, 0]);
    driver.offer(FROM_MACHINE, 0, &[(DATA, 100)], 0);
    assert_eq!(
        dropped(&driver, &mut ring, &pool),
        DropReason::BadVnetHeader
    );
    assert_balance(&pool);
}

/// Breaks if a table of very many descriptors is followed to its end.
#[test]
fn a_long_chain_is_not_followed() {
    let driver = Driver::new();
    let ring = driver.ring(FROM_MACHINE, false);
    for n in 0..0x4000 {
        let empty = TestDescriptor {
            at: DATA,
            len: 0,
            flags: NEXT,
            next: n + 1,
        };
        driver.describe(DATA, n, empty);
    }
    let table = TestDescriptor {
        at: DATA,
        len: 0x4000 * 16,
        flags: INDIRECT,
        next: 0,
    };
    driver.describe(place(FROM_MACHINE).descriptors.0, 0, table);
    let mut out = Vec::new();
    assert!(
        ring.chain(driver.memory(), 0, Purpose::Read, &mut out)
            .is_err()
    );
    assert_eq!(out.len(), DESCRIPTORS_MAX);
}

/// Breaks if a ring goes on although its indexes make no sense, or its buffers for our frames can't be written.
#[test]
fn senseless_rings_are_broken() {
    let pool = pool();
    let mut driver = Driver::new();
    let mut intake = FrameIntake::new(&pool);
    let mut ring = driver.ring(FROM_MACHINE, true);
    driver.set_available(FROM_MACHINE, SIZE + 1);
    let taken = intake.take(driver.memory(), &mut ring, 12);
    assert!(matches!(taken, Err(RingBroken)), "{taken:?}");
    driver.set_available(FROM_MACHINE, 0);
    driver.offer_head(FROM_MACHINE, SIZE);
    let taken = intake.take(driver.memory(), &mut ring, 12);
    assert!(matches!(taken, Err(RingBroken)), "{taken:?}");

    for (at, flags) in [(DATA, 0), (MEMORY_LEN, WRITE)] {
        let mut output = FrameOutput::default();
        let mut tx = Mbufq::new();
        tx.enqueue(packet(&pool, &pattern(60)));
        output.add(&mut tx);
        driver.set_available(TO_MACHINE, 0);
        let mut ring = driver.ring(TO_MACHINE, true);
        driver.offer(TO_MACHINE, 0, &[(at, 100)], flags);
        let header = FrameHeader {
            len: 12,
            mergeable: true,
        };
        let flushed = output.flush(driver.memory(), &mut ring, header);
        assert_eq!(flushed, Err(RingBroken));
    }
    drop(intake);
    assert_balance(&pool);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Breaks if any bytes in the rings make the device panic, hang, or keep buffers.
    #[test]
    fn any_bytes_in_the_rings_harm_nothing(
        tables in prop::collection::vec(
            (0_u64..0x2_0000, 0_u32..0x3000, 0_u16..8, 0_u16..SIZE + 1), usize::from(SIZE)
        ),
        heads in prop::collection::vec(0_u16..SIZE + 2, usize::from(SIZE)),
        index in 0_u16..SIZE + 2,
        noise in prop::collection::vec(any::<u8>(), 0..600),
        mergeable in any::<bool>(),
        event_index in any::<bool>(),
    ) {
        let pool = pool();
        let mut driver = Driver::new();
        driver.write(DATA, &noise);
        for ring in [TO_MACHINE, FROM_MACHINE] {
            for (n, (at, len, flags, next)) in tables.iter().enumerate() {
                let descriptor = TestDescriptor { at: *at, len: *len, flags: *flags, next: *next };
                driver.describe(place(ring).descriptors.0, n as u16, descriptor);
            }
            for head in &heads {
                driver.offer_head(ring, *head);
            }
            driver.set_available(ring, index);
        }
        let mut ring = driver.ring(FROM_MACHINE, event_index);
        let mut intake = FrameIntake::new(&pool);
        let mut looks = 0;
        // A driver may write over its own rings, and does: then it may make chains available for ever.
        while looks < 100 && !matches!(
            intake.take(driver.memory(), &mut ring, 12), Ok(TakenFrame::Nothing) | Err(RingBroken)
        ) {
            looks += 1;
        }
        let mut ring = driver.ring(TO_MACHINE, event_index);
        let mut output = FrameOutput::default();
        let mut tx = Mbufq::new();
        for len in [60, 1514, 9000, 60_000] {
            tx.enqueue(packet(&pool, &pattern(len)));
        }
        output.add(&mut tx);
        let header = FrameHeader { len: 12, mergeable };
        let _ = output.flush(driver.memory(), &mut ring, header);
        prop_assert!(output.waiting() <= 4);
        output.clear();
        drop((intake, output));
        assert_balance(&pool);
    }
}
