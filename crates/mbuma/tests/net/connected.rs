//! Connected UDP sockets: which datagrams and errors are for them, over both versions of IP.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::common::net::*;
use crate::frames6::{US6, lab};
use mbuma::socket::{BindError, RecvError, SendError};
use mbuma::{IcmpError, Stack, UdpSocket};

pub(crate) const HOSTS: [IpAddr; 2] = [IpAddr::V4(US), IpAddr::V6(US6)];
const ANY: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::UNSPECIFIED),
    IpAddr::V6(Ipv6Addr::UNSPECIFIED),
];

pub(crate) fn bind(stack: &Stack, ip: IpAddr, port: u16) -> UdpSocket {
    stack.udp_bind((ip, port)).unwrap()
}

/// The first bytes of the datagrams that wait, which are taken.
pub(crate) fn received(lab: &Lab, socket: &UdpSocket) -> Vec<u8> {
    lab.stack.poll();
    let all = std::iter::from_fn(|| socket.recv().ok());
    all.map(|datagram| datagram.payload.to_vec()[0]).collect()
}

#[test]
fn only_the_peer_is_heard() {
    // POSIX connect(): breaks if another sender is heard, from another port too; if a new peer does not replace the
    // old one; or if a disconnected socket is not as it was.
    for (host, any) in HOSTS.into_iter().zip(ANY) {
        let lab = lab();
        let (peer, other) = (bind(&lab.stack, host, 1), bind(&lab.stack, host, 2));
        let socket = bind(&lab.stack, any, 7);
        assert_eq!(socket.send(b"x"), Err(SendError::NotConnected));
        socket.connect(peer.local_addr()).unwrap();
        let ours = SocketAddr::new(host, 7);
        assert_eq!(
            (socket.local_addr(), socket.peer_addr()),
            (ours, Some(peer.local_addr()))
        );
        peer.send_to(b"p", ours).unwrap();
        other.send_to(b"o", ours).unwrap();
        assert_eq!(received(&lab, &socket), b"p");
        assert_eq!(other.take_error().unwrap().kind, IcmpError::Port);
        socket.send(b"answer").unwrap();
        socket.send_to(b"to another", other.local_addr()).unwrap();
        lab.stack.poll();
        assert_eq!(peer.recv().unwrap().src, ours);
        assert_eq!(other.recv().unwrap().src, ours);
        assert!(lab.stack.udp_bind(ours).is_err(), "it has the port");

        socket.connect(other.local_addr()).unwrap();
        peer.send_to(b"p", ours).unwrap();
        other.send_to(b"o", ours).unwrap();
        assert_eq!(received(&lab, &socket), b"o");
        for _ in 0..2 {
            socket.disconnect();
            assert_eq!(
                (socket.local_addr(), socket.peer_addr()),
                (SocketAddr::new(any, 7), None)
            );
        }
        peer.send_to(b"p", ours).unwrap();
        other.send_to(b"o", ours).unwrap();
        assert_eq!(received(&lab, &socket), b"po");
        drop((socket, peer, other));
        assert!(lab.stack.udp_bind(ours).is_ok());
    }
}

#[test]
fn of_sockets_that_share_a_port_the_connected_one_comes_first() {
    // Breaks if a socket that was bound later takes a connected one's datagrams, if two sockets get one flow, or if the
    // datagrams do not go to the other socket again once the connected one is gone.
    for host in HOSTS {
        let lab = lab();
        let (peer, other) = (bind(&lab.stack, host, 1), bind(&lab.stack, host, 2));
        let shared = || lab.stack.udp_bind_shared((host, 7)).unwrap();
        let (one, all) = (shared(), shared());
        one.connect(peer.local_addr()).unwrap();
        let late = shared();
        let again = late.connect(peer.local_addr());
        assert_eq!((again, late.peer_addr()), (Err(BindError::AddrInUse), None));
        one.connect(peer.local_addr()).unwrap(); // its own peer again
        peer.send_to(b"p", one.local_addr()).unwrap();
        other.send_to(b"o", one.local_addr()).unwrap();
        let [got, others @ ..] = [&one, &all, &late].map(|socket| received(&lab, socket));
        assert_eq!((got, others.concat()), (b"p".to_vec(), b"o".to_vec()));
        drop((one, late));
        peer.send_to(b"p", all.local_addr()).unwrap();
        assert_eq!(received(&lab, &all), b"p");
    }
}

