use kern::Random;
use mbuf::Chain;

use super::receive::COPIED_LOCKED;
use super::*;
use crate::socket::test_pair::TestPair;

mod waiting;

/// Breaks if bytes are lost, repeated or out of order when small reads, which copy under the lock, alternate with large
/// ones, which move mbufs.
#[test]
fn what_is_read_by_pieces_is_what_was_sent() {
    let pair = TestPair::new();
    let TestPair { client, served, .. } = &pair;
    let sent: Vec<u8> = (0..20_000_u32).map(|n| ((n * 7) >> 3) as u8).collect();
    assert_eq!(client.send(&sent).unwrap(), sent.len());
    let mut got = Vec::new();
    let sizes = [1, 64, COPIED_LOCKED, COPIED_LOCKED + 1, 5_000];
    for size in sizes.into_iter().cycle() {
        let mut buf = vec![0; size];
        match served.recv(&mut buf) {
            Ok(n) => got.extend_from_slice(&buf[..n]),
            Err(e) => {
                assert_eq!(e, SocketError::WouldBlock);
                break;
            }
        }
    }
    assert!(got == sent, "{} bytes came of {}", got.len(), sent.len());
    client.shutdown(std::net::Shutdown::Write);
    assert_eq!(served.recv(&mut [0; 9]), Ok(0));
    assert_eq!(served.recv(&mut []), Ok(0));
}

/// Breaks if data of a later call, or the end of it, waits because an earlier call said that more follows.
#[test]
fn only_the_last_call_says_that_more_follows() {
    let pair = TestPair::new();
    let TestPair { client, served, .. } = &pair;
    let mut buf = [0; 9];
    let chain = || Chain::from_slice(client.pool(), b"ry").unwrap();
    assert_eq!(client.send_more(b"que"), Ok(3));
    assert_eq!(served.recv(&mut buf), Err(SocketError::WouldBlock));
    client.send_chain(chain()).unwrap();
    assert_eq!(served.recv(&mut buf), Ok(5));
    assert_eq!(client.send_more(b"que"), Ok(3));
    assert_eq!(client.send(b"ry"), Ok(2));
    assert_eq!(served.recv(&mut buf), Ok(5));
}

/// Breaks if a buffer that got smaller takes as much as before, or loses bytes in it or announced room, or if a larger
/// one takes no more.
#[test]
fn buffers_shrink_and_grow_with_bytes_inside() {
    let pair = TestPair::new();
    let TestPair { client, served, .. } = &pair;
    let fill = || {
        let mut sent = 0;
        while let Ok(n) = client.send(&[7; 10_000]) {
            sent += n;
        }
        sent
    };
    let drain = || {
        let mut got = 0;
        let mut buf = [0; 5_000];
        while let Ok(n) = served.recv(&mut buf) {
            assert!(n > 0 && buf[..n].iter().all(|&b| b == 7));
            got += n;
        }
        got
    };
    let full = fill();
    assert!(full > 1_500_000, "{full}");
    client.set_buffers(40_000, 40_000);
    served.set_buffers(40_000, 40_000);
    assert_eq!(client.send_space(), 0);
    assert_eq!(fill(), 0);
    assert_eq!(drain(), full);
    let less = fill();
    assert!((70_000..90_000).contains(&less), "{less}");
    assert_eq!(client.send_space(), 0);
    client.set_buffers(1 << 20, 1 << 20);
    assert!(client.send_space() > 900_000);
    let more = fill();
    assert!(more > 900_000, "{more}");
    assert_eq!(drain(), less + more);
}

