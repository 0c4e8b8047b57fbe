use super::*;
use mbuf::{Live, PoolConfig};
use proptest::prelude::*;
use wire::{EtherType, Ipv4Fields, MacAddr, TcpFields, TcpOptions};

use std::net::Ipv4Addr;

const SRC: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 2);
const DST: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 100);
const ID: u16 = 65_530;
const SEQ: SeqNum = SeqNum(u32::MAX - 2000);
const ALL_FLAGS: TcpFlags = TcpFlags::ACK
    .union(TcpFlags::PSH)
    .union(TcpFlags::FIN)
    .union(TcpFlags::CWR);

/// Headers as the stack puts them before a segment, with all that a finished one has.
fn headers(data: &[u8], id: u16, seq: SeqNum, flags: TcpFlags, timestamps: bool) -> Vec<u8> {
    let options = TcpOptions {
        timestamps: timestamps.then_some((1, 2)),
        ..TcpOptions::default()
    };
    let tcp = TcpFields {
        src_port: 1,
        dst_port: 2,
        seq,
        ack: SeqNum(9),
        flags,
        window: 100,
        urgent: 0,
        options,
    };
    let tcp_len = tcp.header_len();
    let mut out = vec![0; 34 + tcp_len];
    let mac = MacAddr::BROADCAST;
    EtherHeader::new(mac, MacAddr::ZERO, EtherType::IPV4).emit(&mut out);
    let payload_len = (tcp_len + data.len()) as u16;
    let protocol = IpProto::TCP;
    let (src, dst) = (SRC, DST);
    Ipv4Fields {
        id,
        df: true,
        payload_len,
        protocol,
        src,
        dst,
        ..Ipv4Fields::default()
    }
    .emit(&mut out[14..]);
    tcp.emit(&mut out[34..]);
    let mut sum = pseudo_header_v4(SRC, DST, IpProto::TCP, u32::from(payload_len));
    sum.add_bytes(&out[34..]);
    sum.add_bytes(data);
    out[34 + 16..][..2].copy_from_slice(&sum.finish().to_be_bytes());
    out
}

/// The large segment as TCP hands it over: the checksum field holds the pseudo-header's sum.
fn large(pool: &MbufPool, data: &[u8], segsz: u16, timestamps: bool) -> Packet {
    let mut headers = headers(data, ID, SEQ, ALL_FLAGS, timestamps);
    let l4_len = headers.len() - 34;
    let sum = pseudo_header_v4(SRC, DST, IpProto::TCP, (l4_len + data.len()) as u32);
    headers[34 + 16..][..2].copy_from_slice(&sum.partial().to_be_bytes());
    let mut packet = Packet::before_chain(pool, Chain::from_slice(pool, data).unwrap()).unwrap();
    packet
        .prepend(headers.len())
        .unwrap()
        .copy_from_slice(&headers);
    let meta = packet.header_mut();
    (meta.l2_len, meta.l3_len, meta.l4_len) = (14, 20, l4_len as u8);
    meta.csum = Csum::TCP;
    meta.tso_segsz = segsz;
    packet
}

/// The segments that TCP would have sent, had it cut the data itself.
fn reference(data: &[u8], segsz: usize, timestamps: bool) -> Vec<Vec<u8>> {
    let count = data.len().div_ceil(segsz);
    let segment = |(i, piece): (usize, &[u8])| {
        let mut flags = TcpFlags::ACK;
        flags.set(TcpFlags::CWR, i == 0);
        flags.set(TcpFlags::PSH | TcpFlags::FIN, i + 1 == count);
        let seq = SEQ + (i * segsz) as u32;
        let mut frame = headers(piece, ID.wrapping_add(i as u16), seq, flags, timestamps);
        frame.extend_from_slice(piece);
        frame
    };
    data.chunks(segsz).enumerate().map(segment).collect()
}

fn data(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 % 253) as u8).collect()
}

proptest! {
    /// Breaks if one byte of a cut segment differs from TCP's own segment.
    #[test]
    fn cut_equals_the_reference(len in 1..65_000usize, segsz in 200..9000u16, timestamps: bool) {
        let pool = MbufPool::new(PoolConfig::default()).unwrap();
        let data = data(len);
        let mut ready = Mbufq::new();
        let packet = large(&pool, &data, segsz, timestamps);
        prepare(&pool, packet, Capabilities::plain(1500), &mut ready).unwrap();
        let cut: Vec<_> = ready.map(|p| { assert!(p.header().csum.is_empty()); p.to_vec() }).collect();
        prop_assert_eq!(cut, reference(&data, usize::from(segsz), timestamps));
        prop_assert_eq!(pool.live(), Live::NONE);
    }
}

