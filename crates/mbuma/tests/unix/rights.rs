//! The cargo of messages: sockets and objects, boundaries in streams, cycles that can't be received.
//!
//! A cycle that is not found leaves its sockets, buffers and objects for ever; each test counts them.

use std::sync::{Arc, Barrier};
use std::thread;

use crate::common::unix::*;
use mbuma::UnixStream;
use mbuma::unix::{Message, Passed, RIGHTS_MAX, UnixError};

/// Breaks if something arrives with other bytes than it was sent with, twice, or in another order.
#[test]
fn rights_mark_a_boundary() {
    let stack = stack();
    let drops = drops();
    let (left, right) = stack.unix().pair();
    left.send(b"before").unwrap();
    let with = message(&stack, b"with")
        .with(object(&drops))
        .with(object(&drops));
    left.send_with(with).map_err(|(e, _)| e).unwrap();
    left.send(b"behind").unwrap();
    left.send(b"it").unwrap();
    let read = |max| {
        let received = right.recv_with(max).unwrap().expect("no end");
        (received.data.to_vec(), received.rights.len())
    };
    assert_eq!(read(100), (b"before".to_vec(), 0));
    assert_eq!(read(2), (b"wi".to_vec(), 2));
    assert_eq!(count(&drops), 2);
    assert_eq!(read(100), (b"th".to_vec(), 0));
    assert_eq!(read(100), (b"behindit".to_vec(), 0));
    // A receiver that does not ask for them, or goes, drops them.
    give(&stack, &left, object(&drops));
    assert_eq!(right.recv(&mut [0; 8]), Ok(1));
    assert_eq!(count(&drops), 3);
    give(&stack, &left, object(&drops));
    drop(right);
    assert_eq!(count(&drops), 4);
    // A message that can't be sent comes back.
    let refused = left.send_with(message(&stack, b"x").with(object(&drops)));
    let (e, back) = refused.expect_err("the peer has gone");
    assert_eq!(
        (e, back.rights.len(), count(&drops)),
        (UnixError::BrokenPipe, 1, 4)
    );
}

/// Breaks if a limit does not hold.
#[test]
fn the_limits_on_rights_in_flight_hold() {
    let stack = stack_with(|c| c.unix.recv_buffer = 20_000);
    let drops = drops();
    let (left, right) = stack.unix().pair();
    let many = |n| Message {
        rights: (0..n).map(|_| object(&drops).into()).collect(),
        ..message(&stack, b"x")
    };
    let (e, back) = left.send_with(many(RIGHTS_MAX + 1)).expect_err("too many");
    assert_eq!(
        (e, back.rights.len()),
        (UnixError::TooManyRights, RIGHTS_MAX + 1)
    );
    let (e, _) = left
        .send_with(Message::default().with(object(&drops)))
        .expect_err("a stream needs a byte");
    assert_eq!(e, UnixError::NoData);
    // Sockets stay in their stack, whatever the type of the carrier.
    let other = self::stack();
    let (stranger, far) = other.unix().pair();
    let (e, back_2) = left
        .send_with(message(&stack, b"x").with(stranger.clone()))
        .expect_err("it is of another stack");
    assert_eq!((e, back_2.rights.len()), (UnixError::OtherStack, 1));
    let (mail, mail_far) = stack.unix().datagram_pair();
    let (e, _) = mail
        .send_with(message(&stack, b"x").with(stranger), None)
        .expect_err("it is of another stack");
    assert_eq!(e, UnixError::OtherStack);
    drop((mail, mail_far, back_2, far));
    drop(other);
    // Objects count against the buffer: they fill it before bytes do.
    left.send_with(many(RIGHTS_MAX))
        .map_err(|(e, _)| e)
        .unwrap();
    assert_eq!(left.send(b"x"), Err(UnixError::WouldBlock));
    assert_eq!(
        right.recv_with(9).unwrap().unwrap().rights.len(),
        RIGHTS_MAX
    );
    left.send(b"x").unwrap();
}

