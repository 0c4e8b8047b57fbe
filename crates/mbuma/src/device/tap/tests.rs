//! A packet socket pair stands for the kernel: it keeps frames apart and does not block.

use super::*;
use mbuf::{Chain, ClusterSize, Csum, Live, PoolConfig};
use std::os::unix::net::UnixDatagram;
use wire::{
    EtherType, IpProto, Ipv4Fields, Ipv4Header, Ipv6Fields, Ipv6Header, MacAddr, TcpFields,
};

const OPTIONS: TapOptions = TapOptions {
    mtu: 1500,
    offloads: Offloads::ALL,
};
const ALL: Budget = Budget {
    frames: 1000,
    bytes: usize::MAX,
};

fn pool() -> MbufPool {
    MbufPool::new(PoolConfig::default()).unwrap()
}

/// All offloads but for a change.
fn changed(change: impl FnOnce(&mut Offloads)) -> TapOptions {
    let mut options = OPTIONS;
    change(&mut options.offloads);
    options
}

fn tap(pool: &MbufPool, options: TapOptions) -> (Tap, UnixDatagram) {
    let (ours, kernel) = UnixDatagram::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    kernel.set_nonblocking(true).unwrap();
    // A datagram must fit the buffer of its socket, with the kernel's own data of it, and some machines have small
    // ones.
    rustix::net::sockopt::set_socket_send_buffer_size(&kernel, 256 << 10).unwrap();
    (Tap::from_fd(ours.into(), options, pool), kernel)
}

fn frame(header: &[u8], bytes: &[u8]) -> Vec<u8> {
    [header, bytes].concat()
}

fn received(tap: &Tap) -> Vec<Packet> {
    let mut rx = Mbufq::new();
    tap.receive(&mut rx, ALL).unwrap();
    rx.collect()
}

/// Breaks if a frame of any length loses bytes on its way into clusters, or if the row of clusters
/// is not whole again for the next.
#[test]
fn reads_every_length() {
    let pool = pool();
    let (tap, kernel) = tap(&pool, OPTIONS);
    for len in [1, 14, 60, 1514, 2048, 2049, 18_432, 18_433, 40_000, 65_549] {
        let bytes: Vec<u8> = (0..len).map(|i| (i % 251) as u8).collect();
        kernel.send(&frame(&[0; 10], &bytes)).unwrap();
        let packets = received(&tap);
        assert_eq!(packets.len(), 1, "{len}");
        assert_eq!(packets[0].to_vec(), bytes, "{len}");
        assert!(packets[0].is_valid());
    }
    assert!(received(&tap).is_empty());
    drop(tap);
    assert_eq!(pool.live(), Live::NONE);
}

/// Breaks if frames are written with other bytes, or without the header that the kernel expects, or if their copies are
/// not counted.
#[test]
fn writes_headers_and_pieces() {
    let pool = pool();
    for vnet_hdr in [true, false] {
        let (tap, kernel) = tap(&pool, changed(|o| o.vnet_hdr = vnet_hdr));
        // One piece, some, exactly as many as fit the list, one more.
        let most = IOV_MAX - usize::from(vnet_hdr);
        for pieces in [1, 5, most - 1, most, most + 1, 200] {
            let mut chain = Chain::new();
            for n in 0..pieces {
                chain.append(Chain::from_slice(&pool, &[n as u8; 3]).unwrap());
            }
            let mut packet = Packet::from_chain(&pool, chain).unwrap();
            packet.header_mut().csum = Csum::UDP;
            packet.header_mut().l2_len = 14;
            packet.header_mut().l3_len = 20;
            let mut expected = packet.to_vec();
            if vnet_hdr {
                expected = frame(&VnetHeader::of(&packet).to_bytes(), &expected);
            }
            let mut tx = Mbufq::new();
            tx.enqueue(packet);
            let before = pool.stats().bytes_copied;
            assert_eq!(tap.transmit(&mut tx).unwrap(), 0);
            let mut buf = [0; 1000];
            let n = kernel.recv(&mut buf).unwrap();
            assert_eq!(buf[..n], expected, "{pieces} pieces");
            let copied = pool.stats().bytes_copied - before;
            assert_eq!(copied > 0, pieces > most, "{pieces} pieces");
        }
    }
    assert_eq!(pool.live(), Live::NONE);
}

