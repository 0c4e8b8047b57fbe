//! Puts data into the send buffer: mbufs, copies of bytes, files.
//!
//! Locks: the connection's.

use std::time::Duration;

use mbuf::{Chain, ClusterSize, MbufPool, Mixed};

use super::rules::{close_send, may_write, room, room_worth_a_write, wait_for};
use super::{SendRoom, TcpStream, fail};
use crate::error::SocketError;
use crate::sockbuf::BYTES_MAX;
use crate::socket::send_file::{FileRoom, FileSink, SendFileError};
use crate::state::StackState;
use crate::tcp::output;
use crate::tcp::pcb::Tcb;
use crate::waiters::{WaitBy, Want};

/// What follows the sent bytes, according to the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Behind {
    /// It does not say.
    Nothing,
    /// More of the same message.
    More,
    /// Another record.
    RecordEnd,
}

impl TcpStream {
    /// Copies as much of `bytes` into the send buffer as it takes; returns how much.
    ///
    /// # Errors
    /// [`SocketError::WouldBlock`] if it takes nothing now; the error that ended the connection.
    pub fn send(&self, bytes: &[u8]) -> Result<usize, SocketError> {
        self.give(bytes, None)
    }

    /// Copies all of `bytes` into the send buffer, waiting for room; each wait may take `timeout`. Returns the number
    /// of bytes taken: all of them, unless an error came in between.
    ///
    /// # Errors
    /// If none were taken: [`SocketError::TimedOut`] when the time is over, or the error that ended the connection.
    pub fn send_blocking(
        &self,
        bytes: &[u8],
        timeout: Option<Duration>,
    ) -> Result<usize, SocketError> {
        send_all(bytes, |rest| {
            self.blocking(Want::Write, timeout, |waiting| self.give(rest, waiting))
        })
    }

    /// Copies as much of `bytes` into the send buffer as it takes, and says that more follows: a segment that is not
    /// full waits for the next call of [`send`](Self::send), for 200 ms at most.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    #[doc(alias = "MSG_MORE")]
    pub fn send_more(&self, bytes: &[u8]) -> Result<usize, SocketError> {
        self.copy_in(bytes, Behind::More, None)
    }

    /// Copies as much of `bytes` into the send buffer as it takes. If it takes all, a record ends there: no segment has
    /// bytes of two records, and the last segment of a record has PSH.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    #[doc(alias = "MSG_EOR")]
    pub fn send_record(&self, bytes: &[u8]) -> Result<usize, SocketError> {
        self.copy_in(bytes, Behind::RecordEnd, None)
    }

    /// Moves all of `data` into the send buffer. The caller checks [`TcpStream::send_space`] first, and may exceed it
    /// by less than one chain.
    ///
    /// # Errors
    /// The chain comes back with [`SocketError::WouldBlock`] if the buffer is full, with [`SocketError::NoBufs`] if it
    /// has a GiB or more, or with the error that ended the connection.
    pub fn send_chain(&self, data: Chain) -> Result<(), (SocketError, Chain)> {
        self.put_chain(data, |_| {})
    }

    /// [`send_chain`](Self::send_chain), and then [`shutdown`](Self::shutdown) of the sending side, in one entry: the
    /// last segment of the data has the FIN, which after two entries may be a segment of its own.
    ///
    /// # Errors
    /// As of `send_chain`; the sending side is then still open.
    pub fn send_last_chain(&self, data: Chain) -> Result<(), (SocketError, Chain)> {
        self.put_chain(data, |t| close_send(t, None))
    }

    fn put_chain(
        &self,
        data: Chain,
        then: impl FnOnce(&mut Tcb),
    ) -> Result<(), (SocketError, Chain)> {
        if data.len() >= BYTES_MAX {
            return Err((SocketError::NoBufs, data));
        }
        self.with(|t| match room(t) {
            Ok(_) => {
                t.set_more_follows(false);
                t.send.buf.append(&self.stack.pool, data);
                then(t);
                Ok(())
            }
            Err(e) => Err((e, data)),
        })
    }

    pub(in crate::socket) fn give(
        &self,
        bytes: &[u8],
        waiting: Option<WaitBy<'_>>,
    ) -> Result<usize, SocketError> {
        self.copy_in(bytes, Behind::Nothing, waiting)
    }

