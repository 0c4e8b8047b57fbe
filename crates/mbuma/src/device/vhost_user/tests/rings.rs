//! Rings of a correct driver.

use proptest::prelude::*;

use super::super::features::FrameHeader;
use super::super::frame_output::BufferRoom;
use super::super::front_end::{FROM_MACHINE, TO_MACHINE};
use super::super::vring::Vring;
use super::driver::{DATA, Driver, INDIRECT, TestDescriptor, WRITE, place};
use super::*;
use crate::device::FRAME_MAX;
use mbuf::Csum;

const MERGEABLE: FrameHeader = FrameHeader {
    len: 12,
    mergeable: true,
};
const OLD: FrameHeader = FrameHeader {
    len: 10,
    mergeable: false,
};

/// Cuts a range of bytes into buffers of `size`.
fn buffers(at: u64, len: usize, size: usize) -> Vec<(u64, u32)> {
    let starts = (0..len).step_by(size);
    starts
        .map(|start| (at + start as u64, size.min(len - start) as u32))
        .collect()
}

fn take(driver: &Driver, ring: &mut Vring, intake: &mut FrameIntake) -> Packet {
    match intake.take(driver.memory(), ring, 12).unwrap() {
        TakenFrame::Whole(packet) => packet,
        other => panic!("{other:?}"),
    }
}

fn sent(pool: &MbufPool, frames: &[Vec<u8>]) -> FrameOutput {
    let mut output = FrameOutput::default();
    let mut tx = Mbufq::new();
    frames
        .iter()
        .for_each(|frame| tx.enqueue(packet(pool, frame)));
    output.add(&mut tx);
    output
}

/// Breaks if a frame of any length loses bytes, or an indirect table is read wrongly.
#[test]
fn frames_of_every_length_come_out_of_the_machine() {
    let pool = pool();
    let mut driver = Driver::new();
    let mut ring = driver.ring(FROM_MACHINE, true);
    let mut intake = FrameIntake::new(&pool);
    for len in [14, 60, 1514, 2048, 2049, 18_432, 40_000, FRAME_MAX] {
        let frame = [&[0; 12][..], &pattern(len)].concat();
        driver.write(DATA, &frame);
        let pieces = buffers(DATA, frame.len(), frame.len().div_ceil(7));
        driver.offer(FROM_MACHINE, 3, &pieces, 0);
        assert_eq!(take(&driver, &mut ring, &mut intake).to_vec(), pattern(len));
        // The same by a table of its own.
        for (n, (at, len)) in pieces.iter().enumerate() {
            let is_last = n + 1 == pieces.len();
            let descriptor = TestDescriptor {
                at: *at,
                len: *len,
                flags: u16::from(!is_last),
                next: n as u16 + 1,
            };
            driver.describe(0x8000 + 0x1000, n as u16, descriptor);
        }
        let table = [(0x8000 + 0x1000, 16 * pieces.len() as u32)];
        driver.offer(FROM_MACHINE, 1, &table, INDIRECT);
        assert_eq!(take(&driver, &mut ring, &mut intake).to_vec(), pattern(len));
        assert_eq!(driver.take_used(FROM_MACHINE), [(3, 0), (1, 0)]);
    }
    drop(intake);
    assert_balance(&pool);
}

