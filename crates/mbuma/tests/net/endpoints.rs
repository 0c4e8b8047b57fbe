//! Addresses of sockets, as programs give them, and errors, as programs pass them on.

use std::io;

use crate::common::net::*;
use mbuma::socket::{BindError, GroupError, SendError, SpliceError, UdpSocket};
use mbuma::unix::UnixError;
use mbuma::{AddrError, RouteError, SocketError, Stack, TcpSocketOptions};

const NAME: &str = "example.org:80";

/// Breaks if a call that opens a socket or sends takes no text, or takes a name for an address.
#[test]
fn each_call_takes_text() {
    let lab = Lab::plain();
    let stack = &lab.stack;
    let (us, any) = (format!("{US}:80"), "0.0.0.0:0");
    let listener = stack.tcp_listen(&us, 1).expect("ours");
    assert_eq!(listener.local_addr(), at(US, 80).into());
    let asked = TcpSocketOptions {
        ttl: std::num::NonZeroU8::new(9),
        ..TcpSocketOptions::default()
    };
    let plain = stack.tcp_connect(any, us.clone()).expect("ours");
    let tuned = stack.tcp_connect_with(any, &us, &asked).expect("ours");
    assert_eq!(
        (plain.options().ttl, tuned.options().ttl),
        (None, asked.ttl)
    );
    let socket = stack.udp_bind(&us).expect("ours");
    assert_eq!(socket.send_from(b"x", &us, format!("{PEER}:9")), Ok(()));

    let wrong = Some(SocketError::NotAnAddress);
    assert_eq!(stack.tcp_listen(NAME, 1).err(), wrong);
    assert_eq!(stack.tcp_connect(any, NAME).err(), wrong);
    assert_eq!(stack.tcp_connect_with(NAME, us, &asked).err(), wrong);
    assert_eq!(socket.send_from(b"x", NAME, any), Err(SendError::BadSource));
    let sent = socket.send_from(b"x", at(US, 80), NAME);
    assert_eq!(sent, Err(SendError::BadDestination));
    plain.abort();
    tuned.abort();
    drop((listener, plain, tuned, socket));
    stack.poll();
    lab.frames();
}

/// Breaks if `?` does not pass an operation's error on where a function returns the crate's `Result`, or its kind is
/// lost.
#[test]
fn an_error_of_an_operation_is_one_of_the_crate() {
    fn bind(stack: &Stack) -> mbuma::Result<UdpSocket> {
        Ok(stack.udp_bind(NAME)?)
    }
    let lab = Lab::plain();
    let e = bind(&lab.stack).expect_err("a name");
    assert_eq!(io::Error::from(e).kind(), io::ErrorKind::InvalidInput);
    let kind = |e: mbuma::Error| io::Error::from(e).kind();
    assert_eq!(kind(BindError::AddrInUse.into()), io::ErrorKind::AddrInUse);
    assert_eq!(
        kind(GroupError::AlreadyMember.into()),
        io::ErrorKind::AddrInUse
    );
    assert_eq!(kind(SpliceError::Busy.into()), io::ErrorKind::ResourceBusy);
    assert_eq!(kind(AddrError::Exists.into()), io::ErrorKind::AlreadyExists);
    assert_eq!(
        kind(RouteError::BadNetwork.into()),
        io::ErrorKind::InvalidInput
    );
    assert_eq!(
        kind(UnixError::WouldBlock.into()),
        io::ErrorKind::WouldBlock
    );
}
