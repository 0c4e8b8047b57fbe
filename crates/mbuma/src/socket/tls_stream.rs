//! A connection that speaks TLS, as its user sees it: [`TcpStream`] with records in between.
//!
//! Data is framed when it goes into the send buffer and sealed when it is first transmitted, under the connection's
//! lock, by the thread that sends. Received data stays encrypted in the receive buffer, where it counts against the
//! window, and is opened by the reader. So the codec is a part of the connection's control block, and no thread does
//! only the work of TLS.
//!
//! The end of a stream is close_notify; a FIN without it is [`TlsError::Truncated`].
//!
//! Locks: as [`TcpStream`].
//! Sources: RFC 8446 5 and 6.1; sockets with TCP_TXTLS_ENABLE and TCP_RXTLS_ENABLE of FreeBSD.

use std::net::{Shutdown, SocketAddr};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use mbuf::{Chain, ClusterSize, MbufPool, Mixed};

use super::SocketError;
use super::attempt::{blocking, polled};
use super::send_file::{FileRoom, FileSink, SendFileError, sends_files};
use super::tcp_stream::{
    TcpStream, close_send, fail, is_source, may_send, may_write, send_all, wait_for,
};
use crate::sockbuf::BYTES_MAX;
use crate::state::StackState;
use crate::tcp::pcb::Tcb;
use crate::tls::{TlsCounts, TlsError, TlsKeys, TlsSession, TlsVersion};
use crate::waiters::{WaitBy, Want};

#[cfg(feature = "tls")]
mod handshake;
mod read;

pub(super) use read::{after_read, content};

#[cfg(feature = "tls")]
pub use handshake::{HandshakeError, TlsHandshake};

/// A TLS connection behind its handshake (RFC 8446 sections 5 and 6.1, RFC 5246). Dropping it says close_notify and
/// closes the connection: what is in the send buffer is still delivered.
pub struct TlsStream {
    tcp: TcpStream,
    about: TlsAbout,
}

/// The results of the handshake, besides keys (RFC 8446 section 4). `Debug` shows the lengths of certificates.
#[derive(Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TlsAbout {
    /// The protocol above (RFC 7301).
    pub alpn: Option<Vec<u8>>,
    /// The certificates that the peer showed, its own first, in DER. The handshake's configuration has judged them.
    pub peer_certificates: Vec<Vec<u8>>,
}

kern::impl_debug!(TlsAbout |this|
    alpn: this.alpn.as_deref().map(String::from_utf8_lossy),
    peer_certificates: this.peer_certificates.iter().map(Vec::len).collect::<Vec<_>>(),
);

impl TlsStream {
    /// Goes over to TLS, both directions at once: what is in the receive buffer is the peer's first records, and what
    /// is sent from now on is records. The handshake's last bytes are in the send buffer already. A splice that the
    /// connection is an end of has ended.
    #[doc(alias = "TCP_TXTLS_ENABLE")]
    #[doc(alias = "TCP_RXTLS_ENABLE")]
    pub fn new(tcp: TcpStream, keys: TlsKeys, about: TlsAbout) -> Self {
        super::splice::side_dropped(&tcp.side());
        let session = Box::new(TlsSession::new(keys));
        tcp.with(|t| t.conn.attached.get_or_insert_default().tls = Some(session));
        Self { tcp, about }
    }

    /// The connection below, for a splice.
    pub(super) fn tcp(&self) -> &TcpStream {
        &self.tcp
    }

    /// The results of the handshake, besides keys.
    pub fn about(&self) -> &TlsAbout {
        &self.about
    }

    /// The version of TLS.
    pub fn version(&self) -> Option<TlsVersion> {
        self.with_session(|tls| tls.version())
    }

    /// Counts of records and key changes; zeros once the connection is closed.
    pub fn counts(&self) -> TlsCounts {
        self.with_session(|tls| tls.counts()).unwrap_or_default()
    }

    fn with_session<R>(&self, f: impl FnOnce(&TlsSession) -> R) -> Option<R> {
        self.tcp.peek_at(|t| t.conn.tls().map(f))
    }

    /// Sets the waker for any change.
    pub fn set_waker(&self, waker: Option<Waker>) {
        self.tcp.set_waker(waker);
    }

    /// Copies as much of `bytes` into records in the send buffer as it takes; returns how much.
    ///
    /// # Errors
    /// [`SocketError::WouldBlock`] if it takes nothing now; why nothing can be sent.
    pub fn send(&self, bytes: &[u8]) -> Result<usize, TlsError> {
        self.give(bytes, None)
    }

    /// Copies all of `bytes` into records, waiting for room; each wait may take `timeout`. Returns how many were taken
    /// when nothing more could be.
    ///
    /// # Errors
    /// [`SocketError::TimedOut`] when the time is over, or why nothing can be sent, if none were taken.
    pub fn send_blocking(
        &self,
        bytes: &[u8],
        timeout: Option<Duration>,
    ) -> Result<usize, TlsError> {
        send_all(bytes, |rest| {
            let timeout = || timeout.or_else(|| self.tcp.call_timeout(Want::Write));
            let stack = Some(&*self.tcp.stack);
            blocking(stack, timeout, |waiting| self.give(rest, waiting))
        })
    }

