//! Files over TLS.

use std::fs::File;
use std::os::fd::OwnedFd;

use mbuf::MemfdPages;
use mbuma::socket::{SealedFile, SendFile, SendFileError};
use rustix::fs::{MemfdFlags, SealFlags};

use super::*;

fn memfd(content: &[u8]) -> File {
    let fd = rustix::fs::memfd_create("tls-test", MemfdFlags::ALLOW_SEALING).expect("a memfd");
    let mut file = File::from(fd);
    file.write_all(content).expect("memory");
    file
}

fn sealed(content: &[u8]) -> Arc<SealedFile> {
    let file = memfd(content);
    rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::WRITE).expect("seals");
    let pages = MemfdPages::new(OwnedFd::from(file)).expect("a mapping");
    Arc::new(SealedFile::new(pages))
}

fn pump(wire: &Wire, from: &TlsStream, to: &TlsStream, job: &mut SendFile) -> Vec<u8> {
    let mut got = Vec::new();
    until(wire, || {
        match from.send_file(job) {
            Ok(_) => {}
            Err(e) => assert!(e.is_would_block(), "{e}"),
        }
        if let Ok(data) = to.recv_chain(usize::MAX) {
            got.extend(data.to_vec());
        }
        job.is_done() && got.len() as u64 == job.accepted()
    });
    got
}

#[test]
fn files_of_any_alignment_arrive_between_header_and_trailer() {
    // Breaks if a record's cut loses or doubles bytes of a file, for both kinds of sources.
    let content = pattern(1 << 20);
    for (start, len) in [
        (0, 1 << 20),
        (1, 100_000),
        (4095, 16_362),
        (5000, 1),
        (123, 40_001),
    ] {
        for by_reference in [true, false] {
            let mut wire = Wire::new();
            let (client, server) = ours(&mut wire, client_config(&[]), server_config());
            let range = start as u64..(start + len) as u64;
            let job = match by_reference {
                true => SendFile::sealed(sealed(&content), range),
                false => SendFile::new(Arc::new(memfd(&content)), range),
            };
            let mut job = job.with_header(*b"header").with_trailer(*b"trailer");
            let got = pump(&wire, &server, &client, &mut job);
            let expected = [&b"header"[..], &content[start..start + len], b"trailer"].concat();
            assert!(got == expected, "{start} {len} {by_reference}");
        }
    }
}

#[test]
fn a_sealed_file_stays_as_it_is() {
    // Breaks if a record is encrypted where its file lies: the next reader would get ciphertext (Tempesta #1217).
    let content = pattern(200_000);
    let file = sealed(&content);
    for _ in 0..2 {
        let mut wire = Wire::new();
        let (client, server) = ours(&mut wire, client_config(&[]), server_config());
        let mut job = SendFile::sealed(Arc::clone(&file), 0..200_000);
        assert!(pump(&wire, &server, &client, &mut job) == content);
    }
}

#[test]
fn a_short_file_ends_the_connection_and_not_the_stream() {
    // Breaks if a client takes a part for the whole file: there must be no close_notify.
    let mut wire = Wire::new();
    let (client, server) = ours(&mut wire, client_config(&[]), server_config());
    let file = Arc::new(memfd(&pattern(100_000)));
    let mut job = SendFile::new(Arc::clone(&file), 0..100_000);
    job.set_call_max(50_000);
    server.send_file(&mut job).expect("room");
    file.set_len(60_000).expect("our file");
    let failed = server.send_file(&mut job);
    assert!(matches!(failed, Err(SendFileError::Read(_))), "{failed:?}");
    assert_eq!(server.error(), Some(SocketError::Io));
    let mut ended = None;
    until(&wire, || {
        ended = client.recv_chain(usize::MAX).err();
        ended.is_some_and(|e| !e.is_would_block())
    });
    assert_eq!(ended, Some(TlsError::Socket(SocketError::Reset)));
}

/// Sends until the buffer is full; returns how many bytes the calls said.
fn fill(from: &TlsStream, job: &mut SendFile) -> u64 {
    let mut said = 0;
    loop {
        match from.send_file(job) {
            Ok(n) => {
                assert!(n > 0 || job.is_done(), "no progress and no error");
                said += n;
            }
            Err(e) => {
                assert!(e.is_would_block(), "{e}");
                return said;
            }
        }
        if job.is_done() {
            return said;
        }
    }
}

