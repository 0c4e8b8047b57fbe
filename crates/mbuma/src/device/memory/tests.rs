use super::*;
use mbuf::{Csum, Live, MbufPool, Packet, PoolConfig};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Wake;

const ALL: Budget = Budget {
    frames: usize::MAX,
    bytes: usize::MAX,
};

#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn queue(pool: &MbufPool, count: usize) -> Mbufq {
    let mut tx = Mbufq::new();
    for n in 0..count {
        tx.enqueue(Packet::from_slice(pool, &[n as u8; 100], 0).unwrap());
    }
    tx
}

/// Breaks if packets are lost, reordered, or handed over past the budget.
#[test]
fn order_and_budget() {
    let pool = MbufPool::new(PoolConfig::default()).unwrap();
    let (a, b) = Pipe::pair(Capabilities::plain(1500));
    a.transmit(&mut queue(&pool, 10)).unwrap();
    let budget = |frames, bytes| Budget { frames, bytes };
    let mut rx = Mbufq::new();
    assert!(b.receive(&mut rx, budget(3, usize::MAX)).unwrap());
    assert_eq!(rx.len(), 3);
    assert!(b.receive(&mut rx, budget(9, 150)).unwrap());
    assert_eq!(rx.len(), 5);
    assert!(!b.receive(&mut rx, ALL).unwrap());
    let order: Vec<u8> = rx.map(|p| p.front()[0]).collect();
    assert_eq!(order, (0..10).collect::<Vec<_>>());
    assert_eq!(pool.live(), Live::NONE);
}

/// Breaks if a reader that sleeps is not woken, or woken for each packet.
#[test]
fn wakes_the_reader() {
    let pool = MbufPool::new(PoolConfig::default()).unwrap();
    let (a, b) = Pipe::pair(Capabilities::plain(1500));
    let count = Arc::new(Count::default());
    b.set_waker(Waker::from(Arc::clone(&count)));
    a.transmit(&mut queue(&pool, 2)).unwrap();
    a.transmit(&mut queue(&pool, 2)).unwrap();
    assert_eq!(count.0.load(Ordering::Relaxed), 1);
    b.receive(&mut Mbufq::new(), ALL).unwrap();
    a.transmit(&mut queue(&pool, 1)).unwrap();
    assert_eq!(count.0.load(Ordering::Relaxed), 2);
    drop(a);
    assert_eq!(count.0.load(Ordering::Relaxed), 3, "the other end went");
}

/// Breaks if a full queue grows, or loses packets that it does not take.
#[test]
fn full_queue_leaves_the_rest() {
    let pool = MbufPool::new(PoolConfig::default()).unwrap();
    let (a, b) = Pipe::pair(Capabilities::plain(1500));
    let mut tx = queue(&pool, QUEUE_MAX + 3);
    assert_eq!(a.transmit(&mut tx).unwrap(), 0);
    assert_eq!((tx.len(), b.pending()), (3, QUEUE_MAX));
    drop((a, b, tx));
    assert_eq!(pool.live(), Live::NONE);
}

/// Breaks if packets that one end sent before it went are lost, or its absence goes unnoticed.
#[test]
fn packets_of_a_dropped_end_arrive_and_its_end_is_noticed() {
    let pool = MbufPool::new(PoolConfig::default()).unwrap();
    let (a, b) = Pipe::pair(Capabilities::plain(1500));
    a.transmit(&mut queue(&pool, 1)).unwrap();
    drop(a);
    let mut rx = Mbufq::new();
    b.receive(&mut rx, ALL).unwrap();
    assert_eq!(rx.len(), 1);
    assert!(b.receive(&mut rx, ALL).is_err());
    assert!(b.transmit(&mut queue(&pool, 1)).is_err());
    drop((b, rx));
    assert_eq!(pool.live(), Live::NONE);
}

/// Breaks if a checksum that was left to the device is verified by the other end, and found wrong.
#[test]
fn unfinished_checksums_are_trusted() {
    let pool = MbufPool::new(PoolConfig::default()).unwrap();
    let (a, b) = Pipe::pair(Capabilities::whole(1500));
    let mut tx = queue(&pool, 2);
    let (plain, mut undone) = (tx.dequeue().unwrap(), tx.dequeue().unwrap());
    undone.header_mut().csum = Csum::TCP;
    tx.enqueue(plain);
    tx.enqueue(undone);
    a.transmit(&mut tx).unwrap();
    let mut rx = Mbufq::new();
    b.receive(&mut rx, ALL).unwrap();
    let trusted: Vec<bool> = rx
        .map(|p| p.header().csum.contains(Csum::L4_VALID))
        .collect();
    assert_eq!(trusted, [false, true]);
}
