//! A device that notes where the bytes lie that go through it, and loses frames by chance.
//!
//! Locks: none held over a call, but `landing` over its pool's.
//!
//! ```text
//!   transmit   is each payload byte in a known cluster?  ->  lost, or into the device
//!   receive    out of the device -> as it is, or copied into clusters that lie ready: known from now on
//! ```

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};

use kern::Random;
use mbuf::{Chain, MbufPool, Mbufq, Packet, Scatter};
use mbuma::device::{Budget, Capabilities, Device};
use wire::{EtherHeader, EtherType, IpProto, Ipv4Header, UdpHeader};

/// The longest frame.
const FRAME_MAX: usize = EtherHeader::LEN + u16::MAX as usize;

/// Where programs and devices put payload: from which address to which.
#[derive(Debug, Default)]
pub(crate) struct Known(Mutex<BTreeMap<usize, usize>>);

impl Known {
    /// Payload was put here.
    pub(crate) fn add(&self, chain: &Chain) {
        let mut known = self.0.lock().unwrap();
        for bytes in chain.segments() {
            let from = bytes.as_ptr().addr();
            let end = known.entry(from).or_default();
            *end = (*end).max(from + bytes.len());
        }
    }

    /// The number of bytes at addresses where no writer put them: the stack must have copied them.
    pub(crate) fn strayed<'a>(&self, pieces: impl Iterator<Item = &'a [u8]>) -> usize {
        let known = self.0.lock().unwrap();
        let is_known = |bytes: &[u8]| {
            let from = bytes.as_ptr().addr();
            let at = known.range(..=from).next_back();
            at.is_some_and(|(_, &end)| from + bytes.len() <= end)
        };
        pieces.filter(|p| !is_known(p)).map(<[u8]>::len).sum()
    }
}

/// The frames that were transmitted.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Seen {
    /// Payload bytes.
    pub(crate) passed: usize,
    /// Those of them at addresses where the writer had not put them.
    pub(crate) strayed: usize,
    /// Frames that were fragments.
    pub(crate) fragments: usize,
    /// Bytes of the largest frame.
    pub(crate) largest: usize,
    /// Frames that were not lost.
    pub(crate) sent: usize,
    /// Frames that came in.
    pub(crate) received: usize,
}

/// The device.
#[derive(Debug)]
pub(crate) struct Recorder {
    device: Box<dyn Device>,
    /// Where received frames go to; without, they stay what they are.
    landing: Option<(MbufPool, Mutex<Scatter>)>,
    known: Arc<Known>,
    luck: Mutex<Random>,
    loss: f64,
    seen: Mutex<Seen>,
}

impl Recorder {
    /// Around one end of a pair; `pool` is what received frames land in.
    pub(crate) fn new(
        device: Box<dyn Device>,
        pool: Option<&MbufPool>,
        known: &Arc<Known>,
        luck: Random,
        loss: f64,
    ) -> Self {
        let landing = pool.map(|pool| {
            let row = Scatter::for_len(pool, FRAME_MAX);
            (pool.clone(), Mutex::new(row))
        });
        Self {
            device,
            landing,
            known: Arc::clone(known),
            luck: Mutex::new(luck),
            loss,
            seen: Mutex::default(),
        }
    }

    /// The frames that were transmitted so far.
    pub(crate) fn seen(&self) -> Seen {
        *self.seen.lock().unwrap()
    }

    fn note(&self, packet: &Packet, front: &Front) {
        let mut seen = self.seen.lock().unwrap();
        seen.strayed += self.known.strayed(packet.segments_from(front.headers_len));
        seen.passed += packet.len() - front.headers_len;
        seen.fragments += usize::from(front.is_fragment);
        seen.largest = seen.largest.max(packet.len());
    }

    fn is_lost(&self) -> bool {
        self.luck.lock().unwrap().chance(self.loss)
    }

    /// The same frame in clusters that lay ready, as `readv` on a TAP would have it.
    fn land(&self, packet: Packet) -> Packet {
        let Some((pool, row)) = &self.landing else {
            return packet;
        };
        let mut row = row.lock().unwrap();
        row.refill().expect("clusters");
        let bytes = packet.to_vec();
        row.read(&mut [], bytes.len(), |slices| {
            let mut rest = bytes.as_slice();
            for slice in slices {
                let (here, later) = rest.split_at(slice.len());
                slice.copy_from_slice(here);
                rest = later;
            }
        });
        let chain = row.take(bytes.len());
        self.known.add(&chain);
        let mut landed = chain.into_packet(pool).expect("mbufs");
        *landed.header_mut() = *packet.header();
        landed
    }
}

impl Device for Recorder {
    fn capabilities(&self) -> Capabilities {
        self.device.capabilities()
    }

    fn detached(&self) -> usize {
        self.device.detached()
    }

    fn receive(&self, rx: &mut Mbufq, budget: Budget) -> io::Result<bool> {
        let mut arrived = Mbufq::new();
        let more = self.device.receive(&mut arrived, budget)?;
        self.seen.lock().unwrap().received += arrived.len();
        arrived.for_each(|p| rx.enqueue(self.land(p)));
        Ok(more)
    }

    fn transmit(&self, tx: &mut Mbufq) -> io::Result<usize> {
        let mut out = Mbufq::new();
        while let Some(packet) = tx.dequeue() {
            let front = Front::of(&packet);
            if let Some(front) = &front {
                self.note(&packet, front);
            }
            // The wire loses no ARP frame: a sender whose host does not answer is sent an ICMP error, whose
            // quotation is copied.
            if front.is_none() || !self.is_lost() {
                out.enqueue(packet);
            }
        }
        self.seen.lock().unwrap().sent += out.len();
        let refused = self.device.transmit(&mut out)?;
        assert!(
            out.is_empty() && refused == 0,
            "the other end reads after each turn"
        );
        Ok(0)
    }
}

/// The fields in a frame's own bytes, without the stack's metadata about it.
struct Front {
    headers_len: usize,
    is_fragment: bool,
}

impl Front {
    /// `None` for what is not IPv4.
    fn of(packet: &Packet) -> Option<Self> {
        let mut bytes = [0; 128];
        let n = packet.len().min(bytes.len());
        packet.copy_to(0, &mut bytes[..n]);
        let (ether, _) = EtherHeader::parse(&bytes[..n]).ok()?;
        if ether.ethertype() != EtherType::IPV4 {
            return None;
        }
        let ip = Ipv4Header::parse(&bytes[EtherHeader::LEN..n]).ok()?;
        let l4 = EtherHeader::LEN + ip.header_len();
        let l4_len = match ip.protocol() {
            _ if ip.frag_offset() != 0 => 0,
            IpProto::TCP => usize::from(bytes[l4 + 12] >> 4) * 4,
            IpProto::UDP => UdpHeader::LEN,
            other => panic!("nobody sends {other:?} here"),
        };
        Some(Self {
            headers_len: l4 + l4_len,
            is_fragment: ip.is_fragment(),
        })
    }
}
