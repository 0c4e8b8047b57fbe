//! Pages of files and of sealed memfds, whose ends may move. Miri knows neither.
#![cfg(not(miri))]

use crate::common::{balanced, pattern};
use crate::pages::check_mixed;
use mbuf::{Chain, FilePages, MapError, MemfdPages, PAGE_SIZE, PageSource, Pages};
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// A memfd with these bytes and seals.
fn memfd(bytes: &[u8], seals: libc::c_int) -> File {
    // SAFETY: the name is a C string; nothing else is given.
    let fd = unsafe { libc::memfd_create(c"mbuf-test".as_ptr(), libc::MFD_ALLOW_SEALING) };
    assert!(fd >= 0, "{}", io::Error::last_os_error());
    // SAFETY: a new descriptor, which is ours.
    let mut file = unsafe { File::from_raw_fd(fd) };
    file.write_all(bytes).expect("memory");
    // SAFETY: takes a descriptor and no memory.
    let sealed = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) };
    assert_eq!(sealed, 0, "{}", io::Error::last_os_error());
    file
}

fn sealed(bytes: &[u8]) -> OwnedFd {
    memfd(bytes, libc::F_SEAL_SHRINK | libc::F_SEAL_WRITE).into()
}

#[test]
fn a_file_is_read_page_by_page() {
    // Breaks if a page's place in the file is wrong, or if more is read than is shown.
    balanced(|pool| {
        let bytes = pattern(3, 9 * PAGE_SIZE + 77);
        let pages = Pages::new(FilePages::new(memfd(&bytes, 0)));
        for (off, len) in [
            (0, bytes.len()),
            (4095, 2),
            (5000, 30_000),
            (bytes.len() - 1, 1),
        ] {
            let made = Chain::from_pages(pool, &pages, off as u64, len);
            let mut chain = made.expect("the pool is large");
            check_mixed(pool, &mut chain, &bytes[off..off + len]);
        }
        assert_eq!(pool.stats().pages_mapped, 0, "a file is never mapped");
        let failed = pages.source().read(u64::MAX / 2, 0, &mut [0]);
        assert_eq!(failed.map_err(|e| e.kind()), Err(ErrorKind::InvalidInput));
    });
}

#[test]
fn a_file_cut_short_is_an_error_and_no_signal() {
    // Breaks if a page is shown from a mapping of the file: looking at it would end the program.
    balanced(|pool| {
        let file = memfd(&pattern(3, 4 * PAGE_SIZE), 0);
        let copy = file.try_clone().expect("descriptors");
        let pages = Pages::new(FilePages::new(copy));
        let mut chain = Chain::from_pages(pool, &pages, 100, 3 * PAGE_SIZE).expect("it is large");
        chain.map(pool).expect("it is all there");
        let live = pool.live();
        file.set_len(2 * PAGE_SIZE as u64)
            .expect("a file can be cut");
        let error = chain.map(pool).expect_err("it is not all there");
        let MapError::Read(error) = error else {
            panic!("{error}")
        };
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
        assert!(error.to_string().contains("truncated"), "{error}");
        assert!(chain.copy_to(2 * PAGE_SIZE, &mut [0; 10]).is_err());
        assert_eq!(pool.live(), live);
        chain.truncate(2 * PAGE_SIZE - 100);
        let left = &pattern(3, 2 * PAGE_SIZE)[100..];
        check_mixed(pool, &mut chain, left);
    });
}

#[test]
fn a_sealed_memfd_is_shown_where_it_is() {
    // Breaks if its bytes are copied, or seen behind its end or after its mapping is gone.
    balanced(|pool| {
        let bytes = pattern(3, 9 * PAGE_SIZE + 77);
        let pages = MemfdPages::new(sealed(&bytes)).expect("it is sealed");
        assert_eq!((pages.len(), pages.is_empty()), (bytes.len(), false));
        assert_eq!(pages.bytes(9).map(<[u8]>::len), Some(77));
        assert!(pages.bytes(10).is_none() && pages.bytes(u64::MAX).is_none());
        let past = pages.read(9, 70, &mut [0; 8]).expect_err("seven are left");
        assert_eq!(past.kind(), ErrorKind::UnexpectedEof);
        let pages = Pages::new(pages);
        let mut chain = Chain::from_pages(pool, &pages, 5, bytes.len() - 5).expect("it is large");
        drop(pages);
        check_mixed(pool, &mut chain, &bytes[5..]);
        let seen = chain.map(pool).expect("it is large");
        drop(chain);
        assert!(seen.to_vec() == bytes[5..]);
        let stats = pool.stats();
        assert_eq!((stats.pages_read, stats.bytes_copied), (0, 0));
    });
}

#[test]
fn only_a_sealed_memfd_is_mapped() {
    // Breaks if bytes are shown as unchanging that another process can still write or cut off.
    let refused = |fd: OwnedFd| MemfdPages::new(fd).map(drop).map_err(|e| e.kind());
    for seals in [
        0,
        libc::F_SEAL_SHRINK,
        libc::F_SEAL_WRITE,
        libc::F_SEAL_GROW,
    ] {
        let fd = memfd(&[1; 10], seals).into();
        assert_eq!(refused(fd), Err(ErrorKind::InvalidInput));
    }
    let (mut pipe, other) = io::pipe().expect("descriptors");
    assert_eq!(refused(other.into()), Err(ErrorKind::InvalidInput));
    assert_eq!(pipe.read(&mut [0]).expect("its other end is closed"), 0);
    let empty = MemfdPages::new(sealed(&[])).expect("it is sealed");
    assert!(empty.is_empty() && empty.bytes(0).is_none());
}
