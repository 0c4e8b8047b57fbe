//! The test plays the other end of the socket.

use std::io::{Read, Write};
use std::time::Duration;

use kern::MonotonicClock;
use mbuf::{ClusterSize, Live, Packet, PoolConfig};

use super::*;
use crate::device::FRAME_MAX;

const MTU: u16 = 1500;
const ALL: Budget = Budget {
    frames: 100_000,
    bytes: usize::MAX,
};

fn pool() -> MbufPool {
    MbufPool::new(PoolConfig::default()).unwrap()
}

/// A device, and the peer that is connected to it.
fn pair(pool: &MbufPool) -> (FrameStream, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    // Some systems give sockets much larger buffers than others.
    rustix::net::sockopt::set_socket_send_buffer_size(&ours, 64 << 10).unwrap();
    theirs.set_nonblocking(true).unwrap();
    (FrameStream::connected(ours, MTU, pool).unwrap(), theirs)
}

/// A device that listens, and the address it listens at.
fn listening(pool: &MbufPool, name: &str) -> (FrameStream, std::path::PathBuf) {
    let name = format!("mbuma-frames-{}-{name}", std::process::id());
    let path = std::env::temp_dir().join(name);
    let _ = std::fs::remove_file(&path);
    let listener = UnixListener::bind(&path).unwrap();
    let clock = Arc::new(MonotonicClock::new());
    let device = FrameStream::listen(listener, MTU, clock, pool).unwrap();
    (device, path)
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i % 251) as u8).collect()
}

fn on_wire(frame: &[u8]) -> Vec<u8> {
    [&(frame.len() as u32).to_be_bytes()[..], frame].concat()
}

fn received(device: &FrameStream) -> Vec<Packet> {
    let mut rx = Mbufq::new();
    while device.receive(&mut rx, ALL).unwrap() {}
    rx.collect()
}

/// Writes all of it while the device takes frames in.
fn exchange(device: &FrameStream, peer: &mut UnixStream, mut bytes: &[u8]) -> Vec<Packet> {
    let mut packets = Vec::new();
    while !bytes.is_empty() {
        match peer.write(bytes) {
            Ok(n) => bytes = &bytes[n..],
            Err(e) => assert_eq!(e.kind(), io::ErrorKind::WouldBlock),
        }
        packets.extend(received(device));
    }
    packets
}

fn transmit(device: &FrameStream, frames: &[Vec<u8>], pool: &MbufPool) -> usize {
    let mut tx = Mbufq::new();
    for frame in frames {
        tx.enqueue(Packet::from_slice(pool, frame, 0).unwrap());
    }
    device.transmit(&mut tx).unwrap();
    tx.len()
}

/// Reads all that is there, while the device sends what waits.
fn read_all(device: &FrameStream, peer: &mut UnixStream) -> Vec<u8> {
    let (mut all, mut bytes) = (Vec::new(), vec![0; 1 << 16]);
    while let Ok(n @ 1..) = peer.read(&mut bytes) {
        all.extend_from_slice(&bytes[..n]);
        received(device);
    }
    all
}

/// Whether the device's descriptor is readable.
fn is_ready(device: &FrameStream) -> bool {
    let mut fds = [rustix::event::PollFd::new(
        device,
        rustix::event::PollFlags::IN,
    )];
    let now = rustix::event::Timespec::try_from(Duration::ZERO).unwrap();
    rustix::event::poll(&mut fds, Some(&now)).unwrap() > 0
}

/// Breaks if a frame of any length loses bytes, or frames that one read took are not told apart.
#[test]
fn reads_every_length_and_many_frames_at_once() {
    let pool = pool();
    let (device, mut peer) = pair(&pool);
    let lens = [14, 60, 1514, 2044, 2045, 2048, 18_432, 40_000, FRAME_MAX];
    let wire: Vec<u8> = lens.iter().flat_map(|n| on_wire(&pattern(*n))).collect();
    let packets = exchange(&device, &mut peer, &wire);
    assert_eq!(packets.iter().map(Packet::len).collect::<Vec<_>>(), lens);
    for packet in &packets {
        assert!(packet.is_valid());
        assert_eq!(packet.to_vec(), pattern(packet.len()));
    }
    let small: Vec<u8> = (0..500).flat_map(|_| on_wire(&pattern(60))).collect();
    assert_eq!(exchange(&device, &mut peer, &small).len(), 500);
    drop((packets, device));
    assert_eq!(pool.live(), Live::NONE);
}

