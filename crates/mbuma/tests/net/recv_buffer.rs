//! The receive buffer of a UDP socket, over both versions of IP.

use crate::common::net::*;
use crate::connected::{HOSTS, bind, received};
use crate::frames6::US6;
use mbuma::socket::RecvError;
use mbuma::{DropReason, IfAddr};

#[test]
fn the_receive_buffer_has_the_size_that_was_set() {
    // Breaks if the number of datagrams still bounds a buffer with a size, if a smaller size drops what waits, or if a
    // look takes a datagram.
    for host in HOSTS {
        let lab = Lab::new(Setup {
            addrs: vec![IfAddr::new(US6, 64)],
            tune: |c| c.udp_queue_max = 2,
            ..Setup::default()
        });
        let socket = bind(&lab.stack, host, 7);
        let send = |bytes: &[u8], times| {
            for _ in 0..times {
                socket.send_to(bytes, socket.local_addr()).unwrap();
            }
            lab.stack.poll();
        };
        assert_eq!(socket.recv_buffer_size(), 2 << 20);
        socket.set_recv_buffer_size(5 * (1000 + mbuf::MSIZE));
        send(&[1; 1000], 8);
        assert_eq!(lab.dropped(DropReason::UdpQueueFull), 3);
        socket.set_recv_buffer_size(0);
        send(&[2; 1000], 1);
        let mut buf = [0; 8];
        for _ in 0..2 {
            assert_eq!(socket.peek_from(&mut buf), Ok((8, socket.local_addr())));
        }
        assert_eq!(received(&lab, &socket), [1; 5]);
        assert_eq!(socket.peek_from(&mut buf), Err(RecvError::WouldBlock));
        send(&[3; 1000], 2);
        assert_eq!(received(&lab, &socket), [3], "an empty buffer takes one");
        socket.set_recv_buffer_size(usize::MAX);
        assert_eq!(socket.recv_buffer_size(), 1 << 30);
    }
}