/// Breaks if the device stops reading after an error that does not mean its end: root on the other side can cause
/// EFAULT and EINVAL.
#[test]
fn a_failed_read_costs_one_frame() {
    let pool = pool();
    // Every read of a directory fails, with EISDIR.
    let directory = std::fs::File::open("/").unwrap();
    let tap = Tap::from_fd(directory.into(), OPTIONS, &pool);
    let budget = Budget {
        frames: 3,
        bytes: 1000,
    };
    assert!(tap.receive(&mut Mbufq::new(), budget).unwrap());
    assert_eq!(tap.take_drops(), [(DropReason::BadVnetHeader, 3)]);
    drop(tap);
    assert_eq!(pool.live(), Live::NONE);
}

/// Breaks if a bad header gets through, stops the reading, or goes uncounted.
#[test]
fn bad_headers_are_dropped_and_counted() {
    let pool = pool();
    let (tap, kernel) = tap(&pool, OPTIONS);
    let unknown_gso = VnetHeader {
        gso_type: 9,
        ..Default::default()
    }
    .to_bytes();
    kernel.send(&frame(&unknown_gso, &[0; 60])).unwrap();
    kernel.send(&[0; 4]).unwrap();
    kernel.send(&frame(&[0; 10], &[5; 60])).unwrap();
    assert_eq!(received(&tap).len(), 1);
    assert_eq!(tap.take_drops(), [(DropReason::BadVnetHeader, 2)]);
    assert!(tap.take_drops().is_empty());
    drop(tap);
    assert_eq!(pool.live(), Live::NONE);
}

/// Breaks if an exhausted pool leaves frames in the kernel, where they would make the descriptor
/// readable for ever, or ends the device.
#[test]
fn no_buffers_is_no_end() {
    let pool = MbufPool::new(PoolConfig {
        mbufs_max: 8,
        cluster_bytes_max: 1 << 20,
    })
    .unwrap();
    let (tap, kernel) = tap(&pool, OPTIONS);
    let mut held = Vec::new();
    for n in 0..20 {
        kernel.send(&frame(&[0; 10], &[n; 60])).unwrap();
        held.extend(received(&tap));
    }
    let lost = 20 - held.len() as u64;
    assert!(lost > 0);
    assert_eq!(tap.take_drops(), [(DropReason::NoBufs, lost)]);
    held.clear();
    kernel.send(&frame(&[0; 10], b"again")).unwrap();
    assert_eq!(received(&tap)[0].to_vec(), b"again");
    drop(tap);
    assert_eq!(pool.live(), Live::NONE);
}

/// Breaks if a stack all of whose clusters wait for acknowledgements can't take one in, or takes in a piece of a longer
/// frame.
#[test]
fn short_frames_need_no_cluster() {
    let pool = MbufPool::new(PoolConfig {
        mbufs_max: 1000,
        cluster_bytes_max: 1 << 20,
    })
    .unwrap();
    for vnet_hdr in [true, false] {
        let (tap, kernel) = tap(&pool, changed(|o| o.vnet_hdr = vnet_hdr));
        let all = || Packet::with_cluster(&pool, ClusterSize::K16, 0).ok();
        let held: Vec<_> = std::iter::from_fn(all).collect();
        // The checksums were verified.
        let header: &[u8] = if vnet_hdr {
            &[2, 0, 0, 0, 0, 0, 0, 0, 0, 0]
        } else {
            &[]
        };
        for len in [14, 54, MHLEN, MHLEN + 1, 1514] {
            let bytes: Vec<u8> = (0..len).map(|i| i as u8).collect();
            kernel.send(&frame(header, &bytes)).unwrap();
            let packets = received(&tap);
            let expected = (len <= MHLEN).then_some(bytes);
            let whole: Vec<_> = packets.iter().map(Packet::to_vec).collect();
            assert_eq!(whole, Vec::from_iter(expected), "{len}");
            let is_verified = |p: &Packet| p.header().csum.contains(Csum::L4_VALID);
            assert!(packets.iter().all(|p| is_verified(p) == vnet_hdr));
        }
        assert_eq!(tap.take_drops(), [(DropReason::NoBufs, 2)]);
        drop((held, tap));
    }
    assert_eq!(pool.live(), Live::NONE);
}