/// Breaks if cutting copies payload, or keeps it from being shared with the send buffer.
#[test]
fn payload_is_not_copied() {
    let pool = MbufPool::new(PoolConfig::default()).unwrap();
    let packet = large(&pool, &data(60_000), 1448, true);
    let before = pool.stats();
    let mut ready = Mbufq::new();
    prepare(&pool, packet, Capabilities::plain(1500), &mut ready).unwrap();
    let after = pool.stats();
    assert_eq!(after.bytes_copied, before.bytes_copied);
    assert_eq!(pool.live().clusters, 4, "those of the data, and no more");
    drop(ready);
    assert_eq!(pool.live(), Live::NONE);
}

/// Breaks if a packet is cut for a device that can segment, or summed in software for one that finishes checksums.
#[test]
fn devices_get_what_they_can_take() {
    let pool = MbufPool::new(PoolConfig::default()).unwrap();
    let run = |caps, len| {
        let mut ready = Mbufq::new();
        prepare(
            &pool,
            large(&pool, &data(len), 1000, false),
            caps,
            &mut ready,
        )
        .unwrap();
        ready.collect::<Vec<_>>()
    };
    let whole = run(Capabilities::whole(1500), 5000);
    assert_eq!((whole.len(), whole[0].header().tso_segsz), (1, 1000));
    // Too large for this one, which cuts pieces of three segments.
    let small = Capabilities {
        tso4_max: 4000,
        tso6_max: 4000,
        ..Capabilities::whole(1500)
    };
    let pieces = run(small, 5000);
    let sizes = pieces.iter().map(|p| (p.len(), p.header().tso_segsz));
    let sizes: Vec<_> = sizes.collect();
    assert_eq!(sizes, [(54 + 3000, 1000), (54 + 2000, 1000)]);
    let mut segments = Mbufq::new();
    let plain = Capabilities::plain(1500);
    for piece in pieces {
        prepare(&pool, piece, plain, &mut segments).unwrap();
    }
    let segments: Vec<_> = segments.map(|segment| segment.to_vec()).collect();
    assert_eq!(segments, reference(&data(5000), 1000, false));
    // This one only sums.
    let sums = Capabilities {
        tso4_max: 0,
        ..Capabilities::whole(1500)
    };
    let pieces = run(sums, 5000);
    assert_eq!(pieces.len(), 5);
    for (piece, reference) in pieces.iter().zip(reference(&data(5000), 1000, false)) {
        assert_eq!(piece.header().csum, Csum::TCP);
        let partial = pseudo_header_v4(SRC, DST, IpProto::TCP, 1020).partial();
        let mut expected = reference;
        expected[34 + 16..][..2].copy_from_slice(&partial.to_be_bytes());
        assert_eq!(piece.to_vec(), expected);
    }
    // One segment is no large one, even if its header says so.
    let single = run(Capabilities::whole(1500), 1000);
    assert_eq!((single.len(), single[0].header().tso_segsz), (1, 0));
    assert_eq!(
        run(Capabilities::plain(1500), 999)[0].to_vec().len(),
        54 + 999
    );
    drop((whole, pieces, single));
    assert_eq!(pool.live(), Live::NONE);
}

/// Breaks if a packet that is longer than its header can say is not cut for a device without BIG TCP, or is cut for one
/// with it.
#[test]
fn packets_of_more_than_64_kib() {
    let pool = MbufPool::new(PoolConfig::default()).unwrap();
    let big = || {
        let mut packet = large(&pool, &data(200_000), 1448, true);
        let no_length = [0, 0];
        packet.write_at(14 + 2, &no_length).unwrap();
        packet
    };
    let takes = Capabilities {
        tso4_max: 272 << 10,
        ..Capabilities::whole(1500)
    };
    let mut whole = Mbufq::new();
    prepare(&pool, big(), takes, &mut whole).unwrap();
    let whole: Vec<Packet> = whole.collect();
    assert_eq!((whole.len(), whole[0].header().tso_segsz), (1, 1448));
    let mut cut = Mbufq::new();
    prepare(&pool, big(), Capabilities::plain(1500), &mut cut).unwrap();
    let cut: Vec<_> = cut.map(|piece| piece.to_vec()).collect();
    assert_eq!(cut, reference(&data(200_000), 1448, true));
    drop(whole);
    assert_eq!(pool.live(), Live::NONE);
}

