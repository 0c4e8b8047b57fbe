//! Urgent data, as the user of a connection sees it.

use super::{TcpStream, may_send};
use crate::error::SocketError;
use crate::tcp::urgent;

impl TcpStream {
    /// As [`TcpStream::send`]; the stack announces at once that urgent data ends after these bytes, even if the peer's
    /// window is closed. They stay in the stream, in their order. (RFC 6093 advises against new uses.)
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

    /// Bytes to read until the end of the peer's urgent data; some of them may not have arrived. `Some(0)` at the end
    /// itself, `None` if there is no urgent data. A read never crosses that end. The waker is called when urgent data
    /// comes, and when its end moves.
    #[doc(alias = "sockatmark")]
    #[doc(alias = "SIOCATMARK")]
    #[doc(alias = "SO_OOBINLINE")]
    pub fn urgent_unread(&self) -> Option<usize> {
        urgent::unread(&self.pcb.lock(self.stack.giant()))
    }
}
