//! The payload of a datagram to send: a chain, or bytes that are copied into one.

use mbuf::{Chain, MbufPool, NoBufs, Packet};
use wire::{EtherHeader, Ipv6Header, UdpHeader};

use super::SendError;

/// Bytes of the headers that a datagram gets.
const HEADERS_MAX: usize = EtherHeader::LEN + Ipv6Header::LEN + UdpHeader::LEN;

/// A chain, which is moved, or bytes, which are copied.
pub trait IntoPayload {
    /// The chain. `pool` is that of the stack; a chain must be allocated from it.
    ///
    /// # Errors
    /// [`SendError::NoBufs`].
    fn into_payload(self, pool: &MbufPool) -> Result<Chain, SendError>;
}

impl IntoPayload for Chain {
    #[inline]
    fn into_payload(self, _: &MbufPool) -> Result<Chain, SendError> {
        Ok(self)
    }
}

impl IntoPayload for &[u8] {
    fn into_payload(self, pool: &MbufPool) -> Result<Chain, SendError> {
        // With room before the bytes, the headers need no mbuf of their own.
        let packet = Packet::from_slice(pool, self, HEADERS_MAX);
        let packet = packet.map_err(|NoBufs| SendError::NoBufs)?;
        Ok(packet.into_chain())
    }
}

impl IntoPayload for &Vec<u8> {
    fn into_payload(self, pool: &MbufPool) -> Result<Chain, SendError> {
        self.as_slice().into_payload(pool)
    }
}

impl<const N: usize> IntoPayload for &[u8; N] {
    fn into_payload(self, pool: &MbufPool) -> Result<Chain, SendError> {
        self.as_slice().into_payload(pool)
    }
}