/// Breaks if a socket changes on its way, or closes while it is under way and can be received.
#[test]
fn every_kind_of_socket_passes() {
    let stack = stack();
    let unix = stack.unix();
    let (left, right) = unix.pair();
    let pair = unix.pair();
    pair.1.send(b"1").unwrap();
    let records = unix.seqpacket_pair();
    let datagram = unix.datagram_bind(b"d").unwrap();
    let listener = unix.listen(b"l", 1).unwrap();
    let records_listener = unix.seqpacket_listen(b"s", 1).unwrap();
    let tcp = stack
        .tcp_listen((std::net::Ipv4Addr::UNSPECIFIED, 80), 1)
        .unwrap();
    let udp = stack
        .udp_bind((std::net::Ipv4Addr::UNSPECIFIED, 53))
        .unwrap();
    let all = message(&stack, b"all")
        .with(pair.0)
        .with(records.0)
        .with(datagram)
        .with(listener)
        .with(records_listener)
        .with(tcp)
        .with(udp);
    left.send_with(all).map_err(|(e, _)| e).unwrap();
    assert_eq!(unix.stats().in_flight, 5);
    // Names stay, and connections wait to be accepted.
    let client = unix.connect(b"l").unwrap();
    unix.datagram().send_to(b"2", b"d").unwrap();
    let received = right.recv_with(3).unwrap().unwrap();
    let [
        Passed::Stream(stream),
        Passed::Seqpacket(packets),
        Passed::Datagram(datagram),
        Passed::Listener(listener),
        Passed::SeqpacketListener(_),
        Passed::TcpListener(_),
        Passed::Udp(_),
    ] = &received.rights[..]
    else {
        panic!("{:?}", received.rights);
    };
    assert_eq!(stream.recv(&mut [0; 8]), Ok(1));
    packets.send(b"3").unwrap();
    assert_eq!(records.1.recv(&mut [0; 8]), Ok(1));
    assert_eq!(datagram.recv(&mut [0; 8]), Ok(1));
    listener.accept().unwrap().send(b"4").unwrap();
    assert_eq!(client.recv(&mut [0; 8]), Ok(1));
}

/// A pair with an object waiting in each side, so that each end is counted.
fn marked(
    stack: &mbuma::Stack,
    drops: &Arc<std::sync::atomic::AtomicUsize>,
) -> (UnixStream, UnixStream) {
    let (left, right) = stack.unix().pair();
    give(stack, &left, object(drops));
    give(stack, &right, object(drops));
    (left, right)
}

/// Breaks if the collector does not find a socket in its own buffer, or collects it while it has a handle.
#[test]
fn a_socket_in_its_own_buffer() {
    let stack = stack();
    let drops = drops();
    let (left, right) = marked(&stack, &drops);
    give(&stack, &left, right.clone());
    // It has a handle: it can be received.
    assert!(matches!(take(&right), Passed::Object(_)));
    let again = take_stream(&right);
    drop(again);
    assert_eq!(stack.unix().stats().collected, 0);
    give(&stack, &left, right);
    assert_eq!(stack.unix().stats().collected, 1);
    assert_eq!(count(&drops), 1);
    // Its peer learns of the end as of any other.
    assert!(matches!(take(&left), Passed::Object(_)));
    assert_eq!(left.recv(&mut [0; 1]), Err(UnixError::Reset));
    drop(left);
    assert_eq!(count(&drops), 2);
    // By a name.
    let itself = stack.unix().datagram_bind(NAME).unwrap();
    let letter = message(&stack, b"me")
        .with(itself.clone())
        .with(object(&drops));
    itself
        .send_with(letter, Some(NAME))
        .map_err(|(e, _)| e)
        .unwrap();
    drop(itself);
    assert_eq!(count(&drops), 3);
    assert_eq!(stack.unix().connect(NAME).err(), Some(UnixError::NotFound));
}

/// Breaks when the graph records that a queue holds a socket, but not how often: the receive of the first copy then
/// removes the socket from the graph, and its last handle closes the copies that still wait.
#[test]
fn a_socket_twice_in_one_queue() {
    let stack = stack();
    let drops = drops();
    let (passed, peer) = marked(&stack, &drops);
    let (left, right) = stack.unix().pair();
    give(&stack, &left, passed.clone());
    give(&stack, &left, passed);
    assert_eq!(stack.unix().stats().in_flight, 1);

    drop(take_stream(&right));
    assert_eq!(stack.unix().stats().in_flight, 1, "a copy still waits");
    assert!(matches!(take(&peer), Passed::Object(_)));
    peer.send(b"open").unwrap();

    let second = take_stream(&right);
    assert_eq!(stack.unix().stats().in_flight, 0);
    assert!(matches!(take(&second), Passed::Object(_)));
    assert_eq!(second.recv(&mut [0; 8]), Ok(4));
    // Both copies in its own queue: one way out each time, and none when the last handle has gone.
    give(&stack, &peer, second.clone());
    give(&stack, &peer, second.clone());
    drop(take_stream(&second));
    assert_eq!(stack.unix().stats().collected, 0);
    drop(second);
    assert_eq!(stack.unix().stats().collected, 1);
    drop((left, right, peer));
    assert_eq!(count(&drops), 2);
}

