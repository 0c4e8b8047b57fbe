use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};

use super::{FDS_MAX, pair, recv, send};

/// A file in memory that holds `n`, at its beginning.
fn numbered(n: usize) -> File {
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    writer.write_all(&n.to_le_bytes()).expect("it has room");
    File::from(OwnedFd::from(reader))
}

fn number_in(fd: OwnedFd) -> usize {
    let mut bytes = [0; size_of::<usize>()];
    File::from(fd).read_exact(&mut bytes).expect("a number");
    usize::from_le_bytes(bytes)
}

#[test]
fn many_descriptors_arrive_in_order() {
    // Breaks when a queue of the TAP is lost on its way to mbuma, or two queues are exchanged.
    for count in [0, 1, 2, 3, FDS_MAX] {
        let (a, b) = pair().expect("a pair");
        let files: Vec<_> = (0..count).map(numbered).collect();
        let fds: Vec<_> = files.iter().map(AsFd::as_fd).collect();
        send(a.as_fd(), b"queues", &fds).expect("sent");
        drop(files);
        let mut bytes = [0; 16];
        let (len, fds) = recv(b.as_fd(), &mut bytes).expect("received");
        assert_eq!(&bytes[..len], b"queues");
        assert!(fds.into_iter().map(number_in).eq(0..count), "{count}");
    }
}

#[test]
fn too_many_are_an_error_and_nothing_is_sent() {
    // Breaks when descriptors for which the message has no room are dropped without an error.
    let (a, b) = pair().expect("a pair");
    let fds = vec![a.as_fd(); FDS_MAX + 1];
    let error = send(a.as_fd(), b"x", &fds).expect_err("no room");
    assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
    drop(a);
    assert_eq!(recv(b.as_fd(), &mut [0; 4]).expect("the end").0, 0);
}

/// Runs in a process of its own.
const LIMITED: &str = "MBUMA_TEST_SCM_LIMITED";

#[test]
fn a_descriptor_without_a_number_is_an_error() {
    // Breaks when a process that has no number left takes a message for one that came without its descriptor.
    if std::env::var_os(LIMITED).is_none() {
        let own = std::env::current_exe().expect("the test");
        let name = "sys::scm::tests::a_descriptor_without_a_number_is_an_error";
        let mut limited = std::process::Command::new(own);
        limited.args(["--exact", name]).env(LIMITED, "1");
        let ended = limited.output().expect("it runs");
        assert!(ended.status.success(), "{ended:?}");
        return;
    }
    let (a, b) = pair().expect("a pair");
    let file = numbered(0);
    let used = (0..).map_while(|_| file.try_clone().ok());
    rustix::process::setrlimit(
        rustix::process::Resource::Nofile,
        rustix::process::Rlimit {
            current: Some(64),
            maximum: Some(64),
        },
    )
    .expect("a lower limit");
    let mut used: Vec<File> = used.collect();
    for free in 0..=2 {
        send(a.as_fd(), b"two", &[a.as_fd(); 2]).expect("sent");
        let received = recv(b.as_fd(), &mut [0; 4]);
        match free {
            2 => assert_eq!(received.expect("it has room").1.len(), 2),
            _ => {
                let error = received.expect_err("no number is left");
                assert_eq!(error.raw_os_error(), Some(libc::EMFILE), "{free}");
            }
        }
        used.pop();
    }
}
