use super::*;

/// Numbered packets.
#[derive(Debug, Default, PartialEq)]
struct Numbers(Vec<u32>);

impl Items for Numbers {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn take_from(&mut self, other: &mut Self, n: usize) {
        let n = n.min(other.0.len());
        self.0.extend(other.0.drain(..n));
    }
}

fn put(
    work: &Workstream<Numbers>,
    active: &AtomicUsize,
    numbers: std::ops::Range<u32>,
) -> (Put, usize) {
    let mut packets = Numbers(numbers.collect());
    let put = work.put(&mut packets, 4, false, Handler::Cpu, active);
    (put, packets.len())
}

/// Breaks if packets that an owner puts back make a queue longer than it may be (seen with threads), or get behind
/// packets that came meanwhile.
#[test]
fn there_is_room_for_what_is_put_back() {
    let (work, active) = (Workstream::new(), AtomicUsize::new(0));
    assert_eq!(put(&work, &active, 0..3), (Put::Kick, 0));
    let mut taken = work.begin().expect("it is scheduled");
    assert_eq!(
        put(&work, &active, 3..9),
        (Put::Queued, 5),
        "three are in hand"
    );
    assert_eq!(taken.0.remove(0), 0);
    assert_eq!(work.end(1, taken, &active), Left::Some);
    assert_eq!(put(&work, &active, 9..11), (Put::Queued, 1));
    assert_eq!(work.begin(), Some(Numbers(vec![1, 2, 3, 9])));
    assert_eq!(work.next(4, &active), None);
    let (counts, waiting) = work.counts();
    assert_eq!((counts.handled, counts.full, counts.high_water), (5, 6, 4));
    assert!(waiting == 0 && work.is_idle() && work.is_valid());
    assert_eq!(active.load(Ordering::Relaxed), 0);
}

/// Breaks if two threads own a workstream, or an owner that took no packet leaves those put since without a handler.
#[test]
fn an_owner_is_alone_and_leaves_nothing_untold() {
    let (work, active) = (Workstream::new(), AtomicUsize::new(0));
    assert!(work.own(&active) && !work.own(&active));
    assert!(!work.is_idle() && work.is_empty() && work.begin().is_none());
    assert_eq!(put(&work, &active, 0..1), (Put::Queued, 0));
    assert!(!work.is_empty());
    assert_eq!(work.end(0, Numbers::default(), &active), Left::Some);
    assert!(work.is_scheduled() && !work.own(&active));
    let taken = work.begin().expect("it is scheduled");
    assert_eq!(
        work.end(taken.0.len() as u64, Numbers::default(), &active),
        Left::Nothing
    );
    let mut packets = Numbers(vec![7]);
    let put = work.put(&mut packets, 4, true, Handler::Caller, &active);
    assert_eq!(put, Put::Owned);
    assert_eq!(work.next(0, &active), Some(Numbers(vec![7])));
    assert_eq!(work.next(1, &active), None);
    assert_eq!(work.counts().0.moved, 0, "who brought it handled it");
    assert_eq!(active.load(Ordering::Relaxed), 0);
}