/// Breaks if a UDP checksum that comes out as zero is sent as "none".
#[test]
fn udp_zero_goes_as_ones() {
    let pool = MbufPool::new(PoolConfig::default()).unwrap();
    let pseudo = pseudo_header_v4(SRC, DST, IpProto::UDP, 10);
    let mut header = UdpHeader::new(1, 2, 10);
    let mut sum = pseudo;
    sum.add_u16(1);
    sum.add_u16(2);
    sum.add_u16(10);
    // The two bytes of data that make the sum 0xffff, and so its complement 0.
    let data = sum.finish().to_be_bytes();
    header.set_checksum(pseudo.partial());
    let mut packet = Packet::from_slice(&pool, &data, 8).unwrap();
    header.emit(packet.prepend(8).unwrap());
    packet.header_mut().csum = Csum::UDP;
    finish_checksum(&mut packet, 0).unwrap();
    assert_eq!(packet.to_vec()[6..8], [0xff, 0xff]);
    assert!(packet.header().csum.is_empty());
}

/// Breaks if the code obeys a header that contradicts its packet, and does not drop the packet.
#[test]
fn nonsense_is_refused() {
    let pool = MbufPool::new(PoolConfig::default()).unwrap();
    for (l2, l3, len) in [(14, 24, 5000), (0, 20, 5000), (200, 20, 100), (14, 20, 0)] {
        let mut packet = large(&pool, &data(len), 100, false);
        packet.header_mut().l2_len = l2;
        packet.header_mut().l3_len = l3;
        if len == 0 {
            packet.truncate(30);
        }
        let mut ready = Mbufq::new();
        let result = prepare(&pool, packet, Capabilities::plain(1500), &mut ready);
        assert_eq!(result, Err(DropReason::DeviceError));
        assert!(ready.is_empty());
    }
    let mut short = Packet::from_slice(&pool, &[0; 20], 0).unwrap();
    short.header_mut().csum = Csum::TCP;
    short.header_mut().l3_len = 20;
    assert_eq!(finish_checksum(&mut short, 0), Err(DropReason::DeviceError));
}

/// Breaks if datagrams that a device merged do not come out as they went in, or are cut for a device that takes them
/// whole.
#[test]
fn merged_datagrams_are_taken_apart() {
    let pool = MbufPool::new(PoolConfig::default()).unwrap();
    let frame = |data: &[u8], id: u16| {
        let len = (UdpHeader::LEN + data.len()) as u16;
        let mut out = vec![0; 42];
        EtherHeader::new(MacAddr::BROADCAST, MacAddr::ZERO, EtherType::IPV4).emit(&mut out);
        Ipv4Fields {
            id,
            payload_len: len,
            protocol: IpProto::UDP,
            src: SRC,
            dst: DST,
            ..Ipv4Fields::default()
        }
        .emit(&mut out[14..]);
        let mut header = UdpHeader::new(1, 2, len);
        header.emit(&mut out[34..]);
        let mut sum = pseudo_header_v4(SRC, DST, IpProto::UDP, u32::from(len));
        sum.add_bytes(&out[34..]);
        sum.add_bytes(data);
        header.set_checksum(sum.finish_nonzero());
        header.emit(&mut out[34..]);
        out.extend_from_slice(data);
        out
    };
    let data = data(3100);
    let prepared = |caps| {
        let mut merged = Packet::from_slice(&pool, &frame(&data, ID), 0).unwrap();
        let meta = merged.header_mut();
        (meta.l2_len, meta.l3_len, meta.tso_segsz) = (14, 20, 1400);
        meta.csum = Csum::UDP | Csum::L4_VALID;
        let mut ready = Mbufq::new();
        prepare(&pool, merged, caps, &mut ready).unwrap();
        ready
    };
    let whole: Vec<Packet> = prepared(Capabilities::whole(1500)).collect();
    assert_eq!((whole.len(), whole[0].header().tso_segsz), (1, 1400));
    drop(whole);
    let sums_only = Capabilities {
        uso_max: 0,
        ..Capabilities::whole(1500)
    };
    for caps in [Capabilities::plain(1500), sums_only] {
        let ready = prepared(caps);
        let mut pieces = Vec::new();
        for mut piece in ready {
            assert_eq!(piece.header().csum.contains(Csum::UDP), caps.tx_checksum);
            finish_checksum(&mut piece, 14).unwrap();
            pieces.push(piece.to_vec());
        }
        let expected = data.chunks(1400).enumerate();
        let expected: Vec<_> = expected
            .map(|(i, piece)| frame(piece, ID.wrapping_add(i as u16)))
            .collect();
        assert_eq!(pieces, expected);
    }
    assert_eq!(pool.live(), Live::NONE);
}