/// Breaks if the header loses offloads that the driver left to the device, or the device to the driver.
#[test]
fn offloads_cross_both_ways() {
    let pool = pool();
    let mut driver = Driver::new();
    let mut ring = driver.ring(FROM_MACHINE, false);
    let mut intake = FrameIntake::new(&pool);
    // A checksum behind 20 bytes of IP, segments of 1448 bytes of TCP over IPv4.
    let header = [1, 1, 54, 0, 0xa8, 5, 34, 0, 16, 0, 0, 0];
    let frame = [&header[..], &pattern(4000)].concat();
    driver.write(DATA, &frame);
    driver.offer(FROM_MACHINE, 0, &buffers(DATA, frame.len(), 5000), 0);
    let whole = take(&driver, &mut ring, &mut intake);
    let meta = *whole.header();
    assert_eq!((meta.tso_segsz, meta.l2_len, meta.l3_len), (1448, 14, 20));
    assert!(meta.csum.contains(Csum::TCP | Csum::L4_VALID));

    let mut ring = driver.ring(TO_MACHINE, false);
    let mut output = FrameOutput::default();
    let mut tx = Mbufq::new();
    let mut packet = packet(&pool, &pattern(200));
    let meta = packet.header_mut();
    (meta.csum, meta.l2_len, meta.l3_len) = (Csum::UDP, 14, 40);
    tx.enqueue(packet);
    output.add(&mut tx);
    driver.offer(TO_MACHINE, 0, &[(DATA, 2000)], WRITE);
    output.flush(driver.memory(), &mut ring, MERGEABLE).unwrap();
    let got = driver.read(DATA, 212);
    assert_eq!(got[..12], [1, 0, 0, 0, 0, 0, 54, 0, 6, 0, 1, 0]);
    assert_eq!(got[12..], pattern(200));
    drop((whole, intake, output));
    assert_balance(&pool);
}

/// Breaks if a frame that lies in several buffers is not whole, its number of buffers is wrong, or a part of it is
/// given back alone; or if one that finds too few waits for no kick.
#[test]
fn a_frame_lies_in_several_buffers() {
    let pool = pool();
    let mut driver = Driver::new();
    let mut ring = driver.ring(TO_MACHINE, true);
    let mut output = sent(&pool, &[pattern(5000), pattern(60)]);
    for n in 0..3 {
        driver.offer(
            TO_MACHINE,
            n,
            &[(DATA + 0x1000 * u64::from(n), 1500)],
            WRITE,
        );
        output.flush(driver.memory(), &mut ring, MERGEABLE).unwrap();
        assert!(driver.take_used(TO_MACHINE).is_empty());
        // The driver is asked to kick behind the buffers that it has made available.
        let event = driver.read_u16(place(TO_MACHINE).used.0 + 4 + 8 * 16);
        assert_eq!(event, n + 1);
    }
    for n in 3..5 {
        driver.offer(
            TO_MACHINE,
            n,
            &[(DATA + 0x1000 * u64::from(n), 1500)],
            WRITE,
        );
    }
    output.flush(driver.memory(), &mut ring, MERGEABLE).unwrap();
    let used = driver.take_used(TO_MACHINE);
    assert_eq!(used, [(0, 1500), (1, 1500), (2, 1500), (3, 512), (4, 72)]);
    let whole: Vec<u8> = used[..4]
        .iter()
        .flat_map(|(head, len)| driver.read(DATA + 0x1000 * u64::from(*head), *len as usize))
        .collect();
    assert_eq!(whole[10..12], [4, 0]);
    assert_eq!(whole[12..], pattern(5000));
    assert_eq!((output.waiting(), output.take_refused()), (0, 0));
    drop(output);
    assert_balance(&pool);
}

/// Breaks if the search walks known chains again for each chain that the driver makes available meanwhile, so that a
/// ring costs its square; or if a chain that the driver takes back keeps the thread busy.
#[test]
fn chains_that_were_found_are_not_walked_again() {
    let mut driver = Driver::new();
    let ring = driver.ring(TO_MACHINE, true);
    let mut output = FrameOutput::default();
    let mut look = |driver: &Driver| output.find_room(5000, driver.memory(), &ring, true);
    for n in 0..3 {
        driver.offer(TO_MACHINE, n, &[(DATA, 1500)], WRITE);
        assert_eq!(look(&driver), Ok(BufferRoom::TooLittle(n + 1)));
        // A second walk over this chain would break the ring.
        driver.offer(TO_MACHINE, n, &[(DATA, 1500)], 0);
        driver.set_available(TO_MACHINE, n + 1);
    }
    driver.set_available(TO_MACHINE, 2);
    assert_eq!(look(&driver), Err(RingBroken));
    driver.set_available(TO_MACHINE, 3);
    driver.offer(TO_MACHINE, 3, &[(DATA, 1500)], WRITE);
    assert_eq!(look(&driver), Ok(BufferRoom::Enough));
}

