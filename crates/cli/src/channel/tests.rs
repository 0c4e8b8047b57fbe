//! Tests of the messages between mbuma and its child.

use std::fs::File;
use std::io::Read;

use super::*;
use crate::errors::SetupStep;

#[test]
fn messages_keep_their_bounds_and_order() {
    // Breaks when two messages sent at once are read as one.
    let (a, b) = Channel::pair().expect("a pair");
    let failed = ChannelMessage::Failed(Failure {
        step: SetupStep::Exec,
        errno: libc::ENOENT,
    });
    a.send(&ChannelMessage::UserNamespace, None).expect("send");
    a.send(&failed, None).expect("send");
    drop(a);
    let mut heard = Vec::new();
    while let Some((message, fd)) = b.recv().expect("recv") {
        assert!(fd.is_none());
        heard.push(message);
    }
    assert_eq!(heard, [ChannelMessage::UserNamespace, failed]);
}

#[test]
fn a_descriptor_arrives_as_the_same_file() {
    // Breaks when SCM_RIGHTS is laid out wrongly: the parent would have no TAP.
    let (a, b) = Channel::pair().expect("a pair");
    let file = File::open("/proc/self/comm").expect("open");
    a.send(&ChannelMessage::Go, Some(file.as_fd()))
        .expect("send");
    drop(file);
    let (message, fd) = b.recv().expect("recv").expect("a message");
    assert_eq!(message, ChannelMessage::Go);
    let mut text = String::new();
    File::from(fd.expect("a descriptor"))
        .read_to_string(&mut text)
        .expect("read");
    assert!(!text.is_empty());
}

#[test]
fn a_lost_peer_is_the_end_and_not_a_signal() {
    // Breaks when SIGPIPE ends mbuma, or mbuma waits for ever, after its child was killed.
    let (a, b) = Channel::pair().expect("a pair");
    b.send(&ChannelMessage::Mapped, None).expect("send");
    // A process that another test starts may have a copy of the descriptor for a while.
    rustix::net::shutdown(a.as_fd(), rustix::net::Shutdown::Both).expect("it is connected");
    drop(a);
    assert!(b.send(&ChannelMessage::Go, None).is_err());
    assert!(b.recv().expect("recv").is_none());
}

#[test]
fn the_last_message_arrives_though_one_to_its_sender_was_not_read() {
    // Breaks when a process that announced its exit code counts as killed, because a message to it crossed that one.
    let (a, b) = Channel::pair().expect("a socket pair");
    b.send(&ChannelMessage::Done(6), None).expect("send");
    a.send(&ChannelMessage::Ended, None).expect("send");
    drop(b);
    let heard = a.recv().expect("receive").map(|(message, _)| message);
    assert_eq!(heard, Some(ChannelMessage::Done(6)));
    assert!(a.recv().expect("receive").is_none());
}