/// Breaks if one poll takes in more than its share.
#[test]
fn one_poll_takes_in_its_budget_at_most() {
    let pool = pool();
    let (tap, kernel) = tap(&pool, OPTIONS);
    for _ in 0..8 {
        kernel.send(&frame(&[0; 10], &[0; 100])).unwrap();
    }
    let budget = |frames, bytes| Budget { frames, bytes };
    let mut rx = Mbufq::new();
    assert!(tap.receive(&mut rx, budget(3, usize::MAX)).unwrap());
    assert_eq!(rx.len(), 3);
    assert!(tap.receive(&mut rx, budget(100, 101)).unwrap());
    assert_eq!(rx.len(), 5);
    assert!(!tap.receive(&mut rx, ALL).unwrap());
}

/// Breaks if a full device loses frames or their order.
#[test]
fn a_full_device_keeps_all_frames_in_order() {
    let pool = pool();
    let (tap, kernel) = tap(&pool, OPTIONS);
    let mut tx = Mbufq::new();
    for n in 0..=255 {
        tx.enqueue(Packet::from_slice(&pool, &[n; 4000], 0).unwrap());
    }
    let (mut next, mut buf) = (0, [0; 5000]);
    while !tx.is_empty() {
        assert_eq!(tap.transmit(&mut tx).unwrap(), 0);
        while let Ok(n) = kernel.recv(&mut buf) {
            assert_eq!((n, usize::from(buf[10])), (4010, next));
            next += 1;
        }
    }
    assert_eq!(next, 256);
    drop((tap, kernel));
    assert_eq!(pool.live(), Live::NONE);
}

/// Breaks if offloads are promised that the descriptor is not set up for.
#[test]
fn only_offloads_of_the_descriptor_are_offered() {
    let pool = pool();
    let caps = |options| tap(&pool, options).0.capabilities();
    assert_eq!(caps(OPTIONS), Capabilities::whole(1500));
    let no_csum = changed(|o| o.csum = false);
    assert_eq!(caps(no_csum), Capabilities::plain(1500));
    let big_tcp = changed(|o| o.big_tcp = true);
    let big = Capabilities {
        tso4_max: BIG_TCP_MAX,
        tso6_max: BIG_TCP_MAX,
        ..Capabilities::whole(1500)
    };
    assert_eq!(caps(big_tcp), big);
    assert_eq!(
        caps(changed(|o| o.vnet_hdr = false)),
        Capabilities::plain(1500)
    );
    let no_tso = changed(|o| {
        o.tso4 = false;
        o.tso6 = false;
    });
    assert_eq!(
        caps(no_tso),
        Capabilities {
            tso4_max: 0,
            tso6_max: 0,
            ..Capabilities::whole(1500)
        }
    );
}

/// Ethernet's and IP's headers of a packet of TCP that is longer than they can say.
fn large_headers(is_ip6: bool) -> Vec<u8> {
    let mut headers = vec![0; if is_ip6 { 54 } else { 34 }];
    let protocol = IpProto::TCP;
    let kind = match is_ip6 {
        true => EtherType::IPV6,
        false => EtherType::IPV4,
    };
    EtherHeader::new(MacAddr::BROADCAST, MacAddr::ZERO, kind).emit(&mut headers);
    match is_ip6 {
        true => Ipv6Fields {
            next: protocol,
            ..Ipv6Fields::default()
        }
        .emit(&mut headers[14..]),
        false => Ipv4Fields {
            oversize: true,
            protocol,
            ..Ipv4Fields::default()
        }
        .emit(&mut headers[14..]),
    };
    headers
}

/// A packet of TCP with these headers.
fn large_packet(pool: &MbufPool, ip: &[u8], data: &[u8], segsz: u16) -> Packet {
    let mut headers = [ip, &[0; 20]].concat();
    TcpFields::default().emit(&mut headers[ip.len()..]);
    let chain = Chain::from_slice(pool, data).unwrap();
    let mut packet = Packet::before_chain(pool, chain).unwrap();
    let front = packet.prepend(headers.len()).unwrap();
    front.copy_from_slice(&headers);
    let meta = packet.header_mut();
    (meta.l2_len, meta.l3_len, meta.l4_len) = (14, ip.len() as u8 - 14, 20);
    (meta.csum, meta.tso_segsz) = (Csum::TCP, segsz);
    packet
}

