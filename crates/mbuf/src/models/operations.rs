//! Three threads do the operations of protocols at random, on packets that share clusters: copym,
//! split, pullup, append, prepend, trim, request zeros, hand over, free. Each knows the bytes that
//! its packets must show, looks at all of them after each step, and writes where it is alone.
//!
//! Locks: none.

use super::*;
use shuttle::rand::{Rng, thread_rng};
use std::sync::{Arc, Mutex};

const THREADS: usize = 3;
const STEPS: usize = 6;
/// More clusters than the threads can use, so that no operation fails for want of one.
const CLUSTERS: usize = 64;
/// The beginning of a packet: this many bytes in a cluster of 2 KiB, and as many in one of 4 KiB.
const PIECE: usize = 24;

/// A packet and the bytes that it must show.
struct Held {
    packet: Kept<Packet>,
    bytes: Vec<u8>,
}

impl Held {
    /// Over two clusters.
    fn fresh(world: &World, fill: u8) -> Self {
        let bytes: Vec<u8> = (0..2 * PIECE as u8).map(|n| n ^ fill).collect();
        let mut packet = world.packet(&bytes[..PIECE]);
        let mut more =
            Packet::with_cluster(&world.pool, ClusterSize::K4, 0).expect("there is room");
        more.append(&world.pool, &bytes[PIECE..])
            .expect("there is room");
        packet.append_chain(more.into_chain());
        Self { packet, bytes }
    }

    /// A range of it, by reference.
    fn copym(&mut self, world: &World, off: usize, len: usize) -> Self {
        let part = self.packet.share(off, len).expect("there is room");
        Self {
            packet: Kept::new(Packet::before_chain(&world.pool, part).expect("there is room")),
            bytes: self.bytes[off..off + len].to_vec(),
        }
    }

    fn check(&self) {
        check_bytes(&self.packet, &self.bytes);
    }
}

/// Packets on their way between the threads.
type Bag = Arc<Mutex<Vec<Held>>>;

/// One thread's packets.
struct Hands {
    world: World,
    held: Vec<Held>,
    /// A pattern of its own, which it writes.
    mark: u8,
    bag: Bag,
}

/// A number below `end`, or 0.
fn below(end: usize) -> usize {
    thread_rng().gen_range(0..end.max(1))
}

impl Hands {
    fn step(&mut self) {
        if self.held.is_empty() {
            self.held.push(Held::fresh(&self.world, self.mark));
        }
        let at = below(self.held.len());
        match below(11) {
            0 | 1 => self.copym(at),
            2 => self.split(at),
            3 => self.pullup(at),
            4 => self.append(at),
            5 => drop(self.held.swap_remove(at)),
            6 | 7 => self.write(at),
            8 => self.hand_over(at),
            9 => self.trim(at),
            _ => assert!(self.held[at].packet.zeroize(), "clusters are ours"),
        }
        self.held.iter().for_each(Held::check);
    }

    fn copym(&mut self, at: usize) {
        let held = &mut self.held[at];
        let off = below(held.bytes.len());
        let len = below(held.bytes.len() - off + 1);
        let copy = held.copym(&self.world, off, len);
        self.held.push(copy);
    }

    fn split(&mut self, at: usize) {
        let held = &mut self.held[at];
        let cut = below(held.bytes.len() + 1);
        let rest = held.packet.split_off(cut).expect("there is room");
        let packet = Packet::before_chain(&self.world.pool, rest).expect("there is room");
        let bytes = held.bytes.split_off(cut);
        self.held.push(Held {
            packet: Kept::new(packet),
            bytes,
        });
    }

    fn pullup(&mut self, at: usize) {
        let held = &mut self.held[at];
        let n = below(held.bytes.len() + 1);
        let front = held.packet.pullup(n).expect("there is room");
        assert_eq!(front, &held.bytes[..n]);
    }

