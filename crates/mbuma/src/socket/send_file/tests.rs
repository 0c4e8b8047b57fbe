//! The cases of FreeBSD's tests of sendfile (sendfile_test, ssl_sendfile), except those about descriptors.

use std::io::{self, Write};
use std::net::{IpAddr, Shutdown};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};

use mbuf::MemfdPages;
use proptest::prelude::*;
use rustix::fs::{MemfdFlags, SealFlags};

use super::*;
use crate::Stack;
use crate::socket::test_pair::{self, TestPair};

/// The byte at a place of the file.
fn byte(at: usize) -> u8 {
    (at.wrapping_mul(2_654_435_761) >> 13) as u8
}

pub(crate) fn content(range: Range<usize>) -> Vec<u8> {
    range.map(byte).collect()
}

pub(crate) fn memfd(len: usize) -> File {
    let fd = rustix::fs::memfd_create("send-file-test", MemfdFlags::ALLOW_SEALING).unwrap();
    let mut file = File::from(fd);
    file.write_all(&content(0..len)).unwrap();
    file
}

pub(crate) fn sealed(len: usize) -> Arc<SealedFile> {
    let file = memfd(len);
    rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::WRITE).unwrap();
    Arc::new(SealedFile::new(
        MemfdPages::new(OwnedFd::from(file)).unwrap(),
    ))
}

/// A pair with a window that a file does not fit into.
fn pair() -> TestPair {
    over(test_pair::ipv4)
}

fn over(addr: fn(u8) -> IpAddr) -> TestPair {
    TestPair::over(addr, |config| {
        (config.tcp.recv_buffer, config.tcp.recv_buffer_max) = (60_000, 60_000);
    })
}

impl TestPair {
    fn poll(&self) {
        for stack in &self.stacks {
            stack.poll();
        }
    }

    /// All that has come. Timers run: the last bytes of a stream may wait for an acknowledgement that is delayed.
    fn received(&self) -> Vec<u8> {
        self.poll();
        let mut got = Vec::new();
        while let Ok(chain) = self.served.recv_chain(usize::MAX)
            && !chain.is_empty()
        {
            got.extend(chain.to_vec());
        }
        got
    }

    /// Sends all of a job while the peer reads.
    fn pump(&self, job: &mut SendFile) -> Vec<u8> {
        let mut got = Vec::new();
        while !job.is_done() {
            match self.client.send_file(job) {
                Ok(n) => assert!(n > 0, "no progress and no error"),
                Err(e) => assert!(e.is_would_block(), "{e}"),
            }
            got.extend(self.received());
        }
        self.rest(job, &mut got);
        got
    }

    /// The last bytes on their way of a job that is done.
    fn rest(&self, job: &SendFile, got: &mut Vec<u8>) {
        let begin = std::time::Instant::now();
        while (got.len() as u64) < job.accepted() {
            assert!(
                begin.elapsed().as_secs() < 10,
                "{} of {}",
                got.len(),
                job.accepted()
            );
            got.extend(self.received());
        }
    }
}

pub(crate) fn jobs(len: usize, range: Range<u64>) -> [SendFile; 2] {
    [
        SendFile::new(Arc::new(memfd(len)), range.clone()),
        SendFile::sealed(sealed(len), range),
    ]
}

/// Breaks if the length of a range "to the end", with bytes around it, overflows: then nothing would be left to send.
#[test]
fn a_range_without_an_end_leaves_bytes_to_send() {
    for job in jobs(1, 0..u64::MAX) {
        let job = job.with_header("HTTP").with_trailer("0");
        assert_eq!(job.left(), i64::MAX as u64 + 5);
        assert!(!job.is_done());
    }
    for job in jobs(1, u64::MAX..u64::MAX) {
        assert!(job.is_done());
    }
}

/// Breaks if a byte of two MiB is lost, doubled or another one, with header and trailer around them.
#[test]
fn a_file_arrives_between_its_header_and_trailer() {
    const LEN: usize = 2 << 20;
    let versions: [fn(u8) -> IpAddr; 2] = [test_pair::ipv4, test_pair::ipv6];
    let jobs = versions.map(|addr| jobs(LEN, 0..LEN as u64).map(|job| (addr, job)));
    for (addr, job) in jobs.into_iter().flatten() {
        let pair = over(addr);
        let mut job = job.with_header(*b"header").with_trailer(*b"trailer");
        let got = pair.pump(&mut job);
        let expected = [&b"header"[..], &content(0..LEN), b"trailer"].concat();
        assert_eq!(job.accepted(), expected.len() as u64);
        assert!(got == expected);
        assert_eq!(pair.client.send_file(&mut job).unwrap(), 0);
    }
}

