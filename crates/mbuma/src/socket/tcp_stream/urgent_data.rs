//! Urgent data, as the user of a connection sees it.

use super::{TcpStream, may_send};
use crate::error::SocketError;
use crate::tcp::urgent;

impl TcpStream {
    /// As [`TcpStream::send`]; the peer is told at once that urgent data ends behind these bytes, even if its window is
    /// closed. They stay in the stream, in their order. (RFC 6093 advises against new uses.)
    ///
    /// # Errors
    /// As [`TcpStream::send`].
    #[doc(alias = "MSG_OOB")]
    pub fn send_urgent(&self, bytes: &[u8]) -> Result<usize, SocketError> {
        self.with(|t| {
            may_send(t)?;
            let n = t.send.buf.space().min(bytes.len());
            if n == 0 {
                return Err(SocketError::WouldBlock);
            }
            let fits = bytes.get(..n).unwrap_or_default();
            let added = t.send.buf.extend_from_slice(&self.stack.pool, fits);
            added.map_err(|_| SocketError::NoBufs)?;
            urgent::mark_sent(t);
            Ok(n)
        })
    }

    /// Bytes that are to be read until the peer's urgent data ends; some of them may not have arrived. `Some(0)` at the
    /// end itself, `None` where there is no urgent data. No read returns bytes of both sides of the end. The waker is
    /// called when there is urgent data, and when its end moves on.
    #[doc(alias = "sockatmark")]
    #[doc(alias = "SIOCATMARK")]
    #[doc(alias = "SO_OOBINLINE")]
    pub fn urgent_unread(&self) -> Option<usize> {
        urgent::unread(&self.pcb.lock(self.stack.giant()))
    }
}
