//! The rules of sending files, on streams of UNIX-domain sockets.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Wake, Waker};

use kern::{MonotonicClock, Random};
use mbuf::Live;

use super::*;
use crate::socket::SendFile;
use crate::socket::send_file::tests::{content, jobs, memfd, sealed};
use crate::{Config, Stack};

fn stack() -> Stack {
    let clock = Arc::new(MonotonicClock::new());
    Stack::new(Config::new(clock, Random::from_seed(1))).unwrap()
}

fn received(from: &UnixStream, max: usize) -> Vec<u8> {
    match from.recv_chain(max) {
        Ok(chain) => chain.to_vec(),
        Err(e) => {
            assert_eq!(e, UnixError::WouldBlock);
            Vec::new()
        }
    }
}

/// Breaks if a byte is lost, doubled or another one, with reads of any size, or a full buffer is progress.
#[test]
fn a_file_arrives_between_its_header_and_trailer() {
    const LEN: usize = (2 << 20) + 77;
    let stack = stack();
    for max in [1000, 70_000, usize::MAX] {
        for job in jobs(LEN, 77..LEN as u64) {
            let (ours, theirs) = stack.unix().pair();
            let mut job = job.with_header(*b"header").with_trailer(*b"trailer");
            let (mut got, mut accepted) = (Vec::new(), 0);
            while !job.is_done() {
                match ours.send_file(&mut job) {
                    Ok(n) => accepted += n,
                    Err(e) => assert!(e.is_would_block(), "{e}"),
                }
                assert_eq!(accepted, job.accepted());
                got.extend(received(&theirs, max));
            }
            drop(ours);
            while let Ok(chain) = theirs.recv_chain(max)
                && !chain.is_empty()
            {
                got.extend(chain.to_vec());
            }
            assert!(got == [&b"header"[..], &content(77..LEN), b"trailer"].concat());
        }
    }
    assert_eq!(stack.pool().live(), Live::NONE);
}

/// Breaks if the pages of a sealed file are copied on their way to the peer: by address and by count.
#[test]
fn a_sealed_file_is_not_copied() {
    const LEN: usize = 1 << 20;
    let stack = stack();
    let (ours, theirs) = stack.unix().pair();
    let before = stack.pool().stats().bytes_copied;
    let file = sealed(LEN);
    let mut job = SendFile::sealed(Arc::clone(&file), 0..LEN as u64);
    let (mut got, mut next) = (0, None);
    while got < LEN {
        _ = ours.send_file(&mut job);
        while let Ok(chain) = theirs.recv_chain(usize::MAX) {
            got += chain.len();
            for segment in chain.segments() {
                let range = segment.as_ptr_range();
                // One mapping: each segment begins where the one before it ended.
                assert!(next.is_none_or(|end| end == range.start));
                next = Some(range.end);
            }
        }
    }
    assert_eq!(stack.pool().stats().bytes_copied, before);
    drop((file, job, ours, theirs));
    assert_eq!(stack.pool().live(), Live::NONE);
}

/// Breaks if a file that is cut short while its sender waits is padded, or ends like a whole one.
#[test]
fn a_file_that_is_cut_short_is_an_error_at_the_peer() {
    let stack = stack();
    let (ours, theirs) = stack.unix().pair();
    let file = Arc::new(memfd(4 << 20));
    let mut job = SendFile::new(Arc::clone(&file), 0..4 << 20);
    ours.send_file(&mut job).unwrap();
    file.set_len(1 << 20).unwrap();
    let mut got = Vec::new();
    let e = loop {
        got.extend(received(&theirs, usize::MAX));
        match ours.send_file(&mut job) {
            Err(e) if !e.is_would_block() => break e,
            _ => {}
        }
    };
    assert!(matches!(e, SendFileError::Read(_)), "{e}");
    let last = loop {
        match theirs.recv_chain(usize::MAX) {
            Ok(chain) => got.extend(chain.to_vec()),
            Err(e) => break e,
        }
    };
    assert_eq!(last, UnixError::Reset);
    assert_eq!(got.len() as u64, job.accepted());
    assert!(got == content(0..got.len()));
    assert_eq!(ours.send(b"more"), Err(UnixError::BrokenPipe));
    drop((job, ours, theirs));
    assert_eq!(stack.pool().live(), Live::NONE);
}

/// Breaks if a task that waits for room is not woken when there is, or a sender is not told that the peer has gone.
#[test]
fn room_wakes_the_sender_and_a_gone_peer_is_an_error() {
    #[derive(Default)]
    struct Calls(AtomicUsize);
    impl Wake for Calls {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }
    let stack = stack();
    let (ours, theirs) = stack.unix().pair();
    let calls = Arc::new(Calls::default());
    let waker = Waker::from(Arc::clone(&calls));
    let mut cx = Context::from_waker(&waker);
    let [mut job, _] = jobs(8 << 20, 0..8 << 20);
    while ours.poll_send_file(&mut cx, &mut job).is_ready() {}
    assert_eq!(calls.0.load(Relaxed), 0);
    while !received(&theirs, usize::MAX).is_empty() {}
    assert_eq!(calls.0.load(Relaxed), 1);
    assert!(ours.poll_send_file(&mut cx, &mut job).is_ready());
    drop(theirs);
    let e = ours.send_file(&mut job).unwrap_err();
    assert!(
        matches!(e, SendFileError::Socket(SocketError::Reset)),
        "{e}"
    );
    drop(ours);
    assert_eq!(stack.pool().live(), Live::NONE);
}