/// Breaks if a peek takes bytes, shows others than the next read, or goes beyond the received bytes; random sizes
/// against a model.
#[test]
fn what_is_peeked_is_read_next() {
    let pair = TestPair::new();
    let TestPair { client, served, .. } = &pair;
    let seed = 20;
    let mut random = Random::from_seed(seed);
    let mut queued = std::collections::VecDeque::<u8>::new();
    assert_eq!(served.peek(&mut [0; 4]), Err(SocketError::WouldBlock));
    for round in 0..400_u32 {
        let more: Vec<u8> = (0..random.below(3_000))
            .map(|n| (n as u32 ^ round) as u8)
            .collect();
        let n = client.send(&more).unwrap_or(0);
        queued.extend(&more[..n]);
        let mut looked = vec![0; 1 + random.below(4_000) as usize];
        let seen = served.peek(&mut looked).unwrap_or(0);
        let there = served.info().recv_queue;
        assert_eq!(seen, looked.len().min(there), "seed {seed}");
        assert!(queued.iter().take(seen).eq(&looked[..seen]), "seed {seed}");
        let mut read = vec![0; 1 + random.below(4_000) as usize];
        let taken = served.recv(&mut read).unwrap_or(0);
        assert_eq!(taken, read.len().min(there), "seed {seed}");
        assert!(
            queued.drain(..taken).eq(read[..taken].iter().copied()),
            "seed {seed}"
        );
    }
    client.shutdown(Shutdown::Write);
    while served.recv(&mut [0; 4_000]) != Ok(0) {}
    assert_eq!(served.peek(&mut [0; 4]), Ok(0), "the end of file");
}

/// Breaks if a reader that has closed keeps memory, stops the peer, or reads on; or if it also closes the other
/// direction.
#[test]
fn a_reader_that_has_closed_stops_no_writer() {
    let pair = TestPair::new();
    let TestPair { client, served, .. } = &pair;
    client.send(&[1; 5_000]).unwrap();
    assert_eq!(served.info().recv_queue, 5_000);
    served.shutdown(Shutdown::Read);
    assert_eq!(served.info().recv_queue, 0);
    assert_eq!(served.recv(&mut [0; 9]), Ok(0));
    assert_eq!(served.recv_chain(9).unwrap().len(), 0);
    for _ in 0..1_000 {
        assert_eq!(client.send(&[2; 10_000]), Ok(10_000));
        assert_eq!(served.info().recv_queue, 0);
    }
    served.send(b"answer").unwrap();
    assert_eq!(client.recv(&mut [0; 9]), Ok(6));
    assert_eq!(client.info().send_queue, 0, "all of it is acknowledged");
    served.shutdown(Shutdown::Both);
    assert_eq!(client.recv(&mut [0; 9]), Ok(0));
    client.shutdown(Shutdown::Both);
    assert_eq!(client.error(), None);
}

/// Breaks if a read of an empty buffer takes the connection's lock, which the thread that fills the buffer holds.
#[test]
fn an_empty_read_takes_no_lock() {
    let pair = TestPair::new();
    let served = &pair.served;
    let locked = served.pcb.lock_inside();
    let nothing = Err(SocketError::WouldBlock);
    assert_eq!(served.recv(&mut [0; 9]), nothing);
    assert_eq!(served.peek(&mut [0; 9]), nothing);
    assert!(served.recv_chain(9).is_err());
    drop(locked);
    pair.client.send(b"data").unwrap();
    assert!(served.pcb.is_readable());
    assert_eq!(served.recv(&mut [0; 9]), Ok(4));
    assert!(!served.pcb.is_readable());
    served.shutdown(std::net::Shutdown::Read);
    assert_eq!(served.recv(&mut [0; 9]), Ok(0));
}

/// All that has come, until there is no more.
fn received(stream: &TcpStream) -> Vec<u8> {
    let mut got = Vec::new();
    while let Ok(chain) = stream.recv_chain(usize::MAX) {
        if chain.is_empty() {
            break;
        }
        got.extend(chain.to_vec());
    }
    got
}

/// Breaks if bytes behind a claim, or the FIN, are sent before the claim is filled; or if claims must be filled in
/// order.
#[test]
fn what_is_behind_a_claim_waits_for_it() {
    let pair = TestPair::new();
    let TestPair {
        client,
        served,
        stacks,
        ..
    } = &pair;
    let chain = |bytes: &[u8]| Chain::from_slice(stacks[0].pool(), bytes).unwrap();
    client.send(b"before ").unwrap();
    let first = client.claim(6).unwrap();
    client.send(b"between ").unwrap();
    let second = client.claim(7).unwrap();
    client.send(b"end").unwrap();
    client.shutdown(Shutdown::Write);
    assert_eq!(received(served), b"before ");
    second.fill(chain(b"second ")).unwrap();
    assert_eq!(served.recv(&mut [0]), Err(SocketError::WouldBlock));
    first.fill(chain(b"first ")).unwrap();
    assert_eq!(received(served), b"first between second end");
    assert_eq!(served.recv(&mut [0]), Ok(0));
    served.shutdown(Shutdown::Write);
}

