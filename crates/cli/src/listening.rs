//! The ports of a network namespace on which its programs listen, as the kernel lists its sockets.
//!
//! A file of /proc/PID/net shows the namespace in which it was opened, whichever process reads it later.
//!
//! Invariants: a namespace with many sockets costs a bounded read: the kernel lists listening TCP sockets before the
//! others.
//! Locks: none.
//! Sources: proc(5), "/proc/net/tcp", "/proc/net/udp"; net/ipv4/tcp_ipv4.c, tcp4_seq_show.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::args::Proto;

/// Bytes of each list that are read at most: some 7000 sockets.
const READ_MAX: u64 = 1 << 20;
/// The states of interest: a TCP socket that listens, and a UDP socket that is bound and not connected.
const TCP_LISTEN: &str = "0A";
const UDP_UNCONNECTED: &str = "07";
/// The names of the lists. Those of IPv6 exist only with IPv6.
const LISTS: [(&str, Proto); 4] = [
    ("tcp", Proto::Tcp),
    ("udp", Proto::Udp),
    ("tcp6", Proto::Tcp),
    ("udp6", Proto::Udp),
];

/// A port of one protocol.
pub(crate) type ProtoPort = (Proto, u16);

/// The lists of one namespace, open.
#[derive(Debug)]
pub(crate) struct ListeningPorts {
    /// In the order of [`LISTS`].
    lists: Vec<File>,
    /// The range of ports that the kernel chooses: a UDP socket there is a client's.
    ephemeral: RangeInclusive<u16>,
    /// UDP sockets at the loopback alone count, too: it is not behind an interface of mbuma.
    reaches_loopback: bool,
}

impl ListeningPorts {
    /// Those of the calling thread's namespace.
    pub(crate) fn open() -> io::Result<ListeningPorts> {
        let open = |(name, _): &(&str, Proto)| File::open(format!("/proc/thread-self/net/{name}"));
        let lists = LISTS.iter().map(open).take_while(Result::is_ok);
        let lists: Vec<_> = lists.flatten().collect();
        if lists.len() < 2 {
            return Err(io::ErrorKind::NotFound.into());
        }
        let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range");
        let ephemeral = range.ok().and_then(|text| range_of(&text));
        Ok(ListeningPorts {
            lists,
            ephemeral: ephemeral.unwrap_or(32_768..=60_999),
            reaches_loopback: true,
        })
    }

    /// The same, from a process of the guest.
    pub(crate) fn from_parts(
        lists: Vec<OwnedFd>,
        ephemeral: RangeInclusive<u16>,
    ) -> ListeningPorts {
        let lists = lists.into_iter().map(File::from).collect();
        ListeningPorts {
            lists,
            ephemeral,
            reaches_loopback: false,
        }
    }

    /// For another process.
    pub(crate) fn parts(&self) -> (Vec<BorrowedFd<'_>>, RangeInclusive<u16>) {
        let lists = self.lists.iter().map(AsFd::as_fd);
        (lists.collect(), self.ephemeral.clone())
    }

    /// The ports of `protocols` now, but for mbuma's `own`. With UDP, the TCP ports are among those of UDP as well: a
    /// server such as iperf3's listens for TCP, and binds its UDP port when a client has come.
    pub(crate) fn read(
        &self,
        protocols: &[Proto],
        own: &BTreeSet<ProtoPort>,
    ) -> io::Result<BTreeSet<ProtoPort>> {
        let mut found = BTreeSet::new();
        for (file, (_, proto)) in self.lists.iter().zip(LISTS) {
            let mut ports = self.read_list(file, proto)?;
            ports.retain(|port| !own.contains(&(proto, *port)));
            let also_udp = proto == Proto::Tcp && protocols.contains(&Proto::Udp);
            if protocols.contains(&proto) {
                found.extend(ports.iter().map(|port| (proto, *port)));
            }
            if also_udp {
                found.extend(ports.iter().map(|port| (Proto::Udp, *port)));
            }
        }
        found.retain(|port| !own.contains(port));
        Ok(found)
    }

    fn read_list(&self, mut file: &File, proto: Proto) -> io::Result<BTreeSet<u16>> {
        file.seek(SeekFrom::Start(0))?;
        let mut ports = BTreeSet::new();
        for line in BufReader::new(file.take(READ_MAX)).lines() {
            let line = line?;
            let is_out_of_reach =
                proto == Proto::Udp && !self.reaches_loopback && is_at_loopback(&line);
            ports.extend(port_of(&line, proto).filter(|_| !is_out_of_reach));
        }
        if proto == Proto::Udp {
            ports.retain(|port| !self.ephemeral.contains(port));
        }
        Ok(ports)
    }
}

