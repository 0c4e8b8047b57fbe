//! A scan of the network of the guest: solicitations of neighbours, each for another address.
//!
//! The scanner sends what a program that connects to each address of the network makes a kernel send, but has no table
//! of neighbours that bounds it.

use super::designs::interface;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, ipproto, sockopt};
use std::io;
use std::net::{Ipv6Addr, SocketAddrV6};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use wire::{MacAddr, NdpMessage, NeighborMessage, solicited_node};

/// Does `work` while a thread scans.
pub(super) fn beside<R>(work: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
    let (interface, socket) = (interface()?, socket()?);
    wait_for_groups(&socket, interface)?;
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let scanner = scope.spawn(|| scan(&socket, interface, &is_over));
        let done = work();
        is_over.store(true, Ordering::Relaxed);
        let scanned = scanner.join();
        scanned.map_err(|_| io::Error::other("the scanner died"))??;
        done
    })
}

/// Sends as many as are due, each millisecond.
fn scan(socket: &OwnedFd, interface: u32, is_over: &AtomicBool) -> io::Result<()> {
    let begin = Instant::now();
    let mut sent = 0;
    while !is_over.load(Ordering::Relaxed) {
        let due = (begin.elapsed().as_secs_f64() * PER_SECOND) as u64;
        while sent < due {
            ask(socket, interface, sent)?;
            sent += 1;
        }
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Sends one, for the address of this number.
fn ask(socket: &OwnedFd, interface: u32, number: u64) -> io::Result<()> {
    let target = Ipv6Addr::from_bits(FIRST + u128::from(number));
    let solicit = NeighborMessage::solicit(target, Some(MAC), None);
    let mut message = vec![NdpMessage::NEIGHBOR_SOLICIT, 0, 0, 0, 0, 0, 0, 0];
    message.extend_from_slice(solicit.body());
    let group = SocketAddrV6::new(solicited_node(target), 0, 0, interface);
    rustix::net::sendto(socket, &message, SendFlags::empty(), &group)?;
    Ok(())
}

/// Waits until the kernel has the route to groups: it adds that one up to a second after the one to the interface's
/// network.
fn wait_for_groups(socket: &OwnedFd, interface: u32) -> io::Result<()> {
    let begin = Instant::now();
    loop {
        match ask(socket, interface, 0) {
            Err(e)
                if e.kind() == io::ErrorKind::NetworkUnreachable && begin.elapsed() < PATIENCE =>
            {
                thread::sleep(Duration::from_millis(5));
            }
            other => return other,
        }
    }
}

/// The kernel writes the checksum of what is sent on it.
fn socket() -> io::Result<OwnedFd> {
    let (flags, protocol) = (SocketFlags::CLOEXEC, Some(ipproto::ICMPV6));
    let socket = rustix::net::socket_with(AddressFamily::INET6, SocketType::RAW, flags, protocol)?;
    sockopt::set_ipv6_multicast_hops(&socket, 255)?;
    sockopt::set_ipv6_multicast_loop(&socket, false)?;
    Ok(socket)
}

/// Addresses that are asked for.
const PER_SECOND: f64 = 10_000.0;
/// The time that the route to groups may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// The first of them: fd00::1:0:0:0.
const FIRST: u128 = (0xfd00 << 112) | (1 << 48);
/// The scanner, to the stations of the link.
const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 0x69]);
