//! A place in a stream whose contents come later, from a disk or another program: later data waits for them, and so
//! does the FIN.
//!
//! Invariant: a claim ends when it is filled, or with the connection. Locks: the connection's. Source: M_NOTREADY and
//! pr_ready of FreeBSD.

use mbuf::Chain;

use super::super::SocketError;
use super::super::splice::TcpSide;
use super::{TcpStream, may_write};
use crate::sockbuf::{BYTES_MAX, ClaimId};
use crate::tcp::reset::EndReset;
use crate::tcp::{reset, visit};

/// A claim on a connection's stream (M_NOTREADY of FreeBSD). It may outlive the [`TcpStream`]. Dropping it unfilled
/// ends the connection, because promised bytes can't be sent: the peer gets a reset, and the stream's user
/// [`SocketError::Io`].
#[must_use = "dropping it ends the connection"]
#[doc(alias = "M_NOTREADY")]
pub struct SendClaim {
    side: TcpSide,
    len: usize,
    id: Option<ClaimId>,
}

impl TcpStream {
    /// Reserves the place of the next `len` bytes of the stream, which any thread may [fill](SendClaim::fill) at any
    /// time. They use room in the buffer.
    ///
    /// # Errors
    /// [`SocketError::WouldBlock`] if the buffer is full, or the error that ended the connection. A claim may exceed
    /// the room by less than its length, as a chain may. [`SocketError::NoBufs`] for a GiB or more.
    pub fn claim(&self, len: u32) -> Result<SendClaim, SocketError> {
        if len as usize >= BYTES_MAX {
            return Err(SocketError::NoBufs);
        }
        let id = self.with(|t| {
            may_write(t)?;
            match t.send.buf.space() {
                0 => Err(SocketError::WouldBlock),
                _ => Ok(t.send.buf.claim(len)),
            }
        })?;
        Ok(SendClaim {
            side: self.side(),
            len: len as usize,
            id: Some(id),
        })
    }
}

impl SendClaim {
    /// Bytes to be filled.
    pub fn len(&self) -> usize {
        self.len
    }

    /// No bytes at all.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Puts the contents in their place.
    ///
    /// # Errors
    /// The error that ended the connection meanwhile. If `data` has another length: [`SocketError::Io`], and the
    /// connection ends now.
    pub fn fill(mut self, data: Chain) -> Result<(), SocketError> {
        if data.len() != self.len {
            return Err(SocketError::Io);
        }
        let Some(id) = self.id.take() else {
            return Err(SocketError::Closed);
        };
        let pcb = &self.side.pcb;
        self.side.stack.enter(|batch| {
            let mut t = visit::begin(pcb);
            let filled = t.send.buf.fill(&id, data.into());
            let error = t.conn.error.unwrap_or(SocketError::Closed);
            visit::end(batch, pcb, t);
            filled.map_err(|_| error)
        })
    }
}

impl Drop for SendClaim {
    fn drop(&mut self) {
        if self.id.take().is_some() {
            fail(&self.side);
        }
    }
}

/// Ends a connection whose data can't be read, with a reset.
pub(in crate::socket) fn fail(side: &TcpSide) {
    side.stack.enter(|batch| {
        let mut t = visit::begin(&side.pcb);
        let tell = t.conn.state.is_synchronized();
        let reset = EndReset::of(&t, batch.now);
        t.close(Some(SocketError::Io));
        visit::end_later(batch, &side.pcb, t);
        if tell {
            reset::send(batch, side.pcb.ends(), reset);
        }
    });
}

kern::impl_debug!(SendClaim |this| len: this.len);
