use super::*;
use mbuf::{Live, MbufPool, PoolConfig};

fn packet(pool: &MbufPool, len: usize) -> Packet {
    Packet::from_slice(pool, &vec![0; len], 0).unwrap()
}

fn describe(header: VnetHeader, len: usize) -> Result<(u16, bool), BadVnetHeader> {
    let pool = MbufPool::new(PoolConfig::default()).unwrap();
    let mut frame = packet(&pool, len);
    header.describe(&mut frame)?;
    let meta = frame.header();
    Ok((meta.tso_segsz, meta.csum.contains(Csum::L4_VALID)))
}

/// Breaks if a checksum that the kernel vouches for is verified again, or any other is trusted.
#[test]
fn only_checksums_that_the_kernel_verified_are_trusted() {
    let csum = VnetHeader {
        flags: NEEDS_CSUM,
        csum_start: 34,
        csum_offset: 16,
        ..Default::default()
    };
    assert_eq!(describe(VnetHeader::default(), 60), Ok((0, false)));
    assert_eq!(
        describe(
            VnetHeader {
                flags: DATA_VALID,
                ..Default::default()
            },
            60
        ),
        Ok((0, true))
    );
    assert_eq!(describe(csum, 60), Ok((0, true)));
    let tso = VnetHeader {
        gso_type: GSO_TCPV4,
        gso_size: 1448,
        ..csum
    };
    assert_eq!(describe(tso, 5000), Ok((1448, true)));
    assert_eq!(
        describe(
            VnetHeader {
                gso_type: GSO_TCPV4 | GSO_ECN,
                ..tso
            },
            5000
        ),
        Ok((1448, true))
    );
    assert_eq!(
        describe(
            VnetHeader {
                gso_type: GSO_UDP_L4,
                ..tso
            },
            5000
        ),
        Ok((1448, true))
    );
}

/// Breaks if a frame that came with an unfinished checksum can't be sent on, by the stack or by another device.
#[test]
fn what_was_left_undone_can_be_left_again() {
    let pool = MbufPool::new(PoolConfig::default()).unwrap();
    for (offset, csum) in [(16, Csum::TCP), (6, Csum::UDP)] {
        let header = VnetHeader {
            flags: NEEDS_CSUM,
            csum_start: 34,
            csum_offset: offset,
            ..Default::default()
        };
        let mut frame = packet(&pool, 60);
        header.describe(&mut frame).unwrap();
        assert_eq!(frame.header().csum, csum | Csum::L4_VALID);
        assert_eq!(VnetHeader::of(&frame), header);
    }
    // Any other packet is not touched afterwards.
    for (csum_start, csum_offset) in [(34, 17), (13, 16), (33, 16), (75, 6)] {
        let header = VnetHeader {
            flags: NEEDS_CSUM,
            csum_start,
            csum_offset,
            ..Default::default()
        };
        let mut frame = packet(&pool, 200);
        header.describe(&mut frame).unwrap();
        assert_eq!(frame.header().csum, Csum::L4_VALID);
    }
    assert_eq!(pool.live(), Live::NONE);
}

/// Breaks if the device accepts a header that contradicts its frame.
#[test]
fn headers_that_contradict_their_frames_are_refused() {
    let csum = VnetHeader {
        flags: NEEDS_CSUM,
        csum_start: 34,
        csum_offset: 16,
        ..Default::default()
    };
    assert_eq!(
        describe(csum, 51),
        Err(BadVnetHeader),
        "the field is past the end"
    );
    assert_eq!(describe(csum, 52), Ok((0, true)));
    let far = VnetHeader {
        csum_start: u16::MAX,
        csum_offset: u16::MAX,
        ..csum
    };
    assert_eq!(describe(far, 60), Err(BadVnetHeader));
    let no_size = VnetHeader {
        gso_type: GSO_TCPV4,
        gso_size: 0,
        ..csum
    };
    assert_eq!(describe(no_size, 60), Err(BadVnetHeader));
    // Breaks if a machine can make the stack cut a frame into thousands of pieces.
    let sized = |gso_type, gso_size| VnetHeader {
        gso_type,
        gso_size,
        ..csum
    };
    assert_eq!(describe(sized(GSO_TCPV6, 7), 60_000), Err(BadVnetHeader));
    assert!(describe(sized(GSO_TCPV6, 8), 60_000).is_ok());
    assert_eq!(describe(sized(GSO_UDP_L4, 400), 60_000), Err(BadVnetHeader));
    assert!(describe(sized(GSO_UDP_L4, 500), 60_000).is_ok());
    for gso_type in [2, 3, 6, 0x7f, GSO_ECN] {
        let unknown = VnetHeader {
            gso_type,
            gso_size: 9,
            ..csum
        };
        assert_eq!(
            describe(unknown, 60),
            Err(BadVnetHeader),
            "type {gso_type:#x}"
        );
    }
}

/// Breaks if the kernel is told wrongly where a checksum goes or how to cut.
#[test]
fn the_kernel_gets_the_place_of_the_checksum_and_the_segment_size() {
    let pool = MbufPool::new(PoolConfig::default()).unwrap();
    let mut frame = packet(&pool, 5000);
    assert_eq!(VnetHeader::of(&frame), VnetHeader::default());
    let meta = frame.header_mut();
    (meta.l2_len, meta.l3_len, meta.l4_len) = (14, 20, 32);
    meta.csum = Csum::UDP;
    let udp = VnetHeader {
        flags: 1,
        csum_start: 34,
        csum_offset: 6,
        ..Default::default()
    };
    assert_eq!(VnetHeader::of(&frame), udp);
    frame.header_mut().tso_segsz = 1448;
    frame.header_mut().l4_len = 8;
    let merged = VnetHeader {
        gso_type: 5,
        gso_size: 1448,
        hdr_len: 42,
        ..udp
    };
    assert_eq!(VnetHeader::of(&frame), merged);
    frame.header_mut().csum = Csum::TCP;
    frame.header_mut().l4_len = 32;
    let tso = VnetHeader {
        csum_offset: 16,
        gso_type: 1,
        gso_size: 1448,
        hdr_len: 66,
        ..udp
    };
    assert_eq!(VnetHeader::of(&frame), tso);
    frame
        .write_at(34 + 13, &[TcpFlags::CWR.bits() as u8])
        .unwrap();
    assert_eq!(
        VnetHeader::of(&frame),
        VnetHeader {
            gso_type: 0x81,
            ..tso
        }
    );
    assert_eq!(VnetHeader::from_bytes(tso.to_bytes()), tso);
    drop(frame);
    assert_eq!(pool.live(), Live::NONE);
}