/// Breaks if a claim takes no room, so that a program could claim without bound.
#[test]
fn a_claim_takes_room() {
    let pair = TestPair::new();
    pair.client.set_buffers(10_000, 10_000);
    let _claim = pair.client.claim(9_000).unwrap();
    assert_eq!(pair.client.send_space(), 1_000);
    let _over = pair.client.claim(2_000).unwrap();
    assert_eq!(
        pair.client.claim(1).map(|_| ()),
        Err(SocketError::WouldBlock)
    );
}

/// Breaks if a send buffer holds more bytes than sequence numbers can distinguish: its end would be before its begin.
#[test]
fn a_buffer_ends_where_sequence_numbers_do() {
    let pair = TestPair::new();
    let TestPair { client, stacks, .. } = &pair;
    let too_much = SocketError::NoBufs;
    for len in [1 << 30, 3 << 30, u32::MAX] {
        assert_eq!(client.claim(len).map(|_| ()), Err(too_much));
    }
    let pool = stacks[0].pool();
    let mut piece = Chain::from_owner(pool, vec![0; 1 << 20]).unwrap();
    let mut all = Chain::new();
    for _ in 0..1 << 10 {
        all.append(piece.share_all().unwrap());
    }
    let (error, mut all) = client.send_chain(all).unwrap_err();
    assert_eq!((error, all.len()), (too_much, 1 << 30));
    client.set_buffers(usize::MAX, 10_000);
    assert_eq!(client.send_space(), 1 << 30);
    all.truncate((1 << 30) - 1);
    client.send_chain(all).unwrap();
    let _over = client.claim((1 << 30) - 1).unwrap();
    assert!(client.info().send_queue < 1 << 31);
    client.abort();
}

/// Breaks if a peer waits for ever for bytes that can't be provided any more, or gets other bytes in their place.
#[test]
fn a_claim_that_is_dropped_or_filled_wrongly_ends_the_connection() {
    for wrong in [true, false] {
        let pair = TestPair::new();
        let TestPair {
            client,
            served,
            stacks,
            ..
        } = &pair;
        client.send(b"before").unwrap();
        let claim = client.claim(100).unwrap();
        client.send(b"behind").unwrap();
        match wrong {
            true => {
                let short = Chain::from_slice(stacks[0].pool(), &[0; 99]).unwrap();
                assert_eq!(claim.fill(short), Err(SocketError::Io));
            }
            false => drop(claim),
        }
        assert_eq!(client.error(), Some(SocketError::Io));
        assert_eq!(received(served), b"before");
        assert_eq!(served.recv(&mut [0]), Err(SocketError::Reset));
    }
}

/// Breaks if a claim that is filled after the end of its connection harms anything, or keeps memory.
#[test]
fn a_claim_may_outlive_its_connection() {
    let pair = TestPair::new();
    let claim = pair.client.claim(5).unwrap();
    pair.served.abort();
    let late = Chain::from_slice(pair.stacks[0].pool(), b"later").unwrap();
    assert_eq!(claim.fill(late), Err(SocketError::Reset));
}

/// Breaks if a relay of many short connections remembers each until its idle time would have been over.
#[test]
fn a_splice_that_ended_is_not_looked_at() {
    let (one, other) = (TestPair::new(), TestPair::new());
    let options = splice::SpliceOptions {
        idle: Some(Duration::from_secs(300)),
        ..Default::default()
    };
    let splice = splice::splice(&one.served, &other.client, options).unwrap();
    let splices = &other.stacks[0].0.tcp.idle_splices;
    assert!(splices.deadline().is_some());
    splice.stop();
    assert_eq!(splices.deadline(), None);
}