/// Breaks if the pages of a sealed memfd are copied on their way to the peer's socket: by address and by count.
#[test]
fn a_sealed_file_is_not_copied() {
    const LEN: usize = 1 << 20;
    let pair = pair();
    let file = sealed(LEN);
    let mapped = file.pages.source().bytes(0).unwrap().as_ptr_range();
    let copied = |stack: &Stack| stack.pool().stats().bytes_copied;
    let before = copied(&pair.stacks[0]);
    let mut job = SendFile::sealed(Arc::clone(&file), 100..LEN as u64);
    let (mut lent, mut got) = (0, 0);
    while got < LEN - 100 {
        _ = pair.client.send_file(&mut job);
        pair.poll();
        while let Ok(chain) = pair.served.recv_chain(usize::MAX) {
            let inside = |s: &&[u8]| mapped.contains(&s.as_ptr());
            lent += chain
                .segments()
                .filter(inside)
                .map(<[u8]>::len)
                .sum::<usize>();
            got += chain.len();
        }
    }
    // A few bytes are copied: into the mbuf of a segment's headers, and where a receiver's buffer would pin much for
    // them.
    assert!(got - lent < LEN / 20, "{lent} of {got}");
    let by_count = copied(&pair.stacks[0]) - before;
    assert!(by_count < LEN as u64 / 100, "{by_count}");
}

/// Breaks if the count of accepted bytes differs from the bytes in the buffer when the buffer is full, or a full buffer
/// counts as progress.
#[test]
fn a_full_buffer_takes_a_part_and_then_nothing() {
    for mut job in jobs(1 << 20, 0..1 << 20) {
        let pair = pair();
        pair.client.set_buffers(100_000, 100_000);
        let n = pair.client.send_file(&mut job).unwrap();
        assert!((50_000..1 << 20).contains(&n), "{n}");
        assert_eq!(job.accepted(), n);
        assert!(
            pair.client
                .send_file(&mut job)
                .unwrap_err()
                .is_would_block()
        );
        assert_eq!(job.accepted(), n);
        let got = pair.pump(&mut job);
        assert!(got == content(0..1 << 20));
    }
}

/// Breaks if an empty range is an error, or sends bytes.
#[test]
fn an_empty_range_sends_its_header_alone() {
    for job in jobs(100, 40..40) {
        let pair = pair();
        let mut job = job.with_header(*b"head");
        assert_eq!(pair.client.send_file(&mut job).unwrap(), 4);
        assert!(job.is_done());
        assert_eq!(pair.received(), b"head");
    }
}

/// Breaks if the stack makes up bytes behind a file's end (CVE-2013-5666), or the peer takes the part for the whole.
#[test]
fn a_range_beyond_the_end_ends_the_connection() {
    for (at, mut job) in (0..2).zip(jobs(400_000, 1_000..900_000)) {
        let pair = pair();
        let mut got = Vec::new();
        let e = loop {
            match pair.client.send_file(&mut job) {
                Err(e) if !e.is_would_block() => break e,
                _ => got.extend(pair.received()),
            }
        };
        assert!(
            matches!(&e, SendFileError::Read(e) if e.kind() == io::ErrorKind::UnexpectedEof),
            "{at}"
        );
        assert_eq!(pair.client.error(), Some(SocketError::Io));
        got.extend(pair.received());
        assert!(got == content(1_000..1_000 + got.len()));
        assert!(job.accepted() >= got.len() as u64);
        assert_eq!(pair.served.recv(&mut [0]), Err(SocketError::Reset));
    }
}

/// Breaks if a program can't answer that the file is gone, although the peer has no byte of it.
#[test]
fn a_file_that_fails_before_its_first_byte_leaves_the_connection_as_it_is() {
    for mut job in jobs(5_000, 1_000..6_000) {
        let pair = pair();
        let e = pair.client.send_file(&mut job).unwrap_err();
        assert!(matches!(&e, SendFileError::Read(_)), "{e}");
        assert_eq!((job.accepted(), pair.client.error()), (0, None));
        pair.client.send(b"500").unwrap();
        assert_eq!(pair.received(), b"500");
    }
}

