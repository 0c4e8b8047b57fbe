//! The payload of a datagram to send: a chain, or bytes that are copied into one.

use mbuf::{Chain, MHLEN, MLEN, MbufPool, NoBufs, Packet};
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
        let behind_room = || Packet::from_slice(pool, self, HEADERS_MAX).map(Packet::into_chain);
        let chain = match self.len() {
            // Two mbufs: one with room for headers would need a cluster.
            len if len + HEADERS_MAX > MHLEN && len <= MLEN => Chain::from_slice(pool, self),
            // With room before the bytes, the headers need no mbuf of their own.
            _ => behind_room(),
        };
        chain.map_err(|NoBufs| SendError::NoBufs)
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