/// The port of a line, if its socket accepts connections or datagrams: `0: 0100007F:1F90 00000000:0000 0A ...`
fn port_of(line: &str, proto: Proto) -> Option<u16> {
    let mut words = line.split_ascii_whitespace().skip(1);
    let (_, port) = words.next()?.rsplit_once(':')?;
    let wanted = match proto {
        Proto::Tcp => TCP_LISTEN,
        Proto::Udp => UDP_UNCONNECTED,
    };
    (words.nth(1)? == wanted).then_some(())?;
    u16::from_str_radix(port, 16).ok().filter(|port| *port != 0)
}

/// Whether the socket of a line is bound to an address of the loopback, which the kernel writes as words of 32 bits.
fn is_at_loopback(line: &str) -> bool {
    let addr = line
        .split_ascii_whitespace()
        .nth(1)
        .and_then(|word| word.rsplit_once(':'));
    let digits = addr.map_or("", |(digits, _)| digits);
    let words = (0..digits.len() / 8).filter_map(|n| digits.get(8 * n..8 * n + 8));
    let words = words.filter_map(|word| u32::from_str_radix(word, 16).ok());
    let words: Vec<_> = words
        .map(|word| u32::from_be_bytes(word.to_ne_bytes()))
        .collect();
    match *words {
        [v4] | [0, 0, 0xffff, v4] => v4 >> 24 == 127,
        [0, 0, 0, last] => last == 1,
        _ => false,
    }
}

/// Two numbers.
fn range_of(text: &str) -> Option<RangeInclusive<u16>> {
    let mut words = text.split_ascii_whitespace();
    let first = words.next()?.parse().ok()?;
    Some(first..=words.next()?.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, UdpSocket};

    #[test]
    fn lines_of_the_kernels_lists_are_read() {
        // Breaks if a socket that takes no clients opens a port, or one that does is passed over.
        let tcp = "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000 0 1 1";
        let tcp6 = "   1: 00000000000000000000000001000000:0016 00000000000000000000000000000000:0000 0A 0:0";
        let udp = "  12: 00000000:0035 00000000:0000 07 00000000:00000000 00:00000000";
        assert_eq!(port_of(tcp, Proto::Tcp), Some(8080));
        assert_eq!(port_of(tcp6, Proto::Tcp), Some(22));
        assert_eq!(port_of(udp, Proto::Udp), Some(53));
        let v6 = "  1: 00000000000000000000000001000000:0035 0:0 07";
        let mapped = "  1: 0000000000000000FFFF00000100007F:0035 0:0 07";
        for (at, line) in [
            (true, tcp),
            (true, v6),
            (true, mapped),
            (false, udp),
            (false, "1: x:0 0:0 07"),
        ] {
            assert_eq!(is_at_loopback(line), at, "{line}");
        }
        let established = tcp.replace(" 0A ", " 01 ");
        for nothing in [
            "  sl  local_address rem_address   st",
            "",
            "0: x",
            &established,
        ] {
            assert_eq!(port_of(nothing, Proto::Tcp), None, "{nothing}");
        }
        assert_eq!(range_of("32768\t60999\n"), Some(32768..=60999));
    }

    #[test]
    fn open_lists_show_what_listens_now() {
        // Breaks if the lists are read once only, a client's UDP socket counts as a server, or a listener of ours leads
        // to a port of either protocol that takes the place of one of the guest's own.
        let lists = ListeningPorts::open().expect("a kernel with /proc");
        let server = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = server.local_addr().expect("bound").port();
        let client = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        let client = client.local_addr().expect("bound").port();
        let read = |protocols: &[Proto], own| lists.read(protocols, &own).expect("readable");
        let both = read(&[Proto::Tcp, Proto::Udp], BTreeSet::new());
        assert!(both.contains(&(Proto::Tcp, port)) && both.contains(&(Proto::Udp, port)));
        assert!(client == port || !both.contains(&(Proto::Udp, client)));
        let others = read(
            &[Proto::Tcp, Proto::Udp],
            BTreeSet::from([(Proto::Tcp, port)]),
        );
        assert!(
            [Proto::Tcp, Proto::Udp]
                .iter()
                .all(|proto| !others.contains(&(*proto, port)))
        );
        let server_udp = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        let at = server_udp.local_addr().expect("bound").port();
        let fds = lists
            .lists
            .iter()
            .map(|file| file.try_clone().expect("a descriptor").into());
        let of_guest = ListeningPorts::from_parts(fds.collect(), 1..=1);
        let found = of_guest
            .read(&[Proto::Udp], &BTreeSet::new())
            .expect("readable");
        assert!(!found.contains(&(Proto::Udp, at)), "no datagram reaches it");
        let own_udp = BTreeSet::from([(Proto::Udp, port)]);
        let others = read(&[Proto::Tcp, Proto::Udp], own_udp);
        assert!(others.contains(&(Proto::Tcp, port)) && !others.contains(&(Proto::Udp, port)));
        let tcp = read(&[Proto::Tcp], BTreeSet::new());
        assert!(tcp.iter().all(|(proto, _)| *proto == Proto::Tcp));
        drop(server);
        // Another program may listen there from now on.
        read(&[Proto::Tcp], BTreeSet::new());
    }
}
