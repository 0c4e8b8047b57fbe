//! The readiness of each direction, as tasks and event loops see it; over the loopback interface, so that no test
//! waits.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::common::net::*;
use kern::{Random, Time, VirtualClock};
use mbuf::{Chain, Live};
use mbuma::socket::{BindError, RecvError};
use mbuma::{Config, IcmpError, IfAddr, SocketError, Stack, State, TcpListener, TcpStream};
use wire::{IcmpMessage, IpProto, Ipv4Header, Unreachable};

const ANY: Ipv4Addr = Ipv4Addr::UNSPECIFIED;
const LOCALHOST: Ipv4Addr = Ipv4Addr::LOCALHOST;

/// A task that counts how often it is woken.
struct Task {
    calls: Arc<Count>,
    waker: Waker,
}

impl Task {
    fn new() -> Self {
        let calls = Arc::new(Count::default());
        let waker = Waker::from(Arc::clone(&calls));
        Self { calls, waker }
    }

    fn cx(&self) -> Context<'_> {
        Context::from_waker(&self.waker)
    }

    /// The number of wakeups since the last call.
    fn woken(&self) -> usize {
        self.calls.take()
    }
}

fn stack() -> Stack {
    let clock = Arc::new(VirtualClock::new(Time::from_secs(1)));
    Stack::new(Config::new(clock, Random::from_seed(1))).unwrap()
}

fn pair(stack: &Stack) -> (TcpStream, TcpStream) {
    let listener = stack.tcp_listen(at(LOCALHOST, 80), 8).unwrap();
    let client = connect(stack, &listener);
    (client, listener.accept().expect("nothing was waited for"))
}

fn connect(stack: &Stack, listener: &TcpListener) -> TcpStream {
    let there = listener.local_addr();
    stack.tcp_connect(at(ANY, 0), there).unwrap()
}

/// Breaks if a gateway waits for ever for the clients and datagrams of an interface that is gone, or makes a socket for
/// one.
#[test]
fn sockets_of_an_interface_hear_that_it_is_gone() {
    let lab = Lab::gateway();
    let (stack, index) = (&lab.stack, lab.iface);
    let clients = stack.tcp_intercept(index, 8).unwrap();
    let datagrams = stack.udp_bind_any(index).unwrap();
    let pings = stack.icmp_echo_any(index).unwrap();
    let messages = stack.icmp6_bind(index, &[133]).unwrap();
    let tasks: [Task; 4] = std::array::from_fn(|_| Task::new());
    assert!(clients.poll_accept(&mut tasks[0].cx()).is_pending());
    assert!(datagrams.poll_recv(&mut tasks[1].cx()).is_pending());
    pings.set_waker(Some(tasks[2].waker.clone()));
    messages.set_waker(Some(tasks[3].waker.clone()));
    assert_eq!(pings.recv().unwrap_err(), RecvError::WouldBlock);
    stack.detach(index);
    assert_eq!(tasks.each_ref().map(Task::woken), [1; 4]);
    let Poll::Ready(Err(error)) = clients.poll_accept(&mut tasks[0].cx()) else {
        panic!("it waits");
    };
    assert_eq!(error, SocketError::AddrNotAvailable);
    let Poll::Ready(Err(error)) = datagrams.poll_recv(&mut tasks[1].cx()) else {
        panic!("it waits");
    };
    let gone = RecvError::NoInterface;
    assert_eq!((error, pings.recv().unwrap_err()), (gone, gone));
    assert_eq!(messages.recv().unwrap_err(), gone);
    drop((clients, datagrams, pings, messages));
    assert!(stack.tcp_intercept(index, 8).is_err());
    let none = BindError::NoInterface;
    assert_eq!(stack.udp_bind_any(index).unwrap_err(), none);
    assert_eq!(stack.icmp_echo_any(index).unwrap_err(), none);
    assert_eq!(stack.icmp6_bind(index, &[133]).unwrap_err(), none);
}

fn end(stack: Stack) {
    let pool = stack.pool().clone();
    drop(stack);
    assert_eq!(pool.live(), Live::NONE);
}

/// Fills both buffers between the ends; returns how many bytes there are.
fn fill(from: &TcpStream) -> usize {
    let mut sent = 0;
    while let Ok(n) = from.send(&[7; 1 << 16]) {
        sent += n;
    }
    sent
}

fn read_all(from: &TcpStream) -> usize {
    let mut got = 0;
    while let Ok(data) = from.recv_chain(usize::MAX) {
        got += data.len();
    }
    got
}