/// Breaks if one call takes more of a thread's time than it may.
#[test]
fn a_call_moves_no_more_than_it_may() {
    for mut job in jobs(200_000, 0..200_000) {
        let pair = pair();
        job.set_call_max(30_000);
        let mut got = Vec::new();
        while !job.is_done() {
            match pair.client.send_file(&mut job) {
                Ok(moved) => assert!(moved <= 30_000, "{moved}"),
                Err(e) => assert!(e.is_would_block(), "{e}"),
            }
            got.extend(pair.received());
        }
        got.extend(pair.received());
        assert!(got == content(0..200_000));
    }
}

/// Breaks if each call ends in a small segment although the next call goes on: half of all packets carry little then.
/// Or if the last bytes wait.
#[test]
fn calls_that_follow_each_other_send_whole_segments() {
    for mut job in jobs(900_000, 0..900_000) {
        let pair = pair();
        pair.client.set_nodelay(true);
        pair.client.set_buffers(1 << 20, 1 << 20);
        job.set_call_max(10_000);
        pair.client.send_file(&mut job).unwrap();
        let info = pair.client.info();
        // The bytes that came in whole segments are acknowledged already.
        assert_eq!(info.send_queue, 10_000 % info.mss as usize, "{info:?}");
        assert!(info.send_queue > 0, "the case needs a rest");
        let got = pair.pump(&mut job);
        assert!(got == content(0..900_000));
    }
}

/// Breaks if a file that is truncated while its sender waits is padded, or the count is not that of the accepted bytes.
#[test]
fn a_file_that_is_cut_short_ends_the_connection() {
    let pair = pair();
    pair.client.set_buffers(100_000, 100_000);
    let file = Arc::new(memfd(1 << 20));
    let mut job = SendFile::new(Arc::clone(&file), 0..1 << 20);
    let mut got = Vec::new();
    let accepted = pair.client.send_file(&mut job).unwrap();
    file.set_len(300_000).unwrap();
    let e = loop {
        got.extend(pair.received());
        match pair.client.send_file(&mut job) {
            Err(e) if !e.is_would_block() => break e,
            _ => {}
        }
    };
    assert!(matches!(e, SendFileError::Read(_)), "{e}");
    assert!(job.accepted() >= accepted && job.accepted() <= 300_000);
    assert!(got == content(0..got.len()));
    assert_eq!(pair.client.error(), Some(SocketError::Io));
}

/// Breaks if a range that was fixed at the call follows a file that grows.
#[test]
fn a_file_that_grows_is_sent_as_far_as_was_said() {
    let pair = pair();
    pair.client.set_buffers(50_000, 50_000);
    let file = Arc::new(memfd(200_000));
    let mut job = SendFile::new(Arc::clone(&file), 0..200_000);
    pair.client.send_file(&mut job).unwrap();
    file.set_len(400_000).unwrap();
    assert!(pair.pump(&mut job) == content(0..200_000));
}

/// Breaks if an I/O error harms the process, or the header of an unreadable file is sent.
#[test]
fn a_file_that_cannot_be_read_is_an_error() {
    let dir = std::env::temp_dir();
    let unreadable = File::open(dir).unwrap();
    let pair = pair();
    let mut job = SendFile::new(Arc::new(unreadable), 0..10).with_header(*b"head");
    let e = pair.client.send_file(&mut job).unwrap_err();
    assert!(matches!(e, SendFileError::Read(_)), "{e}");
    assert_eq!((job.accepted(), pair.client.error()), (0, None));
    assert_eq!(pair.received(), b"");
}

/// Breaks if bytes that another thread has read are lost, doubled or moved, or the thread that must not wait reads by
/// itself when the file system can't say what is in memory, as that of memfds usually can't.
#[test]
fn a_thread_that_must_not_wait_sends_what_another_has_read() {
    let pair = pair();
    pair.client.set_buffers(90_000, 90_000);
    let job = SendFile::new(Arc::new(memfd(700_000)), 1_000..650_000);
    let mut job = job.with_header(*b"head").with_trailer(*b"tail");
    job.set_resident_only(true);
    let mut got = Vec::new();
    while !job.is_done() {
        match pair.client.send_file(&mut job) {
            Err(SendFileError::NotResident) => job.read_ahead().unwrap(),
            Err(e) => assert!(e.is_would_block(), "{e}"),
            Ok(_) => {}
        }
        got.extend(pair.received());
    }
    pair.rest(&job, &mut got);
    let expected = [&b"head"[..], &content(1_000..650_000), b"tail"].concat();
    assert!(got == expected);
}

/// Breaks if a file that became shorter before another thread reads it is padded, or its rest is sent without an error.
#[test]
fn reading_ahead_finds_a_short_file() {
    let file = Arc::new(memfd(10_000));
    let mut job = SendFile::new(Arc::clone(&file), 4_000..10_000);
    job.read_ahead().unwrap();
    file.set_len(4_000).unwrap();
    let e = job.read_ahead().unwrap_err();
    assert_eq!(e.kind(), io::ErrorKind::UnexpectedEof);
}