/// Breaks if the kernel does not get the length of a packet of IPv6 of more than 64 KiB in the place where it looks for
/// it, gets an option that it does not ask for, or another packet changes.
#[test]
fn a_packet_of_ip6_of_more_than_64_kib_says_its_length() {
    let pool = pool();
    let data: Vec<u8> = (0..150_000).map(|i| (i % 251) as u8).collect();
    let option: Vec<u8> = [&[6, 0, 0xc2, 4], &150_028_u32.to_be_bytes()[..]].concat();
    for (is_ip6, jumbo_option) in [(false, true), (true, false), (true, true)] {
        let options = changed(|o| {
            o.big_tcp = true;
            o.jumbo_option = jumbo_option;
        });
        let (ours, kernel) = UnixDatagram::pair().unwrap();
        rustix::net::sockopt::set_socket_send_buffer_size(&ours, 256 << 10).unwrap();
        let tap = Tap::from_fd(ours.into(), options, &pool);
        let ip = large_headers(is_ip6);
        let mut tx = Mbufq::new();
        tx.enqueue(large_packet(&pool, &ip, &data, 1428));
        assert_eq!(tap.transmit(&mut tx).unwrap(), 0);
        let mut came = vec![0; 200_000];
        let n = kernel.recv(&mut came).unwrap();
        let (vnet, frame) = came[..n].split_at(10);
        let has_option = is_ip6 && jumbo_option;
        let mut expected = ip.clone();
        if has_option {
            expected[14 + Ipv6Header::NEXT_OFFSET] = 0;
            expected.extend(&option);
        }
        let header = VnetHeader::from_bytes(vnet.try_into().unwrap());
        let l4 = expected.len() as u16;
        assert_eq!((header.csum_start, header.hdr_len), (l4, l4 + 20));
        assert_eq!(header.gso_size, 1428);
        assert!(frame.starts_with(&expected), "{is_ip6} {jumbo_option}");
        assert!(frame[expected.len() + 20..] == data);
    }
    assert_eq!(pool.live(), Live::NONE);
}

/// Breaks if a packet for which the kernel has no memory in one piece, or too many pieces, is lost, or goes out of
/// order.
#[test]
fn a_packet_of_more_than_64_kib_that_is_refused_goes_in_pieces() {
    refused_in_pieces(false);
    refused_in_pieces(true);
}

fn refused_in_pieces(is_ip6: bool) {
    const SEGSZ: u16 = 1428;
    let pool = pool();
    let (ours, kernel) = UnixDatagram::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    kernel.set_nonblocking(true).unwrap();
    // The kernel doubles the size; a datagram of 200,000 bytes is still larger.
    rustix::net::sockopt::set_socket_send_buffer_size(&ours, 64 << 10).unwrap();
    let options = changed(|o| {
        o.big_tcp = true;
        o.jumbo_option = true;
    });
    let tap = Tap::from_fd(ours.into(), options, &pool);
    let data: Vec<u8> = (0..200_000).map(|i| (i % 251) as u8).collect();
    let headers = large_headers(is_ip6);
    let tcp = headers.len() + 20;
    let mut tx = Mbufq::new();
    tx.enqueue(large_packet(&pool, &headers, &data, SEGSZ));
    tx.enqueue(Packet::from_slice(&pool, b"behind it", 0).unwrap());
    let (mut came, mut buf, mut last) = (Vec::new(), vec![0; 70_000], Vec::new());
    while !tx.is_empty() || came.len() < data.len() {
        assert_eq!(tap.transmit(&mut tx).unwrap(), 0, "none is lost");
        while let Ok(n) = kernel.recv(&mut buf) {
            let frame = &buf[10..n];
            match frame.strip_prefix(b"behind it") {
                Some(_) => last = frame.to_vec(),
                None => {
                    let said = match Ipv6Header::parse(&frame[14..]) {
                        Ok(ip) => Ipv6Header::LEN + ip.payload_len(),
                        Err(_) => Ipv4Header::parse(&frame[14..]).unwrap().total_len(),
                    };
                    assert_eq!(said, frame.len() - 14);
                    let ends = came.len() + frame.len() - tcp == data.len();
                    assert!(last.is_empty() && (ends || frame.len() > 60_000));
                    came.extend_from_slice(&frame[tcp..]);
                }
            }
        }
    }
    while let Ok(n) = kernel.recv(&mut buf) {
        last = buf[10..n].to_vec();
    }
    assert!(came == data);
    assert_eq!(last, b"behind it");
    drop((tap, kernel));
    assert_eq!(pool.live(), Live::NONE);
}