/// Breaks if a frame for which the driver never has room keeps those behind it, or a driver from before version 1 gets
/// a longer header.
#[test]
fn a_frame_that_never_fits_is_refused() {
    let pool = pool();
    let mut driver = Driver::new();
    let mut ring = driver.ring(TO_MACHINE, false);
    let mut output = sent(&pool, &[pattern(2000), pattern(100)]);
    driver.offer(TO_MACHINE, 5, &[(DATA, 600), (DATA + 600, 900)], WRITE);
    driver.offer(TO_MACHINE, 9, &[(DATA + 2000, 10)], WRITE);
    output.flush(driver.memory(), &mut ring, OLD).unwrap();
    assert_eq!(driver.take_used(TO_MACHINE), [(5, 110)]);
    assert_eq!(driver.read(DATA + 10, 100), pattern(100));
    assert_eq!(output.take_refused(), 1);
    drop(output);
    // The same where a frame may lie in all buffers there are.
    let mut ring = driver.ring(TO_MACHINE, false);
    let mut output = sent(&pool, &[pattern(2000)]);
    driver.set_available(TO_MACHINE, 0);
    for n in 0..16 {
        driver.offer(TO_MACHINE, n, &[(DATA, 100)], WRITE);
    }
    output.flush(driver.memory(), &mut ring, MERGEABLE).unwrap();
    assert_eq!((output.waiting(), output.take_refused()), (0, 1));
    drop(output);
    assert_balance(&pool);
}

/// Breaks if the device does not suppress kicks while it polls, or misses a chain that was made available just before
/// it asked for kicks again.
#[test]
fn no_kick_is_lost() {
    let mut driver = Driver::new();
    for event_index in [false, true] {
        let mut ring = driver.ring(FROM_MACHINE, event_index);
        driver.set_available(FROM_MACHINE, 0);
        ring.be_quiet(driver.memory()).unwrap();
        let flags = driver.read_u16(place(FROM_MACHINE).used.0);
        assert_eq!(flags, u16::from(!event_index));
        assert!(!ring.await_kick(driver.memory(), 0).unwrap());
        assert_eq!(driver.read_u16(place(FROM_MACHINE).used.0) & 1, 0);
        driver.offer(FROM_MACHINE, 0, &[(DATA, 100)], 0);
        assert!(ring.await_kick(driver.memory(), 0).unwrap());
        driver.write(place(FROM_MACHINE).used.0, &[0; 4]);
    }
}

/// Breaks if a ring has a size that no ring has: the next index is computed modulo the size, which must not be 0.
#[test]
fn a_ring_has_a_power_of_two_of_descriptors() {
    let driver = Driver::new();
    let ring = |size| Vring::new(driver.memory(), place(TO_MACHINE), size, 0, false);
    assert!([0, 3, 1 << 16].map(ring).iter().all(Result::is_err));
    assert_eq!(ring(32).unwrap().size(), 32);
}

proptest! {
    /// Breaks if a driver that asks to be called at an index is not called when that is passed, or is called for
    /// nothing.
    #[test]
    fn the_driver_is_called_when_it_asked(
        event in any::<u16>(), start in any::<u16>(), steps in prop::collection::vec(0_u16..5, 1..20)
    ) {
        let driver = Driver::new();
        driver.write(place(0).used.0 + 2, &start.to_le_bytes());
        let mut ring = driver.ring(0, true);
        driver.write(place(0).available.0 + 4 + 2 * 16, &event.to_le_bytes());
        let mut at = start;
        // The first check has no earlier index to compare with.
        prop_assert!(ring.wants_call(driver.memory()).unwrap());
        for count in steps {
            ring.publish(driver.memory(), count).unwrap();
            let passed = (0..count).any(|n| at.wrapping_add(n) == event);
            prop_assert_eq!(ring.wants_call(driver.memory()).unwrap(), passed);
            at = at.wrapping_add(count);
        }
    }
}
