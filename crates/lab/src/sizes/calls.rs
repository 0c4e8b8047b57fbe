//! Which calls of the buffer API a trace makes on its way through a host, and how many pullups copy: seed 004's
//! figure 3.
//!
//! Calls are counted where they are made ([`Api`]). Those that other calls make inside (a share takes an mbuf for each
//! piece, a prepend one if there is no room) show in the zones: mbufs that were popped without a call of the path. A
//! cluster always comes together with its mbuf here, so every cluster is an `m_getcl`; there is no `m_clget`.
//!
//! Invariant: a path frees all that it took.
//! Sources: seed 004 section 4.2.

use super::tally::{Popped, pool};
use super::trace::{ETHER_HEADER, Frame, Trace};
use crate::Error;
use mbuf::{Chain, ClusterSize, MHLEN, MbufPool, NoBufs, Packet, PullupError};

/// Bytes of an IPv4 and of a TCP header without options.
const IP_HEADER: usize = 20;
const TCP_HEADER: usize = 20;

/// A way through the host.
#[derive(Clone, Copy)]
pub(super) struct Path {
    pub(super) name: &'static str,
    /// Its path, in a line.
    pub(super) about: &'static str,
    go: fn(&mut Api<'_>, Frame, &[u8]) -> Result<(), NoBufs>,
}

/// All ways, in the order in which they are shown.
pub(super) const PATHS: [Path; 4] = [
    Path {
        name: "echo",
        about: "into clusters, up to TCP, the data shared and sent back",
        go: |api, frame, bytes| {
            let packet = api.getcl(bytes)?;
            api.echo(packet, frame)
        },
    },
    Path {
        name: "echo-small",
        about: "the same, from a device that copies small frames into mbufs",
        go: |api, frame, bytes| {
            let packet = api.copied_in(bytes)?;
            api.echo(packet, frame)
        },
    },
    Path {
        name: "forward",
        about: "into clusters, a new link header, out: the seed's NAT gateway",
        go: |api, frame, bytes| {
            let mut packet = api.getcl(bytes)?;
            api.forward(&mut packet, frame)
        },
    },
    Path {
        name: "forward-kept",
        about: "the same with a shared packet, and headers in one piece for the device",
        go: |api, frame, bytes| {
            let mut packet = api.getcl(bytes)?;
            let kept = api.share_packet(&mut packet)?;
            api.forward(&mut packet, frame)?;
            let headers = usize::from(ETHER_HEADER) + IP_HEADER + TCP_HEADER;
            api.pullup(&mut packet, headers)?;
            drop(packet);
            drop(kept);
            Ok(())
        },
    },
];

/// How often each was called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Calls {
    /// A packet's first mbuf, without a cluster.
    pub(super) gethdr: u64,
    /// Any other mbuf without one.
    pub(super) get: u64,
    /// An mbuf together with a cluster.
    pub(super) getcl: u64,
    /// A cluster for an mbuf that was there.
    pub(super) clget: u64,
    /// Ranges shared.
    pub(super) share: u64,
    /// Headers put in front.
    pub(super) prepend: u64,
    /// Headers that must be contiguous.
    pub(super) pullup: u64,
    /// Pullups that copied, because they were in several.
    pub(super) copied: u64,
}

impl Calls {
    /// With the BSD names, in the order in which they are shown.
    pub(super) fn named(&self) -> [(&'static str, u64); 8] {
        [
            ("gethdr", self.gethdr),
            ("get", self.get),
            ("getcl", self.getcl),
            ("clget", self.clget),
            ("copym", self.share),
            ("prepend", self.prepend),
            ("pullup", self.pullup),
            ("copied", self.copied),
        ]
    }

    /// Of a trace that goes one way, packet by packet.
    ///
    /// # Errors
    /// [`Error::Bad`] if one packet is more than a pool holds.
    pub(super) fn of(path: Path, trace: &Trace) -> Result<Self, Error> {
        Self::on(&pool()?, path, trace)
    }

    /// The same on a pool that was not used before.
    pub(super) fn on(pool: &MbufPool, path: Path, trace: &Trace) -> Result<Self, Error> {
        let bytes = vec![0; trace.longest()];
        let mut api = Api {
            pool,
            calls: Self::default(),
        };
        for frame in &trace.frames {
            let whole = (path.go)(&mut api, *frame, &bytes[..frame.len as usize]);
            whole.map_err(|_| Error::Bad("a packet is more than a pool holds".to_owned()))?;
        }
        let popped = Popped::from(pool);
        let calls = api.calls;
        Ok(Self {
            get: popped.mbufs - popped.larger - calls.gethdr,
            getcl: popped.packets + popped.larger,
            ..calls
        })
    }
}

/// The buffer API with a counter in front of each call.
struct Api<'a> {
    pool: &'a MbufPool,
    calls: Calls,
}

