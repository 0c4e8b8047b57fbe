//! What programs expect of handles beside their operations: auto traits, and conversions of errors and payloads.

use std::fmt::Debug;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::panic::{RefUnwindSafe, UnwindSafe};

use mbuma::socket::{SendError, TcpReadHalf, TcpWriteHalf};
use mbuma::{
    Config, Error, Runtime, SocketError, Stack, TcpListener, TcpStream, UdpSocket, UnixDatagram,
    UnixListener, UnixStream,
};

fn is_like_stds<T: Send + Sync + Unpin + UnwindSafe + RefUnwindSafe + Debug + 'static>() {}

#[test]
fn handles_have_the_auto_traits_of_those_of_std() {
    // Breaks when a program must wrap a handle to move it to a thread, to a task, or into `catch_unwind`.
    is_like_stds::<Stack>();
    is_like_stds::<Runtime>();
    is_like_stds::<TcpStream>();
    is_like_stds::<TcpReadHalf>();
    is_like_stds::<TcpWriteHalf>();
    is_like_stds::<TcpListener>();
    is_like_stds::<UdpSocket>();
    is_like_stds::<UnixStream>();
    is_like_stds::<UnixListener>();
    is_like_stds::<UnixDatagram>();
}

fn connect(stack: &Stack, to: &str) -> io::Result<TcpStream> {
    Ok(stack.tcp_connect_blocking(to, None)?)
}

#[test]
fn errors_of_a_stack_become_those_of_std() {
    // Breaks when a function that returns `io::Result` can't use `?`, or loses the errno or the text.
    let stack = Stack::new(Config::from_system()).expect("buffers");
    let unreachable = connect(&stack, "192.0.2.1:80").expect_err("no route");
    assert_eq!(
        unreachable.raw_os_error(),
        io::Error::from(SocketError::Unreachable).raw_os_error()
    );
    let name = connect(&stack, "www.example:80").expect_err("a name");
    assert_eq!(name.kind(), io::ErrorKind::InvalidInput);
    assert!(
        name.to_string().contains("names are not looked up"),
        "{name}"
    );
    let own = io::Error::from_raw_os_error(5);
    assert_eq!(io::Error::from(Error::Io(own)).raw_os_error(), Some(5));
}

#[test]
fn a_vector_is_a_payload() {
    // Breaks when `send_to(&bytes, ..)` takes arrays but no vectors.
    let stack = Stack::new(Config::from_system()).expect("buffers");
    let server = stack.udp_bind(([127, 0, 0, 1], 0)).expect("a port");
    let client = stack.udp_bind(([127, 0, 0, 1], 0)).expect("a port");
    let bytes = b"question".to_vec();
    client.send_to(&bytes, server.local_addr()).expect("room");
    assert_eq!(server.recv().expect("it came").payload.to_vec(), bytes);
}

#[test]
fn a_datagram_socket_sends_by_the_version_of_its_address() {
    // Breaks when a socket at 0.0.0.0 sends IPv6, so that the answers reach another socket or none.
    let stack = Stack::new(Config::from_system()).expect("buffers");
    let (v4, v6) = (
        IpAddr::from([127, 0, 0, 1]),
        IpAddr::from(Ipv6Addr::LOCALHOST),
    );
    for (own, other) in [(v4, v6), (v6, v4)] {
        let any = match own {
            IpAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
            IpAddr::V6(_) => IpAddr::from(Ipv6Addr::UNSPECIFIED),
        };
        let socket = stack.udp_bind((any, 0)).expect("a port");
        assert_eq!(socket.send_to(b"x", (own, 9)), Ok(()), "{own}");
        let sent = socket.send_to(b"x", (other, 9));
        assert_eq!(sent, Err(SendError::BadSource), "{own} to {other}");
    }
}
