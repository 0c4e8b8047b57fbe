use super::*;
use crate::device::memory::Pipe;
use kern::VirtualClock;
use mbuf::{Live, MbufPool, PoolConfig};
use pcap_file::DataLink;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketOption;
use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionOption;
use pcap_file::pcapng::{Block, PcapNgReader};
use std::sync::Mutex as StdMutex;
use wire::{IpProto, Ipv6Fields};

const ALL: Budget = Budget {
    frames: usize::MAX,
    bytes: usize::MAX,
};
const EPOCH: Duration = Duration::from_secs(1_700_000_000);

/// A file in memory that fails after a number of bytes.
#[derive(Clone)]
struct Disk(Arc<StdMutex<Vec<u8>>>, usize);

impl Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut file = self.0.lock().unwrap();
        if file.len() + bytes.len() > self.1 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        file.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn one(pool: &MbufPool, bytes: &[u8]) -> Mbufq {
    let mut tx = Mbufq::new();
    tx.enqueue(Packet::from_slice(pool, bytes, 0).unwrap());
    tx
}

/// Breaks if a reader of the format can't read captured frames: bytes, direction, nanoseconds.
#[test]
fn both_directions_are_written_down() {
    let pool = MbufPool::new(PoolConfig::default()).unwrap();
    let clock = Arc::new(VirtualClock::new(Time::from_nanos(1_000_000_001)));
    let disk = Disk(Arc::default(), usize::MAX);
    let (inner, peer) = Pipe::pair(Capabilities::plain(1500));
    let capture = Capture::new(inner, "tap0", disk.clone(), clock.clone(), EPOCH).unwrap();
    let long = vec![7; 60_001];
    peer.transmit(&mut one(&pool, b"inward")).unwrap();
    let mut rx = Mbufq::new();
    capture.receive(&mut rx, ALL).unwrap();
    assert_eq!(rx.len(), 1);
    clock.advance(Duration::from_nanos(5));
    capture.transmit(&mut one(&pool, &long)).unwrap();
    assert_eq!(peer.pending(), 1);

    // The capture is not dropped: the frames are in the file at once.
    let file = disk.0.lock().unwrap().clone();
    let mut reader = PcapNgReader::new(file.as_slice()).unwrap();
    let mut seen = Vec::new();
    while let Some(block) = reader.next_block() {
        if let Block::EnhancedPacket(p) = block.unwrap().into_owned() {
            seen.push((p.timestamp, p.original_len, p.data.into_owned(), p.options));
        }
    }
    let at = EPOCH + Duration::from_nanos(1_000_000_001);
    let flags = |direction| vec![EnhancedPacketOption::Flags(direction)];
    assert_eq!(seen[0], (at, 6, b"inward".to_vec(), flags(1)));
    assert_eq!(
        seen[1],
        (at + Duration::from_nanos(5), 60_001, long, flags(2))
    );
    assert_eq!(seen.len(), 2);
    let interface = &reader.interfaces()[0];
    assert_eq!(interface.linktype, DataLink::ETHERNET);
    let name = InterfaceDescriptionOption::IfName("tap0".into());
    assert!(interface.options.contains(&name));
    drop((capture, peer, rx));
    assert_eq!(pool.live(), Live::NONE);
}

/// Breaks if a full disk stops the traffic, or frames that are not in the file are not counted as lost.
#[test]
fn full_disk_stops_only_the_capture() {
    let pool = MbufPool::new(PoolConfig::default()).unwrap();
    let clock = Arc::new(VirtualClock::new(Time::ZERO));
    let (inner, peer) = Pipe::pair(Capabilities::plain(1500));
    let disk = Disk(Arc::default(), 400);
    let capture = Capture::new(inner, "tap0", disk, clock, EPOCH).unwrap();
    for _ in 0..10 {
        capture.transmit(&mut one(&pool, &[1; 200])).unwrap();
    }
    assert_eq!(peer.pending(), 10);
    assert_eq!(capture.lost(), 9);
}

/// Breaks if a reader of the format finds no length in a packet of IPv6 of more than 64 KiB, or another packet changes.
#[test]
fn a_packet_of_ip6_of_more_than_64_kib_says_its_length() {
    let pool = MbufPool::new(PoolConfig::default()).unwrap();
    let clock = Arc::new(VirtualClock::new(Time::ZERO));
    let disk = Disk(Arc::default(), usize::MAX);
    let (inner, _peer) = Pipe::pair(Capabilities::whole(1500));
    let capture = Capture::new(inner, "tap0", disk.clone(), clock, EPOCH).unwrap();
    let mut frame = vec![7; 14 + 40 + 100_000];
    let fields = Ipv6Fields {
        next: IpProto::TCP,
        ..Ipv6Fields::default()
    };
    fields.emit(&mut frame[14..]);
    let ipv4 = [&[0x45][..], &[0; 99_999]].concat();
    for bytes in [&frame, &ipv4] {
        capture.transmit(&mut one(&pool, bytes)).unwrap();
    }
    let file = disk.0.lock().unwrap().clone();
    let mut reader = PcapNgReader::new(file.as_slice()).unwrap();
    let mut seen = Vec::new();
    while let Some(block) = reader.next_block() {
        if let Block::EnhancedPacket(block) = block.unwrap() {
            seen.push((block.original_len as usize, block.data.to_vec()));
        }
    }
    let mut with_option = frame.clone();
    with_option[14 + 6] = 0;
    let option = [&[6, 0, 0xc2, 4], &100_008_u32.to_be_bytes()[..]].concat();
    with_option.splice(54..54, option);
    assert!(seen == [(with_option.len(), with_option), (ipv4.len(), ipv4)]);
}