/// Breaks if a frame that comes in pieces is put together wrongly, or if single bytes of one keep a cluster each.
#[test]
fn a_frame_in_pieces_pins_little() {
    let pool = pool();
    let (device, mut peer) = pair(&pool);
    let wire = on_wire(&pattern(5000));
    for (n, byte) in wire.iter().enumerate() {
        let packets = exchange(&device, &mut peer, &[*byte]);
        assert_eq!(packets.len(), usize::from(n + 1 == wire.len()));
        // The row of the next read has six clusters; the frame, up to 4 bytes for each of its own.
        let clusters = pool.live().clusters;
        assert!(clusters <= 6 + 5000 * 4 / 2048 + 1, "{clusters} clusters");
        for packet in packets {
            assert_eq!(packet.to_vec(), pattern(5000));
        }
    }
    drop(device);
    assert_eq!(pool.live(), Live::NONE);
}

/// Breaks if a peer gets more than the budget of a poll by sending many frames in one write.
#[test]
fn frames_beyond_the_budget_wait() {
    let pool = pool();
    let (device, mut peer) = pair(&pool);
    let wire: Vec<u8> = (0..100).flat_map(|_| on_wire(&pattern(60))).collect();
    peer.write_all(&wire).unwrap();
    let budget = Budget {
        frames: 64,
        bytes: usize::MAX,
    };
    let mut rx = Mbufq::new();
    assert!(device.receive(&mut rx, budget).unwrap());
    assert_eq!(rx.len(), 64);
    assert!(!device.receive(&mut rx, budget).unwrap());
    assert_eq!(rx.len(), 100);
    drop((rx, device));
    assert_eq!(pool.live(), Live::NONE);
}

/// Breaks if the device accepts an impossible length: one that is too short costs its frame, one that is too long the
/// connection, and each is counted.
#[test]
fn impossible_lengths_are_counted() {
    let pool = pool();
    let (device, path) = listening(&pool, "lengths");
    for long in [FRAME_MAX as u32 + 1, 1 << 31, u32::MAX] {
        let mut peer = UnixStream::connect(&path).unwrap();
        assert!(received(&device).is_empty());
        peer.write_all(&on_wire(&[])).unwrap();
        peer.write_all(&on_wire(&[1; 13])).unwrap();
        peer.write_all(&on_wire(&pattern(60))).unwrap();
        assert_eq!(received(&device).len(), 1);
        assert_eq!(device.take_drops(), [(DropReason::BadFrameLength, 2)]);
        peer.write_all(&long.to_be_bytes()).unwrap();
        peer.write_all(&on_wire(&pattern(60))).unwrap();
        assert!(received(&device).is_empty());
        assert_eq!(device.take_drops(), [(DropReason::BadFrameLength, 1)]);
        // The end, or a reset because of the unread frame.
        assert!(matches!(peer.read(&mut [0]), Ok(0) | Err(_)));
    }
    std::fs::remove_file(path).unwrap();
    drop(device);
    assert_eq!(pool.live(), Live::NONE);
}

/// Breaks if a restarted peer finds no device, a second peer takes the place of the first, or the bytes of an ended
/// peer count as the next one's.
#[test]
fn one_peer_after_the_other() {
    let pool = pool();
    let (device, path) = listening(&pool, "peers");
    assert_eq!(transmit(&device, &[pattern(60)], &pool), 1, "no peer");
    for _ in 0..3 {
        let mut first = UnixStream::connect(&path).unwrap();
        assert!(is_ready(&device));
        assert!(received(&device).is_empty());
        let mut second = UnixStream::connect(&path).unwrap();
        assert!(is_ready(&device));
        assert!(received(&device).is_empty());
        assert_eq!(second.read(&mut [0]).unwrap(), 0, "refused");
        assert!(!is_ready(&device));

        first.write_all(&on_wire(&pattern(60))).unwrap();
        assert_eq!(received(&device).len(), 1);
        assert_eq!(transmit(&device, &[pattern(61)], &pool), 0);
        let mut bytes = [0; 65];
        first.read_exact(&mut bytes).unwrap();
        assert_eq!(bytes[..], on_wire(&pattern(61)));
        // It ends in the middle of a frame.
        first.write_all(&on_wire(&pattern(60))[..30]).unwrap();
        assert!(received(&device).is_empty());
        drop(first);
        assert!(received(&device).is_empty());
        assert!(!is_ready(&device));
    }
    std::fs::remove_file(path).unwrap();
    drop(device);
    assert_eq!(pool.live(), Live::NONE);
}

/// Breaks if a machine that is started again is refused because the end of its last connection was not read yet.
#[test]
fn a_peer_takes_the_place_of_one_that_has_ended() {
    let pool = pool();
    let (device, path) = listening(&pool, "again");
    let first = UnixStream::connect(&path).unwrap();
    assert!(received(&device).is_empty());
    drop(first);
    let mut second = UnixStream::connect(&path).unwrap();
    // As if the second peer came between a read and the accept.
    device.accept();
    second.write_all(&on_wire(&pattern(60))).unwrap();
    assert_eq!(received(&device).len(), 1);
    assert_eq!(transmit(&device, &[pattern(61)], &pool), 0);
    let mut bytes = [0; 65];
    second.read_exact(&mut bytes).unwrap();
    std::fs::remove_file(path).unwrap();
    drop(device);
    assert_eq!(pool.live(), Live::NONE);
}