    /// As [`TlsStream::send`], for a task, which is woken when there is room.
    ///
    /// # Errors
    /// As there, except [`SocketError::WouldBlock`].
    pub fn poll_write(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize, TlsError>> {
        polled(Some(&self.tcp.stack), cx, |waiting| {
            self.give(bytes, waiting)
        })
    }

    fn give(&self, bytes: &[u8], waiting: Option<WaitBy<'_>>) -> Result<usize, TlsError> {
        let pool = self.tcp.pool();
        self.tcp.with(|t| {
            let n = room(t, bytes.len(), waiting)?.min(bytes.len());
            t.set_more_follows(false);
            let piece = session(t)?.content_max();
            let mut sent = 0;
            for part in bytes.get(..n).unwrap_or_default().chunks(piece) {
                match Chain::from_slice(pool, part) {
                    Ok(copy) => append(t, copy.into())?,
                    Err(_) if sent > 0 => break,
                    Err(e) => return Err(e.into()),
                }
                sent += part.len();
            }
            Ok(sent)
        })
    }

    /// Bytes of content that the send buffer takes now; 0 once nothing more may be sent.
    pub fn send_space(&self) -> usize {
        let space = |t: &mut Tcb| {
            let tls = t.conn.tls()?;
            let open = may_write(t).is_ok() && tls.may_frame().is_ok();
            open.then(|| tls.content_for(t.send.buf.space()))
        };
        self.tcp.peek_at(space).unwrap_or(0)
    }

    /// Moves `data` into records in the send buffer, all of it; it is not copied until it is encrypted. As of
    /// [`TcpStream::send_chain`], the caller asks for room first and may go over it by less than one chain.
    ///
    /// # Errors
    /// The chain comes back with [`SocketError::WouldBlock`] if the buffer is full, with [`SocketError::NoBufs`] if it
    /// has half a GiB or more, or with why nothing can be sent.
    pub fn send_chain(&self, data: Chain) -> Result<(), (TlsError, Chain)> {
        // Small content would double its length as records; so large a chain is cut into full ones.
        if data.len() >= BYTES_MAX / 2 {
            return Err((SocketError::NoBufs.into(), data));
        }
        self.tcp.with(|t| {
            let mut data = data;
            if let Err(e) = room(t, 1, None) {
                return Err((e, data));
            }
            t.set_more_follows(false);
            frame_chain(t, &mut data).map_err(|e| (e, data))
        })
    }

    /// Changes the key to send with, behind the content of the send buffer (RFC 8446 section 4.6.3); if `request` says
    /// so, the peer is asked to change its own too. The stack does it by itself before a key is worn out.
    ///
    /// # Errors
    /// TLS 1.2 has no change of keys ([`TlsError::KeyWornOut`]); this direction is closed.
    pub fn update_key(&self, request: bool) -> Result<(), TlsError> {
        self.tcp.with(|t| {
            session(t)?.update_key(request)?;
            flush(t);
            Ok(())
        })
    }

    /// Ends one direction or both. `Write` says close_notify and sends a FIN behind what is in the send buffer; `Read`
    /// is [`TcpStream::shutdown`]'s.
    pub fn shutdown(&self, how: Shutdown) {
        if how != Shutdown::Read {
            self.tcp.with(|t| {
                if may_send(t).is_ok() {
                    say_end(t);
                }
            });
        }
        if how != Shutdown::Write {
            self.tcp.shutdown(Shutdown::Read);
        }
    }

    /// Ends the connection at once: the peer gets a reset, buffers are dropped.
    pub fn abort(&self) {
        self.tcp.abort();
    }
}

/// The connection below: all but its data.
impl TlsStream {
    /// Our end.
    pub fn local_addr(&self) -> SocketAddr {
        self.tcp.local_addr()
    }

    /// The other end.
    pub fn peer_addr(&self) -> SocketAddr {
        self.tcp.peer_addr()
    }

    /// Figures about it. Bytes are those of records.
    pub fn info(&self) -> crate::tcp::TcpInfo {
        self.tcp.info()
    }

    /// See [`TcpStream::send_room`]. Bytes are those of records.
    pub fn send_room(&self) -> super::SendRoom {
        self.tcp.send_room()
    }

    /// Its state.
    pub fn state(&self) -> crate::tcp::State {
        self.tcp.state()
    }

    /// Why it ended before its time, if it did.
    pub fn error(&self) -> Option<SocketError> {
        self.tcp.error()
    }

    /// See [`TcpStream::set_nodelay`].
    pub fn set_nodelay(&self, on: bool) {
        self.tcp.set_nodelay(on);
    }

    /// See [`TcpStream::set_keepalive`].
    pub fn set_keepalive(&self, idle: Option<Duration>) {
        self.tcp.set_keepalive(idle);
    }