#[test]
fn only_errors_about_the_peer_are_reported() {
    // RFC 1122 4.1.3.3, RFC 8085 5.2: breaks if a peer that is not there is no ConnectionRefused, or if an error about
    // another destination looks like one, also one from before the connect.
    for host in HOSTS {
        let lab = lab();
        let socket = bind(&lab.stack, host, 7);
        // A client that is gone does not end a server that answers it.
        for _ in 0..2 {
            socket.send_to(b"x", (host, 1)).unwrap();
        }
        lab.stack.poll();
        assert_eq!(socket.recv().unwrap_err(), RecvError::WouldBlock);
        assert_eq!(socket.take_error().unwrap().kind, IcmpError::Port);
        socket.connect((host, 1)).unwrap();
        assert_eq!(socket.recv().unwrap_err(), RecvError::WouldBlock);
        socket.send_to(b"x", (host, 2)).unwrap();
        lab.stack.poll();
        assert_eq!(socket.recv().unwrap_err(), RecvError::WouldBlock);
        socket.send(b"x").unwrap();
        lab.stack.poll();
        socket.connect((host, 1)).unwrap(); // again: its error stays
        let error = io::Error::from(socket.recv().unwrap_err());
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        socket.send(b"x").unwrap();
        lab.stack.poll();
        let error = socket.peek_from(&mut []).unwrap_err();
        assert!(matches!(error, RecvError::Icmp(e) if e.dst == (host, 1).into()));
        assert_eq!(socket.recv().unwrap_err(), RecvError::WouldBlock);
    }
}

#[test]
fn a_connected_socket_hears_no_groups() {
    // Breaks if a group's datagrams arrive from others than the peer; Linux and BSD let none arrive, because the socket
    // has one address now.
    let groups = ["239.1.2.3", "ff05::1:2"].map(|group| group.parse::<IpAddr>().unwrap());
    for ((host, any), group) in HOSTS.into_iter().zip(ANY).zip(groups) {
        let lab = lab();
        let sender = bind(&lab.stack, host, 1);
        sender.set_multicast_interface(Some(lab.iface)).unwrap();
        let members = [0, 1].map(|_| {
            let socket = lab.stack.udp_bind_shared((any, 7)).unwrap();
            socket.join_group(lab.iface, group).unwrap();
            socket
        });
        members[0].connect(sender.local_addr()).unwrap();
        sender.send_to(b"g", (group, 7)).unwrap();
        assert_eq!(
            members.each_ref().map(|socket| received(&lab, socket)),
            [vec![], b"g".to_vec()]
        );
        // A group may be the peer.
        sender.connect((group, 7)).unwrap();
        sender.send(b"h").unwrap();
        assert_eq!(received(&lab, &members[1]), b"h");
        drop(lab.packets());
    }
}

#[test]
fn a_connect_that_fails_changes_nothing() {
    // Breaks if a socket gets a peer that can't answer it.
    let lab = lab();
    for (host, other) in [(HOSTS[0], HOSTS[1]), (HOSTS[1], HOSTS[0])] {
        let socket = bind(&lab.stack, host, 7);
        socket.connect((host, 1)).unwrap();
        assert_eq!(socket.connect("a.name:53"), Err(BindError::NotAnAddress));
        assert_eq!(socket.connect((host, 0)), Err(BindError::NotAnAddress));
        let nowhere = (ANY[usize::from(host.is_ipv6())], 1);
        assert_eq!(socket.connect(nowhere), Err(BindError::NotAnAddress));
        assert_eq!(socket.connect((other, 1)), Err(BindError::AddrNotAvailable));
        assert_eq!(socket.peer_addr(), Some((host, 1).into()));
        let unbound = bind(&lab.stack, ANY[usize::from(host.is_ipv6())], 0);
        let foreign = ["198.51.100.7:1", "[2001:db8::7]:1"][usize::from(host.is_ipv6())];
        assert_eq!(unbound.connect(foreign), Err(BindError::NoRoute));
        assert_eq!(unbound.peer_addr(), None);
    }
    let any = lab.stack.udp_bind_any(lab.iface).unwrap();
    assert_eq!(any.connect((US, 1)), Err(BindError::AddrNotAvailable));
}
