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
            drop((client, server, job));
            wire.done();
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
        drop((client, server, job));
        wire.done();
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
    assert_eq!(server.connection().error(), Some(SocketError::Io));
    let mut ended = None;
    until(&wire, || {
        ended = client.recv_chain(usize::MAX).err();
        ended.is_some_and(|e| !e.is_would_block())
    });
    assert_eq!(ended, Some(TlsError::Socket(SocketError::Reset)));
    drop((client, server));
    wire.done();
}