    /// See [`TcpStream::set_buffers`].
    pub fn set_buffers(&self, send: usize, receive: usize) {
        self.tcp.set_buffers(send, receive);
    }
}

/// The codec of a connection that has one.
fn session(t: &mut Tcb) -> Result<&mut TlsSession, TlsError> {
    let error = t.conn.error.unwrap_or(SocketError::Closed);
    t.conn.tls_mut().ok_or(TlsError::Socket(error))
}

/// Bytes of content that fit, if that is worth a call with `wanted`. Else `waiting` is woken when it is: when half of
/// the buffer is free.
fn room(t: &mut Tcb, wanted: usize, waiting: Option<WaitBy<'_>>) -> Result<usize, TlsError> {
    may_write(t).inspect_err(|e| wait_for(t, Want::Write, *e, waiting))?;
    let (space, hiwat) = (t.send.buf.space(), t.send.buf.hiwat());
    let tls = session(t)?;
    tls.may_frame()?;
    let room = tls.content_for(space);
    let least = wanted
        .min(tls.content_max())
        .min(tls.content_for(hiwat / 2));
    if room < least.max(1) && wanted > 0 {
        wait_for(t, Want::Write, SocketError::WouldBlock, waiting);
        return Err(SocketError::WouldBlock.into());
    }
    Ok(room)
}

/// Puts records of all of `data` into the send buffer. After an error the rest is in `data`.
pub(super) fn frame_chain(t: &mut Tcb, data: &mut Chain) -> Result<(), TlsError> {
    let piece = session(t)?.content_max();
    while !data.is_empty() {
        session(t)?.may_frame()?;
        let record = data.take_front(piece)?;
        append(t, record.into())?;
    }
    Ok(())
}

/// Says the end of our stream: close_notify, if there is TLS, and FIN.
pub(super) fn say_end(t: &mut Tcb) {
    if may_send(t).is_ok()
        && let Some(tls) = t.conn.tls_mut()
    {
        tls.close();
        flush(t);
    }
    close_send(t, None);
}

/// Puts one record into the send buffer.
fn append(t: &mut Tcb, content: Chain<Mixed>) -> Result<(), TlsError> {
    let record = session(t)?.frame_data(content)?;
    flush(t);
    t.send.buf.append_record(record);
    Ok(())
}

/// Puts the codec's own records into the send buffer; whether there were any.
fn flush(t: &mut Tcb) -> bool {
    let Some(tls) = t.conn.tls_mut() else {
        return false;
    };
    let records = tls.take_outbox();
    let any = !records.is_empty();
    if may_send(t).is_ok() {
        records
            .into_iter()
            .for_each(|record| t.send.buf.append_record(record));
    }
    any
}

sends_files! {
    /// Moves as much of a file into records as the send buffer takes, and returns the number of bytes. The pages of a
    /// [`SealedFile`](super::SealedFile) are encrypted from where they lie.
    ///
    /// # Errors
    /// As of [`TcpStream::send_file`], and [`SendFileError::Tls`].
    #[doc(alias = "SSL_sendfile")]
    TlsStream
}

impl FileSink for TlsStream {
    fn pool(&self) -> &MbufPool {
        self.tcp.pool()
    }

    fn timeout(&self) -> Option<Duration> {
        self.tcp.call_timeout(Want::Write)
    }

    fn stack(&self) -> Option<&StackState> {
        Some(&self.tcp.stack)
    }

    fn fail(&self) {
        fail(&self.tcp.side());
    }

    fn room(&self, wanted: usize, waiting: Option<WaitBy<'_>>) -> Result<FileRoom, SendFileError> {
        let found = self.tcp.peek_at(|t| {
            let bytes = room(t, wanted, waiting)?;
            Ok::<_, TlsError>(FileRoom {
                bytes,
                piece: session(t)?.content_max().min(ClusterSize::K16.bytes()),
            })
        });
        Ok(found?)
    }

    fn put(&self, pieces: Vec<Chain<Mixed>>, more: bool) -> Result<(), SendFileError> {
        let put = self.tcp.with(|t| {
            room(t, 0, None)?;
            t.set_more_follows(more);
            // Each is one record; what makes a record fail is asked before the first.
            pieces.into_iter().try_for_each(|piece| append(t, piece))
        });
        Ok(put?)
    }
}

impl Drop for TlsStream {
    fn drop(&mut self) {
        // The peer's close_notify is read, so that it is no reason for a reset.
        let unread = self.recv_chain(1).is_ok_and(|data| !data.is_empty());
        let amid = self.tcp.with(|t| {
            let may_send = may_send(t).is_ok();
            let tls = t.conn.tls_mut()?;
            let amid = tls.is_amid() && tls.end().is_none();
            if may_send {
                tls.close();
                flush(t);
            }
            Some(amid)
        });
        if unread || amid == Some(true) {
            self.tcp.abort();
        }
    }
}

kern::impl_debug!(TlsStream |this| tcp: this.tcp, version: this.version());