    /// Bytes of its own, or another packet, to the end of one.
    fn append(&mut self, at: usize) {
        let more = match below(2) {
            0 => [self.mark; 10].to_vec(),
            _ => match self.held.len() {
                1 => return,
                _ => {
                    let other = self.held.swap_remove((at + 1) % self.held.len());
                    let at = at.min(self.held.len() - 1);
                    return self.join(at, other);
                }
            },
        };
        let held = &mut self.held[at];
        held.packet
            .append(&self.world.pool, &more)
            .expect("there is room");
        held.bytes.extend(more);
    }

    fn join(&mut self, at: usize, other: Held) {
        let held = &mut self.held[at];
        let Held { mut packet, bytes } = other;
        // A packet of no mbufs to speak of is left behind.
        let chain = packet.split_off(0).expect("nothing is cut");
        held.packet.append_chain(chain);
        held.bytes.extend(bytes);
    }

    /// Writes if no other reference shows a byte of the range; otherwise changes nothing.
    fn write(&mut self, at: usize) {
        self.mark = self.mark.wrapping_add(THREADS as u8);
        let held = &mut self.held[at];
        let off = below(held.bytes.len());
        let fill = vec![self.mark; below(held.bytes.len() - off + 1)];
        if held.packet.write_at(off, &fill).is_ok() {
            held.bytes[off..off + fill.len()].copy_from_slice(&fill);
        }
    }

    /// Puts one into the bag, and takes one out that may be another's.
    fn hand_over(&mut self, at: usize) {
        let mine = self.held.swap_remove(at);
        let mut bag = self.bag.lock().expect("no panic");
        bag.push(mine);
        let any = below(bag.len());
        self.held.push(bag.swap_remove(any));
    }

    fn trim(&mut self, at: usize) {
        let held = &mut self.held[at];
        let n = below(held.bytes.len() + 1);
        held.packet.trim_front(n);
        held.bytes.drain(..n);
        let room = held.packet.prepend(6).expect("there is room");
        room.fill(self.mark);
        held.bytes.splice(..0, [self.mark; 6]);
    }
}

fn crowd() {
    let world = World::new(CLUSTERS);
    let mut whole = Held::fresh(&world, 0);
    let bag = Bag::default();
    let threads: Vec<_> = (0..THREADS)
        .map(|n| {
            let mut hands = Hands {
                held: vec![whole.copym(&world, 0, 2 * PIECE)],
                world: world.clone(),
                mark: 100 + n as u8,
                bag: bag.clone(),
            };
            thread::spawn(move || {
                run_on(n % 2);
                (0..STEPS).for_each(|_| hands.step());
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("no panic");
    }
    bag.lock().expect("no panic").clear();
    whole.check();
    let alone = whole.packet.write_at(0, &[1; 2 * PIECE]);
    assert_eq!(alone, Ok(()), "no other holder is left");
    drop(whole);
    assert_eq!(world.pool.live(), Live::NONE, "leaked");
}

#[test]
fn three_threads_keep_their_bytes() {
    // Breaks if an operation writes bytes that others show, or loses a reference, or keeps one.
    holds("three threads", 3, crowd);
}

#[test]
#[should_panic]
fn finds_a_plain_share_in_the_crowd() {
    // Breaks if the scenario does not find a reference that is not counted.
    finds(MbufFault::PlainShare, 3, crowd);
}

#[test]
#[should_panic]
fn finds_a_plain_release_in_the_crowd() {
    // Breaks if the scenario does not find a reference that is not given back.
    finds(MbufFault::PlainRelease, 3, crowd);
}

#[test]
#[should_panic]
fn finds_a_plain_request_in_the_crowd() {
    // Breaks if the scenario does not find a request for zeros that undoes another thread's count.
    finds(MbufFault::PlainRequest, 3, crowd);
}

#[test]
#[should_panic]
fn finds_two_writers_in_the_crowd() {
    // Breaks if the scenario does not find a write into bytes that others show.
    finds(MbufFault::TwoWriters, 3, crowd);
}