/// Breaks if a cycle of two or more is not found when its last handle goes, whichever that is.
#[test]
fn a_cycle_of_sockets_in_flight_is_collected() {
    for len in 2..6 {
        for last in 0..len {
            let stack = stack();
            let drops = drops();
            let (far, near): (Vec<_>, Vec<_>) = (0..len).map(|_| marked(&stack, &drops)).unzip();
            // Each waits in the buffer of the next.
            for i in 0..len {
                give(&stack, &far[(i + 1) % len], near[i].clone());
            }
            drop(far);
            let mut near: Vec<_> = near.into_iter().map(Some).collect();
            for i in (0..len).filter(|i| *i != last) {
                near[i] = None;
                assert_eq!(stack.unix().stats().collected, 0, "one has a handle");
            }
            // From the one that is left, all the others can be received.
            let mut hand = near[last].take().unwrap();
            for _ in 0..len {
                assert!(matches!(take(&hand), Passed::Object(_)));
                let next = take_stream(&hand);
                let far = stack.unix().stats();
                assert_eq!(far.collected, 0);
                hand = next;
            }
            drop(hand);
            assert_eq!(count(&drops), 2 * len, "{len} in a row, last {last}");
        }
    }
}

/// Breaks if a cycle is found only after a receive from it.
#[test]
fn cycles_without_a_later_receive() {
    for len in 2..6 {
        let stack = stack();
        let drops = drops();
        let (far, near): (Vec<_>, Vec<_>) = (0..len).map(|_| marked(&stack, &drops)).unzip();
        for i in 0..len {
            give(&stack, &far[(i + 1) % len], near[i].clone());
            // Twice, and across: more than one way to each.
            give(&stack, &far[i], near[(i + 1) % len].clone());
        }
        drop(far);
        drop(near);
        assert_eq!(stack.unix().stats().collected, len as u64);
        assert_eq!(count(&drops), 2 * len);
    }
}

/// Breaks if a socket that only a dead cycle holds stays, or if a cycle that a program can reach is collected.
#[test]
fn what_hangs_together() {
    let stack = stack();
    let drops = drops();
    let (hook, hook_far) = stack.unix().pair();
    let (a, a_far) = marked(&stack, &drops);
    let (b, b_far) = marked(&stack, &drops);
    let (tail, tail_far) = marked(&stack, &drops);
    give(&stack, &a_far, b.clone());
    give(&stack, &b_far, a.clone());
    give(&stack, &a_far, tail);
    // The cycle can be received by `hook`.
    give(&stack, &hook_far, b);
    drop((a, a_far, b_far));
    assert_eq!(stack.unix().stats().collected, 0);
    tail_far.send(b"you are there").unwrap();
    // The hook releases the cycle.
    drop(take(&hook));
    assert_eq!(stack.unix().stats().collected, 2);
    assert_eq!(count(&drops), 5);
    assert_eq!(tail_far.send(b"x"), Err(UnixError::BrokenPipe));
    drop((hook, hook_far, tail_far));
    assert_eq!(count(&drops), 6);
}

/// Breaks if the end of a carrier, instead of a handle's, leaves a cycle behind.
#[test]
fn the_end_of_a_carrier() {
    let stack = stack();
    let drops = drops();
    let (a, a_far) = marked(&stack, &drops);
    let (b, b_far) = marked(&stack, &drops);
    let (carrier, carrier_far) = stack.unix().pair();
    give(&stack, &a_far, b.clone());
    give(&stack, &b_far, a.clone());
    give(&stack, &carrier_far, a);
    give(&stack, &carrier_far, b);
    drop((a_far, b_far));
    assert_eq!(stack.unix().stats().collected, 0);
    drop(carrier);
    assert_eq!(stack.unix().stats().collected, 2);
    assert_eq!(count(&drops), 4);
}

/// Breaks if connections in an accept queue are not part of the graph.
#[test]
fn a_listener_in_its_own_backlog() {
    let stack = stack();
    let listener = stack.unix().listen(NAME, 2).unwrap();
    let client = stack.unix().connect(NAME).unwrap();
    give(&stack, &client, listener.clone());
    // It has a handle: the connection can be accepted, and the listener received from it.
    let server = listener.accept().unwrap();
    drop(listener);
    let Passed::Listener(listener) = take(&server) else {
        panic!("the listener is gone");
    };
    let client_2 = stack.unix().connect(NAME).unwrap();
    give(&stack, &client_2, listener);
    assert_eq!(stack.unix().stats().collected, 2);
    assert_eq!(stack.unix().connect(NAME).err(), Some(UnixError::NotFound));
    assert_eq!(client_2.recv(&mut [0; 1]), Err(UnixError::Reset));
}