/// Breaks if a task that waits to read is woken by room, or one that waits to write by data.
#[test]
fn a_reader_and_a_writer_do_not_wake_each_other() {
    let stack = stack();
    let (ours, theirs) = pair(&stack);
    let (reader, writer) = (Task::new(), Task::new());
    let sent = fill(&ours);
    assert_eq!(ours.poll_readable(&mut reader.cx()), Poll::Pending);
    assert_eq!(ours.poll_writable(&mut writer.cx()), Poll::Pending);
    assert_eq!(theirs.send(b"data").unwrap(), 4);
    assert_eq!((reader.woken(), writer.woken()), (1, 0));
    assert_eq!(ours.poll_readable(&mut reader.cx()), Poll::Ready(()));
    assert_eq!(read_all(&ours), 4);
    assert_eq!(ours.poll_readable(&mut reader.cx()), Poll::Pending);
    assert_eq!(read_all(&theirs), sent);
    assert_eq!((reader.woken(), writer.woken()), (0, 1));
    assert_eq!(ours.poll_writable(&mut writer.cx()), Poll::Ready(()));
    // An end is news for both.
    assert_eq!(ours.poll_readable(&mut reader.cx()), Poll::Pending);
    fill(&ours);
    assert_eq!(ours.poll_writable(&mut writer.cx()), Poll::Pending);
    theirs.abort();
    assert_eq!((reader.woken(), writer.woken()), (1, 1));
    assert_eq!(ours.poll_readable(&mut reader.cx()), Poll::Ready(()));
    assert_eq!(ours.poll_writable(&mut writer.cx()), Poll::Ready(()));
    drop((ours, theirs));
    end(stack);
}

/// Breaks if wakers that stay are called for the other direction, or the one of both directions twice for one change,
/// or do not stay.
#[test]
fn wakers_that_stay_are_of_one_direction_too() {
    let stack = stack();
    let (ours, theirs) = pair(&stack);
    let (reader, writer, both) = (Task::new(), Task::new(), Task::new());
    // Nagle would keep data back until ours has acknowledged.
    theirs.set_nodelay(true);
    ours.set_wakers(Some(reader.waker.clone()), Some(writer.waker.clone()));
    theirs.send(b"data").unwrap();
    assert_eq!((reader.woken(), writer.woken()), (1, 0));
    for _ in 0..2 {
        theirs.send(b"data").unwrap();
        assert!(reader.woken() <= 1);
        read_all(&ours);
        fill(&ours);
        read_all(&theirs);
        assert_eq!(reader.woken(), 0);
        assert!(writer.woken() > 0);
    }
    ours.set_waker(Some(both.waker.clone()));
    theirs.abort();
    assert_eq!((reader.woken(), writer.woken(), both.woken()), (0, 0, 1));
    drop((ours, theirs));
    end(stack);
}

/// Breaks if a poll loses bytes, reports none as an end of file, or leaves no waker.
#[test]
fn bytes_and_chains_are_polled() {
    let stack = stack();
    let (ours, theirs) = pair(&stack);
    let (task, other) = (Task::new(), Task::new());
    let mut buf = [0; 8];
    assert_eq!(theirs.poll_read(&mut task.cx(), &mut buf), Poll::Pending);
    assert_eq!(
        ours.poll_write(&mut other.cx(), b"hello"),
        Poll::Ready(Ok(5))
    );
    assert_eq!(task.woken(), 1);
    assert_eq!(
        theirs.poll_read(&mut task.cx(), &mut []),
        Poll::Ready(Ok(0))
    );
    assert_eq!(
        theirs.poll_read(&mut task.cx(), &mut buf),
        Poll::Ready(Ok(5))
    );
    assert_eq!(&buf[..5], b"hello");
    assert!(theirs.poll_read_chain(&mut task.cx(), 99).is_pending());
    // More bytes than there is room for: the rest stays with the caller.
    let mut data = Chain::from_slice(stack.pool(), &vec![3; 4 << 20]).unwrap();
    let mut sent = 0;
    while let Poll::Ready(taken) = ours.poll_write_chain(&mut other.cx(), &mut data) {
        sent += taken.unwrap();
    }
    assert!(sent > 0 && sent + data.len() == 4 << 20);
    assert_eq!((task.woken(), other.woken()), (1, 0));
    let mut got = 0;
    while let Poll::Ready(chain) = theirs.poll_read_chain(&mut task.cx(), usize::MAX) {
        got += chain.unwrap().len();
    }
    assert_eq!(got, sent);
    assert_eq!(other.woken(), 1);
    ours.shutdown(Shutdown::Write);
    assert_eq!(task.woken(), 1);
    assert_eq!(
        theirs.poll_read(&mut task.cx(), &mut buf),
        Poll::Ready(Ok(0))
    );
    let closed = ours.poll_write_chain(&mut other.cx(), &mut data);
    assert_eq!(closed, Poll::Ready(Err(SocketError::Closed)));
    assert_eq!(data.len(), (4 << 20) - sent);
    drop((ours, theirs, data));
    end(stack);
}

