//! The queue that is taken whole.

use crate::common::{balanced, sized};
use mbuf::{MbufPool, Mbufq, Packet};

fn numbered(pool: &MbufPool, n: u32) -> Packet {
    let mut packet = Packet::from_slice(pool, &n.to_be_bytes(), 0).expect("the pool is large");
    packet.header_mut().flow = n;
    packet
}

fn filled(pool: &MbufPool, numbers: std::ops::Range<u32>) -> Mbufq {
    let mut queue = Mbufq::new();
    numbers.for_each(|n| queue.enqueue(numbered(pool, n)));
    queue
}

fn numbers(queue: Mbufq) -> Vec<u32> {
    queue.map(|packet| packet.header().flow).collect()
}

#[test]
fn first_in_first_out() {
    // Breaks if a packet is linked anywhere but at the end, also after the queue ran empty.
    balanced(|pool| {
        let mut queue = Mbufq::new();
        assert!(queue.dequeue().is_none());
        for round in 0..3 {
            for n in 0..5 {
                assert_eq!(queue.len(), n);
                queue.enqueue(numbered(pool, 10 * round + n as u32));
            }
            for n in 0..5 {
                let packet = queue.dequeue().expect("five are queued");
                assert_eq!(packet.to_vec(), (10 * round + n).to_be_bytes());
                assert!(packet.is_valid(), "it leads to the rest of the queue");
            }
            assert!(queue.is_empty() && queue.dequeue().is_none());
        }
    });
}

#[test]
fn a_queue_taken_whole_is_whole() {
    // Breaks if a taken packet stays linked to the packets behind it.
    balanced(|pool| {
        let mut queue = filled(pool, 0..5);
        let taken = queue.take_all();
        assert!(queue.is_empty());
        queue.enqueue(numbered(pool, 9));
        assert_eq!(numbers(taken), [0, 1, 2, 3, 4]);
        assert_eq!(numbers(queue.take_all()), [9]);
        assert!(queue.take_all().is_empty());
    });
}

#[test]
fn joined_queues_keep_their_order() {
    // Breaks if either is empty and the tail is lost.
    balanced(|pool| {
        for (a, b) in [(0, 0), (0, 3), (3, 0), (1, 1), (4, 5)] {
            let (mut first, mut second) = (filled(pool, 0..a), filled(pool, a..a + b));
            first.append(&mut second);
            assert_eq!((first.len(), second.len()), ((a + b) as usize, 0));
            first.enqueue(numbered(pool, a + b));
            second.enqueue(numbered(pool, 77));
            assert_eq!(numbers(first), (0..=a + b).collect::<Vec<_>>());
            assert_eq!(numbers(second), [77]);
        }
    });
}

#[test]
fn dropping_a_queue_frees_its_packets() {
    // Breaks if a queue forgets one (the pool would not be empty), or if a long one is freed by
    // recursion (the stack would end).
    balanced(|pool| {
        let mut queue = filled(pool, 0..sized(50_000, 50) as u32);
        queue.dequeue();
        drop(queue);
    });
}

#[test]
#[cfg(not(miri))]
fn taking_and_joining_do_not_walk() {
    use std::time::{Duration, Instant};
    // Breaks if taking or joining visits the packets: 10,000 of them 100,000 times take minutes.
    balanced(|pool| {
        let mut queue = filled(pool, 0..10_000);
        let mut other = Mbufq::new();
        let time = || {
            let start = Instant::now();
            for _ in 0..10_000 {
                other.append(&mut queue.take_all());
                queue = other.take_all();
            }
            start.elapsed()
        };
        // Other programs on the CPU make some of them longer, and not all.
        let best = std::iter::repeat_with(time).take(10).min().unwrap();
        assert!(best < Duration::from_millis(200), "{best:?}");
        assert_eq!(numbers(queue), (0..10_000).collect::<Vec<_>>());
    });
}