/// Breaks if the end of a chain of sockets needs stack for each of them, or time for each pair.
#[test]
fn a_long_row_ends() {
    const LEN: usize = 10_000;
    let stack = stack();
    let drops = drops();
    for closed in [false, true] {
        let (mut hand, first_far) = stack.unix().pair();
        give(&stack, &first_far, object(&drops));
        let mut far = first_far.clone();
        let first = hand.clone();
        for _ in 0..LEN {
            let (next, next_far) = stack.unix().pair();
            give(&stack, &next_far, std::mem::replace(&mut hand, next));
            far = next_far;
        }
        assert_eq!(stack.unix().stats().in_flight, LEN);
        if closed {
            // A ring: the last waits in the first.
            give(&stack, &first_far, hand);
            drop(first);
        } else {
            drop(first);
            drop(hand);
        }
        assert_eq!(stack.unix().stats().in_flight, 0);
        drop((far, first_far));
    }
    assert_eq!(count(&drops), 2);
}

/// Breaks if a row whose links are a program's own objects needs stack for each of them.
#[test]
fn a_long_row_of_objects_ends() {
    let stack = stack();
    let (mut hand, _first_far) = stack.unix().pair();
    for _ in 0..10_000 {
        let (next, far) = stack.unix().pair();
        let link: Box<dyn std::any::Any + Send> = Box::new(hand);
        give(&stack, &far, link);
        hand = next;
    }
}

/// Breaks if no socket of a thread is closed any more once an object has panicked in its drop.
#[test]
fn a_panic_of_an_object_stops_no_later_close() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("on purpose");
        }
    }
    let stack = stack();
    let (left, right) = stack.unix().pair();
    let bomb: Box<dyn std::any::Any + Send> = Box::new(Bomb);
    give(&stack, &left, bomb);
    let closed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(right)));
    assert!(closed.is_err());
    drop(left);
    drop(stack.unix().pair());
}

/// Breaks if a thread that receives, one that sends and one that closes can make a socket end that can be
/// received, or stay that can't.
#[test]
fn threads_race_for_cycles() {
    for round in 0..200 {
        let stack = stack();
        let drops = drops();
        let (a, a_far) = marked(&stack, &drops);
        let (b, b_far) = marked(&stack, &drops);
        give(&stack, &a_far, b.clone());
        give(&stack, &b_far, a.clone());
        let start = Barrier::new(4);
        thread::scope(|s| {
            s.spawn(|| {
                let b = b;
                start.wait();
                drop(b);
            });
            s.spawn(|| {
                let a = a;
                start.wait();
                // `a` has a handle, so `b` can be received, whatever the others do.
                assert!(matches!(take(&a), Passed::Object(_)));
                let b = take_stream(&a);
                assert!(matches!(take(&b), Passed::Object(_)));
                drop(a);
                let a = take_stream(&b);
                a.send(b"open").expect("its far side is open");
                give(&stack, &a, b);
            });
            s.spawn(|| {
                let b_far = b_far;
                start.wait();
                for _ in 0..round % 7 {
                    thread::yield_now();
                }
                drop(b_far);
            });
            start.wait();
            let stats = stack.unix().stats();
            assert!(stats.in_flight <= 2);
        });
        drop(a_far);
        assert_eq!(count(&drops), 4, "round {round}");
    }
}

/// Breaks if many threads that make, pass, receive and drop sockets at once leave one behind.
#[test]
fn a_crowd_leaves_nothing() {
    let stack = stack();
    let drops = drops();
    let threads = 4;
    let hubs: Vec<_> = (0..threads).map(|_| stack.unix().pair()).collect();
    thread::scope(|s| {
        for t in 0..threads {
            let (stack, drops, hubs) = (&stack, &drops, &hubs);
            s.spawn(move || {
                let mut seed = 77 + t as u64;
                let mut random = |n: usize| {
                    seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    (seed >> 33) as usize % n
                };
                let mut mine = vec![marked(stack, drops)];
                for _ in 0..500 {
                    match random(5) {
                        0 => mine.push(marked(stack, drops)),
                        1 => {
                            // Into a hub, or into each other.
                            let what = mine[random(mine.len())].1.clone();
                            let m = message(stack, b"y").with(what);
                            let to = &mine[random(mine.len())].0;
                            let to = if random(2) == 0 {
                                to
                            } else {
                                &hubs[random(threads)].0
                            };
                            let _ = to.send_with(m);
                        }
                        2 => {
                            let _ = hubs[random(threads)].1.recv_with(1);
                        }
                        3 => {
                            let _ = mine[random(mine.len())].1.recv_with(1);
                        }
                        _ if mine.len() > 1 => drop(mine.swap_remove(random(mine.len()))),
                        _ => {}
                    }
                }
            });
        }
    });
}