/// Breaks if a task that waits for a connection is not woken, or two that poll by turns are both remembered.
#[test]
fn connections_are_polled() {
    let stack = stack();
    let listener = stack.tcp_listen(at(LOCALHOST, 0), 8).unwrap();
    let (early, late) = (Task::new(), Task::new());
    assert!(listener.poll_accept(&mut early.cx()).is_pending());
    assert!(listener.poll_accept(&mut late.cx()).is_pending());
    let client = connect(&stack, &listener);
    assert_eq!((early.woken(), late.woken()), (0, 1));
    let Poll::Ready(Ok(server)) = listener.poll_accept(&mut late.cx()) else {
        panic!("a connection waits");
    };
    assert_eq!(client.poll_connected(&mut late.cx()), Poll::Ready(Ok(())));
    assert_eq!(server.peer_addr(), client.local_addr());
    let refused = stack.tcp_connect(at(ANY, 0), at(LOCALHOST, 1)).unwrap();
    let verdict = refused.poll_connected(&mut late.cx());
    assert_eq!(verdict, Poll::Ready(Err(SocketError::Refused)));
    drop((listener, client, server, refused));
    end(stack);
}

/// Breaks if the task that begins a connection is not woken for its end.
#[test]
fn a_connection_that_comes_to_nothing_wakes_its_task() {
    let stack = stack();
    let task = Task::new();
    let listener = stack.tcp_listen(at(LOCALHOST, 80), 1).unwrap();
    let waiting = connect(&stack, &listener);
    // The backlog is full: this one stays half open.
    let half_open = connect(&stack, &listener);
    assert_eq!(half_open.state(), State::SynSent);
    assert_eq!(half_open.poll_connected(&mut task.cx()), Poll::Pending);
    assert_eq!(half_open.poll_readable(&mut task.cx()), Poll::Pending);
    half_open.abort();
    assert!(task.woken() > 0);
    let verdict = half_open.poll_connected(&mut task.cx());
    assert_eq!(verdict, Poll::Ready(Err(SocketError::Closed)));
    drop((listener, waiting, half_open));
    end(stack);
}

/// Breaks if text is taken for another address, or a version of IP can't be written as text.
#[test]
fn addresses_are_text_too() {
    let stack = stack();
    for (listens, there) in [
        ("127.0.0.1:80", LOCALHOST.into()),
        ("[::1]:80", IpAddr::from(Ipv6Addr::LOCALHOST)),
    ] {
        let listener = stack.tcp_listen(listens, 128).unwrap();
        assert_eq!(listener.local_addr(), SocketAddr::new(there, 80));
        let client = stack.tcp_connect_blocking((there, 80), None).unwrap();
        assert_eq!(listener.accept().unwrap().peer_addr(), client.local_addr());
    }
    let net: IfAddr = "192.0.2.2/24".parse().unwrap();
    assert_eq!(net, IfAddr::new([192, 0, 2, 2], 24));
    let net: IfAddr = "2001:db8::2/128".parse().unwrap();
    assert!(net.addr.is_ipv6() && net.prefix_len == 128);
    for wrong in [
        "192.0.2.2",
        "192.0.2.2/33",
        "host/24",
        "2001:db8::/129",
        "/",
    ] {
        assert!(wrong.parse::<IfAddr>().is_err(), "{wrong}");
        assert!(stack.tcp_listen(wrong, 128).is_err(), "{wrong}");
    }
    end(stack);
}

/// Breaks if a datagram or an ICMP error wakes no task, or an error comes before a datagram.
#[test]
fn datagrams_and_errors_are_polled() {
    let lab = Lab::plain();
    let socket = lab.stack.udp_bind(at(US, 1000)).unwrap();
    socket.connect(at(PEER, 9)).unwrap();
    let task = Task::new();
    let sent = socket.poll_send(&mut task.cx(), lab.chain(b"hello"), at(PEER, 9));
    assert_eq!(sent, Poll::Ready(Ok(())));
    let quote = lab.frame()[14..14 + Ipv4Header::LEN + 8].to_vec();
    let unreachable = IcmpMessage::DestUnreachable(Unreachable::PortUnreachable);
    let error = ip_frame(&from_peer(US, IpProto::ICMP), &icmp(unreachable, &quote));
    for come in [&udp_frame(9, at(US, 1000), b"x"), &error] {
        assert!(socket.poll_recv(&mut task.cx()).is_pending());
        lab.give(come);
        assert_eq!(task.woken(), 1);
        lab.give(&error);
        task.woken();
        let Poll::Ready(first) = socket.poll_recv(&mut task.cx()) else {
            panic!("something waits");
        };
        assert_eq!(first.is_ok(), come != &error);
        while let Poll::Ready(next) = socket.poll_recv(&mut task.cx()) {
            assert!(matches!(next, Err(RecvError::Icmp(e)) if e.kind == IcmpError::Port));
        }
    }
}