/// Breaks if a program that counts the memory of lent pages counts it as free while a peer has not acknowledged it.
#[test]
fn a_guard_goes_with_the_last_page() {
    let pair = pair();
    let guard = Arc::new(());
    let memfd = memfd(30_000);
    rustix::fs::fcntl_add_seals(&memfd, SealFlags::SHRINK | SealFlags::WRITE).unwrap();
    let pages = MemfdPages::new(OwnedFd::from(memfd)).unwrap();
    let file = Arc::new(SealedFile::with_guard(pages, Arc::clone(&guard)));
    let mut job = SendFile::sealed(file, 0..30_000);
    pair.client.send_file(&mut job).unwrap();
    drop(job);
    assert_eq!(
        Arc::strong_count(&guard),
        2,
        "the send buffer has the pages"
    );
    assert!(pair.received() == content(0..30_000));
    let begin = std::time::Instant::now();
    while Arc::strong_count(&guard) > 1 {
        // The acknowledgement is delayed.
        pair.poll();
        assert!(begin.elapsed().as_secs() < 20);
    }
}

/// Breaks if a closed direction takes a file.
#[test]
fn nothing_is_sent_behind_the_end() {
    for mut job in jobs(100, 0..100) {
        let pair = pair();
        pair.client.shutdown(Shutdown::Write);
        let e = pair.client.send_file(&mut job).unwrap_err();
        assert!(
            matches!(e, SendFileError::Socket(SocketError::Closed)),
            "{e}"
        );
        assert_eq!(job.accepted(), 0);
    }
}

/// Breaks if the blocking call gives up early, or sleeps although there is room.
#[test]
fn the_blocking_call_sends_all() {
    let pair = pair();
    pair.client.set_buffers(60_000, 60_000);
    let mut job = SendFile::new(Arc::new(memfd(1 << 20)), 0..1 << 20).with_trailer(*b"end");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut got = Vec::new();
            while !got.ends_with(b"end") || got.len() < (1 << 20) {
                got.extend(
                    pair.served
                        .recv_chain_blocking(usize::MAX, None)
                        .unwrap()
                        .to_vec(),
                );
            }
            got
        });
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                pair.poll();
                std::thread::yield_now();
            }
        });
        let sent = pair.client.send_file_blocking(&mut job, None).unwrap();
        assert_eq!(sent, (1 << 20) + 3);
        assert!(reader.join().unwrap() == [content(0..1 << 20), b"end".to_vec()].concat());
        done.store(true, Ordering::Relaxed);
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn the_stream_equals_the_file(
        (start, len) in (0..70_000_usize, 0..200_000_usize),
        (send, recv) in (3_000..200_000_usize, 3_000..200_000_usize),
        (header, trailer) in (0..5_000_usize, 0..5_000_usize),
        reads in prop::collection::vec(1..60_000_usize, 1..8),
        (by_reference, over_ipv6) in any::<(bool, bool)>(),
    ) {
        // Breaks if any mix of alignment, room and reads loses bytes or counts them twice (opnsense/src#296).
        let pair = over(if over_ipv6 { test_pair::ipv6 } else { test_pair::ipv4 });
        pair.client.set_buffers(send, send);
        pair.served.set_buffers(recv, recv);
        let range = start as u64..(start + len) as u64;
        let job = match by_reference {
            true => SendFile::sealed(sealed(start + len), range),
            false => SendFile::new(Arc::new(memfd(start + len)), range),
        };
        let around = [vec![1; header], vec![2; trailer]];
        let mut job = job.with_header(around[0].clone()).with_trailer(around[1].clone());
        let expected = [&around[0][..], &content(start..start + len), &around[1]].concat();
        let (mut got, mut accepted) = (Vec::new(), 0);
        let begin = std::time::Instant::now();
        for n in reads.iter().cycle() {
            prop_assert!(begin.elapsed().as_secs() < 20, "{} left", job.left());
            if let Ok(n) = pair.client.send_file(&mut job) {
                accepted += n;
            }
            prop_assert_eq!(accepted, job.accepted());
            if let Ok(chain) = pair.served.recv_chain(*n) {
                got.extend(chain.to_vec());
            }
            pair.poll();
            if job.is_done() {
                break;
            }
        }
        pair.rest(&job, &mut got);
        prop_assert!(got == expected);
    }
}
