//! UNIX-domain sockets used by threads that sleep and wake each other: nothing is lost, no thread hangs.
//!
//! Each wait has a limit that only a lost wakeup reaches.

use std::net::Shutdown;
use std::thread;

use crate::common::unix::*;
use mbuf::Chain;

/// FNV-1a, over bytes in order.
fn sum(mut hash: u64, bytes: &[u8]) -> u64 {
    for &b in bytes {
        hash = (hash ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3);
    }
    hash
}

/// Breaks if a wakeup is lost between a sender that fills and a receiver that empties, or a byte is.
#[test]
fn a_stream_through_a_narrow_buffer() {
    for (written, read, hiwat) in [(1, 4096, 300), (777, 13, 2000), (100_000, 4096, 9000)] {
        let stack = stack_with(|c| c.unix.recv_buffer = hiwat);
        let (left, right) = stack.unix().pair();
        let data = pattern(if written == 1 { 20_000 } else { 1 << 20 });
        let expected = sum(0, &data);
        let received = thread::scope(|s| {
            s.spawn(|| {
                for piece in data.chunks(written) {
                    assert_eq!(left.send_blocking(piece, HUNG), Ok(piece.len()));
                }
                left.shutdown(Shutdown::Write);
            });
            let (mut hash, mut buf) = (0, vec![0; read]);
            loop {
                match right.recv_blocking(&mut buf, HUNG) {
                    Ok(0) => return hash,
                    Ok(n) => hash = sum(hash, &buf[..n]),
                    Err(e) => panic!("{e}"),
                }
            }
        });
        assert_eq!(received, expected);
    }
}

/// Breaks if both directions at once disturb each other, or if chains move wrongly between threads.
#[test]
fn both_directions_by_reference() {
    let stack = stack();
    let (left, right) = stack.unix().pair();
    let data = pattern(50_000);
    let run = |own: &mbuma::UnixStream, first: bool| {
        let mut all = Chain::new();
        for _ in 0..200 {
            if first {
                let data = chain(&stack, &data);
                own.send_chain_blocking(data, HUNG)
                    .map_err(|(e, _)| e)
                    .unwrap();
            }
            while all.len() < data.len() {
                all.append(own.recv_chain_blocking(usize::MAX, HUNG).unwrap());
            }
            let message = all.take_front(data.len()).unwrap();
            assert!(message.to_vec() == data);
            if !first {
                own.send_chain_blocking(message, HUNG)
                    .map_err(|(e, _)| e)
                    .unwrap();
            }
        }
    };
    thread::scope(|s| {
        s.spawn(|| run(&right, false));
        run(&left, true);
    });
}

/// Breaks if several threads that sleep on one socket are not all served, or a record is received twice.
#[test]
fn many_on_one_socket() {
    let stack = stack_with(|c| c.unix.recv_buffer = 3000);
    let (left, right) = stack.unix().seqpacket_pair();
    let (senders, each) = (3_u64, 2000_u64);
    let total = thread::scope(|s| {
        let readers: Vec<_> = (0..3)
            .map(|_| {
                s.spawn(|| {
                    let mut sum = 0;
                    while let Some(r) = right.recv_with_blocking(8, HUNG).unwrap() {
                        let mut bytes = [0; 8];
                        assert!(r.data.copy_to(0, &mut bytes));
                        sum += u64::from_be_bytes(bytes);
                    }
                    sum
                })
            })
            .collect();
        let writers: Vec<_> = (0..senders)
            .map(|n| {
                let left = &left;
                s.spawn(move || {
                    for i in 0..each {
                        left.send_blocking(&(n * each + i).to_be_bytes(), HUNG)
                            .unwrap();
                    }
                })
            })
            .collect();
        writers.into_iter().for_each(|w| w.join().unwrap());
        left.shutdown(Shutdown::Write);
        readers.into_iter().map(|r| r.join().unwrap()).sum::<u64>()
    });
    assert_eq!(total, (0..senders * each).sum::<u64>());
}

/// Breaks if datagrams of many to one are lost or overtake each other.
#[test]
fn many_to_one() {
    let stack = stack_with(|c| c.unix.recv_buffer = 3000);
    let sink = stack.unix().datagram_bind(NAME).unwrap();
    let each = 1000_u32;
    thread::scope(|s| {
        for n in 0..3_u32 {
            let stack = &stack;
            s.spawn(move || {
                let own = stack.unix().datagram();
                for i in 0..each {
                    let mut bytes = [n as u8; 5];
                    bytes[1..].copy_from_slice(&i.to_be_bytes());
                    own.send_to_blocking(&bytes, NAME, HUNG).unwrap();
                }
            });
        }
        let mut next = [0; 3];
        for _ in 0..3 * each {
            let mut bytes = [0; 5];
            assert_eq!(sink.recv_blocking(&mut bytes, HUNG), Ok(5));
            let [n, i @ ..] = bytes;
            assert_eq!(u32::from_be_bytes(i), next[usize::from(n)]);
            next[usize::from(n)] += 1;
        }
    });
}

/// Breaks if a connection is lost, or a thread hangs, when many connect and several accept.
#[test]
fn a_busy_listener() {
    let stack = stack();
    let listener = stack.unix().listen(NAME, 2).unwrap();
    let (clients, each) = (3, 300);
    thread::scope(|s| {
        for _ in 0..clients {
            s.spawn(|| {
                for _ in 0..each {
                    let client = stack.unix().connect_blocking(NAME, HUNG).unwrap();
                    client.send(b"ping").unwrap();
                    let mut buf = [0; 8];
                    assert_eq!(client.recv_blocking(&mut buf, HUNG), Ok(4));
                }
            });
        }
        for share in [clients * each / 2, clients * each - clients * each / 2] {
            let listener = &listener;
            s.spawn(move || {
                for _ in 0..share {
                    let server = listener.accept_blocking(HUNG).unwrap();
                    let mut buf = [0; 8];
                    let n = server.recv_blocking(&mut buf, HUNG).unwrap();
                    server.send_blocking(&buf[..n], HUNG).unwrap();
                }
            });
        }
    });
}

/// Breaks if a sleeping thread does not learn of the end.
#[test]
fn an_end_wakes_sleepers() {
    for _ in 0..50 {
        let stack = stack_with(|c| c.unix.recv_buffer = 1000);
        let (left, right) = stack.unix().pair();
        thread::scope(|s| {
            s.spawn(|| while left.send_blocking(&pattern(500), HUNG).is_ok() {});
            s.spawn(|| assert_eq!(left.recv_blocking(&mut [0; 1], HUNG), Ok(0)));
            thread::yield_now();
            right.shutdown(Shutdown::Both);
        });
    }
}