    fn copy_in(
        &self,
        bytes: &[u8],
        behind: Behind,
        waiting: Option<WaitBy<'_>>,
    ) -> Result<usize, SocketError> {
        let pool = &self.stack.pool;
        self.with(|t| {
            let room = match waiting {
                Some(_) => room_worth_a_write(t, bytes.len()),
                None => room(t),
            };
            let room = room.inspect_err(|e| wait_for(t, Want::Write, *e, waiting))?;
            let fits = bytes.get(..room.min(bytes.len())).unwrap_or_default();
            if behind != Behind::Nothing {
                t.conn.options.get_or_insert_default();
            }
            if let Some(options) = &mut t.conn.options {
                options.more_follows = behind == Behind::More;
            }
            t.send
                .buf
                .extend_from_slice(pool, fits)
                .map_err(|_| SocketError::NoBufs)?;
            let end = t.write_seq();
            if let Some(options) = &mut t.conn.options
                && behind == Behind::RecordEnd
                && fits.len() == bytes.len()
            {
                options.records.add(end);
            }
            Ok(fits.len())
        })
    }

    /// Bytes that the send buffer takes now; 0 once nothing more may be sent.
    pub fn send_space(&self) -> usize {
        room(&self.pcb.lock(self.stack.giant())).unwrap_or(0)
    }

    /// Bytes delivered to the peer so far, as [`TcpInfo::delivered`](crate::socket::TcpInfo::delivered).
    pub fn delivered(&self) -> u64 {
        self.pcb.lock(self.stack.giant()).send.rate.delivered()
    }

    /// The room of the send buffer, with the size of one packet: a relay that reads in these units sends no small
    /// packet after each large one.
    pub fn send_room(&self) -> SendRoom {
        let t = self.pcb.lock(self.stack.giant());
        let buffered = t.send.buf.claimed();
        SendRoom {
            bytes: room(&t).unwrap_or(0),
            mss: t.send.mss as usize,
            packet: output::large_payload_max(&t) as usize,
            buffered,
            window: (t.send.wnd as usize).saturating_sub(buffered),
        }
    }
}

/// Sends `bytes` by calls of `send`, and returns the number of bytes taken.
///
/// # Errors
/// That of the first call, if it took none.
pub(in crate::socket) fn send_all<E>(
    bytes: &[u8],
    mut send: impl FnMut(&[u8]) -> Result<usize, E>,
) -> Result<usize, E> {
    let mut sent = 0;
    while let Some(rest) = bytes.get(sent..).filter(|rest| !rest.is_empty()) {
        match send(rest) {
            Ok(n) => sent += n,
            Err(e) if sent == 0 => return Err(e),
            Err(_) => break,
        }
    }
    Ok(sent)
}

impl FileSink for TcpStream {
    fn pool(&self) -> &MbufPool {
        TcpStream::pool(self)
    }

    fn timeout(&self) -> Option<Duration> {
        self.call_timeout(Want::Write)
    }

    fn stack(&self) -> Option<&StackState> {
        Some(&self.stack)
    }

    fn fail(&self) {
        fail(&self.side());
    }

    fn room(&self, wanted: usize, waiting: Option<WaitBy<'_>>) -> Result<FileRoom, SendFileError> {
        let bytes = self.peek_at(|t| {
            may_write(t).inspect_err(|e| wait_for(t, Want::Write, *e, waiting))?;
            let bytes = t.send.buf.space();
            // A writer is woken when half of the buffer is free.
            match bytes < wanted.min(t.send.buf.hiwat() / 2).max(1) {
                true => {
                    wait_for(t, Want::Write, SocketError::WouldBlock, waiting);
                    Err(SocketError::WouldBlock)
                }
                false => Ok(bytes),
            }
        })?;
        Ok(FileRoom {
            bytes,
            piece: ClusterSize::K16.bytes(),
        })
    }

    fn put(&self, pieces: Vec<Chain<Mixed>>, more: bool) -> Result<(), SendFileError> {
        self.with(|t| {
            may_write(t)?;
            t.set_more_follows(more);
            for piece in pieces {
                t.send.buf.append_mixed(&self.stack.pool, piece);
            }
            Ok(())
        })
    }
}
