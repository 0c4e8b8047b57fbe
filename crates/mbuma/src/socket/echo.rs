//! Sockets that answer pings to foreign addresses.
//!
//! Locks: none held over a call.
//! Sources: RFC 792, RFC 1122 section 3.2.2.6.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::task::Waker;

use mbuf::Chain;
use wire::{Icmp6Header, Icmp6Message, IcmpHeader, IcmpMessage, IpProto, pseudo_header_v6};

use super::udp::{BindError, RecvError};
use crate::icmp;
use crate::icmp::echo::EchoPcb;
use crate::icmp::output::Original;
use crate::icmp6;

use crate::ifnet::IfIndex;
use crate::inet::Ends;
use crate::ip::{self, IcmpError, QUOTE_MAX, Service};
use crate::ip6::output::Send6;
use crate::stack::Stack;

pub use crate::icmp::echo::Echo;

/// Receives the pings to foreign addresses on one interface (RFC 792, RFC 1122 section 3.2.2.6). Clones are handles on
/// the same socket; after the drop of the last one, the stack drops such pings again.
#[derive(Clone)]
pub struct EchoSocket(Arc<BoundEcho>);

/// The part that the handles share.
struct BoundEcho {
    stack: Stack,
    pcb: Arc<EchoPcb>,
}

impl Drop for BoundEcho {
    fn drop(&mut self) {
        let _giant = self.stack.0.enter_giant();
        self.stack.0.icmp.release(&self.pcb);
        self.pcb.queue.close(self.stack.0.giant());
    }
}

impl Stack {
    /// Takes over the pings to foreign addresses that come in by `index`, an interface that accepts any address. The
    /// stack itself answers pings to its own addresses.
    ///
    /// # Errors
    /// There is no such interface, or another socket has its pings already.
    pub fn icmp_echo_any(&self, index: IfIndex) -> Result<EchoSocket, BindError> {
        let pcb = Arc::new(EchoPcb::new(index));
        let giant = self.0.enter_giant();
        if !self.0.icmp.intercept(&pcb) {
            return Err(BindError::AddrInUse);
        }
        drop(giant);
        let socket = EchoSocket(Arc::new(BoundEcho {
            stack: self.clone(),
            pcb,
        }));
        // Afterwards, because the interface may be detached meanwhile.
        let is_there = self.0.interface(index).is_some();
        is_there.then_some(socket).ok_or(BindError::NoInterface)
    }
}

impl EchoSocket {
    /// The oldest ping that arrived.
    ///
    /// # Errors
    /// [`RecvError::WouldBlock`]: there is none now; [`RecvError::NoInterface`]: the interface was detached.
    pub fn recv(&self) -> Result<Echo, RecvError> {
        let queue = &self.0.pcb.queue;
        let oldest = queue.pop(self.0.stack.0.giant(), None);
        oldest
            .map(Echo::from)
            .ok_or_else(|| RecvError::of_empty(queue))
    }

    /// Answers `echo` in the name of the pinged host; `payload` is that host's answer.
    pub fn reply(&self, echo: &Echo, payload: Chain) {
        let message = IcmpMessage::EchoReply {
            id: echo.id,
            seq: echo.seq,
        };
        let stack = &self.0.stack.0;
        match (echo.dst, echo.src) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                let service = Service::of(IpProto::ICMP);
                let to = ip::Send { src, dst, service };
                stack.enter(|batch| icmp::output::send(batch, message, payload, &to));
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                let service = Service::of(IpProto::ICMPV6);
                let to = Send6 {
                    send: ip::Send { src, dst, service },
                    zone: 0,
                    flow_label: 0,
                };
                let message = Icmp6Message::EchoReply {
                    id: echo.id,
                    seq: echo.seq,
                };
                stack.enter(|batch| icmp6::output::send(batch, message, payload, &to));
            }
            // Both addresses are from one packet, so they are of one version.
            _ => {}
        }
    }

    /// Sends the sender of `echo` an error that quotes it. An `echo` that can't have arrived, because it is too large
    /// or has addresses of two versions, causes no error.
    pub fn refuse(&self, echo: &Echo, kind: IcmpError) {
        let at = |ip| SocketAddr::new(ip, 0);
        let Some(ends) = Ends::between(at(echo.dst), at(echo.src)) else {
            return;
        };
        let Some((front, len)) = quote(echo, &ends) else {
            return;
        };
        let original = Original {
            ends,
            proto: match ends {
                Ends::V4(_) => IpProto::ICMP,
                Ends::V6(..) => IpProto::ICMPV6,
            },
            ttl: echo.ttl,
            len,
            front: &front,
        };
        let stack = &self.0.stack.0;
        stack.enter(|batch| icmp::output::error_about_original(batch, &original, kind));
    }

    /// Sets the waker for a ping that arrives at an empty queue; it is called at once if one is waiting now. It stays
    /// until another takes its place.
    pub fn set_waker(&self, waker: Option<Waker>) {
        let queue = &self.0.pcb.queue;
        let now = queue.set_waker(self.0.stack.0.giant(), waker);
        now.into_iter().for_each(Waker::wake);
    }
}

kern::impl_debug!(EchoSocket |this| iface: this.0.pcb.iface);

/// The part of the received ping that an error quotes, and the ping's length with its header.
fn quote(echo: &Echo, ends: &Ends) -> Option<(Vec<u8>, u16)> {
    let len = Original::len_of(ends, IcmpHeader::LEN + echo.payload.len())?;
    let mut bytes = vec![0; usize::from(len).min(QUOTE_MAX)];
    let (header_bytes, data) = bytes.split_at_mut(IcmpHeader::LEN);
    emit_header(echo, len, header_bytes);
    echo.payload.copy_to(0, data);
    Some((bytes, len))
}

/// Writes the ping's header, which has the same length in both versions.
fn emit_header(echo: &Echo, len: u16, out: &mut [u8]) {
    let (id, seq) = (echo.id, echo.seq);
    let data = echo.payload.segments();
    match (echo.src, echo.dst) {
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let pseudo = pseudo_header_v6(src, dst, IpProto::ICMPV6, u32::from(len));
            let message = Icmp6Message::EchoRequest { id, seq };
            Icmp6Header::new(message, pseudo, data).emit(out);
        }
        _ => _ = IcmpHeader::new(IcmpMessage::EchoRequest { id, seq }, data).emit(out),
    }
}