/// Breaks if a peer that reads nothing makes the queue grow without bound, or frames that waited are lost, torn or out
/// of order once it reads.
#[test]
fn a_peer_that_does_not_read_is_waited_for_within_bounds() {
    let pool = pool();
    let (device, mut peer) = pair(&pool);
    let frames: Vec<_> = (0..3000_usize)
        .map(|n| [&n.to_be_bytes()[..], &pattern(600)].concat())
        .collect();
    let mut refused = 0;
    for frame in &frames {
        refused += transmit(&device, std::slice::from_ref(frame), &pool);
    }
    assert!(refused > 0, "the socket took 3000 frames");
    let kept = frames.len() - refused;
    assert!(kept >= QUEUE_FRAMES_MAX);
    assert!(!is_ready(&device), "there is no room yet");
    let read = read_all(&device, &mut peer);
    let expected: Vec<u8> = frames[..kept].iter().flat_map(|f| on_wire(f)).collect();
    assert!(
        read == expected,
        "{} bytes for {}",
        read.len(),
        expected.len()
    );
    assert!(!is_ready(&device), "nothing waits for room");
    // Frames that wait are dropped with the peer.
    for frame in &frames {
        transmit(&device, std::slice::from_ref(frame), &pool);
    }
    drop(peer);
    let mut rx = Mbufq::new();
    let gone = device.receive(&mut rx, ALL);
    assert_eq!(gone.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    assert_eq!(transmit(&device, &frames[..1], &pool), 1);
    drop(device);
    assert_eq!(pool.live(), Live::NONE);
}

/// Breaks if frames of more pieces than one write takes, or larger than the socket's buffer has room for, are torn.
#[test]
fn frames_of_many_pieces_are_written_whole() {
    let pool = pool();
    let (device, mut peer) = pair(&pool);
    let mut expected = Vec::new();
    let mut tx = Mbufq::new();
    for count in [1, 255, 256, 257, 1000] {
        let mut chain = mbuf::Chain::new();
        for n in 0..count {
            chain.append(mbuf::Chain::from_slice(&pool, &[n as u8; 60]).unwrap());
        }
        expected.extend(on_wire(&chain.to_vec()));
        tx.enqueue(chain.into_packet(&pool).unwrap());
    }
    device.transmit(&mut tx).unwrap();
    assert!(tx.is_empty());
    assert!(read_all(&device, &mut peer) == expected);
    drop((tx, device));
    assert_eq!(pool.live(), Live::NONE);
}

/// Breaks if, without clusters, the stream of frames loses its place: short ones still come, as acknowledgements do,
/// and a long one is dropped and counted.
#[test]
fn without_clusters_short_frames_come() {
    let pool = MbufPool::new(PoolConfig {
        mbufs_max: 1000,
        cluster_bytes_max: 256 << 10,
    })
    .unwrap();
    let (device, mut peer) = pair(&pool);
    let hoard = |size| {
        let pool = &pool;
        std::iter::from_fn(move || Packet::with_cluster(pool, size, 0).ok())
    };
    let held: Vec<_> = hoard(ClusterSize::K2)
        .chain(hoard(ClusterSize::K16))
        .collect();
    let wire: Vec<u8> = [60, 1514, 61, 14]
        .iter()
        .flat_map(|n| on_wire(&pattern(*n)))
        .collect();
    let packets = exchange(&device, &mut peer, &wire);
    let lens: Vec<_> = packets.iter().map(Packet::len).collect();
    assert_eq!(lens, [60, 61, 14]);
    assert_eq!(device.take_drops(), [(DropReason::NoBufs, 1)]);
    drop((held, packets));
    assert_eq!(exchange(&device, &mut peer, &wire).len(), 4);
    drop(device);
    assert_eq!(pool.live(), Live::NONE);
}

/// Breaks if frames that wait for a peer are lost uncounted when it leaves.
#[test]
fn each_frame_for_a_peer_that_has_gone_is_counted() {
    let pool = pool();
    let (device, path) = listening(&pool, "gone");
    let peer = UnixStream::connect(&path).unwrap();
    assert!(received(&device).is_empty());
    let frames = vec![pattern(1514); 100];
    let waiting = || device.tx.lock().waiting() as u64;
    // Until the socket is full, however large its buffer is.
    while waiting() == 0 {
        assert_eq!(transmit(&device, &frames, &pool), 0);
    }
    let waiting = waiting();
    assert!(device.take_drops().is_empty());
    drop(peer);
    assert!(received(&device).is_empty());
    assert_eq!(device.take_drops(), [(DropReason::DeviceError, waiting)]);
    drop(device);
    std::fs::remove_file(path).unwrap();
    assert_eq!(pool.live(), Live::NONE);
}
