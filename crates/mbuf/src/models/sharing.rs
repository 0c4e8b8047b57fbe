//! A real cluster that two threads show: only the thread with the last reference writes the storage, which is freed
//! once, and filled with zeros before if a thread has requested that.
//!
//! Locks: none.

use super::*;

const OLD: [u8; 8] = [1; 8];
const NEW: [u8; 8] = [2; 8];

/// Two packets over the same cluster.
fn two(world: &World) -> (Kept<Packet>, Kept<Packet>) {
    let mut one = world.packet(&OLD);
    let part = one.share(0, OLD.len()).expect("few are in use");
    let other = Packet::from_chain(&world.pool, part).expect("its first mbuf serves");
    (one, Kept::new(other))
}

/// One shares once more and drops, the other drops.
fn share_and_drop() {
    let world = World::new(2);
    let (mut one, other) = two(&world);
    beside(
        move || {
            check_bytes(&other, &OLD);
            drop(other);
        },
        || {
            let more = Kept::new(one.share(2, 4).expect("few are in use"));
            drop(one);
            assert_eq!(more.to_vec(), OLD[2..6], "it is still ours");
        },
    );
    world.finish();
}

#[test]
fn a_share_beside_a_drop() {
    // Breaks if a reference to a cluster is lost or counted twice: it is freed too early, or never.
    holds("share beside drop", 6, share_and_drop);
}

#[test]
#[should_panic]
fn finds_a_plain_share() {
    // Breaks if the scenario is blind to a reference that is not counted.
    finds(MbufFault::PlainShare, 6, share_and_drop);
}

#[test]
#[should_panic]
fn finds_a_plain_release() {
    // Breaks if the scenario is blind to a cluster that is never freed.
    finds(MbufFault::PlainRelease, 6, share_and_drop);
}

/// One writes if it is alone, the other reads and drops.
fn write_and_drop() {
    let world = World::new(2);
    let (mut one, other) = two(&world);
    beside(
        move || {
            check_bytes(&other, &OLD);
            drop(other);
        },
        || {
            let shows = match one.write_at(0, &NEW) {
                Ok(()) => NEW,
                Err(_) => OLD,
            };
            check_bytes(&one, &shows);
        },
    );
    assert_eq!(one.write_at(0, &NEW), Ok(()), "it is alone now");
    drop(one);
    world.finish();
}

#[test]
fn a_write_beside_a_drop() {
    // Breaks if a cluster may be written that another thread still reads.
    holds("write beside drop", 6, write_and_drop);
}

#[test]
#[should_panic]
fn finds_two_writers() {
    // Breaks if the scenario does not find a write into bytes that others see.
    finds(MbufFault::TwoWriters, 6, write_and_drop);
}

/// One thread requests zeros and drops, the other drops; the next owner of the cluster checks it.
fn request_and_drop() {
    let world = World::new(1);
    let (mut one, other) = two(&world);
    beside(
        move || {
            check_bytes(&other, &OLD);
            drop(other);
        },
        || {
            assert!(one.zeroize(), "a cluster is ours to wipe");
            drop(one);
        },
    );
    // The only cluster there is.
    let mut next = world.packet(&[]);
    assert!(
        next.first_mut().room_mut().iter().all(|&byte| byte == 0),
        "it was to be wiped"
    );
    drop(next);
    world.finish();
}

#[test]
fn a_request_for_zeros_beside_a_drop() {
    // Breaks if the last thread misses the request.
    holds("request beside drop", 6, request_and_drop);
}

#[test]
#[should_panic]
fn finds_a_plain_request() {
    // Breaks if the scenario is blind to a request for zeros that undoes a drop.
    finds(MbufFault::PlainRequest, 6, request_and_drop);
}