#[test]
fn random_ranges_arrive_through_a_full_buffer() {
    // Breaks if a range of any place and length loses or doubles bytes where a record or the buffer ends (FreeBSD's
    // ssl_sendfile: basic, random, eagain_vs_eof; opnsense/src#296).
    let content = pattern(2 << 20);
    let mut random = Random::from_seed(20);
    for n in 0..10 {
        let start = random.below(content.len() as u64);
        let len = match n {
            0 => content.len() as u64 - start,
            _ => random.below(content.len() as u64 - start),
        };
        let mut wire = Wire::with_window(60_000);
        let (client, server) = ours(&mut wire, client_config(&[]), server_config());
        server.set_buffers(50_000, 50_000);
        let range = start..start + len;
        let mut job = match n % 2 {
            0 => SendFile::sealed(sealed(&content), range),
            _ => SendFile::new(Arc::new(memfd(&content)), range),
        };
        // The peer reads nothing meanwhile: a part, and then nothing, each counted once.
        let said = fill(&server, &mut job);
        assert_eq!(said, job.accepted());
        assert!(said <= 200_000, "the buffers have less room than {said}");
        let more = server.send_file(&mut job);
        assert!(job.is_done() || more.is_err_and(|e| e.is_would_block()));
        assert_eq!(said, job.accepted());
        let got = pump(&wire, &server, &client, &mut job);
        assert!(
            got == content[start as usize..(start + len) as usize],
            "{start} {len}"
        );
        // A job that is done sends no byte more.
        assert_eq!(server.send_file(&mut job).expect("nothing"), 0);
    }
}

#[test]
fn a_file_that_changes_its_length_under_a_full_buffer_is_not_padded() {
    // Breaks if a file that grows gives more than its range, or one that shrinks while its sender waits gives bytes
    // that it does not have (FreeBSD's ssl_sendfile: grow, truncate, offset_beyond_eof).
    let content = pattern(1 << 20);
    for to in [2 << 20, 400_000, 0] {
        let mut wire = Wire::with_window(60_000);
        let (client, server) = ours(&mut wire, client_config(&[]), server_config());
        server.set_buffers(50_000, 50_000);
        let file = Arc::new(memfd(&content));
        let mut job = SendFile::new(Arc::clone(&file), 0..1 << 20);
        let said = fill(&server, &mut job);
        assert!((1..400_000).contains(&said), "{said}");
        file.set_len(to).expect("our file");
        if to > 1 << 20 {
            assert!(pump(&wire, &server, &client, &mut job) == content);
        } else {
            let mut got = Vec::new();
            let failed = loop {
                match server.send_file(&mut job) {
                    Err(e) if !e.is_would_block() => break e,
                    _ => {}
                }
                if let Ok(data) = client.recv_chain(usize::MAX) {
                    got.extend(data.to_vec());
                }
                wire.poll();
            };
            assert!(matches!(failed, SendFileError::Read(_)), "{failed}");
            assert!(job.accepted() <= to.max(said), "{} of {to}", job.accepted());
            assert!(got == content[..got.len()]);
        }
    }
}

/// Whether a task was woken.
#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn room_wakes_a_task_that_sends_a_file() {
    // Breaks if a task that waits for room in the buffer sleeps on although there is some, or wakes up for each byte
    // that it does not get room for.
    let content = pattern(1 << 20);
    let mut wire = Wire::with_window(60_000);
    let (client, server) = ours(&mut wire, client_config(&[]), server_config());
    server.set_buffers(50_000, 50_000);
    let mut job = SendFile::sealed(sealed(&content), 0..1 << 20);
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&woken));
    let mut cx = Context::from_waker(&waker);
    let (mut got, mut sleeps) = (Vec::new(), 0);
    until(&wire, || {
        while !job.is_done() {
            match server.poll_send_file(&mut cx, &mut job) {
                Poll::Ready(sent) => assert!(sent.expect("a whole file") > 0),
                Poll::Pending => break,
            }
        }
        sleeps += usize::from(!job.is_done());
        let asleep = Instant::now();
        while !job.is_done() && !woken.0.swap(false, Ordering::SeqCst) {
            wire.poll();
            if let Ok(data) = client.recv_chain(10_000) {
                got.extend(data.to_vec());
            }
            assert!(
                asleep.elapsed() < Duration::from_secs(20),
                "{} are left",
                job.left()
            );
        }
        if let Ok(data) = client.recv_chain(usize::MAX) {
            got.extend(data.to_vec());
        }
        got.len() == content.len()
    });
    assert!(got == content && sleeps > 3, "{sleeps}");
}