impl Api<'_> {
    /// A device that got clusters beforehand.
    fn getcl(&self, bytes: &[u8]) -> Result<Packet, NoBufs> {
        let mut packet = Packet::with_cluster(self.pool, ClusterSize::K2, 0)?;
        packet.append(self.pool, bytes)?;
        Ok(packet)
    }

    /// A device that copies: into an mbuf alone, if the frame fits.
    fn copied_in(&mut self, bytes: &[u8]) -> Result<Packet, NoBufs> {
        self.calls.gethdr += u64::from(bytes.len() <= MHLEN);
        Packet::from_slice(self.pool, bytes, 0)
    }

    fn pullup(&mut self, packet: &mut Packet, n: usize) -> Result<(), NoBufs> {
        let n = n.min(packet.len());
        self.calls.pullup += 1;
        self.calls.copied += u64::from(packet.front().len() < n);
        match packet.pullup(n) {
            Err(PullupError::NoBufs) => Err(NoBufs),
            // A runt is shorter.
            Ok(_) | Err(PullupError::TooShort) => Ok(()),
        }
    }

    fn prepend(&mut self, packet: &mut Packet, n: usize) -> Result<(), NoBufs> {
        self.calls.prepend += 1;
        packet.prepend(n)?.fill(0);
        Ok(())
    }

    /// As code that keeps a packet for a capture or another path.
    fn share_packet(&mut self, packet: &mut Packet) -> Result<Chain, NoBufs> {
        self.calls.share += 1;
        let len = packet.len();
        packet.share(0, len)
    }

    /// Each layer looks at its header and takes it off; the data comes back as a segment of its own.
    fn echo(&mut self, mut packet: Packet, frame: Frame) -> Result<(), NoBufs> {
        self.pullup(&mut packet, frame.link.into())?;
        packet.trim_front(frame.link.into());
        self.pullup(&mut packet, IP_HEADER)?;
        self.pullup(&mut packet, IP_HEADER + TCP_HEADER)?;
        packet.trim_front(IP_HEADER + TCP_HEADER);
        let mut send_buffer = packet.into_chain();
        let mut segment = self.segment(&mut send_buffer)?;
        self.prepend(&mut segment, TCP_HEADER)?;
        self.prepend(&mut segment, IP_HEADER)?;
        self.prepend(&mut segment, ETHER_HEADER.into())?;
        // Sent; its bytes stay in the send buffer until they are acknowledged.
        drop(segment);
        drop(send_buffer);
        Ok(())
    }

    /// All of the send buffer, behind a fresh mbuf for headers. Without data it is an acknowledgement.
    fn segment(&mut self, send_buffer: &mut Chain) -> Result<Packet, NoBufs> {
        let len = send_buffer.len();
        self.calls.gethdr += 1;
        if len == 0 {
            return Packet::new(self.pool);
        }
        self.calls.share += 1;
        Packet::before_chain(self.pool, send_buffer.share(0, len)?)
    }

    /// A gateway looks at all headers at once, and replaces the first.
    fn forward(&mut self, packet: &mut Packet, frame: Frame) -> Result<(), NoBufs> {
        let link = usize::from(frame.link);
        self.pullup(packet, link + IP_HEADER + TCP_HEADER)?;
        packet.trim_front(link);
        self.prepend(packet, ETHER_HEADER.into())
    }
}
